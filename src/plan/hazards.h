/* hazards.h: which earlier steps a step must wait for, by the ranges they touch.  Part of sealing. */
#ifndef RD_HAZARDS_H
#define RD_HAZARDS_H

#include "plan/raw.h"

typedef struct {
    uint32_t from, to; /* raw steps: `to` waits for `from` */
} rd_edge;

typedef struct {
    rd_edge *edges; /* grouped by `to`, in rising order of `to` */
    uint32_t count, capacity;
    uint32_t *writer; /* per raw step: the one step that last wrote exactly what this one
                                reads, or RD_NONE (several, none, or another range) */
} rd_hazards;

bool rd_hazards_find(const rd_raw *raw, rd_hazards *out); /* false: no memory; free in any case */
void rd_hazards_free(rd_hazards *h);

#endif
