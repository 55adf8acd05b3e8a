/* tcp_data.c: the data path of a port over sockets: lines to be written, slots of what has come. */
#include "transport/tcp_inside.h"

#include "base/mem.h"

#include <assert.h>

/* --- sending --- */

static bool has_line(const rd_port *p)
{
    return p->queued - atomic_load_explicit(&p->written, memory_order_acquire) < RD_QUEUE;
}

static bool can_send(rd_port *p)
{
    const uint32_t acked = atomic_load_explicit(&p->acked, memory_order_relaxed);
    return has_line(p) && (p->pushed || p->messages - acked < RD_QUEUE);
}

static void *reserve(rd_port *p, uint64_t least, uint64_t *bytes)
{
    tcp_line *line = &p->out[p->queued % RD_QUEUE];
    if (!can_send(p))
        return NULL;
    if (*bytes <= RD_INLINE && !p->pushed)
        return line->small;
    if (least > RD_SHORT_PIECE)
        return NULL;
    if (*bytes > RD_SHORT_PIECE)
        *bytes = RD_SHORT_PIECE;
    if (!line->staged)
        line->staged = rd_alloc(RD_SHORT_PIECE); /* none: not now */
    return line->staged;
}

/* A line is complete: it goes out now as far as the system takes it. */
static void publish(rd_port *p, bool ends)
{
    tcp_world *w = p->link->world;
    assert(has_line(p)); /* reserve() or can_send() has said so */
    if (ends) {
        p->last_line[p->messages % RD_QUEUE] = p->queued;
        p->messages++;
    }
    pthread_mutex_lock(&w->lock);
    p->queued++;
    rd_tcp_make_ready(p);
    rd_tcp_flush(w, p->to);
    pthread_mutex_unlock(&w->lock);
}

static void commit(rd_port *p, uint64_t bytes, uint64_t total, uint64_t mark)
{
    tcp_line *line = &p->out[p->queued % RD_QUEUE];
    assert(bytes <= total - p->pushed);
    line->data = total <= RD_INLINE ? (const char *)line->small : line->staged;
    line->bytes = bytes;
    line->total = total;
    line->mark = mark;
    p->pushed += bytes;
    const bool ends = p->pushed == total;
    if (ends)
        p->pushed = 0;
    publish(p, ends);
}

static bool share(rd_port *p, const rd_port *committed, uint64_t bytes, uint64_t total,
                  uint64_t mark)
{
    (void)p;
    (void)committed;
    (void)bytes;
    (void)total;
    (void)mark;
    return false;
}

static bool lends(const rd_port *p, const void *data, uint64_t bytes)
{
    (void)p;
    (void)data;
    (void)bytes;
    return true;
}

static void lend(rd_port *p, const rd_loan *loan)
{
    tcp_line *line = &p->out[p->queued % RD_QUEUE];
    assert(!p->pushed);
    line->data = loan->data;
    line->bytes = line->total = loan->bytes;
    line->mark = loan->mark;
    publish(p, true);
}

/* Nobody names a place to a peer that cannot reach it. */
static void give_back(rd_port *p, uint64_t bytes, uint64_t mark)
{
    (void)p;
    (void)bytes;
    (void)mark;
}

static uint32_t sent(const rd_port *p)
{
    return p->messages;
}

static bool completed(rd_port *p, uint32_t message)
{
    if (p->messages - message > RD_QUEUE)
        return true;
    const uint32_t line = p->last_line[message % RD_QUEUE];
    return (int32_t)(atomic_load_explicit(&p->written, memory_order_acquire) - line) > 0;
}

/* What a stream has taken is released, but may go on only while this rank writes. */
static bool flushed(rd_port *p, uint32_t message)
{
    const tcp_conn *c = p->to->out;
    return completed(p, message) && !(c && rd_tcp_owes(c));
}

/* --- receiving --- */

static bool peek(rd_port *p, rd_view *view)
{
    if (p->came == p->taken)
        return false;
    const tcp_slot *s = &p->in[p->taken % RD_QUEUE];
    if (s->start == s->end && s->total)
        return false; /* no more than its head has come */
    *view = (rd_view){
        .data = s->data + s->start, .bytes = s->end - s->start, .total = s->total, .mark = s->mark};
    return true;
}

static void release(rd_port *p, uint64_t bytes)
{
    tcp_slot *s = &p->in[p->taken % RD_QUEUE];
    tcp_world *w = p->link->world;
    pthread_mutex_lock(&w->lock);
    assert(p->came != p->taken && p->came - p->taken <= RD_QUEUE);
    assert(bytes <= s->end - s->start && s->end + s->unchecked <= s->capacity);
    s->start += bytes;
    s->released += bytes;
    p->freed += bytes;
    assert(s->released <= s->got && p->freed <= p->begun);
    if (s->start == s->end && !s->unchecked && !s->placed)
        s->start = s->end = 0; /* where it is warm */
    if (s->released == s->total) {
        rd_tcp_free_slot(w, s);
        p->posted.to = NULL; /* it was for this one, if it came too late for it */
        p->taken++;
    }
    if (rd_tcp_owes_credit(p)) {
        rd_tcp_make_ready(p);
        rd_tcp_flush(w, p->to);
    }
    pthread_mutex_unlock(&w->lock);
}

static void post_recv(rd_port *p, void *to, uint64_t bytes, uint64_t mark)
{
    pthread_mutex_lock(&p->link->world->lock);
    p->posted = (tcp_posted){to, bytes, mark};
    if (!to)
        rd_tcp_cancel(p);
    else if (p->came != p->taken)
        rd_tcp_place(p, &p->in[p->taken % RD_QUEUE]);
    pthread_mutex_unlock(&p->link->world->lock);
}

const rd_data rd_tcp_data = {.pushes = true,
                             .can_send = can_send,
                             .reserve = reserve,
                             .commit = commit,
                             .share = share,
                             .lends = lends,
                             .lend = lend,
                             .give_back = give_back,
                             .sent = sent,
                             .completed = completed,
                             .flushed = flushed,
                             .peek = peek,
                             .release = release,
                             .post_recv = post_recv};
