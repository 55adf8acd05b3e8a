/* test_liars_tcp.c: a peer that greets rightly over a real socket, and then sends what is almost right.
 *
 * Rank 0 of three is ronda's; rank 1 is this test, and rank 2 cannot be reached.  A conversation is drawn:
 * messages of several channels in pieces, a goodbye.  Then one thing in it is changed.  Rank 0 never hangs or
 * crashes: it raises the alarm and names the peer, or goes on; and where it is known which, it must be that. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "duet.h"
#include "harness.h"
#include "liar.h"

enum { MOST_PARCELS = 200, MOST_MESSAGES = 12 };
enum { WINDOW = 1 << 20 }; /* bytes of a channel that may be under way */

/* --- conversations --- */

typedef struct {
    uint8_t *bytes;
    size_t length;
    size_t at[MOST_PARCELS + 1]; /* where parcels begin, and the end */
    uint32_t parcels;
    uint32_t messages[DUET_CHANNELS];
} talk;

static void add(talk *t, const rd_head *h)
{
    t->bytes = realloc(t->bytes, t->length + RD_HEAD + h->bytes);
    rd_head_pack(h, t->bytes + t->length);
    t->length += RD_HEAD + h->bytes;
    t->at[++t->parcels] = t->length;
}

static void add_message(talk *t, uint32_t channel, uint64_t done, uint64_t bytes, uint64_t total)
{
    const rd_head h = duet_message(channel, bytes, total);
    add(t, &h);
    for (uint64_t i = 0; i < bytes; i++)
        t->bytes[t->length - bytes + i] = duet_element(channel, t->messages[channel], done + i);
    t->messages[channel] += done + bytes == total;
}

static uint64_t draw_total(rng *r)
{
    static const uint64_t totals[] = {0, 1, 8, 48, 49, 300, 3000, 40000};
    return totals[rng_below(r, sizeof totals / sizeof *totals)];
}

static talk draw_talk(rng *r)
{
    talk t = {0};
    uint64_t total[DUET_CHANNELS] = {0}, done[DUET_CHANNELS] = {0};
    bool filling[DUET_CHANNELS] = {false};
    const uint32_t count = 2 + (uint32_t)rng_below(r, 20);
    for (uint32_t i = 0; i < count || filling[0]; i++) {
        const uint32_t c = i < count ? (uint32_t)rng_below(r, DUET_CHANNELS) : 0;
        if (!filling[c] && t.messages[c] == MOST_MESSAGES)
            continue;
        if (!filling[c]) {
            total[c] = draw_total(r);
            done[c] = 0;
        }
        const uint64_t left = total[c] - done[c];
        const uint64_t bytes = left && rng_below(r, 2) ? 1 + rng_below(r, left) : left;
        add_message(&t, c, done[c], bytes, total[c]);
        done[c] += bytes;
        filling[c] = done[c] < total[c];
    }
    add(&t, &(rd_head){.kind = RD_BYE});
    add(&t, &(rd_head){.kind = RD_HANGUP});
    return t;
}

/* --- one thing is changed --- */

/* Where numbers of a head are, and how long. */
static const struct {
    uint8_t at, bytes;
} fields[] = {{0, 1},  {1, 1},  {2, 1},  {3, 1},  {4, 4},  {8, 8},  {16, 8}, {24, 8},
              {32, 8}, {40, 8}, {48, 4}, {52, 4}, {56, 4}, {60, 4}, {64, 8}};

static void change_field(rng *r, talk *t)
{
    uint8_t *head = t->bytes + t->at[rng_below(r, t->parcels)];
    const size_t f = rng_below(r, sizeof fields / sizeof *fields);
    uint64_t now = 0;
    memcpy(&now, head + fields[f].at, fields[f].bytes);
    now = hurtful(r, now, 40000);
    memcpy(head + fields[f].at, &now, fields[f].bytes);
}

static void repeat(rng *r, talk *t)
{
    const size_t i = rng_below(r, t->parcels), bytes = t->at[i + 1] - t->at[i];
    t->bytes = realloc(t->bytes, t->length + bytes);
    memmove(t->bytes + t->at[i + 1], t->bytes + t->at[i], t->length - t->at[i]);
    t->length += bytes;
}

static void leave_out(rng *r, talk *t)
{
    const size_t i = rng_below(r, t->parcels), bytes = t->at[i + 1] - t->at[i];
    memmove(t->bytes + t->at[i], t->bytes + t->at[i + 1], t->length - t->at[i + 1]);
    t->length -= bytes;
}

static void swap_bytes(rng *r, talk *t)
{
    for (int i = 0; i < 3; i++)
        t->bytes[rng_below(r, t->length)] ^= (uint8_t)(1u << rng_below(r, 8));
}

/* Opens, greets, says all of it and closes its end; then rank 0 is done soon. */
static void hold(duet *s, const talk *t)
{
    s->peer = duet_dial(s);
    duet_greet(s->peer, 1);
    duet_write(s, t->bytes, t->length, true);
    shutdown(s->peer, SHUT_WR); /* what is closed before it has read all takes back what it wrote */
}

static uint32_t rounds(uint32_t plain)
{
    return test_sanitized() ? plain / 4 : plain;
}

TEST(true_conversations_arrive)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(100) && !test_failed(); i++) {
        duet s;
        talk t = draw_talk(&r);
        if (!duet_open(&s))
            return;
        hold(&s, &t);
        for (uint32_t c = 0; c < DUET_CHANNELS; c++)
            duet_await(&s, c, t.messages[c]);
        duet_go_on(&s, 1000000);
        for (uint32_t c = 0; c < DUET_CHANNELS; c++)
            CHECK(s.taken[c] == t.messages[c], "channel %u: %u of %u", c, s.taken[c],
                  t.messages[c]);
        CHECK(!duet_alarmed(&s), "an alarm for nothing");
        duet_close(&s, false);
        free(t.bytes);
    }
}

TEST(conversations_that_are_cut_short)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(100) && !test_failed(); i++) {
        duet s;
        talk t = draw_talk(&r);
        if (!duet_open(&s))
            return;
        t.length = rng_below(&r, t.length - RD_HEAD); /* before the goodbye is complete */
        hold(&s, &t);
        duet_go_on(&s, 10000000000u);
        CHECK(duet_alarmed(&s), "nobody misses rank 1");
        duet_close(&s, false);
        free(t.bytes);
    }
}

TEST(conversations_of_which_something_is_changed)
{
    static void (*const changes[])(rng *, talk *) = {change_field, change_field, repeat, leave_out,
                                                     swap_bytes};
    rng r = rng_start();
    uint32_t alarms = 0;
    const uint32_t all = rounds(400);
    for (uint32_t i = 0; i < all && !test_failed(); i++) {
        duet s;
        talk t = draw_talk(&r);
        if (!duet_open(&s))
            return;
        s.true_so_far = false;
        changes[rng_below(&r, sizeof changes / sizeof *changes)](&r, &t);
        hold(&s, &t);
        duet_go_on(&s, 1000000);
        alarms += duet_alarmed(&s);
        duet_close(&s, true);
        free(t.bytes);
    }
    CHECK(alarms > all / 10, "only %u alarms", alarms);
}

/* --- lies of which it is known what they lead to --- */

TEST(credit_for_what_was_never_sent)
{
    static const rd_head lies[] = {{.kind = RD_CREDIT, .taken = 3, .freed = 16},
                                   {.kind = RD_CREDIT, .taken = 2, .freed = 17},
                                   {.kind = RD_CREDIT, .taken = UINT32_MAX, .freed = 16},
                                   {.kind = RD_CREDIT, .taken = 1, .freed = UINT64_MAX},
                                   {.kind = RD_CREDIT, .channel = DUET_CHANNELS},
                                   {.kind = RD_MESSAGE, .taken = 7},
                                   {.kind = RD_MESSAGE, .freed = 1, .channel = 1}};
    for (uint32_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        duet s;
        if (!duet_open_and_greet(&s))
            return;
        rd_port *p = s.link->transport->port(s.link, 1, 0);
        for (uint64_t k = 0, bytes = 8; k < 2; k++) {
            memset(rd_port_reserve(p, bytes, &bytes), 5, bytes);
            rd_port_commit(p, bytes, bytes, 9);
        }
        duet_tell(&s, &(rd_head){.kind = RD_CREDIT, .taken = 1, .freed = 8}, NULL, true);
        duet_go_on(&s, 1000000);
        CHECK(!duet_alarmed(&s), "an alarm for a true credit");
        duet_tell(&s, &lies[i], NULL, true);
        duet_go_on(&s, 10000000000u);
        CHECK(duet_alarmed(&s), "lie %u is believed", i);
        duet_close(&s, false);
    }
}

TEST(more_messages_than_may_be_under_way)
{
    duet s;
    if (!duet_open_and_greet(&s))
        return;
    const rd_head h = duet_message(3, 8, 8);
    for (uint32_t i = 0; i < RD_QUEUE; i++)
        duet_tell(&s, &h, "abcdefg", false);
    for (int i = 0; i < 10; i++)
        s.link->transport->pump(s.link);
    CHECK(!duet_alarmed(&s), "an alarm for a full queue");
    duet_tell(&s, &h, "abcdefg", false);
    for (int i = 0; i < 1000 && !duet_alarmed(&s); i++)
        s.link->transport->wait(s.link, NULL, UINT32_MAX, rd_now_ns() + 10000000);
    CHECK(duet_alarmed(&s), "a queue without an end");
    duet_close(&s, false);
}

TEST(more_bytes_than_may_be_under_way)
{
    static const uint8_t zeros[RD_MOST_PARCEL];
    static const uint64_t totals[] = {RD_MOST_PARCEL, WINDOW, WINDOW + 1, INT64_MAX};
    for (uint32_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        duet s;
        if (!duet_open_and_greet(&s))
            return;
        const rd_head h = duet_message(2, RD_MOST_PARCEL, totals[i]);
        for (uint32_t k = 0; k < WINDOW / RD_MOST_PARCEL; k++)
            duet_tell(&s, &h, zeros, false);
        for (int k = 0; k < 10; k++)
            s.link->transport->pump(s.link);
        CHECK(!duet_alarmed(&s), "an alarm for a full window of %" PRIu64, totals[i]);
        const rd_head more = duet_message(2, 1, totals[i] == WINDOW + 1 ? WINDOW + 1 : 1);
        duet_tell(&s, i == 3 ? &h : &more, i == 3 ? NULL : zeros, false);
        for (int k = 0; k < 1000 && !duet_alarmed(&s); k++)
            s.link->transport->wait(s.link, NULL, UINT32_MAX, rd_now_ns() + 10000000);
        CHECK(duet_alarmed(&s), "more than the window of %" PRIu64 " is kept", totals[i]);
        duet_close(&s, false);
    }
}

TEST(huge_messages_are_waited_for_and_missed)
{
    static const uint64_t totals[] = {INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
    for (uint32_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        duet s;
        if (!duet_open_and_greet(&s))
            return;
        const rd_head h = duet_message(0, 1, totals[i]);
        duet_tell(&s, &h, "x", true);
        duet_go_on(&s, i ? 10000000000u : 10000000);
        CHECK(duet_alarmed(&s) == (i > 0), "a message of %" PRIu64 " bytes", totals[i]);
        duet_hang_up(&s);
        duet_go_on(&s, 10000000000u);
        CHECK(duet_alarmed(&s), "nobody misses rank 1");
        duet_close(&s, false);
    }
}

TEST(news_about_strange_ranks)
{
    static const uint32_t ranks[] = {0, 1, 2, DUET_SIZE, 1024, RONDA_ANY};
    duet s;
    if (!duet_open_and_greet(&s))
        return;
    for (uint32_t i = 0; i < 36; i++) {
        rd_news n = {.rank = ranks[i % 6],
                     .awaits = ranks[i / 6],
                     .age_ms = i % 2 ? UINT32_MAX : i,
                     .inside = i % 3,
                     .posted = i % 5,
                     .call = duet_message(0, 4, 4).call};
        uint8_t packed[RD_NEWS_ITEM];
        n.call.kind = (ronda_kind)(i * 7);
        n.call.sequence = i % 4 ? i : UINT64_MAX;
        rd_news_pack(&n, packed);
        duet_tell(&s, &(rd_head){.kind = RD_NEWS, .bytes = RD_NEWS_ITEM}, packed, true);
        rd_control_await(s.link, 1, true); /* and passes them on */
    }
    const rd_head h = duet_message(0, 8, 8);
    duet_tell(&s, &h, "abcdefg", true);
    duet_await(&s, 0, 1);
    CHECK(!duet_alarmed(&s) && s.taken[0] == 1, "news are not to be afraid of");
    for (uint32_t r = 0; r < DUET_SIZE; r++)
        CHECK(!rd_control_presence(s.link, r).closed, "rank %u closed by remote", r);
    duet_close(&s, false);
}

TEST(alarms_with_odd_texts)
{
    static const int statuses[] = {0, 1, -1, -5, -99, INT32_MIN, INT32_MAX};
    for (uint32_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        duet s;
        rd_error e = {.status = statuses[i], .rank = 77, .peer = 4711, .sequence = UINT64_MAX};
        uint8_t packed[RD_CAUSE];
        if (!duet_open_and_greet(&s))
            return;
        rd_cause_pack(&e, packed);
        for (uint32_t k = 24; k < RD_CAUSE; k++)
            packed[k] = (uint8_t)(i % 2 ? 1 + k * 7 % 255 : 0);
        duet_tell(&s, &(rd_head){.kind = RD_ALARM, .bytes = RD_CAUSE}, packed, true);
        duet_go_on(&s, 10000000000u);
        CHECK(duet_alarmed(&s), "an alarm is not heard");
        duet_close(&s, true);
    }
}

TEST(a_hangup_in_the_middle)
{
    duet s;
    if (!duet_open_and_greet(&s))
        return;
    const rd_head h = duet_message(1, 100, 1000);
    uint8_t data[100] = {0};
    duet_tell(&s, &h, data, true);
    duet_tell(&s, &(rd_head){.kind = RD_HANGUP}, NULL, true);
    duet_hang_up(&s);
    duet_go_on(&s, 20000000); /* an end in order, so rank 0 may go on and wait until its timeout */
    duet_close(&s, false);
}

TEST(messages_on_two_connections)
{
    duet s;
    uint64_t bytes = 8;
    if (!duet_open(&s))
        return;
    s.true_so_far = false;
    rd_port *p = s.link->transport->port(s.link, 1, 0);
    memset(rd_port_reserve(p, bytes, &bytes), 5, bytes);
    rd_port_commit(p, bytes, bytes, 9); /* rank 0 calls, since it is the lower one */
    int called = -1;
    for (int i = 0; i < 1000 && called < 0; i++) {
        duet_go_on(&s, 1000000);
        called = accept(s.listeners[1], NULL, NULL);
    }
    if (!CHECK(called >= 0, "rank 0 has not called: %s", strerror(errno)))
        return;
    duet_answer(called, 1);
    s.peer = duet_dial(&s);
    duet_greet(s.peer, 1);
    const rd_head h = duet_message(1, 8, 8);
    duet_tell(&s, &h, "abcdefg", true);
    duet_await(&s, 1, 1);
    CHECK(!duet_alarmed(&s) && s.taken[1] == 1, "the first is good");
    const int first = s.peer;
    s.peer = called;
    duet_tell(&s, &h, "abcdefg", true);
    duet_go_on(&s, 10000000000u);
    CHECK(duet_alarmed(&s) && s.taken[1] == 1, "%u messages of two connections", s.taken[1]);
    rd_error cause = {0};
    rd_control_cause(s.link, &cause);
    CHECK(strstr(cause.message, "cannot be a message"), "%s", cause.message);
    duet_close(&s, false);
    close(first);
}
