/* run_cores.c: which cores each rank of this host may use.
 *
 *     allowed, by the affinity mask      0 1 2 3 4 5 6 7
 *     held by ranks of other jobs            2 3
 *     free, by package, cache and core   0 1     4 5 6 7
 *     shares of two ranks                0 1 4, 5 6 7
 *
 * All free cores are given out, in contiguous shares that differ by one core at most.  A rank holds the first core
 * of its share, with its hardware threads, and a core that is held is given to no other job.  To hold a core is to
 * have a socket bound to a name that only one process can have: it ends with the process, however that ends.  Names
 * are those of a network namespace, so containers with a network of their own do not see each other's. */
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/tell.h"
#include "run.h"

enum { MOST_CPUS = 8192, TRIES = 5 };

typedef struct {
    cpu_set_t sets[MOST_CPUS / CPU_SETSIZE];
} cpu_mask;

typedef struct {
    int number, package, cache, core; /* core, cache: the first cpu that shares it */
} cpu;

struct run_cores {
    bool one;       /* each rank gets the first of its share alone */
    uint32_t ranks; /* of this host */
    uint32_t count;
    cpu cpus[MOST_CPUS]; /* those to share out, in order */
    uint32_t held;
    int *sockets; /* [held]: of the cores that the ranks hold */
};

/* --- cpus of this machine --- */

/* The first number of a file such as "0-3,8-11". */
static int first_in(int number, const char *file, int otherwise)
{
    char path[128], text[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", number, file);
    return rd_file_text(path, text, sizeof text) && *text >= '0' && *text <= '9'
               ? (int)strtol(text, NULL, 10)
               : otherwise;
}

static int by_place(const void *a, const void *b)
{
    const cpu *one = a, *two = b;
    const int keys[][2] = {{one->package, two->package},
                           {one->cache, two->cache},
                           {one->core, two->core},
                           {one->number, two->number}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static bool find_allowed(run_cores *c)
{
    cpu_mask mask = {0};
    if (sched_getaffinity(0, sizeof mask, mask.sets))
        return false;
    for (int n = 0; n < MOST_CPUS; n++)
        if (CPU_ISSET_S((size_t)n, sizeof mask, mask.sets))
            c->cpus[c->count++] = (cpu){.number = n,
                                        .package = first_in(n, "topology/physical_package_id", 0),
                                        .cache = first_in(n, "cache/index3/shared_cpu_list", 0),
                                        .core = first_in(n, "topology/thread_siblings_list", n)};
    qsort(c->cpus, c->count, sizeof *c->cpus, by_place);
    return c->count > 0;
}

/* --- holding --- */

static socklen_t name_of(int core, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length =
        snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "ronda-core-%d", core);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int make_socket(void)
{
    return rd_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

static void leave_free(run_cores *c)
{
    struct sockaddr_un name;
    const int fd = make_socket();
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const socklen_t length = name_of(c->cpus[i].core, &name);
        if (connect(fd, (struct sockaddr *)&name, length) != 0) /* nobody has this name */
            c->cpus[kept++] = c->cpus[i];
    }
    c->count = kept;
    if (fd >= 0)
        close(fd);
}

static const cpu *first_of(const run_cores *c, uint32_t rank)
{
    return &c->cpus[(uint64_t)rank * c->count / c->ranks];
}

static void let_go(run_cores *c)
{
    while (c->held)
        close(c->sockets[--c->held]);
}

static bool hold_one(run_cores *c, int core)
{
    struct sockaddr_un name;
    const socklen_t length = name_of(core, &name);
    const int fd = make_socket();
    if (fd < 0)
        return false;
    c->sockets[c->held++] = fd;
    return bind(fd, (struct sockaddr *)&name, length) == 0;
}

/* false: another job was quicker, or there is no socket to be had. */
static bool hold(run_cores *c)
{
    for (uint32_t r = 0; r < c->ranks; r++) {
        const int core = first_of(c, r)->core;
        const bool again = r && first_of(c, r - 1)->core == core; /* two ranks on its threads */
        if (!again && !hold_one(c, core)) {
            let_go(c);
            return false;
        }
    }
    return true;
}

/* --- shares --- */

/* Free cores for all ranks; false: why[] says why there are none. */
static bool choose(run_cores *c, bool inside, char why[RUN_CORES_WHY])
{
    c->count = 0;
    if (!find_allowed(c)) {
        snprintf(why, RUN_CORES_WHY, "the affinity mask cannot be read");
        return false;
    }
    const uint32_t allowed = c->count, quota = rd_cpu_quota();
    if (!inside)
        leave_free(c);
    if (c->ranks > allowed || c->ranks > quota)
        snprintf(why, RUN_CORES_WHY, "%u ranks on %u cores", c->ranks,
                 allowed < quota ? allowed : quota);
    else if (c->ranks > c->count)
        snprintf(why, RUN_CORES_WHY, "%u ranks, and other jobs hold %u of %u cores", c->ranks,
                 allowed - c->count, allowed);
    return c->ranks <= c->count && c->ranks <= quota;
}

run_cores *run_cores_take(const run_request *q, bool keep, char why[RUN_CORES_WHY])
{
    const char *launcher = getenv(RD_TELL);
    const bool inside = launcher && *launcher; /* a rank of another job, which holds our cores */
    run_cores *c = rd_alloc(sizeof *c);
    snprintf(why, RUN_CORES_WHY, "no memory");
    if (c)
        c->sockets = rd_alloc(q->count * sizeof *c->sockets);
    if (c && c->sockets) {
        c->ranks = q->count;
        c->one = q->bind;
        if (q->no_bind || (inside && !q->bind)) {
            snprintf(why, RUN_CORES_WHY, "%s",
                     inside ? "a rank of another job has started them" : "--no-bind");
        } else {
            for (int tries = 0; tries < TRIES && choose(c, inside, why); tries++) {
                if (inside || !keep || hold(c))
                    return c;
                snprintf(why, RUN_CORES_WHY, "other jobs took cores at the same time");
            }
        }
    }
    run_cores_free(c);
    return NULL;
}

void run_cores_free(run_cores *c)
{
    if (!c)
        return;
    if (c->sockets)
        let_go(c);
    rd_free(c->sockets);
    rd_free(c);
}

static void share_of(const run_cores *c, uint32_t rank, cpu_mask *mask)
{
    const cpu *end = c->one ? first_of(c, rank) + 1 : first_of(c, rank + 1);
    *mask = (cpu_mask){0};
    for (const cpu *at = first_of(c, rank); at < end; at++)
        CPU_SET_S((size_t)at->number, sizeof *mask, mask->sets);
}

void run_cores_bind(const run_cores *c, uint32_t rank)
{
    cpu_mask mask;
    share_of(c, rank, &mask);
    sched_setaffinity(0, sizeof mask, mask.sets); /* if a core went offline just now, so be it */
}

void run_cores_text(const run_cores *c, uint32_t rank, char *text, size_t capacity)
{
    cpu_mask mask;
    size_t at = 0;
    share_of(c, rank, &mask);
    for (size_t n = 0; n < MOST_CPUS && at < capacity; n++) {
        const size_t first = n;
        while (n < MOST_CPUS && CPU_ISSET_S(n, sizeof mask, mask.sets))
            n++;
        if (n == first)
            continue;
        at += (size_t)snprintf(text + at, capacity - at, n - first > 1 ? "%s%zu-%zu" : "%s%zu",
                               at ? "," : "", first, n - 1);
    }
}
