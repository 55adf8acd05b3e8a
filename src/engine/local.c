/* local.c: how each local verb runs: copy, merge, scale. */
#include "engine/local.h"

static void *to(const rd_job *job, const rd_step *s, char *const buffer[])
{
    return buffer[s->to_buffer] + s->to_at * job->plan->shape.width;
}

static void *from(const rd_job *job, const rd_step *s, char *const buffer[])
{
    return buffer[s->from_buffer] + s->from_at * job->plan->shape.width;
}

void rd_run_copy(const rd_job *job, const rd_step *s, char *const buffer[])
{
    const size_t bytes = s->count * job->plan->shape.width;
    if (s->to_buffer == RD_SCRATCH && bytes > RD_INLINE) /* peers have read there */
        rd_stage_plain(to(job, s, buffer), from(job, s, buffer), bytes);
    else
        rd_land(job->plan, s, to(job, s, buffer), from(job, s, buffer), bytes);
}

void rd_run_merge(const rd_job *job, const rd_step *s, char *const buffer[])
{
    void *here = to(job, s, buffer), *there = from(job, s, buffer);
    const bool left = s->side == RD_HERE_LEFT;
    const void *in[2] = {left ? here : there, left ? there : here};
    rd_job_fold(job, &here, 1, in, 2, s->count, s->scale ? job->plan->shape.size : 0);
}

void rd_run_scale(const rd_job *job, const rd_step *s, char *const buffer[])
{
    void *here = to(job, s, buffer);
    const void *in = here;
    rd_job_fold(job, &here, 1, &in, 1, s->count, job->plan->shape.size);
}
