/* control.c: boards, and the first cause; control.h says who reads and who writes. */
#include "transport/control.h"

#include "base/atomic.h"
#include "base/clock.h"

#include <assert.h>
#include <sched.h>

static rd_board *own(const rd_link *l)
{
    return l->boards[l->rank].board;
}

/* --- calls that were announced --- */

static _Atomic uint64_t *slot_of(const rd_known *k, uint64_t sequence)
{
    return k->calls[sequence & (k->records - 1)].words;
}

/* Whoever reads it meanwhile sees that its number changes. */
static void write_record(const rd_known *k, const rd_record *r)
{
    _Atomic uint64_t *slot = slot_of(k, r->sequence);
    const uint64_t words[RD_RECORD_WORDS] = {r->sequence,
                                             r->mark,
                                             r->count,
                                             (uint64_t)(uint32_t)r->kind << 32 | (uint32_t)r->type,
                                             (uint64_t)(uint32_t)r->op << 32 | r->root,
                                             r->algorithm};
    atomic_store_explicit(&slot[0], 0, memory_order_release);
    for (int i = 1; i < RD_RECORD_WORDS; i++)
        atomic_store_explicit(&slot[i], words[i], memory_order_release);
    atomic_store_explicit(&slot[0], words[0], memory_order_release);
}

bool rd_control_record(const rd_link *l, uint32_t peer, uint64_t sequence, rd_record *out)
{
    assert(peer < l->size);
    _Atomic uint64_t *slot = slot_of(&l->boards[peer], sequence);
    uint64_t words[RD_RECORD_WORDS];
    for (int i = 0; i < RD_RECORD_WORDS; i++)
        words[i] = atomic_load_explicit(&slot[i], memory_order_acquire);
    if (!sequence || words[0] != sequence ||
        atomic_load_explicit(&slot[0], memory_order_acquire) != sequence)
        return false;
    *out = (rd_record){.sequence = words[0],
                       .mark = words[1],
                       .count = words[2],
                       .kind = (ronda_kind)(words[3] >> 32),
                       .type = (ronda_type)(uint32_t)words[3],
                       .op = (ronda_op)(words[4] >> 32),
                       .root = (uint32_t)words[4],
                       .algorithm = (uint32_t)words[5]};
    return true;
}

/* --- where this rank stands --- */

enum { CORE_EVERY = 8 }; /* calls: seldom beside them, often beside how systems move ranks */

uint32_t rd_control_say_core(rd_link *l)
{
    rd_board *b = own(l->whole ? l->whole : l);
    const uint32_t core = (uint32_t)sched_getcpu() + 1;
    if (atomic_load_explicit(&b->core, memory_order_relaxed) != core)
        atomic_store_explicit(&b->core, core, memory_order_relaxed);
    return core;
}

void rd_control_enter(rd_link *l, const rd_record *r)
{
    write_record(&l->boards[l->rank], r);
    atomic_store_explicit(&own(l)->awaits, 0, memory_order_relaxed);
    rd_control_resume(l, r->sequence);
    if (__builtin_expect(r->sequence % CORE_EVERY == 0, 0))
        rd_control_say_core(l);
}

void rd_control_resume(rd_link *l, uint64_t sequence)
{
    atomic_store_explicit(&own(l)->entered, sequence * RD_STATES + RD_INSIDE, memory_order_release);
    if (l->fences)
        rd_fence();
    /* Before the caller looks at the alarm: see rd_share_quiesce */
    atomic_signal_fence(memory_order_seq_cst);
}

void rd_control_leave(rd_link *l, uint64_t sequence)
{
    atomic_store_explicit(&own(l)->entered, sequence * RD_STATES, memory_order_release);
}

void rd_control_pause(rd_link *l, uint64_t sequence)
{
    atomic_store_explicit(&own(l)->entered, sequence * RD_STATES + RD_POSTED, memory_order_release);
}

static void write_awaits(rd_board *b, uint32_t peer, uint64_t now)
{
    atomic_store_explicit(&b->heard_ns, now, memory_order_relaxed);
    atomic_store_explicit(&b->awaits, peer + 1, memory_order_relaxed);
}

void rd_control_await(rd_link *l, uint32_t peer, bool late)
{
    write_awaits(own(l), peer, rd_now_ns());
    if (l->transport->gossip)
        l->transport->gossip(l, peer, late);
}

enum { FULL = 1 << 8, AT_TYPE = 16, AT_TAG = 32 };
_Static_assert((int)RD_RECEIVING < (int)FULL && RONDA_U64 <= UINT8_MAX,
               "a direction and a type are bytes");

/* The count is written first, and is of no message until the first word says so. */
static void write_message(rd_board *b, const rd_pending *m, bool full)
{
    uint64_t word = full ? FULL : 0;
    if (m)
        word |= (uint64_t)m->direction | (uint64_t)(uint8_t)m->type << AT_TYPE |
                (uint64_t)m->tag << AT_TAG;
    atomic_store_explicit(&b->message[0], 0, memory_order_release);
    atomic_store_explicit(&b->message[1], m ? m->count : 0, memory_order_release);
    atomic_store_explicit(&b->message[0], word, memory_order_release);
}

void rd_control_announce(rd_link *l, const rd_pending *m, bool full)
{
    assert(!m || m->direction == RD_SENDING || m->direction == RD_RECEIVING);
    write_message(own(l), m, full);
}

/* --- where the others stand --- */

static void read_message(rd_board *b, rd_presence *p)
{
    const uint64_t word = atomic_load_explicit(&b->message[0], memory_order_acquire);
    const uint64_t count = atomic_load_explicit(&b->message[1], memory_order_acquire);
    if (atomic_load_explicit(&b->message[0], memory_order_acquire) != word)
        return;
    p->full = word & FULL;
    if (p->inside && (word & 0xff) <= RD_RECEIVING)
        p->message = (rd_pending){.direction = (rd_direction)(word & 0xff),
                                  .type = (ronda_type)(word >> AT_TYPE & 0xff),
                                  .peer = p->awaits,
                                  .tag = (uint32_t)(word >> AT_TAG),
                                  .count = count};
}

rd_presence rd_control_board(const rd_link *l, uint32_t peer)
{
    assert(peer < l->size);
    rd_board *b = l->boards[peer].board;
    const bool closed = atomic_load(&b->closed);
    const uint64_t entered = atomic_load_explicit(&b->entered, memory_order_acquire);
    const uint32_t awaits = atomic_load_explicit(&b->awaits, memory_order_relaxed);
    rd_presence p = {.sequence = entered / RD_STATES,
                     .inside = entered & RD_INSIDE,
                     .posted = entered & RD_POSTED,
                     .running = entered & RD_INSIDE &&
                                atomic_load_explicit(&b->running, memory_order_relaxed),
                     .closed = closed,
                     .remote = l->boards[peer].copy,
                     .awaits = awaits - 1,
                     .heard_ns = atomic_load_explicit(&b->heard_ns, memory_order_relaxed)};
    read_message(b, &p);
    return p;
}

/* It is asked first: a death that is found is told with what the board says. */
rd_presence rd_control_presence(rd_link *l, uint32_t peer)
{
    const bool dead = peer != l->rank && l->transport->dead && l->transport->dead(l, peer);
    rd_presence p = rd_control_board(l, peer);
    p.dead = dead;
    return p;
}

uint32_t rd_control_message_lines(const rd_link *l)
{
    return atomic_load_explicit(&own(l)->message_lines, memory_order_acquire);
}

/* --- what is heard --- */

void rd_control_note(rd_link *l, uint32_t rank, const rd_record *call)
{
    const rd_known *k = &l->boards[rank];
    if (!call->sequence || !k->copy)
        return;
    write_record(k, call);
    if (call->sequence > atomic_load_explicit(&k->board->entered, memory_order_relaxed) / RD_STATES)
        atomic_store_explicit(&k->board->entered, call->sequence * RD_STATES,
                              memory_order_release); /* whether it is inside it will say */
}

void rd_control_hear(rd_link *l, uint32_t rank, const rd_presence *heard)
{
    rd_board *b = l->boards[rank].board;
    if (!l->boards[rank].copy)
        return;
    atomic_store_explicit(
        &b->entered, heard->sequence * 4 + (heard->posted ? 2u : 0u) + (heard->inside ? 1u : 0u),
        memory_order_release);
    write_message(b, &heard->message, heard->full);
    write_awaits(b, heard->awaits, heard->heard_ns);
}

void rd_control_closed(rd_link *l, uint32_t rank)
{
    rd_board *b = l->boards[rank].board;
    assert(l->boards[rank].copy);
    atomic_store(&b->closed, 1);
    atomic_fetch_and(&b->entered, ~(uint64_t)RD_INSIDE);
}

/* --- failure --- */

void rd_control_raise(rd_failure *f, const rd_error *cause)
{
    uint32_t none = 0;
    if (atomic_compare_exchange_strong(&f->deciding, &none, 1)) {
        f->cause = *cause;
        atomic_store(&f->alarm, 1);
    }
    const uint64_t until = rd_now_ns() + 100000000;
    while (!atomic_load(&f->alarm) && rd_now_ns() < until)
        sched_yield();          /* another rank is a few stores away from it */
    atomic_store(&f->alarm, 1); /* or died there: then its cause is cut short */
}

void rd_control_cause(const rd_link *l, rd_error *out)
{
    const rd_failure *f = l->failure;
    if (!atomic_load(&f->alarm))
        return;
    *out = f->cause;
    out->message[sizeof out->message - 1] = 0;
    for (char *c = out->message; *c; c++) /* it is shown to people */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    /* Whoever wrote it did not get far, or wrote what is no cause */
    if (out->status > RONDA_ETIMEOUT || out->status < RONDA_EINTERNAL || !out->message[0])
        rd_fail(out, RONDA_EPEER, RONDA_ANY,
                "rank %u: the world has failed, and the rank that noticed died while it said why",
                l->rank);
}
