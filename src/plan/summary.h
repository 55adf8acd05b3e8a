/* summary.h: what an algorithm comes to in a whole world, in numbers. */
#ifndef RD_SUMMARY_H
#define RD_SUMMARY_H

#include "plan/plan.h"

/* Each of the rank that has most of it. */
typedef struct {
    uint32_t rounds;
    uint64_t steps;
    uint64_t messages; /* sent */
    uint64_t elements; /* sent */
} rd_totals;

/* Builds every rank's plan; shape->rank and in_place do not matter.  false: no memory. */
bool rd_totals_of(const rd_algorithm *a, const rd_shape *shape, uint64_t segment_bytes,
                  rd_totals *out);

/* An algorithm's line of a table of them; NULL: the table's head.  Returns the length needed, like
 * snprintf; 0: no memory. */
size_t rd_summary_line(const rd_algorithm *a, const rd_shape *shape, uint64_t segment_bytes,
                       char *text, size_t capacity);

#endif
