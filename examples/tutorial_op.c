/* tutorial_op.c: an op of one's own: the log of a sum of exponentials, without overflow. */
#include <math.h>
#include <ronda.h>
#include <stdio.h>
#include <stdlib.h>

static void must(ronda_comm *comm, ronda_status status)
{
    if (status == RONDA_OK)
        return;
    fprintf(stderr, "%s\n", ronda_last_error(comm));
    exit(1);
}

/* out = log(exp(left) + exp(right)), for floats.  `out` may be `left` or `right`. */
static void log_add(void *context, const void *left, const void *right, void *out, size_t count,
                    ronda_type type)
{
    const float *a = left, *b = right;
    float *to = out;
    (void)context;
    if (type != RONDA_F32)
        abort(); /* this program calls it with no other */
    for (size_t i = 0; i < count; i++)
        to[i] = fmaxf(a[i], b[i]) + log1pf(expf(-fabsf(a[i] - b[i])));
}

int main(void)
{
    ronda_comm *comm = NULL;
    ronda_op log_sum;
    must(NULL, ronda_init(NULL, &comm));
    must(NULL, ronda_op_create("log_add", log_add, NULL, true, &log_sum));

    /* Softmax over scores that no rank has all of: exp(1000) alone is more than a float can be. */
    const float score = 1000 + (float)ronda_rank(comm);
    float total;
    must(comm, ronda_allreduce(comm, &score, &total, 1, RONDA_F32, log_sum));
    printf("rank %u: its share is %.3f\n", ronda_rank(comm), expf(score - total));
    return ronda_close(comm) != RONDA_OK;
}
