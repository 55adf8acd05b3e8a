/* seal.c: from the steps as the generator said them to a plan that an engine can run.
 *
 *     raw steps, chunk after chunk           lanes, each in the order it runs
 *     c0: send a, fold b, send c             to 1:    a(c0) a(c1) c(c0) c(c1)
 *     c1: send a, fold b, send c      -->    from 1:  b(c0) b(c1)
 *
 * Order within a lane is (chunk + RD_SKEW * round, chunk, as said).  Both ends of a message know these
 * numbers, so they agree on the order; a dependency stays within its chunk and never points to a
 * later round, hence never to a higher number, so nothing waits in a circle; and while one chunk
 * is under way in round k, chunks behind it fill rounds before k. */
#include "base/mem.h"
#include "plan/hazards.h"
#include "plan/plan.h"
#include "plan/raw.h"
#include "plan/sort.h"

#include <assert.h>

_Static_assert(RD_MAX_CHUNKS <= 256, "a chunk has one byte in the order of a lane");

typedef struct {
    rd_plan *plan;
    const rd_raw *raw;
    uint32_t *lane_of; /* per raw step */
    uint32_t *place;   /* per raw step: its place in plan->steps */
    rd_hazards hazards;
} sealing;

/* --- lanes --- */

/* Numbers the lanes as the generator first spoke of them, so that an engine goes round them in the
 * order that the algorithm's author had in mind. */
static bool number_lanes(sealing *s)
{
    rd_plan *p = s->plan;
    const uint32_t n = p->shape.size;
    /* 1 + lane of: to p, from p, here */
    uint32_t *lane = rd_alloc((2 * (size_t)n + 1) * sizeof *lane);
    if (!lane)
        return false;
    for (uint32_t i = 0; i < s->raw->count; i++) {
        const rd_raw_step *r = &s->raw->steps[i];
        const size_t key =
            r->peer == RD_NONE ? 2 * (size_t)n : 2 * (size_t)r->peer + (r->verb != RD_SEND);
        if (!lane[key])
            lane[key] = ++p->lane_count;
        s->lane_of[i] = lane[key] - 1;
    }
    p->lanes = rd_alloc((p->lane_count + 1) * sizeof *p->lanes);
    for (uint32_t i = 0; i < s->raw->count && p->lanes; i++) {
        const rd_raw_step *r = &s->raw->steps[i];
        p->lanes[s->lane_of[i]] = (rd_plan_lane){.peer = r->peer, .sends = r->verb == RD_SEND};
    }
    rd_free(lane);
    return p->lanes != NULL;
}

static rd_step from_raw(const rd_raw_step *r, uint32_t lane)
{
    return (rd_step){.verb = r->verb,
                     .side = r->side,
                     .to_buffer = r->to.buffer,
                     .from_buffer = r->from.buffer,
                     .scale = r->scale,
                     .peer = r->peer,
                     .lane = lane,
                     .group = r->group,
                     .back = RD_NONE,
                     .multicast_next = RD_NONE,
                     .multicast_prev = RD_NONE,
                     .first_access = r->first_access,
                     .chunk = (uint16_t)r->chunk,
                     .round = r->round,
                     .to_at = r->to.at,
                     .from_at = r->from.at,
                     .count = r->to.count};
}

static bool lay_out(sealing *s)
{
    rd_plan *p = s->plan;
    const rd_raw *raw = s->raw;
    /* By lane, then order number, then chunk, then as said; and room to sort in */
    rd_sortable *order = rd_alloc((2 * (size_t)raw->count + 1) * sizeof *order);
    p->steps = rd_alloc((raw->count + 1) * sizeof *p->steps);
    if (!order || !p->steps) {
        rd_free(order);
        return false;
    }
    for (uint32_t i = 0; i < raw->count; i++) {
        const rd_raw_step *r = &raw->steps[i];
        const uint64_t number = r->chunk + (uint64_t)RD_SKEW * r->round; /* as turn_of() */
        order[i] = (rd_sortable){(uint64_t)s->lane_of[i] << 40 | number << 8 | r->chunk, i};
    }
    rd_sort(order, order + raw->count, raw->count);
    p->step_count = raw->count;
    for (uint32_t i = 0; i < raw->count; i++) {
        const uint32_t from = order[i].value, lane = s->lane_of[from];
        assert(from < raw->count && lane < p->lane_count);
        if (i == 0 || lane != p->steps[i - 1].lane)
            p->lanes[lane].first = i;
        p->lanes[lane].end = i + 1;
        p->steps[i] = from_raw(&raw->steps[from], lane);
        p->steps[i].ordinal = i - p->lanes[lane].first;
        s->place[from] = i;
        if (p->steps[i].verb == RD_SEND)
            p->sent += p->steps[i].count;
    }
    rd_free(order);
    return true;
}

/* They stay as they were said. */
static void keep_accesses(rd_plan *p)
{
    p->accesses = p->raw->accesses;
    p->access_count = p->raw->access_count;
    p->raw->accesses = NULL;
}

static bool place_groups(sealing *s)
{
    rd_plan *p = s->plan;
    const rd_raw *raw = s->raw;
    p->groups = rd_alloc((raw->group_count + 1) * sizeof *p->groups);
    p->members = rd_alloc((raw->member_count + 1) * sizeof *p->members);
    if (!p->groups || !p->members)
        return false;
    p->group_count = raw->group_count;
    p->member_count = raw->member_count;
    for (uint32_t i = 0; i < raw->member_count; i++)
        p->members[i] = raw->members[i] == RD_NONE ? RD_NONE : s->place[raw->members[i]];
    for (uint32_t g = 0; g < raw->group_count; g++) {
        const rd_raw_group *from = &raw->groups[g];
        p->groups[g] = (rd_group){
            .leader = s->place[from->leader], .first = from->first, .count = from->count};
        for (uint32_t i = 0; i < from->count; i++)
            p->groups[g].arriving += p->members[from->first + i] != RD_NONE;
    }
    return true;
}

/* --- dependencies and fusion --- */

static bool in_lane_order(const rd_step *first, const rd_step *second)
{
    return first->lane == second->lane && first->verb != RD_SEND;
}

/* Adds "wait for step i" to step t; of a lane only the last step counts. */
static void depend(rd_plan *p, rd_step *t, uint32_t i)
{
    if (in_lane_order(&p->steps[i], t))
        return;
    const uint32_t lane = p->steps[i].lane;
    assert(i < p->step_count && lane < p->lane_count && i >= p->lanes[lane].first &&
           i < p->lanes[lane].end);
    uint32_t d = t->first_dep;
    while (d < p->dep_count && p->deps[d].lane != lane)
        d++;
    if (d == p->dep_count) {
        p->deps[p->dep_count++] = (rd_dep){lane, i};
        t->deps++;
    } else if (p->deps[d].step < i) {
        p->deps[d].step = i;
    }
}

static bool reads_what(const rd_raw *raw, const rd_edge *e)
{
    rd_access left[2], right[2];
    uint32_t lefts, rights;
    const rd_access *before = rd_raw_touches(raw, e->from, left, &lefts),
                    *after = rd_raw_touches(raw, e->to, right, &rights);
    for (uint32_t i = 0; i < lefts; i++)
        for (uint32_t k = 0; k < rights; k++)
            if (before[i].how & RD_WRITES && after[k].how & RD_READS &&
                rd_ranges_overlap(before[i].range, after[k].range))
                return true;
    return false;
}

static bool find_deps(sealing *s)
{
    rd_plan *p = s->plan;
    const rd_hazards *h = &s->hazards;
    p->deps = rd_alloc((h->count + 1) * sizeof *p->deps);
    if (!p->deps)
        return false;
    for (uint32_t e = 0, t = 0; t < s->raw->count; t++) {
        rd_step *step = &p->steps[s->place[t]];
        step->first_dep = p->dep_count;
        for (; e < h->count && h->edges[e].to == t; e++) {
            const uint32_t from = s->place[h->edges[e].from];
            p->steps[from].read = p->steps[from].read || reads_what(s->raw, &h->edges[e]);
            depend(p, step, from);
        }
    }
    return true;
}

/* The step that a send waits for last and whose whole result it sends, or RD_NONE. */
static uint32_t forwarded_by(const sealing *s, uint32_t raw)
{
    const rd_plan *p = s->plan;
    const rd_step *send = &p->steps[s->place[raw]];
    const uint32_t writer = s->hazards.writer[raw];
    if (send->verb != RD_SEND || writer == RD_NONE || send->deps != 1)
        return RD_NONE;
    const uint32_t from = s->place[writer];
    const bool receives = p->steps[from].peer != RD_NONE;
    return receives && p->deps[send->first_dep].step == from ? from : RD_NONE;
}

static bool find_forwards(sealing *s)
{
    rd_plan *p = s->plan;
    for (uint32_t i = 0; i < s->raw->count; i++) {
        const uint32_t from = forwarded_by(s, i);
        if (from != RD_NONE)
            p->steps[from].forward_count++;
    }
    for (uint32_t i = 0; i < p->step_count; i++) {
        p->steps[i].first_forward = p->forward_count;
        p->forward_count += p->steps[i].forward_count;
        p->steps[i].forward_count = 0;
    }
    p->forwards = rd_alloc((p->forward_count + 1) * sizeof *p->forwards);
    if (!p->forwards)
        return false;
    for (uint32_t i = 0; i < s->raw->count; i++) {
        const uint32_t from = forwarded_by(s, i);
        if (from != RD_NONE)
            p->forwards[p->steps[from].first_forward + p->steps[from].forward_count++] =
                s->place[i];
    }
    return true;
}

/* Sends of one range that follow each other: a transport that copies bytes may copy them once. */
static void find_multicasts(sealing *s)
{
    const rd_raw_step *steps = s->raw->steps;
    for (uint32_t i = 1; i < s->raw->count; i++) {
        const rd_raw_step *a = &steps[i - 1], *b = &steps[i];
        if (a->verb == RD_SEND && b->verb == RD_SEND && a->from.buffer == b->from.buffer &&
            a->from.at == b->from.at && a->from.count == b->from.count && a->peer != b->peer &&
            a->chunk == b->chunk && a->round == b->round) {
            s->plan->steps[s->place[i - 1]].multicast_next = s->place[i];
            s->plan->steps[s->place[i]].multicast_prev = s->place[i - 1];
        }
    }
}

/* Whatever recv waits for has happened when send starts, but for the send itself. */
static bool free_since(const rd_plan *p, const rd_step *recv, uint32_t send)
{
    const rd_step *s = &p->steps[send];
    for (uint32_t d = 0; d < recv->deps; d++) {
        const rd_dep *dep = &p->deps[recv->first_dep + d];
        bool known = dep->lane == s->lane && dep->step == send;
        for (uint32_t e = 0; e < s->deps && !known; e++)
            known = p->deps[s->first_dep + e].lane == dep->lane &&
                    p->deps[s->first_dep + e].step >= dep->step;
        if (!known)
            return false;
    }
    return true;
}

static bool returns(const rd_plan *p, const rd_step *send, const rd_step *recv)
{
    return recv->verb == RD_RECV && recv->chunk == send->chunk && recv->count == send->count &&
           recv->to_at == send->from_at && recv->to_buffer != RD_SCRATCH &&
           send->from_buffer != RD_SCRATCH && recv->round > send->round &&
           p->lanes[recv->lane].peer == send->peer;
}

static bool overlaps(uint8_t a, uint64_t at, uint8_t b, uint64_t bt, uint64_t count, uint64_t other)
{
    return a == b && at < bt + other && bt < at + count;
}

/* Lane order stands for dependencies on steps before the recv in its own lane: none of them may touch
 * what the peer could already be storing into. */
static bool lane_clear(const rd_plan *p, uint32_t first, uint32_t recv)
{
    const rd_step *r = &p->steps[recv];
    for (uint32_t i = first; i < recv; i++) {
        const rd_step *s = &p->steps[i];
        if (s->chunk == r->chunk &&
            (overlaps(s->to_buffer, s->to_at, r->to_buffer, r->to_at, s->count, r->count) ||
             overlaps(s->from_buffer, s->from_at, r->to_buffer, r->to_at, s->count, r->count)))
            return false;
    }
    return true;
}

/* When a step runs, as far as its lane is sorted by it. */
static uint64_t turn_of(const rd_step *s)
{
    return s->chunk + (uint64_t)RD_SKEW * s->round;
}

/* Walks the lanes to and from a peer side by side; both are sorted alike, so a send and what returns
 * it come in the same order and one pass finds them.  What returns a send has a later turn. */
static void mark_backs(rd_plan *p, const rd_plan_lane *to, const rd_plan_lane *from)
{
    uint32_t r = from->first;
    for (uint32_t s = to->first; s < to->end; s++) {
        while (r < from->end && turn_of(&p->steps[r]) <= turn_of(&p->steps[s]))
            r++;
        for (uint32_t i = r; i < from->end; i++) {
            if (!returns(p, &p->steps[s], &p->steps[i]))
                continue;
            if (free_since(p, &p->steps[i], s) && lane_clear(p, from->first, i)) {
                p->steps[s].back = i;
                p->returned = p->steps[s].count > p->returned ? p->steps[s].count : p->returned;
                r = i + 1;
            }
            break;
        }
    }
}

static void find_backs(rd_plan *p)
{
    uint32_t *from = rd_alloc((size_t)p->shape.size * sizeof *from);
    if (!from)
        return; /* marks only save time */
    for (uint32_t l = 0; l < p->lane_count; l++)
        if (p->lanes[l].peer != RD_NONE && !p->lanes[l].sends)
            from[p->lanes[l].peer] = l + 1;
    for (uint32_t l = 0; l < p->lane_count; l++) {
        const rd_plan_lane *to = &p->lanes[l];
        if (to->peer != RD_NONE && to->sends && from[to->peer])
            mark_backs(p, to, &p->lanes[from[to->peer] - 1]);
    }
    rd_free(from);
}

/* --- the straight walk --- */

/* No send can block, whatever the peers do: everything fits into what a transport buffers, or is a copy
 * that can be lent and need not be released. */
static bool small_enough(const rd_plan *p)
{
    const uint64_t most = p->algorithm->flags & RD_COPIES ? RD_STRAIGHT_BYTES : RD_INLINE_BYTES;
    if (p->chunks != 1)
        return false;
    for (uint32_t l = 0; l < p->lane_count; l++)
        if (p->lanes[l].peer != RD_NONE && p->lanes[l].end - p->lanes[l].first > RD_STRAIGHT_SENDS)
            return false;
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].peer != RD_NONE && p->steps[i].count > most / p->shape.width)
            return false;
    return true;
}

static bool find_straight(sealing *s)
{
    rd_plan *p = s->plan;
    if (!small_enough(p))
        return true;
    p->straight = rd_alloc((s->raw->count + 1) * sizeof *p->straight);
    if (!p->straight)
        return false;
    for (uint32_t i = 0; i < s->raw->count; i++) {
        const rd_raw_step *r = &s->raw->steps[i];
        if (r->group == RD_NONE || s->raw->groups[r->group].leader == i)
            p->straight[p->straight_count++] = s->place[i];
        if (r->peer != RD_NONE && r->to.count > RD_INLINE_BYTES / p->shape.width)
            p->straight_lends = true;
    }
    return true;
}

static size_t memory_of(const rd_plan *p)
{
    return sizeof *p + p->step_count * sizeof *p->steps + p->dep_count * sizeof *p->deps +
           p->forward_count * sizeof *p->forwards + p->group_count * sizeof *p->groups +
           p->member_count * sizeof *p->members + p->access_count * sizeof *p->accesses +
           p->lane_count * sizeof *p->lanes + p->straight_count * sizeof *p->straight +
           (p->starts ? 2 * (p->shape.size + (size_t)1) * sizeof *p->starts : 0);
}

bool rd_plan_seal(rd_plan *p)
{
    rd_raw *raw = p->raw;
    if (raw->failed)
        return false;
    sealing s = {.plan = p, .raw = raw};
    s.lane_of = rd_alloc((raw->count + 1) * sizeof *s.lane_of);
    s.place = rd_alloc((raw->count + 1) * sizeof *s.place);
    const bool ok = s.lane_of && s.place && rd_hazards_find(raw, &s.hazards) && number_lanes(&s) &&
                    lay_out(&s) && place_groups(&s) && find_deps(&s) && find_forwards(&s) &&
                    find_straight(&s);
    if (ok) {
        assert(p->step_count == raw->count && p->dep_count <= s.hazards.count);
        find_multicasts(&s);
        find_backs(p);
        keep_accesses(p);
        p->bytes = memory_of(p);
    }
    rd_hazards_free(&s.hazards);
    rd_free(s.lane_of);
    rd_free(s.place);
    rd_raw_free(raw);
    p->raw = NULL;
    return ok;
}
