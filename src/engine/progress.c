/* progress.c: moves whatever can move, of this communicator and of those that share its thread.
 *
 * Communicators that were split off each other have an engine each, in a ring.  Whoever waits for one of
 * them moves them all: what a peer waits for may be a call of another one. */
#include "base/clock.h"
#include "engine/flight.h"
#include "engine/mail.h"

#include <sched.h>

uint32_t rd_channel_number(const rd_engine *e, const rd_job *job)
{
    const uint32_t half = e->link->channels / 2; /* a power of two */
    return (job->priority > 0 ? half : 0) + (uint32_t)(job->record.sequence & (half - 1));
}

rd_channel *rd_channel_of(rd_engine *e, const rd_job *job)
{
    return &e->channels[rd_channel_number(e, job)];
}

uint32_t rd_channel_bit(const rd_engine *e, const rd_flight *f)
{
    return 1u << rd_channel_number(e, &f->job);
}

bool rd_channel_paid(rd_engine *e, rd_channel *c)
{
    while (c->owed_count &&
           e->transport->home(c->owed[c->owed_count - 1].port, c->owed[c->owed_count - 1].message))
        c->owed_count--;
    return c->owed_count == 0;
}

static void begin(rd_engine *e, rd_flight *f)
{
    rd_channel *c = rd_channel_of(e, &f->job);
    if (f->larger && f->larger_bytes > c->bytes) {
        e->transport->free(e->link, c->memory, c->bytes);
        c->memory = f->larger;
        c->bytes = f->larger_bytes;
        f->larger = NULL;
    }
    rd_flight_begin(e, f);
}

static void end(rd_engine *e, rd_flight *f)
{
    rd_channel *c = rd_channel_of(e, &f->job);
    f->done = true;
    rd_swap_end(e, f);
    c->first = f->behind;
    e->busy &= c->first ? e->busy : ~rd_channel_bit(e, f);
    for (uint32_t l = 0; l < f->plan->lane_count; l++) {
        const rd_lane_state *lane = &f->lanes[l];
        const uint32_t scratch = lane->lent > lane->lent_user ? lane->lent : 0;
        const uint32_t last = lane->swapped > scratch ? lane->swapped : scratch;
        if (last && !e->transport->home(lane->port, lane->base + last - 1))
            rd_channel_owes(
                c, (rd_loan_out){lane->port, f->plan->lanes[l].peer, lane->base + last - 1});
    }
}

static uint32_t advance(rd_engine *e, rd_flight *f)
{
    uint32_t ran = f->open_count ? rd_flight_advance(e, f) : 0;
    if (rd_flight_ended(e, f)) {
        end(e, f);
        ran++;
    }
    return ran;
}

static bool precedes(const rd_flight *a, const rd_flight *b)
{
    return a->job.priority != b->job.priority ? a->job.priority > b->job.priority
                                              : a->job.record.sequence < b->job.record.sequence;
}

rd_flight *rd_flight_next(const rd_engine *e, uint32_t channels)
{
    rd_flight *best = NULL;
    for (; channels; channels &= channels - 1) {
        rd_flight *f = e->channels[__builtin_ctz(channels)].first;
        if (!best || precedes(f, best))
            best = f;
    }
    return best;
}

/* Flights begin in their order.  A channel on which one is done is the next one's in the same round. */
static uint32_t move(rd_engine *e)
{
    uint32_t ran = 0, seen = 0; /* channels whose first flight cannot go on */
    for (rd_flight *f; (f = rd_flight_next(e, e->busy & ~seen));) {
        if (f->begun || rd_channel_paid(e, rd_channel_of(e, &f->job))) {
            if (!f->begun)
                begin(e, f);
            ran += advance(e, f);
        }
        if (!f->done)
            seen |= rd_channel_bit(e, f);
    }
    return ran;
}

/* --- the others --- */

/* What is done, and what nobody has waited for, is no reason to look. */
static bool moves(const rd_engine *e)
{
    return e->busy || rd_mail_waiting(e);
}

bool rd_kin_busy(const rd_engine *e)
{
    for (const rd_engine *k = e->kin; k != e; k = k->kin)
        if (k->first || rd_mail_busy(k))
            return true;
    return false;
}

static bool is_lost(rd_engine *e)
{
    if (e->wrong || (rd_mail_busy(e) && rd_engine_must_leave(e, UINT64_MAX)))
        return true;
    for (uint32_t c = 0; c < e->link->channels; c++) /* what concerns any concerns the youngest */
        if (e->busy >> c & 1 && rd_engine_must_leave(e, e->channels[c].last->job.record.sequence))
            return true;
    return false;
}

/* From outside: what the failure of its world concerns is lost, the rest moves.  looks: nobody waits for it,
 * so whether its peers live is seen here or nowhere. */
static uint32_t visit(rd_engine *k, bool looks)
{
    uint32_t ran = 0;
    if (!moves(k))
        return 0;
    rd_engine_step_in(k);
    if (looks)
        rd_engine_pump(k);
    if (is_lost(k))
        rd_engine_lose(k);
    else if (!(ran = move(k) + rd_mail_move(k)) && looks)
        rd_engine_look_after(k);
    rd_engine_step_out(k);
    return ran;
}

uint32_t rd_kin_move(rd_engine *e)
{
    uint32_t ran = 0;
    for (rd_engine *k = e->kin; k != e; k = k->kin)
        ran += visit(k, false);
    return ran;
}

uint32_t rd_engine_progress(rd_engine *e)
{
    return move(e) + rd_mail_move(e) + (e->kin == e ? 0 : rd_kin_move(e));
}

/* --- for a thread of its own --- */

bool rd_engine_busy(const rd_engine *e)
{
    const rd_engine *k = e;
    do {
        if (moves(k))
            return true;
        k = k->kin;
    } while (k != e);
    return false;
}

uint32_t rd_engine_tend(rd_engine *e)
{
    uint32_t ran = 0;
    rd_engine *k = e;
    do {
        ran += visit(k, true);
        k = k->kin;
    } while (k != e);
    return ran;
}

void rd_engine_doze(rd_engine *e, bool briefly)
{
    enum { LONG = 1 << 20, A_WHILE = 20000000 };
    if (briefly)
        sched_yield();
    else
        e->transport->wait(e->link, NULL, LONG, rd_now_ns() + A_WHILE);
}

void rd_engine_nudge(rd_engine *e)
{
    if (e)
        e->transport->nudge(e->link);
}

rd_engine *rd_engine_next(const rd_engine *e)
{
    return e->kin == e ? NULL : e->kin;
}
