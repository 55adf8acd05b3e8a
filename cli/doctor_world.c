/* doctor_world.c: ranks look at their machines and at each other; rank 0 puts it together.
 *
 * Until it is known who can connect to whom everything goes between rank 0 and one other, by collectives that
 * connect nobody else: two ranks that cannot reach each other end a world as soon as they try.
 *
 *     all facts to rank 0, and back to every rank
 *     findings, and who cannot be reached, to rank 0
 *     go: unless a pair is cut, rank 0 conducts the pairs (doctor_pairs.c)
 */
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

static const uint64_t PATIENCE_NS = 600000000000u;

typedef struct {
    ronda_comm *comm;
    const doctor_request *request;
    uint32_t rank, size, hosts;
    doctor_facts *facts; /* [size] */
    doctor_list own, interfaces;
    int listener;
    uint8_t *cut;             /* [size] of this rank; rank 0: [size][size] */
    char (*why)[DOCTOR_TEXT]; /* rank 0: [size]; else one */
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

static bool is_same(const doctor_finding *a, const doctor_finding *b)
{
    return a->level == b->level && strcmp(a->text, b->text) == 0 &&
           strcmp(a->advice, b->advice) == 0;
}

/* lists[r]: of rank r.  What several have said is said once, with their names. */
static void merge(const world *w, const doctor_list lists[], doctor_list *out)
{
    bool *said = calloc(w->size, sizeof *said);
    for (uint32_t r = 0; r < w->size && said; r++)
        for (uint32_t i = 0; i < lists[r].count; i++) {
            doctor_finding f = lists[r].at[i];
            bool known = false;
            memset(said, 0, w->size);
            for (uint32_t k = 0; k < w->size; k++)
                for (uint32_t j = 0; j < lists[k].count; j++)
                    said[k] |= is_same(&lists[k].at[j], &f);
            for (uint32_t k = 0; k < r; k++)
                known |= said[k];
            if (known)
                continue;
            name_ranks(w, said, f.who);
            doctor_add(out, &f);
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
    if (own->place.count) {
        own->mtu = doctor_mtu(&own->place.at[0]);
        own->megabits = doctor_megabits(&own->place.at[0]);
    }
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
    if (here > 1)
        doctor_memory(&w->own, here);
    doctor_files(&w->own, w->size);
    doctor_kernel(&w->own);
    for (uint32_t i = 0; i < w->interfaces.count && apart; i++)
        doctor_add(&w->own, &w->interfaces.at[i]);
    keep_trouble(&w->own);
    if (apart)
        doctor_probe(w->facts, w->rank, w->size, w->listener, w->request->seconds, w->cut,
                     w->why[0]);
}

/* Everybody makes room for as many as the one with most has; all: rank 0's, [size][*most] */
static bool exchange_findings(world *w, uint32_t counts[], uint32_t *most, doctor_finding **all)
{
    const uint32_t own = w->own.count;
    const doctor_finding none = {0};
    if (!collect(w, &own, counts, sizeof own))
        return false;
    *most = 1;
    for (uint32_t r = 0; r < w->size && !w->rank; r++)
        *most = counts[r] > *most ? counts[r] : *most;
    if (!spread(w, most, sizeof *most))
        return false;
    while (w->own.count < *most)
        doctor_add(&w->own, &none);
    *all = w->rank ? NULL : calloc((size_t)w->size * *most, sizeof **all);
    const bool good = w->own.count >= *most && (w->rank || *all) &&
                      collect(w, w->own.at, *all, *most * sizeof **all);
    w->own.count = own;
    return good;
}

static bool exchange_cuts(world *w)
{
    uint8_t *cut = malloc(w->size);
    char why[DOCTOR_TEXT];
    if (cut)
        memcpy(cut, w->cut, w->size);
    memcpy(why, w->why[0], sizeof why);
    const bool good =
        cut && collect(w, cut, w->cut, w->size) && collect(w, why, w->why, sizeof why);
    free(cut);
    return good;
}

/* --- what rank 0 says --- */

/* One line for two hosts, whichever of their ranks are concerned. */
static void say_cut(const world *w, uint32_t a, uint32_t b, doctor_list *list)
{
    char one[DOCTOR_WHO], two[DOCTOR_WHO];
    const uint8_t *cut = w->cut;
    const bool both = cut[(size_t)b * w->size + a];
    doctor_rank_name(w->facts, a, one, sizeof one);
    doctor_rank_name(w->facts, b, two, sizeof two);
    doctor_say(list, DOCTOR_PROBLEM, "reach", "%s and %s: %s: %.200s", one, two,
               both ? "neither can connect to the other" : "the first cannot connect to the second",
               w->why[a]);
    doctor_advise(list,
                  "see whether a route leads there (ip route get ADDRESS) and no firewall drops it "
                  "(ranks listen at ports that the system picks: allow all between hosts); "
                  "RONDA_IFACE names the interfaces to use");
}

static uint32_t say_cuts(const world *w, doctor_list *list)
{
    const uint32_t n = w->size;
    bool *said = calloc((size_t)w->hosts * w->hosts, sizeof *said);
    uint32_t cuts = 0;
    for (uint32_t i = 0; i < n * n && said; i++) {
        const uint32_t a = i / n, b = i % n;
        const uint32_t x = w->facts[a].host_index, y = w->facts[b].host_index;
        if (!w->cut[(size_t)a * n + b])
            continue;
        cuts++;
        if (!said[x * w->hosts + y])
            say_cut(w, a, b, list);
        said[x * w->hosts + y] = true;
        if (w->cut[(size_t)b * n + a])
            said[y * w->hosts + x] = true;
    }
    free(said);
    return cuts;
}

static void say_world(const world *w, doctor_list *list)
{
    const uint32_t v = ronda_version();
    doctor_say(list, DOCTOR_OK, "world", "%s on %s, ronda %u.%u.%u, over %s",
               doctor_many(w->size, "rank").text, doctor_many(w->hosts, "host").text, v / 10000,
               v / 100 % 100, v % 100, w->comm->link->transport->name);
}

static int print(const doctor_report *report)
{
    if (report->json)
        doctor_print_json(report);
    else
        doctor_print(report);
    return doctor_problems(&report->list) ? CLI_FAILED : CLI_OK;
}

static void say_reach(world *w, doctor_list *list, uint32_t cuts)
{
    if (!cuts)
        doctor_say(list, DOCTOR_OK, "reach", "%s",
                   w->hosts > 1 ? "ranks of all hosts can connect to each other"
                                : "all ranks have met");
    else
        doctor_say(list, DOCTOR_NOTE, "pairs",
                   "latency and bandwidth are measured when all ranks can connect to each other");
}

/* Whatever happens is said. */
static void measure(world *w, doctor_report *report, doctor_pair *pairs, bool whole)
{
    doctor_list *list = &report->list;
    uint8_t go = pairs && whole;
    for (uint32_t i = 0; i < report->pair_count && pairs; i++) {
        doctor_pair *p = &pairs[i];
        p->cut = (uint8_t)(w->cut[(size_t)p->a * w->size + p->b] |
                           w->cut[(size_t)p->b * w->size + p->a] << 1);
    }
    if (!spread(w, &go, sizeof go) ||
        (go && !doctor_pairs_conduct(w->comm, w->facts, pairs, report->pair_count))) {
        doctor_say(list, DOCTOR_PROBLEM, "pairs", "the pairs could not be measured: %.380s",
                   ronda_last_error(w->comm));
        doctor_advise(list,
                      "look at the ranks that are named, and at what lies between their hosts");
    }
    if (pairs)
        doctor_outliers(list, w->facts, w->size, pairs, report->pair_count);
}

static int conclude(world *w, const doctor_list lists[])
{
    doctor_report report = {.size = w->size, .facts = w->facts, .json = w->request->json};
    doctor_list *list = &report.list;
    say_world(w, list);
    merge(w, lists, list);
    doctor_compare(list, w->facts, w->size);
    const uint32_t cuts = say_cuts(w, list);
    say_reach(w, list, cuts);
    doctor_pair *pairs = doctor_pairs_choose(w->facts, w->size, &report.pair_count);
    report.pairs = pairs;
    measure(w, &report, pairs, !cuts);
    const int status = print(&report);
    free(list->at);
    free(pairs);
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

/* What rank 0 has of all, or nobody. */
static int put_together(world *w, const uint32_t counts[], uint32_t most, doctor_finding *all)
{
    uint8_t go = 0;
    if (w->rank) {
        if (!spread(w, &go, sizeof go) || (go && !doctor_pairs_follow(w->comm)))
            return CLI_FAILED; /* rank 0 says why */
        return CLI_OK;
    }
    doctor_list *lists = calloc(w->size, sizeof *lists);
    if (!lists)
        return cli_failed(ME, "rank 0: no memory");
    for (uint32_t r = 0; r < w->size; r++)
        lists[r] = (doctor_list){.at = all + (size_t)r * most, .count = counts[r]};
    const int status = conclude(w, lists);
    free(lists);
    return status;
}

static int be_rank(world *w)
{
    const size_t rows = w->rank ? 1 : w->size;
    uint32_t *counts = calloc(w->size, sizeof *counts), most = 0;
    doctor_finding *all = NULL;
    int status;
    w->facts = calloc(w->size, sizeof *w->facts);
    w->cut = calloc(rows, w->size);
    w->why = calloc(rows, sizeof *w->why);
    ronda_set_timeout(w->comm, PATIENCE_NS);
    if (!counts || !w->facts || !w->cut || !w->why) {
        status = cli_failed(ME, "rank %u: no memory", w->rank);
    } else if (!exchange_facts(w)) {
        status = cli_failed(ME, "rank %u: %s", w->rank, ronda_last_error(w->comm));
    } else {
        examine(w);
        if (exchange_findings(w, counts, &most, &all) && exchange_cuts(w))
            status = put_together(w, counts, most, all);
        else
            status = cli_failed(ME, "rank %u: %s", w->rank, ronda_last_error(w->comm));
    }
    free(all);
    free(counts);
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
    free(w.cut);
    free(w.why);
    return status;
}
