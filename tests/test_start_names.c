/* test_start_names.c: the ranks of one host of several join their shared memory, and something goes wrong: sentences
 * call ranks as the whole world counts them, and say who is missing. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/bootstrap.h"
#include "processes.h"

/* Of a world of 16, on this host: */
static const uint32_t names[] = {5, 9, 12};

enum { NOW = 1, NEVER };

typedef struct {
    uint64_t timeout_ns;
    uint32_t late;       /* a rank that comes when the test says so; 0: none */
    uint32_t victim;     /* a rank from which nothing is expected */
    uint32_t peer;       /* what rank 0's error is about, as the host counts */
    const char *says[3]; /* by everybody; NULL: no more */
} scene;

static int join_named(job *j, uint32_t rank)
{
    const scene *s = j->context;
    rd_joining joining = {
        .rank = rank, .size = j->size, .timeout_ns = s->timeout_ns, .names = names};
    rd_error err = {0};
    rd_link *link = NULL;
    memcpy(joining.address.path, j->address + 5, strlen(j->address + 5) + 1);
    while (rank && rank == s->late && !j->shared->number[0])
        sleep_ms(1);
    if (rank && rank == s->late && j->shared->number[0] == NEVER)
        return 0;
    const ronda_status status = rd_bootstrap(&joining, &link, &err);
    CHECK(status, "it has started");
    if (rank == s->victim)
        return 0;
    CHECK(rank || err.peer == s->peer, "about rank %u, not %u", err.peer, s->peer);
    for (uint32_t i = 0; i < 3 && s->says[i]; i++)
        CHECK(strstr(err.message, s->says[i]), "rank %u does not say \"%s\": %s", rank, s->says[i],
              err.message);
    return 0;
}

/* Whether rank 0 has accepted a connection: then there is a socket of this path that is connected. */
static bool somebody_has_come(const char *path)
{
    char line[400];
    FILE *file = fopen("/proc/net/unix", "r");
    unsigned state = 0;
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, path) && sscanf(line, "%*s %*s %*s %*s %*s %x", &state) == 1 &&
                state == 3; /* SS_CONNECTED */
    if (file)
        fclose(file);
    return found;
}

/* Rank 1 has come and waits for the others: this happens to it.  Then the late one comes, or not. */
static void play(const scene *s, int signal_1)
{
    job j = job_open(3, join_named, s);
    const double end = seconds_now() + 20;
    job_start(&j);
    while (signal_1 && !somebody_has_come(j.address + strlen("file:")) && seconds_now() < end)
        sleep_ms(5);
    CHECK(seconds_now() < end, "rank 1 does not come");
    sleep_ms(200); /* for rank 0 to read who it is */
    if (signal_1)
        kill(j.pids[1], signal_1);
    j.shared->number[0] = signal_1 == SIGSTOP ? NOW : NEVER;
    if (signal_1 == SIGSTOP) {
        job_wait_for(&j, 0, 30);
        kill(j.pids[1], SIGKILL);
    }
    job_wait(&j, 30);
    for (uint32_t r = 0; r < 3; r++)
        CHECK(r == s->victim || j.status[r] == 0, "rank %u ended with 0x%x", r,
              (unsigned)j.status[r]);
    job_close(&j);
}

TEST(who_does_not_become_ready_is_named)
{
    play(&(scene){.timeout_ns = 4000000000u,
                  .late = 2,
                  .victim = 1,
                  .peer = 1,
                  .says = {"2 of 3 ranks were ready", "not ready: rank 9"}},
         SIGSTOP);
}

TEST(who_dies_while_a_host_gathers_is_called_as_in_the_world)
{
    play(&(scene){.timeout_ns = 20000000000u,
                  .late = 2,
                  .victim = 1,
                  .peer = 1,
                  .says = {"rank 9 (pid "}},
         SIGKILL);
}

TEST(who_does_not_come_is_called_as_in_the_world)
{
    play(&(scene){.timeout_ns = 1500000000u,
                  .late = 2,
                  .victim = 2,
                  .peer = RONDA_ANY,
                  .says = {"2 of 3 ranks had come", "missing: rank 12"}},
         0);
}
