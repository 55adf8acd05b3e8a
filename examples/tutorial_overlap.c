/* tutorial_overlap.c: the gradients of one layer travel while those of the next are computed. */
#include <ronda.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 4, WIDTH = 50000, STEPS = 20 };
static float weights[LAYERS][WIDTH], slopes[LAYERS][WIDTH];

static void must(ronda_comm *comm, ronda_status status)
{
    if (status == RONDA_OK)
        return;
    fprintf(stderr, "%s\n", ronda_last_error(comm));
    exit(1);
}

/* Stands for the work of a backward pass: this rank's data would have all weights be `wish`. */
static void backward(int layer, float wish)
{
    for (int i = 0; i < WIDTH; i++)
        slopes[layer][i] = weights[layer][i] - wish;
}

int main(void)
{
    ronda_comm *comm = NULL;
    must(NULL, ronda_init(NULL, &comm));
    const float wish = (float)ronda_rank(comm);

    for (int step = 0; step < STEPS; step++) {
        ronda_request *requests[LAYERS] = {NULL};
        for (int layer = LAYERS - 1; layer >= 0; layer--) {
            backward(layer, wish * (float)(layer + 1));
            must(comm, ronda_iallreduce(comm, slopes[layer], slopes[layer], WIDTH, RONDA_F32,
                                        RONDA_MEAN, &requests[layer]));
            /* What is under way moves when ronda is called: once a layer, let it */
            bool done;
            must(comm, ronda_test(requests[LAYERS - 1], &done));
        }
        must(comm, ronda_wait_all(requests, LAYERS)); /* from here on slopes are ours again */
        for (int layer = 0; layer < LAYERS; layer++)
            for (int i = 0; i < WIDTH; i++)
                weights[layer][i] -= 0.5f * slopes[layer][i];
    }
    for (int layer = 0; layer < LAYERS && ronda_rank(comm) == 0; layer++)
        printf("layer %d: all weights are near %.3f\n", layer, weights[layer][WIDTH - 1]);
    return ronda_close(comm) != RONDA_OK;
}
