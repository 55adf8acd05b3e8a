/* look.c: whom this rank waits for, and whether that one lives and agrees.
 *
 * Nothing here runs while things move.  A rank that has waited for a while looks around now and then:
 * at the board, where its peers have announced their calls, and at the queues to and from them. */
#include "engine/operation.h"

bool rd_lane_waits(rd_engine *e, const rd_operation *f, uint32_t l)
{
    const rd_lane_state *lane = &f->lanes[l];
    rd_view view;
    if (f->plan->lanes[l].peer == RD_NONE)
        return false;
    if (!f->plan->lanes[l].sends) /* less than an element of a message is of no use */
        return lane->next != lane->end && (!e->transport->peek(lane->port, &view) ||
                                           (view.bytes < f->width && view.bytes < view.total));
    if (lane->next != lane->end && (lane->refused || !e->transport->can_send(lane->port)))
        return true; /* refused: there is room for a message, but not for its bytes */
    if (e->transport->pushes && lane->port && lane->next == lane->end &&
        !e->transport->gone(lane->port, lane->base + lane->end - 1))
        return true;
    return lane->lent && !e->transport->completed(lane->port, lane->base + lane->lent - 1);
}

static bool has_closed(rd_engine *e, uint32_t peer)
{
    return e->transport->presence(e->link, peer).closed;
}

/* A loan that is not released yet: has its peer died, closed, or made another call?  *whom: that peer. */
static ronda_status look_at_loan(rd_engine *e, const rd_record *call, const rd_loan_out *loan,
                                 uint32_t *whom, rd_error *err)
{
    /* First, since it may have taken it and closed; this also finds that the peer has died, and fails the world */
    const bool closed = has_closed(e, loan->peer);
    if (e->transport->completed(loan->port, loan->message))
        return RONDA_OK;
    if (*whom == RONDA_ANY)
        *whom = loan->peer;
    const ronda_status status = rd_trouble_look(e->link, call, loan->peer, err);
    return status || !closed ? status : rd_trouble_closed(e->link, call, loan->peer, err);
}

ronda_status rd_look_at_loans(rd_engine *e, const rd_channel *c, const rd_record *call,
                              uint32_t *whom, rd_error *err)
{
    ronda_status status = RONDA_OK;
    for (uint32_t i = 0; i < c->owed_count && !status; i++)
        status = look_at_loan(e, call, &c->owed[i], whom, err);
    return status;
}

/* Looks at the peers that an operation waits for; one that has not begun waits for its channel's loans.  A peer may
 * have sent just before it closed, so what we wait for is looked at again after the peer was seen to have closed.
 * *whom: one whom we wait for, rather one that has not made the call, rather one that should send; RONDA_ANY:
 * nobody, things can go on. */
static ronda_status look(rd_engine *e, const rd_operation *f, uint32_t *whom, uint32_t *best,
                         rd_error *err)
{
    if (!f->begun)
        return rd_look_at_loans(e, rd_channel_of(e, &f->job), &f->job.record, whom, err);
    for (uint32_t l = 0; l < f->plan->lane_count; l++) {
        const rd_plan_lane *lane = &f->plan->lanes[l];
        if (lane->peer == RD_NONE)
            continue;
        const bool closed = has_closed(e, lane->peer);
        if (!rd_lane_waits(e, f, l))
            continue;
        const ronda_status status = rd_trouble_look(e->link, &f->job.record, lane->peer, err);
        if (status)
            return status;
        if (closed)
            return rd_trouble_closed(e->link, &f->job.record, lane->peer, err);
        const bool absent =
            e->transport->presence(e->link, lane->peer).sequence < f->job.record.sequence;
        const uint32_t weight = 1u + !lane->sends + 2u * absent;
        if (weight > *best) {
            *whom = lane->peer;
            *best = weight;
        }
    }
    return RONDA_OK;
}

static ronda_status look_at(rd_engine *e, const rd_record *call, const rd_awaited *what,
                            uint32_t *whom, rd_error *err)
{
    rd_view view;
    const bool closed = has_closed(e, what->peer);
    if (what->sends ? e->transport->can_send(what->port)
                    : e->transport->peek(what->port, &view) && view.bytes == view.total)
        return RONDA_OK;
    *whom = what->peer;
    const ronda_status status = rd_trouble_look(e->link, call, what->peer, err);
    return status || !closed ? status : rd_trouble_closed(e->link, call, what->peer, err);
}

ronda_status rd_look_around(rd_engine *e, const rd_record *call, const rd_awaited *what,
                            uint32_t *whom, rd_error *err)
{
    ronda_status status = RONDA_OK;
    uint32_t best = 0, left = e->busy;
    if (what)
        return look_at(e, call, what, whom, err);
    for (rd_operation *f; !status && (f = rd_operation_next(e, left));
         left &= ~rd_channel_bit(e, f))
        status = look(e, f, whom, &best, err);
    return status;
}
