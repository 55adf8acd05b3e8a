/* doctor_compare.c: what each rank says of itself, beside what the others say. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

void doctor_rank_name(const doctor_facts facts[], uint32_t rank, char *text, size_t capacity)
{
    snprintf(text, capacity, "rank %" PRIu32 " (host %.70s)", rank, facts[rank].host_name);
}

/* --- settings --- */

typedef struct {
    const char *name;
    size_t offset;
    doctor_level level;
    const char *costs, *advice;
} setting;

static const setting settings[] = {
    {"RONDA_ALGO", offsetof(doctor_facts, algo), DOCTOR_PROBLEM,
     "ranks will make different calls of one collective, and fail",
     "set RONDA_ALGO the same for all ranks, or for none"},
    {"RONDA_TIMEOUT", offsetof(doctor_facts, timeout), DOCTOR_NOTE,
     "the shortest ends calls of all",
     "set RONDA_TIMEOUT the same for all ranks (ronda run --env RONDA_TIMEOUT)"},
    {"RONDA_TRANSPORT", offsetof(doctor_facts, transport), DOCTOR_NOTE,
     "they have agreed on one this time", "set RONDA_TRANSPORT the same for all ranks"},
};

static void compare_setting(doctor_list *list, const doctor_facts facts[], uint32_t size,
                            const setting *s)
{
    const char *first = (const char *)&facts[0] + s->offset;
    for (uint32_t r = 1; r < size; r++) {
        const char *other = (const char *)&facts[r] + s->offset;
        char one[DOCTOR_WHO], two[DOCTOR_WHO];
        if (strcmp(first, other) == 0)
            continue;
        doctor_rank_name(facts, 0, one, sizeof one);
        doctor_rank_name(facts, r, two, sizeof two);
        doctor_say(list, s->level, "settings", "%s is %.60s on %s, but %.60s on %s: %s", s->name,
                   first[0] ? first : "not set", one, other[0] ? other : "not set", two, s->costs);
        doctor_advise(list, "%s", s->advice);
        return;
    }
}

static void compare_versions(doctor_list *list, const doctor_facts facts[], uint32_t size)
{
    for (uint32_t r = 1; r < size; r++) {
        char one[DOCTOR_WHO], two[DOCTOR_WHO];
        const uint32_t a = facts[0].version, b = facts[r].version;
        if (a == b)
            continue;
        doctor_rank_name(facts, 0, one, sizeof one);
        doctor_rank_name(facts, r, two, sizeof two);
        doctor_say(list, DOCTOR_PROBLEM, "version",
                   "%s has ronda %u.%u.%u, but %s has %u.%u.%u: calls may mean different things",
                   one, a / 10000, a / 100 % 100, a % 100, two, b / 10000, b / 100 % 100, b % 100);
        doctor_advise(list, "install the same version on all hosts");
        return;
    }
}

static void compare_mtus(doctor_list *list, const doctor_facts facts[], uint32_t size)
{
    for (uint32_t r = 1; r < size; r++) {
        if (!facts[0].mtu || !facts[r].mtu || facts[r].mtu == facts[0].mtu)
            continue;
        doctor_say(
            list, DOCTOR_NOTE, "mtu",
            "the interface of host %s has an MTU of %u, that of host %s one of %u: where they share "
            "a network, large packets are lost or cut",
            facts[0].host_name, facts[0].mtu, facts[r].host_name, facts[r].mtu);
        doctor_advise(list,
                      "give all interfaces of a network the same MTU: ip link set DEVICE mtu N");
        return;
    }
}

/* --- cores of a host --- */

/* How many ranks of a host may use exactly the cores that this one may use. */
static uint32_t alike(const doctor_facts facts[], uint32_t size, uint32_t rank)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < size; r++)
        count += facts[r].host_index == facts[rank].host_index &&
                 CPU_EQUAL(&facts[r].cpus, &facts[rank].cpus);
    return count;
}

/* Ranks of one host that may use the same cores, and are more than those. */
static void say_shared(doctor_list *list, const doctor_facts facts[], uint32_t size, uint32_t rank)
{
    char who[80] = "";
    size_t at = 0;
    for (uint32_t r = 0; r < size && at < sizeof who - 16; r++)
        if (facts[r].host_index == facts[rank].host_index &&
            CPU_EQUAL(&facts[r].cpus, &facts[rank].cpus))
            at += (size_t)snprintf(who + at, sizeof who - at, "%s%" PRIu32, at ? ", " : "", r);
    doctor_say(list, DOCTOR_PROBLEM, "cores",
               "host %s: ranks share cores while others are idle: these have %s of %u: %s",
               facts[rank].host_name,
               doctor_many((uint32_t)CPU_COUNT(&facts[rank].cpus), "core").text, facts[rank].online,
               who);
    doctor_advise(list, "leave the cores to ronda run, which gives each rank its share, or use "
                        "ronda run --no-bind: look for taskset, cpusets, --cpus-per-task and "
                        "OMP_PROC_BIND");
}

static void look_at_host(doctor_list *list, const doctor_facts facts[], uint32_t size,
                         uint32_t first)
{
    const doctor_facts *f = &facts[first];
    uint32_t ranks = 0;
    for (uint32_t r = 0; r < size; r++)
        ranks += facts[r].host_index == f->host_index;
    if (ranks > f->online) {
        doctor_say(
            list, DOCTOR_PROBLEM, "cores",
            "host %s: %s on %s: ranks take turns, and each call takes as long as the turns of all",
            f->host_name, doctor_many(ranks, "rank").text, doctor_many(f->online, "core").text);
        doctor_advise(list, "start %s on this host", doctor_many(f->online, "rank").text);
        return;
    }
    if (ranks > f->quota) {
        doctor_say(list, DOCTOR_PROBLEM, "cores",
                   "host %s: %s, but the cgroup's quota is the time of %s: when it is spent, all "
                   "ranks stand still until the next period",
                   f->host_name, doctor_many(ranks, "rank").text,
                   doctor_many(f->quota, "core").text);
        doctor_advise(list,
                      "raise the quota (docker --cpus, limits.cpu of Kubernetes, cpu.max), or "
                      "start %s there",
                      doctor_many(f->quota, "rank").text);
        return;
    }
    for (uint32_t r = first; r < size; r++)
        if (facts[r].host_index == f->host_index &&
            alike(facts, size, r) > (uint32_t)CPU_COUNT(&facts[r].cpus)) {
            say_shared(list, facts, size, r);
            return;
        }
}

void doctor_compare(doctor_list *list, const doctor_facts facts[], uint32_t size)
{
    for (uint32_t r = 0, host = 0; r < size; r++)
        if (facts[r].host_index == host) { /* they are numbered as they appear */
            look_at_host(list, facts, size, r);
            host++;
        }
    compare_versions(list, facts, size);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        compare_setting(list, facts, size, &settings[i]);
    compare_mtus(list, facts, size);
}
