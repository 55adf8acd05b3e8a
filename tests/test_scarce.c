/* test_scarce.c: ranks that get too little: files, memory, disk, or a kill for taking too much.
 *
 * One rank of three is the victim.  It is told what is lacking, in one sentence; the others get an error
 * that names it, in time; nobody crashes, and nobody keeps a file open.  Every amount is tried, from
 * nothing up to enough, so that every single call that can fail does so once: all amounts at the same
 * time, since most of the time is spent waiting. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "calls.h"
#include "processes.h"
#include "transport/transport.h"

enum { RANKS = 3, MOST_AMOUNTS = 24, ENOUGH = 1 << 20 };

typedef enum { FILES, FILES_AND_KEY, BLOCKS, ADDRESSES, DISK, KILLED } lack;

typedef struct {
    lack what;
    uint32_t victim;
    long amount;
    const char *says; /* the victim's error has this in it; NULL: whatever */
} scene;

/* --- making things scarce --- */

static struct rlimit before; /* of what is scarce */

static void limit_to(unsigned what, rlim_t amount)
{
    getrlimit(what, &before);
    const struct rlimit less = {amount < before.rlim_cur ? amount : before.rlim_cur,
                                before.rlim_max};
    CHECK(setrlimit(what, &less) == 0, "no limit: %s", strerror(errno));
}

static rlim_t addresses_now(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (rlim_t)pages * 4096;
}

static _Atomic long until_killed = -1; /* allocations; -1: it lives */

static void impose(const scene *s)
{
    const int next = dup(0);
    switch (s->what) {
    case FILES_AND_KEY:
    case FILES: /* the limit is on numbers, and the lowest free one is given */
        limit_to(RLIMIT_NOFILE, (rlim_t)(next + s->amount));
        break;
    case BLOCKS:
        rd_mem_fail_after(s->amount);
        break;
    case ADDRESSES:
        limit_to(RLIMIT_AS,
                 s->amount < ENOUGH ? addresses_now() + (rlim_t)s->amount * 4096 : RLIM_INFINITY);
        break;
    case DISK:
        signal(SIGXFSZ, SIG_IGN);
        limit_to(RLIMIT_FSIZE, (rlim_t)s->amount * 4096);
        break;
    case KILLED:
        until_killed = s->amount;
    }
    close(next);
}

static void lift(const scene *s)
{
    static const unsigned limits[] = {[FILES] = RLIMIT_NOFILE,
                                      [FILES_AND_KEY] = RLIMIT_NOFILE,
                                      [ADDRESSES] = RLIMIT_AS,
                                      [DISK] = RLIMIT_FSIZE};
    if (s->what == BLOCKS)
        rd_mem_fail_after(-1);
    else if (s->what != KILLED)
        setrlimit(limits[s->what], &before);
    until_killed = -1;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
enum { CAN_BE_KILLED = 1 };

/* This program's own: what ends a process for want of memory strikes while it asks for some. */
extern void *__libc_memalign(size_t alignment, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes)
{
    if (until_killed >= 0 && until_killed-- == 0)
        kill(getpid(), SIGKILL);
    return __libc_memalign(alignment, bytes);
}
#else
enum { CAN_BE_KILLED = 0 };
#endif

/* --- one rank --- */

static bool is_one_sentence(const char *text)
{
    return *text && strlen(text) < 480 && !strchr(text, '\n');
}

/* All at once, or the wait for the slowest would be taken for a missing rank. */
static void begin_together(job *j, uint32_t rank)
{
    const double end = seconds_now() + 20;
    j->shared->number[30 + rank] = 1;
    for (uint32_t r = 0; r < j->size; r++)
        while (!j->shared->number[30 + r] && seconds_now() < end)
            sleep_ms(1);
}

static ronda_status join_and_meet(job *j, uint32_t rank, const scene *s, char text[480])
{
    ronda_comm *comm = NULL;
    const uint64_t timeout_ns = test_sanitized() ? 3000000000 : 1000000000;
    const ronda_config config = {.struct_size = sizeof config,
                                 .rank = rank,
                                 .size = j->size,
                                 .addr = j->address,
                                 .key = s->what == FILES_AND_KEY ? "a key of the tests" : NULL,
                                 .timeout_ns = timeout_ns};
    ronda_status status = ronda_init(&config, &comm);
    const char *why = ronda_last_error(NULL);
    if (!status) { /* who was let in may still find that another was not */
        status = ronda_barrier(comm);
        why = ronda_last_error(comm);
    }
    if (rank == s->victim)
        lift(s);
    snprintf(text, 480, "%s", status ? why : "joined");
    if (comm)
        ronda_close(comm);
    return status;
}

static int be_a_rank(job *j, uint32_t rank)
{
    const scene *s = j->context;
    const uint32_t files = open_files();
    char text[480], name[20];
    begin_together(j, rank);
    const double start = seconds_now();
    if (rank == s->victim)
        impose(s);
    const ronda_status status = join_and_meet(j, rank, s, text);
    snprintf(name, sizeof name, "rank %u", s->victim);
    CHECK(seconds_now() - start < 15, "rank %u needed %.1f s", rank, seconds_now() - start);
    CHECK(is_one_sentence(text), "rank %u: '%s'", rank, text);
    CHECK(!status || strstr(text, rank != s->victim ? name
                                  : s->says         ? s->says
                                                    : ""),
          "amount %ld: rank %u: %d: %s", s->amount, rank, status, text);
    CHECK(open_files() == files, "amount %ld: rank %u: %u files are open, not %u", s->amount, rank,
          open_files(), files);
    j->shared->number[rank] = 1 + (uint64_t)-status;
    return 0;
}

/* The victim is killed, or every rank ends well; and it worked out or it did not. */
static void check_end(const job *j, const scene *s)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        const bool killed = r == s->victim && s->what == KILLED && s->amount < ENOUGH;
        const uint64_t n = j->shared->number[r];
        CHECK(killed ? WIFSIGNALED(j->status[r]) && WTERMSIG(j->status[r]) == SIGKILL
                     : j->status[r] == 0,
              "amount %ld: rank %u ended with 0x%x", s->amount, r, (unsigned)j->status[r]);
        if (s->amount == 0)
            CHECK(killed || n > 1, "amount 0: rank %u: all is well", r);
        if (s->amount == ENOUGH)
            CHECK(n == 1, "amount enough: rank %u: -%d", r, (int)n - 1);
    }
}

/* Amounts 0, step, 2 * step ..., and enough. */
static void play(lack what, uint32_t victim, uint32_t amounts, long step, const char *says)
{
    static job jobs[MOST_AMOUNTS];
    scene scenes[MOST_AMOUNTS];
    test_deadline(200);
    for (uint32_t i = 0; i < amounts; i++) {
        scenes[i] = (scene){what, victim, i + 1 < amounts ? i * step : ENOUGH, says};
        jobs[i] = job_open(RANKS, be_a_rank, &scenes[i]);
        job_start(&jobs[i]);
    }
    for (uint32_t i = 0; i < amounts; i++) {
        job_wait(&jobs[i], 60);
        check_end(&jobs[i], &scenes[i]);
        job_close(&jobs[i]);
    }
}

TEST(too_few_files_for_rank_0)
{
    play(FILES, 0, 13, 1, "Too many open files");
}

TEST(too_few_files_for_a_guest)
{
    play(FILES, 1, 11, 1, "Too many open files");
}

/* To prove the key a library must be opened, which takes a file for a moment. */
TEST(too_few_files_for_a_key)
{
    play(FILES_AND_KEY, 0, 13, 1, NULL);
    play(FILES_AND_KEY, 1, 11, 1, NULL);
}

TEST(no_memory_in_rank_0)
{
    play(BLOCKS, 0, 24, 1, "memory");
}

TEST(no_memory_in_a_guest)
{
    play(BLOCKS, 1, 24, 1, "memory");
}

TEST(too_few_addresses)
{
    if (test_sanitized()) {
        test_skip("the sanitizers need many addresses for themselves");
        return;
    }
    play(ADDRESSES, 0, 8, 256, "emory");
    play(ADDRESSES, 1, 8, 256, "emory");
}

TEST(shared_memory_cannot_be_that_large)
{
    play(DISK, 0, 3, 100, "File too large");
}

TEST(a_rank_is_killed_while_it_asks_for_memory)
{
    if (!CAN_BE_KILLED) {
        test_skip("the sanitizers' own malloc is in the way");
        return;
    }
    play(KILLED, 1, 12, 2, NULL);
}

/* --- in the middle of a run --- */

enum { PROGRAM = 24 };

typedef struct {
    planned_call calls[PROGRAM];
    uint32_t victim;
    bool tries_again;
} program;

/* The call fails until there is memory; each time it was not made, and the others wait for it. */
static ronda_status run_starved(ronda_comm *c, const call_buffers *b, bool tries_again)
{
    for (long k = 0;; k++) {
        rd_mem_fail_after(k);
        const ronda_status status = call_run(c, b);
        rd_mem_fail_after(-1);
        if (!status)
            return status;
        CHECK(status == RONDA_ENOMEM && strstr(ronda_last_error(c), "memory") &&
                  is_one_sentence(ronda_last_error(c)),
              "%s: %d: %s", model_text(&b->call), status, ronda_last_error(c));
        CHECK(call_clean(b), "%s: it wrote", model_text(&b->call));
        if (!tries_again || status != RONDA_ENOMEM)
            return status;
    }
}

static int run_program(job *j, uint32_t rank)
{
    const program *p = j->context;
    ronda_comm *c = job_join(j, rank);
    ronda_status status = RONDA_OK;
    ronda_set_timeout(c, 20000000000);
    for (uint32_t i = 0; c && i < PROGRAM && !status; i++) {
        const planned_call *q = &p->calls[i];
        call_buffers b = call_open(&q->call, rank, q->in_place >> rank & 1, q->skew);
        status = rank == p->victim ? run_starved(c, &b, p->tries_again) : call_run(c, &b);
        if (p->tries_again)
            CHECK(!status && call_right(&b, q->whole), "rank %u: %s: %s", rank,
                  model_text(&q->call), ronda_last_error(c));
        call_close(&b);
    }
    if (!p->tries_again && rank != p->victim)
        CHECK(status == RONDA_EPEER && strstr(ronda_last_error(c), "rank 1"), "rank %u: %d: %s",
              rank, status, ronda_last_error(c));
    ronda_close(c);
    return 0;
}

static void run_starving(bool tries_again)
{
    static program p;
    rng r = rng_start();
    p = (program){.victim = 1, .tries_again = tries_again};
    for (uint32_t i = 0; i < PROGRAM; i++) {
        const model_call c = model_draw(&r, tries_again ? model_kind(&r) : RONDA_ALLREDUCE, RANKS,
                                        i % 8 ? 5000 : 1 << 20);
        p.calls[i] = call_plan(&r, &c, true);
    }
    job_run(RANKS, run_program, &p, 50);
    calls_free(p.calls, PROGRAM);
}

TEST(no_memory_for_a_call_until_there_is)
{
    for (int i = 0; i < 4 && !test_failed(); i++)
        run_starving(true);
}

TEST(no_memory_for_a_call_and_the_rank_gives_up)
{
    run_starving(false);
}

/* --- no place for the meeting --- */

/* Rank 0 cannot listen here; it says so, and leaves what was there alone. */
static void check_no_door(const char *path, const char *says)
{
    char address[120];
    struct stat was, is;
    ronda_comm *comm = NULL;
    const bool there = lstat(path, &was) == 0;
    const uint32_t files = open_files();
    snprintf(address, sizeof address, "file:%s", path);
    const ronda_config config = {
        .struct_size = sizeof config, .size = 2, .addr = address, .start_timeout_ns = 500000000};
    const ronda_status status = ronda_init(&config, &comm);
    CHECK(status == RONDA_ESYSTEM && strstr(ronda_last_error(NULL), says) &&
              strstr(ronda_last_error(NULL), path) && is_one_sentence(ronda_last_error(NULL)),
          "%s: %d: %s", path, status, ronda_last_error(NULL));
    CHECK((lstat(path, &is) == 0) == there && (!there || was.st_ino == is.st_ino),
          "%s is not as it was", path);
    CHECK(open_files() == files, "%u files are open, not %u", open_files(), files);
}

static int meet_nowhere(job *j, uint32_t rank)
{
    char path[100];
    (void)rank;
    snprintf(path, sizeof path, "%s/none/door", j->directory);
    check_no_door(path, "No such file");
    snprintf(path, sizeof path, "%s/file", j->directory);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    check_no_door(path, "in use");
    unlink(path);
    return 0;
}

TEST(no_place_to_meet)
{
    job_run(1, meet_nowhere, NULL, 20);
}

/* A disk of its own that has room for its root alone, in name spaces of its own. */
static int meet_on_a_full_disk(job *j, uint32_t rank)
{
    char path[100];
    (void)rank;
    if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
        return 0;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", j->directory, "tmpfs", 0, "size=4k,nr_inodes=1"))
        return 0;
    j->shared->number[0] = 1;
    snprintf(path, sizeof path, "%s/door", j->directory);
    check_no_door(path, "No space left");
    return 0;
}

TEST(a_full_disk)
{
    job j = job_open(1, meet_on_a_full_disk, NULL);
    job_start(&j);
    job_wait(&j, 20);
    CHECK(j.status[0] == 0, "it ended with 0x%x", (unsigned)j.status[0]);
    if (!j.shared->number[0])
        test_skip("no disk can be mounted here");
    job_close(&j);
}

/* A file that may not grow is a signal to whoever writes to it, unless he has looked before. */
static int meet_without_files(job *j, uint32_t rank)
{
    const struct rlimit none = {0};
    char path[100];
    (void)rank;
    setenv("RONDA_TRANSPORT", j->context, 1);
    setrlimit(RLIMIT_FSIZE, &none);
    snprintf(path, sizeof path, "%s/door", j->directory);
    check_no_door(path, "File too large");
    return 0;
}

TEST(files_may_not_grow)
{
    job_run(1, meet_without_files, "tcp", 20);
    job_run(1, meet_without_files, "hosts", 20);
}
