#include "transport/events.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int rd_wait_events(int epoll, struct epoll_event *events, int most, uint64_t ns)
{
    if (!ns)
        return epoll_wait(epoll, events, most, 0);
    const struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000u),
                                   .tv_nsec = (long)(ns % 1000000000u)};
    const int n = (int)syscall(SYS_epoll_pwait2, epoll, events, most, &limit, NULL, 0);
    if (n >= 0 || (errno != ENOSYS && errno != EPERM)) /* EPERM: of a seccomp profile */
        return n;
    const uint64_t ms = ns / 1000000 + 1; /* an old kernel */
    return epoll_wait(epoll, events, most, ms > 1000000 ? 1000000 : (int)ms);
}
