/* board.c: what ranks that see one mapping tell each other beside their messages: where each stands, the
 * calls it has made, and why the world has failed. */
#include "transport/share.h"

#include "base/atomic.h"
#include "base/clock.h"

#include <sched.h>

enum { CORE_EVERY = 8 }; /* calls: seldom beside them, often beside how systems move ranks */

/* --- where a rank stands --- */

uint32_t rd_share_say_core(rd_member *m)
{
    rd_member *whole = m->whole;
    const uint32_t core = (uint32_t)sched_getcpu() + 1;
    if (core != whole->core) {
        whole->core = core;
        atomic_store_explicit(&whole->boards[whole->link.rank].core, core, memory_order_relaxed);
    }
    return core;
}

static _Atomic uint64_t *slot_of(rd_link *l, uint32_t rank, uint64_t sequence)
{
    const uint32_t records = rd_records(l->channels); /* a power of two */
    return rd_member_of(l)->calls[(size_t)rank * records + (sequence & (records - 1))].words;
}

void rd_share_enter(rd_link *l, const rd_record *r)
{
    rd_member *m = rd_member_of(l);
    rd_board *b = &m->boards[l->rank];
    _Atomic uint64_t *slot = slot_of(l, l->rank, r->sequence);
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
    atomic_store_explicit(&b->awaits, 0, memory_order_relaxed);
    rd_share_resume(l, r->sequence);
    if (__builtin_expect(r->sequence % CORE_EVERY == 0, 0))
        rd_share_say_core(m);
}

void rd_share_resume(rd_link *l, uint64_t sequence)
{
    const rd_member *m = rd_member_of(l);
    atomic_store_explicit(&m->boards[l->rank].entered, sequence * 4 + 1, memory_order_release);
    if (m->fences)
        rd_fence();
    /* Before the caller looks at the alarm: see quiesce */
    atomic_signal_fence(memory_order_seq_cst);
}

void rd_share_leave(rd_link *l, uint64_t sequence)
{
    atomic_store_explicit(&rd_member_of(l)->boards[l->rank].entered, sequence * 4,
                          memory_order_release);
}

void rd_share_pause(rd_link *l, uint64_t sequence)
{
    atomic_store_explicit(&rd_member_of(l)->boards[l->rank].entered, sequence * 4 + 2,
                          memory_order_release);
}

void rd_share_await(rd_link *l, uint32_t peer, bool late)
{
    rd_board *b = &rd_member_of(l)->boards[l->rank];
    (void)late; /* whoever wants to know looks at the board */
    atomic_store_explicit(&b->heard_ns, rd_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&b->awaits, peer + 1, memory_order_relaxed);
}

enum { FULL = 1 << 8, AT_TYPE = 16, AT_TAG = 32 };

/* The count is written first, and is of no message until the first word says so. */
void rd_share_announce(rd_link *l, const rd_pending *m, bool full)
{
    rd_board *b = &rd_member_of(l)->boards[l->rank];
    uint64_t word = full ? FULL : 0;
    if (m)
        word |= (uint64_t)m->direction | (uint64_t)(uint8_t)m->type << AT_TYPE |
                (uint64_t)m->tag << AT_TAG;
    atomic_store_explicit(&b->message[0], 0, memory_order_release);
    atomic_store_explicit(&b->message[1], m ? m->count : 0, memory_order_release);
    atomic_store_explicit(&b->message[0], word, memory_order_release);
}

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

bool rd_share_record(rd_link *l, uint32_t peer, uint64_t sequence, rd_record *out)
{
    _Atomic uint64_t *slot = slot_of(l, peer, sequence);
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

rd_presence rd_share_presence(rd_link *l, uint32_t peer)
{
    rd_board *b = &rd_member_of(l)->boards[peer];
    const bool closed = atomic_load(&b->closed);
    const uint64_t entered = atomic_load_explicit(&b->entered, memory_order_acquire);
    const uint32_t awaits = atomic_load_explicit(&b->awaits, memory_order_relaxed);
    rd_presence p = {.sequence = entered / 4,
                     .inside = entered & 1,
                     .posted = entered & 2,
                     .running =
                         entered & 1 && atomic_load_explicit(&b->running, memory_order_relaxed),
                     .closed = closed,
                     .awaits = awaits - 1,
                     .heard_ns = atomic_load_explicit(&b->heard_ns, memory_order_relaxed)};
    read_message(b, &p);
    return p;
}

/* --- failure --- */

void rd_share_abort(rd_link *l, const rd_error *cause)
{
    rd_member *m = rd_member_of(l);
    uint32_t none = 0;
    if (atomic_compare_exchange_strong(&m->head->deciding, &none, 1)) {
        m->head->cause = *cause;
        atomic_store(&m->head->alarm, 1);
    }
    const uint64_t until = rd_now_ns() + 100000000;
    while (!atomic_load(&m->head->alarm) && rd_now_ns() < until)
        sched_yield();                /* another rank is a few stores away from it */
    atomic_store(&m->head->alarm, 1); /* or died there: then its cause is cut short */
    rd_wake_all(m);
}

void rd_share_cause(rd_link *l, rd_error *out)
{
    const rd_share_head *head = rd_member_of(l)->head;
    if (!atomic_load(&head->alarm))
        return;
    *out = head->cause;
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

/* A rank inside a call may be reading our bytes or storing into them.  It stops at its next step, for
 * it looks at the alarm; one that enters later looks before it touches anything.  The fence makes
 * sure that whoever has not seen the alarm is seen to be inside. */
void rd_share_quiesce(rd_link *l, uint64_t until_ns, uint64_t soon_ns)
{
    rd_error cause = {0};
    rd_share_cause(l, &cause);
    rd_member_of(l)->given_up = cause.status != RONDA_EMISMATCH; /* then earlier calls go on */
    rd_everyone_fence(rd_member_of(l));
    for (uint32_t r = 0; r < l->size; r++)
        while (r != l->rank) {
            const rd_presence p = l->transport->presence(l, r);
            if (!p.inside || p.dead ||
                rd_now_ns() >= (p.running && soon_ns < until_ns ? soon_ns : until_ns))
                break;
            sched_yield();
        }
}
