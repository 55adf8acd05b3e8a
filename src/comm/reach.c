#include "comm/reach.h"

#include "base/clock.h"
#include "base/fd.h"
#include "comm/lookup.h"
#include "transport/wire.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const uint64_t STAGGER_NS = 200000000; /* between one address and the next */
static const uint64_t ROUND_NS = 5000000000;  /* for an address to answer at all */
static const uint64_t TALK_NS = 3000000000;   /* for the handshake */

/* --- the handshake --- */

/* What answers is not whom we want; another address may be right. */
static ronda_status is_other(rd_target *t, const char *what)
{
    t->out = true;
    snprintf(t->why, sizeof t->why, "%s", what);
    return RONDA_ETIMEOUT;
}

/* The last try is cut short by the deadline: what the tries before it found is worth more than that. */
static void set_silence(const rd_reaching *r, rd_target *t)
{
    if (!*t->why || rd_now_ns() < r->until_ns)
        snprintf(t->why, sizeof t->why, "no answer");
}

/* Who has proved nothing says only which refusal it is, and the sentence is this rank's own. */
static ronda_status refused(const rd_reaching *r, rd_target *t, const rd_frame *frame,
                            rd_error *err)
{
    char text[RD_REFUSAL_TEXT], caller[32];
    snprintf(caller, sizeof caller, "rank %u", r->rank);
    const ronda_status status = rd_refusal_text(frame->number, r->peer, caller, text);
    return status ? rd_fail(err, status, r->peer, "%s", text)
                  : is_other(t, "what answers makes no sense");
}

/* What came of the handshake, if it is no frame. */
static ronda_status unheard(const rd_reaching *r, rd_target *t, rd_received received,
                            const rd_frame *frame, rd_error *err)
{
    char what[48];
    switch (received) {
    case RD_RECEIVED_PART:
        set_silence(r, t);
        return RONDA_ETIMEOUT;
    case RD_RECEIVED_END:
        snprintf(t->why, sizeof t->why, "it closed the connection");
        return RONDA_ETIMEOUT;
    case RD_RECEIVED_FORGED:
        return is_other(t, "what answers does not know the job's key");
    case RD_RECEIVED_VERSION:
        return rd_fail(err, RONDA_EUNSUPPORTED, r->peer,
                       "rank %u: rank %u speaks version %u, this is version %d", r->rank, r->peer,
                       frame->version, RD_WIRE_VERSION);
    case RD_RECEIVED_UNABLE:
        return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY,
                       "rank %u: no random numbers, or libcrypto does not prove the job's key",
                       r->rank);
    default:
        snprintf(what, sizeof what, "what answers is not rank %u", r->peer);
        return is_other(t, what);
    }
}

static ronda_status greet(rd_reaching *r, rd_target *t, rd_session *s, rd_place *place,
                          rd_error *err)
{
    const uint64_t end = rd_deadline_ns(TALK_NS);
    const rd_frame proof = {.kind = RD_FRAME_PROOF, .from = r->rank, .to = r->peer, .job = r->job};
    rd_frame frame;
    const rd_received received =
        rd_session_greet(s, t->way, &proof, -1, end < r->until_ns ? end : r->until_ns, &frame);
    if (received != RD_RECEIVED_FRAME)
        return unheard(r, t, received, &frame, err);
    if (frame.kind == RD_FRAME_SOCKET)
        return rd_fail(
            err, RONDA_EINVAL, r->peer,
            "rank %u joins with RONDA_TRANSPORT=tcp or a host's address, rank %u by shared memory",
            r->rank, r->peer);
    if (frame.kind == RD_FRAME_REJECT && !s->proven)
        return refused(r, t, &frame, err);
    if (frame.kind == RD_FRAME_REJECT) {
        const ronda_status status = rd_session_rejected(s, &frame, err);
        return status == RONDA_EPEER ? is_other(t, "it is of another job") : status;
    }
    if (frame.kind != RD_FRAME_WELCOME)
        return unheard(r, t, RD_RECEIVED_FOREIGN, &frame, err);
    if (frame.from != r->peer || (r->job && frame.job != r->job) || frame.bytes != RD_PLACE ||
        !rd_place_unpack(s->body, place))
        return is_other(t, "what answers is another rank");
    r->job = frame.job;
    return RONDA_OK;
}

/* --- the addresses --- */

/* Without a key: the secret of the user's, from who gives one at this address.  false: not this time */
static bool fetch_secret(const rd_reaching *r, rd_target *t)
{
    const uint64_t end = rd_deadline_ns(TALK_NS);
    t->way = r->way;
    t->secret[0] = 0;
    if (!r->fetches)
        return true;
    switch (rd_secret_fetch(&t->ip, t->port, end < r->until_ns ? end : r->until_ns, t->secret)) {
    case RD_SECRET_FETCHED:
        t->way = RD_WAY_USER;
        return true;
    case RD_SECRET_NOBODY: /* no rank 0, or one that has a key or lets in whoever comes, and says so */
        return true;
    case RD_SECRET_OTHER:
        snprintf(t->why, sizeof t->why, "another user's process answers");
        return r->way == RD_WAY_OPEN;
    default:
        set_silence(r, t);
        return false;
    }
}

/* scarce: this process can have no more sockets at all */
static int start(rd_reaching *r, rd_target *t, bool *scarce)
{
    if (!fetch_secret(r, t))
        return -1;
    struct sockaddr_storage name;
    const int one = 1;
    const socklen_t length = rd_ip_sockaddr(&t->ip, t->port, &name);
    const int fd = rd_fd(socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fd >= 0 &&
        (connect(fd, (const struct sockaddr *)&name, length) == 0 || errno == EINPROGRESS))
        return fd;
    *scarce = fd < 0 && rd_socket_scarce(errno);
    snprintf(t->why, sizeof t->why, "%s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A socket may connect to itself, when it gets the port that it asks for: nobody is there then. */
static bool is_own_end(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t a = sizeof here, b = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &a) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &b) == 0 && a == b &&
           memcmp(&here, &there, a) == 0;
}

/* A connection has been made, or refused. */
static ronda_status take(rd_reaching *r, rd_target *t, int fd, rd_session *session, rd_place *place,
                         rd_error *err)
{
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    rd_session s = rd_session_open(fd, true,
                                   r->key         ? r->key
                                   : t->secret[0] ? t->secret
                                                  : NULL,
                                   r->size);
    if (!error && is_own_end(fd))
        error = ECONNREFUSED;
    ronda_status status = RONDA_ETIMEOUT;
    t->refused = error == ECONNREFUSED;
    if (error)
        snprintf(t->why, sizeof t->why, "%s", strerror(error));
    else
        status = greet(r, t, &s, place, err);
    if (status) {
        rd_session_close(&s);
        return status;
    }
    r->way = t->way;
    if (t->secret[0]) {
        memcpy(r->secret, t->secret, sizeof r->secret);
        s.key = r->secret;
    }
    *session = s;
    return RONDA_OK;
}

static int await_some(struct pollfd polled[], uint32_t count, uint64_t until_ns)
{
    const uint64_t now = rd_now_ns();
    const uint64_t ms = until_ns > now ? (until_ns - now) / 1000000 + 1 : 0;
    return poll(polled, count, ms > INT_MAX ? INT_MAX : (int)ms);
}

ronda_status rd_reach_once(rd_reaching *r, rd_session *session, rd_place *place, rd_error *err)
{
    struct pollfd polled[RD_TARGETS];
    uint64_t next = rd_now_ns(), end = next + ROUND_NS + r->count * STAGGER_NS;
    uint32_t started = 0, open = 0;
    bool scarce = false;
    ronda_status status = RONDA_ETIMEOUT;
    end = end < r->until_ns ? end : r->until_ns;
    while (status == RONDA_ETIMEOUT && (open || started < r->count) && rd_now_ns() < end) {
        if (started < r->count && (!open || rd_now_ns() >= next)) {
            rd_target *t = &r->at[started];
            polled[started] =
                (struct pollfd){.fd = t->out ? -1 : start(r, t, &scarce), .events = POLLOUT};
            open += polled[started++].fd >= 0;
            next = rd_now_ns() + STAGGER_NS;
            if (scarce)
                status = rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank %u: no socket: %s", r->rank,
                                 t->why);
        }
        if (open)
            await_some(polled, started, started < r->count && next < end ? next : end);
        for (uint32_t i = 0; i < started && status == RONDA_ETIMEOUT; i++) {
            if (polled[i].fd < 0 || !polled[i].revents)
                continue;
            status = take(r, &r->at[i], polled[i].fd, session, place, err);
            polled[i].fd = -1;
            open--;
        }
    }
    for (uint32_t i = 0; i < started; i++)
        if (polled[i].fd >= 0) {
            close(polled[i].fd);
            set_silence(r, &r->at[i]);
        }
    return status;
}

bool rd_reach_hopeless(const rd_reaching *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (!r->at[i].out)
            return false;
    return r->count > 0;
}

void rd_reach_pause(uint32_t round, uint64_t until_ns)
{
    const uint64_t now = rd_now_ns(), left = until_ns > now ? until_ns - now : 0;
    uint64_t ns = round < 5 ? 5000000ull << round : 200000000;
    ns = ns < left ? ns : left;
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

void rd_reach_text(const rd_reaching *r, char *text, size_t capacity)
{
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < r->count && at + 1 < capacity; i++) {
        char ip[RD_IP_TEXT], place[RD_IP_TEXT + 16];
        rd_ip_text(&r->at[i].ip, ip);
        rd_ip_with_port(ip, r->at[i].port, place, sizeof place);
        const int n = snprintf(text + at, capacity - at, "%s%s: %s", at ? ", " : "", place,
                               *r->at[i].why ? r->at[i].why : "not tried");
        at += n > 0 ? (size_t)n : 0;
    }
}

static bool is_gone(const rd_reaching *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (!r->at[i].out && !r->at[i].refused)
            return false;
    return true;
}

ronda_status rd_reach(rd_reaching *r, const char *whom, rd_session *session, rd_place *place,
                      rd_error *err)
{
    char text[300];
    const uint64_t start_ns = rd_now_ns();
    for (uint32_t round = 0;; round++) {
        const ronda_status status = rd_reach_once(r, session, place, err);
        if (status != RONDA_ETIMEOUT)
            return status;
        if (rd_now_ns() >= r->until_ns || is_gone(r))
            break;
        rd_reach_pause(round, r->until_ns);
    }
    rd_reach_text(r, text, sizeof text);
    return rd_fail(err, is_gone(r) ? RONDA_EPEER : RONDA_ETIMEOUT, r->peer,
                   "rank %u could not reach %s in %.3g s: %s", r->rank, whom,
                   (double)(rd_now_ns() - start_ns) / 1e9, text);
}

void rd_reach_place(rd_reaching *r, const rd_place *place)
{
    r->count = place->count;
    for (uint32_t i = 0; i < place->count; i++)
        r->at[i] = (rd_target){.ip = place->at[i], .port = place->port};
}

bool rd_reach_name(rd_reaching *r, const rd_address *address, const char **why)
{
    rd_ip found[RD_TARGETS];
    r->count = rd_lookup(address->host, found, RD_TARGETS, r->until_ns, why);
    for (uint32_t i = 0; i < r->count; i++)
        r->at[i] = (rd_target){.ip = found[i], .port = address->port};
    return r->count > 0;
}
