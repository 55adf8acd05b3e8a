/* check.h: the proof that a collective's plans are right. */
#ifndef RD_CHECK_H
#define RD_CHECK_H

#include "plan/plan.h"

typedef struct {
    bool ok;
    bool too_large;                  /* not ok, but not wrong either: more than a proof can take */
    char why[480];                   /* the first thing that is wrong, in one sentence; "" if ok */
    uint64_t steps, messages, terms; /* size of what was proved */
} rd_proof;

/* Proves the n plans of one collective, one per rank (plans[r] is rank r's), whatever made them. */
rd_proof rd_check_plans(rd_plan *const plans[], uint32_t n);

enum { RD_PLACE_NONE, RD_PLACE_ALL, RD_PLACE_MIXED, RD_PLACES }; /* which ranks work in place */

/* Gives a shape of a kind that is counted blocks of all lengths up to `count`, the same on all ranks (of an
 * alltoallv: those of its ranks).  starts: room for 2 * (size + 1).  false: the kind has none. */
bool rd_ragged_starts(rd_shape *s, uint64_t count, uint64_t starts[]);

/* Builds all plans of an algorithm for a call, and proves them; of the call size, count, root, width, mean
 * and hosts are read.  Where each rank has a count of its own they
 * are ragged ones up to `count`. */
rd_proof rd_check_call(const rd_algorithm *a, const rd_shape *call, int place,
                       uint64_t segment_bytes);
/* The same, in a world of one host */
rd_proof rd_check_world(const rd_algorithm *a, uint32_t size, uint64_t count, uint32_t root,
                        uint32_t width, bool mean, int place, uint64_t segment_bytes);

#endif
