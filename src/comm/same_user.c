#include "comm/same_user.h"

#include "base/proof.h"
#include "comm/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_AT_ONCE = 32 }; /* connections that are answered before others are heard again */

static rd_address name_of(const rd_ip *ip, uint16_t port)
{
    char text[RD_IP_TEXT];
    rd_address name = {.kind = RD_ADDRESS_FILE};
    rd_ip_text(ip, text);
    snprintf(name.path, sizeof name.path, "@ronda-user-%s-%u", text, port);
    return name;
}

bool rd_secret_make(char secret[RD_SECRET + 1])
{
    uint8_t bytes[RD_SECRET / 2];
    if (!rd_random(bytes, sizeof bytes))
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

int rd_secret_listen(const rd_ip *ip, uint16_t port)
{
    const rd_address name = name_of(ip, port);
    rd_error ignored = {0};
    return rd_socket_listen(&name, &ignored);
}

void rd_secret_give(int listener, const char secret[RD_SECRET + 1])
{
    for (int i = 0; i < MOST_AT_ONCE; i++) {
        uint32_t user;
        int32_t pid;
        const int fd = rd_socket_accept(listener);
        if (fd < 0)
            return;
        if (rd_socket_peer(fd, &user, &pid) && user == geteuid())
            send(fd, secret, RD_SECRET, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(fd);
    }
}

static bool is_secret(const char text[RD_SECRET + 1])
{
    return strspn(text, "0123456789abcdef") == RD_SECRET;
}

rd_secret_result rd_secret_fetch(const rd_ip *ip, uint16_t port, uint64_t until_ns,
                                 char secret[RD_SECRET + 1])
{
    const rd_address name = name_of(ip, port);
    rd_secret_result result = RD_SECRET_OTHER;
    uint32_t user;
    int32_t pid;
    const int fd = rd_socket_connect(&name);
    if (fd < 0) /* full: many fetch it just now */
        return errno == EAGAIN ? RD_SECRET_SILENCE : RD_SECRET_NOBODY;
    if (rd_socket_peer(fd, &user, &pid) && user == geteuid()) {
        char text[RD_SECRET + 1] = "";
        const bool whole = rd_await_socket(fd, POLLIN, until_ns) &&
                           recv(fd, text, RD_SECRET, MSG_DONTWAIT) == RD_SECRET && is_secret(text);
        result = whole ? RD_SECRET_FETCHED : RD_SECRET_SILENCE;
        if (whole)
            memcpy(secret, text, sizeof text);
    }
    close(fd);
    return result;
}
