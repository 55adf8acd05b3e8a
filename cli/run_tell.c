/* run_tell.c: hears from ranks whose failure they saw. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/tell.h"
#include "run.h"

int run_tell_open(char name[RUN_TELL_NAME])
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint64_t random[2];
    *name = 0;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(name, RUN_TELL_NAME, "ronda-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    memcpy(at.sun_path + 1, name, strlen(name));
    const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, length) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    *name = 0;
    return -1;
}

bool run_tell_hear(int fd, uint32_t *rank, uint32_t *failed)
{
    rd_told told;
    while (fd >= 0) {
        const ssize_t n = recv(fd, &told, sizeof told, MSG_TRUNC);
        if (n < 0)
            return false;
        if (n != (ssize_t)sizeof told || told.magic != RD_TOLD_MAGIC)
            continue; /* nobody's of ours */
        *rank = told.rank;
        *failed = told.failed;
        return true;
    }
    return false;
}
