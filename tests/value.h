/* value.h: one element as interpret.c computes with it: several things at once, so that whatever goes
 * wrong shows in one of them. */
#ifndef RD_VALUE_H
#define RD_VALUE_H

#include <stdint.h>

typedef struct {
    uint64_t sum; /* of weights that each (rank, element) has for itself: who is in it, how often */
    uint64_t chain, power; /* a polynomial in the order of the operands */
    uint64_t id;           /* hash of the whole expression: bits would differ where this does */
    uint64_t ranks;        /* for barriers: who has come */
} value;

value value_leaf(uint32_t rank, uint64_t element);
value value_fold(value a, value b);
value value_scaled(value a);
uint64_t value_hash(uint64_t a, uint64_t b);

#endif
