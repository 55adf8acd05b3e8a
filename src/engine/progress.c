/* progress.c: moves whatever can move, of this communicator and of those that share its thread.
 *
 * Communicators that were split off each other have an engine each, in a ring.  Whoever waits for one of
 * them moves them all: what a peer waits for may be a call of another one.
 *
 * A round goes from the operations of most priority to those of least, and from engine to engine.  What has many bytes to
 * copy or fold does so in pieces.  Before each, operations of more priority are moved, of all engines; when one of them
 * is done the round ends there, and the next one goes on where it left off:
 *
 *     bulk:   piece | piece | piece |               | piece | ...
 *     urgent:       ^       ^       ^ message, done ^
 *                   nothing above                   whoever waits for it has been told */
#include "base/clock.h"
#include "engine/messages.h"
#include "engine/operation.h"

#include <sched.h>

uint32_t rd_channel_bit(const rd_engine *e, const rd_operation *f)
{
    return 1u << rd_channel_number(e, &f->job);
}

bool rd_channel_paid(rd_channel *c)
{
    while (c->owed_count &&
           rd_port_completed(c->owed[c->owed_count - 1].port, c->owed[c->owed_count - 1].message))
        c->owed_count--;
    return c->owed_count == 0;
}

static void begin(rd_engine *e, rd_operation *f)
{
    rd_channel *c = rd_channel_of(e, &f->job);
    assert(c->first == f && !c->owed_count);
    if (f->larger && f->larger_bytes > c->bytes) {
        e->transport->free(e->link, c->memory, c->bytes);
        c->memory = f->larger;
        c->bytes = f->larger_bytes;
        f->larger = NULL;
    }
    rd_operation_begin(e, f);
}

static void end(rd_engine *e, rd_operation *f)
{
    rd_channel *c = rd_channel_of(e, &f->job);
    assert(c->first == f && f->begun && !f->done && !f->lost);
    f->done = true;
    rd_swap_end(e, f);
    c->first = f->behind;
    e->busy &= c->first ? e->busy : ~rd_channel_bit(e, f);
    for (uint32_t l = 0; l < f->plan->lane_count; l++) {
        const rd_lane_state *lane = &f->lanes[l];
        const uint32_t scratch = lane->lent > lane->lent_user ? lane->lent : 0;
        const uint32_t last = lane->swapped > scratch ? lane->swapped : scratch;
        if (last && !rd_port_completed(lane->port, lane->base + last - 1))
            rd_channel_owes(
                c, (rd_loan_out){lane->port, f->plan->lanes[l].peer, lane->base + last - 1});
    }
}

static uint32_t advance(rd_engine *e, rd_operation *f)
{
    uint32_t ran = f->open_count ? rd_operation_advance(e, f) : 0;
    if (rd_operation_ended(e, f)) {
        end(e, f);
        ran++;
    }
    return ran;
}

static bool precedes(const rd_operation *a, const rd_operation *b)
{
    return a->job.priority != b->job.priority ? a->job.priority > b->job.priority
                                              : a->job.record.sequence < b->job.record.sequence;
}

rd_operation *rd_operation_next(const rd_engine *e, uint32_t channels)
{
    rd_operation *best = NULL;
    for (; channels; channels &= channels - 1) {
        rd_operation *f = e->channels[__builtin_ctz(channels)].first;
        assert(f); /* a channel is busy if, and only if, it has an operation */
        if (!best || precedes(f, best))
            best = f;
    }
    return best;
}

/* What is done, and what nobody has waited for, is no reason to look. */
static bool moves(const rd_engine *e)
{
    return e->busy || rd_messages_waiting(e);
}

static bool is_lost(rd_engine *e)
{
    if (e->wrong || (rd_messages_busy(e) && rd_engine_must_leave(e, UINT64_MAX)))
        return true;
    for (uint32_t c = 0; c < e->link->channels; c++) /* what concerns any concerns the youngest */
        if (e->busy >> c & 1 && rd_engine_must_leave(e, e->channels[c].last->job.record.sequence))
            return true;
    return false;
}

/* --- pieces --- */

/* One round: how many steps that were, and whether to return to the caller before all is done that could be. */
typedef struct {
    uint32_t ran;
    bool stop;
} round_of;

static round_of move(rd_engine *e, int64_t above);

/* Has it an operation of more priority than this? */
static bool has_above(const rd_engine *e, int64_t priority)
{
    const rd_operation *f = rd_operation_next(e, e->busy);
    return f && f->job.priority > priority;
}

static bool any_above(const rd_engine *e, int64_t priority)
{
    const rd_engine *k = e;
    do {
        if (has_above(k, priority))
            return true;
        k = k->sibling;
    } while (k != e);
    return false;
}

/* A sibling that nobody is inside of: what the failure of its world concerns is left to who visits it. */
static round_of move_sibling(rd_engine *k, int64_t above)
{
    round_of its = {0};
    rd_engine_step_in(k);
    k->moving = true;
    if (!is_lost(k))
        its = move(k, above);
    k->moving = false;
    rd_engine_step_out(k);
    return its;
}

/* All operations of more priority, of this engine and its siblings.  Stop: one is done, and whoever waits for it is to
 * know at once. */
static round_of move_above(rd_engine *e, int64_t priority)
{
    round_of all = {0};
    rd_engine *k = e;
    do {
        if (has_above(k, priority)) {
            const rd_operation *first = rd_operation_next(k, k->busy);
            const round_of its = (k->moving ? move : move_sibling)(k, priority);
            all.ran += its.ran;
            all.stop |= its.stop || first->done;
        }
        k = k->sibling;
    } while (k != e);
    return all;
}

/* Before a piece of operation f: those of more priority get a moment to finish first, or the piece would hold up their
 * next message for as long as it takes. */
static round_of give_way(rd_engine *e, const rd_operation *f)
{
    enum { LOOKS = 16 };
    round_of all = {0};
    for (int i = 0; i < LOOKS && !all.stop && any_above(e, f->job.priority); i++) {
        const round_of its = move_above(e, f->job.priority);
        all.ran += its.ran;
        all.stop = its.stop;
        if (!all.stop) /* takes in what has come, and yields if the peer may be on this core */
            e->transport->wait(e->link, NULL, (uint32_t)i + 1, 0);
    }
    return all;
}

static bool is_wanted(const rd_engine *e)
{
    return e->wanted && atomic_load_explicit(e->wanted, memory_order_relaxed);
}

/* Has it so many bytes to copy and fold that others would notice? */
static bool is_large(const rd_operation *f)
{
    const rd_shape *s = &f->plan->shape;
    return (rd_in_count(s) + rd_out_count(s)) * s->width >= RD_BUDGET / 2;
}

/* All that an operation can do now, in pieces; one at least, unless another operation is done. */
static round_of run_operation(rd_engine *e, rd_operation *f)
{
    round_of all = {0};
    const bool large = is_large(f);
    do {
        const round_of others = large ? give_way(e, f) : (round_of){0};
        all.ran += others.ran;
        all.stop = others.stop;
        if (all.stop)
            break;
        all.ran += advance(e, f);
        all.stop = rd_has_spent(e) && is_wanted(e);
    } while (!all.stop && !f->done && rd_has_spent(e));
    return all;
}

/* Operations of more priority than this.  They begin in their order.  A channel on which one is done is the next one's
 * in the same round. */
static round_of move(rd_engine *e, int64_t above)
{
    round_of all = {0};
    uint32_t seen = 0; /* channels whose first operation cannot go on */
    for (rd_operation *f;
         !all.stop && (f = rd_operation_next(e, e->busy & ~seen)) && f->job.priority > above;) {
        if (f->begun || rd_channel_paid(rd_channel_of(e, &f->job))) {
            if (!f->begun)
                begin(e, f);
            const round_of its = run_operation(e, f);
            all.ran += its.ran;
            all.stop = its.stop;
        }
        if (!f->done)
            seen |= rd_channel_bit(e, f);
    }
    return all;
}

/* --- the others --- */

bool rd_siblings_busy(const rd_engine *e)
{
    for (const rd_engine *k = e->sibling; k != e; k = k->sibling)
        if (k->first || rd_messages_busy(k))
            return true;
    return false;
}

static round_of move_all(rd_engine *e)
{
    round_of all = move(e, INT64_MIN);
    if (!all.stop)
        all.ran += rd_messages_move(e);
    return all;
}

/* From outside: what the failure of its world concerns is lost, the rest moves.  looks: nobody waits for it,
 * so whether its peers live is seen here or nowhere. */
static round_of visit(rd_engine *k, bool looks)
{
    round_of its = {0};
    if (!moves(k))
        return its;
    rd_engine_step_in(k);
    k->moving = true;
    if (looks)
        rd_engine_pump(k);
    if (is_lost(k))
        rd_engine_lose(k);
    else if (!(its = move_all(k)).ran && looks)
        rd_engine_look_after(k);
    k->moving = false;
    rd_engine_step_out(k);
    return its;
}

uint32_t rd_siblings_progress(rd_engine *e)
{
    round_of all = {0};
    for (rd_engine *k = e->sibling; k != e && !all.stop; k = k->sibling) {
        const round_of its = visit(k, false);
        all.ran += its.ran;
        all.stop = its.stop;
    }
    return all.ran;
}

uint32_t rd_engine_progress(rd_engine *e)
{
    e->moving = true;
    const round_of its = move_all(e);
    const uint32_t others = e->sibling == e || its.stop ? 0 : rd_siblings_progress(e);
    e->moving = false;
    return its.ran + its.stop + others;
}

/* --- for a thread of its own --- */

bool rd_engine_busy(const rd_engine *e)
{
    const rd_engine *k = e;
    do {
        if (moves(k))
            return true;
        k = k->sibling;
    } while (k != e);
    return false;
}

uint32_t rd_engine_progress_all(rd_engine *e)
{
    round_of all = {0};
    rd_engine *k = e;
    do {
        const round_of its = visit(k, true);
        all.ran += its.ran;
        all.stop = its.stop;
        k = k->sibling;
    } while (k != e && !all.stop);
    return all.ran + all.stop;
}

void rd_engine_let_in(rd_engine *e, const _Atomic uint32_t *wanted)
{
    e->wanted = wanted;
}

void rd_engine_sleep(rd_engine *e, bool briefly)
{
    enum { LONG = 1 << 20, A_WHILE = 20000000 };
    if (briefly)
        sched_yield();
    else
        e->transport->wait(e->link, NULL, LONG, rd_now_ns() + A_WHILE);
}

void rd_engine_wake(rd_engine *e)
{
    if (e)
        e->transport->wake(e->link);
}

rd_engine *rd_engine_next(const rd_engine *e)
{
    return e->sibling == e ? NULL : e->sibling;
}
