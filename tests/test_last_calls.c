/* test_last_calls.c: ranks disagree in their last call, which only sends, and close.  Whoever closes later finds it,
 * over every transport, in the world and in a subcommunicator. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "links.h"

enum { MOST = 4, HOWS = 4, AGREED = 4 };
static const uint64_t TIMEOUT_NS = 20000000000u;
static const double ABSURD_SECONDS = 8;

typedef struct {
    const char *name;
    bool (*open)(uint32_t size, rd_link *links[]);
} way;
static const way ways[HOWS] = {
    {"threads", links_local}, {"shm", links_shm}, {"tcp", links_tcp}, {"mixed", links_mixed}};

typedef struct scene scene;
struct scene {
    const way *over;
    uint32_t size, odd;
    bool part;                                           /* in a subcommunicator */
    ronda_status (*call)(const scene *s, ronda_comm *c); /* the last one */
    bool one_by_one; /* ranks close in their order, when all have made the last call */
    ronda_comm *worlds[MOST];
    char said[MOST][LINKS_LINE];
    _Atomic uint32_t ready, closed;
    ronda_status called[MOST], ended[MOST]; /* what the last call and the close came to */
    char why[MOST][480];
};

static void until(_Atomic uint32_t *at, uint32_t least)
{
    const double end = seconds_now() + 40;
    while (atomic_load(at) < least && seconds_now() < end)
        sched_yield();
    CHECK(atomic_load(at) >= least, "%u of %u ranks have come so far", atomic_load(at), least);
}

static void close_it(scene *s, ronda_comm *c, uint32_t rank)
{
    const double start = seconds_now();
    s->ended[rank] = ronda_close(c);
    CHECK(seconds_now() - start < ABSURD_SECONDS, "over %s rank %u took %.1f s to close",
          s->over->name, rank, seconds_now() - start);
    if (s->ended[rank])
        snprintf(s->why[rank], sizeof s->why[rank], "%s", ronda_last_error(NULL));
}

static void run_scene(void *context, uint32_t rank)
{
    scene *s = context;
    ronda_comm *world = s->worlds[rank], *c = world;
    ronda_set_timeout(world, TIMEOUT_NS);
    if (s->part)
        CHECK(!ronda_split(world, 0, (int)rank, &c), "%s", ronda_last_error(world));
    for (uint32_t i = 0; i < AGREED; i++)
        CHECK(!ronda_barrier(c), "%s", ronda_last_error(c));
    atomic_fetch_add(&s->ready, 1);
    until(&s->ready, s->size); /* a failure ends whatever call a rank is in */
    s->called[rank] = s->call(s, c);
    if (s->called[rank])
        snprintf(s->why[rank], sizeof s->why[rank], "%s", ronda_last_error(c));
    atomic_fetch_add(&s->ready, 1);
    if (s->one_by_one) {
        until(&s->ready, 2 * s->size);
        until(&s->closed, rank);
    }
    close_it(s, c, rank);
    atomic_fetch_add(&s->closed, 1);
    until(&s->closed, s->size);
    if (s->part)
        CHECK(!ronda_close(world), "rank %u: %s", rank, ronda_last_error(NULL));
}

static void play(scene *s)
{
    rd_link *links[MOST];
    if (CHECK(s->over->open(s->size, links) && links_comms(s->size, links, s->said, s->worlds),
              "no world over %s", s->over->name))
        run_ranks(s->size, run_scene, s);
}

static ronda_status outcome_of(const scene *s, uint32_t rank)
{
    return s->called[rank] ? s->called[rank] : s->ended[rank];
}

/* How many were told, in the call or when they closed; nobody may have been told something else. */
static uint32_t told(const scene *s, ronda_status what, const char *text)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < s->size; r++) {
        const ronda_status got = outcome_of(s, r);
        count += got == what;
        CHECK(!got || (got == what && strstr(s->why[r], text)),
              "over %s%s, odd rank %u of %u: rank %u: %s: %s", s->over->name,
              s->part ? ", in a part" : "", s->odd, s->size, r, ronda_strerror(got), s->why[r]);
    }
    return count;
}

static void check_told(const scene *s, uint32_t least, ronda_status what, const char *text)
{
    const uint32_t count = told(s, what, text);
    CHECK(count >= least, "over %s%s, odd rank %u of %u: %u ranks were told", s->over->name,
          s->part ? ", in a part" : "", s->odd, s->size, count);
}

/* --- another root --- */

static ronda_status another_root(const scene *s, ronda_comm *c)
{
    uint32_t words[2] = {ronda_rank(c), 7};
    return ronda_broadcast(c, words, 2, RONDA_U32, ronda_rank(c) == s->odd ? s->odd : 0);
}

TEST(another_root_in_the_last_call)
{
    for (uint32_t w = 0; w < HOWS; w++)
        for (uint32_t size = 2; size <= MOST; size++)
            for (uint32_t odd = 1; odd < size; odd++)
                for (int part = 0; part < 2 && !test_failed(); part++) {
                    scene s = {.over = &ways[w], .size = size, .odd = odd, .part = part};
                    s.call = another_root;
                    s.one_by_one = true;
                    play(&s);
                    /* Who sees one board is told in any case; between hosts who was sent something is */
                    const bool all = w < 2 || size == 2;
                    check_told(&s, all ? size : 1, RONDA_EMISMATCH, "they differ in root");
                }
}

/* Both close at the same time. */
TEST(another_root_and_no_order)
{
    for (uint32_t round = 0; round < 30; round++)
        for (uint32_t w = 0; w < HOWS && !test_failed(); w++) {
            scene s = {.over = &ways[w], .size = 2, .odd = 1, .call = another_root};
            play(&s);
            check_told(&s, 1, RONDA_EMISMATCH, "they differ in root");
        }
}

/* --- more calls than the others --- */

/* The odd rank makes a call that only sends, before or after the other one has closed. */
static ronda_status one_more(const scene *s, ronda_comm *c)
{
    uint32_t word = ronda_rank(c);
    return ronda_rank(c) == s->odd ? ronda_broadcast(c, &word, 1, RONDA_U32, s->odd) : RONDA_OK;
}

TEST(a_call_that_the_other_has_not_made)
{
    for (uint32_t w = 0; w < HOWS; w++)
        for (uint32_t odd = 0; odd < 2; odd++)
            for (int part = 0; part < 2 && !test_failed(); part++) {
                scene s = {.over = &ways[w], .size = 2, .odd = odd, .part = part, .call = one_more};
                s.one_by_one = true;
                play(&s);
                /* Rank 0 closes first, and leaves the other something to find */
                if (odd == 0)
                    check_told(&s, 1, RONDA_EMISMATCH, "but rank 1 closed without it");
                else
                    check_told(&s, 1, RONDA_EPEER, "rank 0 has closed");
            }
}

/* All but the odd rank make a call; it has closed without it, and each of them finds that when it closes: the second
 * as well, though the world has failed by then. */
static ronda_status one_less(const scene *s, ronda_comm *c)
{
    uint32_t word = 5;
    return ronda_rank(c) == s->odd ? RONDA_OK : ronda_broadcast(c, &word, 1, RONDA_U32, 1);
}

TEST(a_call_that_one_has_not_made)
{
    for (uint32_t w = 0; w < 2; w++) /* between hosts who was sent nothing may miss it */
        for (int part = 0; part < 2 && !test_failed(); part++) {
            scene s = {.over = &ways[w], .size = 3, .odd = 0, .part = part, .call = one_less};
            s.one_by_one = true;
            play(&s);
            check_told(&s, 2, RONDA_EPEER, "rank 0 has closed");
        }
}

/* --- in good order --- */

static ronda_status same_root(const scene *s, ronda_comm *c)
{
    uint32_t words[2] = {ronda_rank(c), 7};
    return ronda_broadcast(c, words, 2, RONDA_U32, s->odd);
}

TEST(nobody_is_told_of_what_is_right)
{
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t w = 0; w < HOWS; w++)
            for (uint32_t odd = 0; odd < MOST; odd++)
                for (int part = 0; part < 2 && !test_failed(); part++) {
                    scene s = {.over = &ways[w], .size = MOST, .odd = odd, .part = part};
                    s.call = same_root;
                    play(&s);
                    check_told(&s, 0, RONDA_OK, "");
                }
}

/* Who closes early does not wait for those that have not come. */
static void close_early(void *context, uint32_t rank)
{
    scene *s = context;
    uint32_t word = 9;
    ronda_set_timeout(s->worlds[rank], TIMEOUT_NS);
    CHECK(!ronda_barrier(s->worlds[rank]), "%s", ronda_last_error(s->worlds[rank]));
    if (rank)
        until(&s->closed, 1);
    CHECK(!ronda_broadcast(s->worlds[rank], &word, 1, RONDA_U32, 0) && word == 9, "rank %u: %s",
          rank, ronda_last_error(s->worlds[rank]));
    close_it(s, s->worlds[rank], rank);
    atomic_fetch_add(&s->closed, 1);
}

TEST(closing_waits_for_nobody)
{
    for (uint32_t w = 0; w < HOWS && !test_failed(); w++) {
        scene s = {.over = &ways[w], .size = 3};
        rd_link *links[MOST];
        if (CHECK(s.over->open(s.size, links) && links_comms(s.size, links, s.said, s.worlds),
                  "no world"))
            run_ranks(s.size, close_early, &s);
        check_told(&s, 0, RONDA_OK, "");
    }
}
