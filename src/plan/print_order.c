/* print_order.c: the order in which a plan's steps are shown.
 *
 * A plan is stored lane after lane, the way it runs.  People follow it round by round, so steps are
 * shown by (round, chunk), and within these as the generator said them.  That order is kept in small
 * plans alone (straight).  Else it is recovered: lanes are numbered as the generator first spoke of
 * them, and nothing is shown before what it waits for. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plan/print.h"

static uint32_t leader_of(const rd_plan *p, uint32_t step)
{
    return p->steps[step].group == RD_NONE ? step : p->groups[p->steps[step].group].leader;
}

typedef struct {
    uint32_t round, chunk, step;
} place;

static int by_round(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    if (x->chunk != y->chunk)
        return x->chunk < y->chunk ? -1 : 1;
    return x->step < y->step ? -1 : 1;
}

static bool same_place(const rd_step *a, const rd_step *b)
{
    return a->round == b->round && a->chunk == b->chunk;
}

/* Everything that the step waits for within its round and chunk has been shown. */
static bool may_follow(const rd_plan *p, uint32_t step, const bool shown[])
{
    const rd_step *s = &p->steps[step];
    for (uint32_t d = 0; d < s->deps; d++) {
        const uint32_t before = leader_of(p, p->deps[s->first_dep + d].step);
        if (same_place(&p->steps[before], s) && !shown[before])
            return false;
    }
    return true;
}

typedef struct {
    const rd_plan *plan;
    bool *shown; /* per step */
    uint32_t *order, count;
} ordering;

static void show(ordering *o, uint32_t step)
{
    o->shown[step] = true;
    o->order[o->count++] = step;
}

/* From the first lane to the last, takes what may follow; of a lane nothing that stands behind a step
 * which must wait.  Returns how many it took. */
static uint32_t sweep(ordering *o, const place places[], uint32_t count)
{
    const uint32_t before = o->count;
    uint32_t held_lane = RD_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t step = places[i].step, lane = o->plan->steps[step].lane;
        if (o->shown[step] || lane == held_lane)
            continue;
        if (may_follow(o->plan, step, o->shown))
            show(o, step);
        else
            held_lane = lane;
    }
    return o->count - before;
}

/* One round of one chunk.  If nothing may follow the plan is wrong, and shown all the same. */
static void order_place(ordering *o, const place places[], uint32_t count)
{
    for (uint32_t left = count; left;) {
        const uint32_t taken = sweep(o, places, count);
        left -= taken;
        if (taken)
            continue;
        for (uint32_t i = 0; i < count; i++)
            if (!o->shown[places[i].step])
                show(o, places[i].step);
        left = 0;
    }
}

static void order_all(ordering *o, place places[])
{
    const rd_plan *p = o->plan;
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->step_count; i++)
        if (leader_of(p, i) == i)
            places[count++] = (place){p->steps[i].round, p->steps[i].chunk, i};
    qsort(places, count, sizeof *places, by_round);
    for (uint32_t i = 0, end; i < count; i = end) {
        const rd_step *first = &p->steps[places[i].step];
        for (end = i + 1; end < count && same_place(&p->steps[places[end].step], first);)
            end++;
        order_place(o, &places[i], end - i);
    }
}

bool rd_print_order(const rd_plan *p, uint32_t order[], uint32_t *count)
{
    if (p->straight) {
        memcpy(order, p->straight, p->straight_count * sizeof *order);
        *count = p->straight_count;
        return true;
    }
    ordering o = {.plan = p, .order = order};
    place *places = rd_alloc((p->step_count + (size_t)1) * sizeof *places);
    o.shown = rd_alloc((p->step_count + (size_t)1) * sizeof *o.shown);
    const bool ok = places && o.shown;
    if (ok)
        order_all(&o, places);
    *count = o.count;
    rd_free(places);
    rd_free(o.shown);
    return ok;
}
