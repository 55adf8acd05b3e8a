/* doctor_memory.c: memory that ranks of this host share, and the limits that may be in its way. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "args.h"
#include "base/mem.h"
#include "doctor.h"
#include "transport/transport.h"

/* What a small program takes besides; an order of magnitude. */
static const uint64_t OWN_BYTES = 16 << 20;

static uint64_t limit_of(int resource, bool hard)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit))
        return UINT64_MAX;
    const rlim_t value = hard ? limit.rlim_max : limit.rlim_cur;
    return value == RLIM_INFINITY ? UINT64_MAX : value;
}

static bool read_line(const char *path, char *text, size_t capacity)
{
    FILE *file = cli_open_to_read(path);
    if (!file)
        return false;
    const bool read = fgets(text, (int)capacity, file) != NULL;
    fclose(file);
    return read;
}

/* --- the cgroup --- */

static uint64_t number_in(const char *folder, const char *name)
{
    char path[1400], text[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!read_line(path, text, sizeof text) || strncmp(text, "max", 3) == 0)
        return UINT64_MAX;
    const uint64_t value = strtoull(text, NULL, 10);
    return value >= (uint64_t)1 << 62 ? UINT64_MAX
                                      : value; /* how version 1 says that there is none */
}

typedef struct {
    uint64_t limit, left;
} room;

/* The least of a group and of every group above it. */
static void look_below(const char *mount, const char *group, bool second, room *least)
{
    char folder[1300];
    snprintf(folder, sizeof folder, "%s%s", mount, group);
    while (strlen(folder) >= strlen(mount)) {
        const uint64_t limit = number_in(folder, second ? "memory.max" : "memory.limit_in_bytes");
        const uint64_t used =
            number_in(folder, second ? "memory.current" : "memory.usage_in_bytes");
        const uint64_t left = used < limit ? limit - used : limit;
        if (limit < least->limit)
            *least = (room){limit, limit == UINT64_MAX || used == UINT64_MAX ? limit : left};
        char *slash = strrchr(folder, '/');
        if (!slash)
            break;
        *slash = 0;
    }
}

static room cgroup(void)
{
    char line[1100];
    room least = {UINT64_MAX, UINT64_MAX};
    FILE *file = cli_open_to_read("/proc/self/cgroup");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        if (controllers[1] == 0)
            look_below("/sys/fs/cgroup", group, true, &least);
        else if (strcmp(controllers + 1, "memory") == 0)
            look_below("/sys/fs/cgroup/memory", group, false, &least);
    }
    if (file)
        fclose(file);
    return least;
}

/* --- memory --- */

static uint64_t available(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *file = cli_open_to_read("/proc/meminfo");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib ? kib << 10 : UINT64_MAX;
}

/* Is there enough for what ranks touch at once?  More is theirs to ask for. */
static void look_at_room(doctor_list *list, uint32_t ranks)
{
    const uint64_t need = rd_shm_bytes(ranks) + ranks * OWN_BYTES, free_bytes = available();
    const room group = cgroup();
    const bool tight = group.left < need;
    char limit[120] = "the cgroup sets no limit";
    if (group.limit != UINT64_MAX)
        snprintf(limit, sizeof limit, "the cgroup allows %s, of which %s are left",
                 doctor_bytes(group.limit).text, doctor_bytes(group.left).text);
    if (!tight && free_bytes >= need) {
        doctor_say(list, DOCTOR_OK, "memory", "%s of memory available, %s: enough to start %s",
                   doctor_bytes(free_bytes).text, limit, doctor_many(ranks, "rank").text);
        return;
    }
    doctor_say(list, DOCTOR_PROBLEM, "memory",
               "%s of memory available, %s, but %s may need %s to start: they may be killed",
               doctor_bytes(free_bytes).text, limit, doctor_many(ranks, "rank").text,
               doctor_bytes(need).text);
    doctor_advise(list, tight ? "raise the limit (docker --memory, limits.memory of Kubernetes, "
                                "memory.max), or start fewer ranks"
                              : "end other programs, or start fewer ranks");
}

/* Which limit is the reason that there is no shared memory? */
static void blame(doctor_list *list, uint32_t ranks, const char *why)
{
    const uint64_t need = rd_shm_bytes(ranks) / 3 * 4 + OWN_BYTES * 2;
    const uint64_t addresses = limit_of(RLIMIT_AS, false), files = limit_of(RLIMIT_FSIZE, false);
    doctor_say(list, DOCTOR_PROBLEM, "memory",
               "%s of one host cannot have their common memory, %s of it: %.200s",
               doctor_many(ranks, "rank").text, doctor_bytes(rd_shm_bytes(ranks)).text, why);
    if (files < need)
        doctor_advise(
            list,
            "the limit on the size of files is %s and counts for shared memory: raise it to "
            "%s or more (ulimit -f %" PRIu64 "), or remove it (ulimit -f unlimited)",
            doctor_bytes(files).text, doctor_bytes(need).text, (need + 511) / 512);
    else if (addresses < need)
        doctor_advise(list,
                      "the limit on the address space is %s: raise it to %s or more (ulimit -v "
                      "%" PRIu64 "), or remove it (ulimit -v unlimited)",
                      doctor_bytes(addresses).text, doctor_bytes(need).text, (need + 1023) / 1024);
    else
        doctor_advise(list,
                      "start fewer ranks, or use a container that allows memfd_create and mmap");
}

/* Makes the memory that ranks would share, maps it and lets it go. */
static void try_sharing(doctor_list *list, uint32_t ranks)
{
    rd_error error = {0};
    const int fd = rd_shm_create(ranks, &error);
    if (fd < 0) {
        blame(list, ranks, error.message);
        return;
    }
    const off_t bytes = lseek(fd, 0, SEEK_END);
    void *memory = bytes > 0 ? rd_map_file(fd, (size_t)bytes) : NULL;
    const int why = errno;
    close(fd);
    if (!memory) {
        blame(list, ranks, strerror(why));
        return;
    }
    rd_unmap(memory, (size_t)bytes);
    const uint64_t heap = ((uint64_t)bytes - rd_shm_bytes(ranks)) / ranks;
    const bool limited =
        limit_of(RLIMIT_AS, false) != UINT64_MAX || limit_of(RLIMIT_FSIZE, false) != UINT64_MAX;
    doctor_say(list, limited ? DOCTOR_NOTE : DOCTOR_OK, "memory",
               "shared memory (memfd) for %s can be made%s; ronda_alloc() has up to %s a rank",
               doctor_many(ranks, "rank").text,
               limited ? ", though ulimit -v or ulimit -f is set" : "", doctor_bytes(heap).text);
}

static void say_unused(doctor_list *list)
{
    struct statvfs shm;
    const uint64_t locked = limit_of(RLIMIT_MEMLOCK, false);
    char size[80] = "there is no /dev/shm";
    if (statvfs("/dev/shm", &shm) == 0)
        snprintf(size, sizeof size, "/dev/shm has %s",
                 doctor_bytes((uint64_t)shm.f_blocks * shm.f_frsize).text);
    doctor_say(list, DOCTOR_OK, "memory", "%s, %s may be locked: ronda needs neither", size,
               locked == UINT64_MAX ? "all memory" : doctor_bytes(locked).text);
}

void doctor_memory(doctor_list *list, uint32_t ranks)
{
    look_at_room(list, ranks);
    try_sharing(list, ranks);
    say_unused(list);
}

/* --- descriptors --- */

/* A rank has for each other rank of its host a socket while they gather, an eventfd and a pidfd. */
void doctor_files(doctor_list *list, uint32_t ranks)
{
    const uint64_t need = 3 * (uint64_t)ranks + 16, launcher = 2 * (uint64_t)ranks + 64;
    const uint64_t now = limit_of(RLIMIT_NOFILE, false), most = limit_of(RLIMIT_NOFILE, true);
    const uint64_t want = need > launcher ? need : launcher;
    if (now >= need && most >= launcher) {
        doctor_say(list, DOCTOR_OK, "files", "%" PRIu64 " open files allowed: %s need %" PRIu64,
                   now, doctor_many(ranks, "rank").text, need);
        return;
    }
    const bool ours = now < need;
    if (ours)
        doctor_say(list, DOCTOR_PROBLEM, "files",
                   "%" PRIu64 " open files allowed, but each of %s needs %" PRIu64, now,
                   doctor_many(ranks, "rank").text, need);
    else
        doctor_say(list, DOCTOR_PROBLEM, "files",
                   "%" PRIu64 " open files allowed, but ronda run needs %" PRIu64 " for %s", most,
                   launcher, doctor_many(ranks, "rank").text);
    if (most >= want)
        doctor_advise(list, "ulimit -n %" PRIu64 ", before the ranks are started", want);
    else
        doctor_advise(list,
                      "the hard limit is %" PRIu64 ": have it raised to %" PRIu64
                      " (/etc/security/limits.conf, LimitNOFILE= of systemd, docker --ulimit "
                      "nofile=), or start fewer ranks",
                      most, want);
}
