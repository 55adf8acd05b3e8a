/* doctor_world.c: ranks look at their machines and at each other; rank 0 puts it together.
 *
 * Everything goes through rank 0, which every rank has reached when the world started: a pair that is cut
 * must not end the examination.
 *
 *     every rank: facts                -> rank 0: all facts -> every rank
 *     every rank: findings, who is cut -> rank 0
 *     rank 0 conducts the pairs (doctor_pairs.c), and prints
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

enum { TAG_FACTS = 1, TAG_ALL, TAG_COUNT, TAG_FINDINGS, TAG_CUT, TAG_WHY };
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

static bool exchange_facts(world *w)
{
    const size_t one = sizeof *w->facts, all = one * w->size;
    find_facts(w, &w->facts[w->rank]);
    bool good = true;
    if (w->rank)
        return !ronda_send(w->comm, &w->facts[w->rank], one, RONDA_U8, 0, TAG_FACTS) &&
               !ronda_recv(w->comm, w->facts, all, RONDA_U8, 0, TAG_ALL, NULL);
    for (uint32_t r = 1; r < w->size && good; r++)
        good = !ronda_recv(w->comm, &w->facts[r], one, RONDA_U8, r, TAG_FACTS, NULL);
    name_hosts(w);
    for (uint32_t r = 1; r < w->size && good; r++)
        good = !ronda_send(w->comm, w->facts, all, RONDA_U8, r, TAG_ALL);
    return good;
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

static bool tell(world *w)
{
    const uint64_t count = w->own.count;
    return !ronda_send(w->comm, &count, 1, RONDA_U64, 0, TAG_COUNT) &&
           !ronda_send(w->comm, w->own.at, count * sizeof *w->own.at, RONDA_U8, 0, TAG_FINDINGS) &&
           !ronda_send(w->comm, w->cut, w->size, RONDA_U8, 0, TAG_CUT) &&
           !ronda_send(w->comm, w->why[0], DOCTOR_TEXT, RONDA_U8, 0, TAG_WHY);
}

static bool hear(world *w, uint32_t from, doctor_list *list)
{
    uint64_t count = 0;
    if (ronda_recv(w->comm, &count, 1, RONDA_U64, from, TAG_COUNT, NULL) || count > 10000)
        return false;
    list->at = calloc(count + 1, sizeof *list->at);
    list->count = (uint32_t)count;
    return list->at &&
           !ronda_recv(w->comm, list->at, count * sizeof *list->at, RONDA_U8, from, TAG_FINDINGS,
                       NULL) &&
           !ronda_recv(w->comm, w->cut + (size_t)from * w->size, w->size, RONDA_U8, from, TAG_CUT,
                       NULL) &&
           !ronda_recv(w->comm, w->why[from], DOCTOR_TEXT, RONDA_U8, from, TAG_WHY, NULL);
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

/* The pairs that are not cut are measured; whatever happens is said. */
static int conclude(world *w, const doctor_list lists[])
{
    doctor_report report = {.size = w->size, .facts = w->facts, .json = w->request->json};
    doctor_list *list = &report.list;
    say_world(w, list);
    merge(w, lists, list);
    doctor_compare(list, w->facts, w->size);
    doctor_pair *pairs = doctor_pairs_choose(w->facts, w->size, &report.pair_count);
    const uint32_t cuts = say_cuts(w, list);
    if (!cuts)
        doctor_say(list, DOCTOR_OK, "reach",
                   w->hosts > 1 ? "ranks of all hosts can connect to each other"
                                : "all ranks have met");
    for (uint32_t i = 0; i < report.pair_count && pairs; i++) {
        doctor_pair *p = &pairs[i];
        p->cut = (uint8_t)(w->cut[(size_t)p->a * w->size + p->b] |
                           w->cut[(size_t)p->b * w->size + p->a] << 1);
    }
    report.pairs = pairs;
    if (!pairs || !doctor_pairs_conduct(w->comm, w->facts, pairs, report.pair_count)) {
        doctor_say(list, DOCTOR_PROBLEM, "pairs", "the pairs could not be measured: %.380s",
                   ronda_last_error(w->comm));
        doctor_advise(list,
                      "look at the ranks that are named, and at what lies between their hosts");
    }
    if (pairs)
        doctor_outliers(list, w->facts, w->size, pairs, report.pair_count);
    const int status = print(&report);
    free(list->at);
    free(pairs);
    return status;
}

static int be_first(world *w)
{
    doctor_list *lists = calloc(w->size, sizeof *lists);
    bool good = lists != NULL;
    int status = CLI_FAILED;
    if (good)
        lists[0] = w->own;
    for (uint32_t r = 1; r < w->size && good; r++)
        good = hear(w, r, &lists[r]);
    if (good)
        status = conclude(w, lists);
    else
        cli_failed(ME, "rank 0: %s", ronda_last_error(w->comm));
    for (uint32_t r = 1; r < w->size && lists; r++)
        free(lists[r].at);
    free(lists);
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

static int be_rank(world *w)
{
    const size_t rows = w->rank ? 1 : w->size;
    w->facts = calloc(w->size, sizeof *w->facts);
    w->cut = calloc(rows, w->size);
    w->why = calloc(rows, sizeof *w->why);
    if (!w->facts || !w->cut || !w->why)
        return cli_failed(ME, "rank %u: no memory", w->rank);
    ronda_set_timeout(w->comm, PATIENCE_NS);
    if (!exchange_facts(w))
        return cli_failed(ME, "rank %u: %s", w->rank, ronda_last_error(w->comm));
    examine(w);
    if (w->rank == 0)
        return be_first(w);
    if (tell(w) && doctor_pairs_follow(w->comm))
        return CLI_OK;
    return CLI_FAILED; /* rank 0 says why */
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
