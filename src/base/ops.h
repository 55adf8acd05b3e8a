/* ops.h: reductions that the user brings.
 *
 * An op is known by its name, on every rank: its number is made of the name and of whether it commutes, so
 * ranks that speak of the same op have the same number, whatever order they made their ops in. */
#ifndef RD_OPS_H
#define RD_OPS_H

#include "base/error.h"
#include "ronda.h"

enum { RD_FIRST_USER_OP = 1000, RD_OP_NAME = 32, RD_MOST_USER_OPS = 256 };

typedef struct {
    char name[RD_OP_NAME];
    ronda_op number;
    bool commutes;
    ronda_op_fn *fold;
    void *context;
} rd_user_op;

/* Any thread; ops stay until the process ends. */
ronda_status rd_op_add(const char *name, ronda_op_fn *fold, void *context, bool commutes,
                       ronda_op *out, rd_error *err);
const rd_user_op *rd_user_op_of(ronda_op op); /* NULL: none of the user's */

#endif
