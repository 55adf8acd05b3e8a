/* socket.h: sockets with deadlines, and their addresses. */
#ifndef RD_SOCKET_H
#define RD_SOCKET_H

#include "base/error.h"
#include "transport/ip.h"

typedef struct {
    enum { RD_ADDRESS_FILE, RD_ADDRESS_TCP } kind;
    char path[108]; /* file: a unix socket's path; begins with '@': an abstract name */
    char host[256]; /* tcp: a name, or an address without brackets */
    uint16_t port;
} rd_address;

/* "file:PATH", "127.0.0.1:1234", "[::1]:1234", "node7:1234" */
ronda_status rd_address_read(const char *text, rd_address *out, rd_error *err);
bool rd_address_is_loopback(const rd_address *address); /* tcp: only this host can reach it */
/* As it is written */
void rd_address_text(const rd_address *address, char *text, size_t capacity);

int rd_socket_listen(const rd_address *address, rd_error *err); /* -1: err says why */
int rd_socket_connect(const rd_address *address);               /* -1: errno says why */
/* A TCP listener whose callers speak first: it accepts a connection when its first bytes have come, or a second
 * later, so that those who connect and say nothing take no slot of those who do. */
void rd_listen_for_bytes(int listener);
/* Non-blocking, close-on-exec; -1: errno says why */
int rd_socket_accept(int listener);

/* The user and process at the other end of a unix socket; false: not known. */
bool rd_socket_peer(int fd, uint32_t *user, int32_t *pid);

/* Until it can be read or written, as poll() calls that; false: the deadline, or it never will. */
bool rd_await_socket(int fd, short events, uint64_t until_ns);

#endif
