/* program.c: see program.h. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

/* --- worlds of engines --- */

bool engines_open(program *p)
{
    for (uint32_t r = 0; r < p->size; r++) {
        if (!CHECK(rd_engine_open(p->links[r], NULL, &p->engines[r]) == RONDA_OK, "no engine"))
            return false;
        if (p->lanes)
            rd_engine_use_lanes(p->engines[r]);
    }
    return true;
}

void engines_close(program *p)
{
    for (uint32_t r = 0; r < p->size; r++) {
        rd_error err = {0};
        CHECK(rd_engine_close(p->engines[r], PROGRAM_TIMEOUT_NS, &err) == RONDA_OK, "%s",
              err.message);
        p->links[r]->transport->close(p->links[r]);
    }
}

void program_free(program *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        calls_free(&p->legs[i].planned, 1);
        for (uint32_t r = 0; r < PROGRAM_RANKS; r++)
            free(p->legs[i].bits[r]);
    }
}

/* --- one rank's program --- */

static uint64_t mark_of(uint64_t sequence)
{
    return sequence * 0x9e3779b97f4a7c15 + 5;
}

static void set_starts(const model_call *c, uint32_t rank, rd_shape *shape,
                       uint64_t starts[2][PROGRAM_RANKS + 1])
{
    const rd_kind_facts *k = rd_kind(c->kind);
    for (uint32_t i = 0; i <= c->size; i++) {
        starts[RD_IN][i] = model_send_at(c, rank, i);
        starts[RD_OUT][i] = model_recv_at(c, rank, i);
    }
    if (k->counted && k->gives == RD_BLOCKS)
        shape->starts[RD_IN] = starts[RD_IN];
    if (k->counted && k->gets == RD_BLOCKS)
        shape->starts[RD_OUT] = starts[RD_OUT];
    if (c->kind == RONDA_ALLTOALLV)
        shape->count = 0;
}

void stage_open(const program *p, uint32_t rank, uint64_t sequence, const leg *l, stage *s)
{
    const model_call *c = &l->planned.call;
    const bool barrier = c->kind == RONDA_BARRIER;
    *s = (stage){.token = calloc(2, 1)};
    s->token[0] = 1;
    s->buffers = call_open(c, rank, l->planned.in_place >> rank % 64 & 1, l->planned.skew);
    const bool in_place = s->buffers.in_place;
    rd_shape shape = {.kind = c->kind,
                      .rank = rank,
                      .size = p->size,
                      .root = c->root,
                      .width = (uint32_t)model_width(c->type),
                      .in_place = in_place,
                      .mean = c->op == RONDA_MEAN,
                      .count = barrier ? 1 : c->count,
                      .hosts = p->hosts};
    uint64_t starts[2][PROGRAM_RANKS + 1];
    set_starts(c, rank, &shape, starts);
    s->plan = rd_plan_build(l->algorithm, &shape, l->segment);
    if (!s->plan)
        abort();
    s->job = (rd_job){.plan = s->plan,
                      .in = barrier ? (char *)s->token : s->buffers.send,
                      .out = barrier ? (char *)s->token + 1 : s->buffers.recv,
                      .fold = rd_fold_kernel(c->type, barrier ? RONDA_BOR : c->op),
                      .record = {.sequence = sequence,
                                 .count = c->count,
                                 .mark = mark_of(sequence),
                                 .kind = c->kind,
                                 .type = c->type,
                                 .op = c->op,
                                 .root = c->root}};
}

/* Right by the model, and the same bits as in the run before. */
void stage_finish(const program *p, uint32_t rank, leg *l, stage *s)
{
    const size_t bytes = model_recv_bytes(&l->planned.call, rank);
    call_right(&s->buffers, l->planned.whole);
    if (p->keep) {
        l->bits[rank] = malloc(bytes + 1);
        memcpy(l->bits[rank], s->buffers.recv, bytes);
    } else if (l->bits[rank]) {
        CHECK(memcmp(l->bits[rank], s->buffers.recv, bytes) == 0,
              "%s by %s: rank %u has other bits", model_text(&l->planned.call), l->algorithm->name,
              rank);
    }
    CHECK(l->planned.call.kind != RONDA_BARRIER || s->token[1] == 1,
          "a barrier without all tokens");
    stage_free(s);
}

void stage_free(stage *s)
{
    call_close(&s->buffers);
    rd_plan_free(s->plan);
    free(s->token);
}

static bool good(const program *p, uint32_t rank, ronda_status status, const rd_error *err,
                 const leg *l)
{
    return CHECK(status == RONDA_OK, "%s by %s: rank %u of %u: %s: %s",
                 model_text(&l->planned.call), l->algorithm->name, rank, p->size,
                 ronda_strerror(status), err->message);
}

static bool run_one_by_one(program *p, uint32_t rank)
{
    for (uint32_t i = p->first; i < p->count; i++) {
        rd_error err = {0};
        stage s;
        stage_open(p, rank, i + 1, &p->legs[i], &s);
        if (!good(p, rank, rd_engine_run(p->engines[rank], &s.job, PROGRAM_TIMEOUT_NS, &err), &err,
                  &p->legs[i]))
            return false;
        stage_finish(p, rank, &p->legs[i], &s);
    }
    return true;
}

/* Starts as long as the window has room, waits for any of those under way, tests some. */
static bool run_window(program *p, uint32_t rank)
{
    rng r = {p->seed + rank * 77};
    stage stages[PROGRAM_WINDOW];
    uint32_t which[PROGRAM_WINDOW], under_way = 0, next = p->first;

    while (next < p->count || under_way) {
        rd_error err = {0};
        if (next < p->count && under_way < p->window && rng_below(&r, 3)) {
            stage *s = &stages[under_way];
            stage_open(p, rank, next + 1, &p->legs[next], s);
            if (!good(p, rank, rd_engine_start(p->engines[rank], &s->job, &s->operation), &err,
                      &p->legs[next]))
                return false;
            which[under_way++] = next++;
            continue;
        }
        if (under_way == 0)
            continue;
        const uint32_t k = (uint32_t)rng_below(&r, under_way);
        stage *s = &stages[k];
        if (rng_below(&r, 3) == 0 && !rd_engine_test(p->engines[rank], s->operation))
            continue;
        const ronda_status status =
            rd_engine_wait(p->engines[rank], s->operation, PROGRAM_TIMEOUT_NS, &err);
        if (!good(p, rank, status, &err, &p->legs[which[k]]))
            return false;
        stage_finish(p, rank, &p->legs[which[k]], s);
        stages[k] = stages[--under_way];
        which[k] = which[under_way];
    }
    return true;
}

static void run_rank(void *context, uint32_t rank)
{
    program *p = context;
    if (p->window ? run_window(p, rank) : run_one_by_one(p, rank))
        return;
    rd_error cause = {.status = RONDA_EABORTED, .message = "another rank's check failed"};
    p->links[rank]->transport->abort(p->links[rank], &cause);
}

bool program_run_on_engines(program *p)
{
    run_ranks(p->size, run_rank, p);
    return !test_failed();
}

bool program_run_on_links(program *p)
{
    if (!engines_open(p))
        return false;
    program_run_on_engines(p);
    engines_close(p);
    return !test_failed();
}

bool program_run(program *p, links_fn *open)
{
    return CHECK(open(p->size, p->links), "no world of %u", p->size) && program_run_on_links(p);
}

/* --- programs --- */

const rd_algorithm *some_algorithm(rng *r, ronda_kind kind)
{
    const rd_algorithm *found[16];
    uint32_t count = 0;
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        if (a->kind == kind)
            found[count++] = a;
    return found[rng_below(r, count)];
}

bool folds_in_one_pass(const rd_algorithm *a)
{
    return a->flags & RD_ORDERED && a->kind != RONDA_SCAN && a->kind != RONDA_EXSCAN &&
           strcmp(a->name, "doubling") != 0;
}

/* Plans are cut for tiny segments, so that few bytes make many chunks. */
leg leg_draw(rng *r, const rd_algorithm *a, uint32_t size, uint64_t most_bytes, bool exact)
{
    static const uint64_t segments[] = {0, 64, 200, 1024, 1 << 20};
    model_call c = model_draw(r, a->kind, size, most_bytes);
    c.data = exact ? MODEL_EXACT : MODEL_ANY;
    const bool rounds =
        !exact && model_is_float(c.type) && !folds_in_one_pass(a) && model_reduces(c.kind);
    leg l = {.algorithm = a, .segment = segments[rng_below(r, 5)]};
    l.planned = call_plan(r, &c, !rounds);
    return l;
}

void program_draw(rng *r, program *p, uint32_t count, uint64_t most_bytes, bool exact)
{
    p->count = count;
    p->seed = rng_next(r);
    for (uint32_t i = 0; i < count; i++)
        p->legs[i] = leg_draw(r, some_algorithm(r, model_kind(r)), p->size, most_bytes, exact);
}
