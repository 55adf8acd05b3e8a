/* run.c: per lane a cursor; go round the lanes and run each head that can run.
 *
 * A step that folds makes one pass over its data.  Where a peer has said where it awaits the result
 * (a send of exactly this range is linked to the fold as a forward, and the peer's message named its
 * ordinal), the same pass stores the result there too and the send shrinks to an empty message. */
#include "engine/local.h"

static char *place(const rd_flight *f, uint8_t buffer, uint64_t at)
{
    return f->buffer[buffer] + at * f->width;
}

/* --- beginning --- */

void rd_flight_begin(rd_engine *e, rd_flight *f)
{
    const rd_plan *p = f->plan;
    const uint32_t channel = rd_channel_number(e, &f->job);

    assert(!f->begun && channel < e->link->channels);
    f->begun = true;
    f->open_count = p->lane_count;
    f->buffer[RD_SCRATCH] = e->channels[channel].memory;
    for (uint32_t l = 0; l < p->lane_count; l++) {
        const rd_plan_lane *lane = &p->lanes[l];
        rd_lane_state *state = &f->lanes[l];
        assert(lane->first < lane->end && lane->end <= p->step_count);
        *state = (rd_lane_state){.next = lane->first, .end = lane->end};
        if (lane->peer != RD_NONE) {
            state->port = rd_port_to(e, lane->peer, channel);
            state->base = e->transport->sent(state->port) - lane->first;
        }
        f->open[l] = l;
    }
}

/* --- readiness --- */

static inline bool ready(rd_engine *e, const rd_flight *f, const rd_step *s)
{
    const rd_dep *d = f->plan->deps + s->first_dep;
    for (const rd_dep *end = d + s->deps; d < end; d++) {
        const rd_lane_state *lane = &f->lanes[d->lane];
        if (lane->next <= d->step)
            return false;
        if (d->step < lane->lent && !e->transport->home(lane->port, lane->base + d->step))
            return false;
    }
    return true;
}

/* The message at the head of a lane, if it is there and is the one that step s is about.  What comes of
 * it may be no more than is still wanted, and only a receive can do without its bytes. */
static inline bool arrived(rd_engine *e, rd_flight *f, const rd_lane_state *lane, const rd_step *s,
                           rd_view *view)
{
    if (!e->transport->peek(lane->port, view))
        return false;
    const bool fits = view->mark == f->job.record.mark && view->total == s->count * f->width;
    if (fits && view->bytes <= view->total - lane->taken && (view->data || s->verb == RD_RECV))
        return true;
    e->wrong = s->peer + 1;
    e->mad = fits || view->total == UINT64_MAX;
    e->wronged = f->job.record;
    return false;
}

/* --- sends --- */

/* So many bytes of the send at the head of a lane are on their way. */
static void advance_send(rd_lane_state *lane, uint64_t bytes, uint64_t total)
{
    assert(lane->next < lane->end && bytes <= total - lane->taken);
    lane->taken += bytes;
    lane->held = 0;
    if (lane->taken < total)
        return;
    lane->taken = 0;
    lane->next++;
}

/* A piece has been written for one peer: a send of the same bytes may let its own peer read it there. */
static void share_piece(rd_engine *e, rd_flight *f, uint32_t send, const rd_port *written,
                        uint64_t done, uint64_t bytes)
{
    const rd_step *t = &f->plan->steps[send];
    rd_lane_state *lane = &f->lanes[t->lane];
    const uint64_t total = t->count * f->width;
    if (lane->next == send && lane->taken == done &&
        e->transport->share(lane->port, written, bytes, total, f->job.record.mark))
        advance_send(lane, bytes, total);
}

/* The send before it in its multicast group is about to send the same bytes: then they are written once, for
 * both.  But nobody waits for long: what that one waits for may wait for this one, or for what is behind it in its lane.
 * Long is a number of rounds that is over before a rank goes to sleep. */
static bool left_to_previous(rd_engine *e, const rd_flight *f, rd_lane_state *lane,
                             const rd_step *s)
{
    if (s->multicast_prev == RD_NONE || (s->count * f->width - lane->taken) <= RD_SHORT_PIECE)
        return false;
    const rd_step *t = &f->plan->steps[s->multicast_prev];
    const rd_lane_state *other = &f->lanes[t->lane];
    return other->next == s->multicast_prev && other->taken == lane->taken &&
           (lane->taken || ready(e, f, t)) && lane->held++ < RD_PATIENCE;
}

/* A short message that is only copied goes in small pieces, so that the peer takes one while the next is
 * written.  Long ones do so anyway, and folds keep both sides busy. */
static uint64_t next_piece(const rd_flight *f, uint64_t total, uint64_t rest)
{
    enum { SHORT = 512 << 10, PARTS = 4, LEAST = 16 << 10 };
    const uint64_t part = (total / PARTS + LEAST - 1) & ~(uint64_t)(LEAST - 1);
    return f->job.fold || f->job.user || total <= LEAST || total > SHORT || rest <= part ? rest
                                                                                         : part;
}

/* Writes a message that is too long for a line into what the transport reserves, piece by piece. */
static uint32_t run_copied_send(rd_engine *e, rd_flight *f, rd_lane_state *lane, const rd_step *s,
                                const char *from)
{
    const uint64_t total = s->count * f->width;
    for (;;) {
        const uint64_t done = lane->taken;
        uint64_t bytes = next_piece(f, total, total - done);
        lane->refused = false;
        if (left_to_previous(e, f, lane, s))
            return 0;
        void *slot = e->transport->reserve(lane->port, 0, &bytes);
        lane->refused = !slot;
        if (!slot)
            return 0;
        rd_stage(&e->distances[s->peer], slot, from + done, bytes);
        e->transport->commit(lane->port, bytes, total, f->job.record.mark);
        uint32_t next = bytes > RD_SHORT_PIECE ? s->multicast_next : RD_NONE;
        for (uint32_t k = 0; k < f->plan->shape.size && next != RD_NONE; k++) {
            const rd_step *t = &f->plan->steps[next];
            if (done || ready(e, f, t))
                share_piece(e, f, next, lane->port, done, bytes);
            next = t->multicast_next;
        }
        advance_send(lane, bytes, total);
        if (!lane->taken)
            return 1;
    }
}

/* A message that is in its line. */
static uint32_t run_inline_send(rd_engine *e, rd_flight *f, rd_lane_state *lane, const char *from,
                                uint64_t bytes)
{
    uint64_t room = bytes;
    void *slot = e->transport->reserve(lane->port, bytes, &room);
    lane->refused = !slot;
    if (!slot)
        return 0;
    rd_put(slot, from, bytes);
    e->transport->commit(lane->port, bytes, bytes, f->job.record.mark);
    lane->next++;
    return 1;
}

static uint32_t run_send(rd_engine *e, rd_flight *f, rd_lane_state *lane, const rd_step *s)
{
    const uint64_t bytes = s->count * f->width;
    const char *from = place(f, s->from_buffer, s->from_at);

    if (bytes <= RD_INLINE)
        return run_inline_send(e, f, lane, from, bytes);
    if (lane->taken || !e->transport->lends(lane->port, from, bytes)) {
        uint32_t ran;
        const bool swapped =
            s->back != RD_NONE && !lane->taken && rd_swap_send(e, f, lane, s, from, &ran);
        return swapped ? ran : run_copied_send(e, f, lane, s, from);
    }
    if (!e->transport->can_send(lane->port))
        return 0;
    rd_loan loan = {.data = from, .bytes = bytes, .mark = f->job.record.mark};
    if (s->back != RD_NONE) {
        const rd_step *back = &f->plan->steps[s->back];
        char *to = place(f, back->to_buffer, back->to_at);
        loan.back = e->transport->lends(lane->port, to, bytes) ? to : NULL;
        loan.back_ordinal = back->ordinal;
    }
    e->transport->lend(lane->port, &loan);
    lane->lent = ++lane->next;
    if (s->from_buffer != RD_SCRATCH)
        lane->lent_user = lane->next;
    return 1;
}

/* --- folds and receives --- */

/* A send of exactly what step s makes may be done in the same pass: straight into the place where the
 * peer awaits it, if a message of the peer's that we hold says so; or into what the transport reserves,
 * if its bytes have to be written anywhere at all.  Adds such places to outs[] and the sends to
 * fused[]; returns the number of outs.  done, bytes: the part of s that is made now. */
static uint32_t find_returns(rd_engine *e, rd_flight *f, const rd_step *s, const rd_view *view,
                             uint32_t peer, uint32_t outs)
{
    for (uint32_t i = 0; i < s->forward_count && view->back; i++) {
        const uint32_t send = f->plan->forwards[s->first_forward + i];
        const rd_step *t = &f->plan->steps[send];
        rd_lane_state *lane = &f->lanes[t->lane];
        if (t->peer == peer && t->ordinal == view->back_ordinal && lane->next == send &&
            e->transport->can_send(lane->port)) {
            e->fused[outs - 1] = (rd_fused){send, true};
            e->outs[outs] = view->back;
            return outs + 1;
        }
    }
    return outs;
}

static bool is_fused(const rd_engine *e, uint32_t send, uint32_t outs)
{
    for (uint32_t i = 0; i + 1 < outs; i++)
        if (e->fused[i].send == send)
            return true;
    return false;
}

/* Can this send go out with a fold that makes so many bytes of it, after `done` others? */
static bool goes_along(rd_engine *e, const rd_flight *f, uint32_t send, uint64_t done,
                       uint64_t bytes)
{
    const rd_step *t = &f->plan->steps[send];
    const rd_lane_state *lane = &f->lanes[t->lane];
    const uint64_t total = t->count * f->width;
    if (lane->next != send || lane->taken != done || (bytes <= RD_INLINE && bytes != total))
        return false;
    return total <= RD_INLINE || lane->taken ||
           !e->transport->lends(lane->port, place(f, t->from_buffer, t->from_at), total);
}

/* Of long pieces one is written, and the other peers read that one too. */
static uint32_t find_writes(rd_engine *e, rd_flight *f, const rd_step *s, uint64_t done,
                            uint64_t bytes, uint32_t outs)
{
    for (uint32_t i = 0; i < s->forward_count && outs < RD_MOST_OUTS; i++) {
        const uint32_t send = f->plan->forwards[s->first_forward + i];
        const rd_step *t = &f->plan->steps[send];
        uint64_t room = bytes;
        if (is_fused(e, send, outs) || !goes_along(e, f, send, done, bytes))
            continue;
        void *slot = e->transport->reserve(f->lanes[t->lane].port, bytes, &room);
        if (!slot)
            continue;
        e->fused[outs - 1] = (rd_fused){send, false};
        e->outs[outs++] = slot;
        if (bytes > RD_SHORT_PIECE)
            break;
    }
    return outs;
}

/* done, bytes: as they were for find_writes. */
static void finish_fused(rd_engine *e, rd_flight *f, const rd_step *s, uint64_t done,
                         uint64_t bytes, uint32_t outs)
{
    for (uint32_t i = 0; i + 1 < outs; i++) {
        const uint32_t send = e->fused[i].send;
        const rd_step *t = &f->plan->steps[send];
        rd_lane_state *lane = &f->lanes[t->lane];
        const uint64_t total = t->count * f->width;
        if (e->fused[i].returned)
            e->transport->give_back(lane->port, total, f->job.record.mark);
        else
            e->transport->commit(lane->port, bytes, total, f->job.record.mark);
        advance_send(lane, bytes, total);
        for (uint32_t k = 0; k < s->forward_count && !e->fused[i].returned; k++) {
            const uint32_t other = f->plan->forwards[s->first_forward + k];
            if (bytes > RD_SHORT_PIECE && goes_along(e, f, other, done, bytes))
                share_piece(e, f, other, lane->port, done, bytes);
        }
    }
}

/* Is the last out of a pass a place that was reserved, and for a peer that is far? */
static bool writes_far(const rd_engine *e, const rd_flight *f, uint32_t outs)
{
    const rd_fused *last = outs < 2 ? NULL : &e->fused[outs - 2];
    return last && !last->returned && e->distances[f->plan->steps[last->send].peer].far;
}

static void fold(rd_engine *e, rd_flight *f, const rd_step *s, uint32_t outs,
                 const void *const in[], uint32_t ins, uint64_t count)
{
    const uint32_t divisor = s->scale ? f->plan->shape.size : 0;
    if (writes_far(e, f, outs))
        rd_fold_staged(&f->job, f->width, e->outs, outs, in, ins, count, divisor);
    else
        rd_job_fold(&f->job, e->outs, outs, in, ins, count, divisor);
}

/* As much of a message as can be used now: whole elements of what has come. */
static uint64_t usable(const rd_flight *f, const rd_view *view)
{
    return view->bytes == view->total ? view->bytes : view->bytes - view->bytes % f->width;
}

/* The first `bytes` of step s that are not yet done have been; true if that was all of it. */
static bool take(rd_engine *e, const rd_flight *f, rd_lane_state *lane, const rd_step *s,
                 uint64_t bytes)
{
    e->transport->release(lane->port, bytes);
    lane->taken += bytes;
    if (lane->taken < s->count * f->width)
        return false;
    lane->taken = 0;
    lane->next++;
    return true;
}

static uint32_t run_fold(rd_engine *e, rd_flight *f, rd_lane_state *lane, const rd_step *s,
                         const rd_view *view)
{
    const uint64_t bytes = usable(f, view);
    const bool whole = bytes == view->total;
    const void *here = place(f, s->from_buffer, s->from_at) + lane->taken;
    const void *in[2] = {s->side == RD_HERE_LEFT ? here : view->data,
                         s->side == RD_HERE_LEFT ? view->data : here};
    uint32_t outs = 1;

    if (bytes == 0 && !whole)
        return 0;
    e->outs[0] = place(f, s->to_buffer, s->to_at) + lane->taken;
    if (whole && s->forward_count)
        outs = find_returns(e, f, s, view, s->peer, outs);
    if (s->forward_count)
        outs = find_writes(e, f, s, lane->taken, bytes, outs);
    const uint64_t done = lane->taken;
    fold(e, f, s, outs, in, 2, whole ? s->count : bytes / f->width);
    take(e, f, lane, s, bytes);
    finish_fused(e, f, s, done, bytes, outs);
    return outs;
}

static uint32_t run_recv(rd_engine *e, rd_flight *f, rd_lane_state *lane, const rd_step *s,
                         const rd_view *view)
{
    char *to = place(f, s->to_buffer, s->to_at) + lane->taken;
    if (!view->data) { /* the peer has stored it itself, into place or where it came from */
        const char *slot = rd_swap_take(e, f, s);
        if (slot)
            rd_land(f->plan, s, to, slot, view->total);
        take(e, f, lane, s, view->total);
        return 1;
    }
    const uint64_t bytes = usable(f, view);
    if (bytes == 0 && view->total)
        return 0;
    rd_land(f->plan, s, to, view->data, bytes);
    if (take(e, f, lane, s, bytes))
        rd_swap_take(e, f, s);
    return 1;
}

/* The messages of a fold_many, all of them or nothing; the least of what has come of each. */
static bool gather(rd_engine *e, rd_flight *f, const rd_group *g, uint64_t *bytes)
{
    const rd_step *leader = &f->plan->steps[g->leader];
    *bytes = UINT64_MAX;
    for (uint32_t i = 0; i < g->count; i++) {
        const uint32_t m = f->plan->members[g->first + i];
        if (m == RD_NONE) {
            e->ins[i] =
                place(f, leader->from_buffer, leader->from_at) + f->lanes[leader->lane].taken;
            continue;
        }
        const rd_step *s = &f->plan->steps[m];
        const rd_lane_state *lane = &f->lanes[s->lane];
        if (lane->next != m || !arrived(e, f, lane, s, &e->views[i]))
            return false;
        const uint64_t there = usable(f, &e->views[i]);
        if (there == 0 && e->views[i].total)
            return false;
        *bytes = there < *bytes ? there : *bytes;
        e->ins[i] = e->views[i].data;
    }
    return true;
}

static uint32_t run_group(rd_engine *e, rd_flight *f, const rd_step *leader)
{
    const rd_group *g = &f->plan->groups[leader->group];
    const uint64_t taken = f->lanes[leader->lane].taken;
    uint64_t bytes;
    uint32_t outs = 1;

    if (!gather(e, f, g, &bytes) || !ready(e, f, leader))
        return 0;
    e->outs[0] = place(f, leader->to_buffer, leader->to_at) + taken;
    const bool whole = bytes == leader->count * f->width;
    for (uint32_t i = 0; i < g->count && whole && leader->forward_count; i++) {
        const uint32_t m = f->plan->members[g->first + i];
        if (m != RD_NONE)
            outs = find_returns(e, f, leader, &e->views[i], f->plan->steps[m].peer, outs);
    }
    if (leader->forward_count)
        outs = find_writes(e, f, leader, taken, bytes, outs);
    fold(e, f, leader, outs, e->ins, g->count, whole ? leader->count : bytes / f->width);
    for (uint32_t i = 0; i < g->count; i++) {
        const uint32_t m = f->plan->members[g->first + i];
        if (m != RD_NONE)
            take(e, f, &f->lanes[f->plan->steps[m].lane], &f->plan->steps[m], bytes);
    }
    finish_fused(e, f, leader, taken, bytes, outs);
    return g->arriving + outs - 1;
}

static uint32_t run_receive(rd_engine *e, rd_flight *f, rd_lane_state *lane, const rd_step *s)
{
    rd_view view;
    if (s->group != RD_NONE)
        return lane->next == f->plan->groups[s->group].leader ? run_group(e, f, s) : 0;
    if (!arrived(e, f, lane, s, &view))
        return 0;
    if (view.data && !ready(e, f, s)) /* what was returned is in place: it waits for nothing */
        return 0;
    return s->verb == RD_FOLD ? run_fold(e, f, lane, s, &view) : run_recv(e, f, lane, s, &view);
}

/* --- going round --- */

static uint32_t run_local(rd_flight *f, rd_lane_state *lane, const rd_step *s)
{
    rd_locals[s->verb](&f->job, s, f->buffer);
    lane->next++;
    return 1;
}

/* Runs the head of a lane: a receive once, so that all lanes get their turn; sends and local steps as
 * far as they go. */
static uint32_t run_lane(rd_engine *e, rd_flight *f, rd_lane_state *lane)
{
    uint32_t ran = 0, now;
    do {
        const rd_step *s = &f->plan->steps[lane->next];
        if (lane->port && s->verb != RD_SEND)
            return ran + run_receive(e, f, lane, s);
        now = !ready(e, f, s) ? 0 : lane->port ? run_send(e, f, lane, s) : run_local(f, lane, s);
        ran += now;
    } while (now && lane->next != lane->end);
    return ran;
}

uint32_t rd_flight_advance(rd_engine *e, rd_flight *f)
{
    uint32_t ran = 0, kept = 0;
    for (uint32_t i = 0; i < f->open_count; i++) {
        const uint32_t l = f->open[i];
        rd_lane_state *lane = &f->lanes[l];
        if (lane->next != lane->end) /* a group may have finished it from another lane */
            ran += run_lane(e, f, lane);
        if (lane->next != lane->end)
            f->open[kept++] = l;
    }
    f->open_count = kept;
    return ran;
}

bool rd_flight_ended(rd_engine *e, rd_flight *f)
{
    if (f->open_count)
        return false;
    for (uint32_t l = 0; l < f->plan->lane_count; l++) {
        const rd_lane_state *lane = &f->lanes[l];
        if (lane->lent_user && !e->transport->home(lane->port, lane->base + lane->lent_user - 1))
            return false;
        if (e->transport->pushes && f->plan->lanes[l].sends && lane->port &&
            !e->transport->gone(lane->port, lane->base + lane->end - 1))
            return false;
    }
    return true;
}
