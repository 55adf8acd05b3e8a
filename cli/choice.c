/* choice.c: which algorithm is cheapest for a shape, and why. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/names.h"
#include "plan.h"
#include "transport/transports.h"

/* Communicators choose for a class of sizes, and what is cheapest for this one may be another. */
static bool put_first(cli_choice *c, const rd_algorithm *chosen, uint64_t class_count)
{
    uint32_t at = 0;
    while (at + 1 < c->count && c->prices[at].algorithm != chosen)
        at++;
    const rd_price price = c->prices[at];
    c->class_count = at ? class_count : 0;
    for (; at > 0; at--)
        c->prices[at] = c->prices[at - 1];
    c->prices[0] = price;
    return true;
}

bool cli_choose(const cli_plan_request *q, cli_choice *out)
{
    const uint32_t cpus = rd_usable_cpus();
    const rd_hosts *hosts = q->shape.hosts;
    *out = (cli_choice){.facts = q->threads ? rd_facts_of(&rd_local, cpus)
                                 : hosts && hosts->count > 1
                                     ? rd_facts_of(&rd_mixed, cpus * hosts->count)
                                     : rd_facts_of(&rd_shm, cpus)};
    if (q->cut) {
        out->facts.segment_bytes = q->segment_bytes ? q->segment_bytes : UINT64_MAX;
        out->facts.part_bytes = 0;
    }
    const rd_shape class = rd_class_of(&q->shape);
    const rd_algorithm *chosen = rd_choose(&class, &out->facts, NULL, NULL);
    return chosen && rd_choose(&q->shape, &out->facts, out->prices, &out->count) &&
           put_first(out, chosen, class.count);
}

static void time_text(double ns, char text[16])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    int unit = 0;
    for (; unit < 3 && ns >= 1000; unit++)
        ns /= 1000;
    snprintf(text, 16,
             unit == 0 || ns >= 100 ? "%.0f %s"
             : ns >= 10             ? "%.1f %s"
                                    : "%.2f %s",
             ns, units[unit]);
}

/* "processes on 2 cores", "... on 2 hosts of 4, with sockets between hosts and 2 cores on each" */
static void print_where(const cli_choice *c, const rd_hosts *hosts)
{
    const uint32_t cpus = c->facts.cpus / (c->facts.far ? hosts->count : 1);
    char text[CLI_HOSTS_TEXT];
    printf("%s on ", c->facts.copies ? "processes" : "threads");
    if (c->facts.far)
        printf("%s,\n  with sockets between hosts and ", cli_hosts_text(hosts, text));
    printf("%" PRIu32 " core%s%s.\n", cpus, cpus == 1 ? "" : "s", c->facts.far ? " on each" : "");
}

static void print_table(const cli_choice *c, const rd_algorithm *shown, const rd_hosts *hosts)
{
    printf("  %-13s  %7s  %9s  %14s  %9s\n", "algorithm", "rounds", "messages", "bytes sent",
           "estimate");
    for (uint32_t i = 0; i < c->count; i++) {
        const rd_price *p = &c->prices[i];
        char time[16];
        time_text(p->ns, time);
        printf("  %-13s  %7" PRIu32 "  %9" PRIu32 "  %14" PRIu64 "  %9s%s%s\n", p->algorithm->name,
               p->rounds, p->messages, p->sent_bytes, time, p->bulky ? "   too much scratch" : "",
               p->algorithm == shown ? "   <- shown above" : "");
    }
    printf(
        "\n  Messages in and out, and bytes sent, of the busiest rank; the time is a model's, for ");
    print_where(c, hosts);
}

/* --- why: one sentence --- */

typedef struct {
    char text[200];
    size_t length;
} phrase;

/* "2 rounds, not 6; 12 messages, not 28" */
static void add(phrase *p, const char *what, uint64_t mine, uint64_t theirs)
{
    if (p->length < sizeof p->text)
        p->length += (size_t)snprintf(p->text + p->length, sizeof p->text - p->length,
                                      "%s%" PRIu64 " %s%s, not %" PRIu64, p->length ? "; " : "",
                                      mine, what, mine == 1 ? "" : "s", theirs);
}

/* What the first has better than the second, and what it has worse; a difference of a few bytes in a
 * hundred is neither. */
static void compare(const rd_price *first, const rd_price *second, phrase *better, phrase *worse)
{
    const struct {
        const char *what;
        uint64_t mine, theirs;
    } facts[] = {{"round", first->rounds, second->rounds},
                 {"message", first->messages, second->messages},
                 {"byte", first->sent_bytes, second->sent_bytes}};
    for (int i = 0; i < 3; i++) {
        const double mine = (double)facts[i].mine, theirs = (double)facts[i].theirs;
        if (mine < 0.95 * theirs || theirs < 0.95 * mine)
            add(mine < theirs ? better : worse, facts[i].what, facts[i].mine, facts[i].theirs);
    }
}

/* The candidate that would send most, if that is much more than the cheapest one sends. */
static const rd_price *wasteful(const cli_choice *c)
{
    const rd_price *most = NULL;
    for (uint32_t i = 1; i < c->count; i++)
        if (c->prices[i].sent_bytes >= 2 * c->prices[0].sent_bytes &&
            (!most || c->prices[i].sent_bytes > most->sent_bytes))
            most = &c->prices[i];
    return c->prices[0].sent_bytes ? most : NULL;
}

static void print_why(const cli_choice *c, const rd_shape *s)
{
    const rd_price *first = &c->prices[0], *second = &c->prices[1];
    const char *name = first->algorithm->name;
    phrase better = {"", 0}, worse = {"", 0};
    if (s->size == 1) {
        printf("  With one rank nothing is sent, and all are alike.\n");
        return;
    }
    if (c->count == 1) {
        printf("  There is no other than %s.\n", name);
        return;
    }
    if (c->class_count) {
        printf("  %s is cheapest for %" PRIu64
               " elements, by which its class of sizes is priced.\n",
               name, c->class_count);
        return;
    }
    compare(first, second, &better, &worse);
    printf("  %s rather than %s: ", name, second->algorithm->name);
    if (second->bulky && !first->bulky)
        printf("no great scratch%s%s", better.length ? "; " : "", better.text);
    else if (better.length)
        printf("%s", better.text);
    else
        printf(first->ns < second->ns ? "its busiest rank has less to do" : "they cost the same");
    printf("%s%s.\n", worse.length ? "; though " : "", worse.text);
    const rd_price *most = wasteful(c);
    if (most && most != second)
        printf("  %s would send %.3g times as much.\n", most->algorithm->name,
               (double)most->sent_bytes / (double)first->sent_bytes);
}

void cli_choice_print(const cli_choice *c, const cli_plan_request *q)
{
    const rd_algorithm *chosen = q->forced ? q->forced : c->prices[0].algorithm;
    printf("chosen for this shape: %s\n\n", chosen->name);
    print_table(c, q->algorithm, q->shape.hosts);
    print_why(c, &q->shape);
    if (q->forced)
        printf("  RONDA_ALGO is set, and it names %s.\n", q->forced->name);
    if (q->algorithm && q->algorithm->flags & RD_BY_HOST && !rd_has_hosts(&q->shape))
        printf("  %s is for worlds of several hosts (--hosts); in others it is never chosen.\n",
               q->algorithm->name);
    if (q->algorithm && q->algorithm->flags & RD_REFERENCE)
        printf("  %s is there to compare with; it is never chosen by itself.\n",
               q->algorithm->name);
}
