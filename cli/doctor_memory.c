/* doctor_memory.c: memory that ranks of this host share, and the limits that may be in its way. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/mem_limit.h"
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

/* --- memory --- */

/* Bytes that are left: of the machine, and of the groups (cgroups) of this process. */
static uint64_t available(uint64_t *in_groups)
{
    char text[8192] = "";
    uint64_t kib = 0;
    *in_groups = rd_file_text("/proc/self/cgroup", text, sizeof text)
                     ? rd_memory_room(text, "/sys/fs/cgroup", 0)
                     : UINT64_MAX;
    const char *line =
        rd_file_text("/proc/meminfo", text, sizeof text) ? strstr(text, "MemAvailable:") : NULL;
    return line && sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1 ? kib << 10 : UINT64_MAX;
}

/* Is there enough for what ranks touch at once?  More is theirs to ask for. */
static void look_at_room(doctor_list *list, uint32_t ranks)
{
    uint64_t group;
    const uint64_t need = rd_shm_bytes(ranks) + ranks * OWN_BYTES, bytes = available(&group);
    char limit[80] = "the cgroup sets no limit";
    if (group != UINT64_MAX)
        snprintf(limit, sizeof limit, "the cgroup leaves %s", doctor_bytes(group).text);
    if (group >= need && bytes >= need) {
        doctor_say(list, DOCTOR_OK, "memory", "%s of memory available, %s: enough to start %s",
                   doctor_bytes(bytes).text, limit, doctor_many(ranks, "rank").text);
        return;
    }
    doctor_say(list, DOCTOR_PROBLEM, "memory",
               "%s of memory available, %s, but %s may need %s to start: they may be killed",
               doctor_bytes(bytes).text, limit, doctor_many(ranks, "rank").text,
               doctor_bytes(need).text);
    doctor_advise(list, group < need ? "raise the limit (docker --memory, limits.memory of "
                                       "Kubernetes, memory.max), or start fewer ranks"
                                     : "end other programs, or start fewer ranks");
}

/* Says which limit leaves no shared memory. */
static void say_limit(doctor_list *list, uint32_t ranks, const char *why)
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
        say_limit(list, ranks, error.message);
        return;
    }
    const off_t bytes = lseek(fd, 0, SEEK_END);
    void *memory = bytes > 0 ? rd_map_file(fd, (size_t)bytes) : NULL;
    const int why = errno;
    close(fd);
    if (!memory) {
        say_limit(list, ranks, strerror(why));
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

void doctor_memory(doctor_list *list, uint32_t ranks)
{
    look_at_room(list, ranks);
    try_sharing(list, ranks);
}

/* --- descriptors --- */

/* A rank has for each other rank of its host a socket while they gather, an eventfd and a pidfd. */
void doctor_files(doctor_list *list, uint32_t ranks)
{
    const uint64_t need = 3 * (uint64_t)ranks + 16, launcher = 3 * (uint64_t)ranks + 64;
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
