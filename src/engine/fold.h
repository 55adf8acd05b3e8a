/* fold.h: the arithmetic.  out = in[0] op in[1] op ... op in[n-1], element by element, left to right,
 * in one pass, stored to every out[].
 *
 * One source (fold_kernels.c) is compiled per instruction set; the best that the machine has is
 * picked once, at run time.  Every set gives the same bits: no contraction, no reassociation.
 * 16-bit floats are widened to f32, folded there, and rounded to nearest even once per call.
 * An out may be one of the ins (exactly equal pointers); otherwise they do not overlap.
 * Pointers need no alignment. */
#ifndef RD_FOLD_H
#define RD_FOLD_H

#include "base/ops.h"

/* outs >= 1, ins >= 1 (1: a copy, or with divisor a scaling); any number of ins and outs works, up
 * to 16 are fast.  divisor: 0, or what the result is divided by before it is rounded (MEAN); only
 * the kernel of SUM divides.  Of equal elements MIN and MAX keep the left one, so that of zeros too
 * the sign is fixed.  A range of zero elements is left alone. */
typedef void rd_fold_fn(void *const out[], uint32_t outs, const void *const in[], uint32_t ins,
                        size_t count, uint32_t divisor);

/* The kernel for this type and op (MEAN: that of SUM; the divisor is the caller's), or NULL if the
 * op is not defined for the type.  Cheap enough to call once per plan, not per step. */
rd_fold_fn *rd_fold_kernel(ronda_type type, ronda_op op);

/* The same by an op of the user's, from left to right, through a little memory of its own. */
void rd_user_fold(const rd_user_op *op, ronda_type type, void *const out[], uint32_t outs,
                  const void *const in[], uint32_t ins, size_t count);

/* Moves bytes that do not overlap; quick for small ones, and does not turn to string instructions. */
void rd_move(void *to, const void *from, size_t bytes);
/* The same past the caches, where the machine can.  Whoever publishes the bytes need do nothing about
 * their order.  Of use where more than RD_STREAMED bytes are read and written, which no core's own cache
 * holds. */
void rd_stream(void *to, const void *from, size_t bytes);
enum { RD_STREAMED = 16 << 20 };

/* Instruction sets, for tests and benches: best first; NULL ends. */
typedef struct {
    const char *name; /* "avx512", "avx2", "baseline", "neon" */
    bool usable;      /* on this machine */
    rd_fold_fn *(*kernel)(ronda_type type, ronda_op op);
} rd_fold_set;
const rd_fold_set *rd_fold_sets(void); /* ends with name NULL */

/* Scalar conversions, round to nearest even; used by tests and by whoever needs one value. */
float rd_f16_to_f32(uint16_t x);
uint16_t rd_f32_to_f16(float x);
float rd_bf16_to_f32(uint16_t x);
uint16_t rd_f32_to_bf16(float x);

#endif
