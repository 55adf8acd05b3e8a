/* oddities.h: algorithms that nobody needs, for what the table's rows do not do: merges, scaling by
 * itself, and a range lent to two peers of which one will return it. */
#ifndef RD_ODDITIES_H
#define RD_ODDITIES_H

#include "plan/plan.h"

extern const rd_algorithm oddities[]; /* ends with name NULL */

#endif
