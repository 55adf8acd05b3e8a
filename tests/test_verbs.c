/* test_verbs.c: verbs of the test's own.  Each is one row and two functions, and is proved, priced, printed,
 * drawn and run like the others.
 *
 *     pair(a, b -> sum, kept)    sum = a op b, kept = a, which may be the state of the plan
 *     pack(own -> code)          two numbers below 65,536 become one; to the proof a code says nothing
 *     unpack(code -> to)         what was packed, if the code is whole and in order
 *
 * The tables of verbs are alone in their files, so those that are defined here take their place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/picture.h"
#include "engine/local.h"
#include "interpret.h"
#include "links.h"
#include "proof/check.h"
#include "proof/made.h"
#include "transport/transports.h"

#define TIMEOUT_NS UINT64_C(20000000000)

enum { PAIR = RD_VERBS, PACK, UNPACK };
enum { A, B, SUM, KEPT };

#define TEST_VERBS(X)                                                                              \
    X(PAIR, pair, RD_LANE_HERE, RD_UNUSED, RD_UNUSED, RD_LISTED, 1, 1, 0, "",                      \
      "two ranges summed, and the first of them kept")                                             \
    X(PACK, pack, RD_LANE_HERE, RD_UNUSED, RD_UNUSED, RD_LISTED, 1, 0, 0, "", "two in one")        \
    X(UNPACK, unpack, RD_LANE_HERE, RD_UNUSED, RD_UNUSED, RD_LISTED, 1, 0, 0, "", "and back")

const rd_verb rd_verbs[] = {RD_MESSAGE_VERBS(RD_VERB_ROW) RD_LOCAL_VERBS(RD_VERB_ROW)
                                TEST_VERBS(RD_VERB_ROW)};
const uint32_t rd_verb_count = sizeof rd_verbs / sizeof *rd_verbs;

/* --- how it runs, and what it makes of terms and of values --- */

static void run_pair(const rd_job *job, const rd_step *s, char *const buffer[])
{
    void *sum = rd_local_at(job, s, buffer, SUM);
    const void *in[2] = {rd_local_at(job, s, buffer, A), rd_local_at(job, s, buffer, B)};
    memcpy(rd_local_at(job, s, buffer, KEPT), in[0], s->count * job->plan->shape.width);
    rd_job_fold(job, &sum, 1, in, 2, s->count, 0);
}

static void make_pair(const rd_making *m)
{
    const rd_term *a = rd_making_cells(m, A), *b = rd_making_cells(m, B);
    for (uint64_t e = 0; e < m->step->count; e++) {
        const rd_term kept = a[e];
        rd_making_cells(m, SUM)[e] = rd_term_fold(m->terms, a[e], b[e]);
        rd_making_cells(m, KEPT)[e] = kept;
    }
}

static void interpret_pair(const rd_step *s, const rd_access list[], value *const at[])
{
    CHECK(list[KEPT].last, "a pair has four ranges");
    for (uint64_t e = 0; e < s->count; e++) {
        const value kept = at[A][e];
        at[SUM][e] = value_fold(at[A][e], at[B][e]);
        at[KEPT][e] = kept;
    }
}

static uint64_t length_of(const rd_plan *p, const rd_step *s, uint32_t i)
{
    return p->accesses[s->first_access + i].range.count;
}

static void run_pack(const rd_job *job, const rd_step *s, char *const buffer[])
{
    const uint32_t *own = (const void *)rd_local_at(job, s, buffer, 0);
    uint32_t *code = (void *)rd_local_at(job, s, buffer, 1);
    for (uint64_t e = 0; e < length_of(job->plan, s, 0); e++)
        code[e / 2] = e % 2 ? code[e / 2] | own[e] << 16 : own[e];
}

static void run_unpack(const rd_job *job, const rd_step *s, char *const buffer[])
{
    const uint32_t *code = (const void *)rd_local_at(job, s, buffer, 0);
    uint32_t *to = (void *)rd_local_at(job, s, buffer, 1);
    for (uint64_t e = 0; e < length_of(job->plan, s, 1); e++)
        to[e] = code[e / 2] >> e % 2 * 16 & 0xffff;
}

/* A code is made of one block, which is made of all that was packed. */
enum { BLOCK = 1 << 20 };

static void make_pack(const rd_making *m)
{
    const uint32_t own = (uint32_t)length_of(m->plan, m->step, 0);
    const rd_term block = rd_term_made(m->terms, BLOCK, rd_making_cells(m, 0), own);
    for (uint32_t i = 0; i < length_of(m->plan, m->step, 1); i++)
        rd_making_cells(m, 1)[i] = rd_term_made(m->terms, i, &block, 1);
}

static void make_unpack(const rd_making *m)
{
    const rd_term *code = rd_making_cells(m, 0);
    const uint64_t count = length_of(m->plan, m->step, 1);
    rd_term pair[2], block = RD_GARBAGE;
    uint32_t inside = 0;
    bool whole = true;
    for (uint32_t i = 0; i < length_of(m->plan, m->step, 0) && whole; i++) {
        whole =
            rd_term_kind(m->terms, code[i]) == RD_TERM_MADE && rd_term_tag(m->terms, code[i]) == i;
        const rd_term of = whole ? *rd_term_operands(m->terms, code[i], pair, &inside) : 0;
        whole = whole && (i == 0 || of == block);
        block = of;
    }
    const rd_term *packed =
        whole && block ? rd_term_operands(m->terms, block, pair, &inside) : NULL;
    for (uint64_t e = 0; e < count; e++)
        rd_making_cells(m, 1)[e] = packed && inside == count ? packed[e] : RD_GARBAGE;
}

#define RUN(verb, name, ...) [RD_##verb] = rd_run_##name,
rd_local_fn *const rd_locals[] = {
    RD_LOCAL_VERBS(RUN)[PAIR] = run_pair, [PACK] = run_pack, [UNPACK] = run_unpack};
#define MAKE(verb, name, ...) [RD_##verb] = rd_make_##name,
rd_make_fn *const rd_makes[] = {[RD_RECV] = rd_make_recv,
                                [RD_FOLD] = rd_make_fold,
                                RD_LOCAL_VERBS(MAKE)[PAIR] = make_pair,
                                [PACK] = make_pack,
                                [UNPACK] = make_unpack};

/* --- algorithms that use it --- */

static void pair(rd_plan *p, rd_range a, rd_range b, rd_range sum, rd_range kept)
{
    const rd_access list[] = {[A] = {a, RD_READS, false},
                              [B] = {b, RD_READS, false},
                              [SUM] = {sum, RD_WRITES, false},
                              [KEPT] = {kept, RD_WRITES, false}};
    rd_apply(p, PAIR, list, 4);
}

/* Both ranks have both inputs, and sum them in rank order; what rank 0 gave is kept. */
static rd_range exchange(rd_plan *p, rd_shape s)
{
    const rd_range theirs = rd_scratch(p, 0, s.count);
    rd_send(p, 1 - s.rank, rd_whole(s, RD_IN));
    rd_recv(p, 1 - s.rank, theirs);
    return theirs;
}

static void only_exchanges(rd_plan *p, rd_shape s)
{
    exchange(p, s);
}

static void keeps_first(rd_plan *p, rd_shape s)
{
    const rd_range mine = rd_whole(s, RD_IN), theirs = exchange(p, s);
    pair(p, s.rank ? theirs : mine, s.rank ? mine : theirs, rd_whole(s, RD_OUT),
         rd_state(p, s.at, s.count));
}

static void sums_own_first(rd_plan *p, rd_shape s)
{
    pair(p, rd_whole(s, RD_IN), exchange(p, s), rd_whole(s, RD_OUT), rd_state(p, s.at, s.count));
}

static void adds_what_was_kept(rd_plan *p, rd_shape s)
{
    exchange(p, s);
    pair(p, rd_state(p, s.at, s.count), rd_whole(s, RD_IN), rd_whole(s, RD_OUT),
         rd_scratch(p, 0, s.count));
}

static void writes_twice(rd_plan *p, rd_shape s)
{
    pair(p, rd_whole(s, RD_IN), exchange(p, s), rd_whole(s, RD_OUT), rd_whole(s, RD_OUT));
}

static void reads_what_it_shifts(rd_plan *p, rd_shape s)
{
    const rd_range theirs = exchange(p, s);
    pair(p, rd_whole(s, RD_IN), theirs, rd_whole(s, RD_OUT), rd_scratch(p, 1, s.count));
}

static void keeps_nothing(rd_plan *p, rd_shape s)
{
    keeps_first(p, s);
    rd_copy(p, rd_scratch(p, 100, s.count), rd_state(p, s.at, s.count));
}

static void goes_too_far(rd_plan *p, rd_shape s)
{
    const rd_range theirs = exchange(p, s);
    pair(p, rd_whole(s, RD_IN), theirs, rd_whole(s, RD_OUT), (rd_range){RD_STATE, 7, s.count});
}

static void code(rd_plan *p, int verb, rd_range from, rd_range to)
{
    const rd_access list[] = {{from, RD_READS, false}, {to, RD_WRITES, false}};
    rd_apply(p, verb, list, 2);
}

/* Codes of both ranks, this rank's first. */
static void exchange_codes(rd_plan *p, rd_shape s, rd_range codes[2])
{
    for (uint64_t i = 0; i < 2; i++)
        codes[i] = rd_scratch(p, i * s.count, (s.count + 1) / 2);
    code(p, PACK, rd_whole(s, RD_IN), codes[0]);
    rd_send(p, 1 - s.rank, codes[0]);
    rd_recv(p, 1 - s.rank, codes[1]);
}

static void gathers_codes(rd_plan *p, rd_shape s)
{
    rd_range codes[2];
    exchange_codes(p, s, codes);
    code(p, UNPACK, codes[0], rd_slot(s, RD_OUT, s.rank));
    code(p, UNPACK, codes[1], rd_slot(s, RD_OUT, 1 - s.rank));
}

static void mixes_codes(rd_plan *p, rd_shape s)
{
    rd_range codes[2];
    exchange_codes(p, s, codes);
    rd_copy(p, (rd_range){RD_SCRATCH, codes[0].at, 1}, (rd_range){RD_SCRATCH, codes[1].at, 1});
    code(p, UNPACK, codes[0], rd_slot(s, RD_OUT, s.rank));
    code(p, UNPACK, codes[1], rd_slot(s, RD_OUT, 1 - s.rank));
}

static void never_unpacks(rd_plan *p, rd_shape s)
{
    rd_range codes[2];
    exchange_codes(p, s, codes);
    for (uint32_t i = 0; i < 2; i++)
        rd_copy(p, codes[i], (rd_range){RD_OUT, i * s.count, codes[i].count});
}

static rd_algorithm algorithm(rd_generator *generate)
{
    return (rd_algorithm){RONDA_ALLREDUCE, "pair", generate, 0, "two ranks, one step"};
}

/* --- the proof --- */

TEST(a_step_of_several_ranges_is_proved)
{
    const rd_algorithm a = algorithm(keeps_first);
    for (int place = 0; place < RD_PLACES; place++)
        for (uint64_t count = 0; count < 70; count += 1 + count / 4)
            for (uint64_t segment = 0; segment <= 64; segment += 32) {
                const rd_proof proof = rd_check_world(&a, 2, count, 0, 4, false, place, segment);
                CHECK(proof.ok, "%u elements: %s", (unsigned)count, proof.why);
            }
}

TEST(wrong_steps_of_several_ranges_are_refused)
{
    static const struct {
        rd_generator *generate;
        const char *says;
    } wrong[] = {
        {sums_own_first, "not folded in the same order"},
        {adds_what_was_kept, "has what some rank kept from before in it"},
        {writes_twice, "local pair #0 writes out[0] while it writes [0], and they overlap"},
        {reads_what_it_shifts, "local pair #0 reads scratch[0] while it writes [1]"},
        {keeps_nothing, "state[0] is left as memory that nobody wrote"},
        {goes_too_far, "local pair #0 writes 5 elements at state[7], which has 0"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const rd_algorithm a = algorithm(wrong[i].generate);
        const rd_proof proof = rd_check_world(&a, 2, 5, 0, 4, false, RD_PLACE_NONE, 0);
        CHECK(!proof.ok && strstr(proof.why, wrong[i].says), "\"%s\" should be \"%s\"", proof.why,
              wrong[i].says);
    }
}

/* Codes have fewer elements than what they are made of. */
TEST(codes_are_proved)
{
    rd_algorithm a = algorithm(gathers_codes);
    a.kind = RONDA_ALLGATHER;
    for (int place = 0; place < RD_PLACES; place++)
        for (uint64_t count = 0; count < 40; count += 1 + count / 4) {
            const rd_proof proof = rd_check_world(&a, 2, count, 0, 4, false, place, 0);
            CHECK(proof.ok, "%u elements: %s", (unsigned)count, proof.why);
        }
    a.generate = mixes_codes;
    const rd_proof mixed = rd_check_world(&a, 2, 5, 0, 4, false, RD_PLACE_NONE, 0);
    CHECK(strstr(mixed.why, "is memory that nobody wrote"), "%s", mixed.why);
    a.generate = never_unpacks;
    const rd_proof packed = rd_check_world(&a, 2, 5, 0, 4, false, RD_PLACE_NONE, 0);
    CHECK(strstr(packed.why, "is not what some rank brought"), "%s", packed.why);
}

static void build(rd_generator *generate, uint64_t count, rd_algorithm *a, rd_plan *plans[2])
{
    *a = algorithm(generate);
    if (generate == gathers_codes)
        a->kind = RONDA_ALLGATHER;
    for (uint32_t r = 0; r < 2; r++) {
        const rd_shape s = {.kind = a->kind, .rank = r, .size = 2, .width = 4, .count = count};
        plans[r] = rd_plan_build(a, &s, 0);
    }
}

static rd_step *step_of(rd_plan *p, uint8_t verb)
{
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].verb == verb)
            return &p->steps[i];
    return NULL;
}

enum { NO_DEPS, NO_LIST, FAR_LIST, ENDLESS, ODD_ACCESS, LISTED_COPY, SPOILS };

static void spoil(rd_plan *p, int how)
{
    rd_step *s = step_of(p, PAIR);
    if (how == NO_DEPS)
        s->deps = 0;
    else if (how == NO_LIST)
        s->first_access = RD_NONE;
    else if (how == FAR_LIST)
        s->first_access = p->access_count;
    else if (how == ENDLESS)
        p->accesses[p->access_count - 1].last = false;
    else if (how == ODD_ACCESS)
        p->accesses[s->first_access + B].how = 4;
    else
        step_of(p, RD_SEND)->first_access = 0;
}

TEST(spoiled_lists_of_ranges_are_refused)
{
    static const char *const says[SPOILS] = {
        "touch the same elements of which one is written, in no certain order",
        "the ranges of local pair #0 are not in the list",
        "the ranges of local pair #0 are not in the list",
        "lacks a list that it counts",
        "the ranges of local pair #0 are not in the list",
        "the ranges of send #0 to rank"};
    for (int i = 0; i < 2 * SPOILS;
         i++) { /* what comes from the peer is B on rank 0, A on rank 1 */
        const int how = i / 2;
        rd_algorithm a;
        rd_plan *plans[2];
        build(keeps_first, 600, &a, plans);
        spoil(plans[i % 2], how);
        const rd_proof proof = rd_check_plans(plans, 2);
        CHECK(!proof.ok && strstr(proof.why, says[how]), "\"%s\" should be \"%s\"", proof.why,
              says[how]);
        rd_plan_free(plans[0]);
        rd_plan_free(plans[1]);
    }
}

TEST(values_agree_with_terms)
{
    rng r = rng_start();
    interpret_listed = interpret_pair;
    for (uint64_t count = 1; count < 300; count *= 3) {
        rd_algorithm a;
        rd_plan *plans[2];
        build(keeps_first, count, &a, plans);
        const interpretation right = interpret(plans, 2, 100, &r);
        CHECK(right.verdict == RUN_RIGHT, "%s", right.why);
        rd_plan_free(plans[0]);
        rd_plan_free(plans[1]);
        build(adds_what_was_kept, count, &a, plans);
        CHECK(interpret(plans, 2, 100, &r).verdict == RUN_WRONG, "what was kept is in the result");
        rd_plan_free(plans[0]);
        rd_plan_free(plans[1]);
    }
}

/* --- for people, and what it costs --- */

TEST(it_is_printed)
{
    char text[4096];
    rd_algorithm a;
    rd_plan *plans[2];
    build(keeps_first, 4, &a, plans);
    rd_plan_print(plans[1], RONDA_F32, RONDA_SUM, text, sizeof text);
    CHECK(strstr(text, "  pair  out[0..4), state[0..4) = pair(scratch[0..4), in[0..4))") &&
              strstr(text, "  state     4 elements, 16 bytes, kept from run to run\n"),
          "%s", text);
    rd_plan_free(plans[0]);
    rd_plan_free(plans[1]);
}

TEST(it_is_drawn)
{
    const rd_algorithm a = algorithm(keeps_first);
    const cli_plan_request q = {
        .shape = {.kind = RONDA_ALLREDUCE, .size = 2, .width = 4, .count = 4},
        .type = RONDA_F32,
        .op = RONDA_SUM,
        .algorithm = &a};
    cli_picture p;
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (CHECK(to && cli_picture_make(&q, &p), "no memory")) {
        cli_draw_text(to, &p);
        cli_draw_svg(to, &p);
        fclose(to);
        CHECK(strstr(text, "[pair]  two ranges summed, and the first of them kept") &&
                  strstr(text, "<g class=\"local pair\">"),
              "%s", text);
        cli_picture_free(&p);
    }
    free(text);
}

/* The bytes of all four ranges, copied once and folded once. */
TEST(it_has_a_price)
{
    const rd_facts facts = rd_facts_of(&rd_local, 2);
    const rd_algorithm one = algorithm(keeps_first), none = algorithm(only_exchanges);
    const rd_shape s = {.kind = RONDA_ALLREDUCE, .size = 2, .width = 4, .count = 1000};
    const double more = rd_price_of(&one, &s, &facts).ns - rd_price_of(&none, &s, &facts).ns;
    const double wanted = 30 + 4 * 4000 * (facts.copy_ns + facts.fold_ns);
    CHECK(more > wanted - 1e-6 && more < wanted + 1e-6, "%g, not %g", more, wanted);
}

/* --- the engine --- */

typedef struct {
    rd_engine *engines[2];
    rd_plan *plans[2];
    uint64_t count;
    float *in[2], *out[2], *state[2];
    uint32_t ranks, runs;
} running;

static float number(uint32_t rank, uint64_t e, uint32_t run)
{
    return (float)(1 + rank) * 1000.0f + (float)(e % 97) + (float)run * 0.5f;
}

static void run_plan(running *w, uint32_t rank, uint32_t run)
{
    rd_error err = {0};
    const rd_job job = {.plan = w->plans[rank],
                        .in = w->in[rank],
                        .out = w->out[rank],
                        .state = w->state[rank],
                        .fold = rd_fold_kernel(RONDA_F32, RONDA_SUM),
                        .record = {.sequence = run + 1,
                                   .count = w->count,
                                   .mark = run + 7,
                                   .kind = w->plans[rank]->shape.kind,
                                   .type = RONDA_F32}};
    const ronda_status status = rd_engine_run(w->engines[rank], &job, TIMEOUT_NS, &err);
    CHECK(status == RONDA_OK, "rank %u: %s", rank, err.message);
}

static void run_once(running *w, uint32_t rank, uint32_t run)
{
    for (uint64_t e = 0; e < w->count; e++)
        w->in[rank][e] = number(rank, e, run);
    run_plan(w, rank, run);
}

static void check_codes(void *context, uint32_t rank)
{
    running *w = context;
    uint32_t *in = (void *)w->in[rank], *out = (void *)w->out[rank];
    for (uint32_t run = 0; run < w->runs && !test_failed(); run++) {
        for (uint32_t e = 0; e < w->count; e++)
            in[e] = (rank * 30000 + run * 7 + e) % 65536;
        run_plan(w, rank, run);
        for (uint32_t e = 0; e < 2 * w->count && !test_failed(); e++) {
            const uint32_t from = (uint32_t)(e / w->count), at = (uint32_t)(e % w->count);
            CHECK(out[e] == (from * 30000 + run * 7 + at) % 65536, "rank %u, element %u: %u", rank,
                  e, out[e]);
        }
    }
}

static void check_pairs(void *context, uint32_t rank)
{
    running *w = context;
    for (uint32_t run = 0; run < w->runs && !test_failed(); run++) {
        run_once(w, rank, run);
        for (uint64_t e = 0; e < w->count && !test_failed(); e++)
            CHECK(w->out[rank][e] == number(0, e, run) + number(1, e, run) &&
                      w->state[rank][e] == number(0, e, run),
                  "rank %u, run %u, element %u: %g, and kept %g", rank, run, (unsigned)e,
                  (double)w->out[rank][e], (double)w->state[rank][e]);
    }
}

/* What comes out is what went in at the run before: zeros at first. */
static void delays(rd_plan *p, rd_shape s)
{
    rd_copy(p, rd_state(p, s.at, s.count), rd_whole(s, RD_OUT));
    rd_copy(p, rd_whole(s, RD_IN), rd_state(p, s.at, s.count));
}

static void check_delays(void *context, uint32_t rank)
{
    running *w = context;
    for (uint32_t run = 0; run < w->runs && !test_failed(); run++) {
        run_once(w, rank, run);
        for (uint64_t e = 0; e < w->count && !test_failed(); e++)
            CHECK(w->out[rank][e] == (run ? number(rank, e, run - 1) : 0),
                  "rank %u, run %u, element %u: %g", rank, run, (unsigned)e,
                  (double)w->out[rank][e]);
    }
}

static void run_world(rd_generator *generate, void (*body)(void *, uint32_t), uint64_t count,
                      bool lanes)
{
    rd_link *links[2];
    rd_algorithm a;
    running w = {.count = count, .ranks = 2, .runs = 5};
    if (!CHECK(links_local(2, links), "no world"))
        return;
    build(generate, count, &a, w.plans);
    for (uint32_t r = 0; r < 2; r++) {
        CHECK(rd_engine_open(links[r], NULL, &w.engines[r]) == RONDA_OK, "no engine");
        if (lanes)
            rd_engine_use_lanes(w.engines[r]);
        w.in[r] = calloc(count, sizeof(float));
        w.out[r] = calloc(2 * count, sizeof(float));
        w.state[r] = calloc(count, sizeof(float));
    }
    run_ranks(2, body, &w);
    for (uint32_t r = 0; r < 2; r++) {
        rd_error err = {0};
        CHECK(rd_engine_close(w.engines[r], TIMEOUT_NS, &err) == RONDA_OK, "%s", err.message);
        links[r]->transport->close(links[r]);
        rd_plan_free(w.plans[r]);
        free(w.in[r]);
        free(w.out[r]);
        free(w.state[r]);
    }
}

TEST(engines_run_them)
{
    for (int lanes = 0; lanes < 2; lanes++) {
        run_world(keeps_first, check_pairs, 8, lanes);
        run_world(keeps_first, check_pairs, 5000, lanes);
        run_world(gathers_codes, check_codes, 9, lanes);
        run_world(gathers_codes, check_codes, 4999, lanes);
    }
}

TEST(state_stays_from_run_to_run)
{
    const rd_algorithm a = algorithm(delays);
    const rd_proof proof = rd_check_world(&a, 1, 3, 0, 4, false, RD_PLACE_NONE, 0);
    CHECK(strstr(proof.why, "has what some rank kept from before in it"), "%s", proof.why);
    for (int lanes = 0; lanes < 2; lanes++) {
        run_world(delays, check_delays, 8, lanes);
        run_world(delays, check_delays, 5000, lanes);
    }
}
