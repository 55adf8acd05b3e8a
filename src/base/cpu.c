/* cpu.c: a process in a container may see 64 cores and be allowed the time of two.  Spinning would then
 * eat the quota that the peers need, so the quota counts like cores. */
#include "base/cpu.h"

#include "base/clock.h"
#include "base/fd.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t ceiling(double quota, double period)
{
    if (quota <= 0 || period <= 0)
        return UINT32_MAX;
    const double cores = quota / period;
    const uint32_t whole = cores < 1e6 ? (uint32_t)cores : 1000000;
    return whole < 1 ? 1 : whole + (cores > whole);
}

/* Where the groups of a process are; version 1 or 2 of what the system has for them. */
typedef struct {
    char mount[300];
    const char *group; /* a path below it */
    bool second;
    uint32_t *files; /* opened, or tried to */
} tree;

static bool read_in(const tree *t, const char *folder, const char *name, char *text,
                    size_t capacity)
{
    char path[1400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ++*t->files;
    return rd_file_text(path, text, capacity);
}

/* What cpu.max (version 2), or cpu.cfs_quota_us and cpu.cfs_period_us (version 1), say in a folder. */
static uint32_t quota_in(const tree *t, const char *folder)
{
    char text[128], period_text[64];
    double quota, period;
    if (t->second)
        return read_in(t, folder, "cpu.max", text, sizeof text) &&
                       sscanf(text, "%lf %lf", &quota, &period) == 2
                   ? ceiling(quota, period)
                   : UINT32_MAX;
    if (!read_in(t, folder, "cpu.cfs_quota_us", text, sizeof text) || atof(text) <= 0 ||
        !read_in(t, folder, "cpu.cfs_period_us", period_text, sizeof period_text))
        return UINT32_MAX;
    return ceiling(atof(text), atof(period_text));
}

/* The least of the group and of every group above it. */
static uint32_t quota_of(const tree *t)
{
    char folder[1300];
    uint32_t least = UINT32_MAX;
    snprintf(folder, sizeof folder, "%s%s", t->mount, strcmp(t->group, "/") == 0 ? "" : t->group);
    while (strlen(folder) >= strlen(t->mount)) {
        const uint32_t cores = quota_in(t, folder);
        least = cores < least ? cores : least;
        char *slash = strrchr(folder, '/');
        if (!slash)
            break;
        *slash = 0;
    }
    return least;
}

/* Is the cpu one of a list such as "cpu,cpuacct"? */
static bool names_cpu(const char *list)
{
    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strncmp(list, "cpu", 3) == 0 && (list[3] == 0 || list[3] == ','))
            return true;
    return false;
}

static bool mounted(tree *t, const char *base, const char *name)
{
    snprintf(t->mount, sizeof t->mount, "%s%s%s", base, *name ? "/" : "", name);
    return access(t->mount, F_OK) == 0;
}

/* A line is "0::/group" of version 2, or "4:cpu,cpuacct:/group" of version 1.  Where both are there, the cpu is of
 * the one that names it. */
uint32_t rd_cpu_quota_by(char *lines, const char *base, uint32_t *files)
{
    tree t = {.files = files};
    const char *controllers = NULL;
    uint32_t count = 0;
    for (char *line = lines, *end; line && *line; line = end, count++) {
        end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group || strlen(group) > 1000)
            continue;
        *group++ = 0;
        const bool second = list[1] == 0;
        if ((second && t.group) || (!second && !names_cpu(list + 1)))
            continue;
        t.group = group;
        t.second = second;
        controllers = list + 1;
    }
    if (!t.group)
        return UINT32_MAX;
    const bool found = t.second
                           ? (count > 1 && mounted(&t, base, "unified")) || mounted(&t, base, "")
                           : mounted(&t, base, "cpu") || mounted(&t, base, controllers);
    return found ? quota_of(&t) : UINT32_MAX;
}

/* Asked more than once at each start; what was true a moment ago is good enough.  One number, so that threads need
 * no lock: the time, in tenths of a second and not 0, and the cores. */
uint32_t rd_cpu_quota(void)
{
    static _Atomic uint64_t known;
    static const uint64_t TENTH_NS = 100000000;
    const uint64_t was = atomic_load_explicit(&known, memory_order_relaxed);
    const uint64_t now = (rd_now_ns() / TENTH_NS & 0x7fffffff) + 1;
    char text[8192];
    uint32_t files = 1;
    if (was && now - (was >> 32) < 10)
        return (uint32_t)was;
    const uint32_t cores = rd_file_text("/proc/self/cgroup", text, sizeof text)
                               ? rd_cpu_quota_by(text, "/sys/fs/cgroup", &files)
                               : UINT32_MAX;
    atomic_store_explicit(&known, now << 32 | cores, memory_order_relaxed);
    return cores;
}

uint32_t rd_usable_cpus(void)
{
    const int32_t self = 0;
    return rd_usable_cpus_of(&self, 1);
}

uint32_t rd_usable_cpus_of(const int32_t pids[], uint32_t count)
{
    cpu_set_t all, set;
    CPU_ZERO(&all);
    for (uint32_t i = 0; i < count; i++)
        if (sched_getaffinity(pids[i], sizeof set, &set) == 0)
            CPU_OR(&all, &all, &set);
    uint32_t cpus = (uint32_t)CPU_COUNT(&all);
    if (cpus == 0)
        cpus = 1;
    if (CPU_COUNT(&all) == 0 && sysconf(_SC_NPROCESSORS_ONLN) > 0)
        cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t limit = rd_cpu_quota();
    return cpus < limit ? cpus : limit;
}

uint64_t rd_cpu_mark(void)
{
    cpu_set_t set;
    uint64_t mark = 0xcbf29ce484222325u;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        mark = (mark ^ (CPU_ISSET(i, &set) ? i + 1 : 0)) * 0x100000001b3u;
    return mark;
}
