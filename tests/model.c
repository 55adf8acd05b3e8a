/* model.c: see model.h.  A value is a double on its way, or a 64-bit integer, extended by its sign
 * if it has one; every fold is a loop over the ranks. */
#include "model.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- types --- */

static const struct {
    const char *name;
    uint8_t bytes;
    bool is_float, is_signed;
    int precision, least; /* floats: bits of the significand; exponent of the least denormal */
} types[] = {
    [RONDA_F16] = {"f16", 2, true, true, 11, -24},  [RONDA_BF16] = {"bf16", 2, true, true, 8, -133},
    [RONDA_F32] = {"f32", 4, true, true, 24, -149}, [RONDA_F64] = {"f64", 8, true, true, 53, -1074},
    [RONDA_I8] = {"i8", 1, false, true, 0, 0},      [RONDA_U8] = {"u8", 1, false, false, 0, 0},
    [RONDA_I16] = {"i16", 2, false, true, 0, 0},    [RONDA_U16] = {"u16", 2, false, false, 0, 0},
    [RONDA_I32] = {"i32", 4, false, true, 0, 0},    [RONDA_U32] = {"u32", 4, false, false, 0, 0},
    [RONDA_I64] = {"i64", 8, false, true, 0, 0},    [RONDA_U64] = {"u64", 8, false, false, 0, 0}};

size_t model_width(ronda_type type)
{
    return types[type].bytes;
}

bool model_is_float(ronda_type type)
{
    return types[type].is_float;
}

/* Rounds to nearest even to `precision` bits, none below 2^least. */
static double round_to(double x, int precision, int least)
{
    if (x == 0 || !isfinite(x))
        return x;
    const int unit = ilogb(x) - precision + 1;
    const double quantum = ldexp(1, unit > least ? unit : least);
    return nearbyint(x / quantum) * quantum;
}

static uint16_t to_f16(double exact)
{
    const double x = round_to((float)exact, 11, -24), magnitude = fabs(x);
    const uint16_t sign = signbit(exact) ? 0x8000 : 0;
    if (isnan(x))
        return 0x7e00;
    if (magnitude > 65504)
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x1p-14)
        return (uint16_t)(sign | (uint16_t)ldexp(magnitude, 24));
    const int exponent = ilogb(magnitude);
    const double rest = ldexp(magnitude, 10 - exponent) - 1024;
    return (uint16_t)(sign | (exponent + 15) << 10 | (uint16_t)rest);
}

static double from_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, rest = bits & 1023;
    double x = exponent == 31 ? (rest ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + rest, exponent - 25)
                              : ldexp(rest, -24);
    return bits & 0x8000 ? -x : x;
}

/* A bfloat16 is the upper half of an f32. */
static uint16_t to_bf16(double exact)
{
    const float x = isnan(exact) ? NAN : (float)round_to((float)exact, 8, -133);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static double from_bf16(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void store_float(ronda_type type, void *to, double x)
{
    const float f = (float)x;
    const uint16_t half = type == RONDA_F16 ? to_f16(x) : type == RONDA_BF16 ? to_bf16(x) : 0;
    if (type == RONDA_F64)
        memcpy(to, &x, sizeof x);
    else if (type == RONDA_F32)
        memcpy(to, &f, sizeof f);
    else
        memcpy(to, &half, sizeof half);
}

static double load_float(ronda_type type, const void *from)
{
    double d;
    float f;
    uint16_t half;
    if (type == RONDA_F64)
        return memcpy(&d, from, sizeof d), d;
    if (type == RONDA_F32)
        return memcpy(&f, from, sizeof f), f;
    memcpy(&half, from, sizeof half);
    return type == RONDA_F16 ? from_f16(half) : from_bf16(half);
}

/* Keeps the type's bits and extends them again. */
static uint64_t wrap(ronda_type type, uint64_t x)
{
    const unsigned unused = 64 - 8u * types[type].bytes;
    x <<= unused;
    return types[type].is_signed ? (uint64_t)((int64_t)x >> unused) : x >> unused;
}

static void store_integer(ronda_type type, void *to, uint64_t x)
{
    switch (types[type].bytes) { /* little-endian */
    case 1:
        memcpy(to, &x, 1);
        break;
    case 2:
        memcpy(to, &x, 2);
        break;
    case 4:
        memcpy(to, &x, 4);
        break;
    default:
        memcpy(to, &x, 8);
        break;
    }
}

/* --- the data --- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static uint64_t draw(const model_call *c, uint64_t rank, uint64_t index)
{
    return mix(c->seed + 0x9e3779b97f4a7c15 * (index + 1) + 0xd1342543de82ef95 * rank);
}

/* Within -1 .. 1, with many bits. */
static double fraction(uint64_t h)
{
    return ((double)(h >> 11) * 0x1p-53 - 0.5) * 2;
}

static double exact_value(const model_call *c, uint32_t rank, uint64_t h)
{
    if (c->op == RONDA_PROD)
        return (h & 1 ? -1 : 1) * ldexp(1, rank % 8 == 3 ? (int)(h >> 8) % 3 - 1 : 0);
    return c->size <= 64 ? (int)(h % 9) - 4 : (int)(h % 3) - 1;
}

/* At one index in four one rank has a NaN, at the next an infinity that others may meet, then
 * zeros and denormals, and then nothing special. */
static double wild_value(const model_call *c, uint32_t rank, uint64_t index, uint64_t h)
{
    const uint64_t same = mix(c->seed ^ index * 0x9e3779b97f4a7c15);
    const bool chosen = rank == (same >> 8) % c->size, second = rank == (same >> 20) % c->size;
    if (same % 4 == 0 && chosen)
        return NAN;
    if (same % 4 == 1 && (chosen || second))
        return h & 1 ? INFINITY : -INFINITY;
    if (same % 4 == 2)
        return h % 3 == 0 ? 0.0 : h % 3 == 1 ? -0.0 : ldexp(fraction(h), types[c->type].least + 6);
    if (c->op == RONDA_PROD) /* products that vanish would make an infinity depend on the order */
        return (h & 1 ? -1 : 1) * (1 + fraction(h) / 16);
    return fraction(h);
}

static double float_value(const model_call *c, uint32_t rank, uint64_t index)
{
    const uint64_t h = draw(c, rank, index);
    if (c->data == MODEL_EXACT)
        return exact_value(c, rank, h);
    const double x = c->data == MODEL_WILD ? wild_value(c, rank, index, h)
                     : c->op == RONDA_PROD ? (h & 1 ? -1 : 1) * (1 + fraction(h) / 16)
                                           : ldexp(fraction(h), (int)(h % 8) - 4);
    char bytes[8];
    store_float(c->type, bytes, x); /* as the type has it */
    return load_float(c->type, bytes);
}

static uint64_t integer_value(const model_call *c, uint32_t rank, uint64_t index)
{
    return wrap(c->type, draw(c, rank, index));
}

static void store_value(const model_call *c, uint32_t rank, uint64_t index, void *to)
{
    if (model_is_float(c->type))
        store_float(c->type, to, float_value(c, rank, index));
    else
        store_integer(c->type, to, integer_value(c, rank, index));
}

void model_fill(const model_call *c, uint32_t rank, void *to)
{
    const size_t width = model_width(c->type);
    const size_t bytes =
        c->kind == RONDA_BROADCAST ? model_recv_bytes(c, rank) : model_send_bytes(c, rank);
    for (size_t at = 0; at < bytes; at += width)
        store_value(c, rank, at / width, (char *)to + at);
}

/* --- the fold --- */

static double fold_float(ronda_op op, ronda_type type, double a, double b)
{
    if (op == RONDA_MIN || op == RONDA_MAX)
        return isnan(a) || isnan(b) ? NAN : (op == RONDA_MIN ? b < a : b > a) ? b : a;
    if (type == RONDA_F64)
        return op == RONDA_PROD ? a * b : a + b;
    return op == RONDA_PROD ? (float)a * (float)b : (float)a + (float)b;
}

static uint64_t fold_integer(ronda_op op, ronda_type type, uint64_t a, uint64_t b)
{
    const bool less = types[type].is_signed ? (int64_t)b < (int64_t)a : b < a;
    switch (op) {
    case RONDA_PROD:
        return wrap(type, a * b);
    case RONDA_MIN:
        return less ? b : a;
    case RONDA_MAX:
        return less ? a : b;
    case RONDA_BAND:
        return a & b;
    case RONDA_BOR:
        return a | b;
    case RONDA_BXOR:
        return a ^ b;
    default:
        return wrap(type, a + b);
    }
}

static void folded(const model_call *c, uint32_t ranks, uint64_t index, void *to)
{
    if (model_is_float(c->type)) {
        double x = float_value(c, 0, index);
        for (uint32_t r = 1; r < ranks; r++)
            x = fold_float(c->op, c->type, x, float_value(c, r, index));
        if (c->op == RONDA_MEAN)
            x = c->type == RONDA_F64 ? x / c->size : (float)x / (float)c->size;
        store_float(c->type, to, x);
        return;
    }
    uint64_t x = integer_value(c, 0, index);
    for (uint32_t r = 1; r < ranks; r++)
        x = fold_integer(c->op, c->type, x, integer_value(c, r, index));
    if (c->op == RONDA_MEAN)
        x = types[c->type].is_signed ? (uint64_t)((int64_t)x / (int64_t)c->size) : x / c->size;
    store_integer(c->type, to, x);
}

/* How many ranks, from rank 0 on, a rank's result is folded from. */
static uint32_t folds(const model_call *c, uint32_t rank)
{
    return c->kind == RONDA_SCAN ? rank + 1 : c->kind == RONDA_EXSCAN ? rank : c->size;
}

/* Element e of what a rank gets, if it is somebody's. */
static void moved(const model_call *c, uint32_t rank, uint64_t e, void *to)
{
    uint32_t from = c->root;
    uint64_t index = e;
    if (model_facts_of(c->kind)->gets == MODEL_BLOCKS) {
        for (from = 0; index >= model_block(c, from, rank); from++)
            index -= model_block(c, from, rank);
        if (model_facts_of(c->kind)->gives == MODEL_BLOCKS)
            index += model_send_at(c, from, rank);
    } else if (model_facts_of(c->kind)->gives == MODEL_BLOCKS) {
        index += model_send_at(c, from, rank);
    }
    store_value(c, from, index, to);
}

/* Where a rank's result begins in the whole. */
static size_t whole_at(const model_call *c, uint32_t rank)
{
    const bool same = c->kind == RONDA_ALLREDUCE || c->kind == RONDA_BROADCAST ||
                      c->kind == RONDA_ALLGATHER || c->kind == RONDA_ALLGATHERV;
    size_t at = 0;
    for (uint32_t r = 0; r < rank && !same; r++)
        at += model_recv_bytes(c, r);
    return at;
}

void *model_whole(const model_call *c)
{
    const size_t width = model_width(c->type);
    const size_t last = whole_at(c, c->size - 1);
    char *whole = malloc(last + model_recv_bytes(c, c->size - 1) + 1), *to = whole;
    if (!whole)
        abort();
    for (uint32_t rank = last || c->size == 1 ? 0 : c->size - 1; rank < c->size; rank++) {
        const uint64_t count = model_recv_bytes(c, rank) / width;
        const uint64_t first =
            model_facts_of(c->kind)->gives == MODEL_BLOCKS ? model_send_at(c, rank, rank) : 0;
        for (uint64_t e = 0; e < count; e++, to += width)
            if (model_facts_of(c->kind)->reduces)
                folded(c, folds(c, rank), first + e, to);
            else
                moved(c, rank, e, to);
    }
    return whole;
}

/* --- judging --- */

/* A NaN is a NaN, whatever its sign and payload. */
static bool same_element(const model_call *c, const char *got, const char *want)
{
    if (memcmp(got, want, model_width(c->type)) == 0)
        return true;
    return model_is_float(c->type) && model_facts_of(c->kind)->reduces &&
           isnan(load_float(c->type, got)) && isnan(load_float(c->type, want));
}

static void print_element(const model_call *c, const char *at, char *text, size_t capacity)
{
    uint64_t bits = 0;
    memcpy(&bits, at, model_width(c->type));
    if (model_is_float(c->type))
        snprintf(text, capacity, "%.17g (0x%" PRIx64 ")", load_float(c->type, at), bits);
    else
        snprintf(text, capacity, "0x%" PRIx64, bits);
}

bool model_same(const model_call *c, uint32_t rank, const void *recv, const void *whole, char *why,
                size_t capacity)
{
    const size_t width = model_width(c->type), bytes = model_recv_bytes(c, rank);
    const char *got = recv, *want = (const char *)whole + whole_at(c, rank);
    if (bytes == 0 || memcmp(got, want, bytes) == 0)
        return true;
    for (size_t at = 0; at < bytes; at += width)
        if (!same_element(c, got + at, want + at)) {
            char is[64], should[64];
            print_element(c, got + at, is, sizeof is);
            print_element(c, want + at, should, sizeof should);
            snprintf(why, capacity, "%s: element %zu of rank %u is %s, not %s", model_text(c),
                     at / width, rank, is, should);
            return false;
        }
    return true;
}

/* The exact result, more or less, and how far off rounding after every step can lead. */
static long double exactly(const model_call *c, uint32_t ranks, uint64_t index, long double *bound)
{
    const long double unit = ldexpl(1, -types[c->type].precision);
    long double x = float_value(c, 0, index), all = fabsl(x);
    for (uint32_t r = 1; r < ranks; r++) {
        const long double y = float_value(c, r, index);
        if (c->op == RONDA_MIN || c->op == RONDA_MAX)
            x = isnan(x) || isnan(y) ? NAN : (c->op == RONDA_MIN ? y < x : y > x) ? y : x;
        else
            x = c->op == RONDA_PROD ? x * y : x + y;
        all = c->op == RONDA_PROD ? fabsl(x) : all + fabsl(y);
    }
    *bound = c->op == RONDA_MIN || c->op == RONDA_MAX
                 ? 0
                 : 1.01L * (c->size + 1) * unit * all + c->size * ldexpl(1, types[c->type].least);
    if (c->op == RONDA_MEAN) {
        x /= c->size;
        *bound = *bound / c->size + unit * fabsl(x) + ldexpl(1, types[c->type].least);
    }
    return x;
}

bool model_near(const model_call *c, uint32_t rank, const void *recv, char *why, size_t capacity)
{
    const size_t width = model_width(c->type), bytes = model_recv_bytes(c, rank);
    const uint64_t first =
        model_facts_of(c->kind)->gives == MODEL_BLOCKS ? model_send_at(c, rank, rank) : 0;
    for (size_t at = 0; at < bytes; at += width) {
        long double bound;
        const long double want = exactly(c, folds(c, rank), first + at / width, &bound);
        const double got = load_float(c->type, (const char *)recv + at);
        const bool ok = isnan(want)   ? isnan(got)
                        : isinf(want) ? (long double)got == want
                                      : fabsl((long double)got - want) <= bound;
        if (!ok) {
            snprintf(why, capacity, "%s: element %zu of rank %u is %.17g, not %.17Lg (+- %.3Lg)",
                     model_text(c), at / width, rank, got, want, bound);
            return false;
        }
    }
    return true;
}

/* --- names and random calls --- */

const char *model_text(const model_call *c)
{
    static const char *const ops[] = {"?",   "sum",  "mean", "prod", "min",
                                      "max", "band", "bor",  "bxor"};
    static _Thread_local char text[160];
    snprintf(text, sizeof text, "%s of %" PRIu64 " %s, %s, root %u, %u ranks (seed %" PRIu64 ")",
             model_facts_of(c->kind)->name, c->count, types[c->type].name,
             ops[c->op ? c->op - RONDA_SUM + 1 : 0], c->root, c->size, c->seed);
    return text;
}

ronda_kind model_kind(rng *r)
{
    return RONDA_ALLREDUCE + (ronda_kind)rng_below(r, RONDA_BARRIER - RONDA_ALLREDUCE + 1);
}

ronda_op model_op(rng *r, ronda_type type)
{
    const ronda_op last = model_is_float(type) ? RONDA_MAX : RONDA_BXOR;
    return RONDA_SUM + (ronda_op)rng_below(r, (uint64_t)(last - RONDA_SUM + 1));
}

/* Counts: none, one, around lines and powers of two, or anything up to most_bytes, small ones rather. */
static uint64_t some_count(rng *r, uint64_t most)
{
    const uint64_t bits = 1 + rng_below(r, 64 - (uint64_t)__builtin_clzll(most | 1));
    uint64_t count;
    switch (rng_below(r, 6)) {
    case 0:
        return rng_below(r, 2);
    case 1:
        count = rng_below(r, 17);
        break;
    case 2:
        count = ((uint64_t)1 << (bits - 1)) + rng_below(r, 3) - 1;
        break;
    default:
        count = rng_below(r, (uint64_t)1 << bits);
        break;
    }
    return count < most ? count : most;
}

model_call model_draw(rng *r, ronda_kind kind, uint32_t size, uint64_t most_bytes)
{
    model_call c = {.kind = kind, .type = RONDA_U8, .op = RONDA_SUM, .size = size};
    c.seed = rng_next(r);
    if (kind == RONDA_BARRIER)
        return c;
    c.type = 1 + (ronda_type)rng_below(r, RONDA_U64);
    c.count = some_count(r, most_bytes / model_width(c.type));
    if (model_facts_of(kind)->reduces)
        c.op = model_op(r, c.type);
    if (c.op == RONDA_MEAN && (kind == RONDA_SCAN || kind == RONDA_EXSCAN))
        c.op = RONDA_MAX;
    if (model_facts_of(kind)->rooted)
        c.root = (uint32_t)rng_below(r, size);
    return c;
}
