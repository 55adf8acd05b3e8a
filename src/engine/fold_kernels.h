/* fold_kernels.h: what fold_kernels.c gives to fold.c, once per instruction set. */
#ifndef RD_FOLD_KERNELS_H
#define RD_FOLD_KERNELS_H

#include "engine/fold.h"

typedef rd_fold_fn *rd_fold_kernel_fn(ronda_type type, ronda_op op);
typedef void rd_fold_move_fn(void *to, const void *from, size_t bytes); /* more than 64 bytes */

rd_fold_kernel_fn rd_fold_kernel_avx512, rd_fold_kernel_avx2, rd_fold_kernel_baseline;
rd_fold_move_fn rd_fold_move_avx512, rd_fold_move_avx2, rd_fold_move_baseline;

/* Somebody's memory: of any type, at any address. */
typedef uint16_t rd_mem2 __attribute__((aligned(1), may_alias));
typedef uint32_t rd_mem4 __attribute__((aligned(1), may_alias));
typedef uint64_t rd_mem8 __attribute__((aligned(1), may_alias));
typedef uint64_t rd_mem16 __attribute__((vector_size(16), aligned(1), may_alias));

#endif
