/* fold.c: which instruction set folds, the move of bytes, and conversions of one value.
 *
 * fold_kernels.c is compiled once per instruction set and gives a table of kernels and a move for
 * each; the first set that the machine has is used. */
#include "engine/fold.h"

#include "engine/fold_kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

static rd_fold_set sets[] = {
#if defined(__x86_64__)
    {"avx512", false, rd_fold_kernel_avx512},
    {"avx2", false, rd_fold_kernel_avx2},
#endif
#if defined(__aarch64__)
    {"neon", true, rd_fold_kernel_baseline},
#else
    {"baseline", true, rd_fold_kernel_baseline},
#endif
    {NULL, false, NULL},
};

/* The same sets' moves. */
static rd_fold_move_fn *const moves[] = {
#if defined(__x86_64__)
    rd_fold_move_avx512,
    rd_fold_move_avx2,
#endif
    rd_fold_move_baseline,
};

static void find_usable_sets(void)
{
#if defined(__x86_64__)
    unsigned eax, ebx, ecx = 0, edx;

    /* Not every compiler's __builtin_cpu_supports() knows F16C; whether the system saves the
     * registers it needs is answered by asking for AVX2. */
    __get_cpuid(1, &eax, &ebx, &ecx, &edx);
    __builtin_cpu_init();
    sets[1].usable = __builtin_cpu_supports("avx2") && (ecx & bit_F16C);
    sets[0].usable = sets[1].usable && __builtin_cpu_supports("avx512f") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                     __builtin_cpu_supports("avx512vl");
#endif
}

const rd_fold_set *rd_fold_sets(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_usable_sets);
    return sets;
}

static size_t best_set(void)
{
    const rd_fold_set *all = rd_fold_sets();
    size_t best = 0;

    while (!all[best].usable)
        best++;
    return best;
}

rd_fold_fn *rd_fold_kernel(ronda_type type, ronda_op op)
{
    return sets[best_set()].kernel(type, op);
}

/* The first large move finds the function for all later ones.  Threads that come first together
 * find the same one. */
static rd_fold_move_fn find_move;
static _Atomic(rd_fold_move_fn *) move_large = find_move;

static void find_move(void *to, const void *from, size_t bytes)
{
    rd_fold_move_fn *const found = moves[best_set()];

    atomic_store_explicit(&move_large, found, memory_order_relaxed);
    found(to, from, bytes);
}

/* Up to 64 bytes: pairs of pieces that overlap where they must, in registers that every machine has. */
void rd_move(void *to, const void *from, size_t bytes)
{
    char *t = to;
    const char *f = from;

    if (bytes > 64) {
        atomic_load_explicit(&move_large, memory_order_relaxed)(to, from, bytes);
    } else if (bytes >= 16) {
        const rd_mem16 first = *(const rd_mem16 *)f, last = *(const rd_mem16 *)(f + bytes - 16);

        if (bytes > 32) {
            const rd_mem16 second = *(const rd_mem16 *)(f + 16);
            const rd_mem16 third = *(const rd_mem16 *)(f + bytes - 32);

            *(rd_mem16 *)(t + 16) = second;
            *(rd_mem16 *)(t + bytes - 32) = third;
        }
        *(rd_mem16 *)t = first;
        *(rd_mem16 *)(t + bytes - 16) = last;
    } else if (bytes >= 8) {
        const uint64_t first = *(const rd_mem8 *)f, last = *(const rd_mem8 *)(f + bytes - 8);

        *(rd_mem8 *)t = first;
        *(rd_mem8 *)(t + bytes - 8) = last;
    } else if (bytes >= 4) {
        const uint32_t first = *(const rd_mem4 *)f, last = *(const rd_mem4 *)(f + bytes - 4);

        *(rd_mem4 *)t = first;
        *(rd_mem4 *)(t + bytes - 4) = last;
    } else if (bytes > 0) {
        const char first = f[0], middle = f[bytes / 2], last = f[bytes - 1];

        t[0] = first;
        t[bytes / 2] = middle;
        t[bytes - 1] = last;
    }
}

void rd_stream(void *to, const void *from, size_t bytes)
{
#if defined(__x86_64__)
    const size_t aligned = -(uintptr_t)to % 64, first = aligned < bytes ? aligned : bytes;
    const size_t end = first + ((bytes - first) & ~(size_t)63);
    rd_move(to, from, first);
    for (size_t i = first; i < end; i += 64) {
        const char *f = (const char *)from + i;
        __m128i *t = (__m128i *)((char *)to + i);
        const __m128i a = _mm_loadu_si128((const __m128i *)f);
        const __m128i b = _mm_loadu_si128((const __m128i *)(f + 16));
        const __m128i c = _mm_loadu_si128((const __m128i *)(f + 32));
        const __m128i d = _mm_loadu_si128((const __m128i *)(f + 48));
        _mm_stream_si128(t, a);
        _mm_stream_si128(t + 1, b);
        _mm_stream_si128(t + 2, c);
        _mm_stream_si128(t + 3, d);
    }
    _mm_sfence();
    rd_move((char *)to + end, (const char *)from + end, bytes - end);
#else
    rd_move(to, from, bytes);
#endif
}

/* Conversions of one value ---------------------------------------------------------------------- */

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float rd_f16_to_f32(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31, rest = x & 0x3ff;

    if (exponent == 31)
        return float_of(sign | 0x7f800000 | rest << 13);
    if (exponent == 0)
        return float_of(sign | bits_of((float)rest * 0x1p-24f));
    return float_of(sign | (exponent + 112) << 23 | rest << 13);
}

uint16_t rd_f32_to_f16(float x)
{
    const uint32_t sign = bits_of(x) >> 16 & 0x8000, bits = bits_of(x) & 0x7fffffff;

    if (x != x)
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 143u << 23) /* 2^16 */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 113u << 23) /* 2^-14: adding 0.5 rounds to the last place of a denormal half */
        return (uint16_t)(sign | (bits_of(float_of(bits) + 0.5f) - (126u << 23)));
    return (uint16_t)(sign | (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13);
}

float rd_bf16_to_f32(uint16_t x)
{
    return float_of((uint32_t)x << 16);
}

uint16_t rd_f32_to_bf16(float x)
{
    const uint32_t bits = bits_of(x);

    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* An out may be any of the ins, so the result of a part is made elsewhere and stored when it is done. */
void rd_user_fold(const rd_user_op *op, ronda_type type, void *const out[], uint32_t outs,
                  const void *const in[], uint32_t ins, size_t count)
{
    enum { PART = 4096 };
    _Alignas(64) char result[PART];
    const size_t width = ronda_type_size(type);
    for (size_t at = 0; at < count * width;) {
        const size_t left = count * width - at, bytes = left < PART ? left : PART;
        const void *sum = (const char *)in[0] + at;
        for (uint32_t i = 1; i < ins; i++) {
            op->fold(op->context, sum, (const char *)in[i] + at, result, bytes / width, type);
            sum = result;
        }
        for (uint32_t o = 0; o < outs; o++)
            if ((const char *)out[o] + at != sum)
                memcpy((char *)out[o] + at, sum, bytes);
        at += bytes;
    }
}
