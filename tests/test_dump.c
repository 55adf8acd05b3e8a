/* test_dump.c: what is under way, as ronda_dump() and SIGUSR1 tell it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "calls.h"
#include "dumped.h"
#include "processes.h"

enum { LARGE = 70000 };

/* --- reading what was written --- */

static bool says(const char *text, const char *what)
{
    return CHECK(strstr(text, what), "'%s' is not in:\n%s", what, text);
}

/* Asks a process, again and again since it may not be there yet, until it has said this. */
static bool answers(pid_t pid, int fd, const char *what)
{
    for (int i = 0; i < 300 && !strstr(text_of(fd), what); i++) {
        if (i % 50 == 0)
            kill(pid, SIGUSR1);
        sleep_ms(i < 50 ? 2 : 100);
    }
    return says(text_of(fd), what);
}

/* --- asking for it --- */

TEST(nothing_under_way)
{
    ronda_comm *comms[2];
    if (!world_open(2, NULL, comms))
        return;
    says(dumped(comms[1]), "rank 1 of 2 over local: 0 calls made, not failed, nothing under way\n");
    world_close(2, comms);
}

/* Both ranks' requests, by this one thread. */
typedef struct {
    ronda_comm *comms[2];
    ronda_request *requests[2][6];
    float *data[2];
} pair;

static bool pair_open(pair *p, const char *algorithms)
{
    *p = (pair){0};
    for (int r = 0; r < 2; r++)
        p->data[r] = calloc(6 * LARGE, sizeof(float));
    return world_open(2, algorithms, p->comms);
}

static void pair_start(pair *p, uint32_t rank, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        float *data = p->data[rank] + (size_t)i * LARGE;
        CHECK(ronda_iallreduce(p->comms[rank], data, data, LARGE, RONDA_F32, RONDA_SUM,
                               &p->requests[rank][i]) == RONDA_OK,
              "%s", ronda_last_error(p->comms[rank]));
    }
}

static void pair_free(pair *p)
{
    for (int r = 0; r < 2; r++)
        free(p->data[r]);
}

TEST(several_under_way)
{
    pair p;
    if (!pair_open(&p, "allreduce=ring"))
        return;
    pair_start(&p, 0, 6);
    const char *text = dumped(p.comms[0]);
    says(text, "rank 0 of 2 over local: 6 calls made, not failed, 6 under way\n");
    says(text, "\n  allreduce #1 of 70000 f32, sum (ring): 1 of 4");
    says(text, " steps done, awaits rank 1\n  allreduce #2 of 70000 f32, sum (ring): ");
    says(text, "\n  allreduce #5 of 70000 f32, sum (ring): has not begun, comes after #1\n");
    says(text, "\n  allreduce #6 of 70000 f32, sum (ring): has not begun, comes after #2\n");
    pair_start(&p, 1, 6);
    for (uint32_t i = 0, done = 0; done < 12 && i < 100000; i++) {
        done = 0;
        for (uint32_t k = 0; k < 12; k++) {
            bool one;
            CHECK(ronda_test(p.requests[k % 2][k / 2], &one) == RONDA_OK, "test");
            done += one;
        }
    }
    CHECK(ronda_wait(p.requests[0][2]) == RONDA_OK, "%s", ronda_last_error(p.comms[0]));
    text = dumped(p.comms[0]);
    says(text, "6 calls made, not failed, nothing under way, 5 to be waited for\n");
    says(text, "\n  allreduce #6 of 70000 f32, sum (ring): done, not waited for\n");
    CHECK(!strstr(text, "#3"), "%s", text);
    p.requests[0][2] = NULL;
    for (int r = 0; r < 2; r++)
        CHECK(ronda_wait_all(p.requests[r], 6) == RONDA_OK, "%s", ronda_last_error(p.comms[r]));
    says(dumped(p.comms[0]), "6 calls made, not failed, nothing under way\n");
    world_close(2, p.comms);
    pair_free(&p);
}

/* More than fits into one write. */
TEST(very_many_under_way)
{
    enum { MANY = 300 };
    ronda_comm *comms[2];
    static ronda_request *requests[2][MANY];
    if (!world_open(2, NULL, comms))
        return;
    for (int i = 0; i < MANY; i++)
        CHECK(ronda_ibarrier(comms[0], &requests[0][i]) == RONDA_OK, "start");
    const char *text = dumped(comms[0]);
    uint32_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    CHECK(lines == MANY + 1, "%u lines:\n%s", lines, text);
    says(text, "\n  barrier #300 (");
    for (int i = 0; i < MANY; i++)
        CHECK(ronda_ibarrier(comms[1], &requests[1][i]) == RONDA_OK, "start");
    for (int k = 0; k < 2 * MANY; k++) {
        bool done = false;
        for (uint32_t i = 0; !done && i < 1000000; i++)
            CHECK(ronda_test(requests[k % 2][k / 2], &done) == RONDA_OK, "test");
    }
    for (int r = 0; r < 2; r++)
        CHECK(ronda_wait_all(requests[r], MANY) == RONDA_OK, "%s", ronda_last_error(comms[r]));
    world_close(2, comms);
}

TEST(messages_under_way)
{
    ronda_comm *comms[2];
    static double data[2][LARGE];
    ronda_request *requests[4];
    if (!world_open(2, NULL, comms))
        return;
    CHECK(ronda_isend(comms[0], data[0], LARGE, RONDA_F32, 1, 7, &requests[0]) == RONDA_OK, "send");
    CHECK(ronda_isend(comms[0], data[0], 1, RONDA_F32, 1, 8, &requests[1]) == RONDA_OK, "send");
    const char *text = dumped(comms[0]);
    says(text, "0 calls made, not failed, 1 under way, 1 to be waited for\n");
    says(text, "\n  send of 70000 f32 with tag 7 to rank 1: awaits rank 1\n");
    says(text, "\n  send of 1 f32 with tag 8 to rank 1: done, not waited for\n");
    CHECK(ronda_irecv(comms[1], data[1], LARGE, RONDA_F32, 0, 9, NULL, &requests[2]) == RONDA_OK,
          "receive");
    CHECK(ronda_irecv(comms[1], data[1], LARGE, RONDA_F64, RONDA_ANY, 9, NULL, &requests[3]) ==
              RONDA_OK,
          "receive");
    text = dumped(comms[1]);
    says(text, "0 calls made, not failed, 2 under way\n");
    says(text, "\n  recv of 70000 f32 with tag 9 from rank 0: awaits rank 0\n");
    says(text, "\n  recv of 70000 f64 with tag 9 from any rank: awaits any rank\n");
    ronda_abort(comms[0], "enough");
    CHECK(ronda_wait(requests[2]) == RONDA_EABORTED, "wait: %s", ronda_last_error(comms[1]));
    says(dumped(comms[1]), " from any rank: failed and not waited for\n");
    CHECK(ronda_wait(requests[3]) == RONDA_EABORTED, "wait: %s", ronda_last_error(comms[1]));
    CHECK(ronda_wait(requests[0]) == RONDA_EABORTED, "wait: %s", ronda_last_error(comms[0]));
    CHECK(ronda_wait(requests[1]) == RONDA_OK, "wait: %s", ronda_last_error(comms[0]));
    world_close(2, comms);
}

TEST(a_descriptor_that_cannot_be_written_to)
{
    ronda_comm *comm;
    int ends[2];
    if (!world_open(1, NULL, &comm))
        return;
    CHECK(ronda_dump(NULL, 1) == RONDA_EINVAL, "no communicator");
    says(ronda_last_error(NULL), "ronda_dump: comm is NULL");
    CHECK(ronda_dump(comm, -1) == RONDA_ESYSTEM, "no descriptor");
    says(ronda_last_error(comm), "rank 0: descriptor -1 cannot be written to: ");
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK(full < 0 || ronda_dump(comm, full) == RONDA_ESYSTEM, "a full device");
    if (full >= 0)
        close(full);
    CHECK(pipe(ends) == 0, "no pipe");
    close(ends[0]);
    CHECK(ronda_dump(comm, ends[1]) == RONDA_ESYSTEM, "nobody reads it");
    close(ends[1]);
    struct rlimit was, none;
    getrlimit(RLIMIT_FSIZE, &was);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = was.rlim_max};
    const int file = memfd_create("dump", MFD_CLOEXEC);
    setrlimit(RLIMIT_FSIZE, &none);
    const ronda_status status = ronda_dump(comm, file); /* else a signal would end us */
    setrlimit(RLIMIT_FSIZE, &was);
    CHECK(status == RONDA_ESYSTEM, "it may not grow");
    close(file);
    ronda_error err = {.struct_size = sizeof err};
    ronda_get_error(comm, &err);
    CHECK(err.status == RONDA_ESYSTEM && err.rank == 0 && err.peer == RONDA_ANY, "status %d",
          err.status);
    CHECK(ronda_barrier(comm) == RONDA_OK, "it is as before: %s", ronda_last_error(comm));
    CHECK(ronda_close(comm) == RONDA_OK, "close");
}

TEST(after_a_failure)
{
    pair p;
    if (!pair_open(&p, "allreduce=ring"))
        return;
    pair_start(&p, 0, 2);
    ronda_abort(p.comms[1], "enough");
    bool done = false;
    for (uint32_t i = 0; !done && i < 1000000; i++)
        CHECK(ronda_test(p.requests[0][1], &done) == RONDA_OK, "test");
    const char *text = dumped(p.comms[0]);
    says(text, "2 calls made, failed (rank 1 aborted: enough), nothing under way, 2 to be waited");
    says(text, "\n  allreduce #2 of 70000 f32, sum (ring): ");
    says(text, " steps done, failed and not waited for\n");
    CHECK(ronda_wait_all(p.requests[0], 2) == RONDA_EABORTED, "%s", ronda_last_error(p.comms[0]));
    says(dumped(p.comms[0]), "failed (rank 1 aborted: enough), nothing under way\n");
    says(dumped(p.comms[1]), "0 calls made, failed (rank 1 aborted: enough), nothing under way\n");
    world_close(2, p.comms);
    pair_free(&p);
}

/* --- by a signal --- */

typedef struct {
    int err;          /* standard error of all ranks */
    const char *algo; /* RONDA_ALGO */
    size_t count;     /* of an allreduce; 0: a barrier */
} scene;

static int wait_for_rank_2(job *j, uint32_t rank)
{
    const scene *s = j->context;
    setenv("RONDA_DEBUG", "1", 1);
    setenv("RONDA_ALGO", s->algo, 1);
    dup2(s->err, STDERR_FILENO);
    ronda_comm *comm = job_join(j, rank);
    if (!comm)
        return 1;
    float *data = calloc(s->count + 1, sizeof *data);
    j->shared->number[rank] = 1;
    while (rank == 2 && !j->shared->number[3])
        sleep_ms(1);
    const ronda_status status =
        s->count ? ronda_allreduce(comm, data, data, s->count, RONDA_F32, RONDA_SUM)
                 : ronda_barrier(comm);
    CHECK(status == RONDA_OK, "%s", ronda_last_error(comm));
    free(data);
    CHECK(ronda_close(comm) == RONDA_OK, "close");
    return 0;
}

/* Ranks 0 and 1 wait for rank 2, asleep by now, and say so when they are asked. */
static void ask_processes(scene *s, const char *call)
{
    char line[200];
    s->err = text_open();
    job j = job_open(3, wait_for_rank_2, s);
    job_start(&j);
    for (double end = seconds_now() + 30; seconds_now() < end;) {
        if (j.shared->number[0] && j.shared->number[1] && j.shared->number[2])
            break;
        sleep_ms(1);
    }
    for (int times = 0; times < 2; times++) {
        sleep_ms(200);
        CHECK(ftruncate(s->err, 0) == 0, "%s", strerror(errno));
        for (uint32_t r = 0; r < 2; r++) {
            snprintf(line, sizeof line,
                     "ronda: rank %u of 3 over shm: 1 call made, not failed, 1 under way\n  %s", r,
                     call);
            answers(j.pids[r], s->err, line);
            answers(j.pids[r], s->err, " steps done, awaits rank 2\n");
        }
    }
    kill(j.pids[2], SIGUSR1); /* in no call: it answers at the next */
    sleep_ms(20);
    CHECK(!strstr(text_of(s->err), "rank 2 of 3 over"), "%s", text_of(s->err));
    j.shared->number[3] = 1;
    job_wait(&j, 30);
    says(text_of(s->err),
         "ronda: rank 2 of 3 over shm: 0 calls made, not failed, nothing under way\n");
    for (uint32_t r = 0; r < 3; r++)
        CHECK(j.status[r] == 0, "rank %u: status %x\n%s", r, j.status[r], text_of(s->err));
    job_close(&j);
    close(s->err);
}

TEST(a_process_that_waits_is_asked)
{
    scene scenes[] = {{.algo = "barrier=dissemination"},
                      {.algo = "allreduce=one_shot", .count = 4},
                      {.algo = "allreduce=two_shot", .count = LARGE}};
    ask_processes(&scenes[0], "barrier #1 (dissemination): ");
    ask_processes(&scenes[1], "allreduce #1 of 4 f32, sum (one_shot): ");
    ask_processes(&scenes[2], "allreduce #1 of 70000 f32, sum (two_shot): ");
}

/* The signal goes to one thread, and all of the process's communicators answer. */
typedef struct {
    ronda_comm *comms[3];
    int err;
} crowd;

static void rank_in_barrier(void *context, uint32_t rank)
{
    ronda_comm **comms = ((crowd *)context)->comms;
    const int err = ((crowd *)context)->err;
    if (rank == 2) { /* which is asked last, when the others have answered */
        sleep_ms(100);
        answers(getpid(), err,
                "ronda: rank 0 of 3 over local: 1 call made, not failed, 1 under way\n");
        answers(getpid(), err,
                "ronda: rank 1 of 3 over local: 1 call made, not failed, 1 under way\n");
        answers(getpid(), err, " steps done, awaits rank 2\n");
        CHECK(!strstr(text_of(err), "rank 2 of 3 over"), "%s", text_of(err));
    }
    CHECK(ronda_barrier(comms[rank]) == RONDA_OK, "%s", ronda_last_error(comms[rank]));
}

/* Ranks 0 and 2 of three are a part; rank 0 waits there, and answers for the world, too. */
static void rank_in_part(void *context, uint32_t rank)
{
    const int err = ((crowd *)context)->err;
    ronda_comm *comm = ((crowd *)context)->comms[rank], *part = NULL;
    ronda_request *request = NULL;
    CHECK(ronda_split(comm, rank == 1 ? -1 : 0, 0, &part) == RONDA_OK, "%s",
          ronda_last_error(comm));
    if (rank == 0)
        CHECK(ronda_ibarrier(comm, &request) == RONDA_OK, "%s", ronda_last_error(comm));
    if (rank == 2) {
        sleep_ms(100);
        answers(getpid(), err,
                "ronda: rank 0 of 2, a part of 3 where it is rank 0, over local: 1 call ");
        answers(getpid(), err, "not failed, 1 under way\n  barrier #1 (");
        answers(getpid(), err,
                "ronda: rank 0 of 3 over local: 4 calls made, not failed, 1 under way\n");
        answers(getpid(), err, "  barrier #4 (");
        says(dumped(part), "rank 1 of 2, a part of 3 where it is rank 2, over local: 0 calls made");
    }
    CHECK(!part || ronda_barrier(part) == RONDA_OK, "%s", ronda_last_error(part));
    CHECK(rank == 0 || ronda_ibarrier(comm, &request) == RONDA_OK, "%s", ronda_last_error(comm));
    CHECK(ronda_wait(request) == RONDA_OK, "%s", ronda_last_error(comm));
    CHECK(ronda_close(part) == RONDA_OK, "close");
}

static void ask_threads(void (*body)(void *context, uint32_t rank), const char *at_last)
{
    crowd all = {.err = text_open()};
    const int before = dup(STDERR_FILENO);
    setenv("RONDA_DEBUG", "1", 1);
    const bool opened = world_open(3, "barrier=dissemination", all.comms);
    unsetenv("RONDA_DEBUG");
    if (!opened)
        return;
    dup2(all.err, STDERR_FILENO);
    run_ranks(3, body, &all);
    world_close(3, all.comms);
    dup2(before, STDERR_FILENO);
    says(text_of(all.err), at_last);
    close(before);
    close(all.err);
}

TEST(threads_that_wait_are_asked)
{
    ask_threads(rank_in_barrier,
                "ronda: rank 2 of 3 over local: 0 calls made, not failed, nothing");
    ask_threads(rank_in_part, "ronda: rank 2 of 3 over local: 3 calls made, not failed, nothing");
}

/* --- whose signal it is --- */

static void own_handler(int number)
{
    (void)number;
}

typedef void handler(int number);

static handler *handler_now(void)
{
    struct sigaction now;
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0, "sigaction: %s", strerror(errno));
    return now.sa_handler;
}

static ronda_comm *open_with(const char *debug)
{
    ronda_comm *comm = NULL;
    if (debug)
        setenv("RONDA_DEBUG", debug, 1);
    else
        unsetenv("RONDA_DEBUG");
    world_open(1, NULL, &comm);
    return comm;
}

static int handlers(job *j, uint32_t rank)
{
    static const char *const off[] = {NULL, "", "0"};
    (void)j;
    (void)rank;
    for (int i = 0; i < 3; i++) {
        ronda_comm *quiet = open_with(off[i]);
        CHECK(handler_now() == SIG_DFL, "RONDA_DEBUG=%s took the signal", off[i] ? off[i] : "");
        ronda_close(quiet);
    }
    ronda_comm *first = open_with("1"), *second = open_with("yes"), *third = open_with(NULL);
    handler *const ours = handler_now();
    CHECK(ours != SIG_DFL && ours != SIG_IGN, "no handler");
    ronda_close(first);
    CHECK(handler_now() == ours, "the first close gave the signal back");
    ronda_close(second);
    CHECK(handler_now() == SIG_DFL, "the last close did not give the signal back");
    ronda_close(third);

    first = open_with("1");
    signal(SIGUSR1, own_handler); /* the program has found a use for it meanwhile */
    ronda_close(first);
    CHECK(handler_now() == own_handler, "the program's handler was removed");
    first = open_with("1");
    CHECK(handler_now() == own_handler, "the program's handler was replaced");
    ronda_close(first);
    signal(SIGUSR1, SIG_IGN);
    first = open_with("1");
    CHECK(handler_now() == SIG_IGN, "a signal that the program ignores was taken");
    ronda_close(first);
    CHECK(handler_now() == SIG_IGN, "a signal that the program ignores was given back");
    return 0;
}

TEST(the_signal_is_borrowed)
{
    job_run(1, handlers, NULL, 50);
}

/* A pipe that nobody reads. */
TEST(nobody_reads_it)
{
    ronda_comm *comms[2];
    int ends[2];
    char filling[4096] = {0};
    if (!world_open(2, NULL, comms) || !CHECK(pipe2(ends, O_NONBLOCK) == 0, "no pipe"))
        return;
    while (write(ends[1], filling, sizeof filling) > 0)
        continue;
    fcntl(ends[1], F_SETFL, 0);
    CHECK(ronda_dump(comms[0], ends[1]) == RONDA_ESYSTEM, "it was written");
    close(ends[0]);
    close(ends[1]);
    world_close(2, comms);
}
