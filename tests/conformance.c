/* conformance.c: what transport.h promises of messages. */
#include "conformance.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "calls.h"

enum { TRIES = 400, LONGEST = 6000, MESSAGES = 400 };

/* --- shared --- */

static rd_link *alone[CONFORMANCE_RANKS]; /* links that are all one thread's */

bool conformance_open(const conformance_subject *s, conformance_world *w, uint32_t size)
{
    *w = (conformance_world){.subject = s};
    if (!CHECK(s->open(size, w->links), "no world of %u", size))
        return false;
    memcpy(alone, w->links, sizeof alone);
    return true;
}

void conformance_close(conformance_world *w, uint32_t size)
{
    for (uint32_t r = 0; r < size; r++)
        if (w->links[r])
            conformance_shut(w, r);
}

void conformance_shut(conformance_world *w, uint32_t rank)
{
    alone[rank] = NULL;
    w->links[rank]->transport->close(w->links[rank]);
    w->links[rank] = NULL;
}

void conformance_turn(conformance_world *w, uint32_t turn)
{
    while (atomic_load(&w->turn) < turn)
        sched_yield();
}

void conformance_pump(rd_link *link)
{
    if (!link->transport->pump)
        return;
    for (uint32_t r = 0; r < CONFORMANCE_RANKS; r++)
        if (alone[r])
            alone[r]->transport->pump(alone[r]);
    link->transport->pump(link);
}

void conformance_run(conformance_world *w, uint32_t size, void (*body)(void *, uint32_t),
                     void *context)
{
    memset(alone, 0, sizeof alone);
    run_ranks(size, body, context);
    memcpy(alone, w->links, sizeof alone);
}

void conformance_pause(rd_link *link, rd_port *port)
{
    conformance_pump(link);
    link->transport->wait(link, port, 0, rd_now_ns() + 1000000);
    sched_yield();
}

static uint32_t tries(const conformance_subject *s, const rd_link *link)
{
    return link->transport->pump ? 100 * TRIES : s->refuses ? TRIES : 1;
}

bool conformance_can_send(const conformance_subject *s, rd_port *port, rd_link *link)
{
    for (uint32_t i = 0; i < tries(s, link); i++, conformance_pump(link))
        if (rd_port_can_send(port))
            return true;
    return false;
}

bool conformance_peek(const conformance_subject *s, rd_port *port, rd_link *link, rd_view *view)
{
    for (uint32_t i = 0; i < tries(s, link); i++, conformance_pump(link))
        if (rd_port_peek(port, view) && (view->bytes || !view->total || !view->data))
            return true;
    return false;
}

bool conformance_done(const conformance_subject *s, rd_port *port, rd_link *link, uint32_t message)
{
    for (uint32_t i = 0; i < tries(s, link); i++, conformance_pump(link))
        if (rd_port_completed(port, message))
            return true;
    return false;
}

void conformance_send_inline(rd_link *link, rd_port *port, const void *data, uint32_t bytes,
                             uint64_t mark)
{
    void *slot;
    uint64_t room = bytes;
    while (!(slot = rd_port_reserve(port, bytes, &room)))
        conformance_pause(link, port);
    if (bytes)
        memcpy(slot, data, bytes);
    rd_port_commit(port, bytes, bytes, mark);
}

/* Sends what can be sent now of a message of which `at` bytes are on their way: inline, lent, or the
 * next piece.  How much that was; a message of no
 * bytes counts as one. */
static uint64_t send_some(rd_port *port, const char *data, uint64_t bytes, uint64_t at,
                          uint64_t mark)
{
    if (bytes > RD_INLINE && rd_port_lends(port, data, bytes)) {
        if (!rd_port_can_send(port))
            return 0;
        rd_port_lend(port, &(rd_loan){.data = data, .bytes = bytes, .mark = mark});
        return bytes;
    }
    uint64_t piece = bytes - at;
    void *slot = rd_port_reserve(port, 0, &piece);
    if (!slot)
        return 0;
    CHECK(piece <= bytes - at && (piece || !bytes), "%" PRIu64 " bytes of %" PRIu64, piece, bytes);
    memcpy(slot, data + at, piece);
    rd_port_commit(port, piece, bytes, mark);
    return piece ? piece : 1;
}

/* Takes what has come of a message of which `at` bytes were taken; true if that is all of it. */
static bool take_some(rd_port *port, char *to, uint64_t capacity, uint64_t *at, rd_view *view)
{
    if (!rd_port_peek(port, view))
        return false;
    if (!CHECK(view->total <= capacity && view->bytes <= view->total - *at && view->data,
               "%" PRIu64 " bytes of %" PRIu64 " at %" PRIu64, view->bytes, view->total, *at))
        abort();
    memcpy(to + *at, view->data, view->bytes);
    *at += view->bytes;
    rd_port_release(port, view->bytes);
    return *at == view->total;
}

/* A message from one link to another, by one thread that has both. */
static void pass(rd_link *a, rd_port *to, const char *data, uint64_t bytes, uint64_t mark,
                 rd_port *from, char *got)
{
    uint64_t sent = 0, taken = 0;
    rd_view view = {0};
    bool done = false;
    while (!done) {
        if (sent < bytes || (bytes == 0 && sent == 0))
            sent += send_some(to, data, bytes, sent, mark);
        conformance_pump(a);
        done = take_some(from, got, bytes, &taken, &view);
    }
    CHECK(view.total == bytes && view.mark == mark, "%" PRIu64 " bytes of mark %" PRIu64,
          view.total, view.mark);
}

uint64_t conformance_take(rd_link *link, rd_port *port, char *to, uint64_t capacity, uint64_t *mark)
{
    rd_view view;
    uint64_t at = 0;
    while (!take_some(port, to, capacity, &at, &view))
        conformance_pause(link, port);
    *mark = view.mark;
    return view.total;
}

/* The bytes of message `number` from a rank on a channel. */
static void fill_message(char *to, uint64_t bytes, uint32_t from, uint32_t channel, uint32_t number)
{
    rng r = {(uint64_t)from << 40 ^ (uint64_t)channel << 32 ^ number};
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = (char)rng_next(&r);
}

static uint64_t length_of(uint32_t from, uint32_t channel, uint32_t number)
{
    rng r = {(uint64_t)from << 50 ^ (uint64_t)channel << 45 ^ number};
    const uint64_t kind = rng_below(&r, 4);
    return kind == 0   ? rng_below(&r, LONGEST)
           : kind == 1 ? rng_below(&r, 80)
                       : rng_below(&r, RD_INLINE + 1);
}

static uint64_t mark_of(uint32_t from, uint32_t channel, uint32_t number)
{
    return (uint64_t)from << 56 | (uint64_t)channel << 48 | number;
}

/* --- order --- */

enum { TALKERS = 3 };

/* What goes to a peer on a channel, and what comes from it. */
typedef struct {
    rd_port *port;
    uint32_t peer, channel, first; /* first: number of the first message */
    uint32_t sent, done, taken;
    uint64_t sent_bytes, taken_bytes; /* of the messages under way */
    char *memory[MESSAGES];           /* lent, until it is completed */
    char got[LONGEST];
} talk_lane;

static bool say(rd_link *link, talk_lane *l)
{
    const uint64_t bytes = length_of(link->rank, l->channel, l->sent);
    if (l->sent == MESSAGES)
        return false;
    if (!l->memory[l->sent]) {
        l->memory[l->sent] = malloc(bytes + 1);
        fill_message(l->memory[l->sent], bytes, link->rank, l->channel, l->sent);
    }
    const uint64_t now = send_some(l->port, l->memory[l->sent], bytes, l->sent_bytes,
                                   mark_of(link->rank, l->channel, l->sent));
    l->sent_bytes += now;
    if (now && l->sent_bytes >= bytes) {
        l->sent_bytes = 0;
        l->sent++;
    }
    return now > 0;
}

/* Overwrites and frees what is completed. */
static void collect(rd_link *link, talk_lane *l)
{
    while (l->done < l->sent && rd_port_completed(l->port, l->first + l->done)) {
        memset(l->memory[l->done], 0x5a, length_of(link->rank, l->channel, l->done));
        free(l->memory[l->done++]);
    }
}

static bool hear(rd_link *link, talk_lane *l)
{
    char want[LONGEST];
    rd_view view;
    if (l->taken == MESSAGES || !take_some(l->port, l->got, LONGEST, &l->taken_bytes, &view))
        return false;
    fill_message(want, view.total, l->peer, l->channel, l->taken);
    CHECK(view.total == length_of(l->peer, l->channel, l->taken) &&
              view.mark == mark_of(l->peer, l->channel, l->taken) &&
              memcmp(l->got, want, view.total) == 0,
          "rank %u: message %u of rank %u on channel %u: %" PRIu64 " bytes, mark %" PRIx64,
          link->rank, l->taken, l->peer, l->channel, view.total, view.mark);
    l->taken_bytes = 0;
    l->taken++;
    return true;
}

static void talk(void *context, uint32_t rank)
{
    conformance_world *w = context;
    rd_link *link = w->links[rank];
    const uint32_t lanes = (TALKERS - 1) * RD_CHANNELS;
    talk_lane *all = calloc(lanes, sizeof *all);
    rng r = {rank + 1};

    for (uint32_t i = 0; i < lanes; i++) {
        talk_lane *l = &all[i];
        l->peer = (rank + 1 + i / RD_CHANNELS) % TALKERS;
        l->channel = i % RD_CHANNELS;
        l->port = link->transport->port(link, l->peer, l->channel);
        l->first = rd_port_sent(l->port);
    }
    for (uint32_t left = lanes; left && !test_failed();) {
        talk_lane *l = &all[rng_below(&r, lanes)];
        const bool was_done = l->done == MESSAGES && l->taken == MESSAGES;
        for (uint64_t k = rng_below(&r, 6); k > 0 && say(link, l); k--)
            continue;
        collect(link, l);
        for (uint64_t k = rng_below(&r, 6); k > 0 && hear(link, l); k--)
            continue;
        left -= !was_done && l->done == MESSAGES && l->taken == MESSAGES;
        conformance_pump(link);
        if (rng_below(&r, 50) == 0)
            sched_yield();
    }
    free(all);
}

/* Three ranks, all pairs, both directions, all channels at once; loans, inline and empty ones. */
void conformance_order(const conformance_subject *s)
{
    conformance_world w;
    if (!conformance_open(s, &w, TALKERS))
        return;
    conformance_run(&w, TALKERS, talk, &w);
    conformance_close(&w, TALKERS);
}

/* --- messages within the line --- */

void conformance_inline_sizes(const conformance_subject *s)
{
    conformance_world w;
    char data[RD_INLINE], got[RD_INLINE];
    if (!conformance_open(s, &w, 2))
        return;
    rd_link *a = w.links[0], *b = w.links[1];
    for (uint32_t bytes = 0; bytes <= RD_INLINE; bytes++)
        for (uint32_t c = 0; c < RD_CHANNELS; c++) {
            uint64_t mark;
            fill_message(data, bytes, 0, c, bytes);
            conformance_send_inline(a, a->transport->port(a, 1, c), data, bytes, bytes * 1000 + c);
            memset(data, 0, sizeof data); /* it is on its way */
            fill_message(data, bytes, 0, c, bytes);
            const uint64_t come =
                conformance_take(b, b->transport->port(b, 0, c), got, sizeof got, &mark);
            CHECK(come == bytes && mark == bytes * 1000 + c && memcmp(got, data, bytes) == 0,
                  "%u bytes: %" PRIu64 " came, mark %" PRIu64, bytes, come, mark);
        }
    conformance_close(&w, 2);
}

/* --- loans --- */

/* Memory that this transport lends, or NULL: none of this. */
static char *lendable(const rd_port *port, uint64_t bytes, char *memory, uint64_t room)
{
    for (uint64_t at = 0; at + bytes <= room; at++)
        if (rd_port_lends(port, memory + at, bytes))
            return memory + at;
    return NULL;
}

/* Sends a message to be lent if possible, else in a piece. */
static void send_long(rd_link *link, rd_port *port, const char *data, uint64_t bytes, uint64_t mark)
{
    for (uint64_t at = 0; at < bytes; conformance_pump(link))
        at += send_some(port, data, bytes, at, mark);
}

void conformance_loans_come_home(const conformance_subject *s)
{
    conformance_world w;
    char memory[2000];
    if (!conformance_open(s, &w, 2))
        return;
    rd_link *a = w.links[0], *b = w.links[1];
    rd_port *to = a->transport->port(a, 1, 2), *from = b->transport->port(b, 0, 2);
    char *lent = lendable(to, 1000, memory, sizeof memory), *data = lent ? lent : memory;
    for (uint32_t round = 0; round < 50; round++) {
        char got[1000];
        uint64_t mark;
        const uint32_t first = rd_port_sent(to);
        fill_message(data, 1000, 0, 2, round);
        for (uint32_t i = 0; i < 3; i++) { /* one loan between two messages that are none */
            if (i == 1)
                send_long(a, to, data, 1000, round);
            else
                conformance_send_inline(a, to, "x", 1, round);
        }
        for (uint32_t i = 0; i < 3; i++) {
            for (uint32_t k = i; k < 3 && !a->transport->pushes; k++)
                CHECK(!rd_port_completed(to, first + k),
                      "message %u is completed before it was released", k);
            const uint64_t bytes = conformance_take(b, from, got, sizeof got, &mark);
            CHECK(bytes == (i == 1 ? 1000 : 1) && mark == round, "%" PRIu64 " bytes", bytes);
            CHECK(i != 1 || memcmp(got, data, 1000) == 0, "other bytes than were lent");
            for (uint32_t k = 0; k <= i; k++)
                CHECK(conformance_done(s, to, a, first + k), "message %u is not completed", k);
        }
    }
    conformance_close(&w, 2);
}

/* A receiver may release as much as it has used; the rest stays, and is not completed before all is. */
void conformance_parts_are_released(const conformance_subject *s)
{
    conformance_world w;
    char memory[2000], next = 'n';
    if (!conformance_open(s, &w, 2))
        return;
    rd_link *a = w.links[0], *b = w.links[1];
    rd_port *to = a->transport->port(a, 1, 1), *from = b->transport->port(b, 0, 1);
    char *lent = lendable(to, 1000, memory, sizeof memory), *data = lent ? lent : memory;
    for (uint32_t round = 0; round < 20 && !test_failed(); round++) {
        rng r = {round};
        rd_view view;
        const uint32_t first = rd_port_sent(to);
        fill_message(data, 1000, 0, 1, round);
        send_long(a, to, data, 1000, round);
        conformance_send_inline(a, to, &next, 1, 77);
        for (uint64_t at = 0; at < 1000 && !test_failed();) {
            if (!CHECK(conformance_peek(s, from, b, &view), "nothing to see at %" PRIu64, at))
                break;
            CHECK(view.total == 1000 && view.bytes > 0 && view.bytes <= 1000 - at &&
                      view.mark == round,
                  "%" PRIu64 " of %" PRIu64 " at %" PRIu64, view.bytes, view.total, at);
            const uint64_t part = 1 + rng_below(&r, view.bytes);
            CHECK(memcmp(view.data, data + at, part) == 0, "other bytes at %" PRIu64, at);
            CHECK(a->transport->pushes || !rd_port_completed(to, first), "home at %" PRIu64, at);
            rd_port_release(from, part);
            at += part;
        }
        CHECK(conformance_done(s, to, a, first), "not completed");
        uint64_t mark;
        char got;
        CHECK(test_failed() ||
                  (conformance_take(b, from, &got, 1, &mark) == 1 && got == 'n' && mark == 77),
              "the message after it");
    }
    conformance_close(&w, 2);
}

/* A loan names a place; whoever takes it stores there and sends an empty message. */
void conformance_returned_messages(const conformance_subject *s)
{
    conformance_world w;
    char memory[1000], place[200];
    uint32_t seen = 0;
    if (!conformance_open(s, &w, 2))
        return;
    rd_link *a = w.links[0], *b = w.links[1];
    const rd_transport *t = a->transport;
    rd_port *to = t->port(a, 1, 3), *from = b->transport->port(b, 0, 3);
    char *data = t->pushes ? NULL : lendable(to, 200, memory, sizeof memory);
    for (uint32_t round = 0; round < 100 && data && !test_failed(); round++) {
        rd_view view;
        memset(place, 0, sizeof place);
        fill_message(data, 200, 0, 3, round);
        if (!CHECK(conformance_can_send(s, to, a), "cannot send"))
            break;
        rd_port_lend(to, &(rd_loan){data, 200, round, round % 2 ? place : NULL, round});
        if (!CHECK(conformance_peek(s, from, b, &view), "nothing to see"))
            break;
        CHECK(view.back == (round % 2 ? place : NULL) || (s->forgets && !view.back), "back is %p",
              view.back);
        CHECK(!view.back || view.back_ordinal == round, "ordinal %u instead of %u",
              view.back_ordinal, round);
        seen += view.back != NULL;
        for (int i = 0; i < 200; i++)
            place[i] = (char)(data[i] + 1);
        for (uint64_t at = view.bytes; at < 200; at += view.bytes) {
            rd_port_release(from, view.bytes);
            conformance_peek(s, from, b, &view);
        }
        rd_port_release(from, view.bytes);
        if (round % 2 == 0)
            continue; /* there is no place to return it to */
        if (!CHECK(conformance_can_send(s, from, b), "cannot send back"))
            break;
        const uint32_t before = rd_port_sent(from);
        rd_port_give_back(from, 200, round + 5000);
        CHECK(rd_port_sent(from) == before + 1, "it does not count as a message");
        if (!CHECK(conformance_peek(s, to, a, &view), "it has not come back"))
            break;
        CHECK(!view.data && view.total == 200 && view.mark == round + 5000 && !view.back,
              "%" PRIu64 " bytes, mark %" PRIu64, view.total, view.mark);
        rd_port_release(to, view.total);
    }
    CHECK(!data || seen > 0, "no place was ever told");
    conformance_close(&w, 2);
}

/* --- queues --- */

/* RD_QUEUE messages fit, no more; taking one makes room for one, or where that is told by messages, taking
 * half of them for half. */
void conformance_full_queues(const conformance_subject *s)
{
    conformance_world w;
    if (!conformance_open(s, &w, 2))
        return;
    rd_link *a = w.links[0], *b = w.links[1];
    rd_port *to = a->transport->port(a, 1, 0), *from = b->transport->port(b, 0, 0);
    uint32_t sent = 0, taken = 0;
    for (uint32_t round = 0; round < 100; round++) {
        const uint32_t sure = a->transport->pushes ? RD_QUEUE / 2 : RD_QUEUE;
        while (sent - taken < RD_QUEUE && (sent - taken < sure || rd_port_can_send(to)) &&
               CHECK(conformance_can_send(s, to, a), "%u are too many", sent - taken)) {
            conformance_send_inline(a, to, &sent, sizeof sent, sent);
            sent++;
        }
        uint64_t room = 4;
        CHECK(!rd_port_can_send(to) && !rd_port_reserve(to, 4, &room), "more than %d fit",
              RD_QUEUE);
        const uint32_t least = a->transport->pushes ? RD_QUEUE / 2 : 1; /* before room is made */
        for (uint32_t k = 0; k < least || (k <= round % RD_QUEUE && taken < sent); k++) {
            uint32_t got = 0;
            uint64_t mark;
            conformance_take(b, from, (char *)&got, sizeof got, &mark);
            CHECK(got == taken && mark == taken, "message %u instead of %u", got, taken);
            taken++;
        }
        CHECK(conformance_can_send(s, to, a), "no room although %u were taken", least);
    }
    conformance_close(&w, 2);
}

/* A full channel is in nobody's way: not the other channels', nor other peers', nor the way back. */
void conformance_channels_are_apart(const conformance_subject *s)
{
    conformance_world w;
    uint32_t got;
    uint64_t mark;
    if (!conformance_open(s, &w, 3))
        return;
    rd_link *a = w.links[0], *b = w.links[1], *c = w.links[2];
    const rd_transport *t = a->transport;
    for (uint32_t i = 0; i < RD_QUEUE; i++)
        conformance_send_inline(a, t->port(a, 1, 1), &i, sizeof i, i);
    CHECK(!rd_port_can_send(t->port(a, 1, 1)), "not full");
    for (uint32_t i = 0; i < 10; i++) {
        conformance_send_inline(a, t->port(a, 1, 2), &i, sizeof i, i);
        conformance_take(b, b->transport->port(b, 0, 2), (char *)&got, sizeof got, &mark);
        CHECK(got == i, "another channel: %u", got);
        conformance_send_inline(a, t->port(a, 2, 1), &i, sizeof i, i);
        conformance_take(c, c->transport->port(c, 0, 1), (char *)&got, sizeof got, &mark);
        CHECK(got == i, "another peer: %u", got);
        conformance_send_inline(b, b->transport->port(b, 0, 1), &i, sizeof i, i);
        conformance_take(a, t->port(a, 1, 1), (char *)&got, sizeof got, &mark);
        CHECK(got == i, "the way back: %u", got);
    }
    for (uint32_t i = 0; i < RD_QUEUE; i++) {
        conformance_take(b, b->transport->port(b, 0, 1), (char *)&got, sizeof got, &mark);
        CHECK(got == i, "message %u instead of %u", got, i);
    }
    conformance_close(&w, 3);
}

/* Several may be reserved before the first is committed, and each is a place of its own, for as long
 * as it takes its own receiver to come. */
void conformance_reservations_are_apart(const conformance_subject *s)
{
    static const uint32_t sizes[] = {8, 1000, 5000, RD_PIECE / 16};
    static char want[RD_PIECE], got[RD_PIECE];
    conformance_world w;
    if (!conformance_open(s, &w, 4))
        return;
    rd_link *a = w.links[0];
    const rd_transport *t = a->transport;
    for (uint32_t round = 0; round < 60 && !test_failed(); round++) {
        const uint32_t bytes = sizes[round % 4];
        uint64_t room = bytes;
        void *slots[4] = {NULL};
        for (uint32_t peer = 1; peer < 4; peer++)
            if ((slots[peer] = rd_port_reserve(t->port(a, peer, 0), bytes, &room)))
                fill_message(slots[peer], bytes, peer, 0, round);
        for (uint32_t peer = 1; peer < 4; peer++)
            if (slots[peer])
                rd_port_commit(t->port(a, peer, 0), bytes, bytes, round);
        for (uint32_t i = 0; i < 3; i++) { /* the first to come is another one each time */
            const uint32_t peer = 1 + (i + round) % 3;
            uint64_t mark;
            if (!slots[peer])
                continue;
            conformance_take(w.links[peer], w.links[peer]->transport->port(w.links[peer], 0, 0),
                             got, sizeof got, &mark);
            fill_message(want, bytes, peer, 0, round);
            CHECK(memcmp(got, want, bytes) == 0, "rank %u got other %u bytes", peer, bytes);
            if ((slots[0] = rd_port_reserve(t->port(a, peer, 1), bytes,
                                            &room))) { /* what is free is used again */
                memset(slots[0], 0x77, bytes);
                rd_port_commit(t->port(a, peer, 1), bytes, bytes, round);
                conformance_take(w.links[peer], w.links[peer]->transport->port(w.links[peer], 0, 1),
                                 got, sizeof got, &mark);
            }
        }
    }
    conformance_close(&w, 4);
}

/* sent() counts messages, whatever they are. */
void conformance_counts_of_messages(const conformance_subject *s)
{
    conformance_world w;
    static char data[RD_PIECE * 2 + 100], got[sizeof data];
    if (!conformance_open(s, &w, 2))
        return;
    rd_link *a = w.links[0], *b = w.links[1];
    rd_port *to = a->transport->port(a, 1, 0), *from = b->transport->port(b, 0, 0);
    const uint32_t before = rd_port_sent(to);
    for (uint32_t i = 0; i < 60; i++) {
        const uint64_t bytes = i % 3 == 0 ? i % RD_INLINE : sizeof data - i % 7;
        fill_message(data, 2000, 0, 0, i);
        fill_message(data + sizeof data - 2000, 2000, 0, 0, i + 1);
        pass(a, to, data, bytes, i, from, got);
        CHECK(memcmp(got, data, bytes) == 0, "other bytes");
        CHECK(rd_port_sent(to) == before + i + 1, "%u after %u messages", rd_port_sent(to) - before,
              i + 1);
    }
    conformance_close(&w, 2);
}
