/* run.c: per lane a cursor; go round the lanes and run each head that can run.
 *
 * A step that folds makes one pass over its data.  Where a peer has said where it awaits the result
 * (a send of exactly this range is linked to the fold as a forward, and the peer's message named its
 * ordinal), the same pass stores the result there too and the send shrinks to an empty message. */
#include "engine/local.h"

static char *place(const rd_operation *f, uint8_t buffer, uint64_t at)
{
    return f->buffer[buffer] + at * f->width;
}

/* --- beginning --- */

void rd_operation_begin(rd_engine *e, rd_operation *f)
{
    const rd_plan *p = f->plan;
    const uint32_t channel = rd_channel_number(e, &f->job);

    assert(!f->begun && channel < e->link->channels);
    f->begun = true;
    f->turn = 0;
    f->open_count = p->lane_count;
    f->buffer[RD_SCRATCH] = e->channels[channel].memory;
    for (uint32_t l = 0; l < p->lane_count; l++) {
        const rd_plan_lane *lane = &p->lanes[l];
        rd_lane_state *state = &f->lanes[l];
        assert(lane->first < lane->end && lane->end <= p->step_count);
        *state = (rd_lane_state){.next = lane->first, .end = lane->end};
        if (lane->peer != RD_NONE) {
            state->port = rd_port_to(e, lane->peer, channel);
            state->base = rd_port_sent(state->port) - lane->first;
        }
        f->open[l] = l;
    }
}

/* --- readiness --- */

static inline bool ready(const rd_operation *f, const rd_step *s)
{
    const rd_dep *d = f->plan->deps + s->first_dep;
    for (const rd_dep *end = d + s->deps; d < end; d++) {
        const rd_lane_state *lane = &f->lanes[d->lane];
        if (lane->next <= d->step)
            return false;
        if (d->step < lane->lent && !rd_port_completed(lane->port, lane->base + d->step))
            return false;
    }
    return true;
}

/* The message at the head of a lane, if it is there and is the one that step s is about.  What comes of
 * it may be no more than is still wanted, and only a receive can do without its bytes. */
static inline bool arrived(rd_engine *e, rd_operation *f, const rd_lane_state *lane,
                           const rd_step *s, rd_view *view)
{
    if (!rd_port_peek(lane->port, view))
        return false;
    const bool fits = view->mark == f->job.record.mark && view->total == s->count * f->width;
    if (fits && view->bytes <= view->total - lane->taken && (view->data || s->verb == RD_RECV))
        return true;
    e->wrong = s->peer + 1;
    e->invalid = fits || view->total == UINT64_MAX;
    e->wronged = f->job.record;
    return false;
}

/* --- pieces --- */

/* So many bytes were copied or folded: see RD_BUDGET. */
static void spend(rd_engine *e, uint64_t bytes)
{
    e->spent += bytes;
}

/* Of so many bytes that one pass could do, as many as it does: the rest is for the next. */
static uint64_t cut(const rd_operation *f, uint64_t bytes)
{
    return bytes > RD_PIECE ? RD_PIECE - RD_PIECE % f->width : bytes;
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
    lane->back = NULL;
    lane->next++;
}

/* A piece has been written for one peer: a send of the same bytes may let its own peer read it there. */
static void share_piece(rd_operation *f, uint32_t send, const rd_port *written, uint64_t done,
                        uint64_t bytes)
{
    const rd_step *t = &f->plan->steps[send];
    rd_lane_state *lane = &f->lanes[t->lane];
    const uint64_t total = t->count * f->width;
    if (lane->next == send && lane->taken == done &&
        rd_port_share(lane->port, written, bytes, total, f->job.record.mark))
        advance_send(lane, bytes, total);
}

/* The send before it in its multicast group is about to send the same bytes: then they are written once, for
 * both.  But nobody waits for long: what that one waits for may wait for this one, or for what is behind it in its lane.
 * Long is a number of rounds that is over before a rank goes to sleep. */
static bool left_to_previous(const rd_operation *f, rd_lane_state *lane, const rd_step *s)
{
    if (s->multicast_prev == RD_NONE || (s->count * f->width - lane->taken) <= RD_SHORT_PIECE)
        return false;
    const rd_step *t = &f->plan->steps[s->multicast_prev];
    const rd_lane_state *other = &f->lanes[t->lane];
    return other->next == s->multicast_prev && other->taken == lane->taken &&
           (lane->taken || ready(f, t)) && lane->held++ < RD_PATIENCE;
}

/* A short message that is only copied goes in small pieces, so that the peer takes one while the next is
 * written.  Long ones do so anyway, and folds keep both sides busy. */
static uint64_t next_piece(const rd_operation *f, uint64_t total, uint64_t rest)
{
    enum { SHORT = 512 << 10, PARTS = 4, LEAST = 16 << 10 };
    const uint64_t part = (total / PARTS + LEAST - 1) & ~(uint64_t)(LEAST - 1);
    return f->job.fold || f->job.user || total <= LEAST || total > SHORT || rest <= part ? rest
                                                                                         : part;
}

/* Writes a message that is too long for a line into what the transport reserves, piece by piece. */
static uint32_t run_copied_send(rd_engine *e, rd_operation *f, rd_lane_state *lane,
                                const rd_step *s, const char *from)
{
    const uint64_t total = s->count * f->width;
    for (;;) {
        const uint64_t done = lane->taken;
        uint64_t bytes = next_piece(f, total, total - done);
        lane->refused = false;
        if (left_to_previous(f, lane, s))
            return 0;
        void *slot = rd_port_reserve(lane->port, 0, &bytes);
        lane->refused = !slot;
        if (!slot)
            return 0;
        rd_stage(&e->distances[s->peer], slot, from + done, bytes);
        spend(e, bytes);
        rd_port_commit(lane->port, bytes, total, f->job.record.mark);
        uint32_t next = bytes > RD_SHORT_PIECE ? s->multicast_next : RD_NONE;
        for (uint32_t k = 0; k < f->plan->shape.size && next != RD_NONE; k++) {
            const rd_step *t = &f->plan->steps[next];
            if (done || ready(f, t))
                share_piece(f, next, lane->port, done, bytes);
            next = t->multicast_next;
        }
        advance_send(lane, bytes, total);
        if (!lane->taken || rd_has_spent(e))
            return 1;
    }
}

/* A message that is in its line. */
static uint32_t run_inline_send(rd_operation *f, rd_lane_state *lane, const char *from,
                                uint64_t bytes)
{
    uint64_t room = bytes;
    void *slot = rd_port_reserve(lane->port, bytes, &room);
    lane->refused = !slot;
    if (!slot)
        return 0;
    rd_put(slot, from, bytes);
    rd_port_commit(lane->port, bytes, bytes, f->job.record.mark);
    lane->next++;
    return 1;
}

static uint32_t run_send(rd_engine *e, rd_operation *f, rd_lane_state *lane, const rd_step *s)
{
    const uint64_t bytes = s->count * f->width;
    const char *from = place(f, s->from_buffer, s->from_at);

    if (bytes <= RD_INLINE)
        return run_inline_send(f, lane, from, bytes);
    if (lane->taken || !rd_port_lends(lane->port, from, bytes)) {
        uint32_t ran;
        const bool swapped =
            s->back != RD_NONE && !lane->taken && rd_swap_send(e, f, lane, s, from, &ran);
        spend(e, swapped && ran ? bytes : 0);
        return swapped ? ran : run_copied_send(e, f, lane, s, from);
    }
    if (!rd_port_can_send(lane->port))
        return 0;
    rd_loan loan = {.data = from, .bytes = bytes, .mark = f->job.record.mark};
    if (s->back != RD_NONE) {
        const rd_step *back = &f->plan->steps[s->back];
        char *to = place(f, back->to_buffer, back->to_at);
        loan.back = rd_port_lends(lane->port, to, bytes) ? to : NULL;
        loan.back_ordinal = back->ordinal;
    }
    rd_port_lend(lane->port, &loan);
    lane->lent = ++lane->next;
    if (s->from_buffer != RD_SCRATCH)
        lane->lent_user = lane->next;
    return 1;
}

/* --- folds and receives --- */

/* A send of exactly what step s makes may be done in the same pass: straight into the place where the
 * peer awaits it, if a message of the peer's that we hold says so; or into what the transport reserves,
 * if its bytes have to be written anywhere at all.  Adds such places to outs[] and the sends to
 * fused[]; returns the number of outs.  done, bytes: the part of s that is made now; what was begun with its
 * first part is stored into place to its end. */
static uint32_t find_returns(rd_engine *e, rd_operation *f, const rd_step *s, const rd_view *view,
                             uint32_t peer, uint64_t done, uint32_t outs)
{
    for (uint32_t i = 0; i < s->forward_count; i++) {
        const uint32_t send = f->plan->forwards[s->first_forward + i];
        const rd_step *t = &f->plan->steps[send];
        rd_lane_state *lane = &f->lanes[t->lane];
        if (t->peer != peer || lane->next != send || lane->taken != done)
            continue;
        if (!done && view->back && t->ordinal == view->back_ordinal && rd_port_can_send(lane->port))
            lane->back = view->back;
        if (!lane->back)
            continue;
        e->fused[outs - 1] = (rd_fused){send, true};
        e->outs[outs] = lane->back + done;
        return outs + 1;
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
static bool goes_along(const rd_operation *f, uint32_t send, uint64_t done, uint64_t bytes)
{
    const rd_step *t = &f->plan->steps[send];
    const rd_lane_state *lane = &f->lanes[t->lane];
    const uint64_t total = t->count * f->width;
    if (lane->next != send || lane->taken != done || (bytes <= RD_INLINE && bytes != total))
        return false;
    return total <= RD_INLINE || lane->taken ||
           !rd_port_lends(lane->port, place(f, t->from_buffer, t->from_at), total);
}

/* Of long pieces one is written, and the other peers read that one too. */
static uint32_t find_writes(rd_engine *e, rd_operation *f, const rd_step *s, uint64_t done,
                            uint64_t bytes, uint32_t outs)
{
    for (uint32_t i = 0; i < s->forward_count && outs < RD_MOST_OUTS; i++) {
        const uint32_t send = f->plan->forwards[s->first_forward + i];
        const rd_step *t = &f->plan->steps[send];
        uint64_t room = bytes;
        if (is_fused(e, send, outs) || !goes_along(f, send, done, bytes))
            continue;
        void *slot = rd_port_reserve(f->lanes[t->lane].port, bytes, &room);
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
static void finish_fused(rd_engine *e, rd_operation *f, const rd_step *s, uint64_t done,
                         uint64_t bytes, uint32_t outs)
{
    for (uint32_t i = 0; i + 1 < outs; i++) {
        const uint32_t send = e->fused[i].send;
        const rd_step *t = &f->plan->steps[send];
        rd_lane_state *lane = &f->lanes[t->lane];
        const uint64_t total = t->count * f->width;
        if (e->fused[i].returned && lane->taken + bytes == total)
            rd_port_give_back(lane->port, total, f->job.record.mark);
        else if (!e->fused[i].returned)
            rd_port_commit(lane->port, bytes, total, f->job.record.mark);
        advance_send(lane, bytes, total);
        for (uint32_t k = 0; k < s->forward_count && !e->fused[i].returned; k++) {
            const uint32_t other = f->plan->forwards[s->first_forward + k];
            if (bytes > RD_SHORT_PIECE && !is_fused(e, other, outs) &&
                goes_along(f, other, done, bytes))
                share_piece(f, other, lane->port, done, bytes);
        }
    }
}

/* Is the last out of a pass a place that was reserved, and for a peer that is far? */
static bool writes_far(const rd_engine *e, const rd_operation *f, uint32_t outs)
{
    const rd_fused *last = outs < 2 ? NULL : &e->fused[outs - 2];
    return last && !last->returned && e->distances[f->plan->steps[last->send].peer].far;
}

static void fold(rd_engine *e, rd_operation *f, const rd_step *s, uint32_t outs,
                 const void *const in[], uint32_t ins, uint64_t count)
{
    const uint32_t divisor = s->scale ? f->plan->shape.size : 0;
    if (writes_far(e, f, outs))
        rd_fold_staged(&f->job, f->width, e->outs, outs, in, ins, count, divisor);
    else
        rd_job_fold(&f->job, e->outs, outs, in, ins, count, divisor);
}

/* As much of a message as can be used now: whole elements of what has come. */
static uint64_t usable(const rd_operation *f, const rd_view *view)
{
    return view->bytes == view->total ? view->bytes : view->bytes - view->bytes % f->width;
}

/* The first `bytes` of step s that are not yet done have been; true if that was all of it. */
static bool take(rd_engine *e, const rd_operation *f, rd_lane_state *lane, const rd_step *s,
                 uint64_t bytes)
{
    rd_port_release(lane->port, bytes);
    spend(e, bytes);
    lane->taken += bytes;
    if (lane->taken < s->count * f->width)
        return false;
    lane->taken = 0;
    lane->next++;
    return true;
}

static uint32_t run_fold(rd_engine *e, rd_operation *f, rd_lane_state *lane, const rd_step *s,
                         const rd_view *view)
{
    const uint64_t bytes = cut(f, usable(f, view));
    const bool whole = bytes == view->total;
    const void *here = place(f, s->from_buffer, s->from_at) + lane->taken;
    const void *in[2] = {s->side == RD_HERE_LEFT ? here : view->data,
                         s->side == RD_HERE_LEFT ? view->data : here};
    uint32_t outs = 1;

    if (bytes == 0 && !whole)
        return 0;
    e->outs[0] = place(f, s->to_buffer, s->to_at) + lane->taken;
    if (s->forward_count)
        outs = find_returns(e, f, s, view, s->peer, lane->taken, outs);
    if (s->forward_count)
        outs = find_writes(e, f, s, lane->taken, bytes, outs);
    const uint64_t done = lane->taken;
    fold(e, f, s, outs, in, 2, whole ? s->count : bytes / f->width);
    take(e, f, lane, s, bytes);
    finish_fused(e, f, s, done, bytes, outs);
    return outs;
}

static uint32_t run_recv(rd_engine *e, rd_operation *f, rd_lane_state *lane, const rd_step *s,
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
    const uint64_t bytes = cut(f, usable(f, view));
    if (bytes == 0 && view->total)
        return 0;
    if (view->data != to) /* else it was posted, and is in place */
        rd_land(f->plan, s, to, view->data, bytes);
    if (take(e, f, lane, s, bytes))
        rd_swap_take(e, f, s);
    return 1;
}

/* The messages of a fold_many, all of them or nothing; the least of what has come of each. */
static bool gather(rd_engine *e, rd_operation *f, const rd_group *g, uint64_t *bytes)
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

static uint32_t run_group(rd_engine *e, rd_operation *f, const rd_step *leader)
{
    const rd_group *g = &f->plan->groups[leader->group];
    const uint64_t taken = f->lanes[leader->lane].taken;
    uint64_t bytes;
    uint32_t outs = 1;

    if (!gather(e, f, g, &bytes) || !ready(f, leader))
        return 0;
    bytes = cut(f, bytes);
    e->outs[0] = place(f, leader->to_buffer, leader->to_at) + taken;
    const bool whole = bytes == leader->count * f->width;
    for (uint32_t i = 0; i < g->count && leader->forward_count; i++) {
        const uint32_t m = f->plan->members[g->first + i];
        if (m != RD_NONE)
            outs = find_returns(e, f, leader, &e->views[i], f->plan->steps[m].peer, taken, outs);
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

/* The receive at the head of a lane has no message yet: it may come straight into place. */
static void post_recv(const rd_operation *f, rd_lane_state *lane, const rd_step *s)
{
    const uint64_t bytes = s->count * f->width;
    if (s->verb != RD_RECV || bytes <= RD_INLINE || lane->posted == lane->next + 1 || !ready(f, s))
        return;
    rd_port_post_recv(lane->port, place(f, s->to_buffer, s->to_at), bytes, f->job.record.mark);
    lane->posted = lane->next + 1;
}

void rd_operation_cancel(const rd_operation *f)
{
    for (uint32_t l = 0; f->begun && l < f->plan->lane_count; l++) {
        const rd_lane_state *lane = &f->lanes[l];
        if (lane->posted == lane->next + 1)
            rd_port_post_recv(lane->port, NULL, 0, 0);
    }
}

static uint32_t run_receive(rd_engine *e, rd_operation *f, rd_lane_state *lane, const rd_step *s)
{
    rd_view view;
    if (s->group != RD_NONE)
        return lane->next == f->plan->groups[s->group].leader ? run_group(e, f, s) : 0;
    if (!arrived(e, f, lane, s, &view)) {
        if (rd_data_of(lane->port)->post_recv)
            post_recv(f, lane, s);
        return 0;
    }
    if (view.data && !ready(f, s)) /* what was returned is in place: it waits for nothing */
        return 0;
    return s->verb == RD_FOLD ? run_fold(e, f, lane, s, &view) : run_recv(e, f, lane, s, &view);
}

/* --- going round --- */

/* A copy whose ranges overlap cannot be done in parts. */
static bool can_cut(const char *to, const char *from, uint64_t bytes)
{
    return to == from || to + bytes <= from || from + bytes <= to;
}

static uint32_t run_local(rd_engine *e, rd_operation *f, rd_lane_state *lane, const rd_step *s)
{
    const uint64_t total = s->count * f->width, rest = total - lane->taken;
    const bool cuts =
        !(rd_verbs[s->verb].flags & RD_LISTED) &&
        can_cut(place(f, s->to_buffer, s->to_at), place(f, s->from_buffer, s->from_at), total);
    const uint64_t bytes = cuts ? cut(f, rest) : rest;
    rd_step part = *s;
    part.count = bytes / f->width;
    part.to_at += lane->taken / f->width;
    part.from_at += lane->taken / f->width;
    rd_locals[s->verb](&f->job, &part, f->buffer);
    spend(e, bytes);
    lane->taken = bytes < rest ? lane->taken + bytes : 0;
    lane->next += bytes == rest;
    return 1;
}

/* Runs the head of a lane: a receive once, so that all lanes get their turn; sends and local steps as
 * far as they go, or until there was enough to do. */
static uint32_t run_lane(rd_engine *e, rd_operation *f, rd_lane_state *lane)
{
    uint32_t ran = 0, now;
    do {
        const rd_step *s = &f->plan->steps[lane->next];
        if (lane->port && s->verb != RD_SEND)
            return ran + run_receive(e, f, lane, s);
        now = !ready(f, s) ? 0 : lane->port ? run_send(e, f, lane, s) : run_local(e, f, lane, s);
        ran += now;
    } while (now && lane->next != lane->end && !rd_has_spent(e));
    return ran;
}

static bool receives(const rd_operation *f, const rd_lane_state *lane)
{
    const rd_step *s = &f->plan->steps[lane->next];
    return s->verb == RD_RECV || s->verb == RD_FOLD || s->verb == RD_FOLD_MANY;
}

/* From the lane where it left off the last time; a lane that is done stays among the open ones until all have had
 * their turn. */
uint32_t rd_operation_advance(rd_engine *e, rd_operation *f)
{
    uint32_t ran = 0, kept = 0;
    e->spent = 0;
    while (f->turn < f->open_count) {
        rd_lane_state *lane = &f->lanes[f->open[f->turn]];
        const bool once = lane->next == lane->end || receives(f, lane);
        if (lane->next != lane->end) /* a group may have finished it from another lane */
            ran += run_lane(e, f, lane);
        f->turn += once || !rd_has_spent(e);
        if (rd_has_spent(e) && f->turn < f->open_count)
            return ran;
    }
    for (uint32_t i = 0; i < f->open_count; i++)
        if (f->lanes[f->open[i]].next != f->lanes[f->open[i]].end)
            f->open[kept++] = f->open[i];
    f->open_count = kept;
    f->turn = 0;
    e->spent = 0;
    return ran;
}

bool rd_operation_ended(rd_engine *e, rd_operation *f)
{
    if (f->open_count)
        return false;
    for (uint32_t l = 0; l < f->plan->lane_count; l++) {
        const rd_lane_state *lane = &f->lanes[l];
        if (lane->lent_user && !rd_port_completed(lane->port, lane->base + lane->lent_user - 1))
            return false;
        if (e->transport->pushes && f->plan->lanes[l].sends && lane->port &&
            !rd_port_flushed(lane->port, lane->base + lane->end - 1))
            return false;
    }
    return true;
}
