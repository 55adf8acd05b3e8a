/* test_forks.c: ranks that fork, as programs do whose helpers load data.  What the child has inherited hides no
 * death, and hurts nobody when its parent closes; the child is no rank, and whatever it does with its copy of a
 * communicator is not seen by anybody. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/generation.h"
#include "links.h"
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

static ronda_comm *join_at(const char *address, uint32_t size, uint32_t rank)
{
    ronda_comm *world = NULL;
    uint32_t word = rank + 1;
    const ronda_config config = {
        .struct_size = sizeof config, .rank = rank, .size = size, .addr = address};
    if (!CHECK(ronda_init(&config, &world) == RONDA_OK, "%s", ronda_last_error(NULL)))
        return NULL;
    ronda_set_timeout(world, 30000000000);
    CHECK(!ronda_allreduce(world, &word, &word, 1, RONDA_U32, RONDA_SUM) && word == 6, "%u: %s",
          word, ronda_last_error(world));
    return world;
}

static ronda_comm *join(job *j, uint32_t rank)
{
    return join_at(j->address, j->size, rank);
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

/* --- the child is no rank --- */

enum { WORDS = 40000 }; /* of a buffer that peers read and write where it lies */

/* All that a rank has when it forks. */
typedef struct {
    ronda_comm *comm, *part;
    ronda_request *request; /* a receive that nobody has sent to */
    ronda_plan *plan;
    uint32_t *shared; /* from ronda_alloc */
    uint32_t files;   /* that were open before all of this */
} inherited;

static bool refused(ronda_status status, const char *sentence, const char *call)
{
    return CHECK(status == RONDA_EINVAL && strstr(sentence, "forked") && strstr(sentence, call),
                 "%s: %d, %s", call, status, sentence);
}

static const ronda_call ANY_CALL = {.struct_size = sizeof ANY_CALL,
                                    .kind = RONDA_ALLREDUCE,
                                    .type = RONDA_U32,
                                    .op = RONDA_SUM,
                                    .count = 1};

static void call_everything(const inherited *i, ronda_comm *c)
{
    uint32_t x[2] = {1, 2}, y[2] = {3, 4};
    ronda_call call = ANY_CALL;
    ronda_request *request = NULL;
    ronda_comm *part = NULL;
    ronda_plan *plan = NULL;
    char text[100];
    bool done = false;
    void *memory = NULL;
    call.send = x;
    call.recv = y;
#define REFUSED(what, name) refused(what, ronda_last_error(c), name)
    REFUSED(ronda_allreduce(c, x, y, 2, RONDA_U32, RONDA_SUM), "allreduce");
    REFUSED(ronda_barrier(c), "barrier");
    REFUSED(ronda_iallreduce(c, x, y, 2, RONDA_U32, RONDA_SUM, &request), "allreduce");
    REFUSED(ronda_ibarrier(c, NULL), "barrier");
    REFUSED(ronda_post(c, &call, &request), "ronda_post");
    REFUSED(ronda_send(c, x, 1, RONDA_U32, 0, 1), "send");
    REFUSED(ronda_recv(c, x, 1, RONDA_U32, 0, 1, NULL), "recv");
    REFUSED(ronda_isend(c, x, 1, RONDA_U32, 0, 1, &request), "send");
    REFUSED(ronda_irecv(c, x, 1, RONDA_U32, 0, 1, NULL, &request), "recv");
    REFUSED(ronda_split(c, 0, 0, &part), "ronda_split");
    REFUSED(ronda_abort(c, "by a child"), "ronda_abort");
    REFUSED(ronda_dump(c, 2), "ronda_dump");
    REFUSED(ronda_set_timeout(c, 1), "ronda_set_timeout");
    REFUSED(ronda_alloc(c, 100, &memory), "ronda_alloc");
    REFUSED(ronda_free(c, i->shared), "ronda_free");
    REFUSED(ronda_plan_create(c, &call, &plan), "ronda_plan_create");
    if (c == i->comm) {
        REFUSED(ronda_start(i->plan, x, y, &request), "ronda_start");
        REFUSED(ronda_plan_print(i->plan, text, sizeof text, NULL), "ronda_plan_print");
        REFUSED(ronda_test(i->request, &done), "ronda_test");
        REFUSED(ronda_wait(i->request), "ronda_wait");
        REFUSED(ronda_wait_all((ronda_request *[]){i->request}, 1), "ronda_wait");
    }
#undef REFUSED
    CHECK(!request && !part && !plan && !memory && x[0] == 1 && y[0] == 3, "something came out");
}

static bool maps_shared_memory(void)
{
    char line[400];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, "memfd:ronda") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static void add_up(void *context, uint32_t rank)
{
    ronda_comm **comms = context;
    uint32_t word = rank + 1;
    CHECK(!ronda_allreduce(comms[rank], &word, &word, 1, RONDA_U32, RONDA_SUM) && word == 3, "%s",
          ronda_last_error(comms[rank]));
}

static void play_threads(void)
{
    ronda_comm *own[2];
    if (!CHECK(!ronda_init_local(2, own), "%s", ronda_last_error(NULL)))
        return;
    run_ranks(2, add_up, own);
    CHECK(!ronda_close(own[0]) && !ronda_close(own[1]), "close");
}

/* What a child does: calls, closes, and has a world of its own, before it closes or after that; then one with
 * the children of the other ranks. */
static void live_as_child(const inherited *i, const job *j, uint32_t rank)
{
    char address[120];
    const bool early = rank == 1;
    call_everything(i, i->comm);
    call_everything(i, i->part);
    if (early)
        play_threads();
    refused(ronda_barrier(i->part), ronda_last_error(i->part), "barrier");
    CHECK(ronda_close(i->part) == RONDA_OK, "%s", ronda_last_error(NULL));
    CHECK(ronda_close(i->comm) == RONDA_OK, "%s", ronda_last_error(NULL));
    ronda_plan_free(i->plan);
    CHECK(open_files() == i->files, "%u files are open, not %u", open_files(), i->files);
    CHECK(!maps_shared_memory(), "the shared memory is still mapped");
    play_threads();
    snprintf(address, sizeof address, "%s-children", j->address);
    CHECK(!ronda_close(join_at(address, SIZE, rank)), "%s", ronda_last_error(NULL));
}

static bool add_words(ronda_comm *c, uint32_t *x, uint32_t salt)
{
    const uint32_t n = ronda_size(c), me = ronda_rank(c);
    for (uint32_t i = 0; i < WORDS; i++)
        x[i] = me * 1000 + i + salt;
    if (!CHECK(!ronda_allreduce(c, x, x, WORDS, RONDA_U32, RONDA_SUM), "%s", ronda_last_error(c)))
        return false;
    for (uint32_t i = 0; i < WORDS; i++)
        if (!CHECK(x[i] == n * (n - 1) / 2 * 1000 + n * (i + salt), "element %u is %u", i, x[i]))
            return false;
    return true;
}

static bool prepare_rank(job *j, uint32_t rank, inherited *i)
{
    static uint32_t never[2];
    void *memory = NULL;
    i->files = open_files();
    i->comm = join(j, rank);
    if (!i->comm || !CHECK(!ronda_split(i->comm, 0, -(int)rank, &i->part), "split") ||
        !CHECK(!ronda_alloc(i->comm, WORDS * sizeof(uint32_t), &memory), "alloc") ||
        !CHECK(!ronda_plan_create(i->comm, &ANY_CALL, &i->plan), "plan") ||
        !CHECK(!ronda_irecv(i->comm, never, 2, RONDA_U32, (rank + 1) % SIZE, 99, NULL, &i->request),
               "recv"))
        return false;
    i->shared = memory;
    return add_words(i->comm, i->shared, 1) && add_words(i->part, i->shared, 2);
}

/* The rank goes on while its child lives, and afterwards. */
static void go_on(inherited *i, pid_t child)
{
    const uint32_t me = ronda_rank(i->comm);
    uint32_t word[2] = {me, 7}, last = i->shared[WORDS - 1];
    int status = -1;
    const double end = seconds_now() + 30;
    for (uint32_t salt = 3; salt < 9; salt++)
        if (!add_words(i->comm, i->shared, salt) || !add_words(i->part, i->shared, salt))
            break;
    last = i->shared[WORDS - 1];
    while (waitpid(child, &status, WNOHANG) == 0 && seconds_now() < end)
        usleep(1000);
    if (!CHECK(status == 0, "the child ended with 0x%x", (unsigned)status) && status == -1)
        kill(child, SIGKILL);
    CHECK(i->shared[WORDS - 1] == last, "memory of the rank is gone, or another's");
    CHECK(!ronda_send(i->comm, word, 2, RONDA_U32, (me + SIZE - 1) % SIZE, 99) &&
              !ronda_wait(i->request),
          "%s", ronda_last_error(i->comm));
    if (add_words(i->comm, i->shared, 20) && add_words(i->part, i->shared, 21))
        ronda_plan_free(i->plan);
    CHECK(!ronda_close(i->part) && !ronda_close(i->comm), "%s", ronda_last_error(NULL));
}

typedef struct {
    const char *transport;
    bool thread;  /* of ronda's: calls under way move by themselves */
    bool raw;     /* the child comes of a system call that libc does not see */
    bool handler; /* the kernel wipes no page */
} way_to_fork;

static pid_t make_child(const way_to_fork *how)
{
    const pid_t parent = getpid();
    const pid_t child = how->raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
    }
    return child;
}

static int fork_in_the_middle(job *j, uint32_t rank)
{
    const way_to_fork *how = j->context;
    inherited i = {0};
    setenv("RONDA_TRANSPORT", how->transport, 1);
    setenv("RONDA_PROGRESS", how->thread ? "1" : "0", 1);
    if (how->handler)
        rd_generation_use_handler_alone();
    if (!prepare_rank(j, rank, &i))
        return 1;
    const pid_t child = make_child(how);
    if (!child) {
        live_as_child(&i, j, rank);
        fflush(NULL);
        _exit(test_failed());
    }
    go_on(&i, child);
    return test_failed();
}

TEST(a_child_is_no_rank)
{
    static const way_to_fork ways[] = {{.transport = "shm"},
                                       {.transport = "tcp"},
                                       {.transport = "hosts"},
                                       {.transport = "shm", .handler = true},
                                       {.transport = "tcp", .handler = true}};
    for (size_t k = 0; k < sizeof ways / sizeof *ways && !test_failed(); k++)
        job_run(SIZE, fork_in_the_middle, &ways[k], 60);
}

/* A system call that runs no handlers of fork(). */
TEST(a_child_of_a_raw_clone_is_no_rank)
{
    static const way_to_fork ways[] = {{.transport = "shm", .raw = true},
                                       {.transport = "tcp", .raw = true}};
    if (test_sanitized()) {
        test_skip("sanitizers want to know of every process");
        return;
    }
    for (size_t k = 0; k < sizeof ways / sizeof *ways && !test_failed(); k++)
        job_run(SIZE, fork_in_the_middle, &ways[k], 60);
}

/* --- a thread is inside when the process is forked --- */

/* The child may have a copy of what was being changed: all it must is to end, and to hurt nobody. */
static void live_without_threads(const inherited *i)
{
    call_everything(i, i->comm);
    CHECK(ronda_close(i->comm) == RONDA_OK && ronda_close(i->part) == RONDA_OK, "close");
    ronda_plan_free(i->plan);
    CHECK(open_files() == i->files, "%u files are open, not %u", open_files(), i->files);
    CHECK(!maps_shared_memory(), "the shared memory is still mapped");
    if (!test_sanitized()) /* which forget no thread of the parent */
        play_threads();
}

/* Calls go on until no rank has a child any more. */
static void outlive_child(inherited *i, pid_t child)
{
    const double end = seconds_now() + 30;
    uint32_t running = 1;
    int status = -1;
    while (running) {
        if (child && waitpid(child, &status, WNOHANG) == child)
            child = 0;
        if (child && !CHECK(seconds_now() < end, "the child hangs")) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            child = 0;
        }
        running = child != 0;
        if (!CHECK(!ronda_allreduce(i->comm, &running, &running, 1, RONDA_U32, RONDA_SUM), "%s",
                   ronda_last_error(i->comm)) ||
            !add_words(i->part, i->shared, 50))
            return;
    }
    CHECK(status == 0, "the child ended with 0x%x", (unsigned)status);
}

static pid_t make_helper(const inherited *i, const way_to_fork *how)
{
    const pid_t child = make_child(how);
    if (child)
        return child;
    live_without_threads(i);
    fflush(NULL);
    _exit(test_failed());
}

/* The receive that is under way keeps ronda's thread at work. */
static int fork_with_a_thread_inside(job *j, uint32_t rank)
{
    const way_to_fork *how = j->context;
    inherited i = {0};
    setenv("RONDA_TRANSPORT", how->transport, 1);
    setenv("RONDA_PROGRESS", "1", 1);
    if (!prepare_rank(j, rank, &i))
        return 1;
    for (int k = 0; k < 4 && !test_failed(); k++) {
        usleep(rank * 300);
        outlive_child(&i, make_helper(&i, how));
    }
    go_on(&i, make_helper(&i, how));
    return test_failed();
}

TEST(a_child_of_a_process_with_a_progress_thread)
{
    static const way_to_fork ways[] = {{.transport = "shm"}, {.transport = "tcp"}};
    for (size_t k = 0; k < sizeof ways / sizeof *ways && !test_failed(); k++)
        job_run(SIZE, fork_with_a_thread_inside, &ways[k], 100);
}

typedef struct {
    inherited *i;
    _Atomic bool over;
} caller;

static void *make_calls(void *context)
{
    caller *c = context;
    uint32_t over = 0;
    while (over < SIZE && !test_failed()) {
        over = c->over;
        if (!add_words(c->i->part, c->i->shared, 60) ||
            !CHECK(!ronda_allreduce(c->i->comm, &over, &over, 1, RONDA_U32, RONDA_SUM), "%s",
                   ronda_last_error(c->i->comm)))
            break;
    }
    return NULL;
}

/* One thread makes calls all the time, another one forks. */
static int fork_beside_a_call(job *j, uint32_t rank)
{
    const way_to_fork *how = j->context;
    inherited i = {0};
    caller c = {&i, false};
    pthread_t thread;
    setenv("RONDA_TRANSPORT", how->transport, 1);
    if (!prepare_rank(j, rank, &i) ||
        !CHECK(pthread_create(&thread, NULL, make_calls, &c) == 0, "thread"))
        return 1;
    for (int k = 0; k < 6 && !test_failed(); k++) {
        const double end = seconds_now() + 30;
        int status = -1;
        usleep(rank * 300 + 700);
        const pid_t child = make_helper(&i, how);
        while (waitpid(child, &status, WNOHANG) == 0 && seconds_now() < end)
            usleep(500);
        if (!CHECK(status == 0, "the child ended with 0x%x", (unsigned)status) && status == -1)
            kill(child, SIGKILL);
    }
    c.over = true;
    pthread_join(thread, NULL);
    go_on(&i, make_helper(&i, how));
    return test_failed();
}

TEST(a_child_forked_beside_a_call)
{
    static const way_to_fork ways[] = {{.transport = "shm"}, {.transport = "tcp"}};
    for (size_t k = 0; k < sizeof ways / sizeof *ways && !test_failed(); k++)
        job_run(SIZE, fork_beside_a_call, &ways[k], 100);
}

/* --- children of one process with all ranks --- */

static void use_twice(void *context, uint32_t rank)
{
    static uint32_t x[5][WORDS];
    ronda_comm **comms = context;
    CHECK(add_words(comms[rank], x[rank], 1) && add_words(comms[rank], x[rank], 2), "calls");
}

static void close_one(void *context, uint32_t rank)
{
    ronda_comm **comms = context;
    CHECK(!ronda_close(comms[rank]), "%s", ronda_last_error(NULL));
}

/* In the child all ranks are closed by one thread: nobody is waited for. */
static void fork_all_ranks(uint32_t size, ronda_comm *comms[], uint32_t files)
{
    const way_to_fork how = {0};
    int status = -1;
    run_ranks(size, use_twice, comms);
    const pid_t child = make_child(&how);
    if (!child) {
        const inherited i = {.comm = NULL};
        for (uint32_t r = 0; r < size; r++) {
            call_everything(&i, comms[r]);
            CHECK(!ronda_close(comms[r]), "close");
        }
        CHECK(open_files() == files, "%u files are open, not %u", open_files(), files);
        CHECK(!maps_shared_memory(), "the shared memory is still mapped");
        play_threads();
        fflush(NULL);
        _exit(test_failed());
    }
    run_ranks(size, use_twice, comms);
    const double end = seconds_now() + 30;
    while (waitpid(child, &status, WNOHANG) == 0 && seconds_now() < end)
        usleep(1000);
    if (!CHECK(status == 0, "the child ended with 0x%x", (unsigned)status) && status == -1)
        kill(child, SIGKILL);
    run_ranks(size, use_twice, comms);
    run_ranks(size, close_one, comms);
}

TEST(a_child_of_threads_is_no_rank)
{
    ronda_comm *comms[5];
    const uint32_t files = open_files();
    if (CHECK(!ronda_init_local(5, comms), "%s", ronda_last_error(NULL)))
        fork_all_ranks(5, comms, files);
}

/* As if on three hosts, of two ranks, two and one. */
TEST(a_child_of_hosts_is_no_rank)
{
    ronda_comm *comms[5];
    rd_link *links[5];
    static char said[5][LINKS_LINE];
    const uint32_t files = open_files();
    if (CHECK(links_mixed(5, links) && links_comms(5, links, said, comms), "no world"))
        fork_all_ranks(5, comms, files);
}
