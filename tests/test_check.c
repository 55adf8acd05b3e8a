/* test_check.c: every row of the table is proved, for every small world and for large ones.
 * What a proof must refuse is in test_refusals.c and test_mutants.c. */
#include <string.h>

#include "base/mem.h"
#include "harness.h"
#include "oddities.h"
#include "plan/hosts.h"
#include "proof/check.h"

enum { WORKERS = 4 };

typedef struct {
    const rd_algorithm *a;
    uint32_t n, root, width;
    uint64_t count, segment;
    bool mean;
    int place;
    const rd_hosts *hosts;
} question;

static void prove(question q)
{
    const rd_shape call = {.size = q.n,
                           .root = q.root,
                           .width = q.width,
                           .mean = q.mean,
                           .count = q.count,
                           .hosts = q.hosts};
    const rd_proof proof = rd_check_call(q.a, &call, q.place, q.segment);
    CHECK(proof.ok,
          "kind %d %s n=%u hosts=%u count=%" PRIu64
          " root=%u width=%u mean=%d place=%d segment=%" PRIu64 ": %s",
          q.a->kind, q.a->name, q.n, q.hosts ? q.hosts->count : 1, q.count, q.root, q.width, q.mean,
          q.place, q.segment, proof.why);
    CHECK(proof.ok == (proof.why[0] == 0), "ok is %d and why is \"%s\"", proof.ok, proof.why);
}

static bool means(const rd_algorithm *a)
{
    return rd_kind_means(a->kind);
}

/* Everyone has blocks of every rank, so counts weigh more. */
static bool has_blocks(const rd_algorithm *a)
{
    return rd_kind(a->kind)->gives == RD_BLOCKS || rd_kind(a->kind)->gets == RD_BLOCKS;
}

/* Of one world, count and segment: roots, places, mean or not.  `few`: not every mixture of them. */
static void prove_variants(question q, bool few)
{
    const uint32_t roots[] = {0, 1, q.n / 2, q.n - 1};
    const bool rooted = rd_kind_rooted(q.a->kind), all = q.n <= 9;
    const bool placed = rd_kind(q.a->kind)->place != RD_APART;
    for (uint32_t i = 0; i < (rooted ? (all ? q.n : 4) : 1); i++)
        for (q.place = few && placed ? RD_PLACE_MIXED : 0; q.place < (placed ? RD_PLACES : 1);
             q.place++)
            for (int mean = few && means(q.a); mean <= means(q.a); mean++) {
                q.root = all ? i : roots[i];
                q.mean = mean;
                prove(q);
            }
}

static void prove_world(const rd_algorithm *a, uint32_t n, const rd_hosts *hosts)
{
    static const uint64_t segments[] = {0, 4, 20, 64};
    const uint64_t counts[] = {0, 1, 2, 3, n - 1, n, n + 1, 2 * n + 3, 61, 200};
    const uint64_t most = !has_blocks(a) ? (hosts && n > 9 ? 61 : UINT64_MAX)
                          : n <= 9       ? (hosts ? 19 : 61)
                          : n <= 17      ? 11
                                         : 5;
    const bool barrier = a->kind == RONDA_BARRIER;
    for (size_t c = 0; c < (barrier ? 1 : sizeof counts / sizeof *counts); c++) {
        if (counts[c] > most || (c > 4 && counts[c] <= 3))
            continue;
        question q = {.a = a, .n = n, .count = counts[c], .width = 4, .hosts = hosts};
        for (size_t g = 0; g < (barrier || a->flags & RD_WHOLE ? 1 : 4); g++) {
            q.segment = segments[g];
            if (g > 0 && (q.count * 4 <= q.segment || q.count * 4 > 64 * q.segment))
                continue; /* one chunk again, or very many */
            prove_variants(q, (g > 0 && n > 9) || (hosts && n > 6));
        }
        q.width = c % 2 ? 1 : 8;
        q.segment = 16;
        prove_variants(q, n > 9 || hosts);
        q.width = c % 2 ? 3000 : 8192; /* for those that count parts by their bytes */
        q.segment = 0;
        if (!has_blocks(a) && !barrier && !hosts)
            prove_variants(q, n > 9);
    }
}

/* Worlds go to the workers in turn, so that each has small and large ones. */
static void prove_small_worlds(void *context, uint32_t worker)
{
    const rd_algorithm *rows = context;
    const uint32_t most = test_sanitized() ? 5 : 33;
    for (uint32_t n = 1 + worker; n <= most; n += WORKERS)
        for (const rd_algorithm *a = rows; a->name && !test_failed(); a++)
            prove_world(a, n, NULL);
}

TEST(every_row_is_proved_for_every_small_world)
{
    test_deadline(600);
    run_ranks(WORKERS, prove_small_worlds, (void *)(uintptr_t)rd_algorithms);
}

TEST(rows_that_nobody_needs_are_proved_too)
{
    for (uint32_t n = 1; n <= 9; n++)
        for (const rd_algorithm *a = oddities; a->name; a++)
            prove_world(a, n, NULL);
}

/* --- worlds of several hosts --- */

/* Rows made for hosts, on this map of them. */
static void prove_hosts(const uint32_t host_of[], uint32_t n)
{
    rd_hosts *hosts = rd_hosts_make(host_of, n);
    if (!CHECK(hosts, "no memory"))
        return;
    for (const rd_algorithm *a = rd_algorithms; a->name && !test_failed(); a++)
        if (a->flags & RD_BY_HOST)
            prove_world(a, n, hosts);
    rd_hosts_free(hosts);
}

enum { MOST_HOST_WORLD = 16 };

/* Every split of a world into hosts of equal size, one rank on each and all on one included; the ranks of a
 * host follow each other, or are dealt out like cards. */
static void prove_even_hosts(void *context, uint32_t worker)
{
    (void)context;
    const uint32_t most = test_sanitized() ? 5 : MOST_HOST_WORLD;
    for (uint32_t n = 1 + worker; n <= most; n += WORKERS)
        for (uint32_t each = 1; each <= n; each++) {
            uint32_t rows[MOST_HOST_WORLD], dealt[MOST_HOST_WORLD];
            if (n % each)
                continue;
            for (uint32_t r = 0; r < n; r++) {
                rows[r] = r / each;
                dealt[r] = r % (n / each);
            }
            prove_hosts(rows, n);
            prove_hosts(dealt, n);
        }
}

TEST(rows_for_hosts_are_proved_for_every_even_split)
{
    test_deadline(600);
    run_ranks(WORKERS, prove_even_hosts, NULL);
}

/* Hosts of different sizes, in any order of ranks. */
static void prove_uneven_hosts(void *context, uint32_t worker)
{
    const rng *seed = context;
    rng random = {seed->state + worker};
    for (uint32_t i = 0; i < (test_sanitized() ? 4 : 12) && !test_failed(); i++) {
        const uint32_t n = 2 + (uint32_t)rng_below(&random, test_sanitized() ? 5 : 11);
        const uint32_t hosts = 2 + (uint32_t)rng_below(&random, n - 1);
        uint32_t host_of[MOST_HOST_WORLD];
        for (uint32_t r = 0; r < n; r++) {
            host_of[r] = (uint32_t)rng_below(&random, hosts);
            if (i % 2 && r && host_of[r] < host_of[r - 1])
                host_of[r] = host_of[r - 1]; /* in order */
        }
        prove_hosts(host_of, n);
    }
}

TEST(rows_for_hosts_are_proved_for_uneven_hosts)
{
    rng random = rng_start();
    test_deadline(600);
    run_ranks(WORKERS, prove_uneven_hosts, &random);
}

TEST(rows_for_hosts_are_proved_for_many_ranks)
{
    const uint32_t hosts = test_sanitized() ? 3 : 9, each = test_sanitized() ? 4 : 16;
    rd_hosts *map = rd_hosts_even(hosts, each);
    for (const rd_algorithm *a = rd_algorithms; a->name && map; a++)
        if (a->flags & RD_BY_HOST)
            prove((question){.a = a,
                             .n = hosts * each,
                             .root = hosts * each / 3,
                             .width = 4,
                             .count = has_blocks(a) ? 2 : 5 * hosts * each + 7,
                             .segment = 32,
                             .mean = means(a),
                             .place = RD_PLACE_MIXED,
                             .hosts = map});
    rd_hosts_free(map);
}

/* All others do not look at the map. */
TEST(a_map_of_hosts_changes_no_other_row)
{
    static const uint32_t host_of[] = {4, 4, 2, 4, 2, 9};
    rd_hosts *hosts = rd_hosts_make(host_of, 6);
    for (const rd_algorithm *a = rd_algorithms; a->name && hosts; a++) {
        const rd_shape bare = {.size = 6, .root = 2, .width = 4, .count = 40};
        rd_shape mapped = bare;
        mapped.hosts = hosts;
        const rd_proof one = rd_check_call(a, &bare, RD_PLACE_NONE, 0);
        const rd_proof other = rd_check_call(a, &mapped, RD_PLACE_NONE, 0);
        CHECK(one.ok && other.ok, "%s: %s %s", a->name, one.why, other.why);
        CHECK(a->flags & RD_BY_HOST || (one.steps == other.steps &&
                                        one.messages == other.messages && one.terms == other.terms),
              "kind %d %s is another plan", a->kind, a->name);
    }
    rd_hosts_free(hosts);
}

/* --- large worlds --- */

static void prove_large(const char *name, ronda_kind kind, uint32_t n, uint64_t count,
                        uint64_t segment)
{
    const rd_algorithm *a = rd_algorithm_named(kind, name);
    if (!CHECK(a, "there is no row %s of kind %d", name, kind))
        return;
    prove((question){.a = a,
                     .n = n,
                     .root = n / 3,
                     .width = 4,
                     .count = count,
                     .segment = segment,
                     .mean = means(a),
                     .place = means(a) || has_blocks(a) ? RD_PLACE_MIXED : RD_PLACE_NONE});
}

TEST(rows_for_many_ranks_are_proved_for_1024)
{
    const uint32_t n = test_sanitized() ? 24 : 1024;
    test_deadline(600);
    prove_large("ring", RONDA_ALLREDUCE, n, n + 477, 0);
    prove_large("halving", RONDA_ALLREDUCE, n, 3 * n + 7, 64);
    prove_large("halving", RONDA_ALLREDUCE, n - 1, 2 * n + 1, 0);
    prove_large("binomial", RONDA_BROADCAST, n, 1001, 512);
    prove_large("tree", RONDA_BROADCAST, n, 1001, 512);
    prove_large("bruck", RONDA_ALLGATHER, n, 3, 0);
    prove_large("ring", RONDA_ALLGATHER, n, 1, 0);
    prove_large("dissemination", RONDA_BARRIER, n, 1, 0);
    prove_large("dissemination", RONDA_BARRIER, n - 1, 1, 0);
    prove_large("ring", RONDA_BARRIER, n, 1, 0);
}

TEST(every_row_is_proved_for_some_hundred_ranks)
{
    const uint32_t n = test_sanitized() ? 12 : 131;
    test_deadline(300);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        prove_large(a->name, a->kind, n, has_blocks(a) ? 2 : 2 * n + 5, 32);
}

/* --- figures and memory --- */

TEST(a_proof_says_what_it_has_proved)
{
    const rd_algorithm *ring = rd_algorithm_named(RONDA_ALLREDUCE, "ring");
    const rd_proof proof = rd_check_world(ring, 4, 8, 0, 4, false, RD_PLACE_NONE, 0);
    CHECK(proof.ok, "%s", proof.why);
    CHECK(proof.messages == 4 * 6, "%" PRIu64 " messages", proof.messages);
    CHECK(proof.steps == 2 * proof.messages, "%" PRIu64 " steps", proof.steps);
    CHECK(proof.terms == 4 * 8 + 3 * 8, "%" PRIu64 " terms", proof.terms);
}

/* Wherever memory runs out, the proof says so and leaves nothing behind. */
TEST(a_proof_without_memory_is_refused)
{
    const rd_algorithm *a = rd_algorithm_named(RONDA_ALLREDUCE, "two_shot");
    rd_plan *plans[3];
    for (uint32_t r = 0; r < 3; r++) {
        const rd_shape s = {.kind = a->kind, .rank = r, .size = 3, .width = 4, .count = 7};
        plans[r] = rd_plan_build(a, &s, 0);
    }
    bool ok = false;
    for (long calls = 0; calls < 1000 && !ok; calls++) {
        rd_mem_fail_after(calls);
        const rd_proof proof = rd_check_plans(plans, 3);
        rd_mem_fail_after(-1);
        ok = proof.ok;
        CHECK(ok || strstr(proof.why, "no memory"), "after %ld calls: %s", calls, proof.why);
        CHECK(!ok || calls > 10, "a proof with %ld calls for memory", calls);
    }
    CHECK(ok, "never enough memory");
    for (uint32_t r = 0; r < 3; r++)
        rd_plan_free(plans[r]);
}

TEST(a_world_without_memory_is_refused)
{
    const rd_algorithm *a = rd_algorithm_named(RONDA_ALLREDUCE, "ring");
    bool ok = false;
    for (long calls = 0; calls < 2000 && !ok; calls++) {
        rd_mem_fail_after(calls);
        const rd_proof proof = rd_check_world(a, 3, 7, 0, 4, true, RD_PLACE_MIXED, 4);
        rd_mem_fail_after(-1);
        ok = proof.ok;
        CHECK(ok || strstr(proof.why, "no memory"), "after %ld calls: %s", calls, proof.why);
    }
    CHECK(ok, "never enough memory");
}
