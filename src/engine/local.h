/* local.h: steps of a rank alone: a function for each local verb. */
#ifndef RD_ENGINE_LOCAL_H
#define RD_ENGINE_LOCAL_H

#include "engine/operation.h"

/* Runs one step of this verb.  buffer: [RD_BUFFERS] */
typedef void rd_local_fn(const rd_job *job, const rd_step *s, char *const buffer[]);

/* By verb; NULL: messages. */
extern rd_local_fn *const rd_locals[];

#define X(verb, name, ...) rd_local_fn rd_run_##name;
RD_LOCAL_VERBS(X)
#undef X

/* Where access number i of a step that is RD_LISTED is. */
static inline char *rd_local_at(const rd_job *job, const rd_step *s, char *const buffer[],
                                uint32_t i)
{
    const rd_range range = job->plan->accesses[s->first_access + i].range;
    return buffer[range.buffer] + range.at * job->plan->shape.width;
}

#endif
