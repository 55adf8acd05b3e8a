/* cpu.c: a process in a container may see 64 cores and be allowed the time of two.  Spinning would then
 * eat the quota that the peers need, so the quota counts like cores. */
#include "base/cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_text(const char *path, char *text, size_t capacity)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, text, capacity - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

static uint32_t ceiling(double quota, double period)
{
    if (quota <= 0 || period <= 0)
        return UINT32_MAX;
    const double cores = quota / period;
    const uint32_t whole = cores < 1e6 ? (uint32_t)cores : 1000000;
    return whole < 1 ? 1 : whole + (cores > whole);
}

/* What cpu.max (version 2), or cpu.cfs_quota_us and cpu.cfs_period_us (version 1), say in a folder. */
static uint32_t quota_in(const char *folder)
{
    char path[1400], text[128], period_text[64];
    double quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_text(path, text, sizeof text))
        return sscanf(text, "%lf %lf", &quota, &period) == 2 ? ceiling(quota, period) : UINT32_MAX;
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_text(path, text, sizeof text))
        return UINT32_MAX;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    return read_text(path, period_text, sizeof period_text) ? ceiling(atof(text), atof(period_text))
                                                            : UINT32_MAX;
}

/* The least of a group and of every group above it; group: a path below the mount. */
static uint32_t quota_of(const char *mount, const char *group)
{
    char folder[1300];
    uint32_t least = UINT32_MAX;
    snprintf(folder, sizeof folder, "%s%s", mount, group);
    while (strlen(folder) >= strlen(mount)) {
        const uint32_t cores = quota_in(folder);
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

/* A line of /proc/self/cgroup: "0::/group" is version 2, "4:cpu,cpuacct:/group" version 1. */
static uint32_t quota_by(char *line)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group || strlen(group) > 1000)
        return UINT32_MAX;
    *group++ = 0;
    const bool second = controllers[1] == 0;
    if (!second && !names_cpu(controllers + 1))
        return UINT32_MAX;
    const uint32_t one = quota_of(second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu", group);
    const uint32_t other =
        quota_of(second ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup/cpu,cpuacct", group);
    return one < other ? one : other;
}

uint32_t rd_cpu_quota(void)
{
    char text[8192];
    uint32_t least = UINT32_MAX;
    if (!read_text("/proc/self/cgroup", text, sizeof text))
        return least;
    for (char *line = text, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        const uint32_t cores = quota_by(line);
        least = cores < least ? cores : least;
    }
    return least;
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
