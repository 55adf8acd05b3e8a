/* test_forks.c: ranks over sockets that fork, as programs do whose helpers load data: what the child has inherited
 * hides no death, and hurts nobody when its parent closes. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "processes.h"

enum { SIZE = 3, VICTIM = 1, CHILD = 10, OVER = 20 }; /* places in job.shared->number */

/* It has all that its parent has open, and does nothing with it until the test is over. */
static void fork_helper(job *j, uint32_t rank)
{
    const pid_t child = fork();
    if (child) {
        j->shared->number[CHILD + rank] = (uint64_t)child;
        return;
    }
    for (int i = 0; i < 6000 && !((volatile uint64_t *)j->shared->number)[OVER]; i++)
        usleep(10000);
    _exit(0);
}

static ronda_comm *join(job *j, uint32_t rank)
{
    ronda_comm *world = NULL;
    uint32_t word = rank + 1;
    const ronda_config config = {
        .struct_size = sizeof config, .rank = rank, .size = j->size, .addr = j->address};
    if (!CHECK(ronda_init(&config, &world) == RONDA_OK, "%s", ronda_last_error(NULL)))
        return NULL;
    ronda_set_timeout(world, 30000000000);
    CHECK(!ronda_allreduce(world, &word, &word, 1, RONDA_U32, RONDA_SUM) && word == 6, "%u: %s",
          word, ronda_last_error(world));
    return world;
}

/* --- a rank with a helper is killed --- */

static int outlive(job *j, uint32_t rank)
{
    ronda_comm *world = join(j, rank);
    uint32_t word = 0;
    ronda_status status = RONDA_OK;
    if (!world)
        return 1;
    if (rank == VICTIM)
        fork_helper(j, rank);
    j->shared->number[rank] = 1;
    while (!status)
        status = ronda_allreduce(world, &word, &word, 1, RONDA_U32, RONDA_SUM);
    CHECK(status == RONDA_EPEER && strstr(ronda_last_error(world), "rank 1 (host "), "%d: %s",
          status, ronda_last_error(world));
    CHECK(ronda_close(world) == RONDA_OK, "close");
    return test_failed();
}

static void end_helpers(job *j)
{
    ((volatile uint64_t *)j->shared->number)[OVER] = 1;
    for (uint32_t r = 0; r < SIZE; r++)
        if (j->shared->number[CHILD + r])
            kill((pid_t)j->shared->number[CHILD + r], SIGKILL);
}

TEST(a_rank_with_a_helper_is_killed)
{
    setenv("RONDA_TRANSPORT", "tcp", 1);
    test_deadline(100);
    job j = job_open(SIZE, outlive, NULL);
    job_start(&j);
    const double end = seconds_now() + 30;
    while (!((volatile uint64_t *)j.shared->number)[VICTIM] && seconds_now() < end)
        usleep(1000);
    usleep(20000);
    kill(j.pids[VICTIM], SIGKILL);
    job_wait(&j, 60);
    for (uint32_t r = 0; r < SIZE; r++)
        CHECK(r == VICTIM || j.status[r] == 0, "rank %u ended with 0x%x", r, (unsigned)j.status[r]);
    end_helpers(&j);
    job_close(&j);
    unsetenv("RONDA_TRANSPORT");
}

/* --- ranks with helpers close --- */

static int close_in_order(job *j, uint32_t rank)
{
    ronda_comm *world = join(j, rank);
    if (!world)
        return 1;
    fork_helper(j, rank);
    uint32_t word = rank + 1;
    CHECK(!ronda_allreduce(world, &word, &word, 1, RONDA_U32, RONDA_SUM) && word == 6, "%s",
          ronda_last_error(world));
    usleep(rank * 20000);
    CHECK(ronda_close(world) == RONDA_OK, "%s", ronda_last_error(NULL));
    return test_failed();
}

TEST(ranks_with_helpers_close)
{
    setenv("RONDA_TRANSPORT", "tcp", 1);
    test_deadline(100);
    for (int i = 0; i < 5 && !test_failed(); i++) {
        job j = job_open(SIZE, close_in_order, NULL);
        job_start(&j);
        job_wait(&j, 60);
        for (uint32_t r = 0; r < SIZE; r++)
            CHECK(j.status[r] == 0, "rank %u ended with 0x%x", r, (unsigned)j.status[r]);
        end_helpers(&j);
        job_close(&j);
    }
    unsetenv("RONDA_TRANSPORT");
}
