/* interpret.h: runs plans on numbers, step by step, in random orders that an engine might take.
 *
 * It knows nothing of the proof: it is what the proof is measured against.  Whatever a transport is
 * allowed to do it does at random: copy what is sent or lend it until it is taken, have little room
 * or much, run a forwarded send together with what it forwards, store what a mark says straight into
 * the peer's memory, walk straight where that is allowed, and let a rank come late. */
#ifndef RD_INTERPRET_H
#define RD_INTERPRET_H

#include "harness.h"
#include "plan/plan.h"
#include "value.h"

/* A local step of any verb whose ranges are listed; at: where they are.  Of a test that has such verbs. */
typedef void interpret_fn(const rd_step *s, const rd_access list[], value *const at[]);
extern interpret_fn *interpret_listed;

enum { MOST_RANKS = 9 };

enum {
    RUN_RIGHT,
    RUN_WRONG, /* a wrong result, or memory touched that is not the plan's to touch */
    RUN_HANGS  /* nothing can move, and not all is done */
};

typedef struct {
    int verdict;
    char why[160];
} interpretation;

/* Runs the world up to `runs` times and returns the first run that is not right.  Steps must be in the lanes
 * of their peer and direction and indices must exist; ranges may be anything. */
interpretation interpret(rd_plan *const plans[], uint32_t n, uint32_t runs, rng *random);

#endif
