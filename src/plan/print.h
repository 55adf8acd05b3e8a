/* print.h: what the printing of plans is made of.  rd_plan_print() itself is in plan.h. */
#ifndef RD_PRINT_H
#define RD_PRINT_H

#include "plan/plan.h"

/* A text that is written bit by bit into the caller's buffer, cut where that ends. */
typedef struct {
    char *text;
    size_t capacity;
    size_t length; /* of all that was said, whether there was room or not */
    size_t line;   /* where this line began */
} rd_text;

void rd_say(rd_text *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Steps in an order that can be followed; of a group the leader alone.  order: room for all steps.
 * false: no memory. */
bool rd_print_order(const rd_plan *p, uint32_t order[], uint32_t *count);

#endif
