/* ip.h: addresses of the network: as the system wants them, and as people read them. */
#ifndef RD_IP_H
#define RD_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "transport/place.h"

enum { RD_IP_TEXT = 64 };

bool rd_ip_of(const struct sockaddr *from, rd_ip *out, uint16_t *port); /* port: or NULL */
socklen_t rd_ip_sockaddr(const rd_ip *ip, uint16_t port, struct sockaddr_storage *out);
void rd_ip_text(const rd_ip *ip, char text[RD_IP_TEXT]); /* "10.0.0.1", "fe80::1%2" */
bool rd_ip_read(const char *text, rd_ip *out);           /* the same backwards */
/* "10.0.0.1:80", "[::1]:80"; a host may be a name */
void rd_ip_with_port(const char *host, uint16_t port, char *text, size_t capacity);
bool rd_ip_is_loopback(const rd_ip *ip);
bool rd_ip_is_link_local(const rd_ip *ip);
bool rd_ip_equal(const rd_ip *a, const rd_ip *b); /* apart from the scope */
/* Does this errno say that the system or this process has no room for a socket? */
bool rd_socket_scarce(int error);

#endif
