/* doctor_outliers.c: which pairs are far from the others, and what all of them have in common.
 *
 * Pairs inside hosts are compared with pairs inside hosts, those between hosts with those between. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

/* A pair is named if its bandwidth is below a quarter of the median, or its latency ten times the median and
 * half a millisecond above it: less is what machines do that have other work. */
static const double LOW_RATE = 0.25, HIGH_LATENCY = 10, HIGH_US = 500;
static const double SLOW_LINK = 0.25; /* of what the interface says that it can */
enum { MOST_NAMED = 8, LEAST_PAIRS = 3 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double doctor_median(const doctor_pair pairs[], uint32_t count, bool here, bool rate)
{
    double *values = malloc((count + 1) * sizeof *values), median = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < count && values; i++)
        if (pairs[i].measured && pairs[i].here == here)
            values[n++] = rate ? pairs[i].rate : pairs[i].us;
    if (n >= LEAST_PAIRS) {
        qsort(values, n, sizeof *values, compare);
        median = values[n / 2];
    }
    free(values);
    return median;
}

static bool is_slow(const doctor_pair pairs[], uint32_t count, const doctor_pair *p)
{
    return p->measured && p->rate < LOW_RATE * doctor_median(pairs, count, p->here, true);
}

static bool is_late(const doctor_pair pairs[], uint32_t count, const doctor_pair *p)
{
    const double median = doctor_median(pairs, count, p->here, false);
    return p->measured && median > 0 && p->us > HIGH_LATENCY * median && p->us > median + HIGH_US;
}

bool doctor_is_outlier(const doctor_pair pairs[], uint32_t count, const doctor_pair *pair)
{
    return is_slow(pairs, count, pair) || is_late(pairs, count, pair);
}

/* --- words --- */

static doctor_count rate_text(double rate)
{
    doctor_count made;
    if (rate >= 1e9)
        snprintf(made.text, sizeof made.text, "%.1f GB/s", rate / 1e9);
    else
        snprintf(made.text, sizeof made.text, rate < 10e6 ? "%.2f MB/s" : "%.0f MB/s", rate / 1e6);
    return made;
}

static doctor_count us_text(double us)
{
    doctor_count made;
    snprintf(made.text, sizeof made.text, us < 1000 ? "%.1f us" : "%.0f us", us);
    return made;
}

/* "rank 3 (host a) to rank 5 (host b)" */
static void pair_text(const doctor_facts facts[], const doctor_pair *p, char *text, size_t capacity)
{
    char a[DOCTOR_WHO], b[DOCTOR_WHO];
    doctor_rank_name(facts, p->a, a, sizeof a);
    doctor_rank_name(facts, p->b, b, sizeof b);
    snprintf(text, capacity, "%s to %s", a, b);
}

/* --- what is said --- */

static void say_range(doctor_list *list, const doctor_pair pairs[], uint32_t count, bool here)
{
    double least[2] = {0}, most[2] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double values[2] = {pairs[i].us, pairs[i].rate};
        if (!pairs[i].measured || pairs[i].here != here)
            continue;
        for (int v = 0; v < 2; v++) {
            least[v] = !n || values[v] < least[v] ? values[v] : least[v];
            most[v] = !n || values[v] > most[v] ? values[v] : most[v];
        }
        n++;
    }
    if (!n)
        return;
    const doctor_count us[2] = {us_text(least[0]), us_text(most[0])};
    const doctor_count rate[2] = {rate_text(least[1]), rate_text(most[1])};
    const char *where = here ? "inside hosts" : "between hosts";
    if (n == 1)
        doctor_say(list, DOCTOR_OK, "pairs", "%s, 1 pair measured: %s, %s", where, us[0].text,
                   rate[0].text);
    else
        doctor_say(list, DOCTOR_OK, "pairs", "%s, %u pairs measured: %s to %s, %s to %s", where, n,
                   us[0].text, us[1].text, rate[0].text, rate[1].text);
}

/* Is every pair of this host with others odd?  Then it is the host. */
static bool is_odd_host(const doctor_facts facts[], const doctor_pair pairs[], uint32_t count,
                        uint32_t host)
{
    uint32_t odd = 0, all = 0;
    for (uint32_t i = 0; i < count; i++) {
        const doctor_pair *p = &pairs[i];
        if (!p->measured || p->here ||
            (facts[p->a].host_index != host && facts[p->b].host_index != host))
            continue;
        all++;
        odd += doctor_is_outlier(pairs, count, p);
    }
    return all >= LEAST_PAIRS && odd == all;
}

static void say_pair(doctor_list *list, const doctor_facts facts[], const doctor_pair pairs[],
                     uint32_t count, const doctor_pair *p)
{
    char who[2 * DOCTOR_WHO + 8];
    pair_text(facts, p, who, sizeof who);
    const double rate = doctor_median(pairs, count, p->here, true),
                 us = doctor_median(pairs, count, p->here, false);
    if (is_slow(pairs, count, p))
        doctor_say(list, DOCTOR_PROBLEM, "pairs",
                   "%s: %s, one %.0fth of the median of such pairs, %s", who,
                   rate_text(p->rate).text, rate / p->rate, rate_text(rate).text);
    else
        doctor_say(list, DOCTOR_PROBLEM, "pairs",
                   "%s: a message takes %s, %.0f times the median of such pairs, %s", who,
                   us_text(p->us).text, p->us / us, us_text(us).text);
    doctor_advise(
        list, p->here ? "look what else runs on the cores of the two, and to what they are bound "
                        "(ronda run --bind)"
                      : "look at the way between the two: cables, speed and errors of their ports "
                        "(ip -s link), a route through a slower interface (ip route get), traffic "
                        "limits (tc qdisc); RONDA_IFACE names another");
}

static void say_host(doctor_list *list, const doctor_facts facts[], const doctor_pair pairs[],
                     uint32_t count, uint32_t rank)
{
    double best = 0;
    for (uint32_t i = 0; i < count; i++)
        if (pairs[i].measured && !pairs[i].here &&
            (facts[pairs[i].a].host_index == facts[rank].host_index ||
             facts[pairs[i].b].host_index == facts[rank].host_index) &&
            pairs[i].rate > best)
            best = pairs[i].rate;
    doctor_say(
        list, DOCTOR_PROBLEM, "pairs",
        "host %s: all its pairs with other hosts are far from the median, %s: the best has %s",
        facts[rank].host_name, rate_text(doctor_median(pairs, count, false, true)).text,
        rate_text(best).text);
    doctor_advise(list,
                  "look at this host's interface and port: ip -s link, ethtool, tc qdisc; or leave "
                  "it out");
}

/* What interfaces claim, where there are too few pairs to compare, or all are slow. */
static void say_slow_link(doctor_list *list, const doctor_facts facts[], const doctor_pair pairs[],
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const doctor_pair *p = &pairs[i];
        const uint32_t a = facts[p->a].megabits, b = facts[p->b].megabits, less = a < b ? a : b;
        const double can = less * 1e6 / 8;
        char who[2 * DOCTOR_WHO + 8];
        if (!p->measured || p->here || !less || p->rate >= SLOW_LINK * can ||
            doctor_is_outlier(pairs, count, p))
            continue;
        pair_text(facts, p, who, sizeof who);
        doctor_say(list, DOCTOR_NOTE, "pairs", "%s: %s, though their interfaces say %s", who,
                   rate_text(p->rate).text, rate_text(can).text);
        doctor_advise(list, "look at the way between hosts, and whether other traffic was on it");
        return; /* one is enough */
    }
}

void doctor_outliers(doctor_list *list, const doctor_facts facts[], uint32_t size,
                     const doctor_pair pairs[], uint32_t count)
{
    uint32_t named = 0, odd = 0;
    bool *known = calloc(size, sizeof *known); /* hosts */
    say_range(list, pairs, count, true);
    say_range(list, pairs, count, false);
    for (uint32_t r = 0; r < size && known; r++)
        if (!known[facts[r].host_index] && is_odd_host(facts, pairs, count, facts[r].host_index)) {
            known[facts[r].host_index] = true;
            say_host(list, facts, pairs, count, r);
        }
    for (uint32_t i = 0; i < count && known; i++) {
        const doctor_pair *p = &pairs[i];
        if (!doctor_is_outlier(pairs, count, p) ||
            (!p->here && (known[facts[p->a].host_index] || known[facts[p->b].host_index])))
            continue;
        odd++;
        if (named++ < MOST_NAMED)
            say_pair(list, facts, pairs, count, p);
    }
    if (odd > MOST_NAMED) {
        doctor_say(list, DOCTOR_PROBLEM, "pairs", "%s more are far from the median",
                   doctor_many(odd - MOST_NAMED, "pair").text);
        doctor_advise(list, "ronda doctor --json has them all");
    }
    say_slow_link(list, facts, pairs, count);
    free(known);
}
