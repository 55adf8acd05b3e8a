/* tutorial_death.c: a rank dies in the middle of the work; the others hear of it and save what they have. */
#include <ronda.h>
#include <signal.h>
#include <stdio.h>

enum { STEPS = 5 };

int main(void)
{
    ronda_comm *comm = NULL;
    if (ronda_init(NULL, &comm)) {
        fprintf(stderr, "%s\n", ronda_last_error(NULL));
        return 1;
    }
    /* When a rank fails `ronda run` tells the others to end, by SIGTERM.  These have something to do
     * first, and five seconds for it (ronda run --grace). */
    signal(SIGTERM, SIG_IGN);

    const uint32_t rank = ronda_rank(comm);
    float x = 1;
    for (int step = 1; step <= STEPS; step++) {
        if (step == 3 && rank == 1)
            raise(SIGKILL); /* as the kernel does when memory runs out */
        const ronda_status status = ronda_allreduce(comm, &x, &x, 1, RONDA_F32, RONDA_MEAN);
        if (status == RONDA_OK)
            continue;
        fprintf(stderr, "rank %u: step %d: %s\n", rank, step, ronda_last_error(comm));
        if (status == RONDA_EPEER)
            printf("rank %u saves the weights of step %d\n", rank, step - 1);
        ronda_close(comm); /* at once: nobody waits for the dead */
        return 1;
    }
    return ronda_close(comm) != RONDA_OK;
}
