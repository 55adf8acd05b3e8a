/* bench_plans.c: what a call costs that is not like the one before it.
 *
 * First the CPU time of a shape that is new to a rank: chosen and planned, the first of its size class
 * and another one of the same class; of ranks on one host, and of 1,024 on several.  Then the time of a call if 1, 64 or 1,000 shapes take turns, of two
 * ranks as processes, beside that of one shape: a plan that is kept costs a look into a hash. */
#include <math.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plan/choose.h"
#include "plan/hosts.h"
#include "ranks.h"
#include "transport/transports.h"

enum { SHAPES = 1000, LEAST = 256, ROUNDS = 20000 };

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double plan_us(ronda_comm *comm, ronda_kind kind, size_t count)
{
    const ronda_call call = {.struct_size = sizeof call,
                             .kind = kind,
                             .type = RONDA_F32,
                             .op = RONDA_SUM,
                             .count = count};
    ronda_plan *plan = NULL;
    const double start = cpu_us();
    if (ronda_plan_create(comm, &call, &plan))
        die(ronda_last_error(comm));
    const double took = cpu_us() - start;
    ronda_plan_free(plan);
    return took;
}

/* The same for ranks of several hosts, which are not here: the first of its class is chosen too. */
static double plan_far_us(const rd_hosts *hosts, ronda_kind kind, size_t count, bool first)
{
    const rd_facts facts = rd_facts_of(&rd_mixed, hosts->size);
    const rd_shape shape = {
        .kind = kind, .size = hosts->size, .width = 4, .count = count, .hosts = hosts};
    const rd_shape class = rd_class_of(&shape);
    static const rd_algorithm *chosen;
    const double start = cpu_us();
    if (first)
        chosen = rd_choose(&class, &facts, NULL, NULL);
    rd_plan *plan =
        chosen ? rd_plan_build(chosen, &shape, rd_segment_for(&facts, chosen, &shape)) : NULL;
    if (!plan)
        die("no memory");
    const double took = cpu_us() - start;
    rd_plan_free(plan);
    return took;
}

/* The least of three: what the machine did meanwhile is not the price of a plan. */
static double least_far_us(const rd_hosts *hosts, ronda_kind kind, size_t count, bool first)
{
    double least = HUGE_VAL;
    for (int i = 0; i < 3; i++)
        least = fmin(least, plan_far_us(hosts, kind, count, first));
    return least;
}

/* hosts: NULL, or where the n ranks are. */
static void show_misses(uint32_t n, const rd_hosts *hosts)
{
    static const struct {
        ronda_kind kind;
        const char *name;
    } kinds[] = {{RONDA_ALLREDUCE, "allreduce"},
                 {RONDA_BROADCAST, "broadcast"},
                 {RONDA_ALLGATHER, "allgather"},
                 {RONDA_REDUCE_SCATTER, "reduce_scatter"},
                 {RONDA_ALLTOALL, "alltoall"}};
    enum { CLASSES = 9 };
    ronda_comm **comms = hosts ? NULL : memory(n * sizeof *comms);
    if (comms && ronda_init_local(n, comms))
        die(ronda_last_error(NULL));
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const ronda_kind kind = kinds[k].kind;
        double first = 0, next = 0;
        for (int i = 0; i < CLASSES; i++) {
            const size_t count = (size_t)64 << 2 * i;
            const double a =
                hosts ? least_far_us(hosts, kind, count, true) : plan_us(comms[0], kind, count);
            const double b = hosts ? least_far_us(hosts, kind, count + 4, false)
                                   : plan_us(comms[0], kind, count + 4);
            first = a > first ? a : first;
            next = b > next ? b : next;
        }
        printf("%-16s %6u %6u %20.0f %20.0f\n", kinds[k].name, n, hosts ? hosts->count : 1, first,
               next);
    }
    for (uint32_t r = 0; comms && r < n; r++)
        ronda_close(comms[r]);
    free(comms);
}

static double rotate_us(ronda_comm *comm, float *x, uint32_t shapes, uint32_t rounds)
{
    double best = 0;
    for (int turn = -1; turn < 3; turn++) {
        const uint64_t start = rd_now_ns();
        for (uint32_t i = 0; i < rounds; i++) {
            const size_t count = shapes == 1 ? LEAST + SHAPES / 2 : LEAST + i % shapes;
            if (ronda_allreduce(comm, x, x, count, RONDA_F32, RONDA_MAX))
                die(ronda_last_error(comm));
        }
        const double us = (double)(rd_now_ns() - start) / 1e3 / rounds;
        best = turn < 0 ? 1e9 : us < best ? us : best; /* the first turn plans */
    }
    return best;
}

static void be_rank(uint32_t rank, const char *addr, const char *transport, uint32_t rounds)
{
    static const uint32_t shapes[] = {1, 64, SHAPES};
    const ronda_config config = {.struct_size = sizeof config,
                                 .rank = rank,
                                 .size = 2,
                                 .addr = addr,
                                 .key = "of this bench",
                                 .transport = transport};
    ronda_comm *comm;
    float *x = memory((LEAST + SHAPES) * sizeof *x);
    if (ronda_init(&config, &comm))
        die(ronda_last_error(NULL));
    for (int i = 0; i < 3; i++) {
        const double us = rotate_us(comm, x, shapes[i], rounds);
        if (rank == 0)
            printf("%-16s %6u %20.2f\n", transport, shapes[i], us);
    }
    fflush(stdout);
    ronda_close(comm);
    free(x);
}

static void show_rotation(const char *transport, uint32_t rounds)
{
    char addr[100], folder[] = "/tmp/bench_plans.XX"
                               "XX"
                               "XX"; /* what mkdtemp() replaces */
    pid_t pids[2];
    if (!mkdtemp(folder))
        die("no folder");
    snprintf(addr, sizeof addr, "file:%s/s", folder);
    fflush(stdout);
    for (uint32_t r = 0; r < 2; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            be_rank(r, addr, transport, rounds);
            _exit(0);
        }
    }
    for (int r = 0; r < 2; r++) {
        int status = 1;
        if (pids[r] < 0 || waitpid(pids[r], &status, 0) < 0 || status)
            die("a rank failed");
    }
    snprintf(addr, sizeof addr, "%s/s", folder);
    unlink(addr);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !quick) {
        fprintf(stderr, "bench_plans: takes --quick\n");
        return 2;
    }
    printf("a new shape, microseconds of CPU (the most of 9 classes of 256 bytes to 16 MiB)\n");
    printf("%-16s %6s %6s %20s %20s\n", "", "ranks", "hosts", "first of its class",
           "next of its class");
    show_misses(2, NULL);
    show_misses(64, NULL);
    show_misses(256, NULL);
    show_misses(1024, NULL);
    for (uint32_t n = 2; n <= 512; n = n == 2 ? 16 : 2 * n) {
        rd_hosts *hosts = rd_hosts_even(n, 1024 / n);
        if (!hosts)
            die("no memory");
        show_misses(1024, hosts);
        rd_hosts_free(hosts);
    }
    printf("\nshapes in rotation, microseconds of an allreduce of 1 to 5 KiB, 2 ranks\n");
    printf("%-16s %6s %20s\n", "", "shapes", "a call");
    show_rotation("shm", quick ? ROUNDS / 10 : ROUNDS);
    show_rotation("tcp", quick ? ROUNDS / 10 : ROUNDS);
    return 0;
}
