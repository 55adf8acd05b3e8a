/* check.c: `ronda check`: proves the table of algorithms.
 *
 * Every row is proved for every world of a range, with counts that are empty, tiny and ragged, in
 * place, not, and mixed, with and without division (mean), from several roots, and cut into several
 * chunks; then for some larger worlds, as far as the row's number of steps allows.  Rows made for hosts
 * are proved on every even split of small worlds too, and on some that are not even. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "base/clock.h"
#include "base/names.h"
#include "check.h"
#include "cli.h"
#include "proof/check.h"

/* Worlds beyond the range.  Steps, and elements of all results, may grow with the square of the world,
 * so a row stops before a proof would have more of either than this. */
static const uint32_t larger_worlds[] = {64, 100, 127, 128, 250, 256, 500, 512, 1000, 1024};
enum { MOST_LARGER = 300000 };

static const uint32_t cuts[] = {1, 3, 8};         /* chunks to aim at */
enum { HOSTS_WORLD = 16, QUICK_HOSTS_WORLD = 9 }; /* up to which worlds are split into hosts */
enum { QUICK_CUTS = 2, MANY_CUTS_WORLD = 16 }; /* in larger worlds all cuts but the last will do */

typedef struct {
    const cli_check_request *request;
    const rd_algorithm *algorithm;
    uint64_t plans, steps, last_steps; /* last_steps: of the proof made last */
    uint32_t worlds, largest;
    bool refused, too_large;
} row;

typedef struct {
    uint64_t count;
    uint32_t size, root, width, chunks;
    bool mean;
    int place;
    const rd_hosts *hosts; /* or NULL: one */
} trial;

/* --- progress, on a line of standard error that is written over --- */

static void say_progress(const row *r, uint32_t n)
{
    if (r->request->progress)
        fprintf(stderr, "\r\033[K%s by %s: n = %" PRIu32, rd_kind_name(r->algorithm->kind),
                r->algorithm->name, n);
}

static void end_progress(const row *r)
{
    if (r->request->progress)
        fprintf(stderr, "\r\033[K");
}

/* --- one proof --- */

/* What to ask for so that a plan of this count is cut into about so many chunks. */
static uint64_t segment_for(const rd_algorithm *a, const trial *t)
{
    const uint64_t parts = a->flags & RD_PARTED ? t->size : 1;
    const uint64_t each = t->count / t->chunks / parts;
    return t->chunks == 1 ? 0 : (each ? each : 1) * t->width;
}

static void say_refusal(const row *r, const trial *t, const char *why)
{
    static const char *const places[] = {"not in place", "in place", "odd ranks in place"};
    const rd_algorithm *a = r->algorithm;
    char root[40] = "", hosts[CLI_HOSTS_TEXT] = "one host";
    end_progress(r);
    if (t->hosts)
        cli_hosts_text(t->hosts, hosts);
    if (rd_kind_rooted(a->kind))
        snprintf(root, sizeof root, ", root %" PRIu32, t->root);
    cli_failed("check",
               "%s by %s, %" PRIu32 " rank%s on %s, count %" PRIu64 " of %" PRIu32
               " byte%s%s%s, %s, segment %" PRIu64 ": refused: %s",
               rd_kind_name(a->kind), a->name, t->size, t->size == 1 ? "" : "s", hosts, t->count,
               t->width, t->width == 1 ? "" : "s", root, t->mean ? ", mean" : "", places[t->place],
               segment_for(a, t), why);
}

static bool prove(row *r, const trial *t)
{
    const rd_shape call = {.size = t->size,
                           .root = t->root,
                           .width = t->width,
                           .mean = t->mean,
                           .count = t->count,
                           .hosts = t->hosts};
    const rd_proof proof =
        rd_check_call(r->algorithm, &call, t->place, segment_for(r->algorithm, t));
    if (proof.too_large) {
        end_progress(r);
        cli_wrong("check", "%" PRIu32 " ranks and a count of %" PRIu64 " are too much for a proof",
                  t->size, t->count);
        r->too_large = true;
        return false;
    }
    if (!proof.ok) {
        say_refusal(r, t, proof.why);
        r->refused = true;
        return false;
    }
    r->plans += t->size;
    r->steps += proof.steps;
    r->last_steps = proof.steps;
    return true;
}

/* --- all that is tried in one world --- */

/* In place or not, mean or not: what the collective knows of these. */
static bool prove_places(row *r, trial t)
{
    const ronda_kind kind = r->algorithm->kind;
    const int places = rd_kind(kind)->place == RD_APART ? 1 : RD_PLACES;
    for (t.place = 0; t.place < places; t.place++)
        for (int mean = 0; mean <= rd_kind_means(kind); mean++) {
            t.mean = mean;
            if (!prove(r, &t))
                return false;
        }
    return true;
}

static bool prove_roots(row *r, trial t)
{
    const uint32_t roots[] = {0, 1, t.size / 2, t.size - 1};
    const uint32_t count = rd_kind_rooted(r->algorithm->kind) ? 4 : 1;
    for (uint32_t i = 0; i < count; i++) {
        bool seen = roots[i] >= t.size;
        for (uint32_t j = 0; j < i; j++)
            seen |= roots[j] == roots[i];
        t.root = roots[i];
        if (!seen && !prove_places(r, t))
            return false;
    }
    return true;
}

static bool prove_count(row *r, trial t)
{
    const bool whole = r->algorithm->flags & RD_WHOLE;
    const bool few = r->request->quick || t.size > MANY_CUTS_WORLD;
    const size_t count = few ? QUICK_CUTS : sizeof cuts / sizeof *cuts;
    for (size_t i = 0; i < count; i++) {
        t.chunks = cuts[i];
        if (t.chunks > 1 && (whole || t.count < t.chunks))
            break;
        if (!prove_roots(r, t))
            return false;
    }
    return true;
}

/* Empty, less than a rank's share, ragged, wide, and enough that cuts fall on cache lines.  Where the count
 * is each rank's, small ones are as telling. */
static uint32_t counts_for(const rd_algorithm *a, uint32_t n, bool quick, trial out[8])
{
    const rd_kind_facts *k = rd_kind(a->kind);
    const bool each = k->gives == RD_BLOCKS || k->gets == RD_BLOCKS;
    const uint64_t share = each ? 1 : n;
    uint32_t count = 0;
    if (a->kind == RONDA_BARRIER) {
        out[count++] = (trial){.count = 1, .width = 1};
        return count;
    }
    out[count++] = (trial){.count = 0, .width = 4};
    out[count++] = (trial){.count = 1, .width = 8};
    out[count++] = (trial){.count = 3 * share + 2, .width = 2};
    if (!quick)
        out[count++] = (trial){.count = each ? 53 : 16 * share + share / 2 + 5, .width = 8};
    if (!each) /* so wide that some algorithms cut it into fewer parts than there are ranks */
        out[count++] = (trial){.count = n / 2 + 5, .width = 8192};
    if (!quick && n > 2)
        out[count++] = (trial){.count = share + 1, .width = 1};
    return count;
}

static bool prove_counts(row *r, uint32_t n, const rd_hosts *hosts)
{
    const cli_check_request *q = r->request;
    trial trials[CLI_MOST_COUNTS] = {{0}};
    uint32_t count = r->algorithm->kind == RONDA_BARRIER ? 0 : q->count_count;
    for (uint32_t i = 0; i < count; i++)
        trials[i] = (trial){.count = q->counts[i], .width = 4};
    if (count == 0)
        count = counts_for(r->algorithm, n, q->quick, trials);
    for (uint32_t i = 0; i < count; i++) {
        trials[i].size = n;
        trials[i].hosts = hosts;
        if (!prove_count(r, trials[i]))
            return false;
    }
    r->worlds++;
    r->largest = n;
    return true;
}

static bool prove_map(row *r, uint32_t n, const uint32_t host_of[])
{
    rd_hosts *hosts = rd_hosts_make(host_of, n);
    const bool proved = hosts && prove_counts(r, n, hosts);
    if (!hosts)
        r->refused = cli_failed("check", "no memory") != CLI_OK;
    rd_hosts_free(hosts);
    return proved;
}

/* Hosts of equal size, whose ranks follow each other or are dealt out; then one, two and the rest. */
static bool prove_splits(row *r, uint32_t n)
{
    uint32_t in_order[HOSTS_WORLD], dealt[HOSTS_WORLD], uneven[HOSTS_WORLD];
    if (n > (r->request->quick ? QUICK_HOSTS_WORLD : HOSTS_WORLD))
        return true;
    for (uint32_t each = 1; each < n; each++) {
        for (uint32_t i = 0; i < n; i++) {
            in_order[i] = i / each;
            dealt[i] = i % (n / each);
        }
        if (n % each == 0 && (!prove_map(r, n, in_order) || !prove_map(r, n, dealt)))
            return false;
    }
    for (uint32_t i = 0; i < n; i++)
        uneven[i] = i == 0 ? 0 : i < 3 ? 1 : 2;
    return n < 4 || prove_map(r, n, uneven);
}

static bool prove_world(row *r, uint32_t n)
{
    const cli_check_request *q = r->request;
    const uint64_t plans = r->plans, steps = r->steps;
    say_progress(r, n);
    const bool proved = q->map.size ? prove_map(r, n, q->map.host_of) : prove_counts(r, n, NULL);
    if (!proved || (!q->map.size && r->algorithm->flags & RD_BY_HOST && !prove_splits(r, n)))
        return false;
    if (!q->verbose)
        return true;
    end_progress(r);
    printf("  %s by %s, %" PRIu32 " rank%s: %" PRIu64 " plans, %" PRIu64 " steps\n",
           rd_kind_name(r->algorithm->kind), r->algorithm->name, n, n == 1 ? "" : "s",
           r->plans - plans, r->steps - steps);
    return true;
}

/* --- one row --- */

static bool affordable(const row *r, uint32_t before, uint32_t size)
{
    const bool blocks = rd_kind(r->algorithm->kind)->gets == RD_BLOCKS;
    const uint64_t results = (uint64_t)size * (blocks ? size : 1);
    return results <= MOST_LARGER && r->last_steps * size / before * size / before <= MOST_LARGER;
}

/* One tiny proof per larger world, while it is affordable. */
static void prove_larger(row *r)
{
    trial t = {.count = 1, .size = r->largest, .width = 4, .chunks = 1};
    if (!prove(r, &t))
        return;
    for (size_t i = 0; i < sizeof larger_worlds / sizeof *larger_worlds; i++) {
        const uint32_t before = t.size;
        t.size = larger_worlds[i];
        if (!affordable(r, before, t.size))
            break;
        t.root = t.size / 3;
        say_progress(r, t.size);
        if (!prove(r, &t))
            return;
        r->worlds++;
        r->largest = t.size;
    }
}

static void prove_row(row *r)
{
    const cli_check_request *q = r->request;
    const uint64_t start = rd_now_ns();
    for (uint32_t n = q->first; n <= q->last && !r->refused && !r->too_large; n++)
        prove_world(r, n);
    if (q->larger && !r->refused && !r->too_large)
        prove_larger(r);
    end_progress(r);
    if (r->too_large)
        return;
    printf("%-15s  %-13s  %4" PRIu32 " worlds to %4" PRIu32 "  %8" PRIu64 " plans  %9" PRIu64
           " steps  %6.2f s  %s\n",
           rd_kind_name(r->algorithm->kind), r->algorithm->name, r->worlds, r->largest, r->plans,
           r->steps, (double)(rd_now_ns() - start) / 1e9, r->refused ? "REFUSED" : "proved");
}

int cli_check(int count, char **arguments)
{
    cli_check_request q;
    const int status = cli_check_read(count, arguments, &q);
    if (status)
        return status;
    uint64_t plans = 0, rows = 0, refused = 0;
    for (const rd_algorithm *a = rd_algorithms; a->name; a++) {
        row r = {.request = &q, .algorithm = a};
        if ((q.kind && a->kind != q.kind) || (q.algorithm && strcmp(a->name, q.algorithm) != 0))
            continue;
        prove_row(&r);
        if (r.too_large)
            return CLI_USAGE;
        plans += r.plans;
        rows++;
        refused += r.refused;
        if (!cli_flush())
            return CLI_FAILED;
    }
    printf("proved %" PRIu64 " plans of %" PRIu64 " algorithm%s, %" PRIu64 " refused\n", plans,
           rows, rows == 1 ? "" : "s", refused);
    return refused ? CLI_FAILED : CLI_OK;
}
