/* test_prepared.c: the plans that a communicator keeps: found by hash, bounded by bytes, those used longest
 * ago go first, and those that calls or plan objects hold last as long as these; and choices by class. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "comm/comm.h"
#include "harness.h"
#include "plan/choose.h"
#include "plan/hosts.h"
#include "plan/raw.h"
#include "proof/check.h"
#include "transport/transports.h"

enum { RANKS = 2, MANY = 1000, UNDER_WAY = 24, MOST = MANY + 8 };

static uint32_t element(uint32_t rank, size_t i, size_t count)
{
    return (uint32_t)(1000 * rank + i * 7 + count);
}

static void fill(uint32_t *x, uint32_t rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = element(rank, i, count);
}

static void is_sum(const uint32_t *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t want = element(0, i, count) + element(1, i, count);
        if (!CHECK(x[i] == want, "element %zu of %zu: %u instead of %u", i, count, x[i], want))
            return;
    }
}

static void sum(ronda_comm *c, uint32_t *x, size_t count)
{
    fill(x, ronda_rank(c), count);
    CHECK(ronda_allreduce(c, x, x, count, RONDA_U32, RONDA_SUM) == RONDA_OK, "%s",
          ronda_last_error(c));
    is_sum(x, count);
}

/* What the set says of itself is so: both lists have all, the bytes add up. */
static void is_whole(const rd_prepared_set *set)
{
    uint32_t by_age = 0, by_bucket = 0;
    size_t bytes = 0;
    for (const rd_prepared *p = set->newest, *newer = NULL; p; newer = p, p = p->older) {
        by_age++;
        bytes += p->bytes;
        CHECK(p->newer == newer && !p->apart && (p->older || p == set->oldest), "lost in the list");
    }
    for (uint32_t b = 0; b < set->bucket_count; b++)
        for (const rd_prepared *p = set->buckets[b]; p; p = p->next)
            by_bucket++;
    CHECK(by_age == set->count && by_bucket == set->count && bytes == set->bytes,
          "%u by age, %u by bucket, %u in all; %zu bytes of %zu", by_age, by_bucket, set->count,
          bytes, set->bytes);
}

static uint32_t longest_bucket(const rd_prepared_set *set)
{
    uint32_t most = 0;
    for (uint32_t b = 0; b < set->bucket_count; b++) {
        uint32_t n = 0;
        for (const rd_prepared *p = set->buckets[b]; p; p = p->next)
            n++;
        most = n > most ? n : most;
    }
    return most;
}

/* --- many shapes --- */

static void run_many(void *context, uint32_t rank)
{
    ronda_comm *c = ((ronda_comm **)context)[rank];
    uint32_t *x = malloc(MOST * sizeof *x);
    const rd_prepared *first = NULL;
    const uint64_t built = rd_planned.built;
    for (int turn = 0; turn < 3 && x; turn++)
        for (size_t count = 1; count <= MANY; count++) {
            sum(c, x, count);
            if (count == 1 && turn == 0)
                first = c->prepared.newest;
            CHECK(count > 1 || c->prepared.newest == first, "planned again");
        }
    CHECK(c->prepared.count == MANY, "%u plans of %d shapes", c->prepared.count, MANY);
    CHECK(rd_planned.built == built + MANY, "%d plans were made of %d shapes",
          (int)(rd_planned.built - built), MANY);
    CHECK(longest_bucket(&c->prepared) > 1, "no two shapes in one bucket, which tests little");
    CHECK(c->prepared.bytes <= RD_PREPARED_BYTES, "%zu bytes", c->prepared.bytes);
    is_whole(&c->prepared);
    free(x);
}

TEST(a_thousand_shapes_are_kept)
{
    ronda_comm *comms[RANKS];
    if (!world_open(RANKS, NULL, comms))
        return;
    run_ranks(RANKS, run_many, comms);
    world_close(RANKS, comms);
}

/* --- the bound --- */

static void run_bounded(void *context, uint32_t rank)
{
    ronda_comm *c = ((ronda_comm **)context)[rank];
    uint32_t x[MOST];
    sum(c, x, 500);
    const size_t one = c->prepared.bytes;
    c->prepared.most_bytes = 8 * one;
    for (size_t count = 1; count <= 300; count++) {
        sum(c, x, count);
        sum(c, x, 500); /* is used between all others, so it stays */
        CHECK(c->prepared.bytes <= 8 * one, "%zu bytes of %zu", c->prepared.bytes, 8 * one);
        CHECK(c->prepared.newest->call.count == 500, "it is not the newest");
    }
    is_whole(&c->prepared);
    for (const rd_prepared *p = c->prepared.newest->older; p && p->older; p = p->older)
        CHECK(p->call.count == p->older->call.count + 1, "%zu after %zu", (size_t)p->call.count,
              (size_t)p->older->call.count);
    c->prepared.most_bytes = 1; /* one alone is kept, whatever its size */
    sum(c, x, 400);
    CHECK(c->prepared.count == 1 && c->prepared.newest->call.count == 400, "%u are kept",
          c->prepared.count);
    is_whole(&c->prepared);
}

TEST(bytes_are_bounded_and_the_oldest_goes_first)
{
    ronda_comm *comms[RANKS];
    if (!world_open(RANKS, NULL, comms))
        return;
    run_ranks(RANKS, run_bounded, comms);
    world_close(RANKS, comms);
}

/* --- what is held --- */

static void run_held(void *context, uint32_t rank)
{
    static uint32_t data[RANKS][UNDER_WAY][MOST];
    ronda_comm *c = ((ronda_comm **)context)[rank];
    ronda_request *requests[UNDER_WAY] = {NULL};
    ronda_plan *plan = NULL;
    const ronda_call call = {.struct_size = sizeof call,
                             .kind = RONDA_ALLREDUCE,
                             .type = RONDA_U32,
                             .op = RONDA_SUM,
                             .count = 77};
    c->prepared.most_bytes = 1;
    CHECK(ronda_plan_create(c, &call, &plan) == RONDA_OK, "%s", ronda_last_error(c));
    for (uint32_t i = 0; i < UNDER_WAY; i++) {
        uint32_t *x = data[rank][i];
        const size_t count = 100 + 10 * i;
        fill(x, rank, count);
        CHECK(ronda_iallreduce(c, x, x, count, RONDA_U32, RONDA_SUM, &requests[i]) == RONDA_OK,
              "%s", ronda_last_error(c));
        CHECK(c->prepared.count == 1, "%u are kept", c->prepared.count);
    }
    CHECK(ronda_wait_all(requests, UNDER_WAY) == RONDA_OK, "%s", ronda_last_error(c));
    for (uint32_t i = 0; i < UNDER_WAY; i++)
        is_sum(data[rank][i], 100 + 10 * i);
    for (int turn = 0; turn < 3; turn++) {
        uint32_t *x = data[rank][turn];
        fill(x, rank, 77);
        CHECK(ronda_start(plan, x, x, &requests[0]) == RONDA_OK, "%s", ronda_last_error(c));
        if (turn == 2) { /* it may go while it is under way */
            ronda_plan_free(plan);
            plan = NULL;
        }
        CHECK(ronda_wait(requests[0]) == RONDA_OK, "%s", ronda_last_error(c));
        is_sum(x, 77);
    }
    is_whole(&c->prepared);
}

TEST(what_is_held_outlives_the_bound)
{
    ronda_comm *comms[RANKS];
    if (!world_open(RANKS, NULL, comms))
        return;
    run_ranks(RANKS, run_held, comms);
    world_close(RANKS, comms);
}

/* --- counts --- */

static void run_counts(void *context, uint32_t rank)
{
    ronda_comm *c = ((ronda_comm **)context)[rank];
    uint32_t x[40], all[40];
    for (int turn = 0; turn < 2; turn++)
        for (size_t own = 0; own <= 40; own++) {
            const size_t counts[RANKS] = {own, 40 - own};
            fill(x, rank, counts[rank]);
            CHECK(ronda_allgatherv(c, x, all, counts, RONDA_U32) == RONDA_OK, "%s",
                  ronda_last_error(c));
            for (size_t i = 0; i < 40; i++)
                CHECK(all[i] == (i < own ? element(0, i, own) : element(1, i - own, 40 - own)),
                      "element %zu with %zu of rank 0", i, own);
        }
    CHECK(c->prepared.count == 41, "%u plans of 41 shapes", c->prepared.count);
    is_whole(&c->prepared);
}

TEST(counts_are_part_of_a_shape)
{
    ronda_comm *comms[RANKS];
    if (!world_open(RANKS, NULL, comms))
        return;
    run_ranks(RANKS, run_counts, comms);
    world_close(RANKS, comms);
}

/* --- choices --- */

/* A class has one choice, whichever of its sizes is asked for first: it is that of its representative, which
 * stands for itself, is at most the size and more than 3/4 of it. */
TEST(classes_stand_for_themselves)
{
    rng r = rng_start();
    for (int i = 0; i < 20000; i++) {
        const uint32_t width = 1u << rng_below(&r, 4);
        rd_shape s = {.kind = RONDA_BROADCAST,
                      .size = 5,
                      .rank = 3,
                      .root = 2,
                      .width = width,
                      .in_place = true,
                      .count = rng_next(&r) >> (8 + rng_below(&r, 54))};
        const rd_shape of = rd_class_of(&s), again = rd_class_of(&of);
        CHECK(of.count <= s.count &&
                  (of.count == 0 ? s.count == 0 : s.count / 5 < of.count / 4 + 1),
              "%zu stands for %zu", (size_t)of.count, (size_t)s.count);
        CHECK(again.count == of.count && again.root == of.root && of.rank == 0 && !of.in_place,
              "the class of a class is another");
        CHECK(s.count * width >= 256 || of.count == s.count, "%zu is short", (size_t)s.count);
        const bool power = (s.count & (s.count - 1)) == 0;
        CHECK(!power || of.count == s.count, "%zu is not rounded", (size_t)s.count);
    }
}

/* All sizes of a class run by one algorithm, and no rank prices for itself what another has chosen. */
TEST(a_class_has_one_choice)
{
    ronda_comm *comms[RANKS];
    static const size_t first[] = {1279, 1024, 1100};
    for (int i = 0; i < 3; i++) {
        uint32_t algorithm = 0;
        if (!world_open(RANKS, NULL, comms))
            return;
        for (int k = 0; k < 3; k++) {
            const rd_call call = {.kind = RONDA_ALLREDUCE,
                                  .type = RONDA_F32,
                                  .op = RONDA_SUM,
                                  .count = first[(i + k) % 3]};
            const rd_prepared *p = rd_prepared_make(comms[k % RANKS], &call);
            if (!CHECK(p, "no memory"))
                break;
            CHECK(k == 0 || p->algorithm == algorithm, "rows %u and %u", p->algorithm, algorithm);
            algorithm = p->algorithm;
        }
        world_close(RANKS, comms);
    }
}

/* What is dropped early was dearer: the choice is that of all prices. */
TEST(the_choice_is_the_cheapest_of_all_prices)
{
    static const uint32_t sizes[] = {2, 5, 16, 48, 300};
    const rd_facts facts[] = {rd_facts_of(&rd_local, 16), rd_facts_of(&rd_shm, 4),
                              rd_facts_of(&rd_tcp, 48), rd_facts_of(&rd_mixed, 16)};
    for (size_t f = 0; f < 4; f++)
        for (size_t i = 0; i < 5; i++) {
            rd_hosts *hosts = f == 3 && sizes[i] % 4 == 0 ? rd_hosts_even(4, sizes[i] / 4) : NULL;
            for (ronda_kind k = RONDA_ALLREDUCE; k < RONDA_BARRIER; k++)
                for (uint64_t count = 2; count < 1 << 22 && !rd_kind(k)->counted; count *= 16) {
                    const rd_shape s = {
                        .kind = k, .size = sizes[i], .width = 4, .count = count, .hosts = hosts};
                    rd_price prices[RD_MOST_CANDIDATES];
                    uint32_t n = 0;
                    const rd_algorithm *a = rd_choose(&s, &facts[f], prices, &n);
                    const rd_algorithm *b = rd_choose(&s, &facts[f], NULL, NULL);
                    CHECK(a && a == b && n > 0 && a == prices[0].algorithm,
                          "%s, %u ranks: %s of all, %s", rd_kind_name(k), sizes[i],
                          a ? a->name : "none", b ? b->name : "none");
                }
            rd_hosts_free(hosts);
        }
}

/* --- the work of a choice --- */

static uint32_t candidates(const rd_shape *s)
{
    uint32_t n = 0;
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        n += rd_is_candidate(a, s);
    return n;
}

/* A shape of this kind, of ragged blocks where they are counted; starts: room for 2 * (size + 1). */
static rd_shape shape_of(ronda_kind kind, uint32_t size, uint64_t count, uint64_t starts[])
{
    rd_shape s = {.kind = kind, .size = size, .width = 4, .count = count};
    if (rd_kind(kind)->counted)
        CHECK(rd_ragged_starts(&s, count, starts), "%s: no blocks", rd_kind_name(kind));
    return s;
}

/* What need not be compared is not priced. */
TEST(a_sole_candidate_is_not_priced)
{
    enum { SIZE = 16 };
    const rd_facts facts = rd_facts_of(&rd_tcp, 48);
    uint64_t starts[2 * (SIZE + 1)];
    uint32_t soles = 0;
    for (ronda_kind k = RONDA_ALLREDUCE; k <= RONDA_BARRIER; k++) {
        const rd_shape s = shape_of(k, SIZE, 1000, starts);
        const uint32_t n = candidates(&s);
        const uint64_t before = rd_planned.generated;
        CHECK(rd_choose(&s, &facts, NULL, NULL), "%s: no choice", rd_kind_name(k));
        const uint64_t priced = rd_planned.generated - before;
        CHECK(n > 1 ? priced >= n : !priced, "%s: %u candidates, %" PRIu64 " plans priced",
              rd_kind_name(k), n, priced);
        soles += n == 1;
    }
    CHECK(soles > 0, "no kind has a sole candidate, which tests nothing");
}

/* Some more than it is today; a look at every rank of every candidate would be a hundred times that. */
static void check_work(const rd_shape *s, const rd_facts *facts)
{
    enum { MOST_PLANS = 650, MOST_STEPS = 48000, MOST_IF_CROWDED = 96000 };
    const uint64_t most = facts->cpus < s->size ? MOST_IF_CROWDED : MOST_STEPS;
    const rd_plan_work before = rd_planned;
    const rd_algorithm *a = rd_choose(s, facts, NULL, NULL);
    const uint64_t plans = rd_planned.generated - before.generated,
                   steps = rd_planned.steps - before.steps;
    if (!CHECK(a, "%s: no choice", rd_kind_name(s->kind)))
        return;
    CHECK(plans <= MOST_PLANS && steps <= most,
          "%s of %" PRIu64 ", %u hosts: %" PRIu64 " plans of %" PRIu64 " steps were priced",
          rd_kind_name(s->kind), s->count, s->hosts ? s->hosts->count : 1, plans, steps);
    rd_plan *p = rd_plan_build(a, s, rd_segment_for(facts, a, s));
    CHECK(p && p->step_count <= RD_MANY_STEPS && p->step_count <= 4 * s->size * p->chunks,
          "%s of %" PRIu64 " by %s: %u steps", rd_kind_name(s->kind), s->count, a->name,
          p ? p->step_count : 0);
    rd_plan_free(p);
}

/* With a core for each rank, and with ranks that share cores; on one host, and on 2 to 1,024. */
TEST(a_miss_with_many_ranks_is_little_work)
{
    enum { SIZE = 1024, KINDS_OF_FACTS = 6 };
    static uint64_t starts[2 * (SIZE + 1)];
    const rd_facts facts[KINDS_OF_FACTS] = {
        rd_facts_of(&rd_local, 48), rd_facts_of(&rd_shm, 48),     rd_facts_of(&rd_shm, 1024),
        rd_facts_of(&rd_tcp, 1024), rd_facts_of(&rd_mixed, 1024), rd_facts_of(&rd_mixed, 16)};
    for (size_t f = 0; f < KINDS_OF_FACTS; f++)
        for (uint32_t each = 1; each < (facts[f].far ? SIZE : 2); each *= 2) { /* ranks of a host */
            rd_hosts *hosts = facts[f].far ? rd_hosts_even(SIZE / each, each) : NULL;
            for (ronda_kind k = RONDA_ALLREDUCE; k <= RONDA_BARRIER; k++)
                for (uint64_t count = 1; count <= 1 << 24; count *= 16) {
                    rd_shape s = shape_of(k, SIZE, count, starts);
                    s.hosts = hosts;
                    check_work(&s, &facts[f]);
                }
            rd_hosts_free(hosts);
        }
}
