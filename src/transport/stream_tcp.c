/* stream_tcp.c: streams that are sockets, and the epoll in which a rank waits for them.
 *
 * Whether a peer has died or only a connection has ended is found out by trying (answers): a process that has died
 * listens no more.  If another connection to the same listener is refused, or reset because the listener is just being
 * closed, the peer is dead; if it is taken and stays, the peer lives.  (The system closes what a dead process had open
 * one by one, listeners perhaps last: on a busy machine that takes a while.)  All ranks then say the same, whichever
 * end of the connection they were. */
#include "transport/stream_tcp.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "transport/events.h"
#include "transport/ip.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct tcp_stream tcp_stream;

typedef struct {
    rd_network base;
    int epoll, bell, listener;
    tcp_stream *streams;
} tcp_network;

struct tcp_stream {
    rd_bytestream base;
    tcp_network *network;
    tcp_stream *next, **at; /* in the network's list: what points to it */
    int fd;
    bool watched;
    int opened; /* what opened() has found out; EINPROGRESS: nothing yet */
};

static tcp_network *net(const rd_network *network)
{
    return (tcp_network *)(uintptr_t)network;
}

static tcp_stream *of(const rd_bytestream *stream)
{
    return (tcp_stream *)(uintptr_t)stream;
}

static uint64_t now_ns(rd_network *network)
{
    (void)network;
    return rd_now_ns();
}

/* --- opening --- */

/* A host that has gone silent is found out in 15 s: by the system, as long as nothing is to be said to it; and else by
 * silent().  (The system's own limit for the latter would also end connections to peers that are busy and do not
 * read.) */
static void set_options(int fd)
{
    const int one = 1, idle = 6, interval = 3, count = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static rd_bytestream *add(tcp_network *n, tcp_stream *s, int fd, int opened)
{
    *s = (tcp_stream){.base.kind = n->base.kind, .network = n, .fd = fd, .opened = opened};
    s->next = n->streams;
    s->at = &n->streams;
    if (s->next)
        s->next->at = &s->next;
    n->streams = s;
    set_options(fd);
    return &s->base;
}

static int call(const rd_ip *to, uint16_t port)
{
    struct sockaddr_storage name;
    const socklen_t length = rd_ip_sockaddr(to, port, &name);
    const int fd = rd_fd(socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&name, length) && errno != EINPROGRESS) {
        const int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static rd_bytestream *connect_to(rd_network *network, const rd_ip *to, uint16_t port, int *error)
{
    tcp_stream *s = rd_alloc(sizeof *s);
    const int fd = s ? call(to, port) : -1;
    *error = !s ? ENOMEM : fd < 0 ? errno : 0;
    if (fd >= 0)
        return add(net(network), s, fd, EINPROGRESS);
    rd_free(s);
    return NULL;
}

/* Has the peer closed it?  It does so with who has not greeted in time, or makes way for others. */
static bool was_closed(int fd)
{
    char first;
    const ssize_t n = recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

static int opened(rd_bytestream *stream)
{
    tcp_stream *s = of(stream);
    struct pollfd there = {.fd = s->fd, .events = POLLOUT};
    socklen_t length = sizeof s->opened;
    if (s->opened != EINPROGRESS || poll(&there, 1, 0) != 1)
        return s->opened;
    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &s->opened, &length))
        s->opened = errno;
    else if (!s->opened && was_closed(s->fd))
        s->opened = ECONNRESET;
    return s->opened;
}

/* Memory first: who is not accepted waits with the system, and loses nothing. */
static rd_bytestream *accept_one(rd_network *network, rd_ip *from, int *error)
{
    struct sockaddr_storage name = {0};
    socklen_t length = sizeof name;
    tcp_stream *s = rd_alloc(sizeof *s);
    const int fd = s ? rd_fd(accept4(net(network)->listener, (struct sockaddr *)&name, &length,
                                     SOCK_NONBLOCK | SOCK_CLOEXEC))
                     : -1;
    *error = !s ? ENOMEM : fd >= 0 || errno == EAGAIN ? 0 : errno;
    if (fd < 0) {
        rd_free(s);
        return NULL;
    }
    rd_ip_of((const struct sockaddr *)&name, from, NULL);
    return add(net(network), s, fd, 0);
}

static bool listen_to(rd_network *network, bool on)
{
    const tcp_network *n = net(network);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)&n->listener};
    return epoll_ctl(n->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, n->listener, &event) == 0;
}

/* --- has its process died? --- */

static bool stays_open(int fd)
{
    enum { CONNECT_MS = 250, STAYS_MS = 200 };
    int error = 0;
    socklen_t length = sizeof error;
    struct pollfd there = {.fd = fd, .events = POLLOUT};
    if (poll(&there, 1, CONNECT_MS) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) ||
        error)
        return false;
    /* A listener that waits for the first bytes does not say that it is closed before they come */
    if (send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        return false;
    there = (struct pollfd){.fd = fd, .events = POLLIN | POLLRDHUP};
    return poll(&there, 1, STAYS_MS) == 0;
}

static bool answers(rd_network *network, const rd_ip *at, uint16_t port)
{
    (void)network;
    const int fd = call(at, port);
    const bool there = fd >= 0 && stays_open(fd);
    if (fd >= 0)
        close(fd);
    return there;
}

/* --- bytes --- */

static ssize_t read_some(rd_bytestream *stream, const struct iovec *parts, int count)
{
    return readv(of(stream)->fd, parts, count);
}

static ssize_t write_some(rd_bytestream *stream, const struct iovec *parts, int count)
{
    const struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = (size_t)count};
    return sendmsg(of(stream)->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool arrived(rd_bytestream *stream)
{
    int left = 0;
    return ioctl(of(stream)->fd, SIOCOUTQ, &left) || !left;
}

static bool silent(rd_bytestream *stream)
{
    enum { SILENT_MS = 15000 };
    struct tcp_info info;
    socklen_t length = sizeof info;
    return getsockopt(of(stream)->fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           info.tcpi_unacked && info.tcpi_retransmits && info.tcpi_last_ack_recv > SILENT_MS;
}

static void finish(rd_bytestream *stream)
{
    shutdown(of(stream)->fd, SHUT_WR);
}

static void close_stream(rd_bytestream *stream)
{
    tcp_stream *s = of(stream);
    if (s->watched) /* a forked process may have it open, too */
        epoll_ctl(s->network->epoll, EPOLL_CTL_DEL, s->fd, NULL);
    if (s->fd >= 0)
        close(s->fd);
    *s->at = s->next;
    if (s->next)
        s->next->at = s->at;
    rd_free(s);
}

/* --- waiting --- */

static bool watch(rd_bytestream *stream, bool reads, bool writes)
{
    tcp_stream *s = of(stream);
    struct epoll_event event = {.events = (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u),
                                .data.ptr = s};
    if (epoll_ctl(s->network->epoll, s->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, s->fd, &event))
        return false;
    return s->watched = true;
}

static int wait_for(rd_network *network, rd_stream_event events[], int most, uint64_t ns)
{
    enum { MOST = 32 };
    tcp_network *n = net(network);
    struct epoll_event found[MOST];
    const int count = rd_wait_events(n->epoll, found, most < MOST ? most : MOST, ns);
    int told = 0;
    for (int i = 0; i < count; i++) {
        const uint32_t what = found[i].events;
        uint64_t rings;
        if (found[i].data.ptr == &n->bell) {
            if (read(n->bell, &rings, sizeof rings) <= 0)
                rings = 0; /* somebody has heard it already */
        } else if (found[i].data.ptr == &n->listener) {
            events[told++] = (rd_stream_event){.owner = NULL};
        } else {
            events[told++] =
                (rd_stream_event){.owner = ((tcp_stream *)found[i].data.ptr)->base.owner,
                                  .reads = what & ~(uint32_t)EPOLLOUT,
                                  .writes = what & EPOLLOUT};
        }
    }
    return told;
}

static void wake(rd_network *network)
{
    const uint64_t one = 1;
    if (write(net(network)->bell, &one, sizeof one) < 0)
        return; /* full: it is ringing already */
}

static int descriptor(const rd_network *network)
{
    return net(network)->epoll;
}

/* --- the end --- */

static void drop(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The epoll goes first: what it watches is watched for the parent, too, and stays so. */
static void leave(rd_network *network)
{
    tcp_network *n = net(network);
    drop(&n->epoll);
    for (tcp_stream *s = n->streams; s; s = s->next)
        drop(&s->fd);
    drop(&n->listener);
    drop(&n->bell);
}

static void shut(rd_network *network)
{
    leave(network);
    rd_free(network);
}

static const rd_stream_kind sockets = {.name = "tcp",
                                       .now_ns = now_ns,
                                       .connect = connect_to,
                                       .opened = opened,
                                       .accept = accept_one,
                                       .listen = listen_to,
                                       .answers = answers,
                                       .read = read_some,
                                       .write = write_some,
                                       .arrived = arrived,
                                       .silent = silent,
                                       .finish = finish,
                                       .close = close_stream,
                                       .watch = watch,
                                       .wait = wait_for,
                                       .wake = wake,
                                       .descriptor = descriptor,
                                       .leave = leave,
                                       .shut = shut};

rd_network *rd_stream_tcp_open(int listener)
{
    tcp_network *n = rd_alloc(sizeof *n);
    if (!n) {
        close(listener);
        errno = ENOMEM;
        return NULL;
    }
    *n = (tcp_network){.base.kind = &sockets, .listener = listener};
    n->epoll = rd_fd(epoll_create1(EPOLL_CLOEXEC));
    n->bell = rd_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    struct epoll_event bell = {.events = EPOLLIN, .data.ptr = &n->bell};
    if (n->epoll >= 0 && n->bell >= 0 && epoll_ctl(n->epoll, EPOLL_CTL_ADD, n->bell, &bell) == 0 &&
        listen_to(&n->base, true))
        return &n->base;
    const int why = errno;
    shut(&n->base);
    errno = why;
    return NULL;
}

int rd_stream_tcp_socket(const rd_bytestream *stream)
{
    return of(stream)->fd;
}
