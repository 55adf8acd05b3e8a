/* run_tell.c: the socket at which ranks tell whose failure they saw (base/tell.h).
 *
 * Every process of the host can send to it; datagrams of other users are ignored. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/tell.h"
#include "run.h"

int run_tell_open(char name[RUN_TELL_NAME])
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint64_t random[2];
    const int yes = 1;
    *name = 0;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    const int fd = rd_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    snprintf(name, RUN_TELL_NAME, "ronda-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    memcpy(at.sun_path + 1, name, strlen(name));
    const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0 &&
        bind(fd, (struct sockaddr *)&at, length) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    *name = 0;
    return -1;
}

static const struct ucred *sender_of(struct msghdr *m)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(m);
    const bool credentials = c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS;
    return credentials ? (const struct ucred *)(const void *)CMSG_DATA(c) : NULL;
}

bool run_tell_read(int fd, run_told *out)
{
    rd_told told;
    union {
        char room[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr aligned;
    } control;
    struct iovec bytes = {.iov_base = &told, .iov_len = sizeof told};
    struct msghdr m = {.msg_iov = &bytes,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof control.room};
    const ssize_t n = fd < 0 ? -1 : rd_fd_receive(fd, &m, MSG_TRUNC);
    if (n < 0)
        return false;
    const struct ucred *sender = sender_of(&m);
    *out = (run_told){0};
    if (n != (ssize_t)sizeof told || told.magic != RD_TOLD_MAGIC || !sender ||
        sender->uid != geteuid())
        return true;
    *out = (run_told){.sound = true, .pid = sender->pid, .rank = told.rank, .failed = told.failed};
    return true;
}
