/* test_plan.c: what plans cost in memory, how they are cut, and how long they are kept. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "plan/choose.h"
#include "ronda.h"

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
    const rd_facts shm = rd_facts_shm(16), crowded = rd_facts_shm(2), threads = rd_facts_local(16),
                   mixed = rd_facts_mixed(16);
    const rd_algorithm *two_shot = rd_algorithm_named(RONDA_ALLREDUCE, "two_shot"),
                       *tree = rd_algorithm_named(RONDA_ALLREDUCE, "double_tree"),
                       *scatter = rd_algorithm_named(RONDA_BROADCAST, "scatter");
    const struct {
        const rd_facts *facts;
        const rd_algorithm *algorithm;
        uint32_t ranks;
        uint64_t count, segment;
    } rows[] = {
        {&shm, two_shot, 16, 1 << 22, 24 << 10},     {&shm, two_shot, 12, 1 << 22, 32 << 10},
        {&shm, two_shot, 8, 1 << 22, 128 << 10},     {&shm, two_shot, 3, 1 << 22, 128 << 10},
        {&shm, two_shot, 2, 1 << 22, 1 << 20},       {&shm, two_shot, 16, 1 << 18, 1 << 20},
        {&shm, tree, 16, 1 << 22, 1 << 20},          {&shm, scatter, 16, 1 << 22, 1 << 20},
        {&crowded, two_shot, 16, 1 << 22, 1 << 20},  {&threads, two_shot, 16, 1 << 22, 1 << 20},
        {&crowded, two_shot, 4, 1 << 22, 128 << 10}, {&crowded, two_shot, 4, 1 << 20, 1 << 20},
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
