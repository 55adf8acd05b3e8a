/* tutorial_hello.c: who am I, how many are we, and is everybody here? */
#include <ronda.h>
#include <stdio.h>
#include <stdlib.h>

/* What most programs want of an error: the sentence, and the end. */
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
    printf("rank %u of %u says hello\n", ronda_rank(comm), ronda_size(comm));
    must(comm, ronda_barrier(comm));
    if (ronda_rank(comm) == 0)
        printf("all %u have said it\n", ronda_size(comm));
    return ronda_close(comm) != RONDA_OK;
}
