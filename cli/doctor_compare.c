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

typedef struct {
    const doctor_facts *facts;
    uint32_t ranks[CPU_SETSIZE]; /* of the host */
    uint32_t count;
    uint32_t owner[CPU_SETSIZE]; /* of a core: which of ranks, + 1 */
    bool seen[CPU_SETSIZE];
} host;

/* Can the rank have a core of its own, if others move to other cores of theirs? */
static bool seat(host *h, uint32_t i)
{
    const cpu_set_t *cpus = &h->facts[h->ranks[i]].cpus;
    for (uint32_t c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, cpus) || h->seen[c])
            continue;
        h->seen[c] = true;
        if (!h->owner[c] || seat(h, h->owner[c] - 1)) {
            h->owner[c] = i + 1;
            return true;
        }
    }
    return false;
}

/* Two that have the same cores and one too few of them. */
static void say_shared(doctor_list *list, const host *h, uint32_t seated, uint32_t online)
{
    char who[80] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < h->count && at < sizeof who - 16; i++) {
        bool shares = false;
        for (uint32_t k = 0; k < h->count; k++)
            shares |= k != i && CPU_EQUAL(&h->facts[h->ranks[i]].cpus, &h->facts[h->ranks[k]].cpus);
        if (shares)
            at += (size_t)snprintf(who + at, sizeof who - at, "%s%" PRIu32, at ? ", " : "",
                                   h->ranks[i]);
    }
    doctor_say(
        list, DOCTOR_PROBLEM, "cores",
        "host %s: ranks share cores while others are idle: %s have %s between them, and the host "
        "has %u; ranks with the same cores: %s",
        h->facts[h->ranks[0]].host_name, doctor_many(h->count, "rank").text,
        doctor_many(seated, "core").text, online, at ? who : "none");
    doctor_advise(
        list, "bind each rank to its own core (ronda run --bind), or to none: look for taskset, "
              "cpusets, --cpus-per-task and OMP_PROC_BIND");
}

static void look_at_host(doctor_list *list, host *h)
{
    cpu_set_t all;
    uint32_t seated = 0;
    const doctor_facts *first = &h->facts[h->ranks[0]];
    const char *name = first->host_name;
    CPU_ZERO(&all);
    memset(h->owner, 0, sizeof h->owner);
    for (uint32_t i = 0; i < h->count; i++) {
        CPU_OR(&all, &all, &h->facts[h->ranks[i]].cpus);
        memset(h->seen, 0, sizeof h->seen);
        seated += seat(h, i);
    }
    const uint32_t cores = (uint32_t)CPU_COUNT(&all);
    if (h->count > first->online) {
        doctor_say(
            list, DOCTOR_PROBLEM, "cores",
            "host %s: %s on %s: ranks take turns, and each call takes as long as the turns of all",
            name, doctor_many(h->count, "rank").text, doctor_many(first->online, "core").text);
        doctor_advise(list, "start %s on this host", doctor_many(first->online, "rank").text);
    } else if (h->count > first->quota) {
        doctor_say(
            list, DOCTOR_PROBLEM, "cores",
            "host %s: %s, but the cgroup's quota is the time of %s, of %u that are visible: when it "
            "is spent, all ranks stand still until the next period",
            name, doctor_many(h->count, "rank").text, doctor_many(first->quota, "core").text,
            cores);
        doctor_advise(
            list,
            "raise the quota (docker --cpus, limits.cpu of Kubernetes, cpu.max), or start "
            "%s there",
            doctor_many(first->quota, "rank").text);
    } else if (seated < h->count) {
        say_shared(list, h, seated, first->online);
    }
}

void doctor_compare(doctor_list *list, const doctor_facts facts[], uint32_t size)
{
    host *h = malloc(sizeof *h);
    for (uint32_t index = 0; h && index < size; index++) {
        *h = (host){.facts = facts};
        for (uint32_t r = 0; r < size && h->count < CPU_SETSIZE; r++)
            if (facts[r].host_index == index)
                h->ranks[h->count++] = r;
        if (!h->count)
            break; /* they are numbered without gaps */
        look_at_host(list, h);
    }
    free(h);
    compare_versions(list, facts, size);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        compare_setting(list, facts, size, &settings[i]);
    compare_mtus(list, facts, size);
}
