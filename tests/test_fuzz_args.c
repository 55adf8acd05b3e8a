/* test_fuzz_args.c: the arguments of the command, mangled.
 *
 * What a reader takes must be a request that can be served; what it refuses it says in one line on
 * standard error, with the command's name before it, and it exits with CLI_USAGE.  Nothing is run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cli/args.h"
#include "../cli/bench.h"
#include "../cli/check.h"
#include "../cli/picture.h"
#include "../cli/plan.h"
#include "../cli/run.h"
#include "base/names.h"
#include "mangle.h"

enum { MOST_WORDS = 12 };

/* Words as main() would get them: each in a block of its own, NULL at the end. */
typedef struct {
    char *at[MOST_WORDS + 1];
    int count;
} words;

static words draw_words(rng *r, const char *const texts[])
{
    words w = {.count = (int)rng_below(r, MOST_WORDS + 1)};
    for (int i = 0; i < w.count; i++) {
        const char *one[] = {NULL, NULL};
        size_t count = 0;
        while (texts[count])
            count++;
        one[0] = texts[rng_below(r, count)];
        w.at[i] = rng_below(r, 4) ? strdup(one[0]) : mangled_text(r, one);
    }
    return w;
}

static void free_words(words *w)
{
    for (int i = 0; i < w->count; i++)
        free(w->at[i]);
}

/* The words as one line for messages; good until the next call. */
static const char *shown(const words *w)
{
    static char text[600];
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < w->count && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "[%.60s] ", w->at[i]);
    return text;
}

/* --- standard error, caught --- */

static int caught = -1, kept = -1;

static bool catch_errors(void)
{
    fflush(stderr);
    caught = memfd_create("errors", MFD_CLOEXEC);
    kept = dup(STDERR_FILENO);
    return caught >= 0 && kept >= 0 && dup2(caught, STDERR_FILENO) >= 0;
}

static void release_errors(void)
{
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(caught);
}

/* What was said since the last time. */
static void said(char *text, size_t capacity)
{
    fflush(stderr);
    const ssize_t n = pread(caught, text, capacity - 1, 0);
    text[n > 0 ? n : 0] = 0;
    if (ftruncate(caught, 0) == 0)
        lseek(STDERR_FILENO, 0, SEEK_SET);
}

static void check_said(int status, const char *command, const words *w)
{
    char text[2000], prefix[40];
    said(text, sizeof text);
    snprintf(prefix, sizeof prefix, "ronda %s: ", command);
    if (!CHECK(status == CLI_OK || status == CLI_USAGE, "%s: status %d", shown(w), status))
        return;
    if (status == CLI_OK) {
        CHECK(!*text, "%s: taken, but it said %s", shown(w), text);
        return;
    }
    const char *end = strchr(text, '\n');
    bool plain = true;
    for (const char *c = text; c < end; c++)
        plain &= (unsigned char)*c >= ' ' && *c != 127;
    CHECK(end && !end[1] && plain && strncmp(text, prefix, strlen(prefix)) == 0 &&
              strlen(text) > strlen(prefix) + 5,
          "%s: it said '%s'", shown(w), text);
}

static uint32_t rounds(void)
{
    return test_sanitized() ? 20000 : 200000;
}

/* --- the readers --- */

static void check_plan(const cli_plan_request *q, const words *w)
{
    const rd_shape *s = &q->shape;
    CHECK(s->size >= 1 && s->size <= 1024 && s->rank < s->size && s->root < s->size, "%s",
          shown(w));
    CHECK(s->width == ronda_type_size(q->type) && s->width && rd_op_allows(q->op, q->type), "%s",
          shown(w));
    CHECK(s->count <= (uint64_t)PTRDIFF_MAX / s->width / s->size, "%s", shown(w));
    CHECK(s->kind || q->list || q->summary, "%s: of what?", shown(w));
    CHECK(!q->algorithm || q->algorithm->kind == s->kind, "%s", shown(w));
    CHECK(!(q->draw || q->svg) || !(q->list || q->summary || q->all_ranks), "%s: which?", shown(w));
    CHECK(!q->draw || (s->size <= CLI_TEXT_RANKS && !(q->svg && strcmp(q->svg, "-") == 0)), "%s",
          shown(w));
    CHECK(!q->svg || (*q->svg && s->size <= CLI_SVG_RANKS), "%s", shown(w));
    CHECK(q->map.size == 0 || q->map.size == s->size, "%s: %u ranks on hosts", shown(w),
          q->map.size);
    if (s->kind && s->size <= 8) { /* and it can be priced */
        cli_choice c;
        CHECK(cli_choose(q, &c) && c.count >= 1 && c.count <= RD_MOST_CANDIDATES, "%s: no choice",
              shown(w));
        for (uint32_t i = 0; i < c.count; i++)
            CHECK(c.prices[i].algorithm->kind == s->kind && c.prices[i].ns >= 0 &&
                      (!i || c.prices[i - 1].bulky < c.prices[i].bulky ||
                       (c.prices[i - 1].bulky == c.prices[i].bulky &&
                        c.prices[i - 1].ns <= c.prices[i].ns)),
                  "%s: the prices are not in order", shown(w));
    }
}

TEST(mangled_arguments_of_plan)
{
    static const char *const texts[] = {"--collective=allreduce",
                                        "-c",
                                        "broadcast",
                                        "barrier",
                                        "--algo",
                                        "ring",
                                        "-atree",
                                        "-n",
                                        "4",
                                        "-n8",
                                        "--hosts",
                                        "--hosts=2x4",
                                        "4,3,1",
                                        "--size=3",
                                        "--rank",
                                        "2",
                                        "-r=1",
                                        "--count",
                                        "1000",
                                        "--count=0",
                                        "--type",
                                        "bf16",
                                        "--type=u64",
                                        "--op",
                                        "sum",
                                        "--op=band",
                                        "--root=1",
                                        "--in-place",
                                        "--segment=65536",
                                        "--all-ranks",
                                        "--summary",
                                        "--list",
                                        "--draw",
                                        "--svg",
                                        "--svg=-",
                                        "9223372036854775807",
                                        NULL};
    rng r = rng_start();
    uint32_t taken = 0;
    if (!CHECK(catch_errors(), "cannot redirect"))
        return;
    for (uint32_t i = 0; i < rounds() && !test_failed(); i++) {
        words w = draw_words(&r, texts);
        cli_plan_request q;
        const int status = cli_plan_read(w.count, w.at, &q);
        check_said(status, "plan", &w);
        if (status == CLI_OK)
            check_plan(&q, &w);
        taken += status == CLI_OK;
        free_words(&w);
    }
    release_errors();
    CHECK(taken > rounds() / 100, "only %u were taken", taken);
}

TEST(mangled_arguments_of_check)
{
    static const char *const texts[] = {"--collective=allgather",
                                        "-c",
                                        "reduce_scatter",
                                        "--algo",
                                        "direct",
                                        "-aring",
                                        "-n",
                                        "8",
                                        "-n2..5",
                                        "--size=1..33",
                                        "1024..1024",
                                        "--count",
                                        "0,1,17",
                                        "--count=5",
                                        "--quick",
                                        "-q",
                                        "--verbose",
                                        "-v",
                                        "--progress",
                                        NULL};
    rng r = rng_start();
    uint32_t taken = 0;
    if (!CHECK(catch_errors(), "cannot redirect"))
        return;
    for (uint32_t i = 0; i < rounds() && !test_failed(); i++) {
        words w = draw_words(&r, texts);
        cli_check_request q;
        const int status = cli_check_read(w.count, w.at, &q);
        check_said(status, "check", &w);
        if (status == CLI_OK)
            CHECK(q.first >= 1 && q.first <= q.last && q.last <= 1024 &&
                      q.count_count <= CLI_MOST_COUNTS &&
                      (!q.kind || strcmp(rd_kind_name(q.kind), "?")),
                  "%s: %u..%u, %u counts", shown(&w), q.first, q.last, q.count_count);
        taken += status == CLI_OK;
        free_words(&w);
    }
    release_errors();
    CHECK(taken > rounds() / 100, "only %u were taken", taken);
}

TEST(mangled_arguments_of_run)
{
    static const char *const texts[] = {"-n",
                                        "4",
                                        "-n2",
                                        "--size=4096",
                                        "--label",
                                        "-l",
                                        "--bind",
                                        "-b",
                                        "--timeout",
                                        "0.5",
                                        "-t10",
                                        "--grace=0",
                                        "-g",
                                        "5",
                                        "--dry-run",
                                        "--",
                                        "true",
                                        "./program",
                                        "--help",
                                        "--hosts=x",
                                        "--host",
                                        "a:4,b",
                                        "--addr",
                                        "10.0.0.1:0",
                                        "--addr=[::1]:4711",
                                        "--agent",
                                        "ip netns exec {host}",
                                        "--remote-ronda",
                                        "/usr/bin/ronda",
                                        "-e",
                                        "NAME=value",
                                        "--env=A=b",
                                        NULL};
    rng r = rng_start();
    uint32_t taken = 0;
    if (!CHECK(catch_errors(), "cannot redirect"))
        return;
    for (uint32_t i = 0; i < rounds() && !test_failed(); i++) {
        words w = draw_words(&r, texts);
        run_request q;
        const int status = run_read(w.count, w.at, &q);
        check_said(status, "run", &w);
        if (status == CLI_OK && !q.help)
            CHECK((q.size >= 1 || q.hosts_file || q.host_names) && q.size <= RUN_MOST_RANKS &&
                      q.count == q.size && !(q.hosts_file && q.host_names) &&
                      q.variable_count <= RUN_MOST_VARIABLES && q.program >= w.at &&
                      q.program < w.at + w.count && **q.program &&
                      q.timeout_ns <= 1000000000000000000 && q.grace_ns <= 1000000000000000000,
                  "%s: %u ranks", shown(&w), q.size);
        taken += status == CLI_OK;
        free_words(&w);
    }
    release_errors();
    CHECK(taken > rounds() / 100, "only %u were taken", taken);
}

TEST(mangled_arguments_of_bench)
{
    static const char *const texts[] = {
        "-n",          "4",           "--size=2",     "-c",       "allreduce,barrier",
        "--min",       "8",           "--min=1K",     "--max",    "64M",
        "--max=1G",    "--factor",    "2.5",          "--sizes",  "8,1K,64K",
        "--type=bf16", "-tf32,u8",    "-o",           "sum,max",  "--op=bxor",
        "-aall",       "--algo=ring", "-mboth",       "-m",       "private",
        "--root=3",    "-s0.1",       "--seconds",    "-fcsv",    "--format=json",
        "--samples",   "--quiet",     "--plot=x.svg", "--output", "file",
        "-q",          "1T",          "allocated",    "-call",    "--collective=scan,alltoallv",
        NULL};
    rng r = rng_start();
    uint32_t taken = 0;
    if (!CHECK(catch_errors(), "cannot redirect"))
        return;
    for (uint32_t i = 0; i < rounds() && !test_failed(); i++) {
        words w = draw_words(&r, texts);
        bench_request q;
        const int status = bench_read(w.count, w.at, &q);
        check_said(status, "bench", &w);
        if (status == CLI_OK)
            CHECK(q.ranks <= RD_MOST_PROCESSES && q.kind_count >= 1 &&
                      q.kind_count <= BENCH_KINDS && q.type_count >= 1 &&
                      q.type_count <= BENCH_TYPES && q.op_count >= 1 && q.op_count <= BENCH_OPS &&
                      q.algorithm_count <= BENCH_ALGORITHMS && q.size_count <= BENCH_SIZES &&
                      q.max >= 1 && q.max <= BENCH_MOST_BYTES && (q.size_count || q.min <= q.max) &&
                      q.factor > 1 && q.seconds >= 0 && q.memory >= 1 && q.memory <= 3 &&
                      q.format >= BENCH_TABLE && q.format <= BENCH_JSON,
                  "%s", shown(&w));
        taken += status == CLI_OK;
        free_words(&w);
    }
    release_errors();
    CHECK(taken > rounds() / 200, "only %u were taken", taken);
}

TEST(numbers_come_out_as_they_went_in)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds() && !test_failed(); i++) {
        const uint64_t number = rng_next(&r) >> rng_below(&r, 64);
        char text[40];
        const char *end = "";
        uint64_t got = 0;
        snprintf(text, sizeof text, "%" PRIu64 "x", number);
        CHECK(cli_digits(text, &got, &end) && got == number && strcmp(end, "x") == 0, "%s", text);
    }
}
