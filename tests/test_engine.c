/* test_engine.c: the engine below the API: several collectives under way at once, waited for in any
 * order; ranks that are far ahead; the straight walk and the lanes; failing and closing.  Bits never
 * depend on any of this. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "links.h"
#include "program.h"

static bool open_local(program *p)
{
    return CHECK(links_local(p->size, p->links), "no world of %u", p->size) && engines_open(p);
}

TEST(several_under_way_in_any_order)
{
    rng r = rng_start();
    test_deadline(100);
    for (uint32_t n = 1; n <= (test_sanitized() ? 7 : 9); n++)
        for (uint32_t window = 1; window <= PROGRAM_WINDOW && !test_failed();
             window += test_sanitized() ? 2 : 1) {
            program p = {.size = n, .window = window, .lanes = window % 2};
            program_draw(&r, &p, PROGRAM_LEGS, 600, true);
            program_run(&p, links_local);
            program_free(&p);
            if (test_failed())
                printf("... %u ranks, %u under way\n", n, window);
        }
}

TEST(long_messages_under_way_together)
{
    rng r = rng_start();
    for (uint32_t n = 2; n <= 4 && !test_failed(); n++) {
        program p = {.size = n, .window = 6};
        program_draw(&r, &p, test_sanitized() ? 10 : 24, 200000, true);
        program_run(&p, links_local);
        program_free(&p);
    }
}

/* Small plans can be walked either way; the bits are the same, and those of the model. */
TEST(straight_and_by_lanes_give_the_same_bits)
{
    rng r = rng_start();
    test_deadline(100);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        for (uint32_t n = 1; n <= (test_sanitized() ? 5 : 9) && !test_failed(); n++) {
            program p = {.size = n, .count = 16, .keep = true};
            for (uint32_t i = 0; i < p.count; i++) {
                p.legs[i] = leg_draw(&r, a, n, 48, false);
                p.legs[i].segment = 1 << 20;
            }
            if (program_run(&p, links_local)) {
                p.lanes = true;
                p.keep = false;
                program_run(&p, links_local);
            }
            program_free(&p);
        }
}

/* --- far ahead --- */

typedef struct {
    program world;
    uint32_t rounds;
} ahead;

static void make_broadcast(program *p, uint32_t rank, uint64_t sequence, uint64_t *word, stage *s)
{
    const rd_shape shape = {
        .kind = RONDA_BROADCAST, .rank = rank, .size = p->size, .width = 8, .count = 1};
    *s = (stage){0};
    s->plan = rd_plan_build(rd_algorithm_named(RONDA_BROADCAST, "direct"), &shape, 0);
    s->job = (rd_job){.plan = s->plan,
                      .in = word,
                      .out = word,
                      .record = {.sequence = sequence,
                                 .count = 1,
                                 .mark = sequence + 5,
                                 .kind = RONDA_BROADCAST,
                                 .type = RONDA_U64}};
}

/* Rank 0 sends and goes on, as far as its credit reaches; the others come much later. */
static void run_ahead(void *context, uint32_t rank)
{
    ahead *a = context;
    program *p = &a->world;
    if (rank)
        sleep_ms(30 * rank);
    for (uint32_t i = 1; i <= a->rounds; i++) {
        rd_error err = {0};
        uint64_t word = rank ? 0 : i * 1000;
        stage s;
        make_broadcast(p, rank, i, &word, &s);
        const ronda_status status =
            rd_engine_run(p->engines[rank], &s.job, PROGRAM_TIMEOUT_NS, &err);
        CHECK(status == RONDA_OK && word == i * 1000, "rank %u, round %u: %" PRIu64 ": %s", rank, i,
              word, err.message);
        rd_plan_free(s.plan);
        word = UINT64_MAX; /* what was sent is no longer ours to keep */
    }
}

TEST(a_root_far_ahead)
{
    for (uint32_t n = 2; n <= 5; n++)
        for (int lanes = 0; lanes < 2 && !test_failed(); lanes++) {
            ahead a = {.world = {.size = n, .lanes = lanes}, .rounds = 200};
            if (!open_local(&a.world))
                return;
            run_ranks(n, run_ahead, &a);
            engines_close(&a.world);
        }
}

/* --- where a rank stands --- */

static void run_backward(void *context, uint32_t rank)
{
    program *p = context;
    stage stages[3];
    for (uint32_t i = 0; i < 3; i++) {
        stage_open(p, rank, i + 1, &p->legs[i], &stages[i]);
        CHECK(rd_engine_start(p->engines[rank], &stages[i].job, &stages[i].operation) == RONDA_OK,
              "start");
    }
    for (uint32_t i = 3; i-- > 0;) {
        rd_error err = {0};
        CHECK(rd_engine_wait(p->engines[rank], stages[i].operation, PROGRAM_TIMEOUT_NS, &err) ==
                  RONDA_OK,
              "%s", err.message);
        const rd_presence now = p->links[rank]->transport->presence(p->links[rank], rank);
        CHECK(now.sequence == 3 && !now.inside && now.posted == (i > 0),
              "after waiting for %u: call %" PRIu64 ", %s", i + 1, now.sequence,
              now.inside   ? "inside"
              : now.posted ? "elsewhere"
                           : "outside");
        stage_finish(p, rank, &p->legs[i], &stages[i]);
    }
}

TEST(the_last_call_is_the_last_one_made)
{
    rng r = rng_start();
    program p = {.size = 3};
    program_draw(&r, &p, 3, 100, true);
    if (open_local(&p)) {
        run_ranks(3, run_backward, &p);
        engines_close(&p);
    }
    program_free(&p);
}

/* --- failure with several under way --- */

static void run_failing(void *context, uint32_t rank)
{
    program *p = context;
    stage stages[PROGRAM_WINDOW];
    rd_error err = {0};
    const uint32_t mine =
        rank == p->size - 1 ? p->window / 2 : p->window; /* the last rank stops half way */
    for (uint32_t i = 0; i < mine; i++) {
        stage_open(p, rank, i + 1, &p->legs[i], &stages[i]);
        CHECK(rd_engine_start(p->engines[rank], &stages[i].job, &stages[i].operation) == RONDA_OK,
              "start");
    }
    if (rank == p->size - 1) {
        const rd_error cause = {
            .status = RONDA_EABORTED, .rank = rank, .peer = rank, .message = "half way"};
        sleep_ms(2);
        p->links[rank]->transport->abort(p->links[rank], &cause);
    }
    ronda_status status = RONDA_OK;
    for (uint32_t i = 0; i < mine && !status; i++)
        status = rd_engine_wait(p->engines[rank], stages[i].operation, PROGRAM_TIMEOUT_NS, &err);
    if (status || rank != p->size - 1)
        CHECK(status == RONDA_EABORTED && strcmp(err.message, "half way") == 0, "%s: %s",
              ronda_strerror(status), err.message);
    for (uint32_t i = 0; i < mine; i++) { /* nobody may touch these any more */
        stage_free(&stages[i]);
    }
}

/* Whether a rank may be done with it before all have come. */
static bool needs_not_all(const leg *l)
{
    const model_call *c = &l->planned.call;
    return model_rooted(c->kind) || model_counted(c->kind) || c->kind == RONDA_SCAN ||
           c->kind == RONDA_EXSCAN || (c->count == 0 && c->kind != RONDA_BARRIER);
}

TEST(a_failure_ends_all_that_is_under_way)
{
    rng r = rng_start();
    for (uint32_t round = 0; round < (test_sanitized() ? 40 : 200) && !test_failed(); round++) {
        program p = {.size = 2 + round % 4, .window = 2 + round % (PROGRAM_WINDOW - 1)};
        program_draw(&r, &p, p.window, round % 3 ? 300 : 100000, true);
        for (uint32_t i = 0; i < p.count; i++)
            while (needs_not_all(&p.legs[i])) {
                calls_free(&p.legs[i].planned, 1);
                p.legs[i] = leg_draw(&r, some_algorithm(&r, RONDA_ALLREDUCE), p.size, 300, true);
            }
        if (open_local(&p)) {
            run_ranks(p.size, run_failing, &p);
            engines_close(&p);
        }
        program_free(&p);
    }
}

/* --- closing --- */

/* Rank 0 is done and closes, but rank 1 never comes for what it was sent: that ends at the timeout,
 * and rank 1 hears of it.  One thread drives both, so nothing happens by chance. */
TEST(closing_does_not_wait_for_ever)
{
    rng r = rng_start();
    program p = {.size = 2, .count = 1};
    rd_error err = {0};
    stage s[2];
    const model_call c = {.kind = RONDA_ALLREDUCE,
                          .type = RONDA_U64,
                          .op = RONDA_SUM,
                          .size = 2,
                          .count = 40,
                          .seed = 5};
    p.legs[0] = (leg){.algorithm = rd_algorithm_named(RONDA_ALLREDUCE, "one_shot")};
    p.legs[0].planned = call_plan(&r, &c, true);
    if (!open_local(&p))
        return;
    for (uint32_t rank = 2; rank-- > 0;) {
        stage_open(&p, rank, 1, &p.legs[0], &s[rank]);
        CHECK(rd_engine_start(p.engines[rank], &s[rank].job, &s[rank].operation) == RONDA_OK,
              "start");
    }
    CHECK(rd_engine_test(p.engines[0], s[0].operation), "rank 0 has all it needs");
    CHECK(rd_engine_wait(p.engines[0], s[0].operation, PROGRAM_TIMEOUT_NS, &err) == RONDA_OK, "%s",
          err.message);
    const double start = seconds_now();
    CHECK(rd_engine_close(p.engines[0], 50000000, &err) == RONDA_ETIMEOUT, "%s", err.message);
    CHECK(strstr(err.message, "rank 1 has not taken") && err.peer == 1, "%s", err.message);
    CHECK(seconds_now() - start < 10, "it took %.1f s", seconds_now() - start);
    CHECK(rd_engine_wait(p.engines[1], s[1].operation, PROGRAM_TIMEOUT_NS, &err) ==
                  RONDA_ETIMEOUT &&
              err.rank == 0,
          "%s", err.message);
    CHECK(rd_engine_close(p.engines[1], PROGRAM_TIMEOUT_NS, &err) == RONDA_OK, "%s", err.message);
    for (uint32_t rank = 0; rank < 2; rank++) {
        p.links[rank]->transport->close(p.links[rank]);
        stage_free(&s[rank]);
    }
    program_free(&p);
}

/* --- no memory --- */

TEST(a_start_without_memory_is_no_start)
{
    rng r = rng_start();
    program p = {.size = 1};
    program_draw(&r, &p, 4, 400, true);
    if (!open_local(&p))
        return;
    for (uint32_t i = 0; i < 4; i++) {
        stage s;
        ronda_status status = RONDA_ENOMEM;
        stage_open(&p, 0, i + 1, &p.legs[i], &s);
        for (long k = 0; status != RONDA_OK && k < 100; k++) {
            rd_mem_fail_after(k);
            status = rd_engine_start(p.engines[0], &s.job, &s.operation);
            rd_mem_fail_after(-1);
            CHECK(!status || status == RONDA_ENOMEM, "%s", ronda_strerror(status));
            const rd_presence now = p.links[0]->transport->presence(p.links[0], 0);
            CHECK(now.sequence == (status ? i : i + 1), "call %" PRIu64 " after %u", now.sequence,
                  i);
        }
        rd_error err = {0};
        CHECK(rd_engine_wait(p.engines[0], s.operation, PROGRAM_TIMEOUT_NS, &err) == RONDA_OK, "%s",
              err.message);
        stage_finish(&p, 0, &p.legs[i], &s);
    }
    engines_close(&p);
    program_free(&p);
}
