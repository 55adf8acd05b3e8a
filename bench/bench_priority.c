/* bench_priority.c: how long a small call takes beside large ones, by its priority.
 *
 *     bench_priority [--quick] [--ranks N] [--bytes BYTES] [--calls N] [--small BYTES]
 *
 * Every rank starts allreduces of 64 MiB in all (--bytes, in --calls calls), lets them move for a while and posts a
 * small call: a barrier, or with --small an allreduce.  What is measured is the time from that post until its wait
 * returns, on the slowest rank.  Three cases are taken in turn:
 *
 *     alone    nothing else is under way
 *     equal    the small call has the priority of the large ones
 *     higher   it has more
 *
 * over threads, processes and sockets of this host.  "piece" is what 256 KiB of the large calls take when they
 * have the ranks for themselves: a small call of higher priority is to take at most twice its time alone, and one
 * piece.  With RONDA_PROGRESS=1 ronda's own threads move the calls. */
#include "ranks.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CASES = 3, MOST_CALLS = 64, PIECE = 256 << 10, TRIES = 400 };
enum { ALONE, EQUAL, HIGHER };
enum { THREADS, PROCESSES, SOCKETS, WAYS };

static uint32_t ranks = 2;
static size_t large_bytes = 64 << 20, small_bytes;
static int calls = 1, samples = 40;

/* What the ranks say, in memory that all of them see. */
static struct {
    double us[MOST_RANKS][CASES][TRIES];
    double large_us[MOST_RANKS][TRIES];
    _Atomic uint32_t met; /* how often ranks have come to a meeting */
} * said;

static double now_us(void)
{
    return (double)rd_now_ns() / 1e3;
}

static void check(ronda_comm *comm, ronda_status status)
{
    if (status)
        die(ronda_last_error(comm));
}

/* Before each post of a small call, untimed: a rank that comes late would be measured otherwise. */
static void meet_all(uint32_t nth)
{
    atomic_fetch_add(&said->met, 1);
    while (atomic_load(&said->met) < nth * ranks) {
        if (ranks <= rd_usable_cpus())
            rd_relax(); /* who yields may lose its core for a millisecond, and be late */
        else
            sched_yield();
    }
}

static ronda_request *post(ronda_comm *comm, float *x, size_t bytes, int priority)
{
    const ronda_call call = {.struct_size = sizeof call,
                             .kind = bytes ? RONDA_ALLREDUCE : RONDA_BARRIER,
                             .type = RONDA_F32,
                             .op = RONDA_MAX,
                             .send = x,
                             .recv = x,
                             .count = bytes / sizeof *x,
                             .priority = priority};
    ronda_request *r = NULL;
    check(comm, ronda_post(comm, &call, &r));
    return r;
}

static double sample(ronda_comm *comm, int which, uint32_t nth, float *large, float *small,
                     double *large_us)
{
    ronda_request *requests[MOST_CALLS] = {NULL};
    bool done;
    check(comm, ronda_barrier(comm));
    const double start = now_us();
    for (int i = 0; i < calls && which != ALONE; i++)
        requests[i] = post(comm, large + (size_t)i * (large_bytes / (size_t)calls / sizeof *large),
                           large_bytes / (size_t)calls, 0);
    for (int i = 0; i < 8 && which != ALONE; i++) /* until they are under way on all ranks */
        check(comm, ronda_test(requests[0], &done));
    meet_all(nth);
    const double from = now_us();
    check(comm, ronda_wait(post(comm, small, small_bytes, which == HIGHER ? 10 : 0)));
    const double us = now_us() - from;
    check(comm, ronda_wait_all(requests, MOST_CALLS));
    *large_us = now_us() - start;
    return us;
}

static void run_rank(ronda_comm *comm)
{
    const uint32_t rank = ronda_rank(comm);
    float *large = memory(large_bytes), *small = memory(small_bytes + sizeof *small);
    double ignored;
    uint32_t nth = 0;
    for (int k = -2; k < samples; k++)
        for (int which = 0; which < CASES; which++) {
            double *large_us = k >= 0 && which == EQUAL ? &said->large_us[rank][k] : &ignored;
            const double us = sample(comm, which, ++nth, large, small, large_us);
            if (k >= 0)
                said->us[rank][which][k] = us;
        }
    free(large);
    free(small);
    check(NULL, ronda_close(comm));
}

static void *run_thread(void *comm)
{
    run_rank(comm);
    return NULL;
}

static void run_threads(void)
{
    ronda_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    check(NULL, ronda_init_local(ranks, comms));
    for (uint32_t r = 0; r < ranks; r++)
        if (pthread_create(&threads[r], NULL, run_thread, comms[r]))
            die("no thread");
    for (uint32_t r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
}

static void run_processes(int way)
{
    char address[80];
    if (way == SOCKETS)
        snprintf(address, sizeof address, "127.0.0.1:%d", 20000 + getpid() % 10000);
    else
        snprintf(address, sizeof address, "file:/tmp/bench_priority.%d", (int)getpid());
    for (uint32_t r = 0; r < ranks; r++) {
        const pid_t pid = fork();
        if (pid < 0)
            die("cannot fork");
        if (pid)
            continue;
        ronda_comm *comm;
        const ronda_config config = {.struct_size = sizeof config,
                                     .rank = r,
                                     .size = ranks,
                                     .addr = address,
                                     .transport = way == SOCKETS ? "tcp" : "shm"};
        check(NULL, ronda_init(&config, &comm));
        run_rank(comm);
        _exit(0);
    }
    for (int status; wait(&status) > 0;)
        if (status)
            die("a rank has failed");
}

/* The slowest rank's, sorted. */
static void slowest(int which, double v[])
{
    for (int k = 0; k < samples; k++) {
        v[k] = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            const double us = which < CASES ? said->us[r][which][k] : said->large_us[r][k];
            v[k] = us > v[k] ? us : v[k];
        }
    }
    median(v, samples);
}

static void show(const char *name)
{
    static double v[TRIES];
    slowest(CASES, v);
    const double large = v[samples / 2];
    printf("%-10s %10.0f %8.0f", name, large, large * PIECE / (double)large_bytes);
    for (int which = 0; which < CASES; which++) {
        slowest(which, v);
        printf(" %10.1f %10.1f", v[samples / 2], v[samples * 99 / 100]);
    }
    printf("\n");
    fflush(stdout);
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const long n = i + 1 < argc ? strtol(argv[i + 1], NULL, 10) : 0;
        if (strcmp(argv[i], "--quick") == 0)
            samples = 10;
        else if (strcmp(argv[i], "--ranks") == 0 && n > 1 && n <= MOST_RANKS && ++i)
            ranks = (uint32_t)n;
        else if (strcmp(argv[i], "--bytes") == 0 && n >= PIECE && ++i)
            large_bytes = (size_t)n;
        else if (strcmp(argv[i], "--calls") == 0 && n > 0 && n <= MOST_CALLS && ++i)
            calls = (int)n;
        else if (strcmp(argv[i], "--small") == 0 && n >= 4 && ++i)
            small_bytes = (size_t)n;
        else
            die("bench_priority takes --quick, --ranks N, --bytes BYTES, --calls N, --small BYTES");
    }
}

int main(int argc, char **argv)
{
    const char *const names[WAYS] = {"threads", "processes", "tcp"};
    read_options(argc, argv);
    said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (said == MAP_FAILED)
        die("no memory");
    printf(
        "priority: %u ranks, %s beside %d allreduces of %zu bytes; microseconds, median and p99 of %d\n\n",
        ranks, small_bytes ? "a small allreduce" : "a barrier", calls, large_bytes / (size_t)calls,
        samples);
    printf("%-10s %10s %8s %21s %21s %21s\n", "", "large", "piece", "alone", "equal", "higher");
    for (int way = 0; way < WAYS; way++) {
        atomic_store(&said->met, 0);
        way == THREADS ? run_threads() : run_processes(way);
        show(names[way]);
    }
    return 0;
}
