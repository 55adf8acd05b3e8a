/* doctor_probe.c: can ranks connect to each other?
 *
 * A pair that cannot would end the whole world as soon as the two talk, so it is found out before, by
 * sockets beside the world's: every rank listens at a port of its own, and calls the ranks of other hosts at
 * all of their addresses, all at once, as ronda itself would one after the other.  In worlds of many ranks each
 * calls one rank of every other host. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "doctor.h"
#include "transport/ip.h"

enum { CALL_ALL = 64, QUEUE = 1024 };

/* --- being called --- */

int doctor_probe_open(doctor_facts *own)
{
    const int zero = 0;
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
    struct sockaddr_in any4 = {.sin_family = AF_INET};
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    int fd = rd_fd(socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd >= 0 && (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero) ||
                    bind(fd, (const struct sockaddr *)&any6, sizeof any6))) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) {
        fd = rd_fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (fd >= 0 && bind(fd, (const struct sockaddr *)&any4, sizeof any4)) {
            close(fd);
            return -1;
        }
    }
    if (fd < 0)
        return -1;
    if (listen(fd, QUEUE) || getsockname(fd, (struct sockaddr *)&name, &length)) {
        close(fd);
        return -1;
    }
    own->port = ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                                 : ((struct sockaddr_in *)&name)->sin_port);
    return fd;
}

/* --- calling --- */

typedef struct {
    uint32_t rank;
    uint32_t address;
    int fd; /* -1: it has failed */
    int error;
} call;

typedef struct {
    call *calls;
    struct pollfd *polled;
    uint32_t count;
    bool *reached; /* [size] */
} round_of_calls;

/* In large worlds: of each other host the rank that is in turn. */
static bool is_called(const doctor_facts facts[], uint32_t rank, uint32_t size, uint32_t other)
{
    if (!facts[other].port || facts[other].host == facts[rank].host)
        return false;
    if (size <= CALL_ALL)
        return true;
    uint32_t mine = 0, theirs = 0, before = 0;
    for (uint32_t r = 0; r < size; r++) {
        mine += facts[r].host == facts[rank].host && r < rank;
        theirs += facts[r].host == facts[other].host;
        before += facts[r].host == facts[other].host && r < other;
    }
    return mine % theirs == before;
}

static void start(call *c, const rd_ip *ip, uint16_t port)
{
    struct sockaddr_storage name;
    const socklen_t length = rd_ip_sockaddr(ip, port, &name);
    c->error = ETIMEDOUT;
    c->fd = rd_fd(socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (c->fd >= 0 &&
        (connect(c->fd, (const struct sockaddr *)&name, length) == 0 || errno == EINPROGRESS))
        return;
    c->error = errno;
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

static void hang_up(call *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* Until all were reached or have failed, or the time is over; takes those who call meanwhile. */
static void hear(round_of_calls *r, int listener, uint64_t until_ns)
{
    for (uint32_t open = 1; open;) {
        const uint64_t now = rd_now_ns();
        open = 0;
        for (uint32_t i = 0; i < r->count; i++) {
            if (r->calls[i].fd >= 0 && r->reached[r->calls[i].rank])
                hang_up(&r->calls[i]);
            r->polled[i] = (struct pollfd){.fd = r->calls[i].fd, .events = POLLOUT};
            open += r->calls[i].fd >= 0;
        }
        r->polled[r->count] = (struct pollfd){.fd = listener, .events = POLLIN};
        if (now >= until_ns || !open)
            return;
        poll(r->polled, r->count + 1, (int)((until_ns - now) / 1000000 + 1));
        const int guest = r->polled[r->count].revents ? rd_fd(accept(listener, NULL, NULL)) : -1;
        if (guest >= 0)
            close(guest);
        for (uint32_t i = 0; i < r->count; i++) {
            socklen_t length = sizeof r->calls[i].error;
            if (r->calls[i].fd < 0 || !r->polled[i].revents)
                continue;
            getsockopt(r->calls[i].fd, SOL_SOCKET, SO_ERROR, &r->calls[i].error, &length);
            r->reached[r->calls[i].rank] |= r->calls[i].error == 0;
            hang_up(&r->calls[i]);
        }
    }
}

/* "10.0.0.2: No route to host; fd00::2: Connection timed out" */
static void tell(const round_of_calls *r, const doctor_facts facts[], uint32_t rank,
                 char why[DOCTOR_TEXT])
{
    size_t at = 0;
    for (uint32_t i = 0; i < r->count && at < DOCTOR_TEXT / 2; i++) {
        char ip[RD_IP_TEXT];
        const call *c = &r->calls[i];
        if (c->rank != rank || rd_ip_is_loopback(&facts[rank].place.at[c->address]))
            continue;
        rd_ip_text(&facts[rank].place.at[c->address], ip);
        at += (size_t)snprintf(why + at, DOCTOR_TEXT - at, "%s%s: %s", at ? "; " : "", ip,
                               strerror(c->error));
    }
}

void doctor_probe(const doctor_facts facts[], uint32_t rank, uint32_t size, int listener,
                  double seconds, uint8_t cut[], char why[DOCTOR_TEXT])
{
    round_of_calls r = {.calls = calloc((size_t)size * RD_ADDRESSES, sizeof *r.calls),
                        .polled = calloc((size_t)size * RD_ADDRESSES + 1, sizeof *r.polled),
                        .reached = calloc(size, sizeof *r.reached)};
    memset(cut, 0, size);
    why[0] = 0;
    if (r.calls && r.polled && r.reached) {
        for (uint32_t other = 0; other < size; other++) {
            const rd_place *place = &facts[other].place;
            if (!is_called(facts, rank, size, other))
                continue;
            for (uint32_t a = 0; a < place->count && a < RD_ADDRESSES; a++) {
                if (rd_ip_is_loopback(&place->at[a]))
                    continue; /* that would be this host */
                call *c = &r.calls[r.count++];
                c->rank = other;
                c->address = a;
                start(c, &place->at[a], facts[other].port);
            }
        }
        hear(&r, listener, rd_deadline_ns((uint64_t)(seconds * 1e9)));
        for (uint32_t other = 0; other < size; other++) {
            cut[other] = is_called(facts, rank, size, other) && !r.reached[other];
            if (cut[other] && !why[0])
                tell(&r, facts, other, why);
        }
    }
    for (uint32_t i = 0; i < r.count && r.calls; i++)
        hang_up(&r.calls[i]);
    free(r.calls);
    free(r.polled);
    free(r.reached);
}
