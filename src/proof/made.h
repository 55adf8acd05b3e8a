/* made.h: what a step makes of terms: a function for each verb but send, which makes nothing, and
 * those that are RD_GROUPED, which runs.c does itself. */
#ifndef RD_MADE_H
#define RD_MADE_H

#include "plan/plan.h"
#include "proof/terms.h"

/* One step, and what is there when it runs. */
typedef struct {
    rd_terms *terms;
    const rd_plan *plan;
    const rd_step *step;
    const rd_term *message;            /* what has come; NULL: a local step */
    rd_term *const memory[RD_BUFFERS]; /* of this rank */
} rd_making;

typedef void rd_make_fn(const rd_making *m);

/* By verb.  Writes the terms of what the step writes. */
extern rd_make_fn *const rd_makes[];

#define X(verb, name, ...) rd_make_fn rd_make_##name;
rd_make_fn rd_make_recv, rd_make_fold;
RD_LOCAL_VERBS(X)
#undef X

/* The cells of access number i of a step that is RD_LISTED. */
rd_term *rd_making_cells(const rd_making *m, uint32_t i);
/* What is made is divided by size, if the step says so. */
rd_term rd_making_scaled(const rd_making *m, rd_term term);

#endif
