/* tcp_conn.c: a connection: its stream, and what is kept for it. */
#include "transport/tcp_inside.h"

#include "base/mem.h"

#include <assert.h>

static void free_conn(tcp_conn *c)
{
    rd_free(c->input);
    rd_free(c->body.bytes);
    rd_free(c->control.bytes);
    rd_free(c->next_control.bytes);
    rd_free(c->spilled);
}

void rd_tcp_discard(tcp_conn *c)
{
    if (c)
        free_conn(c);
    rd_free(c);
}

tcp_conn *rd_tcp_new_conn(void)
{
    tcp_conn *c = rd_alloc(sizeof *c);
    if (c && (c->input = rd_alloc(RD_INPUT)) && rd_tcp_can_fail(c))
        return c;
    rd_tcp_discard(c);
    return NULL;
}

tcp_conn *rd_tcp_add(tcp_world *w, tcp_conn *c, rd_bytestream *stream, bool connecting)
{
    stream->owner = c;
    if (!c || !stream->kind->watch(stream, !connecting, connecting)) {
        rd_tcp_discard(c);
        stream->kind->close(stream);
        return NULL;
    }
    c->stream = stream;
    c->rank = UINT32_MAX;
    c->since_ns = rd_tcp_now(w);
    c->next = w->conns;
    w->conns = c;
    return c;
}

void rd_tcp_end(tcp_world *w, tcp_conn *c)
{
    tcp_conn **at = &w->conns;
    while (*at && *at != c)
        at = &(*at)->next;
    assert(*at); /* it ends once */
    *at = c->next;
    assert(c->state != TCP_UNPROVEN || w->unproven);
    if (c->state == TCP_UNPROVEN)
        w->unproven--;
    w->full -= c->full;
    if (c->rank < w->its.size) {
        tcp_peer *peer = &w->peers[c->rank];
        assert(c->state != TCP_CONNECTING || peer->trying);
        peer->trying -= c->state == TCP_CONNECTING;
        peer->out = peer->out == c ? NULL : peer->out;
        peer->in = peer->in == c ? NULL : peer->in;
    }
    c->stream->kind->close(c->stream);
    c->stream = NULL;
    free_conn(c);
    c->next = w->ended;
    w->ended = c;
}
