/* test_processes.c: ranks as processes over shared memory: right results, and every way to die. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "calls.h"
#include "plan/plan.h"
#include "processes.h"

enum { PROGRAM = 40 };

typedef struct {
    planned_call calls[PROGRAM];
    uint32_t count;
} program;

/* --- right results: buffers are from malloc or from ronda_alloc, alike on all ranks or not --- */

static int run_program(job *j, uint32_t rank)
{
    const program *p = j->context;
    const uint32_t files = open_files();
    ronda_comm *c = job_join(j, rank);
    for (uint32_t i = 0; c && i < p->count; i++) {
        const planned_call *q = &p->calls[i];
        const uint32_t given = q->skew % 3 ? (q->skew ^ rank * 5) % 4 : q->skew / 3 % 4;
        call_buffers b =
            call_open_in(c, given, &q->call, rank, q->in_place >> rank % 64 & 1, q->skew);
        const ronda_status status = call_run(c, &b);
        if (!CHECK(status == RONDA_OK, "%s: %s", model_text(&q->call), ronda_last_error(c)) ||
            !CHECK(call_right(&b, q->whole), "%s: rank %u is wrong", model_text(&q->call), rank))
            return 1;
        call_close(&b);
    }
    CHECK(ronda_close(c) == RONDA_OK, "rank %u did not close well", rank);
    CHECK(open_files() == files, "%u files are open, not %u", open_files(), files);
    return 0;
}

static void run_and_free(uint32_t size, program *p)
{
    job_run(size, run_program, p, 60);
    calls_free(p->calls, p->count);
}

TEST(random_programs)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 8, 13, 17};
    rng r = rng_start();
    static program p;
    test_deadline(300);
    for (uint32_t i = 0; i < 7 && !test_failed(); i++) {
        p.count = test_sanitized() ? 10 : PROGRAM;
        for (uint32_t k = 0; k < p.count; k++) {
            const model_call c =
                model_draw(&r, model_kind(&r), sizes[i], k % 10 == 9 ? 4 << 20 : 1 << 14);
            p.calls[k] = call_plan(&r, &c, true);
        }
        run_and_free(sizes[i], &p);
    }
}

TEST(every_algorithm)
{
    rng r = rng_start();
    static program p;
    test_deadline(300);
    for (const rd_algorithm *a = rd_algorithms; a->name && !test_failed(); a++) {
        char force[64];
        const uint32_t n = 2 + (uint32_t)rng_below(&r, 5);
        snprintf(force, sizeof force, "%s=%s", rd_kind_name(a->kind), a->name);
        setenv("RONDA_ALGO", force, 1);
        p.count = 8;
        for (uint32_t k = 0; k < p.count; k++) {
            const model_call c = model_draw(&r, a->kind, n,
                                            k == 7  ? 6 << 20
                                            : k % 2 ? 1 << 10
                                                    : 1 << 17);
            p.calls[k] = call_plan(&r, &c, true);
        }
        run_and_free(n, &p);
        unsetenv("RONDA_ALGO");
    }
}

/* Results that are too long for caches have stores of their own; skews put them anywhere. */
TEST(results_that_no_cache_holds)
{
    static const ronda_kind kinds[] = {RONDA_ALLGATHER, RONDA_ALLTOALL, RONDA_GATHER,
                                       RONDA_ALLREDUCE};
    rng r = rng_start();
    static program p;
    test_deadline(120);
    p.count = test_sanitized() ? 2 : 4;
    const uint64_t first = rng_below(&r, 4);
    for (uint32_t k = 0; k < p.count; k++) {
        const ronda_kind kind = kinds[(first + k) % 4];
        const uint64_t most = kind == RONDA_ALLREDUCE ? 9 << 20 : 6 << 20; /* of a block */
        const model_call c = {.kind = kind,
                              .type = RONDA_U32,
                              .op = RONDA_SUM,
                              .root = (uint32_t)rng_below(&r, 2),
                              .size = 2,
                              .count = most / 4 - rng_below(&r, 1000),
                              .seed = rng_below(&r, 1 << 20)};
        p.calls[k] = call_plan(&r, &c, true);
        p.calls[k].in_place = 0;
    }
    run_and_free(2, &p);
}

/* --- death --- */

enum { SMALL = 2, LARGE = 1 << 20, MOST_HEARD = 1000 };
static double heard_ms[MOST_HEARD];
static uint32_t heard_count;

/* One of all kinds; y has room for a block of each rank twice. */
static ronda_status call_one(ronda_comm *c, uint64_t i, float *x, float *y, size_t n,
                             const size_t counts[])
{
    const uint32_t size = ronda_size(c), root = (uint32_t)(i / 16 % size);
    float *z = y + n * size;
    switch (i % 16) {
    case 0:
        return ronda_allreduce(c, x, x, n, RONDA_F32, RONDA_SUM);
    case 1:
        return ronda_broadcast(c, x, n, RONDA_F32, root);
    case 2:
        return ronda_allgather(c, x, y, n, RONDA_F32);
    case 3:
        return ronda_barrier(c);
    case 4:
        return ronda_reduce(c, x, y, n, RONDA_F32, RONDA_SUM, root);
    case 5:
        return ronda_allgatherv(c, x, y, counts, RONDA_F32);
    case 6:
        return ronda_reduce_scatter(c, y, x, n, RONDA_F32, RONDA_SUM);
    case 7:
        return ronda_reduce_scatterv(c, y, x, counts, RONDA_F32, RONDA_SUM);
    case 8:
        return ronda_gather(c, x, y, n, RONDA_F32, root);
    case 9:
        return ronda_gatherv(c, x, y, counts, RONDA_F32, root);
    case 10:
        return ronda_scatter(c, y, x, n, RONDA_F32, root);
    case 11:
        return ronda_scatterv(c, y, x, counts, RONDA_F32, root);
    case 12:
        return ronda_alltoall(c, y, z, n, RONDA_F32);
    case 13:
        return ronda_alltoallv(c, y, counts, z, counts, RONDA_F32);
    case 14:
        return ronda_scan(c, x, y, n, RONDA_F32, RONDA_SUM);
    default:
        return ronda_exscan(c, x, y, n, RONDA_F32, RONDA_SUM);
    }
}

/* Calls without end; what happens to the others is the result. */
static int call_until_it_fails(job *j, uint32_t rank)
{
    const size_t count = *(const size_t *)j->context;
    ronda_comm *c = job_join(j, rank);
    float *x = calloc(count, sizeof *x), *y = calloc(2 * count * j->size, sizeof *y);
    size_t counts[MOST_PROCESSES];
    for (uint32_t r = 0; r < j->size; r++)
        counts[r] = count;
    ronda_error e = {.struct_size = sizeof e};
    ronda_status status = RONDA_OK;
    ronda_set_timeout(c, 2000000000);
    for (uint64_t i = 0; !status; i++) {
        j->shared->number[rank] = i + 1;
        status = call_one(c, i, x, y, count, counts);
    }
    j->shared->when[rank] = rd_now_ns();
    ronda_get_error(c, &e);
    j->shared->number[rank] = (uint64_t)(uint32_t)-status << 32 | e.peer;
    CHECK(ronda_barrier(c) == status, "a later call returned something else");
    char pid[32];
    snprintf(pid, sizeof pid, "pid %d", (int)j->pids[e.peer < j->size ? e.peer : 0]);
    /* We know the pids of those forked before us */
    if (status == RONDA_EPEER && e.peer < rank)
        CHECK(strstr(e.message, pid) != NULL, "'%s' does not name %s", e.message, pid);
    ronda_close(c);
    free(x);
    free(y);
    return 0;
}

static void strike(uint32_t size, size_t count, int signal, ronda_status expected,
                   uint32_t delay_ms)
{
    job j = job_open(size, call_until_it_fails, &count);
    job_start(&j);
    const uint32_t victim = size / 2;
    while (!j.shared->number[victim] && !test_failed())
        sleep_ms(1);
    sleep_ms(delay_ms);
    const uint64_t killed = rd_now_ns();
    kill(j.pids[victim], signal);
    if (signal == SIGSTOP) {
        sleep_ms(4000);
        kill(j.pids[victim], SIGKILL);
    }
    job_wait(&j, 30);
    for (uint32_t r = 0; r < size; r++) {
        const uint64_t n = j.shared->number[r];
        if (r == victim)
            continue;
        CHECK(j.status[r] == 0, "rank %u ended with 0x%x", r, (unsigned)j.status[r]);
        CHECK((ronda_status) - (int32_t)(n >> 32) == expected && (uint32_t)n == victim,
              "rank %u of %u, %zu elements: status %d about rank %u, not %d about rank %u", r, size,
              count, -(int)(n >> 32), (unsigned)(uint32_t)n, expected, victim);
        if (heard_count < MOST_HEARD)
            heard_ms[heard_count++] = ((double)j.shared->when[r] - (double)killed) / 1e6;
    }
    job_close(&j);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How long after the blow the survivors returned. */
static void tell_heard(void)
{
    qsort(heard_ms, heard_count, sizeof *heard_ms, by_size);
    if (heard_count)
        printf("... %u survivors returned after: median %.1f ms, 90 in 100 %.1f, at most %.1f\n",
               heard_count, heard_ms[heard_count / 2], heard_ms[heard_count * 9 / 10],
               heard_ms[heard_count - 1]);
    heard_count = 0;
}

TEST(a_rank_is_killed_at_any_moment)
{
    rng r = rng_start();
    test_deadline(200);
    for (uint32_t i = 0; i < (test_sanitized() ? 8u : 24u) && !test_failed(); i++)
        strike(2 + i % 4, i % 3 ? SMALL : LARGE, SIGKILL, RONDA_EPEER, (uint32_t)rng_below(&r, 40));
    tell_heard();
}

TEST(a_rank_crashes)
{
    strike(3, SMALL, SIGSEGV, RONDA_EPEER, 5);
}

TEST(a_rank_is_stopped)
{
    test_deadline(120);
    strike(3, SMALL, SIGSTOP, RONDA_ETIMEOUT, 5);
    strike(4, LARGE, SIGSTOP, RONDA_ETIMEOUT, 5);
}

/* Rank 0 only sends, and never hears from the one that no longer takes anything. */
static int broadcasts_to_nobody(job *j, uint32_t rank)
{
    const bool closes = *(const bool *)j->context;
    ronda_comm *c = job_join(j, rank);
    char x[2048] = {0};
    ronda_status status = ronda_broadcast(c, x, sizeof x, RONDA_U8, 0);
    CHECK(status == RONDA_OK, "rank %u: %s", rank, ronda_last_error(c));
    if (rank == 1 && !closes) {
        sleep_ms(2000);
        _exit(0);
    }
    ronda_set_timeout(c, closes ? 20000000000 : 500000000);
    const double start = seconds_now();
    while (rank == 0 && !status && seconds_now() < start + 15)
        status = ronda_broadcast(c, x, sizeof x, RONDA_U8, 0);
    if (rank == 0)
        CHECK(status == (closes ? RONDA_EPEER : RONDA_ETIMEOUT) &&
                  strstr(ronda_last_error(c), "rank 1") && seconds_now() < start + 10,
              "%d after %.1f s: %s", status, seconds_now() - start, ronda_last_error(c));
    ronda_close(c);
    return 0;
}

TEST(a_rank_takes_no_more)
{
    job_run(2, broadcasts_to_nobody, &(bool){false}, 30);
    job_run(2, broadcasts_to_nobody, &(bool){true}, 30);
}

static int leaves_without_a_word(job *j, uint32_t rank)
{
    ronda_comm *c = job_join(j, rank);
    float x[4] = {0};
    if (rank == 1)
        return 0;
    const ronda_status status = ronda_allreduce(c, x, x, 4, RONDA_F32, RONDA_SUM);
    CHECK(status == RONDA_EPEER && strstr(ronda_last_error(c), "rank 1"), "rank %u: %d: %s", rank,
          status, ronda_last_error(c));
    ronda_close(c);
    return 0;
}

TEST(a_rank_exits_without_closing)
{
    job_run(4, leaves_without_a_word, NULL, 30);
}

/* A child that rank 1 has forked exits, too: that is nothing that others are told. */
static void leave(bool killed)
{
    const pid_t child = fork();
    if (child == 0)
        exit(0);
    waitpid(child, NULL, 0);
    if (killed)
        kill(getpid(), SIGKILL);
    exit(0);
}

static int returns_from_main(job *j, uint32_t rank)
{
    const bool killed = *(const bool *)j->context;
    ronda_comm *c = job_join(j, rank), *part = NULL;
    float x[4] = {0};
    CHECK(!ronda_split(c, 0, (int)rank, &part) && !ronda_barrier(part) && !ronda_barrier(c), "%s",
          ronda_last_error(c));
    atomic_fetch_add(&j->shared->number[0], 1);
    while (rank == 1 && atomic_load(&j->shared->number[0]) < j->size)
        sleep_ms(1); /* a death ends whatever call a rank is in */
    if (rank == 1)
        leave(killed);
    ronda_comm *of[] = {c, part};
    for (int i = 0; i < 2; i++) {
        const ronda_status status = ronda_allreduce(of[i], x, x, 4, RONDA_F32, RONDA_SUM);
        const char *text = ronda_last_error(of[i]), *exited = "exited without closing its communic";
        CHECK(status == RONDA_EPEER && strstr(text, "rank 1") &&
                  strstr(text, killed ? "died" : exited) && (!killed || !strstr(text, exited)),
              "rank %u: %d: %s", rank, status, text);
    }
    if (ronda_close(part) || ronda_close(c))
        return 2;
    return 0;
}

TEST(a_rank_returns_from_main_without_closing)
{
    for (int killed = 0; killed < 2; killed++) {
        job j = job_open(4, returns_from_main, &(bool){killed});
        job_start(&j);
        job_wait(&j, 30);
        for (uint32_t r = 0; r < 4; r++)
            CHECK(j.status[r] == (r == 1 && killed ? SIGKILL : 0), "rank %u ended with 0x%x", r,
                  (unsigned)j.status[r]);
        job_close(&j);
    }
}

static int with_its_own_algorithm(job *j, uint32_t rank)
{
    setenv("RONDA_ALGO", rank == 1 ? "allreduce=ring" : "allreduce=two_shot", 1);
    ronda_comm *c = job_join(j, rank);
    float x[4] = {0};
    const ronda_status status = ronda_allreduce(c, x, x, 4, RONDA_F32, RONDA_SUM);
    CHECK(status == RONDA_EMISMATCH && strstr(ronda_last_error(c), "differ in algorithm"),
          "rank %u: %d: %s", rank, status, ronda_last_error(c));
    ronda_close(c);
    return 0;
}

TEST(ranks_with_other_algorithms)
{
    job_run(3, with_its_own_algorithm, NULL, 30);
}

/* --- joining --- */

typedef struct {
    uint32_t rank, size;
    const char *key;
    ronda_status expected;
    const char *says;
} join_case;

/* Rank r joins as cases[r] says, with little patience. */
static int join_as_told(job *j, uint32_t rank)
{
    const join_case *c = (const join_case *)j->context + rank;
    ronda_comm *comm = NULL;
    const ronda_config config = {.struct_size = sizeof config,
                                 .rank = c->rank,
                                 .size = c->size,
                                 .addr = j->address,
                                 .key = c->key,
                                 .start_timeout_ns = 1500000000};
    if (rank)
        sleep_ms(100 * rank);
    const ronda_status status = ronda_init(&config, &comm);
    const char *text = status ? ronda_last_error(NULL) : "joined";
    CHECK(status == c->expected && strstr(text, c->says), "process %u: %d '%s', not %d '%s'", rank,
          status, text, c->expected, c->says);
    if (!status)
        ronda_close(comm);
    return 0;
}

static void join_all(uint32_t processes, const join_case cases[])
{
    job_run(processes, join_as_told, cases, 30);
}

TEST(a_rank_does_not_come)
{
    join_all(2, (const join_case[]){{0, 4, "k", RONDA_ETIMEOUT, "missing: rank 2, 3"},
                                    {1, 4, "k", RONDA_ETIMEOUT, "missing: rank 2, 3"}});
    join_all(1, (const join_case[]){{1, 2, "k", RONDA_ETIMEOUT, "no rank 0 at file:"}});
}

TEST(two_processes_with_one_rank)
{
    join_all(4, (const join_case[]){{0, 3, "k", RONDA_OK, "joined"},
                                    {1, 3, "k", RONDA_OK, "joined"},
                                    {1, 3, "k", RONDA_EINVAL, "there is a rank 1 already"},
                                    {2, 3, "k", RONDA_OK, "joined"}});
}

TEST(another_size_or_key)
{
    join_all(4, (const join_case[]){{0, 2, "k", RONDA_OK, "joined"},
                                    {1, 3, "k", RONDA_EINVAL, "told of 3 ranks, but rank 0 of 2"},
                                    {1, 2, "another", RONDA_EINVAL, "RONDA_KEY is not rank 0's"},
                                    {1, 2, "k", RONDA_OK, "joined"}});
    join_all(3, (const join_case[]){{0, 2, "k", RONDA_OK, "joined"},
                                    {1, 2, NULL, RONDA_EINVAL, "rank 0 has a RONDA_KEY"},
                                    {1, 2, "k", RONDA_OK, "joined"}});
}

/* An unproven connection to rank 0 says rubbish, or nothing. */
static int unproven(job *j, uint32_t rank)
{
    if (rank < 2) {
        static const join_case cases[] = {{0, 2, "k", RONDA_OK, "joined"},
                                          {1, 2, "k", RONDA_OK, "joined"}};
        job mine = *j;
        mine.context = cases;
        if (rank)
            sleep_ms(600);
        return join_as_told(&mine, rank);
    }
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", j->address + 5);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    for (int i = 0; i < 200 && connect(fd, (struct sockaddr *)&name, sizeof name); i++)
        sleep_ms(5);
    rng r = rng_start();
    for (int i = 0; i < 400 && rank % 2; i++) {
        const uint64_t x = rng_next(&r);
        if (send(fd, &x, 1 + x % 8, MSG_NOSIGNAL) < 0)
            break;
    }
    sleep_ms(800);
    close(fd);
    return 0;
}

TEST(strangers_do_no_harm)
{
    job_run(8, unproven, NULL, 30);
}

/* --- a system without pidfds --- */

/* From now on pidfd_open and epoll_pwait2 fail with this; false: that cannot be had here. */
static bool refuse_calls(unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
           syscall(SYS_pidfd_open, getpid(), 0) == -1 && errno == (int)error;
}

/* Rank 1 ends without a word after some calls; the others wait for it. */
static int watch_without_pidfds(job *j, uint32_t rank)
{
    const unsigned *error = j->context;
    if (!refuse_calls(*error))
        return 77;
    ronda_comm *c = job_join(j, rank);
    for (uint32_t i = 0; c && i < 50; i++) {
        double x = rank * 100.0 + i, y = 0;
        const ronda_status status = ronda_allreduce(c, &x, &y, 1, RONDA_F64, RONDA_SUM);
        CHECK(status == RONDA_OK && y == 300.0 + 3 * i, "call %u: %d, %g", i, status, y);
    }
    if (!c || rank == 1)
        _exit(0);
    const uint64_t from = rd_now_ns();
    const ronda_status status = ronda_barrier(c);
    const double seconds = (double)(rd_now_ns() - from) / 1e9;
    CHECK(status == RONDA_EPEER && strstr(ronda_last_error(c), "rank 1 "), "%d: %s", status,
          ronda_last_error(c));
    CHECK(seconds < 10, "after %.1f s", seconds);
    const ronda_status closed = ronda_close(c);
    CHECK(closed == RONDA_OK || closed == RONDA_EPEER, "close: %d", closed);
    return 0;
}

TEST(a_rank_dies_where_there_are_no_pidfds)
{
    static const unsigned errors[] = {ENOSYS, EPERM};
    for (int i = 0; i < 2; i++) {
        job j = job_open(3, watch_without_pidfds, &errors[i]);
        job_start(&j);
        job_wait(&j, 30);
        for (uint32_t r = 0; r < 3; r++)
            if (WIFEXITED(j.status[r]) && WEXITSTATUS(j.status[r]) == 77)
                test_skip("no seccomp filter can be had here");
            else
                CHECK(j.status[r] == 0, "rank %u ended with 0x%x", r, (unsigned)j.status[r]);
        job_close(&j);
    }
}

/* One that has ended is gone, also while its parent does not know, and so is one whose number another has. */
TEST(who_lives_is_known_without_a_pidfd)
{
    int ends[2];
    CHECK(pipe(ends) == 0, "no pipe");
    const pid_t child = fork();
    if (child == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 0);
    }
    const uint64_t start = rd_process_start(child);
    CHECK(child > 0 && start && !rd_process_gone(child, start) && !rd_process_gone(child, 0),
          "it lives");
    CHECK(rd_process_gone(child, start + 1), "another one has its number");
    close(ends[0]);
    close(ends[1]);
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
    CHECK(rd_process_gone(child, start), "it has ended");
    waitpid(child, NULL, 0);
    CHECK(rd_process_gone(child, start) && rd_process_start(child) == 0, "nothing is left of it");
}
