/* touches.c: the ranges that a step touches, by the row of its verb. */
#include "plan/raw.h"

static const rd_access *listed(const rd_access *list, uint32_t *count)
{
    for (*count = 1; !list[*count - 1].last;)
        ++*count;
    return list;
}

/* here: it has a local operand */
static const rd_access *both(const rd_verb *v, rd_range from, rd_range to, bool here,
                             rd_access pair[2], uint32_t *count)
{
    *count = 0;
    if (v->from && here)
        pair[(*count)++] = (rd_access){from, v->from, false};
    if (v->to)
        pair[(*count)++] = (rd_access){to, v->to, true};
    return pair;
}

static bool has_local_operand(const uint32_t members[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (members[i] == RD_NONE)
            return true;
    return false;
}

const rd_access *rd_raw_touches(const rd_raw *raw, uint32_t step, rd_access pair[2],
                                uint32_t *count)
{
    const rd_raw_step *s = &raw->steps[step];
    bool here = true;
    if (s->first_access != RD_NONE)
        return listed(raw->accesses + s->first_access, count);
    if (s->group != RD_NONE) {
        const rd_raw_group *g = &raw->groups[s->group];
        *count = 0;
        if (g->leader != step)
            return pair;
        here = has_local_operand(raw->members + g->first, g->count);
    }
    return both(&rd_verbs[s->verb], s->from, s->to, here, pair, count);
}

bool rd_leads(const rd_plan *p, uint32_t step)
{
    return p->steps[step].group == RD_NONE || p->groups[p->steps[step].group].leader == step;
}

const rd_access *rd_step_touches(const rd_plan *p, uint32_t step, rd_access pair[2],
                                 uint32_t *count)
{
    const rd_step *s = &p->steps[step];
    bool here = true;
    if (s->first_access != RD_NONE)
        return listed(p->accesses + s->first_access, count);
    if (s->group != RD_NONE) {
        const rd_group *g = &p->groups[s->group];
        *count = 0;
        if (g->leader != step)
            return pair;
        here = g->count > g->arriving;
    }
    return both(&rd_verbs[s->verb], (rd_range){s->from_buffer, s->from_at, s->count},
                (rd_range){s->to_buffer, s->to_at, s->count}, here, pair, count);
}
