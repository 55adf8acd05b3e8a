/* test_liars_tcp.c: a peer that greets rightly over a real socket, and then sends what is almost right.
 *
 * Rank 0 of three is ronda's; rank 1 is this test, and rank 2 cannot be reached.  A conversation is drawn:
 * messages of several channels in pieces, a goodbye.  Then one thing in it is changed.  Rank 0 never hangs or
 * crashes: it raises the alarm and names the peer, or goes on; and where it is known which, it must be that. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "harness.h"
#include "liar.h"
#include "transport/tcp.h"
#include "transport/wire.h"

enum { SIZE = 3, JOB = 77, CHANNELS = RD_CHANNELS + 2, MOST_PARCELS = 200, MOST_MESSAGES = 12 };
enum { WINDOW = 1 << 20 }; /* bytes of a channel that may be under way */

/* --- the world --- */

typedef struct {
    rd_link *link;
    rd_place places[SIZE];
    int listeners[SIZE]; /* rank 0's is the link's */
    int peer;            /* rank 1's end of its connection; -1: closed */
    uint32_t taken[CHANNELS];
    uint64_t released[CHANNELS]; /* of the message after those */
    bool true_so_far;            /* what comes is what was drawn */
} stage;

static int listen_here(rd_place *place, uint32_t rank)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, 8) ||
        getsockname(fd, (struct sockaddr *)&name, &length))
        return -1;
    *place = (rd_place){.host = rank + 1, .name = "here", .pid = getpid(), .cpus = 1, .count = 1};
    place->port = ntohs(name.sin_port);
    place->at[0] = (rd_ip){.family = 4, .bytes = {127, 0, 0, 1}};
    return fd;
}

static int dial(const stage *s)
{
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons(s->places[0].port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof name) == 0, "%s",
          strerror(errno));
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void greet(int fd)
{
    uint8_t packed[RD_GREETING];
    rd_greeting_pack(&(rd_greeting){.rank = 1, .to = 0, .size = SIZE, .job = JOB}, packed);
    CHECK(send(fd, packed, sizeof packed, MSG_NOSIGNAL) == sizeof packed, "%s", strerror(errno));
}

static bool open_stage(stage *s)
{
    rd_error err = {0};
    *s = (stage){.peer = -1, .true_so_far = true};
    for (uint32_t r = 0; r < SIZE; r++)
        if (!CHECK((s->listeners[r] = listen_here(&s->places[r], r)) >= 0, "%s", strerror(errno)))
            return false;
    rd_tcp_parts parts = {.size = SIZE,
                          .places = rd_alloc(sizeof s->places),
                          .listener = s->listeners[0],
                          .job = JOB,
                          .timeout_ns = 2000000000};
    s->places[2].port = 1; /* where nobody listens */
    memcpy(parts.places, s->places, sizeof s->places);
    return CHECK(rd_tcp_open(&parts, &s->link, &err) == RONDA_OK, "%s", err.message);
}

static void hang_up(stage *s)
{
    if (s->peer >= 0)
        close(s->peer);
    s->peer = -1;
}

static bool alarmed(const stage *s)
{
    return *s->link->alarm;
}

/* --- what rank 0 does --- */

static uint8_t element(uint32_t channel, uint32_t message, uint64_t at)
{
    return (uint8_t)(channel * 77 + message * 31 + at * 7 + at / 251);
}

static void take(stage *s)
{
    const rd_transport *t = s->link->transport;
    rd_view view;
    t->pump(s->link);
    for (uint32_t c = 0; c < CHANNELS; c++) {
        rd_port *p = t->port(s->link, 1, c);
        while (t->peek(p, &view)) {
            const uint8_t *data = view.data;
            uint64_t wrong = 0;
            for (uint64_t i = 0; i < view.bytes; i++)
                wrong += data[i] != element(c, s->taken[c], s->released[c] + i);
            CHECK(!s->true_so_far || !wrong, "channel %u, message %u: %" PRIu64 " wrong bytes", c,
                  s->taken[c], wrong);
            s->released[c] += view.bytes;
            const bool ends = s->released[c] == view.total;
            t->release(p, view.bytes);
            s->taken[c] += ends;
            s->released[c] = ends ? 0 : s->released[c];
        }
    }
}

/* Until it has raised the alarm, or for so long. */
static void go_on(stage *s, uint64_t ns)
{
    const uint64_t until = rd_now_ns() + ns;
    do
        take(s);
    while (!alarmed(s) && rd_now_ns() < until);
}

/* Until it has so many messages of a channel, however busy the machine is. */
static void await(stage *s, uint32_t channel, uint32_t messages)
{
    const uint64_t until = rd_now_ns() + 10000000000u;
    while (s->taken[channel] < messages && !alarmed(s) && rd_now_ns() < until)
        take(s);
}

static void write_all(stage *s, const uint8_t *bytes, size_t length, bool takes)
{
    const uint64_t until = rd_now_ns() + 5000000000u;
    while (length && s->peer >= 0) {
        const ssize_t n = send(s->peer, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return; /* rank 0 has closed it */
        bytes += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
        if (takes)
            take(s);
        else
            s->link->transport->pump(s->link);
        if (!CHECK(rd_now_ns() < until, "rank 0 reads no more, and does not say why"))
            return;
    }
}

/* What rank 0 says of it can be shown, and is about rank 1, unless rank 1 said it. */
static void check_cause(const stage *s, bool heard)
{
    rd_error cause = {0};
    if (!alarmed(s))
        return;
    s->link->transport->cause(s->link, &cause);
    CHECK(cause.status < 0 && *cause.message, "an alarm without a cause");
    for (const char *c = cause.message; *c; c++)
        CHECK(*c >= ' ' && *c <= '~', "a cause with 0x%x in it", (unsigned)(unsigned char)*c);
    CHECK(heard || (cause.status == RONDA_EPEER && cause.peer == 1 &&
                    strstr(cause.message, "rank 1 (host here")),
          "%s", cause.message);
}

static void close_stage(stage *s, bool heard)
{
    const uint64_t started = rd_now_ns();
    check_cause(s, heard);
    if (alarmed(s))
        s->link->transport->quiesce(s->link, started + 1000000000);
    hang_up(s);
    s->link->transport->close(s->link);
    for (uint32_t r = 1; r < SIZE; r++)
        close(s->listeners[r]);
    CHECK(rd_now_ns() - started < 4000000000u, "closing took %" PRIu64 " ms",
          (rd_now_ns() - started) / 1000000);
}

/* --- conversations --- */

typedef struct {
    uint8_t *bytes;
    size_t length;
    size_t at[MOST_PARCELS + 1]; /* where parcels begin, and the end */
    uint32_t parcels;
    uint32_t messages[CHANNELS];
} talk;

static void add(talk *t, const rd_head *h)
{
    t->bytes = realloc(t->bytes, t->length + RD_HEAD + h->bytes);
    rd_head_pack(h, t->bytes + t->length);
    t->length += RD_HEAD + h->bytes;
    t->at[++t->parcels] = t->length;
}

static rd_head message(uint32_t channel, uint64_t bytes, uint64_t total)
{
    return (rd_head){.kind = RD_MESSAGE,
                     .channel = (uint8_t)channel,
                     .bytes = (uint32_t)bytes,
                     .total = total,
                     .call = {.sequence = 1 + channel,
                              .mark = 9,
                              .count = total / 4,
                              .kind = RONDA_ALLREDUCE,
                              .type = RONDA_F32,
                              .op = RONDA_SUM}};
}

static void add_message(talk *t, uint32_t channel, uint64_t done, uint64_t bytes, uint64_t total)
{
    const rd_head h = message(channel, bytes, total);
    add(t, &h);
    for (uint64_t i = 0; i < bytes; i++)
        t->bytes[t->length - bytes + i] = element(channel, t->messages[channel], done + i);
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
    uint64_t total[CHANNELS] = {0}, done[CHANNELS] = {0};
    bool filling[CHANNELS] = {false};
    const uint32_t count = 2 + (uint32_t)rng_below(r, 20);
    for (uint32_t i = 0; i < count || filling[0]; i++) {
        const uint32_t c = i < count ? (uint32_t)rng_below(r, CHANNELS) : 0;
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
static void hold(stage *s, const talk *t)
{
    s->peer = dial(s);
    greet(s->peer);
    write_all(s, t->bytes, t->length, true);
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
        stage s;
        talk t = draw_talk(&r);
        if (!open_stage(&s))
            return;
        hold(&s, &t);
        for (uint32_t c = 0; c < CHANNELS; c++)
            await(&s, c, t.messages[c]);
        go_on(&s, 1000000);
        for (uint32_t c = 0; c < CHANNELS; c++)
            CHECK(s.taken[c] == t.messages[c], "channel %u: %u of %u", c, s.taken[c],
                  t.messages[c]);
        CHECK(!alarmed(&s), "an alarm for nothing");
        close_stage(&s, false);
        free(t.bytes);
    }
}

TEST(conversations_that_are_cut_short)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(100) && !test_failed(); i++) {
        stage s;
        talk t = draw_talk(&r);
        if (!open_stage(&s))
            return;
        t.length = rng_below(&r, t.length - RD_HEAD); /* before the goodbye is complete */
        hold(&s, &t);
        go_on(&s, 10000000000u);
        CHECK(alarmed(&s), "nobody misses rank 1");
        close_stage(&s, false);
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
        stage s;
        talk t = draw_talk(&r);
        if (!open_stage(&s))
            return;
        s.true_so_far = false;
        changes[rng_below(&r, sizeof changes / sizeof *changes)](&r, &t);
        hold(&s, &t);
        go_on(&s, 1000000);
        alarms += alarmed(&s);
        close_stage(&s, true);
        free(t.bytes);
    }
    CHECK(alarms > all / 10, "only %u alarms", alarms);
}

/* --- lies of which it is known what they lead to --- */

static void tell(stage *s, const rd_head *h, const void *bytes, bool takes)
{
    uint8_t packed[RD_HEAD];
    rd_head_pack(h, packed);
    write_all(s, packed, sizeof packed, takes);
    if (bytes)
        write_all(s, bytes, h->bytes, takes);
}

static bool open_and_greet(stage *s)
{
    if (!open_stage(s))
        return false;
    s->true_so_far = false;
    s->peer = dial(s);
    greet(s->peer);
    s->link->transport->pump(s->link);
    return true;
}

TEST(credit_for_what_was_never_sent)
{
    static const rd_head lies[] = {{.kind = RD_CREDIT, .taken = 3, .freed = 16},
                                   {.kind = RD_CREDIT, .taken = 2, .freed = 17},
                                   {.kind = RD_CREDIT, .taken = UINT32_MAX, .freed = 16},
                                   {.kind = RD_CREDIT, .taken = 1, .freed = UINT64_MAX},
                                   {.kind = RD_CREDIT, .channel = CHANNELS},
                                   {.kind = RD_MESSAGE, .taken = 7},
                                   {.kind = RD_MESSAGE, .freed = 1, .channel = 1}};
    for (uint32_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        stage s;
        if (!open_and_greet(&s))
            return;
        rd_port *p = s.link->transport->port(s.link, 1, 0);
        for (uint64_t k = 0, bytes = 8; k < 2; k++) {
            memset(s.link->transport->reserve(p, bytes, &bytes), 5, bytes);
            s.link->transport->commit(p, bytes, bytes, 9);
        }
        tell(&s, &(rd_head){.kind = RD_CREDIT, .taken = 1, .freed = 8}, NULL, true);
        go_on(&s, 1000000);
        CHECK(!alarmed(&s), "an alarm for a true credit");
        tell(&s, &lies[i], NULL, true);
        go_on(&s, 10000000000u);
        CHECK(alarmed(&s), "lie %u is believed", i);
        close_stage(&s, false);
    }
}

TEST(more_messages_than_may_be_under_way)
{
    stage s;
    if (!open_and_greet(&s))
        return;
    const rd_head h = message(3, 8, 8);
    for (uint32_t i = 0; i < RD_QUEUE; i++)
        tell(&s, &h, "abcdefg", false);
    for (int i = 0; i < 10; i++)
        s.link->transport->pump(s.link);
    CHECK(!alarmed(&s), "an alarm for a full queue");
    tell(&s, &h, "abcdefg", false);
    for (int i = 0; i < 1000 && !alarmed(&s); i++)
        s.link->transport->wait(s.link, NULL, UINT32_MAX, rd_now_ns() + 10000000);
    CHECK(alarmed(&s), "a queue without an end");
    close_stage(&s, false);
}

TEST(more_bytes_than_may_be_under_way)
{
    static const uint8_t zeros[RD_MOST_PARCEL];
    static const uint64_t totals[] = {RD_MOST_PARCEL, WINDOW, WINDOW + 1, INT64_MAX};
    for (uint32_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        stage s;
        if (!open_and_greet(&s))
            return;
        const rd_head h = message(2, RD_MOST_PARCEL, totals[i]);
        for (uint32_t k = 0; k < WINDOW / RD_MOST_PARCEL; k++)
            tell(&s, &h, zeros, false);
        for (int k = 0; k < 10; k++)
            s.link->transport->pump(s.link);
        CHECK(!alarmed(&s), "an alarm for a full window of %" PRIu64, totals[i]);
        const rd_head more = message(2, 1, totals[i] == WINDOW + 1 ? WINDOW + 1 : 1);
        tell(&s, i == 3 ? &h : &more, i == 3 ? NULL : zeros, false);
        for (int k = 0; k < 1000 && !alarmed(&s); k++)
            s.link->transport->wait(s.link, NULL, UINT32_MAX, rd_now_ns() + 10000000);
        CHECK(alarmed(&s), "more than the window of %" PRIu64 " is kept", totals[i]);
        close_stage(&s, false);
    }
}

TEST(huge_messages_are_waited_for_and_missed)
{
    static const uint64_t totals[] = {INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
    for (uint32_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        stage s;
        if (!open_and_greet(&s))
            return;
        const rd_head h = message(0, 1, totals[i]);
        tell(&s, &h, "x", true);
        go_on(&s, i ? 10000000000u : 10000000);
        CHECK(alarmed(&s) == (i > 0), "a message of %" PRIu64 " bytes", totals[i]);
        hang_up(&s);
        go_on(&s, 10000000000u);
        CHECK(alarmed(&s), "nobody misses rank 1");
        close_stage(&s, false);
    }
}

TEST(news_about_strange_ranks)
{
    static const uint32_t ranks[] = {0, 1, 2, SIZE, 1024, RONDA_ANY};
    stage s;
    if (!open_and_greet(&s))
        return;
    for (uint32_t i = 0; i < 36; i++) {
        rd_news n = {.rank = ranks[i % 6],
                     .awaits = ranks[i / 6],
                     .age_ms = i % 2 ? UINT32_MAX : i,
                     .inside = i % 3,
                     .posted = i % 5,
                     .call = message(0, 4, 4).call};
        uint8_t packed[RD_NEWS_ITEM];
        n.call.kind = (ronda_kind)(i * 7);
        n.call.sequence = i % 4 ? i : UINT64_MAX;
        rd_news_pack(&n, packed);
        tell(&s, &(rd_head){.kind = RD_NEWS, .bytes = RD_NEWS_ITEM}, packed, true);
        s.link->transport->await(s.link, 1); /* and passes them on */
    }
    const rd_head h = message(0, 8, 8);
    tell(&s, &h, "abcdefg", true);
    await(&s, 0, 1);
    CHECK(!alarmed(&s) && s.taken[0] == 1, "news are not to be afraid of");
    for (uint32_t r = 0; r < SIZE; r++)
        CHECK(!s.link->transport->presence(s.link, r).closed, "rank %u closed by hearsay", r);
    close_stage(&s, false);
}

TEST(alarms_with_odd_texts)
{
    static const int statuses[] = {0, 1, -1, -5, -99, INT32_MIN, INT32_MAX};
    for (uint32_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        stage s;
        rd_error e = {.status = statuses[i], .rank = 77, .peer = 4711, .sequence = UINT64_MAX};
        uint8_t packed[RD_CAUSE];
        if (!open_and_greet(&s))
            return;
        rd_cause_pack(&e, packed);
        for (uint32_t k = 24; k < RD_CAUSE; k++)
            packed[k] = (uint8_t)(i % 2 ? 1 + k * 7 % 255 : 0);
        tell(&s, &(rd_head){.kind = RD_ALARM, .bytes = RD_CAUSE}, packed, true);
        go_on(&s, 10000000000u);
        CHECK(alarmed(&s), "an alarm is not heard");
        close_stage(&s, true);
    }
}

TEST(a_hangup_in_the_middle)
{
    stage s;
    if (!open_and_greet(&s))
        return;
    const rd_head h = message(1, 100, 1000);
    uint8_t data[100] = {0};
    tell(&s, &h, data, true);
    tell(&s, &(rd_head){.kind = RD_HANGUP}, NULL, true);
    hang_up(&s);
    go_on(&s, 20000000); /* an end in order, so rank 0 may go on and wait until its timeout */
    close_stage(&s, false);
}

TEST(messages_on_two_connections)
{
    stage s;
    uint64_t bytes = 8;
    if (!open_stage(&s))
        return;
    s.true_so_far = false;
    rd_port *p = s.link->transport->port(s.link, 1, 0);
    memset(s.link->transport->reserve(p, bytes, &bytes), 5, bytes);
    s.link->transport->commit(p, bytes, bytes, 9); /* rank 0 calls, since it is the lower one */
    int called = -1;
    for (int i = 0; i < 1000 && called < 0; i++) {
        go_on(&s, 1000000);
        called = accept(s.listeners[1], NULL, NULL);
    }
    if (!CHECK(called >= 0, "rank 0 has not called: %s", strerror(errno)))
        return;
    greet(called);
    s.peer = dial(&s);
    greet(s.peer);
    const rd_head h = message(1, 8, 8);
    tell(&s, &h, "abcdefg", true);
    await(&s, 1, 1);
    CHECK(!alarmed(&s) && s.taken[1] == 1, "the first is good");
    const int first = s.peer;
    s.peer = called;
    tell(&s, &h, "abcdefg", true);
    go_on(&s, 10000000000u);
    CHECK(alarmed(&s) && s.taken[1] == 1, "%u messages of two connections", s.taken[1]);
    rd_error cause = {0};
    s.link->transport->cause(s.link, &cause);
    CHECK(strstr(cause.message, "cannot be a message"), "%s", cause.message);
    close_stage(&s, false);
    close(first);
}
