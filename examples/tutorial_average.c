/* tutorial_average.c: data-parallel training of y = w x + b.
 *
 * Every rank has the same weights and other data.  Each step it computes the gradient of its own data,
 * allreduce makes the mean of all gradients out of it, and all take the same step. */
#include <ronda.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 64, STEPS = 300 };

static void must(ronda_comm *comm, ronda_status status)
{
    if (status == RONDA_OK)
        return;
    fprintf(stderr, "%s\n", ronda_last_error(comm));
    exit(1);
}

/* The mean error's gradient over this rank's samples of y = 2 x + 1. */
static void gradient(const float weights[2], uint32_t rank, uint32_t size, float out[2])
{
    out[0] = out[1] = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const float x = (float)(i * size + rank) / (float)(SAMPLES * size);
        const float error = weights[0] * x + weights[1] - (2 * x + 1);
        out[0] += 2 * error * x / SAMPLES;
        out[1] += 2 * error / SAMPLES;
    }
}

int main(void)
{
    ronda_comm *comm = NULL;
    must(NULL, ronda_init(NULL, &comm));
    const uint32_t rank = ronda_rank(comm), size = ronda_size(comm);

    float weights[2] = {0}, slope[2];
    if (rank == 0) /* as if read from a file that rank 0 alone has */
        weights[0] = -1;
    must(comm, ronda_broadcast(comm, weights, 2, RONDA_F32, 0));

    for (int step = 0; step < STEPS; step++) {
        gradient(weights, rank, size, slope);
        must(comm, ronda_allreduce(comm, slope, slope, 2, RONDA_F32, RONDA_MEAN));
        for (int i = 0; i < 2; i++)
            weights[i] -= 0.5f * slope[i];
    }
    printf("rank %u: y = %.2f x + %.2f\n", rank, weights[0], weights[1]);
    return ronda_close(comm) != RONDA_OK;
}
