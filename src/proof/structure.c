/* structure.c: is this a plan at all?  Whatever the arrays hold, nothing here reads outside
 * them, and the later parts of the proof rely on what is established here:
 *
 *   - all ranks mean the same call;
 *   - lanes cover the steps one after another, each lane has another peer or direction, and each
 *     step is in the lane of its peer and direction;
 *   - groups hold messages of different peers, and each such message is in one group;
 *   - ranges lie inside buffers, and nobody writes what the caller only lends to be read;
 *   - dependencies, marks and the straight order name steps that exist and are of the right kind. */
#include "proof/checking.h"

#include "base/mem.h"
#include "plan/hosts.h"

enum {
    MOST_CELLS = 1 << 28
}; /* elements of all buffers of all ranks: a proof has some words for each */

const char *rd_buffer_text(uint8_t buffer)
{
    static const char *const names[] = {"in", "out", "scratch", "state"};
    _Static_assert(sizeof names / sizeof *names == RD_BUFFERS, "each buffer has a name");
    return names[buffer];
}

/* --- the call --- */

static bool refuse_size(rd_checking *c, uint32_t rank)
{
    c->proof->too_large = true;
    return rd_refuse(c, "rank %u: too many steps or elements for a proof", rank);
}

/* Kinds that are counted know where blocks begin, in rank order; and all ranks know the same, except
 * that of an alltoallv each has its own counts, and what one sends is what the other expects. */
static bool check_starts(rd_checking *c, uint32_t rank)
{
    const rd_shape *s = &c->plans[rank]->shape, *first = &c->plans[0]->shape;
    const rd_kind_facts *k = rd_kind(s->kind);
    for (int b = RD_IN; b <= RD_OUT; b++) {
        const uint64_t *starts = s->starts[b];
        const bool needed = k->counted && (b == RD_IN ? k->gives : k->gets) == RD_BLOCKS;
        if (needed != (starts != NULL) || (starts && starts[0]))
            return rd_refuse(c, "rank %u: it does not say where blocks begin, or need not", rank);
        for (uint32_t i = 0; starts && i < s->size; i++) {
            if (starts[i + 1] < starts[i] || starts[i + 1] > MOST_CELLS)
                return refuse_size(c, rank);
            if (s->kind != RONDA_ALLTOALLV && starts[i + 1] != first->starts[b][i + 1])
                return rd_refuse(c, "rank %u has other counts than rank 0", rank);
        }
    }
    for (uint32_t i = 0; s->kind == RONDA_ALLTOALLV && i < rank; i++) {
        const rd_shape *o = &c->plans[i]->shape;
        if (rd_slots(*s, RD_IN, i, i + 1).count != rd_slots(*o, RD_OUT, rank, rank + 1).count ||
            rd_slots(*s, RD_OUT, i, i + 1).count != rd_slots(*o, RD_IN, rank, rank + 1).count)
            return rd_refuse(c, "what rank %u sends is not what rank %u expects, or the reverse",
                             rank, i);
    }
    return true;
}

static bool check_shape(rd_checking *c, uint32_t rank)
{
    const rd_plan *p = c->plans[rank];
    if (!p || p->raw)
        return rd_refuse(c, "rank %u has no sealed plan", rank);
    const rd_shape *s = &p->shape, *first = &c->plans[0]->shape;
    if (s->rank != rank || s->size != c->n)
        return rd_refuse(c, "the plan of rank %u of %u says that it is for rank %u of %u", rank,
                         c->n, s->rank, s->size);
    if (!rd_kind(s->kind)->name)
        return rd_refuse(c, "rank %u: there is no collective of kind %d", rank, s->kind);
    if (s->kind != first->kind || s->root != first->root || s->width != first->width ||
        s->mean != first->mean || s->ordered != first->ordered || s->count != first->count ||
        p->algorithm != c->plans[0]->algorithm)
        return rd_refuse(c, "rank %u's plan is for another call than rank 0's", rank);
    if (!rd_hosts_equal(s->hosts, first->hosts) || (s->hosts && s->hosts->size != c->n))
        return rd_refuse(c, "rank %u has another map of the hosts than rank 0", rank);
    if (s->root >= s->size || s->width == 0)
        return rd_refuse(c, "rank %u: root %u of %u, elements of %u bytes", rank, s->root, s->size,
                         s->width);
    if (s->in_place && !rd_can_be_in_place(s))
        return rd_refuse(c, "rank %u works in place, which this collective knows nothing of", rank);
    if (s->kind == RONDA_BARRIER && s->count != 1)
        return rd_refuse(c, "rank %u: a barrier has one token, not %llu", rank,
                         (unsigned long long)s->count);
    if (s->count > MOST_CELLS || p->scratch > MOST_CELLS || p->state > MOST_CELLS)
        return refuse_size(c, rank);
    return check_starts(c, rank);
}

/* Numbers lanes, steps, groups and memory of all ranks through. */
static bool number_all(rd_checking *c)
{
    uint64_t lanes = 0, steps = 0, groups = 0;
    for (uint32_t r = 0; r < c->n; r++) {
        const rd_plan *p = c->plans[r];
        const uint64_t length[RD_BUFFERS] = {rd_in_count(&p->shape), rd_out_count(&p->shape),
                                             p->scratch, p->state};
        for (int b = 0; b < RD_BUFFERS; b++) {
            c->memory[r].at[b] = c->cells;
            c->memory[r].length[b] = length[b];
            c->cells += length[b];
        }
        c->lane_base[r] = (uint32_t)lanes;
        c->step_base[r] = (uint32_t)steps;
        c->group_base[r] = (uint32_t)groups;
        lanes += p->lane_count;
        steps += p->step_count;
        groups += p->group_count;
        if (lanes + c->n >= UINT32_MAX / 2 || steps >= UINT32_MAX / 2 || groups >= UINT32_MAX / 2 ||
            c->cells > MOST_CELLS)
            return refuse_size(c, r);
    }
    c->lane_base[c->n] = (uint32_t)lanes;
    c->step_base[c->n] = (uint32_t)steps;
    c->group_base[c->n] = (uint32_t)groups;
    c->proof->steps = steps;
    return true;
}

/* --- ranges --- */

static bool check_range(rd_checking *c, uint32_t rank, uint32_t step, rd_range range, bool writes)
{
    const rd_plan *p = c->plans[rank];
    const rd_shape *s = &p->shape;
    char text[RD_STEP_TEXT];
    if (range.buffer >= RD_BUFFERS)
        return rd_refuse(c, "rank %u: %s touches buffer %u, which does not exist", rank,
                         rd_step_text(p, step, text), range.buffer);
    const uint64_t length = c->memory[rank].length[range.buffer];
    const char *name = rd_buffer_text(range.buffer);
    if (range.at > length || range.count > length - range.at)
        return rd_refuse(c, "rank %u: %s %s %llu elements at %s[%llu], which has %llu", rank,
                         rd_step_text(p, step, text), writes ? "writes" : "reads",
                         (unsigned long long)range.count, name, (unsigned long long)range.at,
                         (unsigned long long)length);
    /* In place, one memory must not go by two names: overlaps could not be seen. */
    if (s->in_place && range.buffer <= RD_OUT && range.buffer != rd_place_name(s))
        return rd_refuse(c, "rank %u: %s names %s, which has another name in place", rank,
                         rd_step_text(p, step, text), name);
    if (!writes || range.buffer != RD_IN || range.count == 0)
        return true;
    const uint64_t own = rd_place_at(s);
    if (s->in_place && range.at >= own && range.at + range.count <= own + rd_own_count(s))
        return true;
    return rd_refuse(c, "rank %u: %s writes in[%llu], which is the caller's to keep", rank,
                     rd_step_text(p, step, text), (unsigned long long)range.at);
}

/* Ranges of which one is written are apart or one and the same, but nothing is written twice. */
static bool check_apart(rd_checking *c, uint32_t rank, uint32_t step, const rd_access *a,
                        const rd_access *b)
{
    const rd_plan *p = c->plans[rank];
    const bool writes = (a->how | b->how) & RD_WRITES, twice = a->how & b->how & RD_WRITES;
    char text[RD_STEP_TEXT];
    if (!writes || !rd_ranges_overlap(a->range, b->range) ||
        (!twice && rd_same_range(a->range, b->range)))
        return true;
    const rd_access *first = b->how & RD_READS ? b : a, *second = first == a ? b : a;
    return rd_refuse(c, "rank %u: %s %s %s[%llu] while it writes [%llu], and they overlap", rank,
                     rd_step_text(p, step, text), twice ? "writes" : "reads",
                     rd_buffer_text(first->range.buffer), (unsigned long long)first->range.at,
                     (unsigned long long)second->range.at);
}

static bool check_ranges(rd_checking *c, uint32_t rank, uint32_t step)
{
    const rd_plan *p = c->plans[rank];
    const rd_step *s = &p->steps[step];
    const rd_verb *v = &rd_verbs[s->verb];
    char text[RD_STEP_TEXT];
    rd_access pair[2];
    uint32_t count;
    const rd_access *touched = rd_step_touches(p, step, pair, &count);
    for (uint32_t i = 0; i < count; i++)
        if (!check_range(c, rank, step, touched[i].range, touched[i].how & RD_WRITES))
            return false;
    if (v->to == RD_UPDATES && !v->from &&
        (s->from_buffer != s->to_buffer || s->from_at != s->to_at))
        return rd_refuse(c, "rank %u: %s reads another range than it writes", rank,
                         rd_step_text(p, step, text));
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (!check_apart(c, rank, step, &touched[i], &touched[k]))
                return false;
    return true;
}

/* --- groups --- */

static bool check_group(rd_checking *c, uint32_t rank, uint32_t g)
{
    const rd_plan *p = c->plans[rank];
    const rd_group *group = &p->groups[g];
    if (group->first > p->member_count || group->count > p->member_count - group->first ||
        group->count == 0)
        return rd_refuse(c, "rank %u: the members of group %u are not in the list", rank, g);
    if (group->leader >= p->step_count)
        return rd_refuse(c, "rank %u: the leader of group %u does not exist", rank, g);
    uint32_t arriving = 0;
    bool led = false;
    for (uint32_t i = 0; i < group->count; i++) {
        const uint32_t m = p->members[group->first + i];
        if (m == RD_NONE)
            continue;
        if (m >= p->step_count || p->steps[m].group != g)
            return rd_refuse(c, "rank %u: operand %u of group %u is no message of it", rank, i, g);
        if (p->steps[m].count != p->steps[group->leader].count)
            return rd_refuse(c, "rank %u: operands of group %u differ in size", rank, g);
        led = led || m == group->leader;
        arriving++;
    }
    if (!led || arriving != group->arriving || arriving + 1 < group->count)
        return rd_refuse(c, "rank %u: group %u says %u messages and has %u of %u operands%s", rank,
                         g, group->arriving, arriving, group->count,
                         led ? "" : ", its leader not among them");
    return true;
}

/* Each message of a group is listed once, and no two come from one peer: they would have to be at
 * the head of one lane together. */
static bool check_groups(rd_checking *c, uint32_t rank)
{
    const rd_plan *p = c->plans[rank];
    uint64_t messages = 0, listed = 0;
    for (uint32_t i = 0; i < p->step_count; i++) {
        const bool grouped = rd_verbs[p->steps[i].verb].flags & RD_GROUPED;
        if (grouped != (p->steps[i].group != RD_NONE))
            return rd_refuse(
                c, "rank %u: step %u has a group without being a fold_many, or the reverse", rank,
                i);
        if (p->steps[i].group != RD_NONE && p->steps[i].group >= p->group_count)
            return rd_refuse(c, "rank %u: step %u is in group %u of %u", rank, i, p->steps[i].group,
                             p->group_count);
        messages += grouped;
    }
    if (p->group_count == 0)
        return true;
    uint32_t *seen = rd_alloc(p->lane_count * sizeof *seen);
    if (!seen)
        return rd_refuse_memory(c);
    bool ok = true;
    for (uint32_t g = 0; g < p->group_count && ok; g++) {
        ok = check_group(c, rank, g);
        for (uint32_t i = 0; i < p->groups[g].count && ok; i++) {
            const uint32_t m = p->members[p->groups[g].first + i];
            if (m == RD_NONE)
                continue;
            const uint32_t lane = p->steps[m].lane;
            listed++;
            if (seen[lane] == g + 1)
                ok = rd_refuse(c, "rank %u: group %u has two messages from rank %u", rank, g,
                               p->lanes[lane].peer);
            seen[lane] = g + 1;
        }
    }
    rd_free(seen);
    return ok && (messages == listed ||
                  rd_refuse(c, "rank %u: a message of verb fold_many is in no group", rank));
}

/* --- lanes and steps --- */

static bool check_lane(rd_checking *c, uint32_t rank, uint32_t l)
{
    const rd_plan *p = c->plans[rank];
    const rd_plan_lane *lane = &p->lanes[l];
    if (lane->first != (l ? p->lanes[l - 1].end : 0) || lane->end < lane->first ||
        lane->end > p->step_count || (l + 1 == p->lane_count && lane->end != p->step_count))
        return rd_refuse(c, "rank %u: lane %u does not begin where the one before ends", rank, l);
    if (lane->peer == RD_NONE ? lane->sends : lane->peer >= c->n || lane->peer == rank)
        return rd_refuse(c, "rank %u: lane %u goes to or from rank %u of %u", rank, l, lane->peer,
                         c->n);
    for (uint32_t i = lane->first; i < lane->end; i++) {
        const rd_step *s = &p->steps[i];
        const int kind = lane->peer == RD_NONE ? RD_LANE_HERE
                         : lane->sends         ? RD_LANE_TO
                                               : RD_LANE_FROM;
        if (s->lane != l || s->peer != lane->peer || s->verb >= rd_verb_count ||
            rd_verbs[s->verb].lane != kind)
            return rd_refuse(
                c,
                "rank %u: step %u (verb %u, peer %u) is not in the lane of its peer and direction",
                rank, i, s->verb, s->peer);
        if (s->ordinal != i - lane->first)
            return rd_refuse(c, "rank %u: step %u is number %u of its lane and says %u", rank, i,
                             i - lane->first, s->ordinal);
    }
    return true;
}

/* The list of all accesses ends with a last one (check_plan), so each list in it does. */
static bool check_accesses(rd_checking *c, uint32_t rank, uint32_t step)
{
    const rd_plan *p = c->plans[rank];
    const rd_step *s = &p->steps[step];
    const bool listed = rd_verbs[s->verb].flags & RD_LISTED;
    char text[RD_STEP_TEXT];
    bool ok = listed ? s->first_access < p->access_count : s->first_access == RD_NONE;
    for (uint32_t i = s->first_access; ok && listed; i++) {
        ok = p->accesses[i].how && p->accesses[i].how <= RD_UPDATES;
        if (p->accesses[i].last)
            break;
    }
    return ok || rd_refuse(c, "rank %u: the ranges of %s are not in the list", rank,
                           rd_step_text(p, step, text));
}

static bool check_indices(rd_checking *c, uint32_t rank, uint32_t step)
{
    const rd_plan *p = c->plans[rank];
    const rd_step *s = &p->steps[step];
    char text[RD_STEP_TEXT];
    if (s->first_dep > p->dep_count || s->deps > p->dep_count - s->first_dep)
        return rd_refuse(c, "rank %u: the dependencies of %s are not in the list", rank,
                         rd_step_text(p, step, text));
    for (uint32_t d = 0; d < s->deps; d++) {
        const rd_dep *dep = &p->deps[s->first_dep + d];
        if (dep->lane >= p->lane_count || dep->step < p->lanes[dep->lane].first ||
            dep->step >= p->lanes[dep->lane].end)
            return rd_refuse(c, "rank %u: %s waits for step %u of lane %u, which does not exist",
                             rank, rd_step_text(p, step, text), dep->step, dep->lane);
    }
    if (s->first_forward > p->forward_count ||
        s->forward_count > p->forward_count - s->first_forward)
        return rd_refuse(c, "rank %u: the forwards of %s are not in the list", rank,
                         rd_step_text(p, step, text));
    if (!rd_leads(p, step) && (s->deps || s->forward_count || s->scale))
        return rd_refuse(
            c, "rank %u: %s waits, scales or forwards, which is its group's leader's to do", rank,
            rd_step_text(p, step, text));
    if (s->side > RD_HERE_RIGHT || (s->scale && !(rd_verbs[s->verb].flags & RD_SCALES)))
        return rd_refuse(c, "rank %u: %s has a side or a scale that means nothing", rank,
                         rd_step_text(p, step, text));
    return true;
}

/* What a send sends. */
static rd_range sent(const rd_step *s)
{
    return (rd_range){s->from_buffer, s->from_at, s->count};
}

static bool writes_exactly(const rd_plan *p, uint32_t step, rd_range range)
{
    rd_access pair[2];
    uint32_t count;
    const rd_access *touched = rd_step_touches(p, step, pair, &count);
    for (uint32_t i = 0; i < count; i++)
        if (touched[i].how & RD_WRITES && rd_same_range(touched[i].range, range))
            return true;
    return false;
}

static bool check_forwards(rd_checking *c, uint32_t rank, uint32_t step)
{
    const rd_plan *p = c->plans[rank];
    const rd_step *s = &p->steps[step];
    char text[RD_STEP_TEXT], other[RD_STEP_TEXT];
    for (uint32_t i = 0; i < s->forward_count; i++) {
        const uint32_t f = p->forwards[s->first_forward + i];
        if (f >= p->step_count || p->steps[f].verb != RD_SEND)
            return rd_refuse(c, "rank %u: %s forwards step %u, which is no send", rank,
                             rd_step_text(p, step, text), f);
        if (!writes_exactly(p, step, sent(&p->steps[f])))
            return rd_refuse(c, "rank %u: %s forwards %s, which sends another range", rank,
                             rd_step_text(p, step, text), rd_step_text(p, f, other));
    }
    return true;
}

/* Forwards, multicast groups and backs: of the right kind.  What they promise is for races.c. */
static bool check_marks(rd_checking *c, uint32_t rank, uint32_t step)
{
    const rd_plan *p = c->plans[rank];
    const rd_step *s = &p->steps[step];
    char text[RD_STEP_TEXT], other[RD_STEP_TEXT];
    if (!check_forwards(c, rank, step))
        return false;
    const uint32_t linked[] = {s->multicast_next, s->multicast_prev};
    for (int i = 0; i < 2; i++) {
        if (linked[i] == RD_NONE)
            continue;
        if (linked[i] >= p->step_count || p->steps[linked[i]].verb != RD_SEND ||
            s->verb != RD_SEND || !rd_same_range(sent(s), sent(&p->steps[linked[i]])))
            return rd_refuse(c, "rank %u: %s is said to be in a multicast group with step %u", rank,
                             rd_step_text(p, step, text), linked[i]);
    }
    if (s->back == RD_NONE)
        return true;
    if (s->verb != RD_SEND || s->back >= p->step_count)
        return rd_refuse(c, "rank %u: %s is to come back by step %u", rank,
                         rd_step_text(p, step, text), s->back);
    const rd_step *r = &p->steps[s->back];
    if (r->verb != RD_RECV || r->peer != s->peer || r->count != s->count)
        return rd_refuse(c, "rank %u: %s is to come back by %s, which is not its like", rank,
                         rd_step_text(p, step, text), rd_step_text(p, s->back, other));
    return true;
}

/* --- the straight order --- */

/* The straight order must be one that the lanes allow too: then its values are theirs, and it does
 * not matter that one rank walks straight and its peer does not. */
static bool walk_straight(rd_checking *c, uint32_t rank, uint32_t *cursor)
{
    const rd_plan *p = c->plans[rank];
    char text[RD_STEP_TEXT], other[RD_STEP_TEXT];
    for (uint32_t l = 0; l < p->lane_count; l++)
        cursor[l] = p->lanes[l].first;
    for (uint32_t i = 0; i < p->straight_count; i++) {
        const uint32_t step = p->straight[i];
        if (step >= p->step_count || !rd_leads(p, step))
            return rd_refuse(c, "rank %u: entry %u of the straight order is no step to walk", rank,
                             i);
        const rd_step *s = &p->steps[step];
        for (uint32_t d = 0; d < s->deps; d++) {
            const rd_dep *dep = &p->deps[s->first_dep + d];
            if (cursor[dep->lane] <= dep->step)
                return rd_refuse(c, "rank %u: the straight order has %s before %s", rank,
                                 rd_step_text(p, step, text), rd_step_text(p, dep->step, other));
        }
        const rd_group *group = s->group == RD_NONE ? NULL : &p->groups[s->group];
        for (uint32_t m = 0; m < (group ? group->count : 1); m++) {
            const uint32_t member = group ? p->members[group->first + m] : step;
            if (member != RD_NONE && cursor[p->steps[member].lane]++ != member)
                return rd_refuse(c, "rank %u: the straight order has %s out of its lane's order",
                                 rank, rd_step_text(p, step, text));
        }
    }
    for (uint32_t l = 0; l < p->lane_count; l++)
        if (cursor[l] != p->lanes[l].end)
            return rd_refuse(c, "rank %u: the straight order lacks %s", rank,
                             rd_step_text(p, cursor[l], text));
    return true;
}

/* The send that a receive of this rank is about, or NULL.  The peer's plan may not have been looked at yet. */
static const rd_step *send_for(const rd_checking *c, uint32_t rank, const rd_step *receive)
{
    const rd_plan *p = c->plans[receive->peer];
    for (uint32_t l = 0; l < p->lane_count && p->lanes && p->steps; l++) {
        const rd_plan_lane *lane = &p->lanes[l];
        if (lane->sends && lane->peer == rank && lane->first <= lane->end &&
            lane->end <= p->step_count && receive->ordinal < lane->end - lane->first)
            return &p->steps[lane->first + receive->ordinal];
    }
    return NULL;
}

/* A message that does not fit into a line is lent, and may be read at any time: it must be sent from
 * scratch that is not written again.  Scratch is whole then, and not sent in pieces. */
static bool check_straight_message(rd_checking *c, uint32_t rank, uint32_t step)
{
    const rd_plan *p = c->plans[rank];
    const rd_step *s = &p->steps[step];
    char text[RD_STEP_TEXT];
    if (s->peer == RD_NONE || s->count <= RD_INLINE_BYTES / p->shape.width)
        return true;
    const rd_step *sent = s->verb == RD_SEND ? s : send_for(c, rank, s);
    if (!p->straight_lends || s->count > RD_STRAIGHT_BYTES / p->shape.width || !sent ||
        sent->from_buffer != RD_SCRATCH)
        return rd_refuse(c, "rank %u: a straight order, but %s has %llu elements", rank,
                         rd_step_text(p, step, text), (unsigned long long)s->count);
    return true;
}

static bool writes_scratch(const rd_plan *p, uint32_t step)
{
    rd_access pair[2];
    uint32_t count;
    const rd_access *touched = rd_step_touches(p, step, pair, &count);
    for (uint32_t i = 0; i < count; i++)
        if (touched[i].how & RD_WRITES && touched[i].range.buffer == RD_SCRATCH)
            return true;
    return false;
}

static bool check_straight_writes(rd_checking *c, uint32_t rank)
{
    const rd_plan *p = c->plans[rank];
    bool lent = false;
    char text[RD_STEP_TEXT];
    for (uint32_t i = 0; i < p->straight_count && p->straight_lends; i++) {
        const rd_step *s = &p->steps[p->straight[i]];
        if (lent && writes_scratch(p, p->straight[i]))
            return rd_refuse(c, "rank %u: %s writes scratch that the straight order has lent", rank,
                             rd_step_text(p, p->straight[i], text));
        lent |= s->verb == RD_SEND && s->count > RD_INLINE_BYTES / p->shape.width;
    }
    return true;
}

static bool check_straight(rd_checking *c, uint32_t rank)
{
    const rd_plan *p = c->plans[rank];
    if (!p->straight)
        return true;
    for (uint32_t i = 0; i < p->step_count; i++) {
        const rd_step *s = &p->steps[i];
        if (!check_straight_message(c, rank, i))
            return false;
        if (s->verb == RD_SEND && s->ordinal >= RD_STRAIGHT_SENDS)
            return rd_refuse(c, "rank %u: a straight order, but more than %u sends to rank %u",
                             rank, RD_STRAIGHT_SENDS, s->peer);
    }
    uint32_t *cursor = rd_alloc((p->lane_count + 1) * sizeof *cursor);
    const bool ok = cursor ? walk_straight(c, rank, cursor) : rd_refuse_memory(c);
    rd_free(cursor);
    return ok && check_straight_writes(c, rank);
}

static bool check_plan(rd_checking *c, uint32_t rank)
{
    const rd_plan *p = c->plans[rank];
    if ((p->step_count && (!p->steps || !p->lane_count)) || (p->lane_count && !p->lanes) ||
        (p->dep_count && !p->deps) || (p->forward_count && !p->forwards) ||
        (p->group_count && !p->groups) || (p->member_count && !p->members) ||
        (p->access_count && (!p->accesses || !p->accesses[p->access_count - 1].last)))
        return rd_refuse(c, "rank %u: the plan lacks a list that it counts", rank);
    for (uint32_t l = 0; l < p->lane_count; l++)
        if (!check_lane(c, rank, l))
            return false;
    if (!check_groups(c, rank))
        return false;
    for (uint32_t i = 0; i < p->step_count; i++)
        if (!check_indices(c, rank, i) || !check_accesses(c, rank, i) || !check_ranges(c, rank, i))
            return false;
    for (uint32_t i = 0; i < p->step_count; i++)
        if (!check_marks(c, rank, i))
            return false;
    return check_straight(c, rank);
}

bool rd_check_structure(rd_checking *c)
{
    for (uint32_t r = 0; r < c->n; r++)
        if (!check_shape(c, r))
            return false;
    if (!number_all(c))
        return false;
    for (uint32_t r = 0; r < c->n; r++)
        if (!check_plan(c, r))
            return false;
    return true;
}
