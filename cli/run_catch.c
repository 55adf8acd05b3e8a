/* run_catch.c: a signal for whoever listens for it.
 *
 * SIGUSR1 and SIGUSR2 end a process that does not catch them, and most do not: a shell around a rank, a rank that
 * has not joined its world yet, a program that is no rank at all.  So they go only to those who would survive,
 * as /proc knows: who catches the signal, or reads it from a signalfd, as a launcher does.  (To have it blocked
 * is not enough: shells block all signals for a moment whenever they start something.)
 *
 *     keeper
 *       |- sh               does not catch it: passed over
 *       |    `- timeout     nor does this, which has left the rank's process group
 *       |         `- rank   catches it: told
 *       `- ronda run        reads it: told, and those below it are for it to tell
 *            `- ...
 *
 * All below the keeper belong to its ranks: it adopts what they orphan. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "run.h"

typedef enum { DIES, CATCHES, READS } response;

typedef struct {
    pid_t pid, parent;
    uint64_t start; /* in clock ticks since the machine started */
    bool below;     /* the keeper, and no launcher between */
    response does;  /* of those below */
} process;

typedef struct {
    process *at;
    size_t count, capacity;
} processes;

static bool read_text(const char *name, const char *file, char *text, size_t capacity)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/%.30s", name, file);
    const int fd = rd_fd(open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t length = fd < 0 ? 0 : read(fd, text, capacity - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    return length > 0;
}

static DIR *open_folder(const char *path)
{
    const int fd = rd_fd(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder && fd >= 0)
        close(fd);
    return folder;
}

/* "123 (any ) name) S 1 ...": the parent is the 4th, the time of the start the 22nd. */
static bool read_process(const char *name, process *out)
{
    char text[1024];
    unsigned long long start;
    int parent;
    if (!read_text(name, "stat", text, sizeof text))
        return false;
    const char *after = strrchr(text, ')');
    if (!after || sscanf(after,
                         ") %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                         "%*d %*d %llu",
                         &parent, &start) != 2)
        return false;
    *out = (process){.pid = (pid_t)strtol(name, NULL, 10), .parent = parent, .start = start};
    return true;
}

static bool add(processes *all, const process *p)
{
    if (all->count == all->capacity) {
        const size_t capacity = 2 * all->capacity + 256;
        process *at = rd_realloc(all->at, capacity * sizeof *at);
        if (!at)
            return false;
        all->at = at;
        all->capacity = capacity;
    }
    all->at[all->count++] = *p;
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const pid_t one = ((const process *)a)->pid, other = ((const process *)b)->pid;
    return (one > other) - (one < other);
}

static void list_all(processes *all)
{
    process p;
    DIR *folder = open_folder("/proc");
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (isdigit((unsigned char)entry->d_name[0]) && read_process(entry->d_name, &p) &&
            !add(all, &p))
            break;
    if (folder)
        closedir(folder);
    if (all->count)
        qsort(all->at, all->count, sizeof *all->at, by_pid);
}

static bool has_signal(const char *text, const char *field, int number)
{
    const char *line = strstr(text, field);
    return line && strtoull(line + strlen(field), NULL, 16) >> (number - 1) & 1;
}

static bool has_signalfd(const char *name, int number)
{
    char path[64], file[32], text[1024];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.20s/fdinfo", name);
    DIR *folder = open_folder(path);
    for (const struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        snprintf(file, sizeof file, "fdinfo/%.20s", entry->d_name);
        found = isdigit((unsigned char)entry->d_name[0]) &&
                read_text(name, file, text, sizeof text) && has_signal(text, "\nsigmask:", number);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* bash with a trap on EXIT catches every signal that would end it, only to end by it all the same.  (So does Go
 * catch them all, SIGURG among them, but does not end.) */
static bool ends_by_what_it_catches(const char *text)
{
    static const int ends[] = {SIGTRAP, SIGALRM, SIGXCPU, SIGVTALRM};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!has_signal(text, "\nSigCgt:", ends[i]))
            return false;
    return !has_signal(text, "\nSigCgt:", SIGURG);
}

static response response_of(pid_t pid, int number)
{
    char name[24], text[4096];
    snprintf(name, sizeof name, "%d", (int)pid);
    if (!read_text(name, "status", text, sizeof text))
        return DIES;
    if (has_signal(text, "\nSigCgt:", number))
        return ends_by_what_it_catches(text) ? DIES : CATCHES;
    return has_signal(text, "\nSigBlk:", number) && has_signalfd(name, number) ? READS : DIES;
}

static const process *find(const processes *all, pid_t pid)
{
    const process key = {.pid = pid};
    return all->count ? bsearch(&key, all->at, all->count, sizeof key, by_pid) : NULL;
}

/* Children are found when their parent has been; a parent may be listed behind its child. */
static void look_below(processes *all, pid_t keeper, int number)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < all->count; i++) {
            process *p = &all->at[i];
            const process *parent = p->below ? NULL : find(all, p->parent);
            if (p->below ||
                (p->parent != keeper && !(parent && parent->below && parent->does != READS)))
                continue;
            p->below = more = true;
            p->does = response_of(p->pid, number);
        }
    }
}

/* A process that has just been forked has what its parent catches until it executes its program, and then it
 * would die: it has a fifth of a second for that. */
static bool is_settled(const processes *all, const process *p)
{
    struct timespec now;
    const process *parent = find(all, p->parent);
    const uint64_t second = (uint64_t)sysconf(_SC_CLK_TCK);
    if (!parent || !parent->below || parent->does == DIES)
        return true;
    if (clock_gettime(CLOCK_BOOTTIME, &now))
        return false;
    const uint64_t ticks =
        (uint64_t)now.tv_sec * second + (uint64_t)now.tv_nsec * second / 1000000000;
    return ticks >= p->start + second / 5;
}

bool run_catch_only(int signal)
{
    return signal == SIGUSR1 || signal == SIGUSR2;
}

void run_catch_tell(int signal)
{
    processes all = {0};
    list_all(&all);
    look_below(&all, getpid(), signal);
    for (size_t i = 0; i < all.count; i++)
        if (all.at[i].below && all.at[i].does != DIES && is_settled(&all, &all.at[i]))
            kill(all.at[i].pid, signal);
    rd_free(all.at);
}
