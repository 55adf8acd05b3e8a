/* outcome.h: what a collective's plans should come to, by their shapes alone. */
#ifndef RD_OUTCOME_H
#define RD_OUTCOME_H

#include "plan/plan.h"
#include "value.h"

/* Block i of a buffer that has one for each rank. */
rd_range outcome_block(const rd_shape *s, uint8_t buffer, uint32_t i);

/* Element e of what a rank gets. */
value outcome(rd_plan *const plans[], uint32_t rank, uint64_t e);

#endif
