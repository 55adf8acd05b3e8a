/* test_bench.c: the data of `ronda bench`: what collectives make of it passes, and nothing else does. */
#include <stdlib.h>
#include <string.h>

#include "../cli/bench.h"
#include "base/names.h"
#include "calls.h"

typedef struct {
    bench_point point;
    uint32_t size;
    uint64_t turn;
    uint64_t spoil; /* 1 + a byte of the victim's result, as far as there are so many; 0: none */
    uint32_t victim;
    void (*damage)(const bench_job *j, const bench_point *p, char *got); /* or so, on all ranks */
    uint64_t checked_turn; /* the one to compare with */
    ronda_comm *comms[16];
    bool right[16], fed[16];
    size_t bytes[16]; /* of the results */
    char why[16][200];
} scene;

static void play_rank(void *context, uint32_t rank)
{
    scene *s = context;
    const bench_point *p = &s->point;
    const size_t width = ronda_type_size(p->type), room = (p->count * (s->size + 1) + 1) * width;
    char *send = calloc(1, room), *other = calloc(1, room);
    char *recv = p->in_place ? send : other;
    bench_data *d = bench_data_open(p, rank, s->size);
    const bench_job *j = bench_data_job(d);
    bench_fill(d, p, s->turn, send, recv);
    s->fed[rank] = bench_call(s->comms[rank], j, p, send, recv) == RONDA_OK;
    s->bytes[rank] = j->gets * width;
    if (s->spoil && rank == s->victim && s->bytes[rank]) {
        size_t at = (s->spoil - 1) % s->bytes[rank];
        /* A low bit of a short float may be a rounding that is allowed: spoil its high byte */
        if (p->type == RONDA_F16 || p->type == RONDA_BF16)
            at |= 1;
        recv[at] ^= 0x41;
    }
    if (s->damage)
        s->damage(j, p, recv);
    s->right[rank] = bench_right(d, p, s->checked_turn, recv, s->why[rank], sizeof s->why[rank]);
    bench_data_close(d);
    free(send);
    free(other);
}

static bool play(scene *s)
{
    if (!world_open(s->size, NULL, s->comms))
        return false;
    run_ranks(s->size, play_rank, s);
    world_close(s->size, s->comms);
    return true;
}

static scene draw(rng *r)
{
    scene s = {.size = 1 + (uint32_t)rng_below(r, 9), .turn = rng_below(r, 1000)};
    bench_point *p = &s.point;
    s.checked_turn = s.turn;
    do {
        *p = (bench_point){.kind = RONDA_ALLREDUCE + (ronda_kind)rng_below(r, BENCH_KINDS),
                           .type = 1 + (ronda_type)rng_below(r, 12),
                           .op = RONDA_SUM + (ronda_op)rng_below(r, 8),
                           .root = (uint32_t)rng_below(r, s.size),
                           .count = 1 + rng_below(r, rng_below(r, 3) ? 300 : 20000)};
    } while (!rd_op_allows(p->op, p->type) || (p->op == RONDA_MEAN && !rd_kind_means(p->kind)));
    p->in_place = bench_in_place(p->kind, rng_below(r, 2));
    if (!rd_kind_rooted(p->kind))
        p->root = 0;
    return s;
}

TEST(results_pass_and_spoiled_ones_do_not)
{
    rng r = rng_start();
    test_deadline(120);
    for (uint32_t round = 0; round < (test_sanitized() ? 200 : 3000) && !test_failed(); round++) {
        scene s = draw(&r);
        if (rng_below(&r, 2)) {
            s.victim = (uint32_t)rng_below(&r, s.size);
            s.spoil = 1 + rng_below(&r, 1000000);
        }
        if (!play(&s))
            return;
        for (uint32_t k = 0; k < s.size; k++) {
            const bool expected = !(s.spoil && k == s.victim && s.bytes[k]);
            CHECK(s.fed[k] && s.right[k] == expected && (expected || s.why[k][0]),
                  "%s of %llu %s, %s, rank %u of %u: %s", rd_kind_name(s.point.kind),
                  (unsigned long long)s.point.count, rd_type_name(s.point.type),
                  rd_op_name(s.point.op), k, s.size, expected ? s.why[k] : "spoiled, and not seen");
        }
    }
}

/* --- mistakes that a collective could make, of every kind --- */

/* What came first is put one element further. */
static void shift_by_one(const bench_job *j, const bench_point *p, char *got)
{
    const size_t width = ronda_type_size(p->type);
    if (j->gets)
        memmove(got + width, got, (j->gets - 1) * width);
}

/* The second block as if the first rank had sent it too. */
static void repeat_block(const bench_job *j, const bench_point *p, char *got)
{
    const size_t width = ronda_type_size(p->type), first = j->recv_counts[0] * width;
    const size_t both = first < j->recv_counts[1] * width ? first : j->recv_counts[1] * width;
    if (rd_kind(p->kind)->gets == RD_BLOCKS && j->gets)
        memcpy(got + first, got, both);
}

/* In every kind: a good result passes; an old one, a shifted one and a block of the wrong rank do not. */
TEST(mistakes_of_every_kind_are_seen)
{
    for (ronda_kind kind = RONDA_ALLREDUCE; kind < RONDA_BARRIER && !test_failed(); kind++)
        for (int mistake = 0; mistake < 4; mistake++) {
            const bool blocks = rd_kind(kind)->gets == RD_BLOCKS;
            scene s = {.size = 3,
                       .turn = 5,
                       .checked_turn = mistake == 1 ? 6 : 5,
                       .damage = mistake == 2   ? shift_by_one
                                 : mistake == 3 ? repeat_block
                                                : NULL,
                       .point = {.kind = kind,
                                 .type = RONDA_F32,
                                 .op = RONDA_SUM,
                                 .count = 200,
                                 .in_place = bench_in_place(kind, false)}};
            if (!play(&s))
                return;
            for (uint32_t k = 0; k < s.size; k++) {
                const bool expected = !mistake || (mistake == 3 && !blocks) || !s.bytes[k];
                CHECK(s.fed[k] && s.right[k] == expected, "%s, mistake %d, rank %u: %s",
                      rd_kind_name(kind), mistake, k, expected ? s.why[k] : "not seen");
            }
        }
}

/* Off by the least there is, the lowest bit. */
static void nudge(const bench_job *j, const bench_point *p, char *got)
{
    if (j->gets)
        got[(j->gets - 1) * ronda_type_size(p->type)] ^= 1;
}

/* What came and what should have come: never the same text twice. */
TEST(a_wrong_result_is_told_from_the_right_one)
{
    static const ronda_type types[] = {RONDA_F32, RONDA_F64, RONDA_I32, RONDA_U64};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        scene s = {
            .size = 2,
            .damage = nudge,
            .point = {.kind = RONDA_ALLREDUCE, .type = types[i], .op = RONDA_SUM, .count = 256}};
        if (!play(&s))
            return;
        for (uint32_t k = 0; k < s.size; k++) {
            char is[100] = "", should[100] = "";
            const int found = sscanf(s.why[k], "element 255 is %99[^,], not %99s", is, should);
            CHECK(!s.right[k] && found == 2 && strcmp(is, should) != 0, "%s: '%s'",
                  rd_type_name(types[i]), s.why[k]);
        }
    }
}

/* --- amounts --- */

/* Ragged blocks are together as long as even ones, in both buffers, and what is sent is what is expected. */
TEST(ragged_blocks_add_up)
{
    for (ronda_kind kind = RONDA_ALLREDUCE; kind < RONDA_BARRIER; kind++)
        for (uint32_t size = 1; size <= 9; size++)
            for (uint64_t count = 1; count < 8; count++) {
                const bench_point p = {.kind = kind, .type = RONDA_F32, .count = count};
                const bool both = kind == RONDA_ALLTOALL || kind == RONDA_ALLTOALLV;
                bench_job jobs[9];
                bool ragged = false;
                for (uint32_t r = 0; r < size; r++)
                    CHECK(bench_job_open(&p, r, size, &jobs[r]), "no memory");
                for (uint32_t r = 0; r < size; r++) {
                    uint64_t sums[2] = {0};
                    for (uint32_t k = 0; k < size; k++) {
                        sums[0] += jobs[r].counts[k];
                        sums[1] += jobs[r].recv_counts[k];
                        ragged |= jobs[r].counts[k] != count;
                        CHECK(jobs[r].counts[k] ==
                                  (both ? jobs[k].recv_counts[r] : jobs[k].counts[k]),
                              "%s: ranks %u and %u of %u differ", rd_kind_name(kind), r, k, size);
                    }
                    CHECK(sums[0] == size * count && sums[1] == size * count, "%s: %llu, %llu",
                          rd_kind_name(kind), (unsigned long long)sums[0],
                          (unsigned long long)sums[1]);
                }
                CHECK(ragged == (rd_kind(kind)->counted && size > 1 && count > 1),
                      "%s of %llu, %u ranks: ragged: %d", rd_kind_name(kind),
                      (unsigned long long)count, size, ragged);
                for (uint32_t r = 0; r < size; r++)
                    bench_job_close(&jobs[r]);
            }
}

/* Bandwidths as nccl-tests has them. */
TEST(bandwidths)
{
    bench_row row = {.point = {.bytes = 1000000}, .median_us = 100};
    static const struct {
        ronda_kind kind;
        double factor;
    } cases[] = {
        {RONDA_ALLREDUCE, 1.5},       {RONDA_ALLGATHER, 0.75}, {RONDA_REDUCE_SCATTER, 0.75},
        {RONDA_BROADCAST, 1},         {RONDA_REDUCE, 1},       {RONDA_GATHER, 0.75},
        {RONDA_SCATTER, 0.75},        {RONDA_ALLTOALL, 0.75},  {RONDA_SCAN, 1},
        {RONDA_REDUCE_SCATTERV, 0.75}};
    CHECK(bench_algorithm_bandwidth(&row) == 10, "a megabyte in 100 us is 10 GB/s");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        row.point.kind = cases[i].kind;
        CHECK(bench_bus_bandwidth(&row, 4) == 10 * cases[i].factor, "%s: %g",
              rd_kind_name(row.point.kind), bench_bus_bandwidth(&row, 4));
    }
}

/* How a row is shown, in one of the formats. */
static void show(const bench_row *row, int format, char *text, size_t capacity)
{
    const bench_request q = {.format = format};
    FILE *to = fmemopen(text, capacity, "w");
    if (!CHECK(to, "no memory"))
        return;
    bench_print_row(to, &q, row, 2, true);
    fclose(to);
}

/* Never as a limit of no time at all. */
TEST(what_is_not_known_is_shown_as_such)
{
    bench_row row = {.point = {.kind = RONDA_BARRIER, .type = RONDA_U8, .memory = BENCH_PRIVATE},
                     .algorithm = "dissemination",
                     .distance = BENCH_UNKNOWN,
                     .count = 5,
                     .min_us = 1,
                     .median_us = 2,
                     .p99_us = 4};
    char table[400] = "", csv[400] = "", json[800] = "";
    show(&row, BENCH_TABLE, table, sizeof table);
    show(&row, BENCH_CSV, csv, sizeof csv);
    show(&row, BENCH_JSON, json, sizeof json);
    CHECK(strstr(table, " 4.000          -      -       -       -      -\n"), "%s", table);
    CHECK(strstr(csv, ",4.0000,-,0.0000,-,"), "%s", csv);
    CHECK(strstr(json, "\"limit_us\": null, \"copy_us\": 0.0000, \"round_trip_us\": null,"), "%s",
          json);
    row.limit_us = 0.5;
    row.round_trip_us = 1;
    show(&row, BENCH_TABLE, table, sizeof table);
    show(&row, BENCH_CSV, csv, sizeof csv);
    show(&row, BENCH_JSON, json, sizeof json);
    CHECK(strstr(table, " 4.000      0.500    4.0       -       -  1.000\n"), "%s", table);
    CHECK(strstr(csv, ",4.0000,0.5000,0.0000,1.0000,"), "%s", csv);
    CHECK(strstr(json, "\"limit_us\": 0.5000, \"copy_us\": 0.0000, \"round_trip_us\": 1.0000,"),
          "%s", json);
}

/* With few samples as with many: each number is one of them, and they are in order. */
TEST(least_median_and_percentile_are_in_order)
{
    rng r = rng_start();
    double us[400];
    for (uint32_t n = 1; n <= 400; n++) {
        bench_row row = {.copy_us = (double)rng_below(&r, 2000)};
        uint32_t up_to = 0;
        for (uint32_t i = 0; i < n; i++)
            us[i] = 1 + (double)rng_below(&r, 1000);
        bench_sum_up(us, n, &row);
        for (uint32_t i = 0; i < n; i++)
            up_to += us[i] <= row.p99_us;
        CHECK(row.count == n && row.min_us <= row.median_us && row.median_us <= row.p99_us,
              "n = %u: min %g, median %g, p99 %g", n, row.min_us, row.median_us, row.p99_us);
        CHECK(row.min_us == us[0] && row.p99_us <= us[n - 1] && 100 * up_to >= 99 * n,
              "n = %u: p99 %g is that of %u", n, row.p99_us, up_to);
        const double limit = bench_limit_us(&row, 0.5);
        CHECK(limit <= row.min_us && limit <= row.copy_us + 0.5 && limit > 0,
              "n = %u: a limit of %g with min %g and a copy of %g", n, limit, row.min_us,
              row.copy_us);
    }
}
