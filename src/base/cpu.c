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

/* cgroup version 2 at `group` (a path below the mount) and every group above it */
static uint32_t quota_of(char *group)
{
    uint32_t least = UINT32_MAX;
    for (;;) {
        char path[1200], text[128];
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        double quota, period;
        if (read_text(path, text, sizeof text) && sscanf(text, "%lf %lf", &quota, &period) == 2) {
            const uint32_t cores = ceiling(quota, period);
            least = cores < least ? cores : least;
        }
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

static uint32_t quota(void)
{
    char text[4096], quota_us[64], period_us[64];
    uint32_t least = UINT32_MAX;
    if (read_text("/proc/self/cgroup", text, sizeof text)) {
        char *line = strstr(text, "0::");
        if (line) {
            char group[1024];
            snprintf(group, sizeof group, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
            least = quota_of(group);
        }
    }
    if (read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota_us, sizeof quota_us) &&
        read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period_us, sizeof period_us)) {
        const uint32_t cores = ceiling(atof(quota_us), atof(period_us));
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
    const uint32_t limit = quota();
    return cpus < limit ? cpus : limit;
}
