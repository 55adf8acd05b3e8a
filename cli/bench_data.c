/* bench_data.c: numbers that show every mistake, and are quick to write and to compare.
 *
 * Element i of what rank r gives in call t is pattern[r][(i + 7 t) % PERIOD], whatever the collective.  The period is a prime, so no chunk or
 * block of a power of two has the same numbers as another, and the next call has other ones.  A pattern
 * is laid out many times over (a tile): filling and checking are copies and compares of whole tiles.
 * Numbers are small, so that no order of adding rounds; 16-bit floats in very large worlds excepted, for
 * which near is right enough. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "bench.h"
#include "engine/fold.h"

enum { PERIOD = 61, TIMES = 64, TILE = PERIOD * TIMES, STEP = 7 };

struct bench_data {
    bench_job job;
    uint32_t width;
    char *own;  /* tile of what this rank gives */
    char *want; /* tiles of what comes out: one, or one per rank */
};

/* --- numbers --- */

static int64_t number(const bench_point *p, uint32_t rank, uint32_t size, uint32_t j)
{
    if (!rd_kind_reduces(p->kind))
        return (rank * 17 + j) % 113 + 1;
    switch (p->op) {
    case RONDA_MEAN: /* a multiple of size, so that the mean is whole */
        return (size < 60 && rank == j % size ? size : 0) + j % 3;
    case RONDA_PROD:
        return rank == j % size ? 2 : 1;
    case RONDA_MIN:
    case RONDA_MAX:
        return (rank * 7 + j * 13) % 97;
    case RONDA_BAND:
        return 0xff ^ 1 << (rank + j) % 7;
    case RONDA_BOR:
        return 1 << (rank + j) % 7;
    case RONDA_BXOR:
        return (rank * 5 + j * 3) & 0x7f;
    default:
        return (rank + j) % 4;
    }
}

static int64_t join(ronda_op op, int64_t a, int64_t b)
{
    switch (op) {
    case RONDA_PROD:
        return a * b;
    case RONDA_MIN:
        return a < b ? a : b;
    case RONDA_MAX:
        return a > b ? a : b;
    case RONDA_BAND:
        return a & b;
    case RONDA_BOR:
        return a | b;
    case RONDA_BXOR:
        return a ^ b;
    default:
        return a + b;
    }
}

/* Over ranks 0 .. end-1. */
static int64_t folded(const bench_point *p, uint32_t end, uint32_t size, uint32_t j)
{
    int64_t x = number(p, 0, size, j);
    for (uint32_t r = 1; r < end; r++)
        x = join(p->op, x, number(p, r, size, j));
    return p->op == RONDA_MEAN ? x / size : x;
}

static void encode(ronda_type type, int64_t x, void *to)
{
    const float f = (float)x;
    const double d = (double)x;
    const uint16_t half = type == RONDA_F16 ? rd_f32_to_f16(f) : rd_f32_to_bf16(f);
    if (type == RONDA_F16 || type == RONDA_BF16)
        memcpy(to, &half, 2);
    else if (type == RONDA_F32)
        memcpy(to, &f, 4);
    else if (type == RONDA_F64)
        memcpy(to, &d, 8);
    else
        memcpy(to, &x, ronda_type_size(type)); /* the low bytes of x; machines are little-endian */
}

static double decode(ronda_type type, const void *from)
{
    uint16_t half = 0;
    float f = 0;
    double d = 0;
    int64_t x = 0;
    memcpy(&half, from, 2 <= ronda_type_size(type) ? 2 : 1);
    switch (type) {
    case RONDA_F16:
        return (double)rd_f16_to_f32(half);
    case RONDA_BF16:
        return (double)rd_bf16_to_f32(half);
    case RONDA_F32:
        memcpy(&f, from, 4);
        return (double)f;
    case RONDA_F64:
        memcpy(&d, from, 8);
        return d;
    default:
        memcpy(&x, from, ronda_type_size(type));
        return (double)x;
    }
}

/* --- tiles --- */

static void lay(const bench_point *p, char *tile, uint32_t width,
                int64_t (*of)(const bench_point *p, uint32_t who, uint32_t size, uint32_t j),
                uint32_t who, uint32_t size)
{
    for (uint32_t j = 0; j < PERIOD; j++)
        encode(p->type, of(p, who, size, j), tile + (size_t)j * width);
    for (uint32_t k = 1; k < TIMES; k++)
        memcpy(tile + (size_t)k * PERIOD * width, tile, (size_t)PERIOD * width);
}

/* How many ranks, from 0 on, a rank's result is folded over. */
static uint32_t folds(const bench_point *p, uint32_t rank, uint32_t size)
{
    return p->kind == RONDA_SCAN ? rank + 1 : p->kind == RONDA_EXSCAN ? rank : size;
}

/* What comes is of each rank, in blocks. */
static bool gathers(ronda_kind kind)
{
    return !rd_kind(kind)->reduces && rd_kind(kind)->gets == RD_BLOCKS;
}

bench_data *bench_data_open(const bench_point *p, uint32_t rank, uint32_t size)
{
    const uint32_t width = (uint32_t)ronda_type_size(p->type);
    const uint32_t tiles = gathers(p->kind) ? size : 1;
    bench_data *d = calloc(1, sizeof *d);
    char *own = malloc((size_t)TILE * width), *want = malloc((size_t)tiles * TILE * width);
    if (!d || !own || !want || !bench_job_open(p, rank, size, &d->job)) {
        free(d);
        free(own);
        free(want);
        return NULL;
    }
    d->width = width;
    d->own = own;
    d->want = want;
    lay(p, own, width, number, rank, size);
    if (rd_kind_reduces(p->kind))
        lay(p, want, width, folded, folds(p, rank, size), size);
    for (uint32_t r = 0; r < tiles && !rd_kind_reduces(p->kind); r++)
        lay(p, want + (size_t)r * TILE * width, width, number, gathers(p->kind) ? r : p->root,
            size);
    return d;
}

const bench_job *bench_data_job(const bench_data *d)
{
    return &d->job;
}

void bench_data_close(bench_data *d)
{
    if (!d)
        return;
    bench_job_close(&d->job);
    free(d->own);
    free(d->want);
    free(d);
}

/* Elements `from` .. from + count of a call, by whole tiles. */
static void spread(const char *tile, uint32_t width, uint64_t from, uint64_t count, char *to)
{
    const uint64_t most = (TIMES - 1) * PERIOD;
    const char *first = tile + from % PERIOD * width;
    for (uint64_t at = 0; at < count; at += most) {
        const uint64_t now = count - at < most ? count - at : most;
        memcpy(to + at * width, first, now * width);
    }
}

void bench_fill(const bench_data *d, const bench_point *p, uint64_t turn, void *send, void *recv)
{
    const bench_job *j = &d->job;
    if (rd_kind(p->kind)->gives != RD_NOTHING)
        spread(d->own, d->width, turn * STEP, j->gives, send);
    else if (j->rank == p->root) /* it gives what is in the buffer */
        spread(d->own, d->width, turn * STEP, j->gets, recv);
    else
        memset(recv, 0x5a, j->gets * d->width);
}

/* --- checking --- */

/* 16-bit floats that were rounded on the way may be off by as many roundings as there are ranks. */
static bool near_enough(const bench_data *d, ronda_type type, const char *got, const char *want)
{
    const double g = decode(type, got), w = decode(type, want);
    const double step = type == RONDA_F16 ? 0x1p-11 : type == RONDA_BF16 ? 0x1p-8 : 0;
    return fabs(g - w) <= step * d->job.size * fabs(w);
}

static bool same(const bench_data *d, const bench_point *p, const char *tile, uint64_t from,
                 uint64_t count, const char *got, char *why, size_t capacity)
{
    const uint64_t most = (TIMES - 1) * PERIOD;
    const char *first = tile + from % PERIOD * d->width;
    for (uint64_t at = 0; at < count; at += most) {
        const uint64_t now = count - at < most ? count - at : most;
        if (memcmp(got + at * d->width, first, now * d->width) == 0)
            continue;
        for (uint64_t i = 0; i < now; i++) {
            const char *g = got + (at + i) * d->width, *w = first + i * d->width;
            if (memcmp(g, w, d->width) == 0 || near_enough(d, p->type, g, w))
                continue;
            const int digits = d->width < 8 ? 9 : 17; /* so many tell any two numbers apart */
            snprintf(why, capacity, "element %llu is %.*g, not %.*g", (unsigned long long)(at + i),
                     digits, decode(p->type, g), digits, decode(p->type, w));
            return false;
        }
    }
    return true;
}

bool bench_right(const bench_data *d, const bench_point *p, uint64_t turn, const void *recv,
                 char *why, size_t capacity)
{
    const bench_job *j = &d->job;
    const uint64_t shift = turn * STEP;
    const char *got = recv;
    if (!j->gets)
        return true;
    if (!gathers(p->kind))
        return same(d, p, d->want, shift + j->begins[p->root], j->gets, got, why, capacity);
    for (uint32_t r = 0; r < j->size; r++) {
        char block[100];
        if (!same(d, p, d->want + (size_t)r * TILE * d->width, shift + j->begins[r],
                  j->recv_counts[r], got, block, sizeof block)) {
            snprintf(why, capacity, "block %u: %s", r, block);
            return false;
        }
        got += j->recv_counts[r] * d->width;
    }
    return true;
}
