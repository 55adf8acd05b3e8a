/* raw.h: a plan while it is being written.  Only plan.c, seal.c, choose.c and tests that spoil plans look here. */
#ifndef RD_RAW_H
#define RD_RAW_H

#include "plan/plan.h"

typedef struct {
    uint8_t verb, side;
    bool scale;
    uint32_t peer;  /* RD_NONE: local */
    uint32_t group; /* fold_many: groups[group]; else RD_NONE */
    uint32_t chunk, round;
    uint32_t first_access; /* as in rd_step */
    rd_range from, to;     /* send: from; recv: to; the steps of a fold_many all have both */
} rd_raw_step;

typedef struct {
    uint32_t leader; /* raw step */
    /* Members[]: raw steps in the order of the fold; RD_NONE: the local range */
    uint32_t first, count;
} rd_raw_group;

typedef struct rd_raw {
    rd_raw_step *steps; /* as the generator said them */
    rd_raw_group *groups;
    uint32_t *members;
    rd_access *accesses;
    uint32_t count, capacity, group_count, group_capacity, member_count, member_capacity,
        access_count, access_capacity;
    uint32_t chunk, round;
    uint64_t scratch_base; /* of this chunk */
    uint64_t scratch_end, state_end;
    uint32_t *peers; /* what rd_peers() gave last */
    uint32_t peer_capacity;
    bool failed; /* no memory */
} rd_raw;

/* The three parts of rd_plan_build(). */
rd_plan *rd_plan_begin(const rd_algorithm *algorithm, const rd_shape *shape);
void rd_plan_generate(rd_plan *p, uint64_t segment_bytes);
bool rd_plan_seal(rd_plan *p); /* false: no memory; the plan is then still to be freed */
/* Begins again, with another algorithm or shape, in the memory that it has: for plans that are read as they
 * were generated, and never sealed.  It has no copy of the shape's starts. */
void rd_plan_restart(rd_plan *p, const rd_algorithm *algorithm, const rd_shape *shape);

/* What this thread has planned so far; tests bound it. */
typedef struct {
    uint64_t generated, steps; /* plans, for a price or to be run, and the steps in them */
    uint64_t built;            /* plans to be run */
} rd_plan_work;
extern _Thread_local rd_plan_work rd_planned;

void rd_raw_free(rd_raw *raw);

/* As rd_step_touches(). */
const rd_access *rd_raw_touches(const rd_raw *raw, uint32_t step, rd_access pair[2],
                                uint32_t *count);

#endif
