/* tell.c: datagrams to the launcher; see tell.h. */
#include "base/tell.h"

#include "base/fd.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    struct sockaddr_un to;
    socklen_t length; /* of the address; 0: there is no launcher */
    uint32_t rank, size;
} launcher;

static void prepare(void)
{
    const char *name = getenv(RD_TELL), *rank = getenv("RONDA_RANK"), *size = getenv("RONDA_SIZE");
    const size_t length = name ? strlen(name) : 0;
    if (!length || length >= sizeof launcher.to.sun_path || !rank || !size)
        return;
    launcher.to.sun_family = AF_UNIX;
    memcpy(launcher.to.sun_path + 1, name, length);
    launcher.rank = (uint32_t)strtoul(rank, NULL, 10);
    launcher.size = (uint32_t)strtoul(size, NULL, 10);
    launcher.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

void rd_tell_prepare(void)
{
    pthread_once(&once, prepare);
}

void rd_tell(uint32_t rank, uint32_t size, uint32_t failed)
{
    const rd_told told = {RD_TOLD_MAGIC, rank, failed};
    rd_tell_prepare();
    if (!launcher.length || rank != launcher.rank || size != launcher.size ||
        (failed >= size && failed < RD_TOLD_UNCLOSED))
        return;
    const int fd = rd_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return;
    /* The socket's queue is short (net.unix.max_dgram_qlen), and all ranks may send at once: wait up to 50 ms for
     * room, but not at the start. */
    const struct timeval patience = {.tv_usec = 50000};
    const int flags = MSG_NOSIGNAL | (failed == RD_TOLD_NOBODY ? MSG_DONTWAIT : 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    sendto(fd, &told, sizeof told, flags, (struct sockaddr *)&launcher.to, launcher.length);
    close(fd);
}
