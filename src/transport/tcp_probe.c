/* tcp_probe.c: a connection has ended: has its peer died, or only the connection?
 *
 * A process that has died listens no more.  So whoever lost a connection tries to open another one to the same
 * listener: if that is refused, or reset because the listener is just being closed, the peer is dead; if it is
 * taken and stays, the peer lives.  (The system closes what a dead process had open one by one, listeners perhaps
 * last: on a busy machine that takes a while.)  All ranks then say the same, whichever end of the connection they
 * were. */
#include "transport/tcp_inside.h"

#include "base/clock.h"
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECT_MS = 250, STAYS_MS = 200 };
static const uint64_t MOST_NS = 600000000; /* for all probes of a world: many may end at once */

static bool stays_open(int fd)
{
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

bool rd_tcp_answers(tcp_world *w, uint32_t rank, const rd_ip *at)
{
    struct sockaddr_storage name;
    const uint64_t start = rd_now_ns();
    assert(rank < w->its.size && rank != w->its.rank);
    if (w->probed_ns > MOST_NS)
        return false;
    const socklen_t length = rd_ip_sockaddr(at, w->its.places[rank].port, &name);
    const int fd = rd_fd(socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return false;
    const int failed = connect(fd, (const struct sockaddr *)&name, length);
    const bool answers = (!failed || errno == EINPROGRESS) && stays_open(fd);
    close(fd);
    w->probed_ns += rd_now_ns() - start;
    return answers;
}
