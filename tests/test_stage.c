/* test_stage.c: bytes written for a peer to read are those bytes, whichever way they are stored. */
#include <stdlib.h>
#include <string.h>

#include "engine/operation.h"
#include "harness.h"

enum { MOST = 300000, GUARD = 64 };

static unsigned char byte_at(uint64_t seed, size_t i)
{
    return (unsigned char)(seed * 31 + i * 7 + (i >> 9));
}

typedef struct {
    unsigned char *block, *at;
} place;

/* Room for `bytes`, `skew` bytes after the beginning of a cache line, between guards. */
static place place_open(size_t bytes, size_t skew)
{
    place p = {.block = aligned_alloc(64, (bytes + skew + 4 * GUARD) & ~(size_t)63)};
    if (!p.block)
        abort();
    p.at = p.block + GUARD + skew;
    memset(p.block, 0xee, (bytes + skew + 4 * GUARD) & ~(size_t)63);
    return p;
}

static bool guarded(const place *p, size_t bytes)
{
    return p->at[-1] == 0xee && p->at[bytes] == 0xee;
}

static size_t draw_size(rng *r)
{
    switch (rng_below(r, 4)) {
    case 0:
        return rng_below(r, 200);
    case 1:
        return rng_below(r, 5000);
    case 2: /* around the sizes at which the way changes */
        return (size_t[]){4096, 16384, 96 << 10, 65536}[rng_below(r, 4)] - 2 + rng_below(r, 5);
    default:
        return rng_below(r, MOST);
    }
}

static rd_distance draw_distance(rng *r)
{
    const bool far = rng_below(r, 2);
    return (rd_distance){.far = far,
                         .votes = (uint8_t)rng_below(r, far ? 2 : 3),
                         .turn = (uint32_t)rng_below(r, 40),
                         .rest = (uint32_t)(rng_below(r, 2) ? 0 : rng_below(r, 5)),
                         .slow_ns = (uint32_t)rng_below(r, 100000)};
}

TEST(staged_bytes_are_the_same_bytes)
{
    rng r = rng_start();
    unsigned char *from = malloc(MOST + 64);
    for (uint32_t round = 0; round < (test_sanitized() ? 300 : 2000) && !test_failed(); round++) {
        const size_t bytes = draw_size(&r), skew = rng_below(&r, 3) ? 0 : rng_below(&r, 64);
        const size_t off = rng_below(&r, 64);
        rd_distance d = draw_distance(&r);
        const bool far = d.far;
        place p = place_open(bytes, skew);
        for (size_t i = 0; i < bytes; i++)
            from[off + i] = byte_at(round, i);
        if (!rng_below(&r, 4))
            rd_stream(p.at, from + off, bytes);
        else if (rng_below(&r, 4))
            rd_stage(&d, p.at, from + off, bytes);
        else
            rd_stage_plain(p.at, from + off, bytes);
        CHECK(memcmp(p.at, from + off, bytes) == 0 && guarded(&p, bytes),
              "%zu bytes at %zu, from %zu, %s", bytes, skew, off, far ? "far" : "near");
        free(p.block);
    }
    free(from);
}

TEST(folds_that_stage_give_the_same_bits)
{
    rng r = rng_start();
    enum { COUNT = 20000, INS = 5 };
    static float in[INS][COUNT], want[COUNT];
    rd_fold_fn *fold = rd_fold_kernel(RONDA_F32, RONDA_SUM);
    for (uint32_t round = 0; round < (test_sanitized() ? 40 : 300) && !test_failed(); round++) {
        const uint32_t ins = 1 + (uint32_t)rng_below(&r, INS),
                       outs = 2 + (uint32_t)rng_below(&r, 3);
        const size_t count = rng_below(&r, COUNT);
        place places[4];
        void *out[4], *plain = want;
        const void *from[INS];
        for (uint32_t k = 0; k < ins; k++) {
            from[k] = in[k];
            for (size_t i = 0; i < count; i++)
                in[k][i] = (float)rng_below(&r, 1000) / 7;
        }
        for (uint32_t k = 0; k < outs; k++) {
            places[k] = place_open(count * 4, k + 1 == outs ? 0 : 4 * rng_below(&r, 8));
            out[k] = places[k].at;
        }
        fold(&plain, 1, from, ins, count, 3);
        const rd_job job = {.fold = fold};
        rd_fold_staged(&job, 4, out, outs, from, ins, count, 3);
        for (uint32_t k = 0; k < outs; k++) {
            CHECK(memcmp(out[k], want, count * 4) == 0 && guarded(&places[k], count * 4),
                  "%zu elements, out %u of %u, %u ins", count, k, outs, ins);
            free(places[k].block);
        }
    }
}
