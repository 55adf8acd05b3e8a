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
    uint64_t spoil; /* 1 + a byte of the result, 0: none */
    uint32_t victim;
    ronda_comm *comms[16];
    bool right[16], fed[16];
    char why[16][200];
} scene;

static size_t result_bytes(const scene *s)
{
    return s->point.count * ronda_type_size(s->point.type) *
           (s->point.kind == RONDA_ALLGATHER ? s->size : 1);
}

static ronda_status call(ronda_comm *c, const bench_point *p, void *send, void *recv)
{
    return p->kind == RONDA_ALLREDUCE   ? ronda_allreduce(c, send, recv, p->count, p->type, p->op)
           : p->kind == RONDA_BROADCAST ? ronda_broadcast(c, recv, p->count, p->type, p->root)
           : p->kind == RONDA_ALLGATHER
               ? ronda_allgather(c, send, recv, p->count, p->type)
               : ronda_reduce_scatter(c, send, recv, p->count, p->type, p->op);
}

static void play_rank(void *context, uint32_t rank)
{
    scene *s = context;
    const bench_point *p = &s->point;
    const size_t bytes = (p->count * s->size + 1) * ronda_type_size(p->type);
    char *send = malloc(bytes), *recv = malloc(bytes);
    bench_data *d = bench_data_open(p, rank, s->size);
    bench_fill(d, p, s->turn, send, recv);
    s->fed[rank] = call(s->comms[rank], p, send, recv) == RONDA_OK;
    if (s->spoil && rank == s->victim)
        recv[s->spoil - 1] ^= 0x41;
    s->right[rank] = bench_right(d, p, s->turn, recv, s->why[rank], sizeof s->why[rank]);
    bench_data_close(d);
    free(send);
    free(recv);
}

static scene draw(rng *r)
{
    static const ronda_kind kinds[] = {RONDA_ALLREDUCE, RONDA_BROADCAST, RONDA_ALLGATHER,
                                       RONDA_REDUCE_SCATTER};
    scene s = {.size = 1 + (uint32_t)rng_below(r, 9), .turn = rng_below(r, 1000)};
    do {
        s.point = (bench_point){.kind = kinds[rng_below(r, 4)],
                                .type = 1 + (ronda_type)rng_below(r, 12),
                                .op = 1 + (ronda_op)rng_below(r, 8),
                                .root = (uint32_t)rng_below(r, s.size),
                                .count = 1 + rng_below(r, rng_below(r, 3) ? 300 : 20000)};
    } while (!rd_op_allows(s.point.op, s.point.type));
    if (s.point.kind != RONDA_BROADCAST)
        s.point.root = 0;
    return s;
}

TEST(results_pass_and_spoiled_ones_do_not)
{
    rng r = rng_start();
    test_deadline(120);
    for (uint32_t round = 0; round < (test_sanitized() ? 100 : 1000) && !test_failed(); round++) {
        scene s = draw(&r);
        if (rng_below(&r, 2)) {
            s.victim = (uint32_t)rng_below(&r, s.size);
            s.spoil = 1 + rng_below(&r, result_bytes(&s));
            /* A low bit of a short float may be a rounding that is allowed: spoil its high byte */
            if (s.point.type == RONDA_F16 || s.point.type == RONDA_BF16)
                s.spoil = (s.spoil + 1) / 2 * 2;
        }
        if (!world_open(s.size, NULL, s.comms))
            return;
        run_ranks(s.size, play_rank, &s);
        for (uint32_t k = 0; k < s.size; k++) {
            const bool expected = !(s.spoil && k == s.victim);
            CHECK(s.fed[k] && s.right[k] == expected && (expected || s.why[k][0]),
                  "%s of %llu %s, %s, rank %u of %u: %s", rd_kind_name(s.point.kind),
                  (unsigned long long)s.point.count, rd_type_name(s.point.type),
                  rd_op_name(s.point.op), k, s.size, expected ? s.why[k] : "spoiled, and not seen");
        }
        world_close(s.size, s.comms);
    }
}

/* Bandwidths as nccl-tests has them. */
TEST(bandwidths)
{
    bench_row row = {.point = {.bytes = 1000000}, .median_us = 100};
    static const struct {
        ronda_kind kind;
        double factor;
    } cases[] = {{RONDA_ALLREDUCE, 1.5},
                 {RONDA_ALLGATHER, 0.75},
                 {RONDA_REDUCE_SCATTER, 0.75},
                 {RONDA_BROADCAST, 1}};
    CHECK(bench_algorithm_bandwidth(&row) == 10, "a megabyte in 100 us is 10 GB/s");
    for (int i = 0; i < 4; i++) {
        row.point.kind = cases[i].kind;
        CHECK(bench_bus_bandwidth(&row, 4) == 10 * cases[i].factor, "%s: %g",
              rd_kind_name(row.point.kind), bench_bus_bandwidth(&row, 4));
    }
}
