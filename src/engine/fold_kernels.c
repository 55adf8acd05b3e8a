/* fold_kernels.c: the fold of every type and op, and the move of bytes, for one instruction set.
 *
 * Compiled once per set, each time with -O3 -ffp-contract=off and
 *
 *   fold_avx512.o     -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c -mprefer-vector-width=512
 *                     -DRD_FOLD_SET=avx512                                         on x86-64 only
 *   fold_avx2.o       -mavx2 -mf16c -DRD_FOLD_SET=avx2                             on x86-64 only
 *   fold_baseline.o   -DRD_FOLD_SET=baseline                                       everywhere
 *
 * One step folds one register of elements (or four of them), whatever lies in it:
 *
 *   in[0]  raw bytes --widen--> lanes --+
 *   in[1]  raw bytes --widen--> lanes --op--+
 *   in[2]  raw bytes --widen--> lanes ------op-- ... --divide--> --narrow--> raw bytes --> every out
 *
 * Elements are folded lane by lane, so it does not matter which lane an element is in, as long as
 * widen and narrow agree.  Two things follow.  A 16-bit float is widened where it lies, as the low
 * or the high half of a 32-bit lane, without a shuffle.  And the last bytes, too few for a register,
 * are two loads that overlap, put side by side: no loop over what is left.
 *
 * GNU C's vectors do the arithmetic, so that every machine runs the same code; x86 instructions are
 * named only where the language has no word for them. */
#include "engine/fold_kernels.h"

#include "base/atomic.h"
#include "base/names.h"

#include <string.h>

/* Vectors are passed by value between functions of this file only: no ABI is at stake. */
#pragma GCC diagnostic ignored "-Wpsabi"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define WIDTH 64
#elif defined(__AVX2__) && defined(__F16C__)
#define WIDTH 32
#else
#define WIDTH 16
#endif

#if WIDTH > 16
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define OUTLINE static __attribute__((noinline))
/* For what has many branches: a copy in every kernel, unless a sanitizer makes each one large. */
#if defined(__SANITIZE_ADDRESS__)
#define BRANCHY OUTLINE
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BRANCHY OUTLINE
#endif
#endif
#ifndef BRANCHY
#define BRANCHY INLINE
#endif
#define PASTE(a, b) a##_##b
#define PASTE_EXPANDED(a, b) PASTE(a, b)
#define NAME(a) PASTE_EXPANDED(a, TYPE)

/* One register. */
typedef uint64_t raw __attribute__((vector_size(WIDTH)));
typedef float f32s __attribute__((vector_size(WIDTH)));
typedef double f64s __attribute__((vector_size(WIDTH)));
typedef int8_t i8s __attribute__((vector_size(WIDTH)));
typedef uint8_t u8s __attribute__((vector_size(WIDTH)));
typedef int16_t i16s __attribute__((vector_size(WIDTH)));
typedef uint16_t u16s __attribute__((vector_size(WIDTH)));
typedef int32_t i32s __attribute__((vector_size(WIDTH)));
typedef uint32_t u32s __attribute__((vector_size(WIDTH)));
typedef int64_t i64s __attribute__((vector_size(WIDTH)));
typedef uint64_t u64s __attribute__((vector_size(WIDTH)));

typedef uint64_t rd_mem_register __attribute__((vector_size(WIDTH), aligned(1), may_alias));

typedef void small_fold_fn(void *out, const void *left, const void *right, size_t bytes);

/* Half a register, where x86 has such ----------------------------------------------------------- */

#if WIDTH == 64
typedef __m256i half;
typedef uint64_t rd_mem_half __attribute__((vector_size(32), aligned(1), may_alias));

INLINE raw join(half low, half high)
{
    return (raw)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

INLINE half low_half(raw x)
{
    return _mm512_castsi512_si256((__m512i)x);
}

INLINE half high_half(raw x)
{
    return _mm512_extracti64x4_epi64((__m512i)x, 1);
}
#elif WIDTH == 32
typedef __m128i half;
typedef uint64_t rd_mem_half __attribute__((vector_size(16), aligned(1), may_alias));

INLINE raw join(half low, half high)
{
    return (raw)_mm256_set_m128i(high, low);
}

INLINE half low_half(raw x)
{
    return _mm256_castsi256_si128((__m256i)x);
}

INLINE half high_half(raw x)
{
    return _mm256_extracti128_si256((__m256i)x, 1);
}
#endif

/* Bytes to registers and back -------------------------------------------------------------------
 *
 * 1 to WIDTH bytes.  Fewer than WIDTH are two pieces of 32, 16, 8 ... bytes, side by side, which
 * overlap where they must; lanes beyond are zero, so that no arithmetic in them is slow or traps. */

BRANCHY raw load(const char *from, size_t bytes)
{
    if (bytes == WIDTH)
        return *(const rd_mem_register *)from;
#if WIDTH > 16
    if (bytes >= WIDTH / 2)
        return join((half) * (const rd_mem_half *)from,
                    (half) * (const rd_mem_half *)(from + bytes - WIDTH / 2));
#endif
#if WIDTH == 64
    if (bytes >= 16)
        return (raw)_mm512_zextsi256_si512(_mm256_set_m128i(
            (__m128i) * (const rd_mem16 *)(from + bytes - 16), (__m128i) * (const rd_mem16 *)from));
#endif
    if (bytes >= 8)
        return (raw){*(const rd_mem8 *)from, *(const rd_mem8 *)(from + bytes - 8)};
    if (bytes >= 4) {
        const uint64_t low = *(const rd_mem4 *)from, high = *(const rd_mem4 *)(from + bytes - 4);
        return (raw){low | high << 32};
    }
    if (bytes >= 2) {
        const uint64_t low = *(const rd_mem2 *)from, high = *(const rd_mem2 *)(from + bytes - 2);
        return (raw){low | high << 32};
    }
    return (raw){*(const uint8_t *)from};
}

BRANCHY void store(char *to, size_t bytes, raw x)
{
    if (bytes == WIDTH) {
        *(rd_mem_register *)to = x;
        return;
    }
#if WIDTH > 16
    if (bytes >= WIDTH / 2) {
        *(rd_mem_half *)to = (rd_mem_half)low_half(x);
        *(rd_mem_half *)(to + bytes - WIDTH / 2) = (rd_mem_half)high_half(x);
        return;
    }
#endif
#if WIDTH == 64
    if (bytes >= 16) {
        *(rd_mem16 *)to = (rd_mem16)_mm256_castsi256_si128(low_half(x));
        *(rd_mem16 *)(to + bytes - 16) = (rd_mem16)_mm256_extracti128_si256(low_half(x), 1);
        return;
    }
#endif
    if (bytes >= 8) {
        *(rd_mem8 *)to = x[0];
        *(rd_mem8 *)(to + bytes - 8) = x[1];
    } else if (bytes >= 4) {
        *(rd_mem4 *)to = (uint32_t)x[0];
        *(rd_mem4 *)(to + bytes - 4) = (uint32_t)(x[0] >> 32);
    } else if (bytes >= 2) {
        *(rd_mem2 *)to = (uint16_t)x[0];
        *(rd_mem2 *)(to + bytes - 2) = (uint16_t)(x[0] >> 32);
    } else {
        *(uint8_t *)to = (uint8_t)x[0];
    }
}

/* Large ranges: the lines that will be written are asked for in time, which gains a fifth in the L2
 * cache and a third where a peer has read them; below FAR_BYTES it costs more than it gives. */
enum { FAR_BYTES = 96 << 10, AHEAD_BYTES = 512, ALIGN_BYTES = 2048 };

/* And they are walked as STRIPS strips side by side: processors look ahead within a page, and start anew with
 * each; of three at a time, two are under way when one has to start.  That gains a sixth of what a peer's
 * cache takes to read, from FAR_BYTES to what a cache holds, and costs nothing beyond.  Strips are no
 * multiple of a page, so that not all lines of a round want the same places in the cache. */
enum { STRIPS = 3, STRIP_BYTES = 17 << 10, FEW_RANGES = 4 };

INLINE bool is_one_of(const void *out, const void *const in[], uint32_t ins)
{
    for (uint32_t i = 0; i < ins; i++)
        if (in[i] == out)
            return true;
    return false;
}

/* Bytes up to the next aligned address; 0 if elements straddle it. */
INLINE size_t to_aligned(const void *p, size_t element_bytes)
{
    const size_t bytes = -(uintptr_t)p % WIDTH;

    return bytes % element_bytes == 0 ? bytes : 0;
}

/* bfloat16: the high half of an f32 ------------------------------------------------------------- */

INLINE void widen_bf16(const char *from, size_t bytes, f32s lanes[2])
{
    const u32s x = (u32s)load(from, bytes);

    lanes[0] = (f32s)(x << 16);
    lanes[1] = (f32s)(x & 0xffff0000u);
}

/* Rounded to nearest even, in the high half of the lane.  A carry may run into the exponent: that is
 * the next binade, or infinity.  A NaN has nothing to round away: it came from a bfloat16, or the
 * machine made it, and then too (x86, ARM, RISC-V, POWER, z) its low half is zero. */
INLINE u32s round_bf16(f32s lanes)
{
    const u32s bits = (u32s)lanes;

    return bits + 0x7fffu + ((bits >> 16) & 1u);
}

INLINE raw narrow_bf16(const f32s lanes[2])
{
    return (raw)((round_bf16(lanes[0]) >> 16) | (round_bf16(lanes[1]) & 0xffff0000u));
}

/* IEEE half precision --------------------------------------------------------------------------- */

/* The empty asm hides from clang where the lanes come from.  It has a type for vectors of 16-bit
 * floats, and would move and compare them one element at a time. */
#if WIDTH == 64
INLINE f32s expand_f16(half x)
{
    f32s lanes = (f32s)_mm512_cvtph_ps(x);

    __asm__("" : "+v"(lanes));
    return lanes;
}

INLINE half round_f16(f32s lanes)
{
    /* Masked, with all lanes chosen: gcc's plain one warns when it does not optimize. */
    return _mm512_maskz_cvtps_ph(0xffff, (__m512)lanes, _MM_FROUND_TO_NEAREST_INT);
}
#elif WIDTH == 32
INLINE f32s expand_f16(half x)
{
    f32s lanes = (f32s)_mm256_cvtph_ps(x);

    __asm__("" : "+v"(lanes));
    return lanes;
}

INLINE half round_f16(f32s lanes)
{
    return _mm256_cvtps_ph((__m256)lanes, _MM_FROUND_TO_NEAREST_INT);
}
#endif

#if WIDTH > 16
INLINE void widen_f16(const char *from, size_t bytes, f32s lanes[2])
{
    if (bytes == WIDTH) { /* halves from memory: to take a register apart costs more */
        lanes[0] = expand_f16((half) * (const rd_mem_half *)from);
        lanes[1] = expand_f16((half) * (const rd_mem_half *)(from + WIDTH / 2));
        return;
    }
    raw x = load(from, bytes);

    __asm__("" : "+v"(x));
    lanes[0] = expand_f16(low_half(x));
    lanes[1] = expand_f16(high_half(x));
}

INLINE raw narrow_f16(const f32s lanes[2])
{
    return join(round_f16(lanes[0]), round_f16(lanes[1]));
}
#elif defined(__aarch64__)
INLINE void widen_f16(const char *from, size_t bytes, f32s lanes[2])
{
    const float16x8_t x = (float16x8_t)load(from, bytes);

    lanes[0] = (f32s)vcvt_f32_f16(vget_low_f16(x));
    lanes[1] = (f32s)vcvt_high_f32_f16(x);
}

INLINE raw narrow_f16(const f32s lanes[2])
{
    return (raw)vcvt_high_f16_f32(vcvt_f16_f32((float32x4_t)lanes[0]), (float32x4_t)lanes[1]);
}
#else
INLINE u32s where(i32s mask, u32s yes, u32s no)
{
    return ((u32s)mask & yes) | (~(u32s)mask & no);
}

/* The half in the low 16 bits of each lane, as f32.  A half without an exponent (zero, denormal) is
 * read as 2^-14 plus its bits, from which 2^-14 is taken away: exact, and no f32 is ever denormal. */
INLINE f32s expand_f16(u32s half)
{
    const u32s bits = (half & 0x7fffu) << 13, exponent = bits & (31u << 23);
    const u32s normal = bits + (112u << 23);
    const u32s special = bits + (224u << 23);
    const f32s small = (f32s)(normal + (1u << 23)) - 0x1p-14f;
    const u32s value =
        where(exponent == 0, (u32s)small, where(exponent == 31u << 23, special, normal));

    return (f32s)(value | (half & 0x8000u) << 16);
}

/* Rounded to nearest even, in the low 16 bits.  What becomes a denormal is rounded by adding 0.5,
 * whose last place is the last place of a denormal half. */
INLINE u32s round_f16(f32s lanes)
{
    const u32s sign = (u32s)lanes & 0x80000000u, bits = (u32s)lanes ^ sign;
    const u32s normal = (bits - (112u << 23) + 0xfffu + ((bits >> 13) & 1u)) >> 13;
    const u32s small = (u32s)((f32s)bits + 0.5f) - (126u << 23);
    const u32s special = 0x7c00u | ((u32s)(lanes != lanes) & 0x200u);
    const u32s value =
        where((i32s)bits < 113 << 23, small, where((i32s)bits < 143 << 23, normal, special));

    return value | sign >> 16;
}

INLINE void widen_f16(const char *from, size_t bytes, f32s lanes[2])
{
    const u32s x = (u32s)load(from, bytes);

    lanes[0] = expand_f16(x & 0xffffu);
    lanes[1] = expand_f16(x >> 16);
}

INLINE raw narrow_f16(const f32s lanes[2])
{
    return (raw)(round_f16(lanes[0]) | round_f16(lanes[1]) << 16);
}
#endif

/* Division -------------------------------------------------------------------------------------- */

INLINE bool is_power(uint32_t x)
{
    return (x & (x - 1)) == 0;
}

/* One value in every lane.  By its bits: where C computes floats more precisely than they are (s390,
 * x87), it has no operation of a vector and a float. */
INLINE f32s all_f32(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (f32s)((u32s){0} + bits);
}

INLINE f64s all_f64(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (f64s)((u64s){0} + bits);
}

/* By a power of two both ways give the same bits, and one is quick. */
INLINE f32s divide_f32s(f32s x, uint32_t by)
{
    return is_power(by) ? x * all_f32(1 / (float)by) : x / all_f32((float)by);
}

INLINE f64s divide_f64s(f64s x, uint32_t by)
{
    return is_power(by) ? x * all_f64(1 / (double)by) : x / all_f64((double)by);
}

/* Integers of up to 24 bits divide exactly in f32, and those of up to 53 in f64: a quotient that is
 * not whole is farther from the next whole number than rounding can carry it. */
INLINE u32s quotient_u16(u32s x, uint32_t by)
{
    if (is_power(by))
        return x >> __builtin_ctz(by);
    const f32s quotient = __builtin_convertvector((i32s)x, f32s) / all_f32((float)by);

    return (u32s) __builtin_convertvector(quotient, i32s);
}

/* The same for 32 bits; few machines convert between 64-bit integers and f64, so both conversions
 * are made by adding 2^52, and the second one's rounding is taken back. */
INLINE u64s quotient_u32(u64s x, uint32_t by)
{
    if (is_power(by))
        return x >> __builtin_ctz(by);
    const u64s exponent = (u64s){0} + 0x4330000000000000u;
    const f64s quotient = ((f64s)(x | exponent) - 0x1p52) / all_f64((double)by);
    const f64s rounded = quotient + 0x1p52;
    const u64s minus_one = (u64s)(rounded - 0x1p52 > quotient);

    return ((u64s)rounded ^ exponent) + minus_one;
}

OUTLINE u8s divide_u8(u8s x, uint32_t by)
{
    const u32s in = (u32s)x;
    u32s out = {0};

    for (uint32_t shift = 0; shift < 32; shift += 8)
        out |= quotient_u16(in >> shift & 0xffu, by) << shift;
    return (u8s)out;
}

OUTLINE u16s divide_u16(u16s x, uint32_t by)
{
    const u32s in = (u32s)x;

    return (u16s)(quotient_u16(in & 0xffffu, by) | quotient_u16(in >> 16, by) << 16);
}

OUTLINE u32s divide_u32(u32s x, uint32_t by)
{
    const u64s in = (u64s)x;

    return (u32s)(quotient_u32(in & 0xffffffffu, by) | quotient_u32(in >> 32, by) << 32);
}

OUTLINE u64s divide_u64(u64s x, uint32_t by)
{
    if (is_power(by))
        return x >> __builtin_ctz(by);
    for (uint32_t i = 0; i < WIDTH / 8; i++)
        x[i] /= by;
    return x;
}

/* Signed: the magnitude divided, the sign put back; the least integer's magnitude fits unsigned. */
#define DIVIDE_SIGNED(bits)                                                                        \
    OUTLINE u##bits##s divide_i##bits(u##bits##s x, uint32_t by)                                   \
    {                                                                                              \
        const u##bits##s sign = (u##bits##s)((i##bits##s)x < 0);                                   \
                                                                                                   \
        return (divide_u##bits((x ^ sign) - sign, by) ^ sign) - sign;                              \
    }

DIVIDE_SIGNED(8)
DIVIDE_SIGNED(16)
DIVIDE_SIGNED(32)
DIVIDE_SIGNED(64)

/* The types: fold_type.h says what is defined for each --------------------------------------- */

#define TYPE f16
#define LANES f32s
#define PARTS 2
#define FLOAT
#include "engine/fold_type.h"

#define TYPE bf16
#define LANES f32s
#define PARTS 2
#define FLOAT
#include "engine/fold_type.h"

#define TYPE f32
#define LANES f32s
#define FLOAT
#include "engine/fold_type.h"

#define TYPE f64
#define LANES f64s
#define FLOAT
#include "engine/fold_type.h"

#define TYPE u8
#define LANES u8s
#include "engine/fold_type.h"

#define TYPE u16
#define LANES u16s
#include "engine/fold_type.h"

#define TYPE u32
#define LANES u32s
#include "engine/fold_type.h"

#define TYPE u64
#define LANES u64s
#include "engine/fold_type.h"

#define TYPE i8
#define LANES u8s
#define SIGNED i8s
#include "engine/fold_type.h"

#define TYPE i16
#define LANES u16s
#define SIGNED i16s
#include "engine/fold_type.h"

#define TYPE i32
#define LANES u32s
#define SIGNED i32s
#include "engine/fold_type.h"

#define TYPE i64
#define LANES u64s
#define SIGNED i64s
#include "engine/fold_type.h"

/* The table: type x op.  What the sign does not matter to is the unsigned type's. */

#define COMMON(type)                                                                               \
    [RONDA_SUM - RONDA_SUM] = sum_##type, [RONDA_MEAN - RONDA_SUM] = sum_##type,                   \
                 [RONDA_MIN - RONDA_SUM] = min_##type, [RONDA_MAX - RONDA_SUM] = max_##type
#define UNSIGNED(type)                                                                             \
    [RONDA_PROD - RONDA_SUM] = prod_##type, [RONDA_BAND - RONDA_SUM] = band_##type,                \
                  [RONDA_BOR - RONDA_SUM] = bor_##type, [RONDA_BXOR - RONDA_SUM] = bxor_##type

static rd_fold_fn *const kernels[RONDA_U64 + 1][RD_OPS] = {
    [RONDA_F16] = {COMMON(f16), [RONDA_PROD - RONDA_SUM] = prod_f16},
    [RONDA_BF16] = {COMMON(bf16), [RONDA_PROD - RONDA_SUM] = prod_bf16},
    [RONDA_F32] = {COMMON(f32), [RONDA_PROD - RONDA_SUM] = prod_f32},
    [RONDA_F64] = {COMMON(f64), [RONDA_PROD - RONDA_SUM] = prod_f64},
    [RONDA_I8] = {COMMON(i8), UNSIGNED(u8)},
    [RONDA_U8] = {COMMON(u8), UNSIGNED(u8)},
    [RONDA_I16] = {COMMON(i16), UNSIGNED(u16)},
    [RONDA_U16] = {COMMON(u16), UNSIGNED(u16)},
    [RONDA_I32] = {COMMON(i32), UNSIGNED(u32)},
    [RONDA_U32] = {COMMON(u32), UNSIGNED(u32)},
    [RONDA_I64] = {COMMON(i64), UNSIGNED(u64)},
    [RONDA_U64] = {COMMON(u64), UNSIGNED(u64)},
};

#define TYPE RD_FOLD_SET

rd_fold_fn *NAME(rd_fold_kernel)(ronda_type type, ronda_op op)
{
    if (type < 0 || type > RONDA_U64 || rd_op_row(op) >= RD_OPS)
        return NULL;
    return kernels[type][rd_op_row(op)];
}

INLINE void move_block(char *to, const char *from, bool prefetched)
{
    const raw a = *(const rd_mem_register *)from;
    const raw b = *(const rd_mem_register *)(from + WIDTH);
    const raw c = *(const rd_mem_register *)(from + 2 * WIDTH);
    const raw d = *(const rd_mem_register *)(from + 3 * WIDTH);

    if (prefetched)
        rd_own_range(to + AHEAD_BYTES, (size_t)4 * WIDTH);
    *(rd_mem_register *)to = a;
    *(rd_mem_register *)(to + WIDTH) = b;
    *(rd_mem_register *)(to + 2 * WIDTH) = c;
    *(rd_mem_register *)(to + 3 * WIDTH) = d;
}

/* Moves WIDTH bytes or more.  The first and the last register may overlap the others; those between
 * are stored aligned, since a store across two cache lines costs two. */
void NAME(rd_fold_move)(void *to, const void *from, size_t bytes)
{
    char *t = to;
    const char *f = from;
    const size_t block = 4 * WIDTH;
    const size_t prefetched = bytes >= FAR_BYTES ? bytes - AHEAD_BYTES - block : 0;
    size_t at = WIDTH - (uintptr_t)to % WIDTH;

    *(rd_mem_register *)t = *(const rd_mem_register *)f;
    for (; bytes >= FAR_BYTES && at + STRIPS * STRIP_BYTES <= bytes; at += STRIPS * STRIP_BYTES)
        for (size_t i = at; i < at + STRIP_BYTES; i += block)
            for (size_t k = i; k < i + STRIPS * STRIP_BYTES; k += STRIP_BYTES)
                move_block(t + k, f + k, true);
    for (; at + block <= bytes; at += block)
        move_block(t + at, f + at, at < prefetched);
    for (; at + WIDTH <= bytes; at += WIDTH)
        *(rd_mem_register *)(t + at) = *(const rd_mem_register *)(f + at);
    *(rd_mem_register *)(t + bytes - WIDTH) = *(const rd_mem_register *)(f + bytes - WIDTH);
}
