/* conformance_world.c: what transport.h promises of waiting, the board, failing and closing. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "calls.h"
#include "conformance.h"

static const uint64_t SECOND_NS = 1000000000;
enum { LONG_IDLE = 1 << 20 }; /* idle for so long that a transport that can sleep does */

/* --- waiting --- */

void conformance_waits_end(const conformance_subject *s)
{
    conformance_world w;
    if (!conformance_open(s, &w, 2))
        return;
    rd_link *a = w.links[0];
    rd_port *ports[] = {NULL, a->transport->port(a, 1, 0)};
    static const uint32_t idles[] = {0, 1, 100, 1000, 5000, LONG_IDLE};
    for (uint32_t i = 0; i < 12; i++) {
        const uint64_t start = rd_now_ns(), until = start + SECOND_NS / 50;
        while (rd_now_ns() < until) /* it may return early */
            a->transport->wait(a, ports[i % 2], idles[i / 2], until);
        CHECK(rd_now_ns() - start < 10 * SECOND_NS, "a wait of 20 ms took %.3f s",
              (double)(rd_now_ns() - start) * 1e-9);
        a->transport->wait(a, ports[i % 2], idles[i / 2], 0); /* a deadline that is past */
    }
    conformance_close(&w, 2);
}

/* What rank 1 does for the sleeping rank 0 to see. */
typedef enum { PUBLISH, LEND, RELEASE, CLOSE, ABORT, DEEDS } deed;

typedef struct {
    conformance_world world;
    deed deed;
    unsigned delay_us;
    bool on_port;
    double slept;
} sleep_scene;

static bool noticed(sleep_scene *x, rd_link *a, rd_port *port)
{
    rd_view view;
    switch (x->deed) {
    case RELEASE:
        return rd_port_can_send(port);
    case CLOSE:
        return rd_control_presence(a, 1).closed || rd_control_presence(a, 1).dead;
    case ABORT:
        return atomic_load(a->alarm);
    default:
        return rd_port_peek(port, &view);
    }
}

static void act(sleep_scene *x, rd_link *b, rd_port *port)
{
    static char memory[100];
    char got[8];
    uint64_t mark;
    switch (x->deed) {
    case RELEASE:
        for (int i = 0; i < (b->transport->pushes ? RD_QUEUE / 2 : 1); i++)
            conformance_take(b, port, got, sizeof got, &mark);
        break;
    case CLOSE:
        conformance_shut(&x->world, 1);
        break;
    case ABORT:
        b->transport->abort(b, &(rd_error){.status = RONDA_EABORTED});
        break;
    case LEND:
        if (rd_port_lends(port, memory, sizeof memory)) {
            while (!rd_port_can_send(port))
                conformance_pause(b, port);
            rd_port_lend(port, &(rd_loan){.data = memory, .bytes = sizeof memory});
            break;
        } /* fall through */
    default:
        conformance_send_inline(b, port, "wake", 4, 0);
        break;
    }
    const uint32_t last = x->deed < RELEASE ? rd_port_sent(port) - 1 : 0;
    while (x->deed < RELEASE && b->transport->pushes && !rd_port_flushed(port, last))
        conformance_pause(b, port);
}

static void run_sleep(void *context, uint32_t rank)
{
    sleep_scene *x = context;
    rd_link *link = x->world.links[rank];
    rd_port *port = link->transport->port(link, 1 - rank, 1);
    if (rank == 0) {
        for (uint32_t i = 0; i < RD_QUEUE && x->deed == RELEASE; i++)
            conformance_send_inline(link, port, &i, sizeof i, 0);
        atomic_store(&x->world.turn, 1);
        const double start = seconds_now();
        for (uint32_t idle = LONG_IDLE; !noticed(x, link, port); idle++)
            link->transport->wait(link, x->on_port ? port : NULL, idle,
                                  rd_now_ns() + 30 * SECOND_NS);
        x->slept = seconds_now() - start;
        return;
    }
    conformance_turn(&x->world, 1);
    const double until = seconds_now() + x->delay_us * 1e-6;
    while (seconds_now() < until)
        sched_yield();
    act(x, link, port);
}

/* The sleeper would sleep for 30 s; nothing else than the deed can end that. */
void conformance_sleepers_are_woken(const conformance_subject *s)
{
    rng r = rng_start();
    const uint32_t rounds = test_sanitized() || s->slow ? 15 : 150;
    test_deadline(100);
    for (uint32_t i = 0; i < rounds * DEEDS && !test_failed(); i++) {
        sleep_scene x = {.deed = (deed)(i % DEEDS), .on_port = i & 1};
        x.delay_us = rng_below(&r, 4) ? (unsigned)rng_below(&r, 60) : (unsigned)rng_below(&r, 3000);
        if (!conformance_open(s, &x.world, 2))
            return;
        conformance_run(&x.world, 2, run_sleep, &x);
        CHECK(x.slept < 15, "deed %d after %u us was slept through for %.1f s", x.deed, x.delay_us,
              x.slept);
        conformance_close(&x.world, 2);
    }
}

/* --- the board --- */

/* Those who only hear of each other must have met. */
static void meet(const conformance_subject *s, rd_link *a, rd_link *b)
{
    rd_view view;
    rd_port *port = b->transport->port(b, a->rank, 0);
    if (!a->transport->pump)
        return;
    conformance_send_inline(a, a->transport->port(a, b->rank, 0), "x", 1, 0);
    CHECK(conformance_peek(s, port, b, &view), "they have not met");
    rd_port_release(port, 1);
}

/* A rank that is known by gossip says where it stands when its call is late. */
static void let_hear(rd_link *a)
{
    if (!a->transport->pump)
        return;
    rd_control_await(a, rd_control_presence(a, a->rank).awaits, true);
    for (int i = 0; i < 1000; i++)
        conformance_pump(a);
}

static rd_record record_of(uint64_t sequence)
{
    return (rd_record){.sequence = sequence,
                       .count = sequence * 3,
                       .mark = sequence * 0x9e3779b97f4a7c15,
                       .kind = RONDA_ALLREDUCE + (ronda_kind)(sequence % 16),
                       .type = (ronda_type)(sequence % 12 + 1),
                       .op = RONDA_SUM + (ronda_op)(sequence % 8),
                       .root = (uint32_t)(sequence * 7),
                       .algorithm = (uint32_t)(sequence * 5)};
}

static bool same_record(const rd_record *a, const rd_record *b)
{
    return a->sequence == b->sequence && a->count == b->count && a->mark == b->mark &&
           a->kind == b->kind && a->type == b->type && a->op == b->op && a->root == b->root &&
           a->algorithm == b->algorithm;
}

enum { CALLS = 3000 };
static void write_and_read(void *context, uint32_t rank)
{
    conformance_world *w = context;
    rd_link *link = w->links[rank];
    if (rank == 0) {
        for (uint64_t q = 1; q <= CALLS; q++) {
            const rd_record mine = record_of(q);
            rd_control_enter(link, &mine);
            if (q % 64 == 0)
                sched_yield();
            rd_control_leave(link, q);
        }
        atomic_store(&w->turn, 1);
        return;
    }
    rng r = {rank};
    while (!atomic_load(&w->turn)) { /* what is there is whole, however fast it changes */
        const uint64_t now = rd_control_presence(link, 0).sequence, back = rng_below(&r, 20);
        rd_record got;
        if (now > back && rd_control_record(link, 0, now - back, &got)) {
            const rd_record want = record_of(now - back);
            CHECK(same_record(&got, &want), "record %" PRIu64 " is torn", now - back);
        }
    }
}

void conformance_records(const conformance_subject *s)
{
    conformance_world w;
    rd_record got;
    if (!conformance_open(s, &w, 3))
        return;
    rd_link *a = w.links[0], *b = w.links[1];
    CHECK(!rd_control_record(b, 0, 1, &got), "a record before any call");
    meet(s, a, b);
    for (uint64_t q = 1; q <= 40; q++) {
        const rd_record mine = record_of(q);
        rd_control_enter(a, &mine);
        let_hear(a);
        CHECK(!rd_control_record(b, 0, q + 1, &got), "record %" PRIu64 " of the future", q + 1);
        for (uint64_t k = q > 8 ? q - 7 : 1; k <= q;
             k++) { /* the last ones are kept, for both to compare */
            const rd_record want = record_of(k);
            CHECK(rd_control_record(b, 0, k, &got) && same_record(&got, &want), "record %" PRIu64,
                  k);
            CHECK(rd_control_record(a, 0, k, &got) && same_record(&got, &want),
                  "own record %" PRIu64, k);
        }
        rd_control_leave(a, q);
    }
    CHECK(!rd_control_record(b, 1, 1, &got), "a record of a rank that has made none");
    conformance_close(&w, 3);
    if (!conformance_open(s, &w, 3))
        return;
    conformance_run(&w, 3, write_and_read, &w);
    conformance_close(&w, 3);
}

static void check_presence(rd_link *link, uint32_t peer, uint64_t sequence, bool inside,
                           bool closed, const char *when)
{
    const rd_presence p = rd_control_presence(link, peer);
    CHECK(p.sequence == sequence && p.inside == inside && p.closed == closed,
          "%s: call %" PRIu64 ", %sside%s", when, p.sequence, p.inside ? "in" : "out",
          p.closed ? ", closed" : "");
}

void conformance_presence(const conformance_subject *s)
{
    conformance_world w;
    if (!conformance_open(s, &w, 3))
        return;
    rd_link *a = w.links[0], *b = w.links[1];
    const rd_record first = record_of(1), second = record_of(2);
    meet(s, a, b);
    check_presence(b, 0, 0, false, false, "at first");
    CHECK(rd_control_presence(b, 0).awaits == RONDA_ANY, "it awaits somebody");
    rd_control_enter(a, &first);
    let_hear(a);
    check_presence(b, 0, 1, true, false, "in the first call");
    check_presence(a, 0, 1, true, false, "in the first call, to itself");
    rd_control_await(a, 2, true);
    let_hear(a);
    CHECK(rd_control_presence(b, 0).awaits == 2, "it awaits %u", rd_control_presence(b, 0).awaits);
    rd_control_await(a, RONDA_ANY, true);
    let_hear(a);
    CHECK(rd_control_presence(b, 0).awaits == RONDA_ANY, "it awaits somebody");
    rd_control_leave(a, 1);
    let_hear(a);
    check_presence(b, 0, 1, false, false, "after the first call");
    rd_control_enter(a, &second);
    let_hear(a);
    check_presence(b, 0, 2, true, false, "in the second call");
    check_presence(b, 2, 0, false, false, "another rank");
    rd_control_leave(a, 2);
    conformance_shut(&w, 0);
    let_hear(b);
    check_presence(b, 0, 2, false, true, "closed");
    conformance_close(&w, 3);
}

/* --- failure --- */

static void run_causes(void *context, uint32_t rank)
{
    conformance_world *w = context;
    rd_link *link = w->links[rank];
    rd_error cause = {.status = RONDA_EPEER,
                      .rank = rank,
                      .peer = 70 + rank,
                      .sequence = 700 + rank},
             seen = {0};
    snprintf(cause.message, sizeof cause.message, "cause of rank %u", rank);
    if (rank % 2)
        link->transport->abort(link, &cause);
    while (!atomic_load(link->alarm))
        conformance_pause(link, NULL);
    rd_control_cause(link, &seen);
    link->transport->abort(link, &cause);
    rd_error again = {0};
    rd_control_cause(link, &again);
    CHECK(seen.rank == again.rank && strcmp(seen.message, again.message) == 0, "'%s' became '%s'",
          seen.message, again.message);
    snprintf(cause.message, sizeof cause.message, "cause of rank %u", seen.rank);
    CHECK(strcmp(cause.message, seen.message) == 0 && seen.status == RONDA_EPEER &&
              seen.peer == 70 + seen.rank && seen.sequence == 700 + seen.rank && seen.rank % 2,
          "a mixture: rank %u, peer %u: %s", seen.rank, seen.peer, seen.message);
    uint32_t none = 0;         /* all have the same: count holds 1 + its rank */
    if (link->transport->pump) /* each is told of one by others, and knows its own at once */
        return;
    if (!atomic_compare_exchange_strong(&w->count, &none, seen.rank + 1))
        CHECK(none == seen.rank + 1, "rank %u has the cause of %u, another that of %u", rank,
              seen.rank, none - 1);
}

void conformance_first_cause(const conformance_subject *s)
{
    conformance_world w;
    for (uint32_t round = 0; round < (test_sanitized() || s->slow ? 20 : 200) && !test_failed();
         round++) {
        rd_error untouched = {.status = 77};
        if (!conformance_open(s, &w, 5))
            return;
        CHECK(atomic_load(w.links[2]->alarm) == 0, "an alarm at first");
        rd_control_cause(w.links[2], &untouched);
        CHECK(untouched.status == 77, "a cause without an alarm");
        conformance_run(&w, 5, run_causes, &w);
        conformance_close(&w, 5);
    }
}

/* Rank 1 is inside and stays there for a while after the alarm; rank 2 enters after it, looks, and
 * leaves.  Rank 0 may not return before rank 1 has left. */
static void run_quiet(void *context, uint32_t rank)
{
    conformance_world *w = context;
    rd_link *link = w->links[rank];
    const rd_transport *t = link->transport;
    const rd_record call = record_of(1);
    if (rank == 1) {
        rd_control_enter(link, &call);
        atomic_store(&w->turn, 1);
        while (!atomic_load(link->alarm))
            sched_yield();
        sleep_ms(3);
        atomic_store(&w->count, 1); /* the last moment at which it may touch anything */
        rd_control_leave(link, 1);
        return;
    }
    conformance_turn(w, 1);
    if (rank == 2) {
        rd_control_enter(link, &call);
        rd_control_leave(link, 1);
        return;
    }
    t->abort(link, &(rd_error){.status = RONDA_EABORTED});
    t->quiesce(link, rd_now_ns() + 30 * SECOND_NS, UINT64_MAX);
    CHECK(atomic_load(&w->count) == 1, "quiet while a rank was inside");
}

void conformance_quiet_after_an_alarm(const conformance_subject *s)
{
    conformance_world w;
    for (uint32_t round = 0; round < 50 && !test_failed(); round++) {
        if (!conformance_open(s, &w, 3))
            return;
        if (w.links[0]->transport->pushes) { /* nobody else ever touches this rank's memory */
            conformance_close(&w, 3);
            break;
        }
        conformance_run(&w, 3, run_quiet, &w);
        conformance_close(&w, 3);
    }
    if (!conformance_open(s, &w, 2)) /* one that never leaves: the deadline ends it */
        return;
    const rd_record call = record_of(1);
    rd_control_enter(w.links[1], &call);
    w.links[0]->transport->abort(w.links[0], &(rd_error){.status = RONDA_EABORTED});
    const double start = seconds_now();
    w.links[0]->transport->quiesce(w.links[0], rd_now_ns() + SECOND_NS / 20, UINT64_MAX);
    CHECK(seconds_now() - start < 10, "it took %.1f s", seconds_now() - start);
    conformance_close(&w, 2);
}

/* --- closing --- */

/* What was sent before is there after; the last to close takes everything with it. */
void conformance_closing(const conformance_subject *s)
{
    conformance_world w;
    if (!conformance_open(s, &w, 3))
        return;
    rd_link *a = w.links[0], *b = w.links[1];
    const rd_transport *t = a->transport;
    for (uint32_t i = 0; i < RD_QUEUE; i++)
        conformance_send_inline(a, t->port(a, 1, i % RD_CHANNELS), &i, sizeof i, i);
    t->close(NULL);
    conformance_shut(&w, 0);
    let_hear(b);
    CHECK(rd_control_presence(b, 0).closed && !rd_control_presence(b, 2).closed,
          "who has closed is mixed up");
    for (uint32_t i = 0; i < RD_QUEUE; i++) {
        uint32_t got = 99;
        uint64_t mark;
        conformance_take(b, b->transport->port(b, 0, i % RD_CHANNELS), (char *)&got, sizeof got,
                         &mark);
        CHECK(got == i && mark == i, "message %u instead of %u", got, i);
    }
    CHECK(atomic_load(b->alarm) == 0, "closing is no failure");
    conformance_send_inline(b, b->transport->port(b, 0, 0), "x", 1, 0); /* to nobody: no harm */
    conformance_close(&w, 3);
}

void conformance_worlds_of_one(const conformance_subject *s)
{
    conformance_world w;
    const rd_record call = record_of(1);
    if (!conformance_open(s, &w, 1))
        return;
    rd_link *a = w.links[0];
    CHECK(a->rank == 0 && a->size == 1 && atomic_load(a->alarm) == 0, "rank %u of %u", a->rank,
          a->size);
    rd_control_enter(a, &call);
    check_presence(a, 0, 1, true, false, "inside");
    rd_control_leave(a, 1);
    a->transport->wait(a, NULL, 0, rd_now_ns() + 1000);
    a->transport->abort(a, &(rd_error){.status = RONDA_EABORTED});
    a->transport->quiesce(a, rd_now_ns() + SECOND_NS, UINT64_MAX);
    CHECK(atomic_load(a->alarm), "no alarm");
    conformance_close(&w, 1);
}
