/* test_replay.c: greetings of data connections that were recorded, changed or made by one who is not the rank that
 * they name, at a listener of ronda's: the connection is closed, and the world goes on.
 *
 *     rank 0 (ronda's) --> this test, which records and passes on --> rank 1 (ronda's)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "harness.h"
#include "transport/tcp.h"
#include "transport/wire.h"

enum { SIZE = 3, JOB = 77, BYTES = 24 };
static const char KEY[] = "a key";

typedef struct {
    rd_place places[SIZE];
    int between;      /* where rank 0 finds rank 1 */
    rd_link *link[2]; /* of ranks 0 and 1 */
    int accepted;     /* a connection to rank 1 that stays open; -1: none */
} world;

static int listen_here(uint16_t *port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)&name, &length))
        return -1;
    *port = ntohs(name.sin_port);
    return fd;
}

static bool open_rank(world *w, uint32_t rank, int listener, uint16_t port_of_1)
{
    rd_error err = {0};
    rd_tcp_parts parts = {.rank = rank,
                          .size = SIZE,
                          .places = rd_alloc(sizeof w->places),
                          .listener = listener,
                          .key = rd_alloc(sizeof KEY),
                          .job = JOB,
                          .timeout_ns = 2000000000};
    memcpy(parts.key, KEY, sizeof KEY);
    memcpy(parts.places, w->places, sizeof w->places);
    parts.places[1].port = port_of_1;
    return CHECK(rd_tcp_open(&parts, &w->link[rank], &err) == RONDA_OK, "%s", err.message);
}

static bool open_world(world *w)
{
    uint16_t between = 0;
    int listeners[2];
    *w = (world){.accepted = -1};
    for (uint32_t r = 0; r < SIZE; r++) {
        w->places[r] = (rd_place){.host = r + 1,
                                  .name = "here",
                                  .pid = getpid(),
                                  .cpus = 1,
                                  .quota = 1,
                                  .count = 1,
                                  .checksum = RD_CHECKSUM_OFF,
                                  .port = 1};
        w->places[r].at[0] = (rd_ip){.family = 4, .bytes = {127, 0, 0, 1}};
        memset(w->places[r].nonce, 100 + (int)r, RD_NONCE);
    }
    for (uint32_t r = 0; r < 2; r++)
        if (!CHECK((listeners[r] = listen_here(&w->places[r].port)) >= 0, "%s", strerror(errno)))
            return false;
    w->between = listen_here(&between);
    return CHECK(w->between >= 0, "%s", strerror(errno)) &&
           open_rank(w, 0, listeners[0], between) &&
           open_rank(w, 1, listeners[1], w->places[1].port);
}

static void close_world(world *w)
{
    for (int r = 0; r < 2; r++)
        w->link[r]->transport->close(w->link[r]);
    close(w->between);
    if (w->accepted >= 0)
        close(w->accepted);
}

static int dial(const world *w)
{
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons(w->places[1].port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof name) == 0, "%s",
          strerror(errno));
    return fd;
}

/* Messages of rank 0's first channel that rank 1 has got. */
static uint32_t take(world *w)
{
    const rd_transport *t = w->link[1]->transport;
    rd_port *p = t->port(w->link[1], 0, 0);
    uint32_t count = 0;
    rd_view view;
    t->pump(w->link[0]);
    t->pump(w->link[1]);
    for (; rd_port_peek(p, &view); rd_port_release(p, view.bytes)) {
        const uint8_t *data = view.data;
        for (uint64_t i = 0; i < view.bytes; i++)
            CHECK(data[i] == (uint8_t)(7 * i + 3), "byte %u is %u", (unsigned)i, data[i]);
        count++;
    }
    return count;
}

/* Sends this to rank 1 as the first bytes of a connection: is it closed, or answered? */
static bool is_refused(world *w, const uint8_t *bytes, size_t count)
{
    const uint64_t until = rd_now_ns() + 5000000000u;
    const int fd = dial(w);
    uint8_t byte;
    ssize_t n = -1;
    errno = EAGAIN;
    CHECK(send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count, "%s", strerror(errno));
    do {
        CHECK(take(w) == 0, "a message came of it");
        n = recv(fd, &byte, 1, MSG_DONTWAIT);
    } while (n < 0 && errno == EAGAIN && rd_now_ns() < until);
    CHECK(n >= 0 || errno == ECONNRESET, "neither closed nor answered");
    CHECK(!*w->link[1]->alarm, "the world has failed");
    if (n > 0)
        w->accepted = fd;
    else
        close(fd);
    return n <= 0;
}

/* Rank 0 sends rank 1 a message, through this test: all its bytes, the greeting first.  The connection stays open
 * in both[]. */
static size_t record(world *w, uint8_t *bytes, size_t capacity, int both[2])
{
    const rd_transport *t = w->link[0]->transport;
    const uint64_t until = rd_now_ns() + 10000000000u;
    uint64_t room = BYTES;
    size_t have = 0;
    rd_port *p = t->port(w->link[0], 1, 0);
    uint8_t *to = rd_port_reserve(p, BYTES, &room);
    for (uint64_t i = 0; i < BYTES; i++)
        to[i] = (uint8_t)(7 * i + 3);
    rd_port_commit(p, BYTES, BYTES, 9);
    both[0] = -1;
    while (have < RD_GREETING + RD_HEAD + BYTES && rd_now_ns() < until) {
        t->pump(w->link[0]);
        if (both[0] < 0)
            both[0] = accept4(w->between, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        const ssize_t n = both[0] < 0 ? 0 : recv(both[0], bytes + have, capacity - have, 0);
        have += n > 0 ? (size_t)n : 0;
    }
    both[1] = dial(w);
    CHECK(have >= RD_GREETING + RD_HEAD + BYTES, "%zu bytes were sent", have);
    CHECK(send(both[1], bytes, have, MSG_NOSIGNAL) == (ssize_t)have, "%s", strerror(errno));
    uint32_t came = 0;
    while (!came && rd_now_ns() < until)
        came = take(w);
    CHECK(came == 1, "%u messages came", came);
    return have;
}

TEST(a_recorded_greeting_is_refused)
{
    uint8_t bytes[1000];
    int both[2];
    world w;
    if (!open_world(&w))
        return;
    const size_t have = record(&w, bytes, sizeof bytes, both);
    for (int i = 0; i < 3; i++)
        CHECK(is_refused(&w, bytes, have), "the recording was accepted");
    CHECK(is_refused(&w, bytes, RD_GREETING), "its greeting was accepted");
    for (uint32_t bit = 0; bit < 8 * RD_GREETING; bit += 5) { /* with the next counter, too */
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(is_refused(&w, bytes, RD_GREETING), "bit %u was changed, and it was accepted", bit);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    close(both[0]);
    close(both[1]);
    close_world(&w);
}

/* Greetings of rank 2 to rank 1, which has never heard of rank 2 before. */
TEST(greetings_are_for_one_rank_one_job_and_one_time)
{
    static const struct {
        const char *what;
        uint32_t kind, from, to, size;
        uint64_t job, counter;
        const char *key;
        uint32_t sender, receiver; /* whose nonces are used */
        bool good;
    } cases[] = {
        {"another key", RD_FRAME_GREETING, 2, 1, SIZE, JOB, 3, "another", 2, 1, false},
        {"no key", RD_FRAME_GREETING, 2, 1, SIZE, JOB, 3, NULL, 2, 1, false},
        {"another nonce of its own", RD_FRAME_GREETING, 2, 1, SIZE, JOB, 3, KEY, 0, 1, false},
        {"another nonce of rank 1", RD_FRAME_GREETING, 2, 1, SIZE, JOB, 3, KEY, 2, 0, false},
        {"swapped nonces", RD_FRAME_GREETING, 2, 1, SIZE, JOB, 3, KEY, 1, 2, false},
        {"an answer", RD_FRAME_ANSWER, 2, 1, SIZE, JOB, 3, KEY, 2, 1, false},
        {"from rank 1 to rank 2", RD_FRAME_GREETING, 1, 2, SIZE, JOB, 3, KEY, 1, 2, false},
        {"from rank 1 to itself", RD_FRAME_GREETING, 1, 1, SIZE, JOB, 3, KEY, 1, 1, false},
        {"to rank 0", RD_FRAME_GREETING, 2, 0, SIZE, JOB, 3, KEY, 2, 0, false},
        {"of a larger world", RD_FRAME_GREETING, 2, 1, SIZE + 1, JOB, 3, KEY, 2, 1, false},
        {"of another job", RD_FRAME_GREETING, 2, 1, SIZE, JOB + 1, 3, KEY, 2, 1, false},
        {"without a counter", RD_FRAME_GREETING, 2, 1, SIZE, JOB, 0, KEY, 2, 1, false},
        {"the right one", RD_FRAME_GREETING, 2, 1, SIZE, JOB, 3, KEY, 2, 1, true},
        {"the same again", RD_FRAME_GREETING, 2, 1, SIZE, JOB, 3, KEY, 2, 1, false},
        {"an older one", RD_FRAME_GREETING, 2, 1, SIZE, JOB, 2, KEY, 2, 1, false},
    };
    world w;
    if (!open_world(&w))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[RD_GREETING];
        rd_frame note = {.kind = cases[i].kind,
                         .from = cases[i].from,
                         .to = cases[i].to,
                         .size = cases[i].size,
                         .job = cases[i].job,
                         .counter = cases[i].counter};
        const rd_seal seal = {cases[i].key, w.places[cases[i].sender].nonce,
                              w.places[cases[i].receiver].nonce};
        CHECK(rd_frame_seal(&seal, &note, NULL, bytes), "it cannot be sealed");
        CHECK(is_refused(&w, bytes, sizeof bytes) != cases[i].good, "%s", cases[i].what);
    }
    close_world(&w);
}
