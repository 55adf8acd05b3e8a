/* doctor_kernel.c: what ronda asks of the system: each is tried, since containers refuse what kernels have. */
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/proof.h"
#include "doctor.h"

/* Each: 0, or an errno. */

static int close_made(int fd)
{
    const int error = fd < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return error;
}

static int try_pidfd(void)
{
    return close_made(rd_fd_process(getpid()));
}

static int try_membarrier(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) ? errno : 0;
}

static int try_epoll(void)
{
    const int epoll = rd_fd(epoll_create1(EPOLL_CLOEXEC));
    const struct timespec limit = {0};
    struct epoll_event event;
    if (epoll < 0)
        return errno;
    const int error = syscall(SYS_epoll_pwait2, epoll, &event, 1, &limit, NULL, 0) < 0 ? errno : 0;
    close(epoll);
    return error;
}

static int try_eventfd(void)
{
    return close_made(rd_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
}

static const struct {
    const char *name;
    int (*try)(void);
    doctor_level without;
    const char *costs, *advice;
} needs[] = {
    {"pidfd_open", try_pidfd, DOCTOR_NOTE,
     "ranks of one host look every 50 ms whether the others live",
     "use Linux 5.3 or newer, or a seccomp profile that allows pidfd_open; or leave it"},
    {"eventfd", try_eventfd, DOCTOR_PROBLEM,
     "ranks of one host cannot wake each other and will not start",
     "raise ulimit -n, or use a container whose seccomp profile allows eventfd2"},
    {"membarrier", try_membarrier, DOCTOR_NOTE, "every message takes a fence more",
     "use Linux 4.16 or newer, or a seccomp profile that allows membarrier; or leave it"},
    {"epoll_pwait2", try_epoll, DOCTOR_NOTE, "waits are rounded up to milliseconds",
     "use Linux 5.11 or newer, or a seccomp profile that allows epoll_pwait2; or leave it"},
};

void doctor_kernel(doctor_list *list)
{
    char good[160] = "";
    size_t at = 0;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const int error = needs[i].try();
        if (!error) {
            at += (size_t)snprintf(good + at, sizeof good - at, "%s%s", at ? ", " : "",
                                   needs[i].name);
            continue;
        }
        doctor_say(list, needs[i].without, "kernel", "%s does not work here (%s): %s",
                   needs[i].name, strerror(error), needs[i].costs);
        doctor_advise(list, "%s", needs[i].advice);
    }
    if (at)
        doctor_say(list, DOCTOR_OK, "kernel", "the kernel has what ranks need: %s", good);
    if (rd_mac_possible()) {
        doctor_say(list, DOCTOR_OK, "libcrypto", "libcrypto is there: keys can be proved");
        return;
    }
    doctor_say(
        list, DOCTOR_PROBLEM, "libcrypto",
        "there is no libcrypto: ranks that meet over sockets cannot prove their key or their user, and "
        "ranks that share memory are known by their user alone");
    doctor_advise(list,
                  "install OpenSSL's library (on Debian: apt install libssl3) or put it where the "
                  "loader finds it (LD_LIBRARY_PATH)");
}
