/* duet.c: see duet.h. */
#include "duet.h"

#include "base/clock.h"
#include "base/mem.h"
#include "transport/control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_here(rd_place *place, uint32_t rank)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)&name, &length))
        return -1;
    *place = (rd_place){.host = rank + 1,
                        .name = "here",
                        .pid = getpid(),
                        .cpus = 1,
                        .quota = 1,
                        .count = 1,
                        .checksum = RD_CHECKSUM_OFF};
    place->port = ntohs(name.sin_port);
    place->at[0] = (rd_ip){.family = 4, .bytes = {127, 0, 0, 1}};
    return fd;
}

int duet_dial(const duet *s)
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

static void greet_as(int fd, uint32_t kind, uint32_t rank)
{
    static const uint8_t none[RD_NONCE];
    uint8_t packed[RD_GREETING];
    rd_frame greeting = {
        .kind = kind, .from = rank, .size = DUET_SIZE, .job = DUET_JOB, .counter = 1};
    rd_frame_seal(&(rd_seal){.sender = none, .receiver = none}, &greeting, NULL, packed);
    CHECK(send(fd, packed, sizeof packed, MSG_NOSIGNAL) == sizeof packed, "%s", strerror(errno));
}

void duet_greet(int fd, uint32_t rank)
{
    greet_as(fd, RD_FRAME_GREETING, rank);
}

void duet_answer(int fd, uint32_t rank)
{
    greet_as(fd, RD_FRAME_ANSWER, rank);
}

bool duet_open(duet *s)
{
    rd_error err = {0};
    *s = (duet){.peer = -1, .true_so_far = true};
    for (uint32_t r = 0; r < DUET_SIZE; r++)
        if (!CHECK((s->listeners[r] = listen_here(&s->places[r], r)) >= 0, "%s", strerror(errno)))
            return false;
    rd_tcp_parts parts = {.size = DUET_SIZE,
                          .places = rd_alloc(sizeof s->places),
                          .listener = s->listeners[0],
                          .job = DUET_JOB,
                          .timeout_ns = 2000000000};
    s->places[2].port = 1; /* where nobody listens */
    memcpy(parts.places, s->places, sizeof s->places);
    return CHECK(rd_tcp_open(&parts, &s->link, &err) == RONDA_OK, "%s", err.message);
}

void duet_hang_up(duet *s)
{
    if (s->peer >= 0)
        close(s->peer);
    s->peer = -1;
}

bool duet_alarmed(const duet *s)
{
    return *s->link->alarm;
}

/* --- what rank 0 does --- */

uint8_t duet_element(uint32_t channel, uint32_t message, uint64_t at)
{
    return (uint8_t)(channel * 77 + message * 31 + at * 7 + at / 251);
}

static void take(duet *s)
{
    const rd_transport *t = s->link->transport;
    rd_view view;
    t->pump(s->link);
    for (uint32_t c = 0; c < DUET_CHANNELS; c++) {
        rd_port *p = t->port(s->link, 1, c);
        while (rd_port_peek(p, &view)) {
            const uint8_t *data = view.data;
            uint64_t wrong = 0;
            for (uint64_t i = 0; i < view.bytes; i++)
                wrong += data[i] != duet_element(c, s->taken[c], s->released[c] + i);
            CHECK(!s->true_so_far || !wrong, "channel %u, message %u: %" PRIu64 " wrong bytes", c,
                  s->taken[c], wrong);
            s->released[c] += view.bytes;
            const bool ends = s->released[c] == view.total;
            rd_port_release(p, view.bytes);
            s->taken[c] += ends;
            s->released[c] = ends ? 0 : s->released[c];
        }
    }
}

void duet_go_on(duet *s, uint64_t ns)
{
    const uint64_t until = rd_now_ns() + ns;
    do
        take(s);
    while (!duet_alarmed(s) && rd_now_ns() < until);
}

void duet_await(duet *s, uint32_t channel, uint32_t messages)
{
    const uint64_t until = rd_now_ns() + 10000000000u;
    while (s->taken[channel] < messages && !duet_alarmed(s) && rd_now_ns() < until)
        take(s);
}

void duet_write(duet *s, const uint8_t *bytes, size_t length, bool takes)
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

static void check_cause(const duet *s, bool heard)
{
    rd_error cause = {0};
    if (!duet_alarmed(s))
        return;
    rd_control_cause(s->link, &cause);
    CHECK(cause.status < 0 && *cause.message, "an alarm without a cause");
    for (const char *c = cause.message; *c; c++)
        CHECK(*c >= ' ' && *c <= '~', "a cause with 0x%x in it", (unsigned)(unsigned char)*c);
    CHECK(heard || (cause.status == RONDA_EPEER && cause.peer == 1 &&
                    strstr(cause.message, "rank 1 (host here")),
          "%s", cause.message);
}

void duet_close(duet *s, bool heard)
{
    const uint64_t started = rd_now_ns();
    check_cause(s, heard);
    if (duet_alarmed(s))
        s->link->transport->quiesce(s->link, started + 1000000000, UINT64_MAX);
    duet_hang_up(s);
    s->link->transport->close(s->link);
    for (uint32_t r = 1; r < DUET_SIZE; r++)
        close(s->listeners[r]);
    CHECK(rd_now_ns() - started < 4000000000u, "closing took %" PRIu64 " ms",
          (rd_now_ns() - started) / 1000000);
}

rd_head duet_message(uint32_t channel, uint64_t bytes, uint64_t total)
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

void duet_tell(duet *s, const rd_head *h, const void *bytes, bool takes)
{
    uint8_t packed[RD_HEAD];
    rd_head_pack(h, packed);
    duet_write(s, packed, sizeof packed, takes);
    if (bytes)
        duet_write(s, bytes, h->bytes, takes);
}

bool duet_open_and_greet(duet *s)
{
    if (!duet_open(s))
        return false;
    s->true_so_far = false;
    s->peer = duet_dial(s);
    duet_greet(s->peer, 1);
    s->link->transport->pump(s->link);
    return true;
}
