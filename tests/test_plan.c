/* test_plan.c: what plans cost in memory, how they are cut, which are chosen, and how long they are kept. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "harness.h"
#include "plan/choose.h"
#include "ronda.h"
#include "transport/transports.h"

static rd_plan *build(ronda_kind kind, const char *name, uint32_t rank, uint32_t size,
                      uint64_t count)
{
    const rd_shape shape = {.kind = kind, .rank = rank, .size = size, .width = 4, .count = count};
    rd_plan *p = rd_plan_build(rd_algorithm_named(kind, name), &shape, 1 << 20);
    CHECK(p != NULL, "no plan of %s for %u ranks", name, size);
    return p;
}

TEST(a_ring_of_4096_ranks_has_a_plan)
{
    rd_plan *p = build(RONDA_ALLREDUCE, "ring", 77, 4096, 10000000);
    CHECK(p->step_count == 4 * 4095, "%u steps", p->step_count);
    CHECK(p->lane_count == 2, "%u lanes", p->lane_count);
    CHECK(p->bytes < 2u << 20, "%zu bytes", p->bytes);
    rd_plan_free(p);
}

TEST(the_plan_of_a_gigabyte_is_small)
{
    for (const rd_algorithm *a = rd_algorithms; a->name; a++) {
        if (a->kind == RONDA_BARRIER)
            continue;
        rd_plan *p = build(a->kind, a->name, 1, 2, (uint64_t)1 << 28);
        CHECK(p->bytes < 1u << 20, "%s: %zu bytes", a->name, p->bytes);
        rd_plan_free(p);
    }
}

/* However long the message, a plan has no more steps than plan.h says. */
TEST(plans_do_not_grow_without_end)
{
    static const uint32_t sizes[] = {2, 3, 16, 100, 1000};
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        for (int i = 0; i < 5; i++) {
            if (a->kind == RONDA_BARRIER || (a->flags & RD_REFERENCE))
                continue;
            rd_plan *p = build(a->kind, a->name, sizes[i] / 2, sizes[i], (uint64_t)1 << 44);
            CHECK(p->step_count <= RD_MAX_STEPS + 4 * sizes[i], "%s, %u ranks: %u steps", a->name,
                  sizes[i], p->step_count);
            CHECK(p->chunks <= RD_MAX_CHUNKS, "%s, %u ranks: %u chunks", a->name, sizes[i],
                  p->chunks);
            rd_plan_free(p);
        }
}

/* --- how long they are kept --- */

static void count_plans(void *context, int level, const char *line)
{
    (void)level;
    if (strstr(line, "bytes of plan"))
        ++*(int *)context;
}

static void sum(ronda_comm *c, size_t count)
{
    static float x[200];
    CHECK(ronda_allreduce(c, x, x, count, RONDA_F32, RONDA_SUM) == RONDA_OK, "%s",
          ronda_last_error(c));
}

TEST(the_plan_used_longest_ago_goes_first)
{
    int built = 0;
    const ronda_config config = {
        .struct_size = sizeof config, .log = count_plans, .log_context = &built};
    ronda_comm *c;
    CHECK(ronda_init(&config, &c) == RONDA_OK, "%s", ronda_last_error(NULL));
    for (size_t count = 1; count <= 64; count++)
        sum(c, count);
    CHECK(built == 64, "%d plans", built);
    for (size_t count = 1; count <= 64; count++)
        sum(c, count);
    CHECK(built == 64, "%d plans: some were not kept", built);
    c->prepared.most_bytes = c->prepared.bytes;
    sum(c, 1); /* the oldest is used again, so 2 is the oldest now */
    sum(c, 100);
    CHECK(built == 65, "%d plans", built);
    sum(c, 1);
    CHECK(built == 65, "what was used just now is gone");
    sum(c, 2);
    CHECK(built == 66, "what was used longest ago is still there");
    sum(c, 4);
    CHECK(built == 66, "another one went");
    ronda_close(c);
}

/* --- how long messages are --- */

TEST(parts_of_large_calls_stay_in_the_caches)
{
    const rd_facts shm = rd_facts_of(&rd_shm, 16), crowded = rd_facts_of(&rd_shm, 2),
                   threads = rd_facts_of(&rd_local, 16), mixed = rd_facts_of(&rd_mixed, 16);
    const rd_algorithm *two_shot = rd_algorithm_named(RONDA_ALLREDUCE, "two_shot"),
                       *tree = rd_algorithm_named(RONDA_ALLREDUCE, "double_tree"),
                       *reduce = rd_algorithm_named(RONDA_REDUCE, "two_shot"),
                       *scatter = rd_algorithm_named(RONDA_BROADCAST, "scatter");
    const struct {
        const rd_facts *facts;
        const rd_algorithm *algorithm;
        uint32_t ranks;
        uint64_t count, segment;
    } rows[] = {
        {&shm, two_shot, 16, 1 << 22, 24 << 10},
        {&shm, two_shot, 12, 1 << 22, 32 << 10},
        {&shm, two_shot, 8, 1 << 22, 64 << 10},
        {&shm, two_shot, 3, 1 << 22, 64 << 10},
        {&shm, two_shot, 2, 1 << 22, 256 << 10},
        {&shm, two_shot, 2, 1 << 20, 1 << 20},
        {&shm, two_shot, 16, 1 << 18, 1 << 20},
        {&shm, tree, 16, 1 << 22, 1 << 20},
        {&shm, scatter, 16, 1 << 22, 1 << 20},
        {&crowded, two_shot, 16, 1 << 22, 1 << 20},
        {&threads, two_shot, 16, 1 << 22, 1 << 20},
        {&crowded, two_shot, 4, 1 << 22, 128 << 10},
        {&crowded, two_shot, 4, (1 << 20) + 1, 128 << 10},
        {&crowded, two_shot, 8, 1 << 22, 128 << 10},
        {&crowded, two_shot, 9, 1 << 22, 1 << 20},
        {&crowded, reduce, 4, 1 << 22, 1 << 20},
        {&shm, reduce, 4, 1 << 22, 64 << 10},
        {&crowded, two_shot, 4, 1 << 20, 1 << 20},
        {&mixed, two_shot, 16, 1 << 22, 1 << 18},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const rd_shape s = {.kind = rows[i].algorithm->kind,
                            .size = rows[i].ranks,
                            .width = 4,
                            .count = rows[i].count};
        const uint64_t segment = rd_segment_for(rows[i].facts, rows[i].algorithm, &s);
        CHECK(segment == rows[i].segment, "row %zu: %" PRIu64 " bytes", i, segment);
    }
}

/* --- what is chosen --- */

/* What was measured is in the prices: folds that are passed on cost more with few ranks and where ranks share
 * cores, what goes back to the only peer is not staged, and short copies are written to lines that are here. */
TEST(prices_choose_what_was_quickest)
{
    const rd_facts shm = rd_facts_of(&rd_shm, 16), crowded = rd_facts_of(&rd_shm, 2),
                   tcp = rd_facts_of(&rd_tcp, 2);
    const struct {
        const rd_facts *facts;
        ronda_kind kind;
        uint32_t ranks;
        uint64_t count;
        const char *name;
    } rows[] = {
        {&crowded, RONDA_ALLREDUCE, 2, 512, "one_shot"},
        {&crowded, RONDA_ALLREDUCE, 2, 2048, "two_shot"},
        {&crowded, RONDA_ALLREDUCE, 3, 2048, "one_shot"},
        {&shm, RONDA_ALLREDUCE, 4, 16, "one_shot"},
        {&shm, RONDA_ALLREDUCE, 8, 16, "one_shot"},
        {&shm, RONDA_ALLREDUCE, 12, 1000, "one_shot"},
        {&shm, RONDA_ALLREDUCE, 16, 64, "doubling"},
        {&crowded, RONDA_REDUCE_SCATTER, 4, 1 << 16, "direct"},
        {&crowded, RONDA_REDUCE_SCATTER, 8, 1 << 20, "direct"},
        {&shm, RONDA_REDUCE_SCATTER, 8, 1 << 20, "direct"},
        {&shm, RONDA_REDUCE_SCATTER, 16, 1 << 20, "ring"},
        {&shm, RONDA_REDUCE, 8, 1 << 11, "direct"},
        {&crowded, RONDA_REDUCE, 8, 1 << 20, "direct"},
        {&crowded, RONDA_SCAN, 3, 1 << 16, "linear"},
        {&crowded, RONDA_ALLTOALL, 2, 1 << 17, "pairwise"},
        {&crowded, RONDA_ALLTOALL, 8, 4, "pairwise"},
        {&shm, RONDA_ALLTOALL, 16, 1, "bruck"},
        {&tcp, RONDA_ALLTOALL, 8, 4, "bruck"},
        {&tcp, RONDA_ALLTOALL, 8, 1 << 16, "pairwise"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const rd_shape s = {
            .kind = rows[i].kind, .size = rows[i].ranks, .width = 4, .count = rows[i].count};
        const rd_algorithm *a = rd_choose(&s, rows[i].facts, NULL, NULL);
        CHECK(a && strcmp(a->name, rows[i].name) == 0, "row %zu: %s", i, a ? a->name : "none");
    }
}

/* --- what steps are told --- */

static const rd_step *writer_of(const rd_plan *p, uint8_t verb, uint64_t at)
{
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].verb == verb && p->steps[i].to_buffer == RD_OUT && p->steps[i].to_at == at)
            return &p->steps[i];
    return NULL;
}

TEST(steps_know_what_is_read_again)
{
    rd_plan *ring = build(RONDA_ALLGATHER, "ring", 1, 4, 1000);
    rd_plan *direct = build(RONDA_ALLGATHER, "direct", 1, 4, 1000);
    uint32_t read = 0;
    for (uint64_t q = 0; ring && direct && q < 4; q++) {
        const rd_step *a = writer_of(ring, RD_RECV, q * 1000);
        const rd_step *b = writer_of(direct, RD_RECV, q * 1000);
        CHECK((a && b) == (q != 1), "block %" PRIu64 " has no receive, or too many", q);
        read += a && a->read;
        CHECK(!b || !b->read, "direct: block %" PRIu64 " is read again", q);
    }
    CHECK(read == 2, "ring: %u blocks are passed on, not 2", read);
    rd_plan_free(ring);
    rd_plan_free(direct);
}

TEST(alltoall_sends_all_before_it_waits)
{
    for (uint32_t n = 2; n < 10; n++) {
        rd_plan *p = build(RONDA_ALLTOALL, "pairwise", n / 2, n, 2);
        uint32_t sends = 0;
        CHECK(p && p->straight, "%u ranks: no straight order", n);
        for (uint32_t i = 0; p && i < p->straight_count; i++) {
            const rd_step *step = &p->steps[p->straight[i]];
            sends += step->verb == RD_SEND;
            CHECK(step->verb != RD_RECV || sends == n - 1, "%u ranks: step %u waits", n, i);
        }
        rd_plan_free(p);
    }
}

/* --- nothing is left --- */

static int mappings(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    int lines = 0;
    for (int ch; f && (ch = getc(f)) != EOF;)
        lines += ch == '\n';
    if (f)
        fclose(f);
    return lines;
}

TEST(worlds_leave_no_mapping)
{
    ronda_comm *comms[5];
    int before = 0;
    for (int i = 0; i < 60; i++) {
        if (i == 10)
            before = mappings();
        CHECK(ronda_init_local(5, comms) == RONDA_OK, "%s", ronda_last_error(NULL));
        for (int r = 0; r < 5; r++)
            ronda_close(comms[r]);
    }
    CHECK(mappings() < before + 25, "%d mappings, and %d after 50 worlds more", before, mappings());
}
