/* plain_fold.h: one element of a fold, computed plainly: integers in 64 bits, f32 in f64 rounded after
 * each step (which gives the same bits), 16-bit floats by scaling and floor(). */
#ifndef RD_PLAIN_FOLD_H
#define RD_PLAIN_FOLD_H

#include "ronda.h"

/* Element `index` of in[0] op in[1] op ..., divided by divisor unless that is 0; as bits. */
uint64_t plain_fold(ronda_type type, ronda_op op, const void *const in[], uint32_t ins,
                    size_t index, uint32_t divisor);

/* Equal bits, or two NaNs. */
bool same_element(ronda_type type, uint64_t a, uint64_t b);

/* Elements of 1, 2, 4 or 8 bytes, at any address. */
uint64_t read_bits(const void *from, size_t index, size_t size);
void write_bits(void *to, size_t index, size_t size, uint64_t bits);

/* The nearest element of a float type. */
uint64_t float_bits(ronda_type type, double x);

/* 16-bit floats: how many bits are what. */
typedef struct {
    int fraction, exponent;
} small_float;
extern const small_float f16, bf16;
double small_value(small_float form, uint16_t bits);
uint16_t small_bits(small_float form, double x);

#endif
