/* fuzz_stream.c: what peers write to their sockets, read by a rank that does what ranks do.
 *
 * Rank 0 of three is real; ranks 1 and 2 have greeted it rightly.  The input is a list of things that happen,
 * each a letter and what it needs; other letters mean nothing.  A line is 0: rank 1's, 1: rank 2's, 2: another one
 * of rank 1's, as when both have called each other.
 *
 *     w LINE BYTES(2) ...      these bytes come         t COUNT     rank 0 takes so much of what is there
 *     z LINE KILOBYTES         so many zeros come       s RANK CHANNEL SIZE    and sends something
 *     h LINE                   the line is cut          n, a, q     awaits somebody, aborts, quiesces
 *     d LINE                   the peer reads           j, k        joins a part with rank 1, and closes it
 *     c                        rank 1 has line 2, too
 *     W LINE BYTES(2) ...      as w, but they begin with a head that gets the checksums of itself and the rest
 *
 * A list that begins with C is of ranks whose frames have checksums.
 *
 * Whatever comes: nothing is read that is not there, no descriptor or memory is left, what is kept has bounds, and
 * a failure can be told to people. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "fuzz.h"
#include "transport/tcp_inside.h"

enum { SIZE = 3, LINES = 3, MOST_ZEROS = 6 << 20 };
static const uint64_t JOB = 77;

typedef struct {
    rd_link *link, *part;
    struct sockaddr_un name;
    socklen_t name_length;
    int lines[LINES]; /* -1: cut */
    uint64_t zeros, greetings;
    bool aborted, checked;
} scene;

/* --- the lines --- */

static void pump(scene *s)
{
    s->link->transport->pump(s->link);
}

static bool drain(const scene *s, uint32_t line)
{
    static char waste[64 << 10];
    bool some = false;
    while (s->lines[line] >= 0 && recv(s->lines[line], waste, sizeof waste, MSG_DONTWAIT) > 0)
        some = true;
    return some;
}

/* Until rank 0 has nothing more to say. */
static void drain_all(scene *s)
{
    bool some = true;
    while (some) {
        some = false;
        for (uint32_t i = 0; i < LINES; i++)
            some |= drain(s, i);
        pump(s);
    }
}

/* Rank 0 reads meanwhile; a line that takes nothing any more is not waited for. */
static void say(scene *s, uint32_t line, const uint8_t *bytes, size_t length)
{
    for (uint32_t stuck = 0; length && s->lines[line] >= 0 && stuck < 4;) {
        const ssize_t n = send(s->lines[line], bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return;
        stuck = n > 0 ? 0 : stuck + 1;
        bytes += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
        pump(s);
    }
}

static void say_zeros(scene *s, uint32_t line, size_t length)
{
    static const uint8_t zeros[16 << 10];
    for (; length && s->zeros < MOST_ZEROS; s->zeros += sizeof zeros) {
        const size_t now = length < sizeof zeros ? length : sizeof zeros;
        say(s, line, zeros, now);
        length -= now;
    }
}

static void dial(scene *s, uint32_t line, uint32_t rank)
{
    uint8_t packed[RD_GREETING];
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz_require(fd >= 0 && connect(fd, (const struct sockaddr *)&s->name, s->name_length) == 0,
                 "there is a line");
    static const uint8_t none[RD_NONCE];
    rd_frame greeting = {.kind = RD_FRAME_GREETING,
                         .features = s->checked ? RD_FEATURE_CHECKSUM : 0,
                         .from = rank,
                         .size = SIZE,
                         .job = JOB,
                         .counter = ++s->greetings};
    rd_frame_seal(&(rd_seal){.sender = none, .receiver = none}, &greeting, NULL, packed);
    s->lines[line] = fd;
    say(s, line, packed, sizeof packed);
    pump(s); /* the greeting, and the one before perhaps only let it in */
}

static void cut(scene *s, uint32_t line)
{
    if (s->lines[line] >= 0)
        close(s->lines[line]);
    s->lines[line] = -1;
}

/* --- rank 0 --- */

/* A listener of this host's takes the place of tcp's, and nothing is left behind when it is closed. */
static bool open_scene(scene *s, uint64_t timeout_ns, bool checked)
{
    rd_error err = {0};
    rd_tcp_parts parts = {.size = SIZE,
                          .job = JOB,
                          .timeout_ns = timeout_ns,
                          .places = rd_alloc(SIZE * sizeof(rd_place))};
    *s = (scene){.name = {.sun_family = AF_UNIX}, .lines = {-1, -1, -1}, .checked = checked};
    s->name_length = sizeof s->name;
    parts.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!parts.places || bind(parts.listener, (struct sockaddr *)&s->name, sizeof(sa_family_t)) ||
        listen(parts.listener, LINES) ||
        getsockname(parts.listener, (struct sockaddr *)&s->name, &s->name_length))
        return false;
    for (uint32_t r = 0; r < SIZE; r++)
        parts.places[r] = (rd_place){.host = r + 1,
                                     .name = "there",
                                     .pid = 1,
                                     .cpus = 1,
                                     .quota = 1,
                                     .port = 1, /* where nobody listens */
                                     .count = 1,
                                     .checksum = checked ? RD_CHECKSUM_ON : RD_CHECKSUM_OFF,
                                     .at = {{.family = 4, .bytes = {127, 0, 0, 1}}}};
    return rd_tcp_open(&parts, &s->link, &err) == RONDA_OK;
}

static uint64_t kept_bytes(const rd_port *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = p->taken; i != p->came; i++)
        bytes += p->in[i % RD_QUEUE].end - p->in[i % RD_QUEUE].start;
    return bytes;
}

static void take_at(rd_port *p, uint64_t most)
{
    static uint8_t copy[RD_WINDOW];
    rd_view view;
    fuzz_require(p->came - p->taken <= RD_QUEUE, "no more messages than fit");
    fuzz_require(kept_bytes(p) <= RD_WINDOW, "no more bytes than may be under way");
    while (rd_port_peek(p, &view)) {
        fuzz_require(view.bytes <= view.total && view.bytes <= sizeof copy,
                     "a view is within its message and its window");
        memcpy(copy, view.data, view.bytes); /* all of it can be read */
        const uint64_t now = view.bytes < most ? view.bytes : most;
        if (!now && view.total)
            return;
        rd_port_release(p, now);
        most -= now;
    }
}

static void take(rd_link *link, uint64_t most)
{
    for (uint32_t r = 1; r < link->size; r++)
        for (uint32_t c = 0; c < link->channels + 2; c++)
            take_at(rd_tcp_port(link, r, c), most);
}

static void send_some(rd_link *link, uint32_t peer, uint32_t channel, uint64_t bytes)
{
    static const char lent[255 * 1024];
    rd_port *p = link->transport->port(link, peer, channel);
    if (!rd_port_can_send(p) || *link->alarm)
        return;
    if (bytes > RD_INLINE) {
        rd_port_lend(p, &(rd_loan){.data = lent, .bytes = bytes, .mark = 5});
        return;
    }
    if (rd_port_reserve(p, bytes, &bytes))
        rd_port_commit(p, bytes, bytes, 5);
}

static void check_failure(rd_link *link)
{
    rd_error cause = {0};
    if (!*link->alarm)
        return;
    rd_control_cause(link, &cause);
    fuzz_require(cause.status < 0 && *cause.message && fuzz_is_one_line(cause.message),
                 "a failure can be told");
}

static void fail(scene *s, rd_link *link)
{
    rd_error cause = {0};
    if (s->aborted)
        return;
    drain_all(s); /* what cannot be said is waited for */
    s->aborted = true;
    rd_fail(&cause, RONDA_EPEER, 1, "rank 0 has had enough");
    link->transport->abort(link, &cause);
}

static void join(scene *s)
{
    static const uint32_t members[] = {0, 1};
    rd_error err = {0};
    rd_offer offer = {0};
    if (!s->part && !s->link->transport->split(s->link, members, 2, 0, &offer, &err))
        s->link->transport->join(s->link, &offer, members, 2, 0, &s->part, &err);
}

static void leave(scene *s)
{
    if (s->part)
        s->part->transport->close(s->part);
    s->part = NULL;
}

/* --- the input --- */

typedef struct {
    const uint8_t *at, *end;
} reader;

static uint8_t next(reader *r)
{
    return r->at < r->end ? *r->at++ : 0;
}

/* What a peer that is right would have said. */
static void say_sealed(scene *s, uint32_t line, const uint8_t *bytes, size_t length)
{
    static uint8_t frame[UINT16_MAX];
    const uint32_t rest = length < RD_HEAD ? 0 : (uint32_t)length - RD_HEAD;
    if (length < RD_HEAD)
        return;
    memcpy(frame, bytes, length);
    const uint32_t crc = rd_crc32c(0, frame + RD_HEAD, rest);
    for (int i = 0; i < 4; i++)
        frame[RD_HEAD - 8 + i] = (uint8_t)(crc >> 8 * i);
    rd_head_seal(frame);
    say(s, line, frame, length);
}

static void happen(scene *s, uint8_t what, reader *r)
{
    rd_link *link = s->part ? s->part : s->link;
    const uint32_t line = strchr("wWzhd", what) ? next(r) % LINES : 0;
    if (what == 'w' || what == 'W') {
        size_t length = next(r);
        length |= (size_t)next(r) << 8;
        length = length < (size_t)(r->end - r->at) ? length : (size_t)(r->end - r->at);
        (what == 'w' ? say : say_sealed)(s, line, r->at, length);
        r->at += length;
    } else if (what == 'z') {
        say_zeros(s, line, (size_t)next(r) << 10);
    } else if (what == 'h') {
        cut(s, line);
    } else if (what == 'd') {
        drain(s, line);
    } else if (what == 'c' && s->lines[2] < 0) {
        dial(s, 2, 1);
    } else if (what == 't') {
        const uint64_t most = next(r);
        take(link, most == 255 ? UINT64_MAX : most * most);
    } else if (what == 's') {
        const uint32_t peer = 1 + next(r) % (link->size - 1), channel = next(r);
        const uint64_t size = next(r);
        send_some(link, peer, channel % (link->channels + 2), size < 60 ? size : size << 10);
    } else if (what == 'n') {
        rd_control_await(link, 1, true);
    } else if (what == 'a') {
        fail(s, link);
    } else if (what == 'q' && *link->alarm) {
        link->transport->quiesce(link, rd_now_ns() + 1000000, UINT64_MAX);
    } else if (what == 'j') {
        join(s);
    } else if (what == 'k') {
        leave(s);
    }
    pump(s);
    check_failure(s->link);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    scene s;
    reader r = {bytes, bytes + length};
    const int before = dup(2);
    close(before);
    fuzz_require(open_scene(&s, length % 16 ? 1 : 1000000, /* few have the patience to close well */
                            length && bytes[0] == 'C'),
                 "there is a world");
    dial(&s, 0, 1);
    dial(&s, 1, 2);
    fuzz_require(rd_tcp_link(s.link)->world->peers[1].out &&
                     rd_tcp_link(s.link)->world->peers[2].out,
                 "who greets rightly is let in");
    for (uint8_t what; r.at < r.end;)
        if ((what = next(&r)) != 0)
            happen(&s, what, &r);
    take(s.link, UINT64_MAX);
    drain_all(&s);
    leave(&s);
    s.link->transport->close(s.link);
    for (uint32_t i = 0; i < LINES; i++)
        cut(&s, i);
    const int after = dup(2);
    close(after);
    fuzz_require(before == after, "no descriptor is left");
    return 0;
}
