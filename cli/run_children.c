/* run_children.c: the processes below this one, as /proc knows them.
 *
 * A process that called itself a subreaper (prctl) becomes the parent of whatever its descendants orphan.  So to end
 * them all it need only look at its own children: killing one brings up those below it.  A child that was not
 * reaped keeps its number, so nobody else can be hit.
 *
 * SIGUSR1 and SIGUSR2 end a process that does not catch them, and most do not: a shell around a rank, a rank that
 * has not joined its world yet, a program that is no rank at all.  So they go only to those who would survive: who
 * catches the signal, or reads it from a signalfd, as a launcher does.  (To have it blocked is not enough: shells
 * block all signals for a moment whenever they start something.)
 *
 *     ronda run
 *       |- sh               does not catch it: passed over
 *       |    `- timeout     nor does this, which has left the rank's process group
 *       |         `- rank   catches it: gets it
 *       `- ronda run        reads it: gets it, and passes it on to those below itself
 *            `- ... */
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
#include "base/mem.h"
#include "run.h"

static const uint64_t KILL_NS =
    10000000000; /* for who cannot be killed: another user's, or stuck */

typedef enum { DIES, CATCHES, READS } response;

typedef struct {
    pid_t pid, parent;
    uint64_t start; /* in clock ticks since the machine started */
    bool below;     /* us, and no other launcher between */
    response does;  /* of those below */
} process;

typedef struct {
    process *at;
    size_t count, capacity;
} processes;

/* --- /proc --- */

static bool read_text(pid_t pid, const char *file, char *text, size_t capacity)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%.30s", (int)pid, file);
    return rd_file_text(path, text, capacity);
}

static DIR *open_folder(const char *path)
{
    const int fd = rd_fd(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder && fd >= 0)
        close(fd);
    return folder;
}

/* The next number that a folder has for a name; -1: there is none. */
static int next_number(DIR *folder)
{
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (isdigit((unsigned char)entry->d_name[0]))
            return (int)strtol(entry->d_name, NULL, 10);
    return -1;
}

/* "123 (any ) name) S 1 ...": the parent is the 4th, the time of the start the 22nd. */
static bool read_process(pid_t pid, process *out)
{
    char text[1024];
    unsigned long long start;
    int parent;
    const char *after = read_text(pid, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    if (!after || sscanf(after,
                         ") %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                         "%*d %*d %llu",
                         &parent, &start) != 2)
        return false;
    *out = (process){.pid = pid, .parent = parent, .start = start};
    return true;
}

void run_children_each(void (*visit)(pid_t child, void *context), void *context)
{
    const pid_t self = getpid();
    process p;
    DIR *folder = open_folder("/proc");
    for (int pid; (pid = next_number(folder)) >= 0;)
        if (read_process(pid, &p) && p.parent == self)
            visit(pid, context);
    if (folder)
        closedir(folder);
}

static void kill_one(pid_t child, void *context)
{
    (void)context;
    kill(child, SIGKILL);
}

/* false: some are left after so long. */
static bool reap_all(uint64_t limit_ns, bool killing)
{
    const uint64_t start_ns = rd_now_ns();
    for (;;) {
        pid_t reaped;
        if (killing)
            run_children_each(kill_one, NULL);
        while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (reaped < 0 && errno == ECHILD)
            return true;
        if (rd_now_ns() - start_ns > limit_ns)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

void run_children_wait(uint64_t limit_ns)
{
    reap_all(limit_ns, false);
}

bool run_children_kill(void)
{
    return reap_all(KILL_NS, true);
}

/* --- signals for those who catch them --- */

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
    for (int pid; (pid = next_number(folder)) >= 0;)
        if (read_process(pid, &p) && !add(all, &p))
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

static bool has_signalfd(pid_t pid, int number)
{
    char path[64], file[32], text[1024];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/fdinfo", (int)pid);
    DIR *folder = open_folder(path);
    for (int fd; !found && (fd = next_number(folder)) >= 0;) {
        snprintf(file, sizeof file, "fdinfo/%d", fd);
        found = read_text(pid, file, text, sizeof text) && has_signal(text, "\nsigmask:", number);
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
    char text[4096];
    if (!read_text(pid, "status", text, sizeof text))
        return DIES;
    if (has_signal(text, "\nSigCgt:", number))
        return ends_by_what_it_catches(text) ? DIES : CATCHES;
    return has_signal(text, "\nSigBlk:", number) && has_signalfd(pid, number) ? READS : DIES;
}

static const process *find(const processes *all, pid_t pid)
{
    const process key = {.pid = pid};
    return all->count ? bsearch(&key, all->at, all->count, sizeof key, by_pid) : NULL;
}

/* Children are found when their parent has been; a parent may be listed behind its child. */
static void look_below(processes *all, pid_t top, int number)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < all->count; i++) {
            process *p = &all->at[i];
            const process *parent = p->below ? NULL : find(all, p->parent);
            if (p->below ||
                (p->parent != top && !(parent && parent->below && parent->does != READS)))
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

void run_children_signal(int signal)
{
    processes all = {0};
    list_all(&all);
    look_below(&all, getpid(), signal);
    for (size_t i = 0; i < all.count; i++)
        if (all.at[i].below && all.at[i].does != DIES && is_settled(&all, &all.at[i]))
            kill(all.at[i].pid, signal);
    rd_free(all.at);
}
