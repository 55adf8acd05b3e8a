/* runs.c: all plans at once in an abstract machine whose values are terms.
 *
 * The first run is the strictest there is.  A message moves when its send is the next of its lane
 * with all dependencies met AND its receive is; then both are done at once:
 *
 *     rank 0, to 1:    [send a] send b            both at the head, both free: the message moves,
 *     rank 1, from 0:  [fold a] fold b            and both lanes go on together
 *
 * Whatever can move stays able to move until it does, so the order of moves does not matter: if this
 * run comes to its end, so does every run, however much a transport buffers.
 *
 * The second run is for plans that have a straight order: a rank that has one walks it step by step,
 * waiting at each receive, and its sends, being small, never wait.  A rank without one runs as before.
 * If that comes to its end, it does so too when some of the ranks that could walk go by their lanes: their
 * sends are as small, and lanes bind them less (structure.c saw that the walk keeps to them).
 *
 * An ACTOR is whatever has a next step: a lane (receiving or local; sends move with their receives) or
 * a rank that walks straight.  An actor that cannot go on is put down at the very step it waits for
 * and is picked up when that is done, so a run costs about as much as there are steps. */
#include "proof/checking.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "proof/made.h"

typedef struct {
    rd_checking *c;
    bool straight; /* the second run */
    rd_term *cells;
    uint32_t *cursor;   /* per lane: the next step, as its rank numbers it */
    uint32_t *walked;   /* per rank: steps of its straight order done */
    uint32_t *waiting;  /* per step: 1 + the actor that was put down there last */
    uint32_t *under;    /* per actor: 1 + the one below it in that pile */
    bool *parked;       /* per actor: waits for its group's leader */
    uint32_t *gathered; /* per group: operands known to be there */
    uint32_t *ready;    /* a stack of actors that may be able to go on */
    uint32_t ready_count;
    uint64_t *posted; /* per step, second run: where the terms of a straight send are kept */
    rd_term *sent;    /* terms of all straight sends so far */
    uint64_t sent_count;
    rd_term *operands;       /* of one fold_many: an element of each, */
    const rd_term **sources; /* and where they are */
} machine;

static bool walks_straight(const machine *m, uint32_t rank)
{
    return m->straight && m->c->plans[rank]->straight;
}

static rd_term *cells_of(const machine *m, uint32_t rank, uint8_t buffer, uint64_t at)
{
    return m->cells + m->c->memory[rank].at[buffer] + at;
}

/* --- the other end of a message --- */

static uint32_t sending_lane(const machine *m, uint32_t rank, uint32_t step)
{
    return m->c->match[m->c->lane_base[rank] + m->c->plans[rank]->steps[step].lane];
}

static uint32_t send_of(const machine *m, uint32_t rank, uint32_t step, uint32_t *sender)
{
    const rd_checking *c = m->c;
    const uint32_t lane = sending_lane(m, rank, step);
    *sender = c->lane_rank[lane];
    return c->plans[*sender]->lanes[lane - c->lane_base[*sender]].first +
           c->plans[rank]->steps[step].ordinal;
}

static const rd_term *message(const machine *m, uint32_t rank, uint32_t step)
{
    uint32_t sender;
    const uint32_t send = send_of(m, rank, step, &sender);
    if (walks_straight(m, sender))
        return m->sent + m->posted[m->c->step_base[sender] + send];
    const rd_step *s = &m->c->plans[sender]->steps[send];
    return cells_of(m, sender, s->from_buffer, s->from_at);
}

/* --- what a step waits for: a step as all ranks number them, or RD_NONE --- */

static uint32_t unmet_dep(const machine *m, uint32_t rank, uint32_t step)
{
    const rd_plan *p = m->c->plans[rank];
    const rd_step *s = &p->steps[step];
    for (uint32_t d = 0; d < s->deps; d++) {
        const rd_dep dep = p->deps[s->first_dep + d];
        if (m->cursor[m->c->lane_base[rank] + dep.lane] <= dep.step)
            return m->c->step_base[rank] + dep.step;
    }
    return RD_NONE;
}

static uint32_t missing_message(const machine *m, uint32_t rank, uint32_t step)
{
    uint32_t sender;
    const uint32_t send = send_of(m, rank, step, &sender);
    if (!walks_straight(m, sender))
        return unmet_dep(m, sender, send);
    const uint32_t lane = sending_lane(m, rank, step);
    return m->cursor[lane] > send ? RD_NONE : m->c->step_base[sender] + send;
}

/* What was found to be there stays there, so each operand is looked at until it is, and not again. */
static uint32_t missing_operand(const machine *m, uint32_t rank, uint32_t g)
{
    const rd_plan *p = m->c->plans[rank];
    const rd_group *group = &p->groups[g];
    uint32_t *gathered = &m->gathered[m->c->group_base[rank] + g];
    for (; *gathered < group->count; ++*gathered) {
        const uint32_t member = p->members[group->first + *gathered];
        if (member == RD_NONE)
            continue;
        if (m->cursor[m->c->lane_base[rank] + p->steps[member].lane] != member)
            return m->c->step_base[rank] + member - 1;
        const uint32_t missing = missing_message(m, rank, member);
        if (missing != RD_NONE)
            return missing;
    }
    return RD_NONE;
}

static uint32_t obstacle(const machine *m, uint32_t rank, uint32_t step)
{
    const rd_step *s = &m->c->plans[rank]->steps[step];
    const uint32_t unmet = walks_straight(m, rank) ? RD_NONE : unmet_dep(m, rank, step);
    if (unmet != RD_NONE || s->peer == RD_NONE || s->verb == RD_SEND)
        return unmet;
    return s->group == RD_NONE ? missing_message(m, rank, step)
                               : missing_operand(m, rank, s->group);
}

/* --- running a step --- */

/* A step of this rank, and what is there for it. */
static rd_making making(const machine *m, uint32_t rank, uint32_t step)
{
    const rd_plan *p = m->c->plans[rank];
    const rd_step *s = &p->steps[step];
    const bool receives = s->peer != RD_NONE && s->group == RD_NONE;
    return (rd_making){.terms = &m->c->terms,
                       .plan = p,
                       .step = s,
                       .message = receives ? message(m, rank, step) : NULL,
                       .memory = {cells_of(m, rank, RD_IN, 0), cells_of(m, rank, RD_OUT, 0),
                                  cells_of(m, rank, RD_SCRATCH, 0),
                                  cells_of(m, rank, RD_STATE, 0)}};
}

static void compute_group(machine *m, uint32_t rank, const rd_making *made)
{
    const rd_plan *p = made->plan;
    const rd_step *s = made->step;
    const rd_group *group = &p->groups[s->group];
    rd_term *to = cells_of(m, rank, s->to_buffer, s->to_at);
    for (uint32_t i = 0; i < group->count; i++) {
        const uint32_t member = p->members[group->first + i];
        m->sources[i] = member == RD_NONE ? cells_of(m, rank, s->from_buffer, s->from_at)
                                          : message(m, rank, member);
    }
    for (uint64_t e = 0; e < s->count; e++) {
        for (uint32_t i = 0; i < group->count; i++)
            m->operands[i] = m->sources[i][e];
        to[e] = rd_making_scaled(made, rd_term_many(made->terms, m->operands, group->count));
    }
}

static void compute(machine *m, uint32_t rank, uint32_t step)
{
    const rd_making made = making(m, rank, step);
    if (made.step->group != RD_NONE)
        compute_group(m, rank, &made);
    else
        rd_makes[made.step->verb](&made);
}

static void post(machine *m, uint32_t rank, uint32_t step)
{
    const rd_step *s = &m->c->plans[rank]->steps[step];
    m->posted[m->c->step_base[rank] + step] = m->sent_count;
    memcpy(m->sent + m->sent_count, cells_of(m, rank, s->from_buffer, s->from_at),
           s->count * sizeof *m->sent);
    m->sent_count += s->count;
}

/* The lane goes on; whoever waits for this may. */
static void finish(machine *m, uint32_t rank, uint32_t step)
{
    const uint32_t lane = m->c->lane_base[rank] + m->c->plans[rank]->steps[step].lane;
    uint32_t *pile = &m->waiting[m->c->step_base[rank] + step];
    m->cursor[lane] = step + 1;
    for (; *pile; *pile = m->under[*pile - 1])
        m->ready[m->ready_count++] = *pile - 1;
    if (m->parked[lane]) {
        m->parked[lane] = false;
        m->ready[m->ready_count++] = lane;
    }
}

static void note_order(machine *m, uint32_t rank, uint32_t step)
{
    rd_checking *c = m->c;
    if (!m->straight)
        c->order[c->step_base[rank] + c->ordered[rank]++] = step;
}

static void receive(machine *m, uint32_t rank, uint32_t step)
{
    uint32_t sender;
    const uint32_t send = send_of(m, rank, step, &sender);
    if (!walks_straight(m, sender)) {
        note_order(m, sender, send);
        finish(m, sender, send);
    }
    finish(m, rank, step);
}

static void run_step(machine *m, uint32_t rank, uint32_t step)
{
    const rd_plan *p = m->c->plans[rank];
    const rd_step *s = &p->steps[step];
    if (s->verb == RD_SEND)
        post(m, rank, step);
    else
        compute(m, rank, step);
    if (s->group != RD_NONE) {
        const rd_group *group = &p->groups[s->group];
        for (uint32_t i = 0; i < group->count; i++)
            if (p->members[group->first + i] != RD_NONE)
                receive(m, rank, p->members[group->first + i]);
    } else if (s->verb == RD_SEND || s->peer == RD_NONE) {
        finish(m, rank, step);
    } else {
        receive(m, rank, step);
    }
    note_order(m, rank, step);
}

/* --- actors --- */

/* The next step of an actor; RD_NONE: it is at its end.  Actors: the lanes, then the ranks. */
static uint32_t next_step(const machine *m, uint32_t actor, uint32_t *rank)
{
    const rd_checking *c = m->c;
    const uint32_t lanes = c->lane_base[c->n];
    if (actor >= lanes) {
        const rd_plan *p = c->plans[ *rank = actor - lanes];
        return m->walked[*rank] < p->straight_count ? p->straight[m->walked[*rank]] : RD_NONE;
    }
    *rank = c->lane_rank[actor];
    const uint32_t end = c->plans[*rank]->lanes[actor - c->lane_base[*rank]].end;
    return m->cursor[actor] < end ? m->cursor[actor] : RD_NONE;
}

static void run_actor(machine *m, uint32_t actor)
{
    const rd_checking *c = m->c;
    uint32_t rank, step;
    while ((step = next_step(m, actor, &rank)) != RD_NONE) {
        if (!rd_leads(c->plans[rank], step)) {
            m->parked[actor] = true;
            return;
        }
        const uint32_t wall = obstacle(m, rank, step);
        if (wall != RD_NONE) {
            m->under[actor] = m->waiting[wall];
            m->waiting[wall] = actor + 1;
            return;
        }
        run_step(m, rank, step);
        if (actor >= c->lane_base[c->n])
            m->walked[rank]++;
    }
}

/* What a rank brings: its input, wherever that is; of a broadcast the root's buffer; and its state. */
static void bring(machine *m, uint32_t rank)
{
    const rd_shape *s = &m->c->plans[rank]->shape;
    const bool broadcast = s->kind == RONDA_BROADCAST && rank == s->root;
    const uint64_t count = broadcast ? s->count : rd_in_count(s);
    const uint8_t name = broadcast || s->in_place ? rd_place_name(s) : RD_IN;
    rd_term *own = cells_of(m, rank, name, s->in_place && name == RD_OUT ? rd_place_at(s) : 0);
    for (uint64_t e = 0; e < count; e++)
        own[e] = rd_term_leaf(&m->c->terms, rank, e);
    for (uint64_t e = 0; e < m->c->plans[rank]->state; e++)
        *cells_of(m, rank, RD_STATE, e) = rd_term_state(&m->c->terms, rank, e);
}

static void set_up(machine *m)
{
    const rd_checking *c = m->c;
    for (uint32_t r = 0; r < c->n; r++) {
        const rd_plan *p = c->plans[r];
        for (uint32_t l = 0; l < p->lane_count; l++) {
            m->cursor[c->lane_base[r] + l] = p->lanes[l].first;
            if (!p->lanes[l].sends && !walks_straight(m, r))
                m->ready[m->ready_count++] = c->lane_base[r] + l;
        }
        if (walks_straight(m, r))
            m->ready[m->ready_count++] = c->lane_base[c->n] + r;
        bring(m, r);
    }
}

/* --- when nothing moves --- */

static uint32_t rank_of_step(const rd_checking *c, uint32_t step)
{
    uint32_t low = 0, high = c->n;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->step_base[middle] <= step)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Who would have to do this step. */
static uint32_t actor_of(const machine *m, uint32_t rank, uint32_t step)
{
    const rd_checking *c = m->c;
    uint32_t lane = c->lane_base[rank] + c->plans[rank]->steps[step].lane;
    if (!walks_straight(m, rank) && c->plans[rank]->steps[step].verb == RD_SEND)
        lane = c->match[lane];
    rank = c->lane_rank[lane];
    if (walks_straight(m, rank))
        return c->lane_base[c->n] + rank;
    const rd_plan *p = c->plans[rank];
    const uint32_t next = m->cursor[lane];
    if (next < p->lanes[lane - c->lane_base[rank]].end && p->steps[next].group != RD_NONE)
        lane = c->lane_base[rank] + p->steps[p->groups[p->steps[next].group].leader].lane;
    return lane;
}

/* Follows who waits for whom, a few links far: in the end the chain bites its tail. */
static bool refuse_stuck(machine *m, uint32_t actor)
{
    enum { LINKS = 4 };
    rd_checking *c = m->c;
    char chain[360] = "", waits[RD_STEP_TEXT], lacks[RD_STEP_TEXT];
    size_t used = 0;
    for (int i = 0; i < LINKS && used < sizeof chain; i++) {
        uint32_t rank = 0;
        const uint32_t step = next_step(m, actor, &rank);
        const uint32_t wall = step == RD_NONE ? RD_NONE : obstacle(m, rank, step);
        if (wall == RD_NONE)
            break;
        const uint32_t other = rank_of_step(c, wall), there = wall - c->step_base[other];
        used +=
            (size_t)snprintf(chain + used, sizeof chain - used, "%srank %u in %s for rank %u's %s",
                             i ? "; " : "", rank, rd_step_text(c->plans[rank], step, waits), other,
                             rd_step_text(c->plans[other], there, lacks));
        actor = actor_of(m, other, there);
    }
    return rd_refuse(c, "%s, nothing can move: %s",
                     m->straight ? "walked straight" : "where sends wait for their receives",
                     chain);
}

static bool all_done(machine *m)
{
    const rd_checking *c = m->c;
    for (uint32_t r = 0; r < c->n; r++)
        for (uint32_t l = 0; l < c->plans[r]->lane_count; l++) {
            const rd_plan_lane *lane = &c->plans[r]->lanes[l];
            if (m->cursor[c->lane_base[r] + l] != lane->end)
                return refuse_stuck(m, actor_of(m, r, m->cursor[c->lane_base[r] + l]));
        }
    return true;
}

/* --- a run --- */

static bool allocate(machine *m)
{
    const rd_checking *c = m->c;
    const size_t lanes = c->lane_base[c->n], steps = c->step_base[c->n], actors = lanes + c->n;
    uint64_t sent = 0;
    uint32_t operands = 1;
    for (uint32_t r = 0; r < c->n; r++) {
        const rd_plan *p = c->plans[r];
        for (uint32_t g = 0; g < p->group_count; g++)
            operands = p->groups[g].count > operands ? p->groups[g].count : operands;
        for (uint32_t i = 0; i < p->step_count && walks_straight(m, r); i++)
            sent += p->steps[i].verb == RD_SEND ? p->steps[i].count : 0;
    }
    m->cells = rd_alloc((c->cells + 1) * sizeof *m->cells);
    m->cursor = rd_alloc((lanes + 1) * sizeof *m->cursor);
    m->walked = rd_alloc(c->n * sizeof *m->walked);
    m->waiting = rd_alloc((steps + 1) * sizeof *m->waiting);
    m->under = rd_alloc(actors * sizeof *m->under);
    m->parked = rd_alloc(actors * sizeof *m->parked);
    m->ready = rd_alloc(actors * sizeof *m->ready);
    m->gathered = rd_alloc((c->group_base[c->n] + (size_t)1) * sizeof *m->gathered);
    m->posted = m->straight ? rd_alloc((steps + 1) * sizeof *m->posted) : NULL;
    m->sent = rd_alloc((sent + 1) * sizeof *m->sent);
    m->operands = rd_alloc(operands * sizeof *m->operands);
    m->sources = rd_alloc(operands * sizeof *m->sources);
    return m->cells && m->cursor && m->walked && m->waiting && m->under && m->parked && m->ready &&
           m->gathered && (m->posted || !m->straight) && m->sent && m->operands && m->sources;
}

static void release(machine *m)
{
    rd_free(m->cells);
    rd_free(m->cursor);
    rd_free(m->walked);
    rd_free(m->waiting);
    rd_free(m->under);
    rd_free(m->parked);
    rd_free(m->ready);
    rd_free(m->gathered);
    rd_free(m->posted);
    rd_free(m->sent);
    rd_free(m->operands);
    rd_free(m->sources);
}

static bool run(machine *m)
{
    if (!allocate(m))
        return rd_refuse_memory(m->c);
    set_up(m);
    while (m->ready_count)
        run_actor(m, m->ready[--m->ready_count]);
    if (m->c->terms.failed)
        return rd_refuse_memory(m->c);
    return all_done(m);
}

/* Scratch may end differently; what the caller and the next run see may not. */
static bool same_values(rd_checking *c, const rd_term *cells)
{
    for (uint32_t r = 0; r < c->n; r++)
        for (uint8_t b = 0; b < RD_BUFFERS; b++)
            for (uint64_t e = 0; b != RD_SCRATCH && e < c->memory[r].length[b]; e++)
                if (cells[c->memory[r].at[b] + e] != c->values[c->memory[r].at[b] + e])
                    return rd_refuse(c, "rank %u: %s[%llu] ends otherwise when walked straight", r,
                                     rd_buffer_text(b), (unsigned long long)e);
    return true;
}

bool rd_check_runs(rd_checking *c)
{
    machine m = {.c = c};
    bool ok = run(&m);
    if (ok) {
        c->values = m.cells;
        m.cells = NULL;
    }
    release(&m);
    bool straight = false;
    for (uint32_t r = 0; r < c->n; r++)
        straight = straight || c->plans[r]->straight;
    if (!ok || !straight)
        return ok;
    m = (machine){.c = c, .straight = true};
    ok = run(&m) && same_values(c, m.cells);
    release(&m);
    return ok;
}
