#include "processes.h"

#include "base/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- hosts --- */

/* RONDA_TEST_NETNS=a,b: ranks live in network namespaces of these names, as many in each, and meet at
 * RONDA_TEST_ADDR, an address of the first. */
static void meet_across(job *j)
{
    const char *spaces = getenv("RONDA_TEST_NETNS"), *address = getenv("RONDA_TEST_ADDR");
    if (!spaces || !address)
        return;
    j->hosts = 1;
    for (const char *c = spaces; *c; c++)
        j->hosts += *c == ',';
    snprintf(j->address, sizeof j->address, "%.60s:%u", address, test_port());
}

static void move_to_host(const job *j, uint32_t rank)
{
    const uint32_t hosts = j->hosts < j->size ? j->hosts : j->size;
    const char *name = getenv("RONDA_TEST_NETNS");
    char path[100];
    for (uint32_t skip = rank * hosts / j->size; skip > 0; name++)
        skip -= *name == ',';
    snprintf(path, sizeof path, "/run/netns/%.*s", (int)strcspn(name, ","), name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0, "rank %u cannot go to %s: %s", rank, path,
          strerror(errno));
    close(fd);
}

/* --- jobs --- */

job job_open(uint32_t size, int (*body)(job *j, uint32_t rank), const void *context)
{
    static const char template[] = {'X', 'X', 'X', 'X', 'X', 'X', 0};
    job j = {.size = size, .body = body, .context = context};
    snprintf(j.directory, sizeof j.directory, "/tmp/ronda-test-%.6s", template);
    CHECK(mkdtemp(j.directory) != NULL, "no directory: %s", strerror(errno));
    snprintf(j.address, sizeof j.address, "file:%s/door", j.directory);
    meet_across(&j);
    j.shared =
        mmap(NULL, sizeof *j.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return j;
}

void job_start(job *j)
{
    const pid_t parent = getpid();
    fflush(NULL);
    for (uint32_t r = 0; r < j->size; r++) {
        j->status[r] = -1;
        j->pids[r] = fork();
        CHECK(j->pids[r] >= 0, "no process: %s", strerror(errno));
        if (j->pids[r] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        if (j->hosts)
            move_to_host(j, r);
        const int status = j->body(j, r);
        fflush(NULL);
        _exit(status ? status : test_failed());
    }
}

void job_wait(job *j, unsigned seconds)
{
    const double end = seconds_now() + seconds;
    for (uint32_t running = j->size; running > 0;) {
        running = 0;
        for (uint32_t r = 0; r < j->size; r++) {
            if (j->status[r] != -1)
                continue;
            int status;
            if (waitpid(j->pids[r], &status, WNOHANG) == j->pids[r])
                j->status[r] = status;
            else
                running++;
        }
        if (running && seconds_now() > end) {
            for (uint32_t r = 0; r < j->size; r++)
                if (j->status[r] == -1) {
                    CHECK(seconds_now() <= end, "rank %u (pid %d) was still running after %u s", r,
                          (int)j->pids[r], seconds);
                    kill(j->pids[r], SIGKILL);
                    waitpid(j->pids[r], &j->status[r], 0);
                }
            return;
        }
        if (running)
            sleep_ms(1);
    }
}

bool job_wait_for(job *j, uint32_t rank, unsigned seconds)
{
    const double end = seconds_now() + seconds;
    int status;
    while (j->status[rank] == -1 && seconds_now() < end)
        if (waitpid(j->pids[rank], &status, WNOHANG) == j->pids[rank])
            j->status[rank] = status;
        else
            sleep_ms(2);
    return CHECK(j->status[rank] != -1, "rank %u (pid %d) was still running after %u s", rank,
                 (int)j->pids[rank], seconds);
}

void job_close(job *j)
{
    CHECK(rmdir(j->directory) == 0, "something was left in %s: %s", j->directory, strerror(errno));
    munmap(j->shared, sizeof *j->shared);
}

void job_run(uint32_t size, int (*body)(job *j, uint32_t rank), const void *context,
             unsigned seconds)
{
    job j = job_open(size, body, context);
    job_start(&j);
    job_wait(&j, seconds);
    for (uint32_t r = 0; r < size; r++)
        CHECK(j.status[r] == 0, "rank %u of %u ended with 0x%x", r, size, (unsigned)j.status[r]);
    job_close(&j);
}

typedef struct {
    rank_fn *body;
} play;

static int play_rank(job *j, uint32_t rank)
{
    const play *p = j->context;
    ronda_comm *comm = job_join(j, rank);
    if (!comm)
        return 1;
    p->body(comm, rank);
    CHECK(ronda_close(comm) == RONDA_OK, "rank %u of %u does not close well", rank, j->size);
    return 0;
}

void job_play(uint32_t size, rank_fn *body, unsigned seconds)
{
    job_run(size, play_rank, &(play){body}, seconds);
}

ronda_comm *job_join(job *j, uint32_t rank)
{
    ronda_comm *c = NULL;
    const ronda_config config = {.struct_size = sizeof config,
                                 .rank = rank,
                                 .size = j->size,
                                 .addr = j->address,
                                 .key = "a key of the tests"};
    const ronda_status status = ronda_init(&config, &c);
    CHECK(status == RONDA_OK, "rank %u of %u: %s", rank, j->size, ronda_last_error(NULL));
    return c;
}

/* --- what is left --- */

uint32_t open_files(void)
{
    uint32_t n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

typedef struct {
    void (*body)(job *j, uint32_t rank);
    job *j;
    uint32_t rank;
} life;

static void live(void *context, uint32_t thread)
{
    const life *l = context;
    (void)thread;
    l->body(l->j, l->rank);
}

/* In a thread of its own, since malloc counts what a thread has freed and keeps as in use. */
int leave_nothing(job *j, uint32_t rank, void (*body)(job *j, uint32_t rank))
{
    uint8_t mac[RD_MAC];
    rd_mac("once, so that libcrypto has what it keeps", "", 0, mac);
    mallopt(M_ARENA_MAX, 1); /* a new one would be counted, too */
    const uint32_t files = open_files();
    const size_t memory = mallinfo2().uordblks;
    run_ranks(1, live, &(life){body, j, rank});
    CHECK(open_files() == files, "rank %u: %u files are open, not %u", rank, open_files(), files);
    CHECK(test_sanitized() || mallinfo2().uordblks <= memory + 1024,
          "rank %u: %zu bytes in use have become %zu", rank, memory, mallinfo2().uordblks);
    return 0;
}
