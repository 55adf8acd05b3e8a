/* tcp_flow.c: bytes to streams.
 *
 * Ports that have something to say stand in their peer's list.  Each gets one parcel into the pipe and
 * stands at the end again, so a long message holds up no channel; ports of calls with more priority stand in front.
 * What is in the pipe is written with one call. */
#include "transport/tcp_inside.h"

#include "base/crc32c.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

/* --- ports that are ready --- */

/* The second half of the channels for collectives is of those with more priority. */
static bool is_urgent(const rd_port *p)
{
    const uint32_t channels = p->link->link.channels;
    return p->channel >= channels / 2 && p->channel < channels;
}

void rd_tcp_make_ready(rd_port *p)
{
    tcp_peer *peer = p->to;
    if (p->ready)
        return;
    p->ready = true;
    p->next = NULL;
    if (!peer->listed) {
        peer->listed = true;
        peer->next_ready = p->link->world->ready;
        p->link->world->ready = peer;
    }
    assert(!peer->ready || (peer->last_ready->ready && !peer->last_ready->next));
    if (peer->ready && is_urgent(p)) {
        p->next = peer->ready;
        peer->ready = p;
        return;
    }
    *(peer->ready ? &peer->last_ready->next : &peer->ready) = p;
    peer->last_ready = p;
}

static rd_port *next_ready(tcp_peer *peer)
{
    rd_port *p = peer->ready;
    if (!p)
        return NULL;
    assert(p->ready && p->to == peer); /* in the list if, and only if, it is ready */
    peer->ready = p->next;
    p->ready = false;
    return p;
}

/* --- the pipe --- */

bool rd_tcp_owes_credit(const rd_port *p)
{
    return p->taken - p->told >= RD_QUEUE / 2 || p->freed - p->told_freed >= RD_WINDOW / 4;
}

/* One of the last calls that this rank has made. */
static bool call_of(const tcp_link *l, uint64_t mark, rd_record *out)
{
    const uint64_t last = rd_control_board(&l->link, l->link.rank).sequence;
    for (uint64_t q = last; q && last - q < RD_RECORDS; q--)
        if (rd_control_record(&l->link, l->link.rank, q, out) && out->mark == mark)
            return true;
    return false;
}

static void pack(const tcp_conn *c, rd_head *head, const void *data, uint8_t bytes[RD_HEAD])
{
    head->body_crc = c->checked ? rd_crc32c(0, data, head->bytes) : 0;
    rd_head_pack(head, bytes);
    if (c->checked)
        rd_head_seal(bytes);
}

/* Also says what needs no room any more. */
static void add_parcel(tcp_conn *c, rd_port *p, rd_head *head, const char *data, bool ends)
{
    assert(c->count < RD_PIPE);
    tcp_parcel *parcel = &c->pipe[(c->first + c->count++) % RD_PIPE];
    head->channel = (uint8_t)p->channel;
    head->world = p->link->id;
    head->taken = p->told = p->taken;
    head->freed = p->told_freed = p->freed;
    *parcel = (tcp_parcel){
        .head_bytes = RD_HEAD, .data = data, .bytes = head->bytes, .port = p, .ends = ends};
    pack(c, head, data, parcel->head);
}

/* The next parcel of a port, if it has one that may go. */
static void frame(tcp_conn *c, rd_port *p)
{
    const tcp_line *line = &p->out[p->framed % RD_QUEUE];
    assert(p->queued - p->framed <= RD_QUEUE && p->flown - p->landed <= RD_WINDOW);
    const uint64_t room = RD_WINDOW - (p->flown - p->landed);
    uint64_t bytes = p->queued == p->framed ? 0 : line->bytes - p->framed_bytes;
    const uint64_t most = c->checked ? RD_CHECKED_PARCEL : RD_MOST_PARCEL;
    const bool blocked = bytes && !room;
    if (p->queued == p->framed || blocked) {
        if (rd_tcp_owes_credit(p))
            add_parcel(c, p, &(rd_head){.kind = RD_CREDIT}, NULL, false);
        return;
    }
    bytes = bytes > room ? room : bytes;
    bytes = bytes > most ? most : bytes;
    rd_head head = {.kind = RD_MESSAGE, .bytes = (uint32_t)bytes, .total = line->total};
    if (p->channel >= p->link->link.channels || !call_of(p->link, line->mark, &head.call))
        head.call = (rd_record){0};
    head.call.mark = line->mark;
    const char *data = line->data + p->framed_bytes;
    p->framed_bytes += bytes;
    p->flown += bytes;
    assert(p->framed_bytes <= line->bytes && line->bytes <= line->total);
    const bool ends = p->framed_bytes == line->bytes;
    if (ends) {
        p->framed++;
        p->framed_bytes = 0;
    }
    add_parcel(c, p, &head, data, ends);
    if (p->queued != p->framed)
        rd_tcp_make_ready(p);
}

/* The first bytes need not wait for the checksums of all that follows; and what is in the pipe goes before whatever is
 * ready later, of more priority, too. */
static bool has_enough(const tcp_conn *c)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->count; i++)
        bytes += c->pipe[(c->first + i) % RD_PIPE].bytes;
    return bytes >= RD_MOST_PARCEL;
}

static void fill(tcp_world *w, tcp_conn *c)
{
    tcp_peer *peer = &w->peers[c->rank];
    while (c->count < RD_PIPE && !has_enough(c)) {
        if (!c->control_in_pipe && c->next_control.length) {
            const tcp_text empty = c->control;
            c->control = c->next_control;
            c->next_control = empty;
            c->next_control.length = 0;
            c->control_in_pipe = true;
            c->pipe[(c->first + c->count++) % RD_PIPE] =
                (tcp_parcel){.data = c->control.bytes, .bytes = c->control.length};
            continue;
        }
        rd_port *p = peer->out == c && !peer->gap ? next_ready(peer) : NULL;
        if (!p)
            return;
        if (!p->link->left)
            frame(c, p);
    }
}

/* The first parcel is written. */
static void shift(tcp_conn *c)
{
    tcp_parcel *parcel = &c->pipe[c->first];
    assert(c->count);
    if (parcel->port && parcel->ends) {
        assert(parcel->port->written != parcel->port->framed); /* written <= framed <= queued */
        atomic_fetch_add_explicit(&parcel->port->written, 1, memory_order_release);
    }
    if (!parcel->port && parcel->data == c->control.bytes)
        c->control_in_pipe = false;
    if (c->spilled) {
        rd_free(c->spilled);
        c->spilled = NULL;
    }
    c->first = (c->first + 1) % RD_PIPE;
    c->count--;
    c->at = 0;
}

static void advance(tcp_conn *c, uint64_t bytes)
{
    while (c->count) {
        const tcp_parcel *parcel = &c->pipe[c->first];
        const uint64_t rest = parcel->head_bytes + parcel->bytes - c->at;
        if (bytes < rest) {
            c->at += bytes;
            return;
        }
        bytes -= rest;
        shift(c);
    }
}

static ssize_t write_pipe(tcp_conn *c)
{
    struct iovec parts[2 * RD_PIPE];
    int n = 0;
    uint64_t at = c->at;
    for (uint32_t i = 0; i < c->count; i++, at = 0) {
        tcp_parcel *p = &c->pipe[(c->first + i) % RD_PIPE];
        if (at < p->head_bytes)
            parts[n++] = (struct iovec){p->head + at, p->head_bytes - at};
        const uint64_t done = at > p->head_bytes ? at - p->head_bytes : 0;
        if (p->bytes > done)
            parts[n++] = (struct iovec){(char *)(uintptr_t)p->data + done, p->bytes - done};
    }
    return c->stream->kind->write(c->stream, parts, n);
}

bool rd_tcp_owes(const tcp_conn *c)
{
    return c->stream && c->stream->kind->owes && c->stream->kind->owes(c->stream);
}

static void watch_room(tcp_world *w, tcp_conn *c, bool full)
{
    if (c->full == full || !c->stream->kind->watch(c->stream, true, full))
        return;
    c->full = full;
    w->full += full ? 1 : UINT32_MAX;
}

void rd_tcp_flush_conn(tcp_world *w, tcp_conn *c)
{
    if (c->state != TCP_OPEN || !c->stream || c->broken)
        return;
    for (;;) {
        fill(w, c);
        if (!c->count && !rd_tcp_owes(c))
            break;
        const ssize_t n = write_pipe(c);
        if (n > 0) {
            advance(c, (uint64_t)n);
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            c->broken =
                true; /* what the peer wrote before it went is still to be read, and will say why */
            return;
        } else if (n < 0 && errno == EAGAIN) {
            watch_room(w, c, true);
            return;
        }
    }
    watch_room(w, c, false);
}

void rd_tcp_flush(tcp_world *w, tcp_peer *peer)
{
    enum { SOON_NS = 2000000 };
    const uint32_t rank = (uint32_t)(peer - w->peers);
    if (peer->out)
        rd_tcp_flush_conn(w, peer->out);
    else if (peer->ready) /* of two who want to at once, the lower rank connects */
        rd_tcp_want(w, rank, w->its.rank < rank ? 0 : SOON_NS);
}

void rd_tcp_flush_ready(tcp_world *w)
{
    tcp_peer *list = w->ready;
    w->ready = NULL;
    for (tcp_peer *peer = list, *next; peer; peer = next) {
        next = peer->next_ready;
        peer->listed = false;
        if (peer->ready)
            rd_tcp_flush(w, peer);
        if (peer->ready && !peer->listed) { /* it waits for a connection, or for the system */
            peer->listed = true;
            peer->next_ready = w->ready;
            w->ready = peer;
        }
    }
}

static bool has_space(tcp_text *t, size_t length)
{
    if (t->length + length <= t->capacity)
        return true;
    const size_t capacity = 2 * (t->length + length);
    char *larger = rd_realloc(t->bytes, capacity);
    if (!larger)
        return false;
    t->bytes = larger;
    t->capacity = capacity;
    return true;
}

bool rd_tcp_can_fail(tcp_conn *c)
{
    enum { LAST_WORDS = RD_GREETING + 3 * RD_HEAD + RD_CAUSE }; /* an alarm, a goodbye, the end */
    return has_space(&c->control, LAST_WORDS) && has_space(&c->next_control, LAST_WORDS) &&
           has_space(&c->body, RD_CAUSE);
}

bool rd_tcp_append(tcp_text *t, const void *bytes, size_t length)
{
    if (!has_space(t, length))
        return false;
    if (length)
        memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    return true;
}

bool rd_tcp_say(tcp_conn *c, const rd_head *head, const void *bytes)
{
    uint8_t packed[RD_HEAD];
    if (!head) /* a greeting */
        return rd_tcp_append(&c->next_control, bytes, RD_GREETING);
    assert(head->bytes <= RD_MOST_PARCEL);
    rd_head whole = *head;
    pack(c, &whole, bytes, packed);
    return has_space(&c->next_control, sizeof packed + head->bytes) && /* whole or not at all */
           rd_tcp_append(&c->next_control, packed, sizeof packed) &&
           rd_tcp_append(&c->next_control, bytes, head->bytes);
}

bool rd_tcp_settled(const tcp_conn *c)
{
    if (c->state != TCP_OPEN)
        return c->state == TCP_UNPROVEN; /* to whom nothing is said */
    return c->broken || (!c->count && !c->next_control.length && !rd_tcp_owes(c));
}

/* --- messages that are not written after all --- */

static bool is_of(const tcp_link *l, uint64_t mark, bool all)
{
    rd_record call;
    rd_error cause = {0};
    if (all || !call_of(l, mark, &call))
        return true;
    rd_control_cause(&l->link, &cause);
    return call.sequence >= cause.sequence;
}

/* A parcel that is partly written must be written whole, from memory that stays. */
static bool spill(tcp_conn *c)
{
    tcp_parcel *p = &c->pipe[c->first];
    assert(!c->spilled && p->port);
    char *copy = rd_alloc(p->bytes);
    if (!copy)
        return false;
    if (p->bytes)
        memcpy(copy, p->data, p->bytes);
    p->data = c->spilled = copy;
    p->port = NULL;
    return true;
}

static void clean_pipe(tcp_world *w, tcp_conn *c, const tcp_link *l, bool all)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        tcp_parcel *p = &c->pipe[(c->first + i) % RD_PIPE];
        rd_head head;
        bool goes = p->port && p->port->link == l;
        if (goes && !all && rd_head_unpack(p->head, &head))
            goes = head.kind == RD_MESSAGE && is_of(l, head.call.mark, all);
        if (goes && i == 0 && c->at) {
            if (!spill(c)) {
                rd_tcp_end(w, c);
                return;
            }
            goes = false;
        }
        if (goes) /* with the credit that it would have brought */
            p->port->told = p->port->taken - RD_QUEUE / 2;
        else
            c->pipe[(c->first + kept++) % RD_PIPE] = *p;
    }
    c->count = kept;
}

void rd_tcp_drop_messages(tcp_link *l, bool all)
{
    tcp_world *w = l->world;
    for (tcp_conn *c = w->conns, *next; c; c = next) {
        next = c->next;
        if (all && c->into && c->into->link == l)
            rd_tcp_drop_rest(c);
        clean_pipe(w, c, l, all);
    }
    for (rd_port *p = l->used; p; p = p->used) {
        while (p->queued != p->framed && is_of(l, p->out[(p->queued - 1) % RD_QUEUE].mark, all))
            p->queued--;
        if (p->queued == p->framed)
            p->framed_bytes = 0;
        if (!all && rd_tcp_owes_credit(p))
            rd_tcp_make_ready(p);
        if (all)
            rd_tcp_cancel(p);
    }
    if (!all)
        return;
    for (uint32_t r = 0; r < l->link.size; r++) {
        tcp_peer *peer = &w->peers[rd_tcp_in_whole(l, r)];
        rd_port *list = peer->ready;
        peer->ready = peer->last_ready = NULL;
        for (rd_port *p = list, *next; p; p = next) {
            next = p->next;
            p->ready = false;
            if (p->link != l)
                rd_tcp_make_ready(p);
        }
    }
}
