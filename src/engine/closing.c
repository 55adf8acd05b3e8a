/* closing.c: what a rank that closes can still find out about its last calls.
 *
 * A call that only sends is over before its peers have seen it.  If no other call follows, nobody looks at what they
 * did instead; so whoever closes does.  It looks at what its peers have announced so far, and waits for nobody.
 * Of two ranks that disagree, the one that closes later finds it:
 *
 *     the peer has announced another call of the same number       both names and calls: RONDA_EMISMATCH
 *     the peer has made more calls, and has closed                 the same
 *     the peer has made fewer calls, and has closed                it was needed: RONDA_EPEER
 *     the peer has made more calls, and is still there             it finds the line above, now or when it closes
 *
 * Messages need not be looked at: whoever sends one has announced its call, and over sockets a message says which
 * call it is of as soon as it is there, read or not.
 *
 * And it waits until its peers have taken what they were lent: that must not be freed under a reader. */
#include "base/clock.h"
#include "engine/operation.h"

enum { HISTORY = 128, QUICK = 64 }; /* calls; idle rounds before peers are looked at */

/* The last call that both this rank and the peer can still tell of.  Marks cover all calls before, so an older one
 * need not be looked at. */
static bool last_in_common(rd_engine *e, uint32_t peer, rd_record *ours, rd_record *theirs)
{
    rd_link *link = e->link;
    for (uint64_t q = e->entered, n = 0; q && n < HISTORY; q--, n++)
        if (e->transport->record(link, peer, q, theirs) &&
            e->transport->record(link, link->rank, q, ours))
            return true;
    return false;
}

/* A rank's first call from `first` to `last` that is still known. */
static bool find_call(rd_engine *e, uint32_t rank, uint64_t first, uint64_t last, rd_record *call)
{
    for (uint64_t q = last - first < HISTORY ? first : last - HISTORY; q <= last; q++)
        if (e->transport->record(e->link, rank, q, call))
            return true;
    return false;
}

/* The peer has closed, and this rank closes now: one has made calls that the other has not. */
static ronda_status compare_ends(rd_engine *e, uint32_t peer, uint64_t their_last, rd_error *err)
{
    rd_link *link = e->link;
    rd_record call;
    if (their_last < e->entered && find_call(e, link->rank, their_last + 1, e->entered, &call))
        return rd_trouble_closed(link, &call, peer, err);
    if (their_last > e->entered && find_call(e, peer, e->entered + 1, their_last, &call))
        return rd_trouble_missed(link, &call, peer, err);
    return RONDA_OK;
}

static ronda_status compare(rd_engine *e, uint32_t peer, bool *alone, rd_error *err)
{
    rd_record ours, theirs;
    const rd_presence p = e->transport->presence(e->link, peer);
    if (atomic_load(e->link->alarm)) /* it is dead */
        return RONDA_OK;
    if (last_in_common(e, peer, &ours, &theirs) && ours.mark != theirs.mark)
        return rd_trouble_mismatch(e->link, &ours, peer, err);
    *alone = p.closed && p.sequence > e->entered;
    return p.closed ? compare_ends(e, peer, p.sequence, err) : RONDA_OK;
}

/* *alone: it is this rank that has missed calls; whoever needs it is told that it has closed. */
static ronda_status look_at_peers(rd_engine *e, bool *alone, rd_error *err)
{
    ronda_status status = RONDA_OK;
    for (uint32_t peer = 0; peer < e->link->size && !status; peer++)
        if (peer != e->link->rank)
            status = compare(e, peer, alone, err);
    return status;
}

/* Others found out that two ranks disagree about a call which this rank has made, and it has not been told. */
static ronda_status hear_of_mismatch(rd_engine *e, rd_error *err)
{
    rd_error cause = {0};
    if (e->heard)
        return RONDA_OK;
    e->transport->cause(e->link, &cause);
    if (cause.status != RONDA_EMISMATCH || cause.sequence > e->entered)
        return RONDA_OK;
    e->heard = true;
    rd_engine_cause(e, err);
    return err->status;
}

void rd_engine_heard(rd_engine *e)
{
    e->heard = true;
}

ronda_status rd_look_back(rd_engine *e, rd_error *err)
{
    if (e->link->size == 1 || e->first)
        return RONDA_OK;
    rd_engine_pump(e);
    bool alone = false;
    if (atomic_load(e->link->alarm) || !look_at_peers(e, &alone, err))
        return atomic_load(e->link->alarm) ? hear_of_mismatch(e, err) : RONDA_OK;
    e->heard = true;
    if (!alone) {
        e->transport->abort(e->link, err);
        rd_engine_cause(e, err); /* another rank may have said something first */
    }
    return err->status;
}

/* --- what peers have not taken yet --- */

/* A peer that has closed and has not taken what it was lent; RONDA_ANY: none.  One that has died raises the alarm
 * when it is asked after. */
static uint32_t closed_debtor(rd_engine *e, const rd_channel *c)
{
    for (uint32_t i = 0; i < c->owed_count; i++)
        if (e->transport->presence(e->link, c->owed[i].peer).closed &&
            !e->transport->completed(c->owed[i].port, c->owed[i].message))
            return c->owed[i].peer;
    return RONDA_ANY;
}

static ronda_status not_taken(rd_engine *e, ronda_status status, uint32_t peer, rd_error *err)
{
    const uint32_t rank = err->rank = e->link->rank;
    rd_fail(err, status, peer, "rank %u closed, but rank %u %s not taken what rank %u had sent it",
            rank, peer, status == RONDA_EPEER ? "had closed before and has" : "has", rank);
    e->transport->abort(e->link, err);
    return status;
}

/* The world failed while this rank closed, and a peer has not taken what it was lent: it died, say. */
static ronda_status failed_meanwhile(rd_engine *e, rd_error *err)
{
    if (e->heard)
        return RONDA_OK;
    e->heard = true;
    rd_engine_cause(e, err);
    return err->status;
}

/* If a peer never comes for what it was lent the world has to end. */
ronda_status rd_settle(rd_engine *e, uint64_t timeout_ns, bool failed, rd_error *err)
{
    ronda_status status = RONDA_OK;
    const uint64_t until = rd_deadline_ns(timeout_ns);
    for (uint32_t c = 0; c < RD_CHANNELS; c++) {
        rd_channel *channel = &e->channels[c];
        for (uint32_t idle = 0; channel->owed_count && !rd_channel_paid(e, channel); idle++) {
            if (atomic_load(e->link->alarm)) {
                status = status || failed ? status : failed_meanwhile(e, err);
                break;
            }
            const bool late = rd_now_ns() >= until;
            const uint32_t gone = idle < QUICK ? RONDA_ANY : closed_debtor(e, channel);
            if (late || gone != RONDA_ANY) {
                const uint32_t last = channel->owed[channel->owed_count - 1].peer;
                status = rd_look_back(e, err); /* it may have closed after another call */
                if (!status)
                    status = gone != RONDA_ANY ? not_taken(e, RONDA_EPEER, gone, err)
                                               : not_taken(e, RONDA_ETIMEOUT, last, err);
                break;
            }
            rd_siblings_progress(e); /* what a peer waits for before it comes may be there */
            e->transport->wait(e->link, NULL, idle, until);
        }
    }
    if (atomic_load(e->link->alarm))
        rd_engine_quiesce(e, timeout_ns);
    return status;
}
