/* mem_limit.c: a group's room is its limit less what it uses, but the system takes back what it keeps of files,
 * and swaps out the rest as long as it may. */
#include "base/mem_limit.h"

#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

enum { SIZEABLE = 1 << 20 }; /* bytes; less is given without a look */

static bool read_text(const char *folder, const char *name, char *text, size_t capacity)
{
    char path[1400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return rd_file_text(path, text, capacity);
}

/* Of a file with one number; "max", or no such file: none */
static uint64_t number_in(const char *folder, const char *name, uint64_t none)
{
    char text[64];
    return read_text(folder, name, text, sizeof text) && text[0] >= '0' && text[0] <= '9'
               ? strtoull(text, NULL, 10)
               : none;
}

/* A line of memory.stat: "inactive_file 1234". */
static uint64_t stat_of(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return strtoull(line + length, NULL, 10);
    return 0;
}

/* What the system takes back before it kills anybody.  Memory that processes share is not of that kind. */
static uint64_t reclaimable(const char *folder, bool second)
{
    char text[8192];
    if (!read_text(folder, "memory.stat", text, sizeof text))
        return 0;
    return second ? stat_of(text, "inactive_file") + stat_of(text, "active_file") +
                        stat_of(text, "slab_reclaimable")
                  : stat_of(text, "total_inactive_file") + stat_of(text, "total_active_file");
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t room_in(const char *folder, bool second, uint64_t swap_free)
{
    static const uint64_t NO_LIMIT = (uint64_t)1 << 60; /* version 1 has a huge number for none */
    const uint64_t limit =
        number_in(folder, second ? "memory.max" : "memory.limit_in_bytes", UINT64_MAX);
    if (limit >= NO_LIMIT)
        return UINT64_MAX;
    const uint64_t used =
        number_in(folder, second ? "memory.current" : "memory.usage_in_bytes", UINT64_MAX);
    if (used == UINT64_MAX)
        return UINT64_MAX; /* nobody knows */
    uint64_t swap = swap_free;
    if (second) {
        const uint64_t most = number_in(folder, "memory.swap.max", UINT64_MAX);
        const uint64_t left = less(most, number_in(folder, "memory.swap.current", 0));
        swap = left < swap ? left : swap;
    }
    return less(limit, less(used, reclaimable(folder, second))) + swap;
}

/* The least of a group and of every group above it; group: a path below the mount. */
static uint64_t room_of(const char *mount, const char *group, bool second, uint64_t swap_free)
{
    char folder[1300];
    uint64_t least = UINT64_MAX;
    snprintf(folder, sizeof folder, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
    while (strlen(folder) >= strlen(mount)) {
        const uint64_t room = room_in(folder, second, swap_free);
        least = room < least ? room : least;
        char *slash = strrchr(folder, '/');
        if (!slash)
            break;
        *slash = 0;
    }
    return least;
}

/* A line is "0::/group" of version 2, or "4:memory:/group" of version 1.  Where memory is of version 1, groups of
 * version 2 say nothing of it. */
uint64_t rd_memory_room(const char *lines, const char *base, uint64_t swap_free)
{
    uint64_t least = UINT64_MAX;
    for (const char *line = lines; line && *line;) {
        char list[64], group[1001], mount[300];
        const char *end = strchr(line, '\n');
        list[0] = 0;
        if (sscanf(line, "%*[0-9]::%1000[^\n]", group) == 1 ||
            (sscanf(line, "%*[0-9]:%63[^:]:%1000[^\n]", list, group) == 2 &&
             strcmp(list, "memory") == 0)) {
            snprintf(mount, sizeof mount, "%s%s", base, list[0] ? "/memory" : "");
            const uint64_t room = room_of(mount, group, !list[0], swap_free);
            least = room < least ? room : least;
        }
        line = end ? end + 1 : NULL;
    }
    return least;
}

/* What the machine has for everybody together, without swap. */
static uint64_t available(void)
{
    char text[8192];
    const char *line =
        read_text("/proc", "meminfo", text, sizeof text) ? strstr(text, "MemAvailable:") : NULL;
    return line ? strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024 : UINT64_MAX / 2;
}

bool rd_memory_allows(size_t bytes)
{
    char text[8192];
    struct sysinfo machine;
    if (bytes < SIZEABLE)
        return true;
    const uint64_t swap_free =
        sysinfo(&machine) == 0 ? (uint64_t)machine.freeswap * machine.mem_unit : 0;
    if (bytes > available() + swap_free)
        return false;
    return !read_text("/proc/self", "cgroup", text, sizeof text) ||
           bytes <= rd_memory_room(text, "/sys/fs/cgroup", swap_free);
}
