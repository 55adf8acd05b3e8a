/* tcp_flow.c: bytes from and to sockets.
 *
 * Writing: ports that have something to say stand in their peer's list.  Each gets one parcel into the pipe and
 * stands at the end again, so a long message holds up no channel.  What is in the pipe is written with one call.
 *
 * Reading: heads and short parcels come through a small buffer, long ones straight to where their message
 * is kept. */
#include "transport/tcp_inside.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* --- ports that are ready --- */

void rd_tcp_make_ready(rd_port *p)
{
    tcp_peer *peer = p->to;
    if (p->ready)
        return;
    p->ready = true;
    p->next = NULL;
    if (peer->ready)
        peer->last_ready->next = p;
    else
        peer->ready = p;
    peer->last_ready = p;
}

static rd_port *next_ready(tcp_peer *peer)
{
    rd_port *p = peer->ready;
    if (!p)
        return NULL;
    peer->ready = p->next;
    p->ready = false;
    return p;
}

/* --- the pipe --- */

bool rd_tcp_owes_credit(const rd_port *p)
{
    return p->taken - p->told >= RD_QUEUE / 2 || p->freed - p->told_freed >= RD_WINDOW / 4;
}

static const rd_record *call_of(const tcp_link *l, uint64_t mark)
{
    for (uint32_t i = 0; i < RD_RECORDS; i++)
        if (l->records[i].mark == mark && l->records[i].sequence)
            return &l->records[i];
    return NULL;
}

/* Also says what needs no room any more. */
static void add_parcel(tcp_conn *c, rd_port *p, rd_head *head, const char *data, bool ends)
{
    tcp_parcel *parcel = &c->pipe[(c->first + c->count++) % RD_PIPE];
    head->channel = (uint8_t)p->channel;
    head->world = p->link->id;
    head->taken = p->told = p->taken;
    head->freed = p->told_freed = p->freed;
    *parcel = (tcp_parcel){
        .head_bytes = RD_HEAD, .data = data, .bytes = head->bytes, .port = p, .ends = ends};
    rd_head_pack(head, parcel->head);
}

/* The next parcel of a port, if it has one that may go. */
static void frame(tcp_conn *c, rd_port *p)
{
    const tcp_line *line = &p->out[p->framed % RD_QUEUE];
    const uint64_t room = RD_WINDOW - (p->flown - p->landed);
    uint64_t bytes = p->queued == p->framed ? 0 : line->bytes - p->framed_bytes;
    const bool blocked = bytes && !room;
    if (p->queued == p->framed || blocked) {
        if (rd_tcp_owes_credit(p))
            add_parcel(c, p, &(rd_head){.kind = RD_CREDIT}, NULL, false);
        return;
    }
    bytes = bytes > room ? room : bytes;
    bytes = bytes > RD_MOST_PARCEL ? RD_MOST_PARCEL : bytes;
    rd_head head = {.kind = RD_MESSAGE, .bytes = (uint32_t)bytes, .total = line->total};
    const rd_record *call =
        p->channel < p->link->link.channels ? call_of(p->link, line->mark) : NULL;
    if (call)
        head.call = *call;
    head.call.mark = line->mark;
    const char *data = line->data + p->framed_bytes;
    p->framed_bytes += bytes;
    p->flown += bytes;
    const bool ends = p->framed_bytes == line->bytes;
    if (ends) {
        p->framed++;
        p->framed_bytes = 0;
    }
    add_parcel(c, p, &head, data, ends);
    if (p->queued != p->framed)
        rd_tcp_make_ready(p);
}

static void fill(tcp_world *w, tcp_conn *c)
{
    tcp_peer *peer = &w->peers[c->rank];
    while (c->count < RD_PIPE) {
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
        rd_port *p = peer->out == c ? next_ready(peer) : NULL;
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
    if (parcel->port && parcel->ends)
        atomic_fetch_add_explicit(&parcel->port->written, 1, memory_order_release);
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
    size_t n = 0;
    uint64_t at = c->at;
    for (uint32_t i = 0; i < c->count; i++, at = 0) {
        tcp_parcel *p = &c->pipe[(c->first + i) % RD_PIPE];
        if (at < p->head_bytes)
            parts[n++] = (struct iovec){p->head + at, p->head_bytes - at};
        const uint64_t done = at > p->head_bytes ? at - p->head_bytes : 0;
        if (p->bytes > done)
            parts[n++] = (struct iovec){(char *)(uintptr_t)p->data + done, p->bytes - done};
    }
    const struct msghdr m = {.msg_iov = parts, .msg_iovlen = n};
    return sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void rd_tcp_flush_conn(tcp_world *w, tcp_conn *c)
{
    if (c->state != TCP_OPEN || c->fd < 0 || c->broken)
        return;
    for (;;) {
        fill(w, c);
        if (!c->count)
            break;
        const ssize_t n = write_pipe(c);
        if (n > 0) {
            advance(c, (uint64_t)n);
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            c->broken =
                true; /* what the peer wrote before it went is still to be read, and will say why */
            return;
        } else if (n < 0 && errno == EAGAIN) {
            if (!c->full)
                c->full = rd_tcp_watch(w, c, true);
            return;
        }
    }
    if (c->full && rd_tcp_watch(w, c, false))
        c->full = false;
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
           has_space(&c->letter, RD_CAUSE);
}

static bool append(tcp_text *t, const void *bytes, size_t length)
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
        return append(&c->next_control, bytes, RD_GREETING);
    rd_head_pack(head, packed);
    return has_space(&c->next_control, sizeof packed + head->bytes) && /* whole or not at all */
           append(&c->next_control, packed, sizeof packed) &&
           append(&c->next_control, bytes, head->bytes);
}

bool rd_tcp_settled(const tcp_conn *c)
{
    if (c->state != TCP_OPEN)
        return c->state == TCP_STRANGER; /* to whom nothing is said */
    return c->broken || (!c->count && !c->next_control.length);
}

/* --- messages that are not written after all --- */

static bool is_of(const tcp_link *l, uint64_t mark, bool all)
{
    const rd_record *call = all ? NULL : call_of(l, mark);
    return !call || call->sequence >= l->cause.sequence;
}

/* A parcel that is partly written must be written whole, from memory that stays. */
static bool spill(tcp_conn *c)
{
    tcp_parcel *p = &c->pipe[c->first];
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

void rd_tcp_forsake(tcp_link *l, bool all)
{
    tcp_world *w = l->world;
    for (tcp_conn *c = w->conns, *next; c; c = next) {
        next = c->next;
        if (all && c->into && c->into->link == l)
            c->into = NULL;
        clean_pipe(w, c, l, all);
    }
    for (size_t i = 0; i < (size_t)l->link.size * rd_queues(l->link.channels); i++) {
        rd_port *p = &l->ports[i];
        while (p->link && p->queued != p->framed &&
               is_of(l, p->out[(p->queued - 1) % RD_QUEUE].mark, all))
            p->queued--;
        if (p->queued == p->framed)
            p->framed_bytes = 0;
        if (p->link && !all && rd_tcp_owes_credit(p))
            rd_tcp_make_ready(p);
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

/* --- reading --- */

static void no_memory(tcp_link *l, uint32_t rank, uint64_t bytes)
{
    rd_error cause = {.rank = l->link.rank};
    rd_fail(&cause, RONDA_ENOMEM, rank,
            "rank %u: no memory for a message of %llu bytes from rank %u", l->link.rank,
            (unsigned long long)bytes, rank);
    cause.status = RONDA_ESYSTEM; /* for all ranks */
    rd_tcp_fail(l, &cause);
}

/* Room for so many more bytes of a message, in one piece; false: the peer sends more than it may, or there is
 * no memory, and then s->data is NULL. */
static bool make_room(tcp_world *w, tcp_slot *s, uint64_t bytes)
{
    if (s->total <= RD_INLINE) {
        s->data = (char *)s->small;
        s->capacity = RD_INLINE;
    } else if (!s->data) {
        const uint64_t most = 2 * (uint64_t)RD_WINDOW;
        s->data = rd_pool_take(w, s->total < most ? s->total : most, &s->capacity);
        if (!s->data)
            return false;
    }
    if (bytes > s->capacity - (s->end - s->start))
        return false;
    if (bytes > s->capacity - s->end) {
        memmove(s->data, s->data + s->start, s->end - s->start);
        s->end -= s->start;
        s->start = 0;
    }
    return true;
}

/* What needs no room at the peer any more.  false: that cannot be true */
static bool apply_credit(rd_port *p, const rd_head *h)
{
    const uint32_t acked = atomic_load_explicit(&p->acked, memory_order_relaxed);
    if (h->taken - acked > p->messages - acked || h->freed < p->landed || h->freed > p->flown)
        return false;
    atomic_store_explicit(&p->acked, h->taken, memory_order_relaxed);
    p->landed = h->freed;
    if (p->queued != p->framed)
        rd_tcp_make_ready(p);
    return true;
}

static bool begin_message(tcp_world *w, tcp_conn *c, tcp_link *l, rd_port *p, const rd_head *h)
{
    tcp_slot *s = &p->in[(p->came - p->filling) % RD_QUEUE];
    if (h->bytes > RD_WINDOW - (p->begun - p->freed))
        return false;
    if (!p->filling) {
        if (p->came - p->taken == RD_QUEUE)
            return false;
        *s = (tcp_slot){.total = h->total, .mark = h->call.mark};
        if (p->channel < l->link.channels)
            rd_tcp_note(l, p->rank, &h->call);
    } else if (s->total != h->total || s->mark != h->call.mark || h->bytes > s->total - s->got) {
        return false;
    }
    const bool room = make_room(w, s, h->bytes);
    if (!room && s->data)
        return false;
    if (!room) {
        no_memory(l, p->rank, h->total);
        return true; /* its bytes go nowhere */
    }
    if (!p->filling)
        p->came++;
    p->begun += h->bytes;
    p->filling = s->got + h->bytes < s->total;
    c->into = p;
    return true;
}

/* The parcel whose head has come; false: it cannot be one. */
static bool begin(tcp_world *w, tcp_conn *c)
{
    const rd_head *h = &c->head;
    c->left = h->bytes;
    c->into = NULL;
    c->letter.length = 0;
    if (h->kind == RD_HANGUP) {
        c->hung_up = true;
        return true;
    }
    tcp_link *l = rd_tcp_find(w, h->world);
    const uint32_t rank = l ? l->index_of[c->rank] : UINT32_MAX;
    if (l && rank == UINT32_MAX)
        return false;
    tcp_peer *peer = &w->peers[c->rank];
    if (h->kind == RD_MESSAGE && !peer->in)
        peer->in = c;
    if (h->kind == RD_MESSAGE && peer->in != c)
        return false; /* a peer writes its messages to one connection */
    if (!l || (h->kind != RD_MESSAGE && h->kind != RD_CREDIT))
        return true; /* of a part that this rank has closed; or what is heard when all of it has come */
    if (h->channel >= l->link.channels + 2)
        return false;
    rd_port *p = rd_tcp_port(&l->link, rank, h->channel);
    if (!apply_credit(p, h))
        return false;
    return h->kind == RD_CREDIT || begin_message(w, c, l, p, h);
}

static tcp_slot *slot_of(const tcp_conn *c)
{
    return &c->into->in[(c->into->came - 1) % RD_QUEUE];
}

/* So many bytes of the parcel have come, and are where they belong. */
static void came(tcp_conn *c, uint64_t bytes)
{
    tcp_link *l = c->into ? c->into->link : NULL;
    c->left -= bytes;
    if (!l)
        return;
    slot_of(c)->end += bytes;
    slot_of(c)->got += bytes;
    if (c->into->channel >= l->link.channels)
        atomic_fetch_add_explicit(&l->letters, 1, memory_order_relaxed);
}

/* News for which there is no memory are not heard; for those of a failure there is always some. */
static void keep(tcp_conn *c, const uint8_t *bytes, uint64_t count)
{
    if (c->into)
        memcpy(slot_of(c)->data + slot_of(c)->end, bytes, count);
    else if (c->head.kind != RD_MESSAGE && !append(&c->letter, bytes, count))
        c->head.kind = RD_MESSAGE; /* whose bytes go nowhere */
    came(c, count);
}

/* What is in the buffer; false: the connection is gone. */
static bool digest(tcp_world *w, tcp_conn *c)
{
    for (;;) {
        const uint32_t have = c->have - c->used;
        const uint8_t *at = c->input + c->used;
        if (c->greeted && c->left) {
            const uint64_t now = c->left < have ? c->left : have;
            if (!now)
                break;
            keep(c, at, now);
            c->used += (uint32_t)now;
            if (c->left || c->head.kind == RD_MESSAGE)
                continue;
            rd_tcp_hear(w, c, &c->head, c->letter.bytes);
            continue;
        }
        if (have < RD_HEAD)
            break;
        c->used += RD_HEAD; /* a greeting is as long */
        if (!c->greeted) {
            if (!rd_tcp_greeted(w, c, at))
                return false;
            continue;
        }
        if (!rd_head_unpack(at, &c->head) || !begin(w, c)) {
            rd_tcp_lost(w, c, EBADMSG);
            return false;
        }
        if (!c->left && c->into)
            came(c, 0);
        else if (!c->left && c->head.kind != RD_MESSAGE)
            rd_tcp_hear(w, c, &c->head, NULL);
    }
    memmove(c->input, c->input + c->used, c->have - c->used);
    c->have -= c->used;
    c->used = 0;
    return true;
}
_Static_assert((int)RD_HEAD == (int)RD_GREETING, "whatever comes first is as long as a head");

void rd_tcp_read(tcp_world *w, tcp_conn *c)
{
    enum { ENOUGH = 512 << 10 };
    uint64_t all = 0;
    while (all < ENOUGH) {
        struct iovec parts[2];
        size_t n = 0;
        const uint64_t direct = c->into && !c->have ? c->left : 0;
        if (direct)
            parts[n++] = (struct iovec){slot_of(c)->data + slot_of(c)->end, direct};
        const uint64_t room = direct + RD_INPUT - c->have;
        parts[n++] = (struct iovec){c->input + c->have, RD_INPUT - c->have};
        const ssize_t got = readv(c->fd, parts, (int)n);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            rd_tcp_lost(w, c, got ? errno : 0);
            return;
        }
        const uint64_t straight = (uint64_t)got < direct ? (uint64_t)got : direct;
        if (straight)
            came(c, straight);
        c->have += (uint32_t)((uint64_t)got - straight);
        all += (uint64_t)got;
        if (!digest(w, c))
            return;
        if ((uint64_t)got < room)
            return; /* that was all */
    }
}
