/* tcp_post.c: posted receives.  The engine says where the bytes of the next message of a port belong; then they are
 * read from the socket into the caller's memory, and copied nowhere.
 *
 *     posted before it comes    head --> slot.placed, data = the caller's memory --> readv() into it
 *     posted while it comes     what has come is in a buffer of the pool and is copied by the engine; the rest as above
 *     posted when all has come  nothing is left to be placed
 *
 * With checksums the bytes of a parcel are in place before their checksum is known, and shown after it: a call whose
 * parcel was changed fails, and its outputs are undefined.  Folds post nothing.
 *
 * Once a receive is cancelled nothing is written to its memory: what comes of its message after that goes nowhere. */
#include "transport/tcp_inside.h"

void rd_tcp_free_slot(tcp_world *w, tcp_slot *s)
{
    if (s->data && !s->placed && s->data != (char *)s->small)
        rd_pool_give(w, s->data, s->capacity);
    s->data = NULL;
}

void rd_tcp_place(rd_port *p, tcp_slot *s)
{
    const tcp_posted *posted = &p->posted;
    if (!posted->to || s != &p->in[p->taken % RD_QUEUE] || s->total != posted->bytes ||
        s->mark != posted->mark)
        return;
    if (s->placed || s->got == s->total || s->start != s->end || s->unchecked)
        return; /* what has come must be copied first; or that is all of it */
    rd_tcp_free_slot(p->link->world, s);
    s->data = posted->to;
    s->placed = true;
    s->capacity = s->total;
    s->start = s->end = s->released;
    p->posted.to = NULL;
}

void rd_tcp_drop_rest(tcp_conn *c)
{
    tcp_slot *s = &c->into->in[(c->into->came - 1) % RD_QUEUE];
    s->got += s->unchecked + c->left;
    s->unchecked = 0;
    c->into = NULL;
}

void rd_tcp_cancel(rd_port *p)
{
    tcp_slot *s = &p->in[p->taken % RD_QUEUE];
    tcp_conn *c = p->to->in;
    p->posted.to = NULL;
    if (p->came == p->taken || !s->placed)
        return;
    if (c && c->into == p && p->came - p->taken == 1)
        rd_tcp_drop_rest(c);
    s->data = NULL;
    s->placed = false;
    s->cancelled = true;
    s->start = s->end = 0;
}
