/* doctor_cores.c: have so many ranks a core each, and has nobody else work for it? */
#include <unistd.h>

#include "base/cpu.h"
#include "base/fd.h"
#include "doctor.h"

static uint32_t affinity(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        return rd_usable_cpus();
    return (uint32_t)CPU_COUNT(&set);
}

static void too_few_by_quota(doctor_list *list, uint32_t ranks, uint32_t quota, uint32_t seen)
{
    doctor_say(list, DOCTOR_PROBLEM, "cores",
               "%s, but the cgroup's quota is the time of %s, of %u that are visible: when it is "
               "spent, all ranks stand still until the next period",
               doctor_many(ranks, "rank").text, doctor_many(quota, "core").text, seen);
    doctor_advise(
        list,
        "raise the quota to %u (docker --cpus, limits.cpu of Kubernetes, cpu.max), or start "
        "%s here",
        ranks, doctor_many(quota, "rank").text);
}

static void too_few_by_affinity(doctor_list *list, uint32_t ranks, uint32_t cores, uint32_t online)
{
    const bool bound = cores < online;
    doctor_say(list, DOCTOR_PROBLEM, "cores",
               "%s, but %s: ranks take turns, and each call takes as long as the turns of "
               "all, milliseconds instead of microseconds",
               doctor_many(ranks, "rank").text,
               bound ? "this process may use fewer cores than that"
                     : "the machine has fewer cores");
    if (bound)
        doctor_advise(
            list,
            "it may use %s of %u: widen the affinity (taskset, cpuset, --cpus-per-task) or "
            "start %s here",
            doctor_many(cores, "core").text, online, doctor_many(cores, "rank").text);
    else
        doctor_advise(list, "start %s here, and others on other hosts (ronda run --hosts)",
                      doctor_many(cores, "rank").text);
}

void doctor_load(doctor_list *list, uint32_t ranks)
{
    char text[128];
    double load;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (!rd_file_text("/proc/loadavg", text, sizeof text) || sscanf(text, "%lf", &load) != 1)
        return;
    if (load + ranks <= (double)online + 0.5) {
        doctor_say(list, DOCTOR_OK, "load", "the load of the last minute was %.1f: %s idle", load,
                   doctor_many((uint64_t)((double)online - load + 0.5), "core").text);
        return;
    }
    doctor_say(list, DOCTOR_NOTE, "load",
               "the load of the last minute was %.1f on %s: %s may wait for cores that other "
               "programs use",
               load, doctor_many((uint64_t)online, "core").text, doctor_many(ranks, "rank").text);
    doctor_advise(list, "see what runs (top), and end it, wait for it, or start fewer ranks");
}

void doctor_cores(doctor_list *list, uint32_t ranks)
{
    const uint32_t cores = affinity(), quota = rd_cpu_quota();
    const long all = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t online = all > (long)cores ? (uint32_t)all : cores;
    if (ranks > cores)
        too_few_by_affinity(list, ranks, cores, online);
    if (ranks > quota && quota < cores)
        too_few_by_quota(list, ranks, quota, cores);
    if (ranks > cores || ranks > quota)
        return;
    if (quota < cores) {
        doctor_say(
            list, DOCTOR_NOTE, "cores",
            "%s visible, but the cgroup's quota is the time of %s: enough for %s, if each has "
            "one thread",
            doctor_many(cores, "core").text, doctor_many(quota, "core").text,
            doctor_many(ranks, "rank").text);
        doctor_advise(list,
                      "keep libraries from starting a thread for each visible core: "
                      "OMP_NUM_THREADS=%u",
                      quota / ranks);
        return;
    }
    doctor_say(list, DOCTOR_OK, "cores", "%s usable of %u, no quota below that: enough for %s",
               doctor_many(cores, "core").text, online, doctor_many(ranks, "rank").text);
}
