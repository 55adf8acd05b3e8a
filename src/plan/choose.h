/* choose.h: what a plan costs, and which algorithm is cheapest. */
#ifndef RD_CHOOSE_H
#define RD_CHOOSE_H

#include "base/costs.h"
#include "plan/plan.h"

/* What the choice may depend on: equal on all ranks of a world. */
typedef struct {
    const rd_algorithm *algorithm;
    uint32_t rounds, messages; /* of the rank that has most of them */
    uint64_t sent_bytes;       /* by the rank that sends most */
    double ns;                 /* estimate */
    bool bulky;                /* it wants more scratch than is worth it: after all others */
} rd_price;

/* The size of messages that a plan is cut for, as rd_plan_build wants it. */
uint64_t rd_segment_for(const rd_facts *facts, const rd_algorithm *a, const rd_shape *shape);

/* No memory: .algorithm is NULL. */
rd_price rd_price_of(const rd_algorithm *a, const rd_shape *shape, const rd_facts *facts);

/* The shape that stands for all of its class, of which a choice is made once: sizes of 256 bytes and more are
 * rounded down to a quarter of a power of two, shorter ones stand for themselves; so do the counts of kinds
 * that are counted.  A pure function, so all ranks have the same classes whatever they called before. */
rd_shape rd_class_of(const rd_shape *shape);

/* The cheapest algorithm for this shape.  A pure function of shape (without rank and in_place) and
 * facts.  prices: NULL, or room for all candidates (*count of them), ends up cheapest first.
 * NULL: no memory. */
bool rd_fits(const rd_algorithm *a,
             const rd_shape *shape); /* an op that does not commute wants order */
/* Whether it is looked at: what is for hosts alone or for comparison is not, elsewhere. */
bool rd_is_candidate(const rd_algorithm *a, const rd_shape *shape);
enum { RD_MOST_CANDIDATES = 16 };
const rd_algorithm *rd_choose(const rd_shape *shape, const rd_facts *facts, rd_price prices[],
                              uint32_t *count);

#endif
