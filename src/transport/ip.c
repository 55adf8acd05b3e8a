#include "transport/ip.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rd_ip_of(const struct sockaddr *from, rd_ip *out, uint16_t *port)
{
    if (from->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, from, sizeof in);
        *out = (rd_ip){.family = 4};
        memcpy(out->bytes, &in.sin_addr, 4);
        if (port)
            *port = ntohs(in.sin_port);
        return true;
    }
    if (from->sa_family != AF_INET6)
        return false;
    struct sockaddr_in6 in6;
    memcpy(&in6, from, sizeof in6);
    *out = (rd_ip){.family = 6};
    memcpy(out->bytes, &in6.sin6_addr, 16);
    if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) { /* one who came in by a socket of both kinds */
        *out = (rd_ip){.family = 4};
        memcpy(out->bytes, in6.sin6_addr.s6_addr + 12, 4);
    } else if (rd_ip_is_link_local(out)) {
        out->scope = in6.sin6_scope_id;
    }
    if (port)
        *port = ntohs(in6.sin6_port);
    return true;
}

socklen_t rd_ip_sockaddr(const rd_ip *ip, uint16_t port, struct sockaddr_storage *out)
{
    *out = (struct sockaddr_storage){0};
    if (ip->family == 4) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&in.sin_addr, ip->bytes, 4);
        memcpy(out, &in, sizeof in);
        return sizeof in;
    }
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = ip->scope};
    memcpy(&in6.sin6_addr, ip->bytes, 16);
    memcpy(out, &in6, sizeof in6);
    return sizeof in6;
}

void rd_ip_text(const rd_ip *ip, char text[RD_IP_TEXT])
{
    text[0] = 0;
    inet_ntop(ip->family == 4 ? AF_INET : AF_INET6, ip->bytes, text, RD_IP_TEXT);
    const size_t length = strlen(text);
    if (ip->scope)
        snprintf(text + length, RD_IP_TEXT - length, "%%%u", ip->scope);
}

bool rd_ip_read(const char *text, rd_ip *out)
{
    char plain[RD_IP_TEXT];
    char *end = "";
    rd_ip made = {.family = strchr(text, ':') ? 6 : 4};
    const char *percent = strchr(text, '%');
    const size_t length = percent ? (size_t)(percent - text) : strlen(text);
    if (length >= sizeof plain)
        return false;
    memcpy(plain, text, length);
    plain[length] = 0;
    if (percent && !isdigit((unsigned char)percent[1]))
        return false;
    const unsigned long scope = percent ? strtoul(percent + 1, &end, 10) : 0;
    made.scope = (uint32_t)scope;
    if (*end || scope > UINT32_MAX || (made.family == 4 && percent) ||
        inet_pton(made.family == 4 ? AF_INET : AF_INET6, plain, made.bytes) != 1)
        return false;
    *out = made;
    return true;
}

void rd_ip_with_port(const char *host, uint16_t port, char *text, size_t capacity)
{
    const bool six = strchr(host, ':') != NULL;
    snprintf(text, capacity, "%s%s%s:%u", six ? "[" : "", host, six ? "]" : "", port);
}

bool rd_ip_is_loopback(const rd_ip *ip)
{
    static const uint8_t one[16] = {[15] = 1};
    return ip->family == 4 ? ip->bytes[0] == 127 : memcmp(ip->bytes, one, 16) == 0;
}

bool rd_ip_is_link_local(const rd_ip *ip)
{
    return ip->family == 4 ? ip->bytes[0] == 169 && ip->bytes[1] == 254
                           : ip->bytes[0] == 0xfe && (ip->bytes[1] & 0xc0) == 0x80;
}

bool rd_ip_equal(const rd_ip *a, const rd_ip *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, a->family == 4 ? 4 : 16) == 0;
}

bool rd_socket_scarce(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}
