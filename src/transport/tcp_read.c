/* tcp_read.c: bytes from streams.  Heads and short parcels come through a small buffer, long ones straight to where
 * their message is kept. */
#include "transport/tcp_inside.h"

#include "base/crc32c.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

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
    if (s->placed)
        return bytes <= s->total - s->end;
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
            rd_control_note(&l->link, p->rank, &h->call);
    } else if (s->total != h->total || s->mark != h->call.mark || h->bytes > s->total - s->got) {
        return false;
    }
    s->unchecked =
        0; /* after a failure, the rest of the parcel before this one may have gone nowhere */
    rd_tcp_place(p, s);
    if (s->cancelled) {
        p->begun += h->bytes;
        s->got += h->bytes;
        p->filling = s->got < s->total;
        return true;
    }
    const bool room = make_room(w, s, h->bytes);
    if (!room && s->data)
        return false;
    if (!room) {
        no_memory(l, p->rank, h->total);
        return true; /* its bytes go nowhere */
    }
    p->came += !p->filling;
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
    c->crc = 0;
    c->into = NULL;
    c->body.length = 0;
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
    if (h->channel >= l->link.channels + RD_MESSAGE_CHANNELS)
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

/* Where the next bytes of the message go. */
static char *next_place(const tcp_conn *c)
{
    const tcp_slot *s = slot_of(c);
    return s->data + s->end + s->unchecked;
}

/* What has come of the message may be used. */
static void show(tcp_conn *c)
{
    tcp_slot *s = slot_of(c);
    tcp_link *l = c->into->link;
    s->end += s->unchecked;
    s->got += s->unchecked;
    s->unchecked = 0;
    assert(s->got <= s->total);
    c->whole |= s->got == s->total && s->total >= RD_LONG;
    if (c->into->channel >= l->link.channels)
        atomic_fetch_add(&l->link.boards[l->link.rank].board->message_lines, 1);
}

/* So many bytes of the parcel have come, and are where they belong. */
static void came(tcp_conn *c, const void *bytes, uint64_t count)
{
    assert(count <= c->left);
    c->left -= count;
    if (c->checked)
        c->crc = rd_crc32c(c->crc, bytes, count);
    if (!c->into)
        return;
    tcp_slot *s = slot_of(c);
    s->unchecked += count;
    assert(s->end + s->unchecked <= s->capacity);
    if (!c->checked)
        show(c);
}

/* All of the parcel has come.  false: it was changed on its way */
static bool finish(tcp_world *w, tcp_conn *c)
{
    if (c->checked && c->crc != c->head.body_crc) {
        rd_tcp_corrupt(w, c, &c->head);
        return false;
    }
    if (c->into && (c->checked || !c->head.bytes))
        show(c);
    else if (!c->into && c->head.kind != RD_MESSAGE)
        rd_tcp_hear(w, c, &c->head, c->head.bytes ? c->body.bytes : NULL);
    return true;
}

/* News for which there is no memory are not heard; for those of a failure there is always some. */
static void keep(tcp_conn *c, const uint8_t *bytes, uint64_t count)
{
    if (c->into)
        memcpy(next_place(c), bytes, count);
    else if (c->head.kind != RD_MESSAGE && !rd_tcp_append(&c->body, bytes, count))
        c->head.kind = RD_MESSAGE; /* whose bytes go nowhere */
    came(c, bytes, count);
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
            if (!c->left && !finish(w, c))
                return false;
            continue;
        }
        const uint32_t need = c->greeted ? RD_HEAD : RD_GREETING;
        if (have < need)
            break;
        c->used += need;
        if (!c->greeted) {
            if (!rd_tcp_greeted(w, c, at))
                return false;
            continue;
        }
        if (c->checked && !rd_head_is_whole(at)) {
            rd_tcp_corrupt(w, c, NULL);
            return false;
        }
        if (!rd_head_unpack(at, &c->head) || !begin(w, c)) {
            rd_tcp_lost(w, c, EBADMSG);
            return false;
        }
        if (!c->left && !finish(w, c))
            return false;
    }
    memmove(c->input, c->input + c->used, c->have - c->used);
    c->have -= c->used;
    c->used = 0;
    return true;
}

void rd_tcp_read(tcp_world *w, tcp_conn *c)
{
    enum { ENOUGH = 512 << 10 };
    uint64_t all = 0;
    c->whole = false;
    while (all < ENOUGH) {
        struct iovec parts[2];
        int n = 0;
        const uint64_t direct = c->into && !c->have ? c->left : 0;
        if (direct)
            parts[n++] = (struct iovec){next_place(c), direct};
        const uint64_t room = direct + RD_INPUT - c->have;
        parts[n++] = (struct iovec){c->input + c->have, RD_INPUT - c->have};
        const ssize_t got = c->stream->kind->read(c->stream, parts, n);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            rd_tcp_lost(w, c, got ? errno : 0);
            return;
        }
        all += (uint64_t)got;
        if (c->corrupt) /* it is read so that its sender can still be told */
            continue;
        const uint64_t straight = (uint64_t)got < direct ? (uint64_t)got : direct;
        if (straight)
            came(c, next_place(c), straight);
        if (straight && !c->left && !finish(w, c))
            return;
        c->have += (uint32_t)((uint64_t)got - straight);
        if (!digest(w, c))
            return;
        if ((uint64_t)got < room || c->whole)
            break; /* that was all; or the engine may fold it while it is hot, and post the next receive */
    }
}
