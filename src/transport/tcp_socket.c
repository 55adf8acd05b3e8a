/* tcp_socket.c: a connection's socket, its options, and what is kept for it. */
#include "transport/tcp_inside.h"

#include "base/clock.h"
#include "base/mem.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A host that has gone silent is found out in 15 s: by the system, as long as nothing is to be said to it; and
 * else by rd_tcp_is_silent().  (The system's own limit for the latter would also end connections to peers
 * that are busy and do not read.) */
static void set_options(int fd)
{
    const int one = 1, idle = 6, interval = 3, count = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

bool rd_tcp_is_silent(const tcp_conn *c)
{
    enum { SILENT_MS = 15000 };
    struct tcp_info info;
    socklen_t length = sizeof info;
    return c->state == TCP_OPEN && getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           info.tcpi_unacked && info.tcpi_retransmits && info.tcpi_last_ack_recv > SILENT_MS;
}

bool rd_tcp_watch(tcp_world *w, tcp_conn *c, bool writes)
{
    struct epoll_event event = {.events = writes ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
    return epoll_ctl(w->epoll, EPOLL_CTL_MOD, c->fd, &event) == 0;
}

static void free_conn(tcp_conn *c)
{
    rd_free(c->input);
    rd_free(c->letter.bytes);
    rd_free(c->control.bytes);
    rd_free(c->next_control.bytes);
    rd_free(c->spilled);
}

void rd_tcp_discard(tcp_conn *c)
{
    if (c)
        free_conn(c);
    rd_free(c);
}

tcp_conn *rd_tcp_new_conn(void)
{
    tcp_conn *c = rd_alloc(sizeof *c);
    if (c && (c->input = rd_alloc(RD_INPUT)) && rd_tcp_can_fail(c))
        return c;
    rd_tcp_discard(c);
    return NULL;
}

tcp_conn *rd_tcp_add(tcp_world *w, tcp_conn *c, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (!c || epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event)) {
        rd_tcp_discard(c);
        close(fd);
        return NULL;
    }
    c->fd = fd;
    c->rank = UINT32_MAX;
    c->since_ns = rd_now_ns();
    c->next = w->conns;
    w->conns = c;
    set_options(fd);
    return c;
}

void rd_tcp_end(tcp_world *w, tcp_conn *c)
{
    tcp_conn **at = &w->conns;
    while (*at && *at != c)
        at = &(*at)->next;
    assert(*at); /* it ends once */
    *at = c->next;
    assert(c->state != TCP_STRANGER || w->strangers);
    if (c->state == TCP_STRANGER)
        w->strangers--;
    if (c->rank < w->its.size) {
        tcp_peer *peer = &w->peers[c->rank];
        assert(c->state != TCP_CONNECTING || peer->trying);
        peer->trying -= c->state == TCP_CONNECTING;
        peer->out = peer->out == c ? NULL : peer->out;
        peer->in = peer->in == c ? NULL : peer->in;
    }
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, c->fd, NULL); /* a forked process may have it open, too */
    close(c->fd);
    c->fd = -1;
    free_conn(c);
    c->next = w->ended;
    w->ended = c;
}
