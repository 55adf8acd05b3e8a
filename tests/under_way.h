/* under_way.h: a collective of model.h that was started and is to be waited for. */
#ifndef RD_UNDER_WAY_H
#define RD_UNDER_WAY_H

#include "calls.h"

typedef struct {
    call_buffers buffers;
    ronda_request *request;
    ronda_plan *plan;  /* NULL, or still to be freed */
    const void *whole; /* the model's result; the caller's */
    ronda_comm *comm;
} under_way;

/* By its i-form, by ronda_post, or by a plan object, which may be freed while it runs; rank: in comm. */
bool under_way_start(rng *r, ronda_comm *comm, const planned_call *c, uint32_t rank, under_way *u);
/* Tests it a while or not, waits, and compares the result. */
bool under_way_finish(rng *r, under_way *u);
/* A call that blocks. */
bool under_way_run(rng *r, ronda_comm *comm, const planned_call *c, uint32_t rank);

#endif
