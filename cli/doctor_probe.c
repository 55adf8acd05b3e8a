/* doctor_probe.c: can ranks connect to the other hosts?
 *
 * Two ranks that cannot connect to each other end a world as soon as they try, so this uses sockets beside the
 * world's: every rank listens at a port of its own and connects to one rank of each other host, at all addresses
 * of that rank at once.  Ranks of one host take turns through the ranks of another. */
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

enum { BACKLOG = 1024 };

/* --- listening --- */

static int listen_at(const struct sockaddr *name, socklen_t length)
{
    const int zero = 0;
    const int fd = rd_fd(socket(name->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    if (name->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, name, length) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    close(fd);
    return -1;
}

int doctor_probe_open(doctor_facts *own)
{
    const struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
    const struct sockaddr_in any4 = {.sin_family = AF_INET};
    struct sockaddr_in6 name; /* the port is at the same place in both families */
    socklen_t length = sizeof name;
    int fd = listen_at((const struct sockaddr *)&any6, sizeof any6);
    if (fd < 0)
        fd = listen_at((const struct sockaddr *)&any4, sizeof any4);
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&name, &length) == 0)
        own->port = ntohs(name.sin6_port);
    return fd;
}

/* --- connecting --- */

typedef struct {
    uint32_t host; /* as facts number them */
    const rd_ip *ip;
    int fd, error; /* fd -1: it has failed, by error */
} attempt;

typedef struct {
    attempt *at;
    struct pollfd *polls;
    uint32_t count;
    bool *reached; /* [hosts] */
} attempts;

/* The rank of a host that this rank connects to. */
static const doctor_facts *peer_on(const doctor_facts facts[], uint32_t rank, uint32_t size,
                                   uint32_t host)
{
    uint32_t turn = 0, count = 0;
    for (uint32_t r = 0; r < size; r++) {
        turn += r < rank && facts[r].host_index == facts[rank].host_index;
        count += facts[r].host_index == host;
    }
    turn %= count;
    for (const doctor_facts *f = facts;; f++)
        if (f->host_index == host && turn-- == 0)
            return f;
}

static void give_up(attempt *a)
{
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

static void start(attempts *all, uint32_t host, const rd_ip *ip, uint16_t port)
{
    struct sockaddr_storage name;
    const socklen_t length = rd_ip_sockaddr(ip, port, &name);
    attempt *a = &all->at[all->count++];
    *a = (attempt){.host = host, .ip = ip, .error = ETIMEDOUT};
    a->fd = rd_fd(socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (a->fd >= 0 &&
        (connect(a->fd, (const struct sockaddr *)&name, length) == 0 || errno == EINPROGRESS))
        return;
    a->error = errno;
    give_up(a);
}

static void look_at(attempts *all, uint32_t i)
{
    attempt *a = &all->at[i];
    socklen_t length = sizeof a->error;
    if (a->fd < 0 || !all->polls[i].revents)
        return;
    getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &a->error, &length);
    all->reached[a->host] |= a->error == 0;
    give_up(a);
}

/* Until every host is reached or has failed, or the time is over; accepts connections of others meanwhile. */
static void await(attempts *all, int listener, uint64_t until_ns)
{
    for (;;) {
        const uint64_t now = rd_now_ns();
        uint32_t open = 0;
        for (uint32_t i = 0; i < all->count; i++) {
            if (all->reached[all->at[i].host])
                give_up(&all->at[i]);
            all->polls[i] = (struct pollfd){.fd = all->at[i].fd, .events = POLLOUT};
            open += all->at[i].fd >= 0;
        }
        all->polls[all->count] = (struct pollfd){.fd = listener, .events = POLLIN};
        if (now >= until_ns || !open)
            return;
        poll(all->polls, all->count + 1, (int)((until_ns - now) / 1000000 + 1));
        if (all->polls[all->count].revents) {
            const int fd = rd_fd(accept(listener, NULL, NULL));
            if (fd >= 0)
                close(fd);
        }
        for (uint32_t i = 0; i < all->count; i++)
            look_at(all, i);
    }
}

/* --- what came of it --- */

static void say_host(doctor_list *list, const attempts *all, uint32_t host, const char *name)
{
    char why[300] = "it has no address but the loopback";
    size_t at = 0;
    for (uint32_t i = 0; i < all->count && at < sizeof why - RD_IP_TEXT - 80; i++) {
        char ip[RD_IP_TEXT];
        if (all->at[i].host != host)
            continue;
        rd_ip_text(all->at[i].ip, ip);
        at += (size_t)snprintf(why + at, sizeof why - at, "%s%s: %.60s", at ? "; " : "", ip,
                               strerror(all->at[i].error));
    }
    doctor_say(list, DOCTOR_PROBLEM, "reach", "cannot connect to host %s: %s", name, why);
    doctor_advise(list,
                  "see whether a route leads there (ip route get ADDRESS) and no firewall drops it "
                  "(ranks listen at ports that the system picks: allow all between hosts); "
                  "RONDA_IFACE names the interfaces to use");
}

static uint32_t hosts_in(const doctor_facts facts[], uint32_t size)
{
    uint32_t hosts = 0;
    for (uint32_t r = 0; r < size; r++)
        hosts = facts[r].host_index >= hosts ? facts[r].host_index + 1 : hosts;
    return hosts;
}

void doctor_probe(doctor_list *list, const doctor_facts facts[], uint32_t rank, uint32_t size,
                  int listener, double seconds)
{
    const uint32_t hosts = hosts_in(facts, size);
    attempts all = {.at = calloc((size_t)hosts * RD_ADDRESSES, sizeof *all.at),
                    .polls = calloc((size_t)hosts * RD_ADDRESSES + 1, sizeof *all.polls),
                    .reached = calloc(hosts, sizeof *all.reached)};
    const bool good = all.at && all.polls && all.reached;
    for (uint32_t h = 0; h < hosts && good; h++) {
        const doctor_facts *peer = peer_on(facts, rank, size, h);
        all.reached[h] = h == facts[rank].host_index || !peer->port; /* 0: it cannot be probed */
        for (uint32_t a = 0; a < peer->place.count && a < RD_ADDRESSES && !all.reached[h]; a++)
            if (!rd_ip_is_loopback(&peer->place.at[a])) /* that would be this host */
                start(&all, h, &peer->place.at[a], peer->port);
    }
    if (good)
        await(&all, listener, rd_deadline_ns((uint64_t)(seconds * 1e9)));
    for (uint32_t h = 0; h < hosts && good; h++)
        if (!all.reached[h])
            say_host(list, &all, h, peer_on(facts, rank, size, h)->host_name);
    for (uint32_t i = 0; i < all.count; i++)
        give_up(&all.at[i]);
    free(all.at);
    free(all.polls);
    free(all.reached);
}
