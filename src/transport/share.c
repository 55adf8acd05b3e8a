/* share.c: messages between ranks that see one mapping.
 *
 *     line   | seq 4 | ack 2 | kind 1 | len 1 | mark 8 | 48 bytes, or {at, len, total, back, ordinal} |
 *
 * Line k of a queue is in place k % RD_QUEUE and is there when seq is k + 1, which is stored last, so
 * that a small message is one cache line that changes hands.  ack carries how many lines the sender
 * has taken in the other direction: in a two-way exchange nobody reads `consumed`, the receiver's own
 * count, which a sender looks at only when the queue seems full or a loan must be released.  Lines are
 * 128 bytes apart, since processors fetch them in pairs.  Whoever has sent a line fetches the next one
 * for writing: the peer has it from the last time round, and the next send need not wait for it.
 *
 * Bytes that cannot be lent are staged: written to a place in the mapping and sent in pieces.  A port
 * has a small ring of its own, and all ports of a rank share the arena.  A port whose pieces fit
 * nowhere else still has its own ring, so none waits for what another peer has not taken.
 *
 * Sleepers.  Who has waited long sets `asleep`, makes sure that every running rank has seen it
 * (membarrier), looks once more, and sleeps.  Who publishes looks at the receiver's flag.  So the fast
 * path has no fence.  Where membarrier is not to be had, every publication has one.
 *
 * Whatever stands in the mapping may have been written by a rank that writes invalid data: numbers from it are
 * read once and checked before use. */
#include "transport/share.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"

#include <assert.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Rounds in which it spins that show that it takes longer than usual */
enum { IN_VAIN = 2 };
enum { BURST = 32, LINE_BYTES = 64, LOOKED_AT = 64 }; /* looks in a round; bytes; ranks */
enum { INLINE = 1, LENT, STAGED, RETURNED };

struct rd_port {
    const rd_data *data;
    rd_line *to, *from;
    _Atomic uint32_t *to_consumed, *from_consumed;
    rd_member *member;
    _Atomic uint32_t *peer_asleep;
    _Atomic uint32_t *peer_message_lines; /* of the channel for messages; else NULL */
    uint32_t sent, acked, taken;          /* lines */
    uint32_t peer;
    uint32_t messages;               /* sent: a message may take several lines */
    uint32_t last_line[RD_QUEUE];    /* of message m: [m % RD_QUEUE] */
    uint64_t small_head, small_tail; /* of its own ring, counted without end */
    uint64_t small_end[RD_QUEUE];    /* after line k: [k % RD_QUEUE] */
    uint64_t small_at;               /* where its ring begins */
    uint64_t staged;                 /* bytes of the arena that are not released */
    uint64_t reserved;               /* the place given last, as an offset */
    bool in_arena;                   /* and whose it is */
    uint64_t pushed;                 /* bytes of the message being sent that were committed */
    /* Bytes of the line being received: last shown, and released before */
    uint64_t shown, released;
    bool back_named; /* a loan has named a place for what the peer may return */
};

/* --- waiting --- */

static void wake(rd_member *m, uint32_t rank)
{
    m->whole->ring(m->whole, rd_rank_in_whole(m, rank));
}

static inline void wake_if_asleep(rd_port *p)
{
    if (p->member->link.fences)
        rd_fence();
    atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(p->peer_asleep, memory_order_relaxed))
        wake(p->member, p->peer);
}

void rd_everyone_fence(const rd_member *m)
{
    rd_fence();
    if (!m->link.fences)
        syscall(SYS_membarrier, m->membarrier, 0, 0);
}

static bool has_news(const rd_port *p)
{
    return atomic_load_explicit(&p->from[p->taken % RD_QUEUE].seq, memory_order_acquire) ==
           p->taken + 1;
}

/* Is the rank that is waited for, or if that may be any of them one of the others, on this rank's core?  Then it cannot
 * go on while this one spins. */
static bool shares_core(rd_member *m, const rd_port *port)
{
    rd_member *whole = m->whole;
    const uint32_t core = rd_control_say_core(&m->link), self = whole->link.rank;
    const uint32_t first = port ? rd_rank_in_whole(port->member, port->peer) : 0;
    const uint32_t end = port                           ? first + 1
                         : whole->link.size < LOOKED_AT ? whole->link.size
                                                        : LOOKED_AT;
    for (uint32_t r = first; r < end; r++)
        if (r != self && atomic_load_explicit(&whole->boards[r].core, memory_order_relaxed) == core)
            return true;
    return false;
}

void rd_share_wait(rd_link *l, rd_port *port, uint32_t idle, uint64_t until_ns)
{
    rd_member *m = rd_member_of(l), *whole = m->whole;
    _Atomic uint32_t *asleep = &whole->boards[whole->link.rank].asleep;
    if (idle < RD_SPINS && !m->crowded && !(idle >= IN_VAIN && shares_core(m, port))) {
        for (int k = 0; k < BURST; k++) {
            if (port ? has_news(port) : k == 4)
                return;
            rd_relax();
        }
        return;
    }
    if (idle < RD_SPINS + RD_YIELDS) {
        sched_yield();
        return;
    }
    if (!atomic_load_explicit(asleep, memory_order_relaxed)) {
        atomic_store(asleep, 1);
        rd_everyone_fence(m);
        return; /* the caller looks once more before it sleeps */
    }
    if (until_ns > rd_now_ns())
        whole->sleep(whole, until_ns);
    atomic_store(asleep, 0);
}

/* Whoever has said that it sleeps, or will before it looks again. */
void rd_share_wake(rd_link *l)
{
    rd_member *whole = rd_member_of(l)->whole;
    rd_fence();
    if (atomic_load(&whole->boards[whole->link.rank].asleep))
        whole->ring(whole, whole->link.rank);
}

void rd_wake_all(rd_member *m)
{
    rd_everyone_fence(m);
    for (uint32_t r = 0; r < m->link.size; r++)
        if (atomic_load(&m->whole->boards[rd_rank_in_whole(m, r)].asleep))
            wake(m, r);
}

/* --- places for bytes --- */

static inline void learn(rd_port *p, uint32_t acked)
{
    const uint32_t news = acked - p->acked;
    if (news == 0 || news > RD_QUEUE || news > p->sent - p->acked)
        return; /* old news, or none that can be true */
    p->acked = acked;
    p->small_tail = p->small_end[(acked - 1) % RD_QUEUE];
}

static void ask(rd_port *p)
{
    learn(p, atomic_load_explicit(p->to_consumed, memory_order_acquire));
}

static bool line_completed(rd_port *p, uint32_t line)
{
    if ((int32_t)(p->acked - line) > 0)
        return true;
    ask(p);
    return (int32_t)(p->acked - line) > 0;
}

static inline bool has_room(rd_port *p)
{
    if (p->sent - p->acked < RD_QUEUE)
        return true;
    ask(p);
    return p->sent - p->acked < RD_QUEUE;
}

/* Where `bytes` in one piece would begin in a ring that has given out up to head. */
static uint64_t place_in(uint64_t head, uint64_t ring, uint64_t bytes)
{
    const uint64_t at = head & (ring - 1);
    return at + bytes > ring ? head + ring - at : head;
}

static uint64_t whole_lines(uint64_t bytes)
{
    return (bytes + LINE_BYTES - 1) & ~(uint64_t)(LINE_BYTES - 1);
}
_Static_assert(RD_SHORT_PIECE % LINE_BYTES == 0 && RD_PIECE <= UINT32_MAX,
               "a short piece fills whole lines, and a piece's length has 32 bits");

static bool reserve_small(rd_port *p, uint64_t bytes)
{
    const uint64_t ring = p->member->small_bytes;
    if (bytes > ring)
        return false;
    assert(p->small_tail <= p->small_head);
    const uint64_t head = place_in(p->small_head, ring, bytes);
    if (head + bytes - p->small_tail > ring) {
        ask(p);
        if (p->small_tail == p->small_head) /* nothing is in it: any place will do */
            p->small_tail = head;
        if (head + bytes - p->small_tail > ring)
            return false;
    }
    p->small_head = head;
    p->reserved = p->small_at + (head & (ring - 1));
    p->in_arena = false;
    return true;
}

/* What is of a world that this rank has given up need not be read any more. */
static bool piece_completed(const rd_staged *piece)
{
    return line_completed(piece->port, piece->line) || piece->port->member->given_up;
}

void rd_arena_tidy(rd_ring *a)
{
    while (a->count && piece_completed(&a->pieces[a->first])) {
        const rd_staged *piece = &a->pieces[a->first];
        assert(piece->end >= a->tail && piece->end <= a->head); /* places are free in order */
        assert(piece->port->staged >= piece->bytes && piece->port->member->staged);
        a->tail = piece->end;
        piece->port->staged -= piece->bytes;
        piece->port->member->staged--;
        a->first = (a->first + 1) % RD_STAGED;
        a->count--;
    }
}

static void note_piece(rd_ring *a, rd_port *p, uint64_t bytes, uint64_t end)
{
    assert(a->count < RD_STAGED && end <= a->head && a->head - a->tail <= a->bytes);
    a->pieces[(a->first + a->count++) % RD_STAGED] = (rd_staged){p, p->sent, (uint32_t)bytes, end};
    p->member->staged++;
}

static bool reserve_arena(rd_port *p, uint64_t bytes)
{
    rd_ring *a = p->member->arena;
    rd_arena_tidy(a);
    if (!a->count && a->head >= a->around) /* from the beginning, where it is warm */
        a->head = a->tail = 0;
    const uint64_t head = place_in(a->head, a->bytes, bytes);
    if (a->count == RD_STAGED || head + bytes - a->tail > a->bytes ||
        p->staged + bytes > p->member->share)
        return false;
    a->head = head + bytes; /* now, not at the commit: other ports may reserve before that */
    p->staged += bytes;
    note_piece(a, p, bytes, a->head);
    p->reserved = a->at + (head & (a->bytes - 1));
    p->in_arena = true;
    return true;
}

/* In the arena while it has room for this port; else a little by the port's own ring, but not as long
 * as the peer has something to go on with. */
static bool reserve_staged(rd_port *p, uint64_t least, uint64_t *bytes)
{
    assert(least <= *bytes);
    if (*bytes <= RD_SHORT_PIECE)
        return reserve_small(p, whole_lines(*bytes));
    const uint64_t piece = p->member->piece;
    const uint64_t most = *bytes < piece ? *bytes : piece;
    if (most >= least && reserve_arena(p, whole_lines(most))) {
        *bytes = most;
        return true;
    }
    if (least > RD_SHORT_PIECE || (p->sent != p->acked && !line_completed(p, p->sent - 1)) ||
        !reserve_small(p, RD_SHORT_PIECE))
        return false;
    *bytes = RD_SHORT_PIECE;
    return true;
}

void *rd_share_reserve(rd_port *p, uint64_t least, uint64_t *bytes)
{
    if (!has_room(p))
        return NULL;
    if (*bytes <= RD_INLINE && !p->pushed)
        return p->to[p->sent % RD_QUEUE].data;
    return reserve_staged(p, least, bytes) ? (char *)p->member->origin + p->reserved : NULL;
}

/* --- messages --- */

rd_port *rd_share_port(rd_link *l, uint32_t peer, uint32_t channel)
{
    rd_member *m = rd_member_of(l);
    assert(peer < l->size && channel < rd_queues(l->channels));
    const size_t at = (size_t)channel * l->size + peer;
    rd_port *p = &m->ports[at];
    if (p->member)
        return p;
    rd_queue *to = &m->queues[((size_t)channel * l->size + l->rank) * l->size + peer];
    rd_queue *from = &m->queues[((size_t)channel * l->size + peer) * l->size + l->rank];
    *p = (rd_port){.data = m->data,
                   .to = to->lines,
                   .from = from->lines,
                   .to_consumed = &to->consumed,
                   .from_consumed = &from->consumed,
                   .member = m,
                   .peer_asleep = &m->whole->boards[rd_rank_in_whole(m, peer)].asleep,
                   .peer_message_lines =
                       channel >= l->channels ? &m->boards[peer].message_lines : NULL,
                   .peer = peer,
                   .small_at = m->small_at + (m->messages_alone ? peer : at) * m->small_bytes};
    return p;
}

bool rd_share_can_send(rd_port *p)
{
    return has_room(p);
}

/* ends: this line ends its message. */
static inline void publish(rd_port *p, rd_line *line, uint8_t kind, uint8_t len, uint64_t mark,
                           bool ends)
{
    assert(p->sent - p->acked < RD_QUEUE); /* reserve() or can_send() has said so */
    line->ack = (uint16_t)p->taken;
    line->kind = kind;
    line->len = len;
    line->mark = mark;
    p->small_end[p->sent % RD_QUEUE] = p->small_head;
    if (ends)
        p->last_line[p->messages++ % RD_QUEUE] = p->sent;
    atomic_store_explicit(&line->seq, ++p->sent, memory_order_release);
    rd_own(&p->to[p->sent % RD_QUEUE]);
    if (p->peer_message_lines)
        atomic_fetch_add(p->peer_message_lines, 1);
    wake_if_asleep(p);
}

/* The next message by the port's own ring may be as long as this one: its lines are with the peer, which has
 * read them the last time round. */
static void fetch_ahead(const rd_port *p, uint64_t bytes)
{
    const uint64_t ring = p->member->small_bytes, head = place_in(p->small_head, ring, bytes);
    rd_own_range((const char *)p->member->origin + p->small_at + (head & (ring - 1)), bytes);
}

void rd_share_commit(rd_port *p, uint64_t bytes, uint64_t total, uint64_t mark)
{
    rd_line *line = &p->to[p->sent % RD_QUEUE];
    if (total <= RD_INLINE) {
        assert(bytes == total);
        publish(p, line, INLINE, (uint8_t)bytes, mark, true);
        return;
    }
    assert(bytes && bytes <= total);
    line->ref.at = p->reserved;
    line->ref.len = bytes;
    line->ref.total = total;
    p->pushed += bytes;
    const bool ends = p->pushed == total;
    if (ends)
        p->pushed = 0;
    if (!p->in_arena)
        p->small_head += whole_lines(bytes);
    publish(p, line, STAGED, 0, mark, ends);
    if (!p->in_arena && !p->member->crowded)
        fetch_ahead(p, bytes);
}

/* The place is free when all who were sent it have released it: the last of them holds its end. */
bool rd_share_share(rd_port *p, const rd_port *committed, uint64_t bytes, uint64_t total,
                    uint64_t mark)
{
    rd_ring *a = p->member->arena;
    if (!committed->in_arena || bytes <= RD_SHORT_PIECE || a->count == RD_STAGED || !has_room(p))
        return false;
    rd_staged *last = &a->pieces[(a->first + a->count - 1) % RD_STAGED];
    /* Nothing was reserved since: the last piece is the one that was committed */
    assert(a->count &&
           a->at + ((last->end - whole_lines(bytes)) & (a->bytes - 1)) == committed->reserved);
    note_piece(a, p, 0, last->end);
    last->end -= whole_lines(bytes);
    p->reserved = committed->reserved;
    p->in_arena = true;
    rd_share_commit(p, bytes, total, mark);
    return true;
}

bool rd_share_lends(const rd_port *p, const void *data, uint64_t bytes)
{
    const rd_member *m = p->member;
    const uint64_t at = (uintptr_t)data - m->origin;
    return at < m->limit && bytes <= m->limit - at;
}

void rd_share_lend(rd_port *p, const rd_loan *loan)
{
    rd_line *line = &p->to[p->sent % RD_QUEUE];
    assert(rd_share_lends(p, loan->data, loan->bytes));
    assert(!loan->back || rd_share_lends(p, loan->back, loan->bytes));
    line->ref.at = (uintptr_t)loan->data - p->member->origin;
    line->ref.len = loan->bytes;
    line->ref.back = loan->back ? (uintptr_t)loan->back - p->member->origin : 0;
    line->ref.back_ordinal = loan->back_ordinal;
    p->back_named |= loan->back != NULL;
    publish(p, line, LENT, 0, loan->mark, true);
}

void rd_share_give_back(rd_port *p, uint64_t bytes, uint64_t mark)
{
    rd_line *line = &p->to[p->sent % RD_QUEUE];
    line->ref.len = bytes;
    publish(p, line, RETURNED, 0, mark, true);
}

uint32_t rd_share_sent(const rd_port *p)
{
    return p->messages;
}

bool rd_share_completed(rd_port *p, uint32_t message)
{
    if (p->messages - message > RD_QUEUE)
        return true; /* a queue holds no more than that */
    return line_completed(p, p->last_line[message % RD_QUEUE]);
}

/* Whether so many bytes at this offset are within what messages may speak of. */
static bool within(const rd_member *m, uint64_t at, uint64_t bytes)
{
    return bytes <= m->limit && at <= m->limit - bytes;
}

/* What a line says, or false if that cannot be true.  It is read once: whoever wrote it may still be
 * writing. */
static bool understand(const rd_port *p, const rd_line *line, rd_view *view)
{
    const volatile rd_line *l = line;
    const rd_member *m = p->member;
    const uint8_t kind = l->kind, len = l->len;
    view->mark = l->mark;
    view->back = NULL;
    if (kind == INLINE) {
        view->data = line->data;
        view->bytes = view->total = len;
        return len <= RD_INLINE;
    }
    const uint64_t at = l->ref.at, bytes = l->ref.len;
    view->bytes = view->total = bytes;
    if (kind == RETURNED) {
        view->data = NULL;
        return p->back_named;
    }
    view->data = (const char *)m->origin + at;
    if (kind == STAGED) {
        view->total = l->ref.total;
        return within(m, at, bytes) && bytes && bytes <= view->total;
    }
    const uint64_t back = l->ref.back;
    view->back = back ? (char *)m->origin + back : NULL;
    view->back_ordinal = l->ref.back_ordinal;
    return kind == LENT && within(m, at, bytes) && within(m, back, bytes);
}

bool rd_share_peek(rd_port *p, rd_view *view)
{
    const rd_line *line = &p->from[p->taken % RD_QUEUE];
    if (atomic_load_explicit(&line->seq, memory_order_acquire) != p->taken + 1)
        return false;
    learn(p, p->acked + (uint16_t)(line->ack - p->acked));
    bool good = understand(p, line, view);
    if (p->released && good) { /* it may say something else than before */
        good = view->data && view->bytes > p->released;
        view->data = (const char *)view->data + (good ? p->released : 0);
        view->bytes -= p->released;
    }
    if (!good)
        *view = (rd_view){.total = UINT64_MAX};
    p->shown = view->bytes;
    return true;
}

void rd_share_release(rd_port *p, uint64_t bytes)
{
    assert(bytes <= p->shown);
    if (bytes < p->shown) {
        p->released += bytes;
        return;
    }
    p->released = 0;
    atomic_store_explicit(p->from_consumed, ++p->taken, memory_order_release);
    wake_if_asleep(p);
}

size_t rd_share_ports_bytes(uint32_t size, uint32_t channels)
{
    return (size_t)size * rd_queues(channels) * sizeof(rd_port);
}
