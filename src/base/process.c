#include "base/process.h"

#include "base/fd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool rd_process_unwatched(int error)
{
    return error == ENOSYS || error == EPERM;
}

/* "123 (any ) name) S 1 ...": the 3rd is the state, the 20th the number of threads, the 22nd the time of the
 * start.  false: not to be had. */
static bool look(int32_t pid, char *state, long *threads, uint64_t *start)
{
    char path[40], text[1024];
    unsigned long long ticks;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const char *after = rd_file_text(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    if (!after || sscanf(after,
                         ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                         "%ld %*d %llu",
                         state, threads, &ticks) != 3)
        return false;
    *start = ticks;
    return true;
}

uint64_t rd_process_start(int32_t pid)
{
    char state;
    long threads;
    uint64_t start;
    return look(pid, &state, &threads, &start) ? start : 0;
}

/* A first thread that has ended is a zombie as long as others of its process work. */
bool rd_process_gone(int32_t pid, uint64_t start)
{
    char state;
    long threads;
    uint64_t now;
    if (kill(pid, 0) && errno == ESRCH)
        return true;
    if (!look(pid, &state, &threads, &now))
        return false;
    return (threads <= 1 && (state == 'Z' || state == 'X')) || (start && now != start);
}
