/* test_property.c: random calls in random worlds, compared with the model.
 *
 * Every algorithm of the table and the default choice; whatever rank is in place or not; programs
 * of many calls without a pause between them, so that ranks run ahead of each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "plan/plan.h"
#include "program.h"

enum { MOST = 320, PROGRAM = 400 };

/* "allreduce=ring" */
static const char *force(const rd_algorithm *a)
{
    static char text[64];
    snprintf(text, sizeof text, "%s=%s", rd_kind_name(a->kind), a->name);
    return text;
}

/* Runs the calls in a world of its own and frees them; false if something was wrong. */
static bool run_world(uint32_t size, const char *algorithms, planned_call calls[], uint32_t count)
{
    ronda_comm *comms[MOST];
    if (world_open(size, algorithms, comms)) {
        world_run(size, comms, calls, count);
        if (test_failed())
            printf("... in a world of %u, %s\n", size, algorithms ? algorithms : "by cost");
        world_close(size, comms);
    }
    calls_free(calls, count);
    return !test_failed();
}

/* --- bits that are known --- */

TEST(every_algorithm_gives_the_models_bits)
{
    rng r = rng_start();
    planned_call calls[PROGRAM];
    const uint32_t most = test_sanitized() ? 4 : 17, rounds = test_sanitized() ? 4 : 16;

    test_deadline(200);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        for (uint32_t n = 1; n <= most; n++) {
            for (uint32_t i = 0; i < rounds; i++) {
                const model_call c = model_draw(&r, a->kind, n, 1 << 12);
                calls[i] = call_plan(&r, &c, true);
            }
            if (!run_world(n, force(a), calls, rounds))
                return;
        }
}

TEST(every_type_and_op_gives_the_models_bits)
{
    rng r = rng_start();
    static const uint32_t sizes[] = {1, 2, 3, 4, 7};
    planned_call calls[PROGRAM];

    for (uint32_t s = 0; s < 5; s++) {
        uint32_t count = 0;
        for (ronda_type type = RONDA_F16; type <= RONDA_U64; type++)
            for (ronda_op op = RONDA_SUM; op <= (model_is_float(type) ? RONDA_MAX : RONDA_BXOR);
                 op++)
                for (int k = 0; k < 4; k++) {
                    static const ronda_kind kinds[] = {RONDA_ALLREDUCE, RONDA_REDUCE_SCATTER,
                                                       RONDA_REDUCE, RONDA_SCAN};
                    if (op == RONDA_MEAN && kinds[k] == RONDA_SCAN)
                        continue;
                    const model_call c = {.kind = kinds[k],
                                          .type = type,
                                          .op = op,
                                          .size = sizes[s],
                                          .count = rng_below(&r, 200),
                                          .seed = rng_next(&r)};
                    calls[count++] = call_plan(&r, &c, true);
                }
        if (!run_world(sizes[s], NULL, calls, count))
            return;
    }
}

/* Messages are cut at about 1 MiB, parts of a message at lines of 64 bytes. */
TEST(edges_of_chunks)
{
    rng r = rng_start();
    static const uint32_t sizes[] = {3, 2, 5};
    const uint32_t worlds = test_sanitized() ? 1 : 3, some = test_sanitized() ? 4 : 1;
    const uint64_t segment = 1 << 20, turn = rng_next(&r);

    test_deadline(200);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        for (uint32_t s = 0; s < worlds && a->kind != RONDA_BARRIER; s++) {
            if ((uint64_t)(a - rd_algorithms) % some != turn % some)
                break; /* sanitizers see others each time */
            const uint32_t n = sizes[s];
            const uint64_t bytes[] = {segment, segment * n, segment * 2 + 64 * n, 64 * 2 * n};
            planned_call calls[12];
            uint32_t count = 0;
            for (uint32_t i = 0; i < (test_sanitized() ? 2 : 4); i++) {
                if (n != 3 && rng_below(&r, 4) != i)
                    continue; /* one of them will do */
                model_call c = model_draw(&r, a->kind, n, 1);
                if (i < 3 && model_width(c.type) < 4)
                    c.type = model_is_float(c.type) ? RONDA_F32 : RONDA_U32;
                c.count = bytes[i] / model_width(c.type) + rng_below(&r, 3) - 1;
                calls[count++] = call_plan(&r, &c, true);
            }
            if (!run_world(n, force(a), calls, count))
                return;
        }
}

TEST(ten_million_elements)
{
    rng r = rng_start();
    const model_call c = {.kind = RONDA_ALLREDUCE,
                          .type = RONDA_I32,
                          .op = RONDA_SUM,
                          .size = 3,
                          .count = test_sanitized() ? 1000003 : 10000019,
                          .seed = rng_next(&r)};
    planned_call calls[1] = {call_plan(&r, &c, true)};
    run_world(3, NULL, calls, 1);
}

/* --- programs --- */

static void random_program(rng *r, uint32_t size, const char *algorithms, uint32_t count,
                           uint64_t most_bytes)
{
    planned_call calls[PROGRAM];
    for (uint32_t i = 0; i < count; i++) {
        const model_call c = model_draw(r, model_kind(r), size, most_bytes);
        calls[i] = call_plan(r, &c, true);
    }
    run_world(size, algorithms, calls, count);
}

TEST(random_programs)
{
    rng r = rng_start();
    const uint32_t rounds = test_sanitized() ? 8 : 25;

    test_deadline(120);
    for (uint32_t i = 0; i < rounds && !test_failed(); i++)
        random_program(&r, 1 + (uint32_t)rng_below(&r, 17), NULL, test_sanitized() ? 40 : 150,
                       2048);
}

/* More shapes than a communicator keeps, each of them again and again. */
TEST(programs_that_repeat_their_shapes)
{
    rng r = rng_start();
    for (uint32_t n = 2; n <= 5 && !test_failed(); n++) {
        planned_call calls[PROGRAM];
        const uint32_t count = 90 * 3;
        for (uint32_t i = 0; i < count; i++) {
            model_call c = model_draw(&r, model_kind(&r), n, 300);
            if (i >= 90) {
                c = calls[rng_below(&r, 90)].call;
                c.seed = rng_next(&r);
            }
            calls[i] = call_plan(&r, &c, true);
        }
        run_world(n, NULL, calls, count);
    }
}

static const char *some_algorithms(rng *r)
{
    static char text[600];
    size_t at = 0;
    for (ronda_kind kind = RONDA_ALLREDUCE; kind <= RONDA_BARRIER; kind++) {
        const rd_algorithm *found[16];
        uint32_t count = 0;
        for (const rd_algorithm *a = rd_algorithms; a->name; a++)
            if (a->kind == kind)
                found[count++] = a;
        if (count && rng_below(r, 4))
            at += (size_t)snprintf(text + at, sizeof text - at, "%s=%s,", rd_kind_name(kind),
                                   found[rng_below(r, count)]->name);
    }
    text[at] = 0;
    return text;
}

TEST(random_programs_with_random_algorithms)
{
    rng r = rng_start();
    const uint32_t rounds = test_sanitized() ? 10 : 50;

    test_deadline(120);
    for (uint32_t i = 0; i < rounds && !test_failed(); i++) {
        const uint32_t size = 2 + (uint32_t)rng_below(&r, 9);
        const char *algorithms = some_algorithms(&r);
        random_program(&r, size, algorithms, test_sanitized() ? 40 : 120, 20000);
    }
}

TEST(worlds_of_32_and_64)
{
    rng r = rng_start();
    test_deadline(120);
    random_program(&r, 32, NULL, test_sanitized() ? 10 : 60, 600);
    if (!test_failed())
        random_program(&r, 64, NULL, test_sanitized() ? 5 : 40, 600);
}

/* --- results that round --- */

typedef struct {
    uint32_t size;
    ronda_comm **comms;
    const model_call *call;
    uint64_t in_place;
    const void *whole; /* NULL: near is enough */
    char **results;
} rounding;

static void run_rounding(void *context, uint32_t rank)
{
    const rounding *t = context;
    call_buffers b = call_open(t->call, rank, t->in_place >> rank & 1, 0);
    const ronda_status status = call_run(t->comms[rank], &b);
    if (CHECK(status == RONDA_OK, "%s: %s", model_text(t->call), ronda_last_error(t->comms[rank])))
        call_right(&b, t->whole);
    memcpy(t->results[rank], b.recv, model_recv_bytes(t->call, rank));
    call_close(&b);
}

/* Runs a call; keeps every rank's result, and checks that all that should are the same bits. */
static void run_once(rounding *t)
{
    const size_t bytes = model_recv_bytes(t->call, 0);
    run_ranks(t->size, run_rounding, t);
    for (uint32_t rank = 1; rank < t->size && t->call->kind == RONDA_ALLREDUCE; rank++)
        CHECK(memcmp(t->results[0], t->results[rank], bytes) == 0,
              "%s: rank 0 and rank %u have different bits", model_text(t->call), rank);
}

/* The same call twice, in place and not: the same bits, and the model's where they are promised. */
static void check_rounding(rng *r, const rd_algorithm *a, uint32_t n, const model_call *c,
                           bool known)
{
    ronda_comm *comms[MOST];
    char *first[MOST], *second[MOST];
    void *whole = known ? model_whole(c) : NULL;
    const size_t bytes = c->count * model_width(c->type);

    if (!world_open(n, force(a), comms))
        return;
    for (uint32_t i = 0; i < n; i++) {
        first[i] = calloc(1, bytes + 1);
        second[i] = calloc(1, bytes + 1);
        if (!first[i] || !second[i])
            abort();
    }
    rounding t = {n, comms, c, rng_next(r), whole, first};
    run_once(&t);
    t.in_place = rng_next(r);
    t.results = second;
    run_once(&t);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(memcmp(first[i], second[i], bytes) == 0, "%s by %s: other bits when run again",
              model_text(c), a->name);
        free(first[i]);
        free(second[i]);
    }
    if (test_failed())
        printf("... by %s\n", a->name);
    world_close(n, comms);
    free(whole);
}

static void check_roundings(model_data data, ronda_type last_type, bool one_pass_only)
{
    rng r = rng_start();
    const uint32_t most = test_sanitized() ? 3 : 10;
    for (const rd_algorithm *a = rd_algorithms; a->name; a++) {
        const bool scans = a->kind == RONDA_SCAN || a->kind == RONDA_EXSCAN;
        if (!model_reduces(a->kind) || (one_pass_only && !folds_in_one_pass(a)))
            continue;
        for (uint32_t n = 1; n <= most && !test_failed(); n++)
            for (ronda_type type = RONDA_F16; type <= last_type; type++) {
                const ronda_op op = model_op(&r, type);
                const model_call c = {.kind = a->kind,
                                      .type = type,
                                      .op = scans && op == RONDA_MEAN ? RONDA_SUM : op,
                                      .root = model_rooted(a->kind) ? n / 2 : 0,
                                      .size = n,
                                      .count = 1 + rng_below(&r, rng_below(&r, 2) ? 12 : 1200),
                                      .data = data,
                                      .seed = rng_next(&r)};
                check_rounding(&r, a, n, &c, one_pass_only);
            }
    }
}

TEST(floats_are_near_and_alike_everywhere)
{
    test_deadline(120);
    check_roundings(MODEL_ANY, RONDA_F64, false);
}

TEST(nan_and_infinity)
{
    test_deadline(120);
    check_roundings(MODEL_WILD, RONDA_F64, false);
}

/* One pass over all ranks in rank order: f32 and f64 from left to right, 16 bits rounded once. */
TEST(one_pass_rounds_once)
{
    test_deadline(120);
    check_roundings(MODEL_ANY, RONDA_F64, true);
}

/* Rounding once is not rounding after every addition: the data shows the difference. */
TEST(rounding_once_differs_from_rounding_often)
{
    rng r = rng_start();
    ronda_comm *comms[8];
    model_call c = {.kind = RONDA_ALLREDUCE,
                    .type = RONDA_BF16,
                    .op = RONDA_SUM,
                    .size = 8,
                    .count = 500,
                    .data = MODEL_ANY,
                    .seed = rng_next(&r)};
    char *results[8];
    char *whole = model_whole(&c);
    for (uint32_t i = 0; i < 8; i++)
        results[i] = calloc(1, model_recv_bytes(&c, 0));
    if (!world_open(8, "allreduce=ring", comms))
        return;
    rounding t = {8, comms, &c, 0, NULL, results};
    run_once(&t);
    CHECK(memcmp(results[0], whole, model_recv_bytes(&c, 0)) != 0, "the ring rounds like one pass");
    world_close(8, comms);
    for (uint32_t i = 0; i < 8; i++)
        free(results[i]);
    free(whole);
}

/* --- means --- */

/* More ranks than a byte can count: the divisor must not be cut to the type. */
TEST(mean_of_bytes_over_many_ranks)
{
    rng r = rng_start();
    static const uint32_t sizes[] = {127, 128, 130, 256, 300};
    const uint32_t worlds = test_sanitized() ? 2 : 5;

    test_deadline(120);
    for (uint32_t s = 0; s < worlds && !test_failed(); s++) {
        planned_call calls[4];
        for (uint32_t i = 0; i < 4; i++) {
            const model_call c = {.kind = RONDA_ALLREDUCE,
                                  .type = i % 2 ? RONDA_I8 : RONDA_U8,
                                  .op = RONDA_MEAN,
                                  .size = sizes[s],
                                  .count = 1 + rng_below(&r, 50),
                                  .seed = rng_next(&r)};
            calls[i] = call_plan(&r, &c, true);
        }
        run_world(sizes[s], "allreduce=star", calls, 4);
    }
}
