/* straight.c: small plans, walked in the generator's own order.
 *
 * All messages of such a plan fit into what a transport buffers, or are copies that stay as they are
 * after the call.  So no send ever waits for its receive, the textbook order is safe, and there are no
 * lanes to look after: each step is done or waited for where it stands.  (A queue may still be full of
 * older collectives' messages; they go when the peer gets to them, which depends on nothing that comes
 * later.) */
#include "base/atomic.h"
#include "engine/local.h"

/* What a peer sends in such a plan has room even if nobody takes any of it. */
_Static_assert((int)RD_STRAIGHT_SENDS <= (int)RD_QUEUE,
               "all messages of a straight plan fit into a queue");

typedef struct {
    rd_engine *e;
    const rd_job *job;
    const rd_plan *plan;
    char *buffer[RD_BUFFERS];
    uint32_t width, channel;
    rd_patience patience; /* one for the whole walk */
    rd_error *err;
} walk;

static char *place(const walk *w, uint8_t buffer, uint64_t at)
{
    return w->buffer[buffer] + at * w->width;
}

static rd_port *port_to(const walk *w, uint32_t peer)
{
    return rd_port_to(w->e, peer, w->channel);
}

/* There is no place in the queue to a peer: waits a little, and gives up in the end. */
static ronda_status await_room(walk *w, const rd_step *s, rd_port *port)
{
    const rd_awaited room = {port, s->peer, true, w->job, s};
    return rd_engine_idle(w->e, &w->job->record, &room, NULL, &w->patience, w->err);
}

/* Scratch that nobody writes again before the channel's next collective, which waits for it. */
static ronda_status lend_step(walk *w, const rd_step *s)
{
    rd_port *port = port_to(w, s->peer);
    const rd_loan loan = {.data = place(w, s->from_buffer, s->from_at),
                          .bytes = s->count * w->width,
                          .mark = w->job->record.mark};
    w->patience.idle = 0;
    while (!rd_port_can_send(port)) {
        const ronda_status status = await_room(w, s, port);
        if (status)
            return status;
    }
    rd_port_lend(port, &loan);
    rd_channel_owes(&w->e->channels[w->channel],
                    (rd_loan_out){port, s->peer, rd_port_sent(port) - 1});
    return RONDA_OK;
}

static ronda_status send_step(walk *w, const rd_step *s)
{
    rd_port *port = port_to(w, s->peer);
    const uint64_t total = s->count * w->width;
    uint64_t bytes = total;
    if (total > RD_INLINE)
        return lend_step(w, s);
    void *slot = rd_port_reserve(port, bytes, &bytes);

    w->patience.idle = 0;
    for (; !slot; slot = rd_port_reserve(port, bytes, &bytes)) {
        const ronda_status status = await_room(w, s, port);
        if (status)
            return status;
    }
    assert(bytes == total); /* so short a message has room for all of it, or none */
    rd_put(slot, place(w, s->from_buffer, s->from_at), bytes);
    rd_port_commit(port, bytes, bytes, w->job->record.mark);
    return RONDA_OK;
}

/* Waits for the whole message that step s is about. */
static ronda_status await_message(walk *w, const rd_step *s, rd_port *port, rd_view *view)
{
    w->patience.idle = 0;
    while (!rd_port_peek(port, view) || (view->bytes < view->total && view->total != UINT64_MAX)) {
        const rd_awaited message = {port, s->peer, false, w->job, s};
        const ronda_status status =
            rd_engine_idle(w->e, &w->job->record, &message, port, &w->patience, w->err);
        if (status)
            return status;
    }
    const bool fits = view->mark == w->job->record.mark && view->total == s->count * w->width;
    if (fits && view->data)
        return RONDA_OK;
    if (fits || view->total == UINT64_MAX)
        rd_trouble_invalid(w->e->link, &w->job->record, s->peer, w->err);
    else
        rd_trouble_mismatch(w->e->link, &w->job->record, s->peer, w->err);
    return rd_engine_give_up(w->e, w->err);
}

static ronda_status receive_step(walk *w, const rd_step *s)
{
    rd_port *port = port_to(w, s->peer);
    void *out = place(w, s->to_buffer, s->to_at);
    rd_view view;
    const ronda_status status = await_message(w, s, port, &view);
    if (status)
        return status;
    if (s->verb == RD_RECV) {
        rd_put(out, view.data, view.total);
    } else {
        assert(s->verb == RD_FOLD);
        const void *here = place(w, s->from_buffer, s->from_at);
        const bool left = s->side == RD_HERE_LEFT;
        const void *in[2] = {left ? here : view.data, left ? view.data : here};
        rd_job_fold(w->job, &out, 1, in, 2, s->count, s->scale ? w->plan->shape.size : 0);
    }
    rd_port_release(port, view.total);
    return RONDA_OK;
}

static ronda_status group_step(walk *w, const rd_step *leader)
{
    const rd_group *g = &w->plan->groups[leader->group];
    const uint32_t *members = w->plan->members + g->first;
    void *out = place(w, leader->to_buffer, leader->to_at);

    for (uint32_t i = 0; i < g->count; i++) {
        if (members[i] == RD_NONE) {
            w->e->ins[i] = place(w, leader->from_buffer, leader->from_at);
            continue;
        }
        const rd_step *s = &w->plan->steps[members[i]];
        rd_view view;
        const ronda_status status = await_message(w, s, port_to(w, s->peer), &view);
        if (status)
            return status;
        w->e->ins[i] = view.data;
    }
    rd_job_fold(w->job, &out, 1, w->e->ins, g->count, leader->count,
                leader->scale ? w->plan->shape.size : 0);
    for (uint32_t i = 0; i < g->count; i++)
        if (members[i] != RD_NONE) {
            const rd_step *s = &w->plan->steps[members[i]];
            rd_port_release(port_to(w, s->peer), s->count * w->width);
        }
    return RONDA_OK;
}

/* Apart, so that a walk without local steps does not pay for them. */
__attribute__((noinline)) static ronda_status local_step(const walk *w, const rd_step *s)
{
    rd_locals[s->verb](w->job, s, w->buffer);
    return RONDA_OK;
}

/* The next call's copies go to the next channel's scratch: of a call like this one, to the same place in it.
 * Its lines are with those who read them last, and are fetched while this rank waits anyway. */
static void fetch_ahead(const walk *w, const rd_step *s)
{
    const uint32_t next = (w->channel + 1) & (w->e->link->channels / 2 - 1);
    const rd_channel *c = &w->e->channels[next];
    const size_t at = s->from_at * w->width, bytes = s->count * w->width;
    if (next == w->channel || at + bytes > c->bytes || w->e->link->size > w->e->link->cpus)
        return;
    rd_own_range((const char *)c->memory + at, bytes < RD_FETCHED_BYTES ? bytes : RD_FETCHED_BYTES);
}

static bool is_last_loan(const walk *w, uint32_t i)
{
    const rd_plan *p = w->plan;
    const rd_step *s = &p->steps[p->straight[i]];
    return s->verb == RD_SEND && s->count * w->width > RD_INLINE &&
           (i + 1 == p->straight_count || p->steps[p->straight[i + 1]].verb != RD_SEND);
}

ronda_status rd_run_straight(rd_engine *e, const rd_job *job, uint64_t timeout_ns, rd_error *err)
{
    const rd_plan *p = job->plan;
    const uint32_t channel = rd_channel_number(e, job);
    walk w = {.e = e,
              .job = job,
              .plan = p,
              .buffer = {(char *)job->in, job->out, e->channels[channel].memory, job->state},
              .width = p->shape.width,
              .channel = channel,
              .patience = {.timeout_ns = timeout_ns},
              .err = err};

    for (uint32_t i = 0; i < p->straight_count; i++) {
        const rd_step *s = &p->steps[p->straight[i]];
        const ronda_status status = s->verb == RD_SEND    ? send_step(&w, s)
                                    : s->group != RD_NONE ? group_step(&w, s)
                                    : s->peer != RD_NONE  ? receive_step(&w, s)
                                                          : local_step(&w, s);
        if (status)
            return status;
        if (is_last_loan(&w, i))
            fetch_ahead(&w, s);
    }
    return RONDA_OK;
}
