/* doctor_world.c: every rank looks at its machine and connects to the other hosts; rank 0 prints what all found.
 *
 *     facts      of every rank to rank 0, and all of them back to every rank
 *     findings   of every rank to rank 0, which compares the facts, merges equal findings and prints
 *     a byte     of rank 0 to all: listeners may be closed
 *
 * Collectives connect rank 0 with each other rank and no others ("direct"): two ranks that cannot reach each
 * other end a world as soon as they try. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "base/cpu.h"
#include "comm/comm.h"
#include "comm/interfaces.h"
#include "doctor.h"

static const char ME[] = "doctor";

static const uint64_t TIMEOUT_NS = 600000000000u;

enum { MOST_FINDINGS = 12 }; /* that a rank tells rank 0: more would be the same trouble again */

typedef struct {
    uint32_t count;
    doctor_finding at[MOST_FINDINGS];
} findings;

typedef struct {
    ronda_comm *comm;
    const doctor_request *request;
    uint32_t rank, size;
    uint32_t hosts;      /* rank 0 knows it */
    doctor_facts *facts; /* [size] */
    doctor_list own, interfaces;
    int listener;
} world;

/* --- findings of several ranks --- */

/* "", "host a", "hosts a, b", "rank 3 (host a)" or "ranks 1, 2": who has said it? */
static void name_ranks(const world *w, const bool said[], char who[DOCTOR_WHO])
{
    uint32_t count = 0, last = 0;
    bool whole = true;
    size_t at = 0;
    for (uint32_t r = 0; r < w->size; r++) {
        count += said[r];
        last = said[r] ? r : last;
        for (uint32_t k = 0; k < w->size; k++)
            whole &= said[r] == said[k] || w->facts[r].host != w->facts[k].host;
    }
    who[0] = 0;
    if (count == w->size)
        return;
    if (count == 1 && !whole) {
        doctor_rank_name(w->facts, last, who, DOCTOR_WHO);
        return;
    }
    at = (size_t)snprintf(who, DOCTOR_WHO, whole ? "host" : "ranks");
    for (uint32_t r = 0; r < w->size && at + 12 < DOCTOR_WHO; r++) {
        bool first = said[r];
        for (uint32_t k = 0; k < r && whole; k++)
            first &= w->facts[k].host != w->facts[r].host;
        if (first && whole)
            at += (size_t)snprintf(who + at, DOCTOR_WHO - at, " %s", w->facts[r].host_name);
        else if (first)
            at += (size_t)snprintf(who + at, DOCTOR_WHO - at, " %" PRIu32, r);
    }
}

static bool has(const doctor_finding list[], uint32_t count, const doctor_finding *f)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].level == f->level && strcmp(list[i].text, f->text) == 0 &&
            strcmp(list[i].advice, f->advice) == 0)
            return true;
    return false;
}

/* What several ranks found is said once, with their names. */
static void merge(const world *w, const findings all[], doctor_list *out)
{
    bool *said = calloc(w->size, sizeof *said);
    const uint32_t before = out->count;
    for (uint32_t r = 0; r < w->size; r++)
        for (uint32_t i = 0; i < all[r].count; i++)
            if (!has(out->at, out->count, &all[r].at[i]))
                doctor_add(out, &all[r].at[i]);
    for (uint32_t i = before; i < out->count && said; i++) {
        for (uint32_t r = 0; r < w->size; r++)
            said[r] = has(all[r].at, all[r].count, &out->at[i]);
        name_ranks(w, said, out->at[i].who);
    }
    free(said);
}

/* --- facts --- */

static void copy_variable(const char *name, char *to, size_t capacity)
{
    const char *value = getenv(name);
    snprintf(to, capacity, "%s", value ? value : "");
    for (char *c = to; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

static void find_facts(world *w, doctor_facts *own)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    memset(own, 0, sizeof *own);
    own->host = rd_host_number();
    own->version = ronda_version();
    own->pid = getpid();
    own->quota = rd_cpu_quota();
    if (sched_getaffinity(0, sizeof own->cpus, &own->cpus))
        CPU_SET(0, &own->cpus);
    own->online = online > 0 ? (uint32_t)online : 1;
    doctor_interfaces(&w->interfaces, &own->place);
    rd_host_name(own->place.name);
    if (own->place.count)
        own->mtu = doctor_mtu(&own->place.at[0]);
    copy_variable("RONDA_TIMEOUT", own->timeout, sizeof own->timeout);
    copy_variable("RONDA_ALGO", own->algo, sizeof own->algo);
    copy_variable("RONDA_TRANSPORT", own->transport, sizeof own->transport);
    w->listener = doctor_probe_open(own);
}

/* Numbers hosts as they appear, and tells those of the same name apart by an address. */
static void name_hosts(world *w)
{
    w->hosts = 0;
    for (uint32_t r = 0; r < w->size; r++) {
        doctor_facts *f = &w->facts[r];
        uint32_t like = 0;
        bool twice = false;
        char ip[RD_IP_TEXT] = "?";
        while (w->facts[like].host != f->host)
            like++;
        f->host_index = like < r ? w->facts[like].host_index : w->hosts++;
        for (uint32_t k = 0; k < w->size; k++)
            twice |=
                w->facts[k].host != f->host && strcmp(w->facts[k].place.name, f->place.name) == 0;
        if (f->place.count)
            rd_ip_text(&f->place.at[0], ip);
        if (twice)
            snprintf(f->host_name, sizeof f->host_name, "%s", ip);
        else
            snprintf(f->host_name, sizeof f->host_name, "%s", f->place.name);
    }
}

/* Bytes of every rank, one behind the other, to rank 0; or rank 0's to all. */
static bool collect(world *w, const void *own, void *all, size_t bytes)
{
    const ronda_call call = {.struct_size = sizeof call,
                             .kind = RONDA_GATHER,
                             .type = RONDA_U8,
                             .send = own,
                             .recv = all,
                             .count = bytes,
                             .algorithm = "direct"};
    ronda_request *request;
    return !ronda_post(w->comm, &call, &request) && !ronda_wait(request);
}

static bool spread(world *w, void *all, size_t bytes)
{
    const ronda_call call = {.struct_size = sizeof call,
                             .kind = RONDA_BROADCAST,
                             .type = RONDA_U8,
                             .recv = all,
                             .count = bytes,
                             .algorithm = "direct"};
    ronda_request *request;
    return !ronda_post(w->comm, &call, &request) && !ronda_wait(request);
}

static bool exchange_facts(world *w)
{
    doctor_facts own;
    find_facts(w, &own);
    if (!collect(w, &own, w->facts, sizeof own))
        return false;
    if (!w->rank)
        name_hosts(w);
    return spread(w, w->facts, w->size * sizeof own);
}

/* --- findings --- */

/* What is well on each machine would be too much to say of a world. */
static void keep_trouble(doctor_list *list)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i].level != DOCTOR_OK)
            list->at[kept++] = list->at[i];
    list->count = kept;
}

static void examine(world *w)
{
    uint32_t here = 0;
    bool apart = false;
    for (uint32_t r = 0; r < w->size; r++) {
        here += w->facts[r].host == w->facts[w->rank].host;
        apart |= w->facts[r].host != w->facts[w->rank].host;
    }
    doctor_load(&w->own, here);
    if (here > 1)
        doctor_memory(&w->own, here);
    doctor_files(&w->own, w->size);
    doctor_kernel(&w->own);
    for (uint32_t i = 0; i < w->interfaces.count && apart; i++)
        doctor_add(&w->own, &w->interfaces.at[i]);
    keep_trouble(&w->own);
    if (apart)
        doctor_probe(&w->own, w->facts, w->rank, w->size, w->listener, w->request->seconds);
}

/* --- what rank 0 prints --- */

static int print(const doctor_report *report)
{
    if (report->json)
        doctor_print_json(report);
    else
        doctor_print(report);
    return doctor_problems(&report->list) ? CLI_FAILED : CLI_OK;
}

static bool all_reached(const doctor_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->at[i].about, "reach") == 0)
            return false;
    return true;
}

static int conclude(const world *w, const findings all[])
{
    doctor_report report = {.size = w->size, .facts = w->facts, .json = w->request->json};
    doctor_list *list = &report.list;
    const uint32_t v = ronda_version();
    doctor_say(list, DOCTOR_OK, "world", "%s on %s, ronda %u.%u.%u, over %s",
               doctor_many(w->size, "rank").text, doctor_many(w->hosts, "host").text, v / 10000,
               v / 100 % 100, v % 100, w->comm->link->transport->name);
    merge(w, all, list);
    doctor_compare(list, w->facts, w->size);
    if (all_reached(list))
        doctor_say(list, DOCTOR_OK, "reach", "%s",
                   w->hosts > 1 ? "ranks of all hosts can connect to each other"
                                : "all ranks have met");
    const int status = print(&report);
    free(list->at);
    return status;
}

/* --- a rank --- */

/* The world did not start: each rank says what it knows. */
static int say_alone(world *w)
{
    doctor_report report = {.size = w->size, .rank = w->rank, .json = w->request->json};
    const char *why = ronda_last_error(NULL);
    const bool key = strstr(why, "key") || strstr(why, "KEY");
    doctor_say(&w->own, DOCTOR_PROBLEM, "world", "the ranks do not meet: %.400s", why);
    doctor_advise(&w->own,
                  key ? "give all ranks the same RONDA_KEY, as ronda run does"
                      : "look at the ranks that are named: have they been started, with the same "
                        "RONDA_ADDR and RONDA_SIZE, and is there a way between the hosts?");
    doctor_memory(&w->own, w->size);
    doctor_files(&w->own, w->size);
    doctor_kernel(&w->own);
    doctor_interfaces(&w->own, NULL);
    keep_trouble(&w->own);
    for (uint32_t i = 0; i < w->own.count; i++)
        snprintf(w->own.at[i].who, DOCTOR_WHO, "rank %" PRIu32, w->rank);
    report.list = w->own;
    print(&report);
    return CLI_FAILED;
}

static int failed(const world *w)
{
    return cli_failed(ME, "rank %u: %s", w->rank, ronda_last_error(w->comm));
}

static int be_rank(world *w)
{
    findings own = {0}, *all = w->rank ? NULL : calloc(w->size, sizeof *all);
    uint8_t probed = 1;
    int status = CLI_OK;
    w->facts = calloc(w->size, sizeof *w->facts);
    ronda_set_timeout(w->comm, TIMEOUT_NS);
    if (!w->facts || (!w->rank && !all))
        return cli_failed(ME, "rank %u: no memory", w->rank);
    if (!exchange_facts(w)) {
        free(all);
        return failed(w);
    }
    examine(w);
    own.count = w->own.count < MOST_FINDINGS ? w->own.count : MOST_FINDINGS;
    if (own.count)
        memcpy(own.at, w->own.at, own.count * sizeof *own.at);
    /* Nobody closes its listener before all have probed: that is when rank 0 has their findings. */
    if (!collect(w, &own, all, sizeof own) || !spread(w, &probed, sizeof probed))
        status = failed(w);
    else if (!w->rank)
        status = conclude(w, all);
    free(all);
    return status;
}

int doctor_world(doctor_list *own, const doctor_request *request, uint32_t rank, uint32_t size)
{
    world w = {.request = request, .rank = rank, .size = size, .own = *own, .listener = -1};
    int status;
    if (ronda_init(NULL, &w.comm)) {
        status = say_alone(&w);
    } else {
        status = be_rank(&w);
        if (status && w.rank)
            ronda_abort(w.comm, "a rank of ronda doctor failed");
        ronda_close(w.comm);
    }
    if (w.listener >= 0)
        close(w.listener);
    *own = w.own;
    free(w.interfaces.at);
    free(w.facts);
    return status;
}
