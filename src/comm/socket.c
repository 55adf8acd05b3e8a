/* socket.c: all sockets are non-blocking and close-on-exec; whoever waits polls with a deadline. */
#include "comm/socket.h"

#include "base/clock.h"
#include "base/fd.h"
#include "transport/ip.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Numbers and points alone are an address, which must be a whole one; else letters, digits, - . and _. */
static bool is_host(const char *host)
{
    rd_ip ip;
    if (strspn(host, "0123456789.") == strlen(host))
        return rd_ip_read(host, &ip);
    for (const char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-._", *c))
            return false;
    return true;
}

ronda_status rd_address_read(const char *text, rd_address *out, rd_error *err)
{
    *out = (rd_address){0};
    if (strncmp(text, "file:", 5) == 0) {
        const size_t length = strlen(text + 5);
        if (length == 0 || length >= sizeof((struct sockaddr_un){0}).sun_path)
            return rd_fail(err, RONDA_EINVAL, RONDA_ANY,
                           "RONDA_ADDR=%s: the path must have 1 to %zu characters", text,
                           sizeof((struct sockaddr_un){0}).sun_path - 1);
        memcpy(out->path, text + 5, length + 1);
        return RONDA_OK;
    }
    const char *colon = strrchr(text, ':');
    char *end = "?"; /* strtoul() takes blanks and signs; a port has none */
    const bool digits = colon && isdigit((unsigned char)colon[1]);
    const unsigned long port = digits ? strtoul(colon + 1, &end, 10) : 0;
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (*end || port == 0 || port > 65535 || length == 0 || length >= sizeof out->host)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY,
                       "RONDA_ADDR=%s: write HOST:PORT, [IPV6]:PORT or file:PATH", text);
    const bool brackets = *text == '[' && colon[-1] == ']';
    text += brackets;
    length -= 2 * (size_t)brackets;
    out->kind = RD_ADDRESS_TCP;
    memcpy(out->host, text, length);
    out->port = (uint16_t)port;
    rd_ip ip;
    if (brackets ? !rd_ip_read(out->host, &ip) || ip.family != 6 : !is_host(out->host))
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY,
                       "RONDA_ADDR=%s: '%s' is no name and no address of a host%s", text - brackets,
                       out->host, strchr(out->host, ':') ? " (write IPv6 like [::1]:PORT)" : "");
    if (strcmp(out->host, "localhost") == 0)
        memcpy(out->host, "127.0.0.1", 10);
    return RONDA_OK;
}

bool rd_address_is_loopback(const rd_address *a)
{
    rd_ip ip;
    return a->kind == RD_ADDRESS_TCP && rd_ip_read(a->host, &ip) && rd_ip_is_loopback(&ip);
}

void rd_address_text(const rd_address *a, char *text, size_t capacity)
{
    if (a->kind == RD_ADDRESS_TCP)
        rd_ip_with_port(a->host, a->port, text, capacity);
    else
        snprintf(text, capacity, "file:%s", a->path);
}

static socklen_t unix_name(const rd_address *a, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    const size_t length = strlen(a->path);
    memcpy(out->sun_path, a->path, length);
    if (a->path[0] == '@')
        out->sun_path[0] = 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (a->path[0] != '@'));
}

/* How the system wants the address: a unix socket's, or that of a host's own loopback. */
static socklen_t name_of(const rd_address *a, struct sockaddr_storage *out)
{
    rd_ip ip = {.family = 4};
    struct sockaddr_un path;
    if (a->kind == RD_ADDRESS_TCP) {
        rd_ip_read(a->host, &ip);
        return rd_ip_sockaddr(&ip, a->port, out);
    }
    const socklen_t length = unix_name(a, &path);
    memcpy(out, &path, sizeof path);
    return length;
}

static int new_socket(const struct sockaddr_storage *name)
{
    return rd_fd(socket(name->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int rd_socket_connect(const rd_address *a)
{
    struct sockaddr_storage name;
    const socklen_t length = name_of(a, &name);
    const int fd = new_socket(&name);
    if (fd < 0)
        return -1;
    const int failed = connect(fd, (const struct sockaddr *)&name, length);
    if (!failed || errno == EINPROGRESS)
        return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* A socket's file that nobody listens at any more is in the way of the next job. */
static void remove_stale(const rd_address *a)
{
    struct stat s;
    if (a->path[0] == '@' || stat(a->path, &s) || !S_ISSOCK(s.st_mode))
        return;
    const int fd = rd_socket_connect(a);
    if (fd >= 0)
        close(fd);
    else if (errno == ECONNREFUSED)
        unlink(a->path);
}

int rd_socket_listen(const rd_address *a, rd_error *err)
{
    struct sockaddr_storage name;
    const socklen_t length = name_of(a, &name);
    const int one = 1;
    if (a->kind == RD_ADDRESS_FILE)
        remove_stale(a);
    const int fd = new_socket(&name);
    if (fd >= 0 && a->kind == RD_ADDRESS_TCP)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const int failed = fd < 0 ? -1 : bind(fd, (const struct sockaddr *)&name, length);
    if (!failed && listen(fd, SOMAXCONN) == 0)
        return fd;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    if (!failed && a->kind == RD_ADDRESS_FILE && a->path[0] != '@')
        unlink(a->path);
    if (a->kind == RD_ADDRESS_TCP)
        rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank 0 cannot listen at %s:%u: %s", a->host,
                a->port, strerror(why));
    else
        rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank 0 cannot listen at file:%s: %s", a->path,
                why == EADDRINUSE ? "it is in use, or something else than a socket"
                                  : strerror(why));
    return -1;
}

void rd_listen_for_bytes(int listener)
{
    const int seconds = 1;
    setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
}

int rd_socket_accept(int listener)
{
    return rd_fd(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

bool rd_socket_peer(int fd, uint32_t *user, int32_t *pid)
{
    struct ucred who;
    socklen_t length = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length))
        return false;
    *user = who.uid;
    *pid = who.pid;
    return true;
}

bool rd_await_socket(int fd, short events, uint64_t until_ns)
{
    for (;;) {
        const uint64_t now = rd_now_ns();
        if (now >= until_ns)
            return false;
        const uint64_t ms = (until_ns - now) / 1000000 + 1;
        struct pollfd p = {.fd = fd, .events = events};
        const int n = poll(&p, 1, ms > INT_MAX ? INT_MAX : (int)ms);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
    }
}
