/* scramble.c: see scramble.h.
 *
 *     sender                        rd_local                         receiver
 *     up to 48 bytes   ---------->  inline message  ---------->      shown bit by bit
 *     lend, or pieces  -> envelope  loan of the envelope  ------>    the envelope's bytes, bit by bit
 *
 * An envelope says where the bytes are (lent memory, or a copy of the pieces) and how many of them
 * have come.  There is one per place of the queue, so it is free again when the place is. */
#include "scramble.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "transport/transports.h"

typedef struct {
    const char *data;
    uint64_t total;
    _Atomic uint64_t come;
    void *back;
    uint32_t back_ordinal;
    char *copy; /* of pieces, kept from message to message */
    uint64_t capacity;
} envelope;

typedef struct {
    _Atomic uint32_t open; /* links; the last one to close frees everything */
    uint32_t size;
    scramble_mood mood;
    struct rd_port *ports; /* [from][to][channel] */
} scrambled_world;

struct rd_port {
    const rd_data *data;
    rd_port *inner;
    scrambled_world *world;
    rng random;
    uint64_t released, shown; /* of the first message */
    envelope envelopes[RD_QUEUE];
    envelope *filling; /* a message of which pieces are still to come */
    bool reserved_inline;
    const char *last_piece; /* that was committed */
};

typedef struct {
    rd_link base;
    rd_link *inner;
    scrambled_world *world;
} scrambled_link;

static char TAG; /* a loan whose back points here is an envelope */

static rd_link *inner_of(const rd_link *l)
{
    return ((const scrambled_link *)l)->inner;
}

static bool happens(rd_port *p, uint32_t of_256)
{
    return rng_next(&p->random) % 256 < of_256;
}

static bool refuses(rd_port *p)
{
    return happens(p, p->world->mood.refuse);
}

static const rd_data scramble_data;

static rd_port *scramble_port(rd_link *l, uint32_t peer, uint32_t channel)
{
    scrambled_world *w = ((scrambled_link *)l)->world;
    const size_t number = ((size_t)l->rank * w->size + peer) * RD_CHANNELS + channel;
    rd_port *p = &w->ports[number];
    if (!p->inner) {
        p->inner = rd_local.port(inner_of(l), peer, channel);
        p->data = &scramble_data;
        p->world = w;
        p->random.state = w->mood.seed + number * 0x9e3779b97f4a7c15;
    }
    return p;
}

/* --- sending --- */

static bool scramble_can_send(rd_port *p)
{
    return !refuses(p) && rd_port_can_send(p->inner);
}

static envelope *next_envelope(rd_port *p)
{
    return &p->envelopes[rd_port_sent(p->inner) % RD_QUEUE];
}

/* A piece is written where it belongs in the copy of its message.  How long that one is the first
 * piece's commit tells, and makes room for all of it. */
static void *scramble_reserve(rd_port *p, uint64_t least, uint64_t *room)
{
    const uint64_t most = *room < RD_PIECE ? *room : RD_PIECE, bytes = most < least ? least : most;
    if (refuses(p) || (!p->filling && !rd_port_can_send(p->inner)))
        return NULL;
    p->reserved_inline = bytes <= RD_INLINE && !p->filling;
    *room = bytes;
    if (p->reserved_inline)
        return rd_port_reserve(p->inner, bytes, room);
    envelope *e = p->filling ? p->filling : next_envelope(p);
    const uint64_t at = p->filling ? atomic_load(&e->come) : 0;
    if (!p->filling && e->capacity < bytes) {
        free(e->copy);
        e->copy = malloc(bytes);
        e->capacity = bytes;
    }
    return e->copy + at;
}

static void publish_envelope(rd_port *p, envelope *e, uint64_t mark)
{
    const rd_loan loan = {.data = e, .bytes = sizeof *e, .mark = mark, .back = &TAG};
    rd_port_lend(p->inner, &loan);
}

static void scramble_commit(rd_port *p, uint64_t bytes, uint64_t total, uint64_t mark)
{
    if (p->reserved_inline) {
        rd_port_commit(p->inner, bytes, total, mark);
        return;
    }
    if (p->filling) {
        const uint64_t come = atomic_load(&p->filling->come) + bytes;
        envelope *e = p->filling;
        p->last_piece = e->copy + come - bytes;
        if (come == total)
            p->filling = NULL; /* before the receiver may give the envelope back */
        atomic_store(&e->come, come);
        return;
    }
    envelope *e = next_envelope(p);
    if (total > e->capacity) {
        e->copy = realloc(e->copy, total);
        e->capacity = total;
    }
    e->data = p->last_piece = e->copy;
    e->total = total;
    e->back = NULL;
    atomic_store(&e->come, bytes);
    if (bytes < total)
        p->filling = e;
    publish_envelope(p, e, mark);
}

static bool scramble_share(rd_port *p, const rd_port *committed, uint64_t bytes, uint64_t total,
                           uint64_t mark)
{
    uint64_t room = bytes;
    if (total <= RD_INLINE)
        return false;
    void *slot = scramble_reserve(p, bytes, &room);
    if (!slot)
        return false;
    memcpy(slot, committed->last_piece, bytes);
    scramble_commit(p, bytes, total, mark);
    return true;
}

static bool scramble_lends(const rd_port *p, const void *data, uint64_t bytes)
{
    const scramble_mood *mood = &p->world->mood;
    rng r = {mood->seed ^ (uintptr_t)data ^ bytes << 32};
    return rng_next(&r) % 256 >= mood->copy;
}

static void scramble_lend(rd_port *p, const rd_loan *loan)
{
    envelope *e = next_envelope(p);
    e->data = loan->data;
    e->total = loan->bytes;
    e->back = loan->back;
    e->back_ordinal = loan->back_ordinal;
    atomic_store(&e->come, loan->bytes);
    publish_envelope(p, e, loan->mark);
}

static void scramble_give_back(rd_port *p, uint64_t bytes, uint64_t mark)
{
    rd_port_give_back(p->inner, bytes, mark);
}

static uint32_t scramble_sent(const rd_port *p)
{
    return rd_port_sent(p->inner);
}

static bool scramble_completed(rd_port *p, uint32_t message)
{
    return !refuses(p) && rd_port_completed(p->inner, message);
}

/* --- receiving --- */

static bool scramble_peek(rd_port *p, rd_view *view)
{
    if (refuses(p) || !rd_port_peek(p->inner, view))
        return false;
    if (!view->data)
        return true;
    if (view->back == &TAG) {
        envelope *e = (envelope *)(uintptr_t)view->data;
        view->data = e->data;
        view->total = e->total;
        view->bytes = atomic_load(&e->come);
        view->back = happens(p, p->world->mood.forget) ? NULL : e->back;
        view->back_ordinal = e->back_ordinal;
    }
    if (view->bytes > p->shown && happens(p, p->world->mood.shorten))
        p->shown += rng_below(&p->random, view->bytes - p->shown);
    else
        p->shown = view->bytes;
    view->data = (const char *)view->data + p->released;
    view->bytes = p->shown - p->released;
    return view->bytes > 0 || view->total == 0;
}

static void scramble_release(rd_port *p, uint64_t bytes)
{
    rd_view view;
    if (!rd_port_peek(p->inner, &view))
        abort();
    const uint64_t total = view.back == &TAG ? ((const envelope *)view.data)->total : view.total;
    p->released += bytes;
    if (p->released > total)
        abort();
    if (p->released == total) {
        p->released = p->shown = 0;
        rd_port_release(p->inner, view.total);
    }
}

static const rd_data scramble_data = {.can_send = scramble_can_send,
                                      .reserve = scramble_reserve,
                                      .commit = scramble_commit,
                                      .share = scramble_share,
                                      .lends = scramble_lends,
                                      .lend = scramble_lend,
                                      .give_back = scramble_give_back,
                                      .sent = scramble_sent,
                                      .completed = scramble_completed,
                                      .peek = scramble_peek,
                                      .release = scramble_release};

/* --- the rest is rd_local's --- */

static void scramble_wait(rd_link *l, rd_port *port, uint32_t idle, uint64_t until_ns)
{
    (void)l;
    (void)port;
    (void)idle;
    (void)until_ns;
    sched_yield();
}

static void scramble_wake(rd_link *l)
{
    rd_local.wake(inner_of(l));
}

static void scramble_abort(rd_link *l, const rd_error *cause)
{
    rd_local.abort(inner_of(l), cause);
}

static void scramble_quiesce(rd_link *l, uint64_t until_ns, uint64_t soon_ns)
{
    rd_local.quiesce(inner_of(l), until_ns, soon_ns);
}

static void *scramble_alloc(rd_link *l, size_t bytes)
{
    return rd_local.alloc(inner_of(l), bytes);
}

static void scramble_free(rd_link *l, void *memory, size_t bytes)
{
    rd_local.free(inner_of(l), memory, bytes);
}

static void scramble_close(rd_link *l)
{
    if (!l)
        return;
    scrambled_world *w = ((scrambled_link *)l)->world;
    rd_local.close(inner_of(l));
    free(l);
    if (atomic_fetch_sub(&w->open, 1) != 1)
        return;
    for (size_t i = 0; i < (size_t)w->size * w->size * RD_CHANNELS; i++)
        for (int k = 0; k < RD_QUEUE; k++)
            free(w->ports[i].envelopes[k].copy);
    free(w->ports);
    free(w);
}

static const rd_transport scramble = {.name = "scramble",
                                      .lends_alloc = true,
                                      .port = scramble_port,
                                      .alloc = scramble_alloc,
                                      .free = scramble_free,
                                      .wait = scramble_wait,
                                      .wake = scramble_wake,
                                      .abort = scramble_abort,
                                      .quiesce = scramble_quiesce,
                                      .close = scramble_close};

scramble_mood scramble_draw(uint64_t seed)
{
    static const uint32_t degrees[] = {0, 10, 60, 120};
    rng r = {seed};
    return (scramble_mood){.seed = rng_next(&r),
                           .refuse = degrees[rng_below(&r, 4)],
                           .shorten = degrees[rng_below(&r, 4)],
                           .forget = degrees[rng_below(&r, 4)],
                           .copy = degrees[rng_below(&r, 4)]};
}

bool scramble_open(uint32_t size, scramble_mood mood, rd_link *links[])
{
    rd_error err = {0};
    if (rd_local_open(size, links, &err))
        return false;
    scrambled_world *w = calloc(1, sizeof *w);
    if (!w || !(w->ports = calloc((size_t)size * size * RD_CHANNELS, sizeof *w->ports)))
        abort();
    w->open = w->size = size;
    w->mood = mood;
    for (uint32_t r = 0; r < size; r++) {
        scrambled_link *l = calloc(1, sizeof *l);
        if (!l)
            abort();
        l->inner = links[r];
        l->world = w;
        l->base = *links[r];
        l->base.transport = &scramble;
        links[r] = &l->base;
    }
    return true;
}
