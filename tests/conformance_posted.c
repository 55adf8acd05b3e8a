/* conformance_posted.c: what transport.h promises of posted receives.  From rank 0 to rank 2, which share no memory where
 * some ranks do. */
#include "conformance.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, CHANNEL = 2, MOST = 1200000 };
enum { BEFORE, MEANWHILE, AFTER, OTHER_MARK, WAYS };

static void fill_message(char *to, uint64_t bytes, uint32_t number)
{
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = (char)(i * 7 + i / 253 + number * 31);
}

/* Takes a message by pieces, which are copied where they are not in place. */
static void take(const conformance_subject *s, rd_link *link, rd_port *port, char *to,
                 uint64_t bytes, uint32_t way, rng *r)
{
    for (uint64_t at = 0; at < bytes;) {
        rd_view view;
        if (!CHECK(conformance_peek(s, port, link, &view), "nothing to see at %" PRIu64, at))
            return;
        const bool there = view.data == to + at;
        CHECK(view.total == bytes && view.bytes <= bytes - at, "%" PRIu64 " of %" PRIu64,
              view.bytes, view.total);
        CHECK(way != BEFORE || there, "not in place at %" PRIu64 " of %" PRIu64, at, bytes);
        CHECK((way != OTHER_MARK && way != AFTER) || !there, "in place without a receive");
        const uint64_t part = 1 + rng_below(r, view.bytes);
        if (!there)
            memcpy(to + at, view.data, part);
        rd_port_release(port, part);
        at += part;
        if (way == MEANWHILE && at < bytes)
            rd_port_post_recv(port, to, bytes, 5);
    }
}

/* A receive is for one message: the next, which is like it, goes elsewhere. */
static void follow(const conformance_subject *s, rd_link *a, rd_port *to, char *data,
                   uint64_t bytes, rd_link *b, rd_port *from, const char *got)
{
    char *first = malloc(bytes);
    memcpy(first, data, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = (char)(data[i] + 1);
    if (CHECK(conformance_can_send(s, to, a), "cannot send"))
        rd_port_lend(to, &(rd_loan){.data = data, .bytes = bytes, .mark = 5});
    for (uint64_t at = 0; at < bytes && !test_failed();) {
        rd_view view;
        if (!CHECK(conformance_peek(s, from, b, &view), "nothing to see"))
            break;
        CHECK(memcmp(view.data, data + at, view.bytes) == 0, "other bytes");
        at += view.bytes;
        rd_port_release(from, view.bytes);
    }
    CHECK(memcmp(got, first, bytes) == 0, "the next message was written there, too");
    memcpy(data, first, bytes);
    free(first);
}

/* Before the message comes, while it comes, when it has come, and for another message than the one that comes. */
void conformance_posted_receives(const conformance_subject *s)
{
    conformance_world w;
    rng r = rng_start();
    if (!conformance_open(s, &w, RANKS))
        return;
    rd_link *a = w.links[0], *b = w.links[2];
    const rd_transport *t = a->transport;
    rd_port *to = t->port(a, 2, CHANNEL), *from = b->transport->port(b, 0, CHANNEL);
    char *data = malloc(MOST), *got = malloc(MOST + 64);
    for (uint32_t round = 0; round < 60 && rd_data_of(from)->post_recv && !test_failed(); round++) {
        const uint32_t way = round % WAYS;
        const uint64_t bytes =
            RD_INLINE + 1 + rng_below(&r, way == AFTER || round % 3 ? 5000 : MOST - RD_INLINE - 1);
        const uint32_t message = rd_port_sent(to) + (way != OTHER_MARK); /* two are sent */
        fill_message(data, bytes, round);
        memset(got, 0x5a, bytes + 64);
        if (way == BEFORE || way == OTHER_MARK)
            rd_port_post_recv(from, got, bytes, way == BEFORE ? 5 : 6);
        if (!CHECK(conformance_can_send(s, to, a), "cannot send"))
            break;
        rd_port_lend(to, &(rd_loan){.data = data, .bytes = bytes, .mark = 5});
        rd_view view = {0};
        for (int i = 0; way == AFTER && i < 1000000 && view.bytes < bytes; i++) {
            conformance_pump(a);
            rd_port_peek(from, &view);
        }
        if (way == AFTER)
            rd_port_post_recv(from, got, bytes, 5);
        take(s, b, from, got, bytes, way, &r);
        CHECK(memcmp(got, data, bytes) == 0, "round %u: other bytes", round);
        if (way == OTHER_MARK)
            rd_port_post_recv(from, NULL, 0, 0);
        else
            follow(s, a, to, data, bytes, b, from, got);
        CHECK(all_bytes_are(0x5a, got + bytes, 64), "round %u: bytes beside it", round);
        CHECK(conformance_done(s, to, a, message), "not released");
    }
    free(data);
    free(got);
    conformance_close(&w, RANKS);
}

/* In the middle of a message, whose rest comes all the same: nothing is written any more, and other channels go on. */
void conformance_cancelled_receives(const conformance_subject *s)
{
    conformance_world w;
    for (uint32_t round = 0; round < 4 && !test_failed(); round++) {
        if (!conformance_open(s, &w, RANKS))
            return;
        rd_link *a = w.links[0], *b = w.links[2];
        const rd_transport *t = a->transport;
        rd_port *to = t->port(a, 2, CHANNEL), *from = b->transport->port(b, 0, CHANNEL);
        char *data = malloc(MOST), *got = malloc(MOST);
        fill_message(data, MOST, round);
        memset(got, 0x5a, MOST);
        if (rd_data_of(from)->post_recv) {
            rd_view view;
            rd_port_post_recv(from, got, MOST, 5);
            rd_port_lend(to, &(rd_loan){.data = data, .bytes = MOST, .mark = 5});
            while (round && CHECK(conformance_peek(s, from, b, &view), "nothing to see") &&
                   view.bytes < round * 100000)
                conformance_pump(a);
            CHECK(!round || memcmp(got, data, 1000) == 0, "not in place");
            rd_port_post_recv(from, NULL, 0, 0);
            memset(got, 0x77, MOST);
            for (int i = 0; i < 3000; i++)
                conformance_pump(a);
            CHECK(all_bytes_are(0x77, got, MOST), "written after it was cancelled");
            CHECK(!round || !rd_port_peek(from, &view), "what was cancelled is shown");
            char word = 0;
            uint64_t mark = 0;
            conformance_send_inline(a, t->port(a, 2, 3), "x", 1, 8);
            CHECK(conformance_take(b, b->transport->port(b, 0, 3), &word, 1, &mark) == 1 &&
                      word == 'x' && mark == 8,
                  "another channel's message");
            t->abort(a, &(rd_error){.status = RONDA_EABORTED, .message = "enough"});
            t->quiesce(a, 0, 0);
        }
        conformance_close(&w, RANKS);
        free(data);
        free(got);
    }
}
