#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIRST_OF_OURS = STDERR_FILENO + 1 };

int rd_fd(int fd)
{
    if (fd < 0 || fd >= FIRST_OF_OURS)
        return fd;
    const int moved = rd_fd_again(fd), error = errno;
    close(fd);
    errno = error;
    return moved;
}

int rd_fd_again(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_OF_OURS);
}

/* Both or none. */
static int both(int ends[2])
{
    for (int i = 0; i < 2; i++)
        ends[i] = rd_fd(ends[i]);
    if (ends[0] >= 0 && ends[1] >= 0)
        return 0;
    const int error = errno;
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    errno = error;
    return -1;
}

int rd_fd_pipe(int ends[2], int flags)
{
    return pipe2(ends, flags | O_CLOEXEC) ? -1 : both(ends);
}

int rd_fd_pair(int ends[2], int type)
{
    return socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) ? -1 : both(ends);
}

ssize_t rd_fd_receive(int fd, struct msghdr *m, int flags)
{
    const ssize_t n = recvmsg(fd, m, flags | MSG_CMSG_CLOEXEC);
    for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int passed;
            memcpy(&passed, CMSG_DATA(c) + at, sizeof passed);
            passed = rd_fd(passed);
            memcpy(CMSG_DATA(c) + at, &passed, sizeof passed);
        }
    }
    return n;
}

bool rd_file_fits(uint64_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        bytes <= limit.rlim_cur)
        return true;
    errno = EFBIG;
    return false;
}

int rd_fd_process(pid_t pid)
{
    return rd_fd((int)syscall(SYS_pidfd_open, pid, 0));
}

bool rd_file_text(const char *path, char *text, size_t capacity)
{
    const int fd = rd_fd(open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t n = fd < 0 ? -1 : read(fd, text, capacity - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}
