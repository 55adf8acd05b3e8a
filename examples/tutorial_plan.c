/* tutorial_plan.c: the same collective a thousand times, planned once, in memory that ranks share. */
#include <ronda.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 10000, STEPS = 1000 };

static void must(ronda_comm *comm, ronda_status status)
{
    if (status == RONDA_OK)
        return;
    fprintf(stderr, "%s\n", ronda_last_error(comm));
    exit(1);
}

int main(void)
{
    ronda_comm *comm = NULL;
    must(NULL, ronda_init(NULL, &comm));

    void *memory = NULL; /* freed by ronda_close() */
    must(comm, ronda_alloc(comm, COUNT * sizeof(float), &memory));
    float *values = memory;
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)ronda_rank(comm);

    const ronda_call call = {.struct_size = sizeof call,
                             .kind = RONDA_ALLREDUCE,
                             .type = RONDA_F32,
                             .op = RONDA_MEAN,
                             .count = COUNT};
    ronda_plan *plan = NULL;
    must(comm, ronda_plan_create(comm, &call, &plan));

    for (int step = 0; step < STEPS; step++) {
        ronda_request *request = NULL;
        must(comm, ronda_start(plan, values, values, &request));
        /* ... work that does not touch values ... */
        must(comm, ronda_wait(request));
        for (size_t i = 0; i < COUNT; i++)
            values[i] += 1;
    }
    printf("rank %u: after %d steps the first value is %g\n", ronda_rank(comm), STEPS, values[0]);
    ronda_plan_free(plan);
    return ronda_close(comm) != RONDA_OK;
}
