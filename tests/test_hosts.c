/* test_hosts.c: worlds over several hosts: their maps, what is chosen for them, and plans that run.
 * That these plans are right is proved in test_check.c. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "links.h"
#include "plan/hosts.h"
#include "program.h"
#include "proof/check.h"
#include "transport/transports.h"

/* --- maps --- */

TEST(a_map_is_hosts_and_numbers)
{
    static const uint32_t host_of[] = {7, 7, 3, 7, 3, 9};
    static const uint32_t of[] = {0, 0, 1, 0, 1, 2}, number[] = {0, 1, 0, 2, 1, 0};
    rd_hosts *hosts = rd_hosts_make(host_of, 6);
    if (!CHECK(hosts, "no memory"))
        return;
    const rd_shape s = {.size = 6, .hosts = hosts};
    CHECK(hosts->count == 3 && hosts->smallest == 1 && hosts->largest == 3 && !hosts->in_order,
          "%u hosts of %u..%u", hosts->count, hosts->smallest, hosts->largest);
    for (uint32_t r = 0; r < 6; r++) {
        const rd_stand at = rd_stand_of(s, r);
        CHECK(at.host == of[r] && at.number == number[r], "rank %u: host %u, number %u", r, at.host,
              at.number);
        CHECK(rd_rank_on(s, at.host, at.number + at.ranks) == r, "rank %u is not found", r);
        for (uint32_t q = 0; q < 6; q++)
            CHECK(rd_apart(&s, r, q) == (host_of[r] != host_of[q]), "ranks %u and %u", r, q);
    }
    rd_hosts_free(hosts);
}

TEST(without_a_map_there_is_one_host)
{
    const rd_shape s = {.size = 5};
    const rd_stand at = rd_stand_of(s, 3);
    CHECK(at.hosts == 1 && at.ranks == 5 && at.number == 3 && at.smallest == 5, "%u hosts of %u",
          at.hosts, at.ranks);
    CHECK(!rd_has_hosts(&s) && !rd_apart(&s, 0, 4) && rd_rank_on(s, 0, 4) == 4, "it has hosts");
}

TEST(names_of_hosts_do_not_matter)
{
    rd_hosts *a = rd_hosts_make((const uint32_t[]){1, 1, 0, 0}, 4);
    rd_hosts *b = rd_hosts_even(2, 2);
    rd_hosts *c = rd_hosts_make((const uint32_t[]){0, 1, 0, 1}, 4);
    if (CHECK(a && b && c, "no memory")) {
        CHECK(rd_hosts_equal(a, b) && a->mark == b->mark && a->in_order, "they differ");
        CHECK(!rd_hosts_equal(a, c) && a->mark != c->mark && !c->in_order, "they are the same");
        CHECK(!rd_hosts_equal(a, NULL) && rd_hosts_equal(NULL, NULL), "nothing is something");
    }
    rd_hosts_free(a);
    rd_hosts_free(b);
    rd_hosts_free(c);
}

TEST(maps_that_differ_are_refused)
{
    rd_hosts *maps[2] = {rd_hosts_even(2, 2), rd_hosts_make((const uint32_t[]){0, 1, 0, 1}, 4)};
    rd_plan *plans[4];
    for (uint32_t r = 0; r < 4; r++) {
        const rd_shape s = {.kind = RONDA_BARRIER,
                            .rank = r,
                            .size = 4,
                            .width = 1,
                            .count = 1,
                            .hosts = maps[r == 2]};
        plans[r] = rd_plan_build(rd_algorithm_named(s.kind, "star"), &s, 0);
    }
    const rd_proof proof = rd_check_plans(plans, 4);
    CHECK(!proof.ok && strstr(proof.why, "rank 2 has another map of the hosts"), "%s", proof.why);
    for (uint32_t r = 0; r < 4; r++)
        rd_plan_free(plans[r]);
    rd_hosts_free(maps[0]);
    rd_hosts_free(maps[1]);
}

/* --- choice --- */

static const rd_algorithm *choice(ronda_kind kind, uint64_t count, const rd_hosts *hosts,
                                  bool ordered)
{
    const rd_shape s = {.kind = kind,
                        .size = hosts->size,
                        .width = 4,
                        .count = count,
                        .ordered = ordered,
                        .hosts = hosts};
    const rd_facts facts = rd_facts_of(&rd_mixed, 64);
    return rd_choose(&s, &facts, NULL, NULL);
}

TEST(hosts_have_their_own_algorithms)
{
    static const struct {
        ronda_kind kind;
        uint64_t count;
        const char *name;
    } expected[] = {{RONDA_ALLREDUCE, 10, "leaders"},
                    {RONDA_ALLREDUCE, 1000000, "hierarchical"},
                    {RONDA_REDUCE, 1000000, "hierarchical"},
                    {RONDA_BROADCAST, 1000000, "hierarchical"},
                    {RONDA_ALLGATHER, 10000, "hierarchical"},
                    {RONDA_REDUCE_SCATTER, 10000, "hierarchical"},
                    {RONDA_BARRIER, 1, "leaders"}};
    rd_hosts *hosts = rd_hosts_even(4, 4);
    for (size_t i = 0; hosts && i < sizeof expected / sizeof *expected; i++) {
        const rd_algorithm *a = choice(expected[i].kind, expected[i].count, hosts, false);
        CHECK(a && strcmp(a->name, expected[i].name) == 0, "%s of %" PRIu64 " by %s",
              rd_kind_name(expected[i].kind), expected[i].count, a ? a->name : "nothing");
    }
    rd_hosts_free(hosts);
}

/* Rows for hosts are no candidates where there is one, and wait for ranks in order if the op does. */
TEST(where_rows_for_hosts_are_candidates)
{
    rd_hosts *one = rd_hosts_even(1, 4), *rows = rd_hosts_even(2, 2);
    rd_hosts *dealt = rd_hosts_make((const uint32_t[]){0, 1, 0, 1}, 4);
    for (const rd_algorithm *a = rd_algorithms; a->name && one && rows && dealt; a++) {
        rd_shape s = {.kind = a->kind, .size = 4, .width = 4, .count = 9};
        const bool bare = rd_is_candidate(a, &s), keeps = a->flags & RD_ORDERED;
        CHECK(bare == !(a->flags & (RD_BY_HOST | RD_REFERENCE)), "%s without a map", a->name);
        s.hosts = one;
        CHECK(rd_is_candidate(a, &s) == bare, "%s on one host", a->name);
        s.hosts = rows;
        CHECK(rd_is_candidate(a, &s) == !(a->flags & RD_REFERENCE), "%s on two", a->name);
        s.ordered = true;
        CHECK(rd_fits(a, &s) == keeps, "%s in order", a->name);
        s.hosts = dealt;
        CHECK(rd_fits(a, &s) == (keeps && !(a->flags & RD_BY_HOST)), "%s out of order", a->name);
    }
    rd_hosts_free(one);
    rd_hosts_free(rows);
    rd_hosts_free(dealt);
}

/* Wherever memory runs out, pricing says so and leaves nothing behind. */
TEST(pricing_without_memory)
{
    rd_hosts *hosts = rd_hosts_even(2, 2);
    const rd_algorithm *a = NULL;
    for (long calls = 0; calls < 5000 && !a && hosts; calls++) {
        rd_mem_fail_after(calls);
        a = choice(RONDA_ALLREDUCE, 1000, hosts, false);
        rd_hosts *more = rd_hosts_even(3, 2);
        rd_mem_fail_after(-1);
        CHECK(!a || calls > 3, "a choice with %ld calls for memory", calls);
        rd_hosts_free(more);
    }
    CHECK(a, "never enough memory");
    rd_hosts_free(hosts);
}

/* --- plans for hosts run on engines, whatever is between the ranks --- */

static void run_rows(links_fn *open, uint32_t most)
{
    static const uint32_t maps[][6] = {
        {0, 0, 1, 1, 2, 2}, {0, 1, 0, 1, 0, 1}, {0, 0, 0, 0, 1, 2}, {0, 1, 1, 2, 0, 1}};
    rng r = rng_start();
    test_deadline(300);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        for (uint32_t n = 2; n <= most && a->flags & RD_BY_HOST && !test_failed(); n++)
            for (size_t m = 0; m < sizeof maps / sizeof *maps && !test_failed(); m++) {
                rd_hosts *hosts = rd_hosts_make(maps[m], n);
                program p = {.size = n, .count = 6, .window = (uint32_t)m, .hosts = hosts};
                for (uint32_t i = 0; i < p.count; i++)
                    p.legs[i] = leg_draw(&r, a, n, i % 3 ? 3000 : 100000, true);
                program_run(&p, open);
                program_free(&p);
                rd_hosts_free(hosts);
            }
}

TEST(rows_for_hosts_run_among_threads)
{
    run_rows(links_local, 6);
}

TEST(rows_for_hosts_run_in_shared_memory)
{
    run_rows(links_shm, test_sanitized() ? 4 : 6);
}

TEST(rows_for_hosts_run_over_sockets)
{
    run_rows(links_tcp, test_sanitized() ? 3 : 5);
}

/* Hosts of two ranks, as its links have it; the maps here may be others. */
TEST(rows_for_hosts_run_over_both)
{
    run_rows(links_mixed, test_sanitized() ? 3 : 5);
}

/* --- communicators --- */

enum { RANKS = 6 };

typedef struct {
    ronda_comm *comms[RANKS];
    uint32_t maps[RANKS][RANKS];
    char said[RANKS][LINKS_LINE]; /* the last plans */
    ronda_status status[RANKS];
} world;

/* Threads, which are told that they are on hosts. */
static bool open_world(world *w)
{
    rd_link *links[RANKS];
    if (!CHECK(links_local(RANKS, links), "no links"))
        return false;
    for (uint32_t r = 0; r < RANKS; r++)
        links[r]->host_of = w->maps[r];
    return CHECK(links_comms(RANKS, links, w->said, w->comms), "no world");
}

static void sum(void *context, uint32_t rank)
{
    world *w = context;
    static const size_t counts[] = {3, 400000};
    static float data[RANKS][400000];
    for (int i = 0; i < 2; i++) {
        float *x = data[rank];
        for (size_t k = 0; k < counts[i]; k++)
            x[k] = (float)(rank * 7 + k % 1000);
        w->status[rank] = ronda_allreduce(w->comms[rank], x, x, counts[i], RONDA_F32, RONDA_SUM);
        if (w->status[rank])
            return;
        for (size_t k = 0; k < counts[i]; k++)
            if (!CHECK(x[k] == (float)(105 + RANKS * (k % 1000)), "element %zu is %f", k,
                       (double)x[k]))
                return;
        const char *said = w->said[rank];
        CHECK(strstr(said, "by leaders") || strstr(said, "by hierarchical"), "%s", said);
    }
}

TEST(a_communicator_reads_the_map_of_its_link)
{
    static world w;
    w = (world){.comms = {NULL}};
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t q = 0; q < RANKS; q++)
            w.maps[r][q] = q / 3 + 40;
    if (!open_world(&w))
        return;
    run_ranks(RANKS, sum, &w);
    for (uint32_t r = 0; r < RANKS; r++) {
        CHECK(w.status[r] == RONDA_OK, "%s", ronda_last_error(w.comms[r]));
        ronda_close(w.comms[r]);
    }
}

/* The map is part of the call: ranks that have another one are found out, as by another count. */
TEST(a_rank_with_another_map_is_found_out)
{
    static world w;
    w = (world){.comms = {NULL}};
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t q = 0; q < RANKS; q++)
            w.maps[r][q] = r == 4 ? q % 2 : q / 3;
    if (!open_world(&w))
        return;
    run_ranks(RANKS, sum, &w);
    for (uint32_t r = 0; r < RANKS; r++) {
        CHECK(w.status[r] == RONDA_EMISMATCH, "rank %u: %d, %s", r, w.status[r],
              ronda_last_error(w.comms[r]));
        ronda_close(w.comms[r]);
    }
}
