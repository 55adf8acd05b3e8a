/* test_mismatch.c: ranks that disagree get RONDA_EMISMATCH, naming both ranks and both calls.
 *
 * One rank, the odd one, makes another call than the rest.  Whoever is still inside fails; a rank
 * whose part was done already (a broadcast's) fails at the barrier after it.  Nobody hangs, and all
 * ranks tell the same story from then on. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "calls.h"

enum { MOST = 8, EXTRA = 40 };
static const uint64_t TIMEOUT_NS = 20000000000u;
static const double ABSURD_SECONDS = 15;

typedef struct {
    uint32_t size, odd;
    model_call common, other; /* what the rest calls, and what the odd rank calls */
    uint32_t before;          /* calls that all agree in, before it */
    _Atomic uint32_t ready;   /* ranks that are out of them */
    ronda_comm *comms[MOST];
    char messages[MOST][480];
} scene;

/* A call as messages show it. */
static void text_of(const model_call *c, uint64_t sequence, char *text, size_t capacity)
{
    const rd_record r = {.sequence = sequence,
                         .count = model_counted(c->kind) ? model_recv_at(c, 0, c->size) : c->count,
                         .kind = c->kind,
                         .type = c->type,
                         .op = c->op,
                         .root = c->root};
    rd_record_text(&r, text, capacity);
}

static bool expect_mismatch(const scene *s, uint32_t rank, ronda_status status, const char *where)
{
    return CHECK(status == RONDA_EMISMATCH, "rank %u (odd: %u), %s: %s instead of a mismatch: %s",
                 rank, s->odd, where, ronda_strerror(status), ronda_last_error(s->comms[rank]));
}

/* The message names the odd rank and another, and both calls. */
static void check_message(const scene *s, uint32_t rank)
{
    ronda_error e = {.struct_size = sizeof e};
    char ours[160], theirs[160], odd[32];
    const char *text = ronda_last_error(s->comms[rank]);

    ronda_get_error(s->comms[rank], &e);
    text_of(&s->common, s->before + 1, ours, sizeof ours);
    text_of(&s->other, s->before + 1, theirs, sizeof theirs);
    snprintf(odd, sizeof odd, "rank %u called", s->odd);
    CHECK(strstr(text, ours) && strstr(text, theirs), "'%s' or '%s' is not in: %s", ours, theirs,
          text);
    CHECK(strstr(text, odd), "'%s' is not in: %s", odd, text);
    CHECK(e.status == RONDA_EMISMATCH && e.sequence == s->before + 1 &&
              strcmp(e.message, text) == 0,
          "status %d, sequence %" PRIu64 ": %s", e.status, e.sequence, e.message);
    CHECK(e.rank < s->size && e.peer < s->size && e.rank != e.peer &&
              (e.rank == s->odd || e.peer == s->odd),
          "found by %u about %u, but the odd one is %u", e.rank, e.peer, s->odd);
}

/* Success is allowed only where a rank's part was done: if it only sends, as the root of a broadcast or
 * to that of a gather; or with data of ranks that all made the same call. */
static void check_success(const scene *s, uint32_t rank, const call_buffers *b)
{
    const model_call *c = &b->call;
    const bool scans = c->kind == RONDA_SCAN || c->kind == RONDA_EXSCAN;
    CHECK(model_rooted(c->kind) || scans, "rank %u (odd: %u): %s succeeded", rank, s->odd,
          model_text(c));
    if (c->kind == RONDA_BROADCAST ? rank == c->root : model_gets(c, rank) == MODEL_NOTHING)
        return;
    if (scans)
        CHECK(s->odd > rank || rank == 0, "rank %u has the odd rank %u in its scan", rank, s->odd);
    else
        CHECK(rank == c->root ? model_gives(c, rank) == MODEL_BLOCKS
                              : rank != s->odd && c->root != s->odd,
              "rank %u took something from %u, odd is %u", rank, c->root, s->odd);
    void *whole = model_whole(c);
    call_right(b, whole);
    free(whole);
}

/* Every later call, of any kind, good or senseless, fails alike. */
static void check_afterwards(scene *s, uint32_t rank)
{
    ronda_comm *comm = s->comms[rank];
    uint32_t word = rank;

    snprintf(s->messages[rank], sizeof s->messages[rank], "%s", ronda_last_error(comm));
    expect_mismatch(s, rank, ronda_barrier(comm), "later barrier");
    expect_mismatch(s, rank, ronda_allreduce(comm, &word, &word, 1, RONDA_U32, RONDA_SUM),
                    "later allreduce");
    expect_mismatch(s, rank, ronda_broadcast(comm, &word, 1, RONDA_U32, 0), "later broadcast");
    ronda_abort(comm, "too late to matter");
    expect_mismatch(s, rank, ronda_barrier(comm), "barrier after an abort");
    CHECK(strcmp(s->messages[rank], ronda_last_error(comm)) == 0,
          "the story changed from '%s' to '%s'", s->messages[rank], ronda_last_error(comm));
    CHECK(word == rank, "a failed call wrote %u", word);
}

/* Nobody goes on before all are out of what they agree in: a failure ends whatever call a rank is in. */
static void meet(_Atomic uint32_t *ready, uint32_t size)
{
    atomic_fetch_add(ready, 1);
    while (atomic_load(ready) < size)
        sched_yield();
}

static void run_scene(void *context, uint32_t rank)
{
    scene *s = context;
    ronda_comm *comm = s->comms[rank];
    ronda_set_timeout(comm, TIMEOUT_NS);
    for (uint32_t i = 0; i < s->before; i++) {
        const model_call c = {.kind = RONDA_ALLREDUCE,
                              .type = RONDA_U32,
                              .op = RONDA_SUM,
                              .size = s->size,
                              .count = 3 + i,
                              .seed = i};
        call_buffers b = call_open(&c, rank, i % 2, 0);
        const ronda_status good = call_run(comm, &b);
        CHECK(good == RONDA_OK, "a good call: %s", ronda_last_error(comm));
        call_close(&b);
    }
    meet(&s->ready, s->size);
    call_buffers b = call_open(rank == s->odd ? &s->other : &s->common, rank, false, 0);
    ronda_status status = call_run(comm, &b);
    if (status == RONDA_OK) {
        check_success(s, rank, &b);
        status = ronda_barrier(comm);
    }
    call_clean(&b);
    call_close(&b);
    if (expect_mismatch(s, rank, status, "the call or the barrier after it"))
        check_message(s, rank);
    check_afterwards(s, rank);
}

static void play(scene *s)
{
    const double start = seconds_now();
    if (!world_open(s->size, NULL, s->comms))
        return;
    run_ranks(s->size, run_scene, s);
    CHECK(seconds_now() - start < ABSURD_SECONDS, "%u ranks took %.1f s", s->size,
          seconds_now() - start);
    for (uint32_t r = 1; r < s->size; r++)
        CHECK(strcmp(s->messages[0], s->messages[r]) == 0, "rank 0 says '%s', rank %u says '%s'",
              s->messages[0], r, s->messages[r]);
    if (test_failed()) {
        char other[160];
        text_of(&s->other, s->before + 1, other, sizeof other);
        printf("... all call %s, but rank %u of %u calls %s\n", model_text(&s->common), s->odd,
               s->size, other);
    }
    world_close(s->size, s->comms);
}

static const ronda_kind kinds[] = {RONDA_ALLREDUCE, RONDA_BROADCAST, RONDA_ALLGATHER,
                                   RONDA_REDUCE_SCATTER, RONDA_BARRIER};
static const uint32_t sizes[] = {2, 3, 5};

static model_call plain_call(ronda_kind kind, uint32_t size, uint64_t count)
{
    return (model_call){.kind = kind,
                        .type = kind == RONDA_BARRIER ? RONDA_U8 : RONDA_I32,
                        .op = RONDA_SUM,
                        .size = size,
                        .count = kind == RONDA_BARRIER ? 0 : count,
                        .seed = 7};
}

/* Every rank in turn is the odd one, in every world. */
static void play_everywhere(model_call common, model_call other, uint32_t before)
{
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t odd = 0; odd < sizes[i] && !test_failed(); odd++) {
            scene s = {
                .size = sizes[i], .odd = odd, .common = common, .other = other, .before = before};
            s.common.size = s.other.size = sizes[i];
            play(&s);
        }
}

static void every_pair_of_kinds(uint64_t count)
{
    for (uint32_t a = 0; a < 5; a++)
        for (uint32_t b = 0; b < 5; b++)
            if (a != b)
                play_everywhere(plain_call(kinds[a], 0, count), plain_call(kinds[b], 0, count),
                                a % 3);
}

TEST(another_collective_small)
{
    every_pair_of_kinds(2);
}

TEST(another_collective_large)
{
    test_deadline(120);
    every_pair_of_kinds(20000);
}

/* Each collective against three others, wherever the odd rank is. */
static void every_kind(uint64_t count)
{
    const ronda_kind first = RONDA_ALLREDUCE, all = RONDA_BARRIER - RONDA_ALLREDUCE + 1;
    for (ronda_kind a = 0; a < all; a++)
        for (ronda_kind b = 1; b < all; b += test_sanitized() ? 15 : 5)
            play_everywhere(plain_call(first + a, 0, count),
                            plain_call(first + (a + b) % all, 0, count), (uint32_t)a % 3);
}

TEST(every_collective_against_others)
{
    test_deadline(120);
    every_kind(2);
    every_kind(20000);
}

TEST(another_root_of_every_collective)
{
    for (ronda_kind k = RONDA_ALLREDUCE; k < RONDA_BARRIER; k++)
        for (uint64_t count = 2; count <= 20000 && model_rooted(k); count += 19998) {
            model_call common = plain_call(k, 0, count), other = common;
            other.root = 1;
            play_everywhere(common, other, 1);
        }
}

/* --- counts --- */

static void run_counts(ronda_comm *comm, uint32_t rank)
{
    uint32_t send[16] = {0}, recv[16] = {0};
    size_t counts[3] = {1, 2, 3};
    if (rank == 1) /* as many in all */
        counts[0] = 2, counts[1] = 1;
    ronda_set_timeout(comm, TIMEOUT_NS);
    ronda_status status = ronda_allgatherv(comm, send, recv, counts, RONDA_U32);
    CHECK(status == RONDA_EMISMATCH && strstr(ronda_last_error(comm), "differ in counts"),
          "rank %u: %s: %s", rank, ronda_strerror(status), ronda_last_error(comm));
}

TEST(other_counts_that_add_up_to_the_same)
{
    world_play(3, NULL, run_counts);
}

/* Rank 1 sends rank 2 one more than it expects. */
static void run_alltoallv(void *context, uint32_t rank)
{
    const struct {
        ronda_comm **comms;
        size_t count;
    } *s = context;
    static uint32_t send[3][70000], recv[3][70000];
    ronda_comm *comm = s->comms[rank];
    size_t send_counts[3] = {s->count, s->count, s->count}, recv_counts[3];
    memcpy(recv_counts, send_counts, sizeof recv_counts);
    send_counts[2] += rank == 1;
    ronda_set_timeout(comm, TIMEOUT_NS);
    ronda_status status =
        ronda_alltoallv(comm, send[rank], send_counts, recv[rank], recv_counts, RONDA_U32);
    if (!status)
        status = ronda_barrier(comm);
    CHECK(status == RONDA_EMISMATCH &&
              strstr(ronda_last_error(comm),
                     "rank 1 does not send rank 2 as many elements as rank 2 expects"),
          "rank %u: %s: %s", rank, ronda_strerror(status), ronda_last_error(comm));
}

TEST(an_alltoallv_that_does_not_fit)
{
    for (size_t count = 0; count <= 20000; count += 10000) {
        struct {
            ronda_comm **comms;
            size_t count;
        } s;
        ronda_comm *comms[3];
        s.comms = comms;
        s.count = count;
        if (!world_open(3, NULL, comms))
            return;
        run_ranks(3, run_alltoallv, &s);
        world_close(3, comms);
    }
}

/* A split is none of the program's own calls, although it is made of such. */
static void run_split(ronda_comm *comm, uint32_t rank)
{
    ronda_comm *part = NULL;
    uint64_t word = 0, all[2];
    const ronda_status status =
        rank ? ronda_split(comm, 0, 0, &part) : ronda_allgather(comm, &word, all, 1, RONDA_U64);
    CHECK(status == RONDA_EMISMATCH && strstr(ronda_last_error(comm), "called split #1"), "%s",
          ronda_last_error(comm));
}

TEST(a_split_against_an_allgather)
{
    world_play(2, NULL, run_split);
}

TEST(an_alltoallv_with_itself)
{
    ronda_comm *comm;
    uint64_t words[2] = {0};
    const size_t one[1] = {1}, two[1] = {2}, many[1] = {(size_t)1 << 61};
    if (!world_open(1, NULL, &comm))
        return;
    CHECK(ronda_alltoallv(comm, words, one, words + 1, two, RONDA_U32) == RONDA_EINVAL &&
              strstr(ronda_last_error(comm), "sends to itself"),
          "%s", ronda_last_error(comm));
    CHECK(ronda_alltoallv(comm, words, many, words + 1, many, RONDA_F64) == RONDA_EINVAL, "%s",
          ronda_last_error(comm));
    world_close(1, &comm);
}

TEST(another_count)
{
    static const uint64_t counts[][2] = {{2, 3},     {3, 2},     {0, 1},        {1, 0},
                                         {2, 20000}, {20000, 2}, {20000, 20001}};
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t i = 0; i < 7; i++)
            play_everywhere(plain_call(kinds[k], 0, counts[i][0]),
                            plain_call(kinds[k], 0, counts[i][1]), i % 2);
}

/* Also where the bytes are as many. */
TEST(another_type)
{
    for (uint32_t k = 0; k < 4; k++)
        for (uint64_t count = 2; count <= 20000; count += 19998) {
            model_call common = plain_call(kinds[k], 0, count), other = common;
            other.type = RONDA_U32;
            play_everywhere(common, other, 1);
            other.type = RONDA_I64;
            other.count = count / 2;
            play_everywhere(common, other, 0);
        }
}

TEST(another_op)
{
    for (uint32_t k = 0; k < 4; k += 3)
        for (uint64_t count = 2; count <= 20000; count += 19998) {
            model_call common = plain_call(kinds[k], 0, count), other = common;
            other.op = RONDA_MAX;
            play_everywhere(common, other, 1);
            common.op = RONDA_MEAN;
            other.op = RONDA_SUM;
            play_everywhere(common, other, 0);
        }
}

/* Two ranks whose roots are swapped both wait, or both only send; no message shows it. */
TEST(another_root)
{
    for (uint64_t count = 0; count <= 20000; count = count ? count * 100 : 2)
        for (uint32_t i = 0; i < 3; i++)
            for (uint32_t odd = 0; odd < sizes[i]; odd++)
                for (uint32_t root = 0; root < sizes[i]; root++)
                    for (uint32_t wrong = 0; wrong < sizes[i] && !test_failed(); wrong++) {
                        scene s = {.size = sizes[i], .odd = odd, .before = wrong % 2};
                        s.common = s.other = plain_call(RONDA_BROADCAST, sizes[i], count);
                        s.common.root = root;
                        s.other.root = wrong;
                        if (root != wrong)
                            play(&s);
                    }
}

/* --- a rank with calls of its own in between --- */

typedef struct {
    uint32_t size, odd;
    uint32_t at;     /* the call before which the odd rank makes its own */
    uint32_t extra;  /* how many of them */
    ronda_kind kind; /* of the odd rank's own calls; those of the others vary */
    _Atomic uint32_t ready;
    ronda_comm *comms[MOST];
    char messages[MOST][480];
} ahead;

static ronda_status plain_run(ronda_comm *comm, ronda_kind kind, uint32_t root)
{
    uint32_t send[2 * MOST] = {0}, recv[2 * MOST] = {0};
    const model_call c = {
        .kind = kind, .type = RONDA_U32, .op = RONDA_SUM, .root = root, .count = 2};
    const call_buffers b = {.call = c, .send = (char *)send, .recv = (char *)recv};
    return call_run(comm, &b);
}

static void run_ahead(void *context, uint32_t rank)
{
    ahead *s = context;
    ronda_comm *comm = s->comms[rank];
    ronda_status status = RONDA_OK;

    ronda_set_timeout(comm, TIMEOUT_NS);
    for (uint32_t i = 0; i < 12 && !status; i++) {
        for (uint32_t k = 0; k < s->extra && i == s->at && rank == s->odd && !status; k++)
            status = plain_run(comm, s->kind, s->odd);
        if (!status)
            status = plain_run(comm, i % 4 == 3 ? RONDA_BARRIER : kinds[(i * 3 + s->at) % 5],
                               i % s->size);
    }
    CHECK(status == RONDA_EMISMATCH, "rank %u (odd: %u, %u more of kind %d at %u): %s: %s", rank,
          s->odd, s->extra, s->kind, s->at, ronda_strerror(status), ronda_last_error(comm));
    snprintf(s->messages[rank], sizeof s->messages[rank], "%s", ronda_last_error(comm));
    CHECK(ronda_barrier(comm) == RONDA_EMISMATCH, "rank %u forgot it", rank);
}

static void play_ahead(uint32_t size, uint32_t odd, uint32_t at, uint32_t extra, ronda_kind kind)
{
    ahead s = {.size = size, .odd = odd, .at = at, .extra = extra, .kind = kind};
    const double start = seconds_now();
    char name[32];

    if (!world_open(size, NULL, s.comms))
        return;
    run_ranks(size, run_ahead, &s);
    snprintf(name, sizeof name, "rank %u", odd);
    CHECK(strstr(s.messages[0], name), "'%s' is not in: %s", name, s.messages[0]);
    for (uint32_t r = 1; r < size; r++)
        CHECK(strcmp(s.messages[0], s.messages[r]) == 0, "rank 0 says '%s', rank %u says '%s'",
              s.messages[0], r, s.messages[r]);
    CHECK(seconds_now() - start < ABSURD_SECONDS, "it took %.1f s", seconds_now() - start);
    world_close(size, s.comms);
}

/* At the first call, so that nothing before it agrees, and later ones.  The extra call is always
 * another one than the one in whose place it comes, or the next ones show it. */
TEST(one_call_too_many)
{
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t odd = 0; odd < sizes[i]; odd++)
            for (uint32_t at = 0; at < 6; at += 5)
                for (uint32_t k = 0; k < 5 && !test_failed(); k++)
                    play_ahead(sizes[i], odd, at, 1, kinds[k]);
}

/* A root's broadcasts wait for nobody: it is many calls ahead before anything is noticed, more
 * than the board remembers. */
TEST(many_calls_too_many)
{
    static const uint32_t extras[] = {2, 3, 4, 5, 17, EXTRA};
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t odd = 0; odd < sizes[i]; odd++)
            for (uint32_t e = 0; e < 6 && !test_failed(); e++) {
                play_ahead(sizes[i], odd, 0, extras[e], RONDA_BROADCAST);
                play_ahead(sizes[i], odd, 2, extras[e], RONDA_BROADCAST);
            }
}

/* One call too many at the very end: nobody is left who could have made it. */
static void run_last(void *context, uint32_t rank)
{
    ahead *s = context;
    CHECK(plain_run(s->comms[rank], RONDA_ALLREDUCE, 0) == RONDA_OK, "rank %u: %s", rank,
          ronda_last_error(s->comms[rank]));
    meet(&s->ready, s->size);
    if (rank == s->odd) {
        const ronda_status status = plain_run(s->comms[rank], s->kind, (rank + 1) % s->size);
        CHECK(status == RONDA_EPEER, "%s: %s", ronda_strerror(status),
              ronda_last_error(s->comms[rank]));
    }
    CHECK(ronda_close(s->comms[rank]) == RONDA_OK, "rank %u: close failed", rank);
}

TEST(one_call_too_many_at_the_end)
{
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t odd = 0; odd < sizes[i]; odd++)
            for (uint32_t k = 0; k < 5 && !test_failed(); k++) {
                ahead s = {.size = sizes[i], .odd = odd, .kind = kinds[k]};
                if (world_open(s.size, NULL, s.comms))
                    run_ranks(s.size, run_last, &s);
            }
}

/* --- what no message shows --- */

typedef struct {
    ronda_comm *comms[2];
    ronda_kind next;
} silent;

/* Both ranks are roots and only send: each may succeed; the next call of any kind that has to
 * hear from the other finds it. */
static void run_silent(void *context, uint32_t rank)
{
    silent *s = context;
    uint64_t word = 100 + rank;
    ronda_set_timeout(s->comms[rank], TIMEOUT_NS);
    ronda_status status = ronda_broadcast(s->comms[rank], &word, 1, RONDA_U64, rank);
    CHECK(word == 100 + rank, "rank %u's word became %" PRIu64, rank, word);
    if (status == RONDA_OK)
        status = plain_run(s->comms[rank], s->next, 0);
    if (status == RONDA_OK) {
        CHECK(s->next == RONDA_BROADCAST && rank == 0, "rank %u succeeded", rank);
        status = ronda_barrier(s->comms[rank]);
    }
    CHECK(status == RONDA_EMISMATCH, "rank %u: %s: %s", rank, ronda_strerror(status),
          ronda_last_error(s->comms[rank]));
    CHECK(strstr(ronda_last_error(s->comms[rank]), "root 0") &&
              strstr(ronda_last_error(s->comms[rank]), "root 1"),
          "rank %u: %s", rank, ronda_last_error(s->comms[rank]));
}

TEST(two_roots_are_found_at_the_next_call)
{
    for (uint32_t round = 0; round < 40; round++)
        for (uint32_t k = 0; k < 5 && !test_failed(); k++) {
            silent s = {.next = kinds[k]};
            if (!world_open(2, NULL, s.comms))
                return;
            run_ranks(2, run_silent, &s);
            world_close(2, s.comms);
        }
}
