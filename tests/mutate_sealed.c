/* mutate_sealed.c: spoils sealed plans, so that what sealing derived no longer fits. */
#include <string.h>

#include "base/mem.h"
#include "mutate.h"

typedef bool step_test(const rd_plan *p, uint32_t step);

static bool leads(const rd_plan *p, uint32_t step)
{
    return p->steps[step].verb != RD_FOLD_MANY || p->groups[p->steps[step].group].leader == step;
}

static bool leads_elements(const rd_plan *p, uint32_t step)
{
    return leads(p, step) && p->steps[step].count > 0;
}

static bool no_group(const rd_plan *p, uint32_t step)
{
    return p->steps[step].verb != RD_FOLD_MANY;
}

static bool receives_one(const rd_plan *p, uint32_t step)
{
    return p->steps[step].verb == RD_RECV || p->steps[step].verb == RD_FOLD;
}

static bool waits(const rd_plan *p, uint32_t step)
{
    return p->steps[step].deps > 0;
}

static bool sends(const rd_plan *p, uint32_t step)
{
    return p->steps[step].verb == RD_SEND;
}

static bool receives(const rd_plan *p, uint32_t step)
{
    return p->steps[step].peer != RD_NONE && !sends(p, step) && leads(p, step);
}

static bool pick(const subject *s, rng *random, step_test *fits, uint32_t *rank, uint32_t *step)
{
    uint64_t found = 0;
    *rank = *step = 0;
    for (uint32_t r = 0; r < s->n; r++)
        for (uint32_t i = 0; i < s->plans[r]->step_count; i++)
            if (fits(s->plans[r], i) && rng_below(random, ++found) == 0) {
                *rank = r;
                *step = i;
            }
    return found > 0;
}

/* Marks and the straight order would give many a mutant away: half of the time they go first. */
static void strip(subject *s, rng *random)
{
    const bool marks = rng_below(random, 2), straight = rng_below(random, 2);
    for (uint32_t r = 0; r < s->n; r++) {
        rd_plan *p = s->plans[r];
        for (uint32_t i = 0; i < p->step_count && marks; i++) {
            p->steps[i].forward_count = 0;
            p->steps[i].back = RD_NONE;
        }
        if (straight) {
            rd_free(p->straight);
            p->straight = NULL;
            p->straight_count = 0;
        }
    }
    if (marks || straight)
        note(s, " (no%s%s)", marks ? " marks" : "", straight ? " straight" : "");
}

/* --- ranges --- */

bool sealed_shift(subject *s, rng *random)
{
    uint32_t rank, step;
    strip(s, random);
    if (!pick(s, random, leads_elements, &rank, &step))
        return false;
    rd_step *t = &s->plans[rank]->steps[step];
    const uint64_t by = rng_below(random, 2)   ? 1
                        : rng_below(random, 2) ? t->count
                                               : 1 + rng_below(random, 4);
    const bool up = rng_below(random, 2);
    const uint64_t which = t->verb == RD_SEND    ? 1
                           : t->verb == RD_RECV  ? 2
                           : t->verb == RD_SCALE ? 3
                                                 : 1 + rng_below(random, 3);
    if (which & 1)
        t->from_at = up || t->from_at < by ? t->from_at + by : t->from_at - by;
    if (which & 2)
        t->to_at = up || t->to_at < by ? t->to_at + by : t->to_at - by;
    note(s, " rank %u: step %u now from [%u] to [%u]", rank, step, (unsigned)t->from_at,
         (unsigned)t->to_at);
    return true;
}

static rd_step *partner(const subject *s, uint32_t rank, const rd_step *t)
{
    const rd_plan *there = s->plans[t->peer];
    for (uint32_t l = 0; l < there->lane_count; l++)
        if (there->lanes[l].peer == rank && there->lanes[l].sends == (t->verb != RD_SEND))
            return &there->steps[there->lanes[l].first + t->ordinal];
    return NULL;
}

bool sealed_shrink(subject *s, rng *random)
{
    uint32_t rank, step;
    strip(s, random);
    if (!pick(s, random, leads_elements, &rank, &step))
        return false;
    rd_plan *p = s->plans[rank];
    const uint64_t by = 1 + rng_below(random, rng_below(random, 2) ? 1 : p->steps[step].count);
    const bool front = rng_below(random, 2), both = rng_below(random, 4) > 0;
    const uint32_t g = p->steps[step].group;
    for (uint32_t i = 0; i < (g == RD_NONE ? 1 : p->groups[g].count); i++) {
        const uint32_t m = g == RD_NONE ? step : p->members[p->groups[g].first + i];
        if (m == RD_NONE)
            continue;
        rd_step *const ends[] = {&p->steps[m], both && p->steps[m].peer != RD_NONE
                                                   ? partner(s, rank, &p->steps[m])
                                                   : NULL};
        for (int k = 0; k < 2 && ends[k]; k++) {
            ends[k]->count -= by;
            ends[k]->from_at += front ? by : 0;
            ends[k]->to_at += front ? by : 0;
        }
    }
    note(s, " rank %u: step %u is %u shorter%s%s", rank, step, (unsigned)by,
         front ? " in front" : "", both ? ", at both ends" : "");
    return true;
}

static bool uses_scratch(const rd_plan *p, uint32_t step)
{
    const rd_step *t = &p->steps[step];
    return (t->from_buffer == RD_SCRATCH || t->to_buffer == RD_SCRATCH) && t->count > 0;
}

bool sealed_scratch(subject *s, rng *random)
{
    uint32_t rank, step;
    strip(s, random);
    if (!pick(s, random, uses_scratch, &rank, &step))
        return false;
    rd_plan *p = s->plans[rank];
    const rd_step *t = &p->steps[step];
    const uint64_t old = t->to_buffer == RD_SCRATCH ? t->to_at : t->from_at,
                   at = rng_below(random, p->scratch);
    if (at == old)
        return false;
    for (uint32_t i = 0; i < p->step_count; i++) {
        rd_step *u = &p->steps[i];
        if (u->from_buffer == RD_SCRATCH && u->from_at == old)
            u->from_at = at;
        if (u->to_buffer == RD_SCRATCH && u->to_at == old)
            u->to_at = at;
    }
    note(s, " rank %u: scratch[%u] is now scratch[%u]", rank, (unsigned)old, (unsigned)at);
    return true;
}

/* --- peers, verbs, order --- */

/* Two lanes of one direction exchange their peers. */
bool sealed_peer(subject *s, rng *random)
{
    rd_plan *p = s->plans[rng_below(random, s->n)];
    strip(s, random);
    if (p->lane_count < 2)
        return false;
    const uint32_t a = (uint32_t)rng_below(random, p->lane_count),
                   b = (uint32_t)rng_below(random, p->lane_count);
    const uint32_t one = p->lanes[a].peer, two = p->lanes[b].peer;
    if (one == two || one == RD_NONE || two == RD_NONE || p->lanes[a].sends != p->lanes[b].sends)
        return false;
    note(s, " rank %u: lanes %u and %u exchange peers %u and %u", p->shape.rank, a, b, one, two);
    p->lanes[a].peer = two;
    p->lanes[b].peer = one;
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].lane == a || p->steps[i].lane == b)
            p->steps[i].peer = p->steps[i].lane == a ? two : one;
    return true;
}

bool sealed_verb(subject *s, rng *random)
{
    uint32_t rank, step;
    strip(s, random);
    if (!pick(s, random, receives_one, &rank, &step))
        return false;
    rd_step *t = &s->plans[rank]->steps[step];
    t->verb = t->verb == RD_RECV ? RD_FOLD : RD_RECV;
    t->scale = false;
    note(s, " rank %u: step %u has verb %u", rank, step, t->verb);
    return true;
}

bool sealed_side(subject *s, rng *random)
{
    uint32_t rank, step;
    strip(s, random);
    if (!pick(s, random, leads_elements, &rank, &step))
        return false;
    rd_step *t = &s->plans[rank]->steps[step];
    const bool folds = t->verb == RD_FOLD || t->verb == RD_MERGE;
    if (!folds && t->verb != RD_FOLD_MANY)
        return false;
    if (folds && rng_below(random, 2))
        t->side = !t->side;
    else
        t->scale = !t->scale;
    note(s, " rank %u: step %u has side %u, scale %d", rank, step, t->side, t->scale);
    return true;
}

static void swap_members(subject *s, rng *random, rd_plan *p, uint32_t g)
{
    uint32_t *members = &p->members[p->groups[g].first];
    const uint64_t a = rng_below(random, p->groups[g].count),
                   b = rng_below(random, p->groups[g].count);
    const uint32_t m = members[a];
    members[a] = members[b];
    members[b] = m;
    note(s, " rank %u: operands %u and %u of group %u are exchanged", p->shape.rank, (unsigned)a,
         (unsigned)b, g);
}

/* What two steps of a lane do is exchanged; what they wait for goes along or stays. */
bool sealed_order(subject *s, rng *random)
{
    uint32_t rank, step;
    strip(s, random);
    if (!pick(s, random, leads, &rank, &step))
        return false;
    rd_plan *p = s->plans[rank];
    if (p->steps[step].group != RD_NONE) {
        swap_members(s, random, p, p->steps[step].group);
        return true;
    }
    const rd_plan_lane *lane = &p->lanes[p->steps[step].lane];
    const uint32_t other = rng_below(random, 2)
                               ? step + 1
                               : lane->first + (uint32_t)rng_below(random, lane->end - lane->first);
    if (other == step || other >= lane->end || !no_group(p, other))
        return false;
    const bool deps = rng_below(random, 2);
    rd_step a = p->steps[step], b = p->steps[other];
    p->steps[step] = b;
    p->steps[other] = a;
    p->steps[step].ordinal = a.ordinal;
    p->steps[other].ordinal = b.ordinal;
    if (!deps) {
        p->steps[step].first_dep = a.first_dep;
        p->steps[step].deps = a.deps;
        p->steps[other].first_dep = b.first_dep;
        p->steps[other].deps = b.deps;
    }
    note(s, " rank %u: steps %u and %u are exchanged%s", rank, step, other,
         deps ? " with what they wait for" : "");
    return true;
}

/* --- dependencies --- */

bool sealed_dep_less(subject *s, rng *random)
{
    uint32_t rank, step;
    strip(s, random);
    if (!pick(s, random, waits, &rank, &step))
        return false;
    rd_plan *p = s->plans[rank];
    rd_step *t = &p->steps[step];
    rd_dep *deps = &p->deps[t->first_dep], *dep = &deps[rng_below(random, t->deps)];
    const uint32_t first = p->lanes[dep->lane].first;
    note(s, " rank %u: step %u does not wait for step %u", rank, step, dep->step);
    if (dep->step > first && rng_below(random, 2)) {
        dep->step = first + (uint32_t)rng_below(random, dep->step - first);
        note(s, " but for %u", dep->step);
        return true;
    }
    *dep = deps[--t->deps];
    return true;
}

bool sealed_dep_more(subject *s, rng *random)
{
    uint32_t rank, step;
    strip(s, random);
    if (!pick(s, random, leads, &rank, &step))
        return false;
    rd_plan *p = s->plans[rank];
    rd_step *t = &p->steps[step];
    const uint32_t on = (uint32_t)rng_below(random, p->step_count);
    rd_dep *deps = rd_alloc((p->dep_count + t->deps + (size_t)1) * sizeof *deps);
    memcpy(deps, p->deps, p->dep_count * sizeof *deps);
    memcpy(deps + p->dep_count, p->deps + t->first_dep, t->deps * sizeof *deps);
    deps[p->dep_count + t->deps] = (rd_dep){p->steps[on].lane, on};
    rd_free(p->deps);
    p->deps = deps;
    t->first_dep = p->dep_count;
    p->dep_count += t->deps++ + 1u;
    note(s, " rank %u: step %u waits for step %u, too", rank, step, on);
    return true;
}

/* --- marks --- */

/* The receive by which a send would come back if it were marked: the peer forwards to us what it makes
 * of it.  RD_NONE: it does not. */
static uint32_t would_return(const subject *s, uint32_t rank, const rd_step *send)
{
    const rd_plan *p = s->plans[rank], *q = s->plans[send->peer];
    const rd_step *taker = partner(s, rank, send);
    if (taker->group != RD_NONE)
        taker = &q->steps[q->groups[taker->group].leader];
    for (uint32_t i = 0; i < taker->forward_count; i++) {
        const rd_step *f = &q->steps[q->forwards[taker->first_forward + i]];
        if (f->peer == rank)
            return (uint32_t)(partner(s, send->peer, f) - p->steps);
    }
    return RD_NONE;
}

/* A mark that would be used and that sealing did not dare to set, or any receive that looks like it. */
bool sealed_back(subject *s, rng *random)
{
    const bool used = rng_below(random, 4) > 0, like = rng_below(random, 8) > 0;
    uint32_t rank = 0, step = 0, back = 0, seen = 0;
    for (uint32_t r = 0; r < s->n; r++)
        for (uint32_t i = 0; i < s->plans[r]->step_count; i++) {
            const rd_step *t = &s->plans[r]->steps[i];
            for (uint32_t k = 0; t->verb == RD_SEND && k < s->plans[r]->step_count; k++) {
                const rd_step *u = &s->plans[r]->steps[k];
                const bool fits = used ? k == would_return(s, r, t)
                                       : !like || (u->verb == RD_RECV && u->peer == t->peer &&
                                                   u->count == t->count);
                if (!fits || k == t->back || rng_below(random, ++seen) != 0)
                    continue;
                rank = r;
                step = i;
                back = k;
            }
        }
    if (seen == 0)
        return false;
    s->plans[rank]->steps[step].back = back;
    note(s, " rank %u: step %u is to come back by step %u", rank, step, back);
    return true;
}

static bool forwards(const rd_plan *p, const rd_step *t, uint32_t send)
{
    for (uint32_t f = 0; f < t->forward_count; f++)
        if (p->forwards[t->first_forward + f] == send)
            return true;
    return false;
}

/* Whoever forwards this send does so no longer. */
static void unforward(rd_plan *p, uint32_t send)
{
    for (uint32_t i = 0; i < p->step_count; i++) {
        rd_step *t = &p->steps[i];
        uint32_t *list = &p->forwards[t->first_forward], kept = 0;
        for (uint32_t f = 0; f < t->forward_count; f++)
            if (list[f] != send)
                list[kept++] = list[f];
        t->forward_count = (uint16_t)kept;
    }
}

static void add_forward(rd_plan *p, rd_step *t, uint32_t send)
{
    uint32_t *list = rd_alloc((p->forward_count + t->forward_count + (size_t)1) * sizeof *list);
    memcpy(list, p->forwards, p->forward_count * sizeof *list);
    memcpy(list + p->forward_count, p->forwards + t->first_forward,
           t->forward_count * sizeof *list);
    list[p->forward_count + t->forward_count] = send;
    rd_free(p->forwards);
    p->forwards = list;
    t->first_forward = p->forward_count;
    p->forward_count += ++t->forward_count;
}

/* Mostly a send of the range that the step writes, though it waits for another. */
bool sealed_forward(subject *s, rng *random)
{
    const bool like = rng_below(random, 8) > 0;
    uint32_t rank = 0, step = 0, send = 0, seen = 0;
    for (uint32_t r = 0; r < s->n; r++)
        for (uint32_t i = 0; i < s->plans[r]->step_count; i++) {
            const rd_step *t = &s->plans[r]->steps[i];
            for (uint32_t k = 0; receives(s->plans[r], i) && k < s->plans[r]->step_count; k++) {
                const rd_step *u = &s->plans[r]->steps[k];
                const bool fits = u->from_buffer == t->to_buffer && u->from_at == t->to_at &&
                                  u->count == t->count && u->count;
                if (u->verb != RD_SEND || (like && !fits) || forwards(s->plans[r], t, k) ||
                    rng_below(random, ++seen) != 0)
                    continue;
                rank = r;
                step = i;
                send = k;
            }
        }
    if (seen == 0)
        return false;
    rd_plan *p = s->plans[rank];
    unforward(p, send);
    add_forward(p, &p->steps[step], send);
    note(s, " rank %u: step %u forwards step %u", rank, step, send);
    return true;
}

/* --- the straight order --- */

bool sealed_straight(subject *s, rng *random)
{
    rd_plan *p = s->plans[rng_below(random, s->n)];
    if (!p->straight || p->straight_count < 2)
        return false;
    const uint32_t a = (uint32_t)rng_below(random, p->straight_count),
                   b = (uint32_t)rng_below(random, p->straight_count);
    const uint32_t step = p->straight[a];
    if (a == b)
        return false;
    if (rng_below(random, 8) == 0) {
        p->straight[a] = p->straight[b];
        note(s, " rank %u walks step %u twice", p->shape.rank, p->straight[b]);
    } else if (rng_below(random, 2)) {
        p->straight[a] = p->straight[b];
        p->straight[b] = step;
        note(s, " rank %u walks steps %u and %u in each other's place", p->shape.rank,
             p->straight[a], step);
    } else {
        memmove(&p->straight[a < b ? a : b + 1], &p->straight[a < b ? a + 1 : b],
                (a < b ? b - a : a - b) * sizeof step);
        p->straight[b] = step;
        note(s, " rank %u walks step %u as number %u", p->shape.rank, step, b);
    }
    return true;
}

/* --- any number of the plan --- */

static void spoil_8(uint8_t *number, rng *random)
{
    *number = (uint8_t)(rng_below(random, 4) ? rng_below(random, 8) : rng_next(random));
}

static void spoil_16(uint16_t *number, rng *random)
{
    *number = (uint16_t)(rng_below(random, 4) ? rng_below(random, 4) : rng_next(random));
}

static void spoil_32(uint32_t *number, rng *random)
{
    const uint32_t others[] = {*number + 1, *number - 1, (uint32_t)rng_below(random, 16),
                               (uint32_t)rng_next(random), RD_NONE};
    *number = others[rng_below(random, 5)];
}

static void spoil_64(uint64_t *number, rng *random)
{
    const uint64_t others[] = {*number + 1, *number - 1, rng_below(random, 64), rng_next(random),
                               0 - rng_below(random, 4)};
    *number = others[rng_below(random, 5)];
}

static void spoil_step(rd_step *t, rng *random)
{
    uint8_t *const small[] = {&t->verb, &t->side, &t->to_buffer, &t->from_buffer};
    uint32_t *const middle[] = {&t->peer,           &t->lane,          &t->first_dep, &t->group,
                                &t->first_forward,  &t->first_access,  &t->back,      &t->ordinal,
                                &t->multicast_next, &t->multicast_prev};
    uint64_t *const large[] = {&t->to_at, &t->from_at, &t->count};
    const uint64_t which = rng_below(random, 19);
    if (which < 4)
        spoil_8(small[which], random);
    else if (which < 14)
        spoil_32(middle[which - 4], random);
    else if (which < 17)
        spoil_64(large[which - 14], random);
    else
        spoil_16(which == 17 ? &t->deps : &t->forward_count, random);
}

static void spoil_plan(rd_plan *p, rng *random)
{
    uint32_t *const counts[] = {&p->step_count,    &p->dep_count,    &p->forward_count,
                                &p->group_count,   &p->member_count, &p->lane_count,
                                &p->straight_count};
    uint32_t *const shape[] = {&p->shape.rank, &p->shape.size, &p->shape.root, &p->shape.width,
                               (uint32_t *)&p->shape.kind};
    const uint64_t which = rng_below(random, 14);
    if (which < 7) /* a list may only be said to be shorter */
        *counts[which] = (uint32_t)rng_below(random, *counts[which] + 1ull);
    else if (which < 12)
        spoil_32(shape[which - 7], random);
    else
        spoil_64(which == 12 ? &p->shape.count : &p->scratch, random);
}

/* Numbers in the lists of a plan; false: this list is empty. */
static bool spoil_list(rd_plan *p, uint64_t list, rng *random)
{
    const uint32_t lengths[] = {p->dep_count,  p->group_count,   p->member_count,
                                p->lane_count, p->forward_count, p->straight_count};
    if (lengths[list] == 0)
        return false;
    const uint64_t i = rng_below(random, lengths[list]), field = rng_below(random, 4);
    if (list == 0)
        spoil_32(field & 1 ? &p->deps[i].lane : &p->deps[i].step, random);
    else if (list == 1)
        spoil_32((uint32_t *const[]){&p->groups[i].leader, &p->groups[i].first, &p->groups[i].count,
                                     &p->groups[i].arriving}[field],
                 random);
    else if (list == 3)
        spoil_32((uint32_t *const[]){&p->lanes[i].peer, &p->lanes[i].first, &p->lanes[i].end,
                                     &p->lanes[i].peer}[field],
                 random);
    else
        spoil_32(list == 2   ? &p->members[i]
                 : list == 4 ? &p->forwards[i]
                             : &p->straight[i],
                 random);
    return true;
}

bool sealed_anything(subject *s, rng *random)
{
    rd_plan *p = s->plans[rng_below(random, s->n)];
    const uint64_t which = rng_below(random, 16);
    strip(s, random);
    note(s, " rank %u: some number (%u)", p->shape.rank, (unsigned)which);
    if (which < 6)
        return spoil_list(p, which, random);
    if (which == 6)
        spoil_plan(p, random);
    else if (p->step_count)
        spoil_step(&p->steps[rng_below(random, p->step_count)], random);
    else
        return false;
    return true;
}
