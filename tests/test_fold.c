/* test_fold.c: every kernel of every instruction set that this machine has, against plain_fold.c.
 *
 * A result is right if its bits are; only of NaNs any will do.  So all sets agree, too. */
#include "base/names.h"
#include "engine/fold.h"
#include "engine/fold_kernels.h"
#include "harness.h"
#include "plain_fold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INS = 64, MAX_OUTS = 16, GUARD = 64, LONG_BYTES = 120000 };

/* Data ------------------------------------------------------------------------------------------ */

/* Mostly ordinary numbers, so that sums are not all infinite; sometimes any bits at all. */
static uint64_t random_bits(rng *r, ronda_type type)
{
    static const double special[] = {0,       -0.0,    INFINITY, -INFINITY, NAN,      1,
                                     0x1p-24, 0x1p-25, 0x1p-133, 0x1p-149,  0x1p-1074};
    const uint64_t bits = rng_next(r);

    if (!rd_type_is_float(type) || bits % 32 == 0)
        return rng_next(r) >> (bits >> 5 & 1 ? 0 : rng_below(r, 64));
    if (bits % 32 == 1)
        return float_bits(type, special[bits / 32 % (sizeof special / sizeof *special)]);
    const double x = ldexp((double)(int64_t)rng_next(r), -63 + (int)(bits / 32 % 9) - 4);
    return float_bits(type, x);
}

/* Buffers at random, mostly odd addresses, with guards around them. */
typedef struct {
    char *memory;
    size_t stride;
    void *in[MAX_INS], *out[MAX_OUTS];
    char *expected;
} buffers;

static buffers buffers_make(size_t bytes)
{
    buffers b = {.stride = (bytes + 3 * GUARD + 63) / 64 * 64};

    b.memory = malloc(b.stride * (MAX_INS + MAX_OUTS));
    b.expected = malloc(bytes + 1);
    if (!b.memory || !b.expected)
        abort();
    return b;
}

static void buffers_free(buffers *b)
{
    free(b->memory);
    free(b->expected);
}

static void buffers_place(buffers *b, rng *r, bool aligned)
{
    for (size_t i = 0; i < MAX_INS + MAX_OUTS; i++) {
        char *at = b->memory + i * b->stride + GUARD + (aligned ? 0 : rng_below(r, 64));
        *(i < MAX_INS ? &b->in[i] : &b->out[i - MAX_INS]) = at;
    }
}

static void buffers_fill(buffers *b, rng *r, ronda_type type, uint32_t ins, size_t count)
{
    const size_t size = ronda_type_size(type);

    for (uint32_t i = 0; i < ins; i++)
        for (size_t k = 0; k < count; k++)
            write_bits(b->in[i], k, size, random_bits(r, type));
}

static void expect(buffers *b, ronda_type type, ronda_op op, uint32_t ins, size_t count,
                   uint32_t divisor)
{
    for (size_t k = 0; k < count; k++)
        write_bits(b->expected, k, ronda_type_size(type),
                   plain_fold(type, op, (const void *const *)b->in, ins, k, divisor));
}

/* One call; every out must hold what is expected and nothing around it may change. */
typedef struct {
    const rd_fold_set *set;
    ronda_type type;
    ronda_op op;
    uint32_t ins, outs, divisor;
} call;

static bool out_is_right(const buffers *b, const call *c, const char *out, size_t count)
{
    const size_t size = ronda_type_size(c->type);
    size_t k = 0;

    if (memcmp(out, b->expected, count * size) == 0)
        return true;
    while (k < count &&
           same_element(c->type, read_bits(out, k, size), read_bits(b->expected, k, size)))
        k++;
    return CHECK(k == count,
                 "%s %s %s ins %u outs %u divisor %u count %zu: element %zu is %#" PRIx64
                 ", not %#" PRIx64,
                 c->set->name, rd_type_name(c->type), rd_op_name(c->op), c->ins, c->outs,
                 c->divisor, count, k, read_bits(out, k, size), read_bits(b->expected, k, size));
}

static bool guard_is_whole(const call *c, const char *guard, size_t count)
{
    for (size_t i = 0; i < GUARD; i++)
        if (!CHECK(guard[i] == 0x5a, "%s %s %s ins %u outs %u count %zu: wrote outside",
                   c->set->name, rd_type_name(c->type), rd_op_name(c->op), c->ins, c->outs, count))
            return false;
    return true;
}

static bool check_call(const buffers *b, const call *c, size_t count)
{
    const size_t bytes = count * ronda_type_size(c->type);
    rd_fold_fn *const kernel = c->set->kernel(c->type, c->op);

    for (uint32_t o = 0; o < c->outs; o++)
        memset((char *)b->out[o] - GUARD, 0x5a, bytes + 2 * GUARD);
    kernel(b->out, c->outs, (const void *const *)b->in, c->ins, count, c->divisor);
    for (uint32_t o = 0; o < c->outs; o++) {
        const char *out = b->out[o];
        if (!out_is_right(b, c, out, count) || !guard_is_whole(c, out - GUARD, count) ||
            !guard_is_whole(c, out + bytes, count))
            return false;
    }
    return true;
}

/* Walks sets x types x ops: returns whether there is a next one. */
static bool next_kernel(call *c)
{
    if (!c->set)
        *c = (call){.set = rd_fold_sets(), .type = RONDA_F16, .op = RONDA_SUM - 1};
    for (;;) {
        if (++c->op > RONDA_BXOR) {
            c->op = RONDA_SUM;
            if (++c->type > RONDA_U64) {
                c->type = RONDA_F16;
                c->set++;
            }
        }
        if (!c->set->name)
            return false;
        if (c->set->usable && rd_op_allows(c->op, c->type))
            return true;
    }
}

/* Tests ----------------------------------------------------------------------------------------- */

static void use_first(void *results, uint32_t rank)
{
    uint32_t *result = (uint32_t *)results + 64 * (size_t)rank;
    char from[200], to[200] = {0};

    memset(from, (int)rank + 1, sizeof from);
    rd_move(to, from, sizeof to);
    *result = rd_fold_kernel(RONDA_F32, RONDA_SUM) && memcmp(to, from, sizeof to) == 0;
}

TEST(many_threads_may_come_first)
{
    enum { THREADS = 4 };
    static uint32_t results[64 * THREADS];

    run_ranks(THREADS, use_first, results);
    for (uint32_t t = 0; t < THREADS; t++)
        CHECK(results[64 * t] == 1, "thread %u", t);
}

TEST(kernels_exist_where_ops_are_defined)
{
    static const int32_t odd[] = {INT32_MIN, -1, 64, 100, 109, 201, 1 << 20, INT32_MAX};
    const rd_fold_set *best = NULL;

    for (const rd_fold_set *set = rd_fold_sets(); set->name; set++) {
        if (set->usable && !best)
            best = set;
        for (ronda_type type = -2; type < 20; type++)
            for (ronda_op op = -2; op < 120; op++)
                CHECK(!set->kernel(type, op) == !rd_op_allows(op, type), "%s type %d op %d",
                      set->name, type, op);
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
            CHECK(!set->kernel(odd[i], RONDA_SUM) && !set->kernel(RONDA_F32, odd[i]), "%s: %d",
                  set->name, odd[i]);
    }
    if (!CHECK(best, "no set is usable"))
        return;
    for (ronda_type type = -2; type < 20; type++)
        for (ronda_op op = -2; op < 120; op++)
            CHECK(rd_fold_kernel(type, op) == best->kernel(type, op), "type %d op %d", type, op);
}

TEST(every_kernel_folds_every_small_count)
{
    static const uint32_t outs[] = {1, 2, 3, 16};
    const uint32_t count_step = test_sanitized() ? 20 : 1, ins_step = test_sanitized() ? 4 : 1;
    rng r = rng_start();
    buffers b = buffers_make(130 * 8);

    test_deadline(120);
    for (call c = {0}; next_kernel(&c) && !test_failed();) {
        for (c.ins = 1; c.ins <= 17; c.ins += ins_step) {
            c.divisor = c.op == RONDA_MEAN ? c.ins : 0;
            buffers_place(&b, &r, c.ins % 4 == 0);
            buffers_fill(&b, &r, c.type, c.ins, 130);
            expect(&b, c.type, c.op, c.ins, 130, c.divisor);
            for (size_t o = 0; o < 4; o++)
                for (size_t count = 0; count <= 130; count += 1 + rng_below(&r, count_step)) {
                    c.outs = outs[o];
                    if (!check_call(&b, &c, count))
                        break;
                }
        }
    }
    buffers_free(&b);
}

/* out[0] is one of the ins; with two outs, out[1] is another one. */
static void check_in_place(buffers *b, call *c, uint32_t first, size_t count)
{
    const size_t bytes = count * ronda_type_size(c->type);
    rd_fold_fn *const kernel = c->set->kernel(c->type, c->op);
    void *in[MAX_INS];

    memcpy(in, b->in, sizeof in);
    for (uint32_t o = 0; o < c->outs; o++) {
        const uint32_t i = (first + o) % c->ins;
        memcpy(b->out[o], b->in[i], bytes);
        memset((char *)b->out[o] + bytes, 0x5a, GUARD);
        in[i] = b->out[o];
    }
    kernel(b->out, c->outs, (const void *const *)in, c->ins, count, c->divisor);
    for (uint32_t o = 0; o < c->outs; o++) {
        out_is_right(b, c, b->out[o], count);
        guard_is_whole(c, (char *)b->out[o] + bytes, count);
    }
}

TEST(every_kernel_folds_long_ranges)
{
    rng r = rng_start();
    buffers b = buffers_make(LONG_BYTES);

    test_deadline(120);
    for (call c = {0}; next_kernel(&c) && !test_failed();) {
        const bool some = !test_sanitized() || rng_below(&r, 8) == 0;
        const size_t most = LONG_BYTES / ronda_type_size(c.type) / (some ? 1 : 8);

        c.ins = 2 + (uint32_t)rng_below(&r, 2);
        c.divisor = c.op == RONDA_MEAN ? 1 + (uint32_t)rng_below(&r, 9) : 0;
        buffers_place(&b, &r, rng_below(&r, 2) == 0);
        buffers_fill(&b, &r, c.type, c.ins, most);
        expect(&b, c.type, c.op, c.ins, most, c.divisor);
        for (c.outs = 1; c.outs <= 2; c.outs++) {
            check_call(&b, &c, most);
            check_call(&b, &c, most - rng_below(&r, 300));
            check_in_place(&b, &c, (uint32_t)rng_below(&r, c.ins), most - rng_below(&r, 300));
            check_call(&b, &c, 131 + rng_below(&r, 4000) / ronda_type_size(c.type));
        }
    }
    buffers_free(&b);
}

TEST(any_number_of_ins)
{
    static const uint32_t many[] = {18, 23, 32, 33, 64};
    rng r = rng_start();
    buffers b = buffers_make(300 * 8);

    for (call c = {0}; next_kernel(&c) && !test_failed();)
        for (size_t i = 0; i < sizeof many / sizeof *many; i += test_sanitized() ? 4 : 1) {
            c.ins = many[i];
            c.outs = 1 + many[i] % 3;
            c.divisor = c.op == RONDA_MEAN ? c.ins : 0;
            buffers_place(&b, &r, false);
            buffers_fill(&b, &r, c.type, c.ins, 300);
            expect(&b, c.type, c.op, c.ins, 300, c.divisor);
            check_call(&b, &c, 300);
            check_call(&b, &c, rng_below(&r, 300));
        }
    buffers_free(&b);
}

TEST(an_out_may_be_an_in)
{
    rng r = rng_start();
    buffers b = buffers_make(1500 * 8);

    for (call c = {0}; next_kernel(&c) && !test_failed();)
        for (c.ins = 1; c.ins <= 5; c.ins += test_sanitized() ? 2 : 1) {
            c.divisor = c.op == RONDA_MEAN ? c.ins : 0;
            buffers_place(&b, &r, c.ins == 3);
            buffers_fill(&b, &r, c.type, c.ins, 1500);
            expect(&b, c.type, c.op, c.ins, 1500, c.divisor);
            for (uint32_t first = 0; first < c.ins; first++)
                for (c.outs = 1; c.outs <= 2 && c.outs <= c.ins; c.outs++) {
                    check_in_place(&b, &c, first, 1500 - rng_below(&r, 80));
                    for (size_t count = 1; count < 80; count += 1 + rng_below(&r, 24))
                        check_in_place(&b, &c, first, count);
                }
        }
    buffers_free(&b);
}

/* What is hard to divide: the least and the greatest, and multiples of the divisor, each with its
 * neighbours. */
static void fill_dividends(buffers *b, rng *r, const call *c, size_t count)
{
    const size_t size = ronda_type_size(c->type);
    const uint64_t least = (uint64_t)1 << (8 * size - 1);

    buffers_fill(b, r, c->type, c->ins, count);
    for (size_t k = 0; k < count && !rd_type_is_float(c->type); k++) {
        const uint64_t multiple = (rng_next(r) >> rng_below(r, 64)) * c->divisor;

        write_bits(b->in[0], k, size, (k < 9 ? k / 3 * least : multiple) + k % 3 - 1);
        for (uint32_t i = 1; i < c->ins && k % 2; i++)
            write_bits(b->in[i], k, size, 0);
    }
}

TEST(means_divide_by_any_divisor)
{
    static const uint32_t odd[] = {1000,   32767,     32768,      65535,          65536,
                                   999999, INT32_MAX, 0x80000000, UINT32_MAX - 1, UINT32_MAX};
    enum { COUNT = 100, ODD = sizeof odd / sizeof *odd, DIVISORS = 300 };
    rng r = rng_start();
    buffers b = buffers_make(COUNT * 8);

    for (call c = {0}; next_kernel(&c) && !test_failed();)
        for (uint32_t i = 0; c.op == RONDA_MEAN && i < ODD + DIVISORS;
             i += test_sanitized() ? 7 : 1) {
            c.divisor = i < ODD ? odd[i] : i - ODD + 1;
            c.ins = 1 + i % 3;
            c.outs = 1;
            buffers_place(&b, &r, false);
            fill_dividends(&b, &r, &c, COUNT);
            expect(&b, c.type, c.op, c.ins, COUNT, c.divisor);
            check_call(&b, &c, COUNT);
        }
    buffers_free(&b);
}

TEST(small_floats_are_rounded_once)
{
    for (const rd_fold_set *set = rd_fold_sets(); set->name; set++) {
        uint16_t values[17], out = 0;
        const void *in[17];
        void *outs[] = {&out};

        if (!set->usable)
            continue;
        for (int i = 0; i < 17; i++) {
            values[i] = rd_f32_to_bf16(i == 0 ? 256 : 1);
            in[i] = &values[i];
        }
        set->kernel(RONDA_BF16, RONDA_SUM)(outs, 1, in, 17, 1, 0);
        CHECK(rd_bf16_to_f32(out) == 272, "%s: 256 + 16 * 1 = %g", set->name,
              (double)rd_bf16_to_f32(out));
        for (int i = 0; i < 17; i++)
            values[i] = rd_f32_to_f16(60000);
        set->kernel(RONDA_F16, RONDA_SUM)(outs, 1, in, 16, 1, 16);
        CHECK(rd_f16_to_f32(out) == 60000, "%s: a mean may not overflow on its way: %g", set->name,
              (double)rd_f16_to_f32(out));
    }
}

/* 16-bit floats --------------------------------------------------------------------------------- */

static bool equal_or_nan(double a, double b)
{
    return (a == b && signbit(a) == signbit(b)) || (a != a && b != b);
}

TEST(all_small_floats_widen_right)
{
    for (uint32_t x = 0; x < 65536; x++) {
        const uint16_t bits = (uint16_t)x;
        const double a = (double)rd_f16_to_f32(bits), b = (double)rd_bf16_to_f32(bits);

        CHECK(equal_or_nan(a, small_value(f16, bits)), "f16 %#x is %a", x, a);
        CHECK(equal_or_nan(b, small_value(bf16, bits)), "bf16 %#x is %a", x, b);
        CHECK(a != a || rd_f32_to_f16((float)a) == bits, "f16 %#x comes back another", x);
        CHECK(b != b || rd_f32_to_bf16((float)b) == bits, "bf16 %#x comes back another", x);
    }
}

static bool rounds_right(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    const uint16_t a = rd_f32_to_f16(x), b = rd_f32_to_bf16(x);
    return CHECK(same_element(RONDA_F16, a, small_bits(f16, (double)x)), "f16 of %a is %#x",
                 (double)x, a) &&
           CHECK(same_element(RONDA_BF16, b, small_bits(bf16, (double)x)), "bf16 of %a is %#x",
                 (double)x, b);
}

/* Every value, every middle between two of them, and the floats next to each. */
TEST(floats_round_to_nearest_even)
{
    const uint32_t tries = test_sanitized() ? 300000 : 3000000;
    rng r = rng_start();

    for (uint32_t x = 0; x < 65536 && !test_failed(); x++) {
        const float here = (float)small_value(f16, (uint16_t)x);
        uint32_t bits;

        memcpy(&bits, &here, sizeof bits);
        for (uint32_t near = 0; near < 3; near++) {
            rounds_right(bits + near - 1);
            rounds_right(bits + 0x1000 + near - 1); /* half of a normal half's last place */
            rounds_right((x << 16) + near - 1);     /* the same of bfloat16 */
            rounds_right((x << 16) + 0x8000 + near - 1);
        }
    }
    for (uint32_t units = 0; units < 4 * 1024; units++) { /* of half a denormal's last place */
        const float here = ldexpf((float)units, -25);
        uint32_t bits;

        memcpy(&bits, &here, sizeof bits);
        for (uint32_t near = 0; near < 3; near++)
            rounds_right(bits + near - (units > 0));
    }
    for (uint32_t i = 0; i < tries && !test_failed(); i++)
        rounds_right((uint32_t)rng_next(&r));
}

/* The kernels convert by other ways: all values as they are, and sums and products of each value
 * with another, the half of its last place among them. */
TEST(kernels_convert_all_small_floats)
{
    enum { COUNT = 65536 };
    static const ronda_op ops[] = {RONDA_SUM, RONDA_SUM, RONDA_PROD, RONDA_MAX};
    rng r = rng_start();
    buffers b = buffers_make(COUNT * 2);

    for (call c = {0}; next_kernel(&c) && !test_failed();) {
        if (c.op != RONDA_SUM || (c.type != RONDA_F16 && c.type != RONDA_BF16))
            continue;
        const small_float form = c.type == RONDA_F16 ? f16 : bf16;

        buffers_place(&b, &r, true);
        for (uint32_t round = 0; round < 5; round++) {
            call one = c;
            one.op = round == 0 ? RONDA_SUM : ops[round - 1];
            one.ins = round == 0 ? 1 : 2;
            one.outs = 1;
            for (uint32_t x = 0; x < COUNT; x++) {
                const double value = small_value(form, (uint16_t)x);
                const double place = ldexp(fabs(value), -form.fraction - 1);
                const uint16_t random = (uint16_t)rng_next(&r);

                write_bits(b.in[0], x, 2, x);
                write_bits(b.in[1], x, 2, round == 1 ? small_bits(form, place) : random);
            }
            expect(&b, one.type, one.op, one.ins, COUNT, 0);
            check_call(&b, &one, COUNT);
        }
    }
    buffers_free(&b);
}

/* Moves ----------------------------------------------------------------------------------------- */

static void check_move(rd_fold_move_fn *move, const char *name, buffers *b, size_t bytes)
{
    char *to = b->out[0];

    memset(to - GUARD, 0x5a, bytes + 2 * GUARD);
    move(to, b->in[0], bytes);
    CHECK(memcmp(to, b->in[0], bytes) == 0, "%s of %zu bytes", name, bytes);
    for (size_t i = 0; i < GUARD; i++)
        if (!CHECK(to[bytes + i] == 0x5a && to[-1 - (ptrdiff_t)i] == 0x5a,
                   "%s of %zu bytes wrote outside", name, bytes))
            break;
}

static void check_moves(rd_fold_move_fn *move, const char *name, size_t least)
{
    rng r = rng_start();
    buffers b = buffers_make(LONG_BYTES);

    for (uint32_t round = 0; round < 20 && !test_failed(); round++) {
        buffers_place(&b, &r, round == 0);
        for (size_t i = 0; i < LONG_BYTES; i++)
            ((char *)b.in[0])[i] = (char)rng_next(&r);
        for (size_t bytes = least; bytes < 700; bytes++)
            check_move(move, name, &b, bytes);
        check_move(move, name, &b, 700 + rng_below(&r, 90000));
        check_move(move, name, &b, LONG_BYTES - rng_below(&r, 300));
    }
    buffers_free(&b);
}

TEST(moves_move_all_bytes_and_no_others)
{
    check_moves(rd_move, "rd_move", 0);
    rd_move(NULL, NULL, 0);
}

TEST(every_set_moves)
{
    check_moves(rd_fold_move_baseline, "baseline", 65);
#if defined(__x86_64__)
    if (rd_fold_sets()[1].usable)
        check_moves(rd_fold_move_avx2, "avx2", 65);
    if (rd_fold_sets()[0].usable)
        check_moves(rd_fold_move_avx512, "avx512", 65);
#endif
}
