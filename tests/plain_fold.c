/* plain_fold.c: the fold written a second time, to be compared with: slow, plain, and by other means
 * than the library's. */
#include "plain_fold.h"

#include "base/names.h"

#include <math.h>
#include <string.h>

const small_float f16 = {10, 5}, bf16 = {7, 8};

double small_value(small_float form, uint16_t bits)
{
    const int exponent = bits >> form.fraction & ((1 << form.exponent) - 1);
    const int fraction = bits & ((1 << form.fraction) - 1);
    const int bias = (1 << (form.exponent - 1)) - 1;
    const double sign = bits & 0x8000 ? -1 : 1;

    if (exponent == (1 << form.exponent) - 1)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - form.fraction);
    return sign * ldexp((1 << form.fraction) + fraction, exponent - bias - form.fraction);
}

/* x in units of the last place it may have there, rounded to the nearest, halves to even. */
uint16_t small_bits(small_float form, double x)
{
    const int bias = (1 << (form.exponent - 1)) - 1;
    const int infinity = ((1 << form.exponent) - 1) << form.fraction;
    const int sign = signbit(x) ? 0x8000 : 0;
    int exponent;

    if (x != x)
        return (uint16_t)(infinity + 1);
    frexp(x, &exponent);
    exponent--; /* of a first digit before the point */
    if (x == 0 || exponent < 1 - bias)
        exponent = 1 - bias;
    if (isinf(x) || exponent > bias + 1)
        return (uint16_t)(sign | infinity);
    const double units = ldexp(fabs(x), form.fraction - exponent), below = floor(units);
    int whole = (int)below;

    if (units - below > 0.5 || (units - below == 0.5 && whole % 2 == 1))
        whole++;
    const int bits = ((exponent + bias - 1) << form.fraction) + whole;

    return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

uint64_t read_bits(const void *from, size_t index, size_t size)
{
    const char *at = (const char *)from + index * size;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;

    switch (size) {
    case 1:
        return memcpy(&u8, at, size), u8;
    case 2:
        return memcpy(&u16, at, size), u16;
    case 4:
        return memcpy(&u32, at, size), u32;
    default:
        return memcpy(&u64, at, size), u64;
    }
}

void write_bits(void *to, size_t index, size_t size, uint64_t bits)
{
    char *at = (char *)to + index * size;
    const uint8_t u8 = (uint8_t)bits;
    const uint16_t u16 = (uint16_t)bits;
    const uint32_t u32 = (uint32_t)bits;

    memcpy(at,
           size == 1   ? (const void *)&u8
           : size == 2 ? &u16
           : size == 4 ? &u32
                       : (const void *)&bits,
           size);
}

static double float_value(ronda_type type, uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float f;
    double d;

    if (type == RONDA_F16 || type == RONDA_BF16)
        return small_value(type == RONDA_F16 ? f16 : bf16, (uint16_t)bits);
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &bits, sizeof d);
    return type == RONDA_F32 ? (double)f : d;
}

uint64_t float_bits(ronda_type type, double x)
{
    const float f = (float)x;
    uint32_t low;
    uint64_t bits;

    if (type == RONDA_F16 || type == RONDA_BF16)
        return small_bits(type == RONDA_F16 ? f16 : bf16, x);
    memcpy(&low, &f, sizeof low);
    memcpy(&bits, &x, sizeof bits);
    return type == RONDA_F32 ? low : bits;
}

static double float_op(ronda_op op, double a, double b)
{
    switch (op) {
    case RONDA_PROD:
        return a * b;
    case RONDA_MIN:
        return b < a || b != b ? b : a;
    case RONDA_MAX:
        return b > a || b != b ? b : a;
    default:
        return a + b;
    }
}

static uint64_t int_op(ronda_op op, bool is_signed, uint64_t a, uint64_t b)
{
    const bool less = is_signed ? (int64_t)b < (int64_t)a : b < a;

    switch (op) {
    case RONDA_PROD:
        return a * b;
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
        return a + b;
    }
}

/* As the type has it: the low bits, its sign above them. */
static uint64_t wrapped(uint64_t x, size_t size, bool is_signed)
{
    const unsigned above = (unsigned)(64 - 8 * size);
    const uint64_t low = x << above >> above;

    return is_signed && low >> (8 * size - 1) ? low | ~(UINT64_MAX << above >> above) : low;
}

static bool is_signed(ronda_type type)
{
    return type == RONDA_I8 || type == RONDA_I16 || type == RONDA_I32 || type == RONDA_I64;
}

uint64_t plain_fold(ronda_type type, ronda_op op, const void *const in[], uint32_t ins,
                    size_t index, uint32_t divisor)
{
    const size_t size = ronda_type_size(type);
    const bool sign = is_signed(type), wide = type == RONDA_F64;
    uint64_t bits = read_bits(in[0], index, size);

    if (rd_type_is_float(type)) {
        double x = float_value(type, bits);
        for (uint32_t i = 1; i < ins; i++) {
            x = float_op(op, x, float_value(type, read_bits(in[i], index, size)));
            x = wide ? x : (double)(float)x;
        }
        if (divisor)
            x = wide ? x / divisor : (double)(float)(x / (double)(float)divisor);
        return float_bits(type, x);
    }
    bits = wrapped(bits, size, sign);
    for (uint32_t i = 1; i < ins; i++) {
        const uint64_t next = wrapped(read_bits(in[i], index, size), size, sign);
        bits = wrapped(int_op(op, sign, bits, next), size, sign);
    }
    if (divisor && sign)
        return (uint64_t)((int64_t)bits / (int64_t)divisor);
    return divisor ? bits / divisor : bits;
}

bool same_element(ronda_type type, uint64_t got, uint64_t want)
{
    if (got == want)
        return true;
    if (!rd_type_is_float(type))
        return false;
    const double a = float_value(type, got), b = float_value(type, want);
    return a != a && b != b;
}
