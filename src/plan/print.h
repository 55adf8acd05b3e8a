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

/* For pictures: one range, "in[0..3)"; one step, "out[0..3) = rank 1's + in[0..3)"
 * (of a group the leader). */
void rd_print_range(rd_text *w, uint8_t buffer, uint64_t at, uint64_t count);
void rd_print_step(rd_text *w, const rd_plan *p, ronda_op op, const rd_step *s);

/* Steps in an order that can be followed; of a group the leader alone.  order: room for all steps.
 * false: no memory. */
bool rd_print_order(const rd_plan *p, uint32_t order[], uint32_t *count);

#endif
