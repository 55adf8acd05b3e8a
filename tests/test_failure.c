/* test_failure.c: ranks that close, abort or never come.
 *
 * Whoever needs them fails with the cause, the same for all and for good, and soon; buffers are the
 * caller's again the moment a failed call returns.  Every test overwrites and frees them at once, so
 * that the sanitizers see whoever still touches them. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "calls.h"

enum { MOST = 8 };
static const uint64_t PATIENT_NS = 20000000000u, SHORT_NS = 200000000u;
static const double ABSURD_SECONDS = 15;

/* What the lost rank does instead of taking part. */
typedef enum {
    CLOSES_FIRST, /* before the others call */
    CLOSES_LATE,  /* when they are inside */
    ABORTS_FIRST,
    ABORTS_LATE,
    ABORTED_OUTSIDE, /* a thread of its own calls ronda_abort on its communicator */
    NEVER_COMES
} deed;

typedef struct {
    uint32_t size, lost;
    deed deed;
    model_call call;
    unsigned late_ms;
    ronda_comm *comms[MOST];
    _Atomic uint32_t ready, inside, done, first_deed;
    char messages[MOST][480];
} scene;

static ronda_status expected(const scene *s)
{
    return s->deed <= CLOSES_LATE   ? RONDA_EPEER
           : s->deed == NEVER_COMES ? RONDA_ETIMEOUT
                                    : RONDA_EABORTED;
}

/* Waits until *word is at least `value`; the test's deadline bounds it. */
static void until(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load(word) < value)
        sleep_ms(1);
}

/* Whoever does not need the lost rank may have been done: ranks that are not fed by it, or that feed it so
 * little that nobody waits for it. */
static bool may_succeed(const scene *s)
{
    const ronda_kind kind = s->call.kind;
    if (kind == RONDA_BROADCAST || kind == RONDA_SCATTER || kind == RONDA_SCATTERV)
        return s->call.root != s->lost;
    return model_rooted(kind) || kind == RONDA_SCAN || kind == RONDA_EXSCAN ||
           rd_kind(kind)->counted; /* whose block may be empty */
}

static void check_error(const scene *s, uint32_t rank, ronda_status status)
{
    ronda_error e = {.struct_size = sizeof e};
    char name[32];
    ronda_get_error(s->comms[rank], &e);
    CHECK(status == expected(s), "rank %u: %s instead of %s: %s", rank, ronda_strerror(status),
          ronda_strerror(expected(s)), e.message);
    CHECK(e.status == status && strcmp(e.message, ronda_last_error(s->comms[rank])) == 0,
          "the error has status %d and says '%s'", e.status, e.message);
    snprintf(name, sizeof name, "rank %u", s->lost);
    CHECK(strstr(e.message, name) && e.peer == s->lost, "it is about rank %u, not %u: %s", e.peer,
          s->lost, e.message);
    if (s->deed >= ABORTS_FIRST && s->deed <= ABORTED_OUTSIDE)
        CHECK(strstr(e.message, "the disk is full"), "no reason in: %s", e.message);
    else
        CHECK(e.rank != s->lost && e.rank < s->size && e.sequence >= 2 &&
                  e.sequence <= (may_succeed(s) ? 3 : 2),
              "found by %u in call %" PRIu64, e.rank, e.sequence);
}

static void *abort_outside(void *context)
{
    scene *s = context;
    ronda_abort(s->comms[s->lost], "the disk is full");
    return NULL;
}

static void be_lost(scene *s)
{
    ronda_comm *comm = s->comms[s->lost];
    pthread_t thread;
    if (s->deed == CLOSES_LATE || s->deed == ABORTS_LATE || s->deed == ABORTED_OUTSIDE) {
        until(&s->inside, s->size - 1);
        sleep_ms(s->late_ms);
    }
    switch (s->deed) {
    case CLOSES_FIRST:
    case CLOSES_LATE:
        CHECK(ronda_close(comm) == RONDA_OK, "close failed");
        s->comms[s->lost] = NULL;
        break;
    case ABORTS_FIRST:
    case ABORTS_LATE:
        CHECK(ronda_abort(comm, "the disk is full") == RONDA_OK, "abort failed");
        break;
    case ABORTED_OUTSIDE:
        if (CHECK(pthread_create(&thread, NULL, abort_outside, s) == 0, "no thread"))
            pthread_join(thread, NULL);
        break;
    default:
        until(&s->done, s->size - 1); /* they have given up on it */
        break;
    }
    atomic_store(&s->first_deed, 1);
}

static void run_scene(void *context, uint32_t rank)
{
    scene *s = context;
    ronda_comm *comm = s->comms[rank];
    ronda_status status = ronda_barrier(comm);
    CHECK(status == RONDA_OK, "rank %u: the barrier: %s", rank, ronda_last_error(comm));
    atomic_fetch_add(&s->ready, 1);
    until(&s->ready, s->size); /* a failure ends whatever call a rank is in */
    ronda_set_timeout(comm, s->deed == NEVER_COMES ? SHORT_NS : PATIENT_NS);
    if (rank == s->lost) {
        be_lost(s);
        if (!s->comms[rank])
            return;
    } else if (s->deed == CLOSES_FIRST || s->deed == ABORTS_FIRST) {
        until(&s->first_deed, 1);
    }
    call_buffers b = call_open(&s->call, rank, rank % 2, 0);
    atomic_fetch_add(&s->inside, 1);
    status = call_run(comm, &b);
    if (status == RONDA_OK) {
        CHECK(may_succeed(s), "rank %u: %s succeeded without rank %u", rank, model_text(&s->call),
              s->lost);
        void *whole = model_whole(&s->call);
        call_right(&b, whole);
        free(whole);
    }
    call_clean(&b);
    call_close(&b);
    if (status == RONDA_OK)
        status = ronda_barrier(comm);
    atomic_fetch_add(&s->done, 1);
    check_error(s, rank, status);
    snprintf(s->messages[rank], sizeof s->messages[rank], "%s", ronda_last_error(comm));
    CHECK(ronda_barrier(comm) == status && strcmp(s->messages[rank], ronda_last_error(comm)) == 0,
          "rank %u: another story: %s", rank, ronda_last_error(comm));
}

static void play(scene *s)
{
    const double start = seconds_now();
    if (!world_open(s->size, NULL, s->comms))
        return;
    run_ranks(s->size, run_scene, s);
    CHECK(seconds_now() - start < ABSURD_SECONDS, "it took %.1f s", seconds_now() - start);
    const uint32_t first = s->comms[0] ? 0 : 1;
    for (uint32_t r = first; r < s->size; r++)
        CHECK(!s->comms[r] || strcmp(s->messages[first], s->messages[r]) == 0,
              "rank %u says '%s', rank %u '%s'", first, s->messages[first], r, s->messages[r]);
    if (test_failed())
        printf("... deed %d of rank %u in %s\n", s->deed, s->lost, model_text(&s->call));
    for (uint32_t r = 0; r < s->size; r++)
        CHECK(ronda_close(s->comms[r]) == RONDA_OK, "closing rank %u failed", r);
}

static scene make_scene(rng *r, deed what, uint32_t size, ronda_kind kind, uint64_t bytes)
{
    const uint64_t count = bytes / 8 / (kind > RONDA_BROADCAST && kind < RONDA_SCAN ? size : 1);
    return (scene){.size = size,
                   .lost = (uint32_t)rng_below(r, size),
                   .deed = what,
                   .late_ms = (unsigned)rng_below(r, 6),
                   .call = {.kind = kind,
                            .type = RONDA_I64,
                            .op = RONDA_MAX,
                            .root = kind == RONDA_BROADCAST ? (uint32_t)rng_below(r, size) : 0,
                            .size = size,
                            .count = kind == RONDA_BARRIER ? 0
                                     : count               ? count
                                                           : 1,
                            .seed = rng_next(r)}};
}

/* Every collective, small, medium and large; a large one only for some ranks. */
static void play_all(deed what, uint32_t rounds)
{
    rng r = rng_start();
    static const uint32_t sizes[] = {2, 3, 5, 8};
    static const uint64_t bytes[] = {8, 40000, 8 << 20};

    test_deadline(120);
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < 4; i += test_sanitized() ? 2 : 1)
            for (ronda_kind k = RONDA_ALLREDUCE; k <= RONDA_BARRIER; k++)
                for (uint32_t b = 0; b < 3 && !test_failed(); b++) {
                    if (b == 2 && (i > 1 || round > 0 || k == RONDA_BARRIER))
                        continue;
                    scene s = make_scene(&r, what, sizes[i], k, bytes[b]);
                    play(&s);
                }
}

static uint32_t rounds(uint32_t many)
{
    return test_sanitized() ? 1 : many;
}

TEST(a_rank_closes_before_the_others_call)
{
    play_all(CLOSES_FIRST, rounds(2));
}

TEST(a_rank_closes_while_the_others_wait)
{
    play_all(CLOSES_LATE, rounds(2));
}

TEST(a_rank_aborts_before_the_others_call)
{
    play_all(ABORTS_FIRST, rounds(2));
}

TEST(a_rank_aborts_while_the_others_wait)
{
    play_all(ABORTS_LATE, rounds(2));
}

TEST(another_thread_aborts)
{
    play_all(ABORTED_OUTSIDE, rounds(2));
}

/* --- the deadline --- */

TEST(a_rank_never_comes)
{
    rng r = rng_start();
    static const uint32_t sizes[] = {2, 3, 5};
    test_deadline(60);
    for (ronda_kind k = RONDA_ALLREDUCE; k <= RONDA_BARRIER; k++)
        for (uint32_t i = 0; i < 3 && !test_failed(); i++) {
            scene s = make_scene(&r, NEVER_COMES, sizes[i], k, i == 1 ? 40000 : 8);
            if (k == RONDA_BROADCAST || k == RONDA_SCATTER || k == RONDA_SCATTERV)
                s.call.root = s.lost; /* the others need it */
            play(&s);
            CHECK(strstr(s.messages[(s.lost + 1) % s.size], "has not called it"), "%s",
                  s.messages[(s.lost + 1) % s.size]);
            CHECK(strstr(s.messages[(s.lost + 1) % s.size], "0.2 s"), "%s",
                  s.messages[(s.lost + 1) % s.size]);
        }
}

typedef struct {
    ronda_comm *comms[4];
    _Atomic uint32_t done;
    char messages[4][480];
} naming;

/* In a ring every rank waits for the one before it; the message says who is missing and whom each of
 * the others waits for. */
static void run_naming(void *context, uint32_t rank)
{
    naming *s = context;
    uint64_t word = rank;
    ronda_set_timeout(s->comms[rank], SHORT_NS);
    if (rank == 2)
        until(&s->done, 3);
    const ronda_status status =
        ronda_allreduce(s->comms[rank], &word, &word, 1, RONDA_U64, RONDA_SUM);
    CHECK(status == RONDA_ETIMEOUT, "rank %u: %s", rank, ronda_strerror(status));
    snprintf(s->messages[rank], sizeof s->messages[rank], "%s", ronda_last_error(s->comms[rank]));
    atomic_fetch_add(&s->done, 1);
}

TEST(a_timeout_says_who_waits_for_whom)
{
    naming s = {0};
    if (!world_open(4, "allreduce=ring", s.comms))
        return;
    run_ranks(4, run_naming, &s);
    CHECK(strstr(s.messages[0], "waiting for rank 2, which has not called it"), "%s",
          s.messages[0]);
    CHECK(strstr(s.messages[0], "allreduce #1 of 1 u64, sum"), "%s", s.messages[0]);
    ronda_error e = {.struct_size = sizeof e};
    ronda_get_error(s.comms[2], &e);
    static const char *const waits[] = {"rank 0 waits for rank 3", "rank 1 waits for rank 0", NULL,
                                        "rank 3 waits for rank 2"};
    for (uint32_t r = 0; r < 4; r++) {
        CHECK(r == 2 || r == e.rank || strstr(s.messages[0], waits[r]), "'%s' is not in: %s",
              waits[r], s.messages[0]);
        CHECK(strcmp(s.messages[0], s.messages[r]) == 0, "rank %u says '%s'", r, s.messages[r]);
    }
    world_close(4, s.comms);
}

typedef struct {
    ronda_comm *comms[MOST];
    _Atomic uint32_t started, over;
} slow;

/* Each of the others comes one step of waiting later, so that no single wait is long, but all of
 * them together are: the deadline is the call's, not a step's. */
static void run_slow(void *context, uint32_t rank)
{
    slow *s = context;
    uint64_t word = rank;
    ronda_set_timeout(s->comms[rank], rank ? PATIENT_NS : 3 * SHORT_NS);
    if (rank == 0)
        atomic_store(&s->started, 1);
    else
        until(&s->started, 1);
    const double start = seconds_now();
    for (uint32_t i = 0; i < rank * 40 && !atomic_load(&s->over); i++)
        sleep_ms(10);
    const ronda_status status =
        ronda_allreduce(s->comms[rank], &word, &word, 1, RONDA_U64, RONDA_SUM);
    if (rank == 0) {
        CHECK(status == RONDA_ETIMEOUT, "after %.1f s, %.1f s allowed: %s", seconds_now() - start,
              3e-9 * (double)SHORT_NS, ronda_strerror(status));
        atomic_store(&s->over, 1);
    }
}

TEST(the_deadline_is_of_the_whole_call)
{
    static const char *const algorithms[] = {"allreduce=one_shot", "allreduce=star",
                                             "allreduce=ring"};
    for (uint32_t i = 0; i < 3; i++) {
        slow s = {0};
        if (!world_open(6, algorithms[i], s.comms))
            return;
        run_ranks(6, run_slow, &s);
        world_close(6, s.comms);
    }
}

/* --- causes --- */

typedef struct {
    uint32_t size;
    ronda_comm *comms[MOST];
    char messages[MOST][480];
} causes;

static void run_causes(void *context, uint32_t rank)
{
    causes *s = context;
    char reason[32];
    snprintf(reason, sizeof reason, "reason of %u", rank);
    ronda_abort(s->comms[rank], reason);
    ronda_abort(s->comms[rank], "second thoughts");
    CHECK(ronda_barrier(s->comms[rank]) == RONDA_EABORTED, "rank %u: %s", rank,
          ronda_last_error(s->comms[rank]));
    snprintf(s->messages[rank], sizeof s->messages[rank], "%s", ronda_last_error(s->comms[rank]));
}

TEST(the_first_cause_wins)
{
    test_deadline(60);
    for (uint32_t round = 0; round < (test_sanitized() ? 50 : 400) && !test_failed(); round++) {
        causes s = {.size = 2 + round % 5};
        if (!world_open(s.size, NULL, s.comms))
            return;
        run_ranks(s.size, run_causes, &s);
        CHECK(strstr(s.messages[0], "reason of"), "%s", s.messages[0]);
        for (uint32_t r = 1; r < s.size; r++)
            CHECK(strcmp(s.messages[0], s.messages[r]) == 0, "rank 0 says '%s', rank %u '%s'",
                  s.messages[0], r, s.messages[r]);
        world_close(s.size, s.comms);
    }
}

TEST(an_abort_without_a_reason)
{
    ronda_comm *comms[1];
    ronda_error e = {.struct_size = sizeof e};
    if (!world_open(1, NULL, comms))
        return;
    CHECK(ronda_abort(NULL, "x") == RONDA_EINVAL, "NULL");
    CHECK(ronda_abort(comms[0], NULL) == RONDA_OK, "abort");
    CHECK(ronda_barrier(comms[0]) == RONDA_EABORTED, "not aborted");
    ronda_get_error(comms[0], &e);
    CHECK(e.status == RONDA_EABORTED && e.rank == 0 && strstr(e.message, "rank 0 aborted"), "%s",
          e.message);
    CHECK(ronda_set_timeout(comms[0], 0) == RONDA_EINVAL, "timeout of 0");
    CHECK(ronda_barrier(comms[0]) == RONDA_EABORTED, "not aborted any more");
    world_close(1, comms);
}

/* A reason as long as one likes is cut, and stays one string. */
TEST(an_abort_with_a_long_reason)
{
    ronda_comm *comms[1];
    char reason[4000];
    memset(reason, 'x', sizeof reason);
    reason[sizeof reason - 1] = 0;
    if (!world_open(1, NULL, comms))
        return;
    ronda_abort(comms[0], reason);
    CHECK(ronda_barrier(comms[0]) == RONDA_EABORTED, "not aborted");
    CHECK(strlen(ronda_last_error(comms[0])) < 480, "%zu characters",
          strlen(ronda_last_error(comms[0])));
    world_close(1, comms);
}

/* A setting that is refused afterwards is no part of the collective that failed. */
TEST(an_error_after_a_failure_has_no_sequence)
{
    rng r = rng_start();
    scene s = make_scene(&r, CLOSES_FIRST, 2, RONDA_ALLREDUCE, 8);
    ronda_error e = {.struct_size = sizeof e};
    uint64_t word = 0;
    if (!world_open(2, NULL, s.comms))
        return;
    ronda_close(s.comms[1]);
    CHECK(ronda_allreduce(s.comms[0], &word, &word, 1, RONDA_U64, RONDA_SUM) == RONDA_EPEER,
          "no EPEER");
    ronda_get_error(s.comms[0], &e);
    CHECK(e.sequence == 1 && e.rank == 0 && e.peer == 1, "call %" PRIu64 ", %u about %u",
          e.sequence, e.rank, e.peer);
    CHECK(ronda_set_timeout(s.comms[0], 0) == RONDA_EINVAL, "a timeout of 0");
    ronda_get_error(s.comms[0], &e);
    CHECK(e.sequence == 0 && e.peer == RONDA_ANY, "call %" PRIu64 ", about %u", e.sequence, e.peer);
    ronda_close(s.comms[0]);
}

/* --- nothing is left --- */

static uint32_t lines_of(const char *path)
{
    FILE *f = fopen(path, "r");
    uint32_t lines = 0;
    for (int c; f && (c = getc(f)) != EOF;)
        lines += c == '\n';
    if (f)
        fclose(f);
    return lines;
}

static uint32_t threads_now(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    uint32_t threads = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Threads: %u", &threads) == 1)
            break;
    if (f)
        fclose(f);
    return threads;
}

TEST(nothing_is_left)
{
    rng r = rng_start();
    size_t used = 0;
    uint32_t maps = 0, threads = threads_now();
    const uint32_t worlds = test_sanitized() ? 20 : 200;

    mallopt(M_ARENA_MAX, 1);
    for (uint32_t i = 0; i < 2 * worlds && !test_failed(); i++) {
        scene s = make_scene(&r, (deed)(i % 5), 2 + i % 3,
                             (ronda_kind)(RONDA_ALLREDUCE + i % RD_KINDS), i % 7 ? 8 : 40000);
        play(&s);
        if (i + 1 == worlds) {
            used = mallinfo2().uordblks;
            maps = lines_of("/proc/self/maps");
        }
    }
    CHECK(threads_now() == threads, "%u threads instead of %u", threads_now(), threads);
    if (test_sanitized())
        return; /* their own memory grows; and they look for leaks themselves */
    CHECK(mallinfo2().uordblks < used + 20000, "%zu bytes have become %zu", used,
          mallinfo2().uordblks);
    CHECK(lines_of("/proc/self/maps") < maps + 20, "%u mappings have become %u", maps,
          lines_of("/proc/self/maps"));
}
