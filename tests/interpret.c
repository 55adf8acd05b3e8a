/* interpret.c: plans on numbers.  See interpret.h. */
#include "interpret.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outcome.h"

enum { COPIED, LENT, RETURNED };

typedef struct {
    int how;
    bool taken;
    uint32_t step; /* the send */
    uint64_t count;
    value *copy;
} message;

typedef struct {
    message *messages;
    uint32_t sent, taken, completed; /* completed: those before it may be overwritten */
} channel;

/* What goes on in order: a lane, or a rank that walks straight (lane RD_NONE), or its coming in. */
typedef struct {
    uint32_t rank, lane;
    bool comes;
} unit;

typedef struct {
    rd_plan *const *plans;
    uint32_t n;
    rng *random;
    interpretation *result;
    value *memory[MOST_RANKS], *buffer[MOST_RANKS][RD_BUFFERS];
    uint64_t length[MOST_RANKS][RD_BUFFERS], cells[MOST_RANKS];
    channel channels[MOST_RANKS][MOST_RANKS];
    value *copies, *made; /* copies of messages; the result of the step that runs */
    uint64_t copies_used;
    uint32_t *cursor[MOST_RANKS], walked[MOST_RANKS];
    bool here[MOST_RANKS], gone[MOST_RANKS];
    unit *units;
    uint32_t unit_count;
    /* how this run is run */
    bool straight; /* some ranks walk straight, where they can: */
    bool walks[MOST_RANKS];
    uint32_t room;                  /* messages on their way to one peer */
    uint32_t lends, fuses, returns; /* of 4 times */
} world;

static bool say(world *w, int verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool say(world *w, int verdict, const char *format, ...)
{
    if (w->result->verdict != RUN_RIGHT)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->result->why, sizeof w->result->why, format, arguments);
    va_end(arguments);
    w->result->verdict = verdict;
    return false;
}

static bool often(world *w, uint32_t of_four)
{
    return rng_below(w->random, 4) < of_four;
}

/* --- memory --- */

static value *cells(world *w, uint32_t rank, uint8_t buffer, uint64_t at, uint64_t count,
                    bool writes)
{
    const rd_shape *s = &w->plans[rank]->shape;
    if (buffer >= RD_BUFFERS || at > w->length[rank][buffer] ||
        count > w->length[rank][buffer] - at) {
        say(w, RUN_WRONG, "rank %u goes outside buffer %u", rank, buffer);
        return NULL;
    }
    if (writes && buffer == RD_IN && count &&
        !(s->in_place && rd_kind(s->kind)->place != RD_RECV_IN_SEND)) {
        const rd_range own = outcome_block(s, RD_IN, rank);
        if (!s->in_place || at < own.at || at + count > own.at + own.count) {
            say(w, RUN_WRONG, "rank %u writes the caller's input", rank);
            return NULL;
        }
    }
    return w->buffer[rank][buffer] + at;
}

static void fill_memory(world *w, uint32_t rank)
{
    const rd_shape *s = &w->plans[rank]->shape;
    for (uint64_t i = 0; i < w->cells[rank]; i++)
        w->memory[rank][i] =
            (value){rng_next(w->random), rng_next(w->random), 3, rng_next(w->random), 0};
    value *own = w->buffer[rank][s->kind == RONDA_BROADCAST ? RD_OUT : RD_IN];
    const uint64_t count = s->kind != RONDA_BROADCAST ? w->length[rank][RD_IN]
                           : rank == s->root          ? s->count
                                                      : 0;
    for (uint64_t e = 0; e < count; e++)
        own[e] = value_leaf(rank, e);
}

/* In place, two buffers are one memory. */
static void place_buffers(world *w, uint32_t rank)
{
    const rd_plan *p = w->plans[rank];
    const rd_shape *s = &p->shape;
    value **buffer = w->buffer[rank];
    uint64_t *length = w->length[rank];
    length[RD_IN] = rd_in_count(s);
    length[RD_OUT] = rd_out_count(s);
    length[RD_SCRATCH] = p->scratch;
    length[RD_STATE] = p->state;
    w->cells[rank] = length[RD_IN] + length[RD_OUT] + length[RD_SCRATCH] + length[RD_STATE];
    w->memory[rank] = calloc(w->cells[rank] + 1, sizeof(value));
    buffer[RD_IN] = w->memory[rank];
    buffer[RD_OUT] = buffer[RD_IN] + length[RD_IN];
    buffer[RD_SCRATCH] = buffer[RD_OUT] + length[RD_OUT];
    buffer[RD_STATE] = buffer[RD_SCRATCH] + length[RD_SCRATCH];
    const int place = s->in_place ? rd_kind(s->kind)->place : RD_APART;
    if (place == RD_SAME)
        buffer[RD_IN] = buffer[RD_OUT];
    if (place == RD_SEND_IN_RECV)
        buffer[RD_IN] = buffer[RD_OUT] + outcome_block(s, RD_OUT, rank).at;
    if (place == RD_RECV_IN_SEND)
        buffer[RD_OUT] = buffer[RD_IN] + outcome_block(s, RD_IN, rank).at;
}

/* --- messages --- */

/* What a plan that may be walked straight sends is small: it is copied and finds room, whether this
 * rank walks straight or its peers do. */
static bool is_small(const world *w, uint32_t rank)
{
    return w->straight && w->plans[rank]->straight;
}

static bool has_room(const world *w, uint32_t rank, uint32_t peer)
{
    const channel *c = &w->channels[rank][peer];
    return is_small(w, rank) || c->sent - c->taken < w->room;
}

/* `content`: what to copy, or NULL to read the send's range. */
static bool send(world *w, uint32_t rank, uint32_t step, const value *content)
{
    const rd_step *s = &w->plans[rank]->steps[step];
    const value *from = cells(w, rank, s->from_buffer, s->from_at, s->count, false);
    if (!from)
        return false;
    channel *c = &w->channels[rank][s->peer];
    message *m = &c->messages[c->sent++];
    *m = (message){.how = !is_small(w, rank) && often(w, w->lends) ? LENT : COPIED,
                   .step = step,
                   .count = s->count};
    if (m->how == COPIED) {
        m->copy = w->copies + w->copies_used;
        w->copies_used += s->count;
        memcpy(m->copy, content ? content : from, s->count * sizeof *from);
    }
    return true;
}

static message *arrived(world *w, uint32_t rank, const rd_step *s)
{
    channel *c = &w->channels[s->peer][rank];
    return c->taken < c->sent ? &c->messages[c->taken] : NULL;
}

static const value *content_of(world *w, uint32_t rank, const rd_step *s)
{
    const message *m = arrived(w, rank, s);
    if (m->count != s->count) {
        say(w, RUN_WRONG, "rank %u gets %u elements from rank %u for %u", rank, (unsigned)m->count,
            s->peer, (unsigned)s->count);
        return NULL;
    }
    if (m->how == COPIED)
        return m->copy;
    const rd_step *from = &w->plans[s->peer]->steps[m->step];
    return cells(w, s->peer, from->from_buffer, from->from_at, from->count, false);
}

/* --- what steps wait for --- */

static bool is_completed(world *w, uint32_t rank, uint32_t step)
{
    const rd_plan *p = w->plans[rank];
    channel *c = &w->channels[rank][p->steps[step].peer];
    while (c->completed < c->sent &&
           (c->messages[c->completed].how != LENT || c->messages[c->completed].taken))
        c->completed++;
    return c->completed > step - p->lanes[p->steps[step].lane].first;
}

static bool deps_met(world *w, uint32_t rank, uint32_t step)
{
    const rd_plan *p = w->plans[rank];
    for (uint32_t d = 0; d < p->steps[step].deps; d++) {
        const rd_dep *dep = &p->deps[p->steps[step].first_dep + d];
        if (w->cursor[rank][dep->lane] <= dep->step)
            return false;
        if (p->steps[dep->step].verb == RD_SEND && !is_completed(w, rank, dep->step))
            return false;
    }
    return true;
}

/* --- running a step --- */

/* One operand of a fold, in its place. */
static void put(value *made, const value *operand, uint64_t count, bool first)
{
    for (uint64_t e = 0; e < count; e++)
        made[e] = first ? operand[e] : value_fold(made[e], operand[e]);
}

static bool make_many(world *w, uint32_t rank, const rd_step *s)
{
    const rd_plan *p = w->plans[rank];
    const rd_group *g = &p->groups[s->group];
    uint64_t *ids = calloc(s->count + 1, sizeof *ids);
    bool ok = true;
    for (uint32_t i = 0; i < g->count && ok; i++) {
        const uint32_t m = p->members[g->first + i];
        const value *operand = m == RD_NONE
                                   ? cells(w, rank, s->from_buffer, s->from_at, s->count, false)
                                   : content_of(w, rank, &p->steps[m]);
        ok = operand && (m == RD_NONE || p->steps[m].count == s->count);
        if (operand && !ok)
            say(w, RUN_WRONG, "rank %u folds messages of different sizes", rank);
        for (uint64_t e = 0; e < s->count && ok; e++)
            ids[e] = value_hash(ids[e] + 7, operand[e].id);
        if (ok)
            put(w->made, operand, s->count, i == 0);
    }
    for (uint64_t e = 0; e < s->count && ok && g->count > 1; e++)
        w->made[e].id = ids[e];
    free(ids);
    return ok;
}

/* Fills `made` with what the step writes. */
static bool make(world *w, uint32_t rank, const rd_step *s)
{
    if (s->verb == RD_FOLD_MANY)
        return make_many(w, rank, s);
    const value *there = s->peer != RD_NONE
                             ? content_of(w, rank, s)
                             : cells(w, rank, s->from_buffer, s->from_at, s->count, false);
    const value *here =
        s->verb == RD_FOLD    ? cells(w, rank, s->from_buffer, s->from_at, s->count, false)
        : s->verb == RD_MERGE ? cells(w, rank, s->to_buffer, s->to_at, s->count, false)
                              : there;
    if (!here || !there)
        return false;
    const bool folds = s->verb == RD_FOLD || s->verb == RD_MERGE;
    put(w->made, folds && s->side == RD_HERE_RIGHT ? there : here, s->count, true);
    if (folds)
        put(w->made, s->side == RD_HERE_RIGHT ? here : there, s->count, false);
    return true;
}

/* If the operand that came from this send's peer was lent and marked, the result goes straight there. */
static bool gave_back(world *w, uint32_t rank, const rd_step *f, const message *lent)
{
    const rd_plan *peer = w->plans[f->peer];
    const uint32_t back = lent && lent->how == LENT ? peer->steps[lent->step].back : RD_NONE;
    channel *c = &w->channels[rank][f->peer];
    if (back == RD_NONE || peer->steps[back].ordinal != c->sent || !often(w, w->returns))
        return false;
    const rd_step *r = &peer->steps[back];
    if (r->count != f->count || r->verb != RD_RECV || r->peer != rank)
        return say(w, RUN_WRONG, "rank %u gives back to rank %u what is not wanted", rank, f->peer);
    value *to = cells(w, f->peer, r->to_buffer, r->to_at, r->count, true);
    if (!to)
        return false;
    memcpy(to, w->made, f->count * sizeof *to);
    c->messages[c->sent++] = (message){.how = RETURNED, .count = f->count};
    return true;
}

static void forward(world *w, uint32_t rank, const rd_step *t)
{
    const rd_plan *p = w->plans[rank];
    for (uint32_t i = 0; i < t->forward_count; i++) {
        const uint32_t step = p->forwards[t->first_forward + i];
        const rd_step *f = &p->steps[step];
        if (w->cursor[rank][f->lane] != step || !has_room(w, rank, f->peer) || !often(w, w->fuses))
            continue;
        if (f->count != t->count) {
            say(w, RUN_WRONG, "rank %u forwards another size", rank);
            return;
        }
        const message *lent = NULL; /* what this step has taken from the peer */
        const rd_group *g = t->group == RD_NONE ? NULL : &p->groups[t->group];
        for (uint32_t k = 0; k < (g ? g->count : 1); k++) {
            const uint32_t member = g ? p->members[g->first + k] : RD_NONE;
            const uint32_t from = !g                  ? t->peer
                                  : member == RD_NONE ? RD_NONE
                                                      : p->steps[member].peer;
            if (from == f->peer)
                lent = &w->channels[from][rank].messages[w->channels[from][rank].taken - 1];
        }
        if (!gave_back(w, rank, f, lent) && !send(w, rank, step, w->made))
            return;
        w->cursor[rank][f->lane]++;
    }
}

static void take(world *w, uint32_t rank, uint32_t step)
{
    const rd_step *s = &w->plans[rank]->steps[step];
    channel *c = &w->channels[s->peer][rank];
    c->messages[c->taken++].taken = true;
    w->cursor[rank][s->lane]++;
}

/* All operands are there and may be folded. */
static bool gathered(world *w, uint32_t rank, uint32_t step, bool straight)
{
    const rd_plan *p = w->plans[rank];
    const rd_group *g = &p->groups[p->steps[step].group];
    for (uint32_t i = 0; i < g->count; i++) {
        const uint32_t m = p->members[g->first + i];
        if (m == RD_NONE)
            continue;
        if ((!straight && w->cursor[rank][p->steps[m].lane] != m) ||
            !arrived(w, rank, &p->steps[m]))
            return false;
        if (arrived(w, rank, &p->steps[m])->how == RETURNED)
            return say(w, RUN_WRONG, "rank %u was given back what it folds", rank);
    }
    return true;
}

static bool may_receive(world *w, uint32_t rank, uint32_t step, bool straight)
{
    const rd_step *s = &w->plans[rank]->steps[step];
    if (s->verb == RD_FOLD_MANY)
        return gathered(w, rank, step, straight) && (straight || deps_met(w, rank, step));
    const message *m = arrived(w, rank, s);
    if (!m)
        return false;
    if (m->how == RETURNED && s->verb != RD_RECV)
        return say(w, RUN_WRONG, "rank %u was given back what it folds", rank);
    return straight || (m->how == RETURNED && often(w, 2)) || deps_met(w, rank, step);
}

static void receive(world *w, uint32_t rank, uint32_t step, bool straight)
{
    const rd_plan *p = w->plans[rank];
    const rd_step *s = &p->steps[step];
    const bool returned = s->verb == RD_RECV && arrived(w, rank, s)->how == RETURNED;
    value *to = cells(w, rank, s->to_buffer, s->to_at, s->count, true);
    if (!to)
        return;
    if (returned) {
        memcpy(w->made, to, s->count * sizeof *to);
    } else {
        if (!make(w, rank, s))
            return;
        for (uint64_t e = 0; e < s->count && s->scale; e++)
            w->made[e] = value_scaled(w->made[e]);
        memcpy(to, w->made, s->count * sizeof *to);
    }
    const rd_group *g = s->group == RD_NONE ? NULL : &p->groups[s->group];
    for (uint32_t i = 0; i < (g ? g->count : 1); i++) {
        const uint32_t m = g ? p->members[g->first + i] : step;
        if (m != RD_NONE)
            take(w, rank, m);
    }
    if (!straight)
        forward(w, rank, s);
}

interpret_fn *interpret_listed;

static void run_listed(world *w, uint32_t rank, const rd_step *s)
{
    const rd_access *list = w->plans[rank]->accesses + s->first_access;
    value *at[8] = {NULL};
    for (uint32_t i = 0; i < 8; i++) {
        const rd_range r = list[i].range;
        if (!(at[i] = cells(w, rank, r.buffer, r.at, r.count, list[i].how & RD_WRITES)))
            return;
        if (list[i].last)
            break;
    }
    interpret_listed(s, list, at);
    w->cursor[rank][s->lane]++;
}

static void run_here(world *w, uint32_t rank, const rd_step *s)
{
    value *to = cells(w, rank, s->to_buffer, s->to_at, s->count, true);
    if (!to || !make(w, rank, s))
        return;
    for (uint64_t e = 0; e < s->count && (s->scale || s->verb == RD_SCALE); e++)
        w->made[e] = value_scaled(w->made[e]);
    memcpy(to, w->made, s->count * sizeof *to);
    w->cursor[rank][s->lane]++;
}

/* Runs the step if it can run now. */
static bool try_step(world *w, uint32_t rank, uint32_t step, bool straight)
{
    const rd_plan *p = w->plans[rank];
    const rd_step *s = &p->steps[step];
    if (s->verb == RD_SEND) {
        if (!straight && (!has_room(w, rank, s->peer) || !deps_met(w, rank, step)))
            return false;
        if (send(w, rank, step, NULL))
            w->cursor[rank][s->lane]++;
        return true;
    }
    if (s->peer == RD_NONE) {
        if (!straight && !deps_met(w, rank, step))
            return false;
        (s->first_access == RD_NONE ? run_here : run_listed)(w, rank, s);
        return true;
    }
    if (s->verb == RD_FOLD_MANY && p->groups[s->group].leader != step)
        return false;
    if (!may_receive(w, rank, step, straight))
        return false;
    receive(w, rank, step, straight);
    return true;
}

/* --- a run --- */

static bool has_left(const world *w, uint32_t rank)
{
    const rd_plan *p = w->plans[rank];
    if (!w->here[rank])
        return false;
    if (w->walks[rank])
        return w->walked[rank] == p->straight_count;
    for (uint32_t l = 0; l < p->lane_count; l++)
        if (w->cursor[rank][l] != p->lanes[l].end)
            return false;
    return true;
}

static bool try_unit(world *w, const unit *u)
{
    const rd_plan *p = w->plans[u->rank];
    bool ran;
    if (u->comes) {
        ran = !w->here[u->rank];
        w->here[u->rank] = true;
    } else if (!w->here[u->rank]) {
        return false;
    } else if (u->lane == RD_NONE) {
        const uint32_t next = w->walked[u->rank];
        ran = next < p->straight_count && try_step(w, u->rank, p->straight[next], true);
        w->walked[u->rank] += ran;
    } else {
        const uint32_t next = w->cursor[u->rank][u->lane];
        ran = next < p->lanes[u->lane].end && try_step(w, u->rank, next, false);
    }
    if (!ran || w->gone[u->rank] || !has_left(w, u->rank))
        return ran;
    w->gone[u->rank] = true;
    for (uint32_t r = 0; r < w->n && p->shape.kind == RONDA_BARRIER; r++)
        if (!w->here[r])
            say(w, RUN_WRONG, "rank %u leaves the barrier before rank %u has come", u->rank, r);
    return true;
}

static void shuffle(world *w)
{
    for (uint32_t i = w->unit_count; i > 1; i--) {
        const uint32_t k = (uint32_t)rng_below(w->random, i);
        const unit swapped = w->units[i - 1];
        w->units[i - 1] = w->units[k];
        w->units[k] = swapped;
    }
}

static void start(world *w)
{
    w->copies_used = 0;
    w->unit_count = 0;
    w->straight = often(w, 1);
    const uint32_t walkers = often(w, 2) ? 4 : 2;
    w->room = (uint32_t)(const uint32_t[]){1, 1, 2, 1000}[rng_below(w->random, 4)];
    w->lends = (uint32_t)(const uint32_t[]){0, 2, 4, 4}[rng_below(w->random, 4)];
    w->fuses = (uint32_t)(const uint32_t[]){0, 2, 4, 4}[rng_below(w->random, 4)];
    w->returns = (uint32_t)(const uint32_t[]){0, 2, 4, 4}[rng_below(w->random, 4)];
    for (uint32_t r = 0; r < w->n; r++) {
        const rd_plan *p = w->plans[r];
        fill_memory(w, r);
        w->walked[r] = 0;
        w->gone[r] = w->here[r] = false;
        w->units[w->unit_count++] = (unit){.rank = r, .comes = true};
        w->walks[r] = is_small(w, r) && often(w, walkers);
        if (w->walks[r])
            w->units[w->unit_count++] = (unit){.rank = r, .lane = RD_NONE};
        for (uint32_t l = 0; l < p->lane_count; l++) {
            w->cursor[r][l] = p->lanes[l].first;
            if (!w->walks[r])
                w->units[w->unit_count++] = (unit){.rank = r, .lane = l};
        }
        for (uint32_t q = 0; q < w->n; q++)
            w->channels[r][q].sent = w->channels[r][q].taken = w->channels[r][q].completed = 0;
    }
    shuffle(w);
}

static bool is_right(world *w, uint32_t rank, uint64_t e)
{
    const rd_plan *p = w->plans[rank];
    const value is = w->buffer[rank][RD_OUT][e], wanted = outcome(w->plans, rank, e);
    if (p->shape.kind == RONDA_BARRIER)
        return is.ranks == wanted.ranks;
    if (is.sum != wanted.sum)
        return false;
    if (!rd_kind_reduces(p->shape.kind))
        return is.id == wanted.id;
    if (rd_keeps_order(p->algorithm, &p->shape) && is.chain != wanted.chain)
        return false;
    return p->shape.kind != RONDA_ALLREDUCE || is.id == w->buffer[0][RD_OUT][e].id;
}

static void judge(world *w)
{
    for (uint32_t r = 0; r < w->n; r++) {
        if (!has_left(w, r)) {
            say(w, RUN_HANGS, "rank %u hangs", r);
            return;
        }
        for (uint32_t q = 0; q < w->n; q++)
            if (w->channels[r][q].taken != w->channels[r][q].sent)
                say(w, RUN_WRONG, "a message from rank %u to rank %u is left over", r, q);
        const uint64_t count = rd_out_count(&w->plans[r]->shape);
        for (uint64_t e = 0; e < count; e++)
            if (!is_right(w, r, e))
                say(w, RUN_WRONG, "rank %u: element %u is wrong", r, (unsigned)e);
    }
}

/* Two tempers: any unit that can go on, or always the same favourites, so that others starve. */
static void run(world *w)
{
    start(w);
    const bool fair = often(w, 2);
    for (bool moved = true; moved && w->result->verdict == RUN_RIGHT;) {
        const uint64_t first = fair ? rng_below(w->random, w->unit_count) : 0;
        moved = false;
        for (uint32_t i = 0; i < w->unit_count && !moved && w->result->verdict == RUN_RIGHT; i++)
            moved = try_unit(w, &w->units[(first + i) % w->unit_count]);
        if (!fair && rng_below(w->random, 16) == 0)
            shuffle(w);
    }
    judge(w);
}

interpretation interpret(rd_plan *const plans[], uint32_t n, uint32_t runs, rng *random)
{
    interpretation result = {.verdict = RUN_RIGHT};
    world w = {.plans = plans, .n = n, .random = random, .result = &result};
    uint64_t copies = 1, most = 1;
    size_t units = 2 * n;
    for (uint32_t r = 0; r < n; r++) {
        const rd_plan *p = plans[r];
        place_buffers(&w, r);
        w.cursor[r] = calloc(p->lane_count + 1, sizeof *w.cursor[r]);
        units += p->lane_count;
        for (uint32_t q = 0; q < n; q++)
            w.channels[r][q].messages = calloc(p->step_count + 1, sizeof(message));
        for (uint32_t i = 0; i < p->step_count; i++) {
            copies += p->steps[i].count;
            most = p->steps[i].count > most ? p->steps[i].count : most;
        }
    }
    w.copies = calloc(copies, sizeof *w.copies);
    w.made = calloc(most, sizeof *w.made);
    w.units = calloc(units, sizeof *w.units);
    for (uint32_t i = 0; i < runs && result.verdict == RUN_RIGHT; i++)
        run(&w);
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t q = 0; q < n; q++)
            free(w.channels[r][q].messages);
        free(w.memory[r]);
        free(w.cursor[r]);
    }
    free(w.copies);
    free(w.made);
    free(w.units);
    return result;
}
