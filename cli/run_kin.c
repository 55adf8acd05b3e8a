/* run_kin.c: the children of this process, started or adopted, as /proc knows them.
 *
 * A process that called itself a subreaper (prctl) becomes the parent of whatever its descendants
 * orphan.  So it need only look at its own children: killing one brings up those below it.  A child
 * that was not reaped keeps its number, so nobody else can be hit. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "run.h"

static const uint64_t LIMIT_NS =
    10000000000; /* for who cannot be killed: another user's, or stuck */

/* "123 (any ) name) S 1 ...": the second number is the parent; 0: gone meanwhile. */
static pid_t parent_of(const char *name)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", name);
    const int fd = rd_fd(open(path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return 0;
    const ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    const char *after = strrchr(text, ')');
    int parent = 0;
    return after && sscanf(after, ") %*c %d", &parent) == 1 ? parent : 0;
}

void run_kin_each(void (*visit)(pid_t child, void *context), void *context)
{
    const pid_t self = getpid();
    DIR *all = fdopendir(rd_fd(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    if (!all)
        return;
    for (const struct dirent *entry; (entry = readdir(all));)
        if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == self)
            visit((pid_t)strtol(entry->d_name, NULL, 10), context);
    closedir(all);
}

static void kill_one(pid_t child, void *context)
{
    (void)context;
    kill(child, SIGKILL);
}

void run_kin_wait(uint64_t limit_ns)
{
    const uint64_t start_ns = rd_now_ns();
    for (;;) {
        pid_t reaped;
        while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if ((reaped < 0 && errno == ECHILD) || rd_now_ns() - start_ns > limit_ns)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

bool run_kin_kill(void)
{
    const uint64_t start_ns = rd_now_ns();
    for (;;) {
        run_kin_each(kill_one, NULL);
        pid_t reaped;
        while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (reaped < 0 && errno == ECHILD)
            return true;
        if (rd_now_ns() - start_ns > LIMIT_NS)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}
