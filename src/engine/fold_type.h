/* fold_type.h: the fold of one element type; a template, included by fold_kernels.c once per type.
 *
 * Before each inclusion:
 *   TYPE     the type's name: every function here ends in it
 *   LANES    the vector in which it is computed
 *   PARTS    how many of these vectors a register of elements is widened to (1)
 *   FLOAT    for floats
 *   SIGNED   for signed integers: the vector in which they are compared.  What does not depend on
 *            the sign is not made again: it is the unsigned type's
 * and, with PARTS, widen_TYPE(from, bytes, LANES *) and narrow_TYPE(const LANES *); without FLOAT,
 * divide_TYPE(LANES, by). */

#ifndef PARTS
#define PARTS 1

INLINE void NAME(widen)(const char *from, size_t bytes, LANES *lanes)
{
    *lanes = (LANES)load(from, bytes);
}

INLINE raw NAME(narrow)(const LANES *lanes)
{
    return (raw)*lanes;
}
#endif

#ifdef FLOAT
#define DIVIDE PASTE_EXPANDED(divide, LANES)
#else
#define DIVIDE NAME(divide)
#endif
#define ELEMENT_BYTES (sizeof((*(LANES *)0)[0]) / PARTS)

/* *a = *a op x.  Of a minimum or maximum that is tied, the left one stays; a NaN wins. */
INLINE void NAME(apply)(ronda_op op, LANES *a, const LANES x)
{
    switch (op) {
    case RONDA_SUM:
        *a += x;
        break;
    case RONDA_PROD:
        *a *= x;
        break;
    case RONDA_MIN:
    case RONDA_MAX: {
#ifdef SIGNED
        const SIGNED left = (SIGNED)*a, right = (SIGNED)x;
#else
        const LANES left = *a, right = x;
#endif
        __typeof__(left < right) better = op == RONDA_MIN ? right < left : right > left;

#ifdef FLOAT
        better |= right != right;
#endif
        *a = (LANES)((better & (__typeof__(better))x) | (~better & (__typeof__(better))*a));
        break;
    }
#ifndef FLOAT
    case RONDA_BAND:
        *a &= x;
        break;
    case RONDA_BOR:
        *a |= x;
        break;
    case RONDA_BXOR:
        *a ^= x;
        break;
#endif
    default:
        break;
    }
}

/* `registers` registers of elements, each of `bytes` bytes (fewer than WIDTH: the last ones), at
 * byte `at`.  Everything is read before anything is written, so an out may be an in. */
INLINE void NAME(step)(ronda_op op, void *const out[], uint32_t outs, const void *const in[],
                       uint32_t ins, uint32_t divisor, size_t at, uint32_t registers, size_t bytes)
{
    LANES sum[4], x[PARTS];
    raw result[4];

    for (uint32_t r = 0; r < registers; r++)
        NAME(widen)((const char *)in[0] + at + r * WIDTH, bytes, &sum[r * PARTS]);
    for (uint32_t i = 1; i < ins; i++)
        for (uint32_t r = 0; r < registers; r++) {
            NAME(widen)((const char *)in[i] + at + r * WIDTH, bytes, x);
            for (uint32_t p = 0; p < PARTS; p++)
                NAME(apply)(op, &sum[r * PARTS + p], x[p]);
        }
    if (op == RONDA_SUM && divisor != 0)
        for (uint32_t v = 0; v < registers * PARTS; v++)
            sum[v] = DIVIDE(sum[v], divisor);
    for (uint32_t r = 0; r < registers; r++)
        result[r] = NAME(narrow)(&sum[r * PARTS]);
    for (uint32_t o = 0; o < outs; o++)
        for (uint32_t r = 0; r < registers; r++)
            store((char *)out[o] + at + r * WIDTH, bytes, result[r]);
}

/* Two ins, one out, a register or less. */
INLINE void NAME(small)(ronda_op op, void *out, const void *left, const void *right, size_t bytes)
{
    LANES sum[PARTS], x[PARTS];

    NAME(widen)(left, bytes, sum);
    NAME(widen)(right, bytes, x);
    NAME(apply)(op, &sum[0], x[0]);
    if (PARTS > 1) /* not a loop: clang would keep the sum in memory */
        NAME(apply)(op, &sum[PARTS - 1], x[PARTS - 1]);
    store(out, bytes, NAME(narrow)(sum));
}

/* Less than a register, for any op: outside the loops one function will do for all. */
OUTLINE void NAME(part)(ronda_op op, void *const out[], uint32_t outs, const void *const in[],
                        uint32_t ins, uint32_t divisor, size_t at, size_t bytes)
{
    NAME(step)(op, out, outs, in, ins, divisor, at, 1, bytes);
}

/* The whole range: a part up to where the first out is aligned, blocks of registers, registers, and
 * the last part, which of two ins and an out is the kernel's own small one. */
INLINE void NAME(fold)(ronda_op op, small_fold_fn *small, void *const out[], uint32_t outs,
                       const void *const in[], uint32_t ins, size_t count, uint32_t divisor)
{
    const uint32_t registers = 4 / PARTS;
    const size_t bytes = count * ELEMENT_BYTES, block = registers * WIDTH;
    const size_t prefetched = bytes >= FAR_BYTES ? bytes - AHEAD_BYTES - block : 0;
    /* An in that is written where it stands, and another place besides: this rank has just had it */
    const uint32_t first = outs > 1 && is_one_of(out[0], in, ins);
    size_t at = bytes >= ALIGN_BYTES ? to_aligned(out[0], ELEMENT_BYTES) : 0;

    if (at > 0)
        NAME(part)(op, out, outs, in, ins, divisor, 0, at);
    for (; bytes >= FAR_BYTES && ins + outs <= FEW_RANGES && bytes - at >= STRIPS * STRIP_BYTES;
         at += STRIPS * STRIP_BYTES)
        for (size_t i = at; i < at + STRIP_BYTES; i += block)
            for (size_t k = 0; k < STRIPS * STRIP_BYTES; k += STRIP_BYTES) {
                for (uint32_t o = first; o < outs; o++)
                    rd_own_range((const char *)out[o] + i + k + AHEAD_BYTES, block);
                NAME(step)(op, out, outs, in, ins, divisor, i + k, registers, WIDTH);
            }
    for (; bytes - at >= block; at += block) {
        for (uint32_t o = first; at < prefetched && o < outs; o++)
            rd_own_range((const char *)out[o] + at + AHEAD_BYTES, block);
        NAME(step)(op, out, outs, in, ins, divisor, at, registers, WIDTH);
    }
    for (; bytes - at >= WIDTH; at += WIDTH)
        NAME(step)(op, out, outs, in, ins, divisor, at, 1, WIDTH);
    if (at == bytes)
        return;
    if (outs == 1 && ins == 2 && divisor == 0)
        small((char *)out[0] + at, (const char *)in[0] + at, (const char *)in[1] + at, bytes - at);
    else
        NAME(part)(op, out, outs, in, ins, divisor, at, bytes - at);
}

/* The kernels.  A register or less of two ins and an out has a way of its own, free of the loops'
 * preparations. */
#define KERNEL(name, op)                                                                           \
    OUTLINE void NAME(name##_small)(void *out, const void *left, const void *right, size_t bytes)  \
    {                                                                                              \
        NAME(small)(op, out, left, right, bytes);                                                  \
    }                                                                                              \
                                                                                                   \
    OUTLINE void NAME(name##_any)(void *const out[], uint32_t outs, const void *const in[],        \
                                  uint32_t ins, size_t count, uint32_t divisor)                    \
    {                                                                                              \
        NAME(fold)(op, NAME(name##_small), out, outs, in, ins, count, divisor);                    \
    }                                                                                              \
                                                                                                   \
    static void NAME(name)(void *const out[], uint32_t outs, const void *const in[], uint32_t ins, \
                           size_t count, uint32_t divisor)                                         \
    {                                                                                              \
        if (count - 1 < WIDTH / ELEMENT_BYTES && outs == 1 && ins == 2 && divisor == 0)            \
            NAME(name##_small)(out[0], in[0], in[1], count * ELEMENT_BYTES);                       \
        else                                                                                       \
            NAME(name##_any)(out, outs, in, ins, count, divisor);                                  \
    }

KERNEL(sum, RONDA_SUM)
KERNEL(min, RONDA_MIN)
KERNEL(max, RONDA_MAX)
#ifndef SIGNED
KERNEL(prod, RONDA_PROD)
#endif
#if !defined(SIGNED) && !defined(FLOAT)
KERNEL(band, RONDA_BAND)
KERNEL(bor, RONDA_BOR)
KERNEL(bxor, RONDA_BXOR)
#endif

#undef KERNEL
#undef ELEMENT_BYTES
#undef DIVIDE
#undef TYPE
#undef LANES
#undef PARTS
#undef FLOAT
#undef SIGNED
