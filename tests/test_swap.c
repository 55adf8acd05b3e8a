/* test_swap.c: what ranks reduce of private memory goes to a peer and comes back in the same place, and the
 * bits are those of the model whatever else is under way. */
#include <stdlib.h>
#include <string.h>

#include "engine/operation.h"
#include "links.h"
#include "program.h"

static leg some_allreduce(rng *r, uint32_t size, uint64_t bytes, uint64_t segment)
{
    static const char *const names[] = {"two_shot", "ring", "halving", "few_shot", "double_tree"};
    const model_call c = {.kind = RONDA_ALLREDUCE,
                          .type = rng_below(r, 2) ? RONDA_U64 : RONDA_F32,
                          .op = rng_below(r, 2) ? RONDA_SUM : RONDA_MAX,
                          .data = MODEL_EXACT,
                          .size = size,
                          .count = bytes / 8,
                          .seed = rng_next(r)};
    leg l = {.algorithm = rd_algorithm_named(RONDA_ALLREDUCE, names[rng_below(r, 5)]),
             .segment = segment};
    l.planned = call_plan(r, &c, true);
    return l;
}

/* A world in which each rank has a core, as far as it knows. */
static bool links_roomy(uint32_t size, rd_link *links[])
{
    const bool ok = links_shm(size, links);
    for (uint32_t r = 0; r < size && ok; r++)
        links[r]->cpus = size;
    return ok;
}

static uint32_t filled(const rd_swap *w)
{
    uint32_t slots = 0;
    for (uint32_t i = 0; i < RD_SWAP_RANKS * RD_SLOTS; i++)
        slots += w->of[i].port != NULL;
    return slots;
}

/* Memory that lies behind the place, if it is asked for when the place has been. */
enum { GUARD = 64 << 10 };

static char *guard_open(rd_link *link)
{
    char *guard = link->transport->alloc(link, GUARD);
    memset(guard, 0xee, GUARD);
    return guard;
}

static bool guard_close(rd_link *link, char *guard)
{
    const bool untouched = all_bytes_are(0xee, guard, GUARD);
    link->transport->free(link, guard, GUARD);
    return untouched;
}

/* One call after the other uses the same memory and no other, and none keeps it. */
static void check_place(uint32_t size, uint64_t segment, bool swaps, size_t most)
{
    rng r = rng_start();
    program p = {.size = size, .count = 8};
    for (uint32_t i = 0; i < p.count; i++) {
        p.legs[i] = some_allreduce(&r, size, 200000 + rng_below(&r, 100000), segment);
        p.legs[i].algorithm = rd_algorithm_named(RONDA_ALLREDUCE, "two_shot");
    }
    if (!CHECK(links_roomy(size, p.links), "no world") || !engines_open(&p))
        return;
    char *guards[PROGRAM_RANKS];
    p.count = 1;
    program_run_on_engines(&p);
    for (uint32_t k = 0; k < size; k++)
        guards[k] = guard_open(p.links[k]);
    p.first = 1;
    p.count = 8;
    program_run_on_engines(&p);
    for (uint32_t k = 0; k < size; k++) {
        const rd_swap *w = p.engines[k]->swap;
        CHECK(guard_close(p.links[k], guards[k]), "rank %u of %u has written elsewhere", k, size);
        CHECK(!w->user, "rank %u of %u has left it to somebody", k, size);
        CHECK((filled(w) > 0) == swaps, "rank %u of %u has filled %u slots", k, size, filled(w));
        CHECK(w->bytes <= most, "rank %u of %u has %zu bytes", k, size, w->bytes);
        for (uint32_t i = 0; i < RD_SWAP_RANKS * RD_SLOTS; i++)
            CHECK(!w->of[i].awaited, "rank %u of %u still awaits step %u", k, size,
                  w->of[i].awaited);
    }
    engines_close(&p);
    program_free(&p);
}

TEST(calls_share_one_place)
{
    check_place(2, 1 << 20, true, 155 << 10);
    check_place(2, 16384, true, 70 << 10);
    check_place(3, 1 << 20, true, 210 << 10);
    check_place(8, 4096, true, 125 << 10);
    check_place(10, 1024, true, 60 << 10);
    /* One chunk of many parts, and more ranks than have been measured */
    check_place(10, 1 << 20, false, 0);
    check_place(17, 1024, false, 0);
}

/* Short, cut into a few chunks or into many, longer than a slot may be, one by one and several at once, of
 * which one has the place. */
TEST(bits_are_the_models)
{
    rng r = rng_start();
    test_deadline(100);
    for (uint32_t round = 0; round < (test_sanitized() ? 6 : 30) && !test_failed(); round++) {
        static const uint64_t most[] = {300, 5000, 70000, 1 << 20, 9 << 20};
        static const uint64_t segments[] = {0, 100, 4096, 65536, 1 << 20};
        program p = {.size = round % 3 ? 2 : 3 + (uint32_t)rng_below(&r, test_sanitized() ? 4 : 14),
                     .count = round % 5 == 4 ? 3 : 12,
                     .window = round % 2 ? 1 + (uint32_t)rng_below(&r, 6) : 0,
                     .seed = rng_next(&r)};
        for (uint32_t i = 0; i < p.count; i++)
            p.legs[i] = some_allreduce(&r, p.size, 64 + rng_below(&r, most[round % 5]),
                                       segments[rng_below(&r, 5)]);
        program_run(&p, round % 2 ? links_shm : links_roomy);
        program_free(&p);
    }
}

/* --- a peer that does not return what it was sent --- */

enum { PART = 600 };

typedef struct {
    program p;
    uint32_t parts;
} crossing;

/* Both give each other a part of theirs, rank 1 without having read rank 0's: what rank 0 sends seems to
 * come back, in the next round and in the same place, but says nothing about who has read what. */
static void cross(rd_plan *p, rd_shape s)
{
    const rd_range in = rd_whole(s, RD_IN), out = rd_whole(s, RD_OUT);
    if (s.rank == 0) {
        rd_send(p, 1, in);
        rd_round(p, 1);
        rd_recv(p, 1, out);
        return;
    }
    rd_send(p, 0, in);
    rd_round(p, 1);
    rd_recv(p, 0, out);
}

static uint64_t element(uint32_t rank, uint32_t call, size_t i)
{
    return rank * UINT64_C(1000000007) + call * UINT64_C(10000019) + i * 3;
}

static rd_plan *cross_plan(uint32_t rank, size_t count)
{
    static const rd_algorithm algorithm = {RONDA_ALLREDUCE, "cross", cross, 0, ""};
    const rd_shape shape = {
        .kind = RONDA_ALLREDUCE, .rank = rank, .size = 2, .width = 8, .count = count};
    return rd_plan_build(&algorithm, &shape, PART * 8);
}

/* Fills what is given and what is got for this call. */
static rd_job cross_job(const rd_plan *plan, uint32_t call, uint64_t in[], uint64_t out[])
{
    const size_t count = plan->shape.count;
    for (size_t i = 0; i < count; i++) {
        in[i] = element(plan->shape.rank, call, i);
        out[i] = 0;
    }
    return (rd_job){
        .plan = plan,
        .in = in,
        .out = out,
        .record = {.sequence = call, .mark = call, .kind = RONDA_ALLREDUCE, .count = count}};
}

/* How many of the first elements are the peer's. */
static size_t right(const rd_plan *plan, uint32_t call, const uint64_t out[])
{
    size_t i = 0;
    while (i < plan->shape.count && out[i] == element(1 - plan->shape.rank, call, i))
        i++;
    return i;
}

static void run_cross(void *context, uint32_t rank)
{
    const crossing *c = context;
    const program *p = &c->p;
    const size_t count = (size_t)c->parts * PART;
    uint64_t *in = malloc(count * 8), *out = malloc(count * 8);
    rd_plan *plan = cross_plan(rank, count);
    for (uint32_t call = 1; call <= p->count && plan && !test_failed(); call++) {
        const rd_job job = cross_job(plan, call, in, out);
        rd_error err = {0};
        const ronda_status status = rd_engine_run(p->engines[rank], &job, PROGRAM_TIMEOUT_NS, &err);
        if (!CHECK(status == RONDA_OK, "rank %u: %s", rank, err.message))
            p->links[rank]->transport->abort(p->links[rank], &err);
        CHECK(status || right(plan, call, out) == count, "rank %u, call %u: element %zu is wrong",
              rank, call, right(plan, call, out));
    }
    CHECK(rank || filled(p->engines[0]->swap), "it did not go the way that is tested");
    rd_plan_free(plan);
    free(in);
    free(out);
}

/* Rank 0 closes as soon as it has what it wants; rank 1 reads what rank 0 has sent only then. */
static void run_late(void *context, uint32_t rank)
{
    const program *p = context;
    rd_plan *plan = cross_plan(rank, PART);
    uint64_t in[PART], out[PART];
    rd_error err = {0};
    rd_operation *f;
    if (!CHECK(plan, "no plan"))
        return;
    const rd_job job = cross_job(plan, 1, in, out);
    ronda_status status = rd_engine_start(p->engines[rank], &job, &f);
    if (rank)
        sleep_ms(100); /* it has sent, and most likely not yet received */
    if (!status)
        status = rd_engine_wait(p->engines[rank], f, PROGRAM_TIMEOUT_NS, &err);
    CHECK(status == RONDA_OK, "rank %u: %s", rank, err.message);
    CHECK(right(plan, 1, out) == PART, "rank %u: element %zu is wrong", rank, right(plan, 1, out));
    CHECK(rd_engine_close(p->engines[rank], PROGRAM_TIMEOUT_NS, &err) == RONDA_OK, "%s",
          err.message);
    rd_plan_free(plan);
}

TEST(closing_waits_for_who_has_not_read)
{
    for (uint32_t round = 0; round < 5 && !test_failed(); round++) {
        program p = {.size = 2};
        if (!CHECK(links_shm(2, p.links), "no world"))
            return;
        void *before = p.links[0]->transport->alloc(p.links[0], 1);
        p.links[0]->transport->free(p.links[0], before, 1);
        if (!engines_open(&p))
            return;
        run_ranks(2, run_late, &p);
        void *after = p.links[0]->transport->alloc(p.links[0], 1);
        CHECK(after == before, "memory was not given back");
        p.links[0]->transport->free(p.links[0], after, 1);
        for (uint32_t r = 0; r < 2; r++)
            p.links[r]->transport->close(p.links[r]);
    }
}

static void run_crossing(uint32_t parts, uint32_t calls)
{
    crossing c = {.p = {.size = 2, .count = calls}, .parts = parts};
    if (!CHECK(links_shm(2, c.p.links), "no world") || !engines_open(&c.p))
        return;
    run_ranks(2, run_cross, &c);
    for (uint32_t i = 0; i < RD_SLOTS; i++)
        CHECK(!c.p.engines[0]->swap->of[RD_SLOTS + i].awaited, "slot %u was never emptied", i);
    engines_close(&c.p);
}

/* The place is used again by the same call, and by the next ones. */
TEST(what_seems_to_come_back_may_not_have_been_read)
{
    test_deadline(60);
    run_crossing(200, test_sanitized() ? 10 : 60);
    run_crossing(1, test_sanitized() ? 500 : 20000);
}

/* --- a peer that is in the middle of it --- */

/* Rank 1 is inside a call and does nothing: as if it had been stopped while it folds into a slot of rank 0's. */
TEST(a_slot_that_a_silent_peer_may_fold_into_is_not_used_again)
{
    program p = {.size = 2};
    uint64_t in[PART], out[PART];
    rd_engine *kin;
    rd_error err = {0};
    rd_plan *plan = cross_plan(0, PART);
    if (!CHECK(plan && links_shm(2, p.links), "no world") || !engines_open(&p) ||
        !CHECK(rd_engine_open(p.links[0], p.engines[0], &kin) == RONDA_OK, "no engine"))
        return;
    const rd_job job = cross_job(plan, 1, in, out);
    p.links[1]->transport->enter(p.links[1], &job.record);
    CHECK(rd_engine_run(p.engines[0], &job, 50000000, &err) == RONDA_ETIMEOUT, "%s", err.message);
    char *slots = kin->swap->memory;
    const size_t bytes = kin->swap->bytes;
    CHECK(slots && filled(kin->swap), "it did not go the way that is tested");
    rd_engine_close(p.engines[0], PROGRAM_TIMEOUT_NS, &err);
    CHECK(!kin->swap->memory, "kin go on with the memory that rank 1 may write to");
    char *other = p.links[0]->transport->alloc(p.links[0], bytes);
    CHECK(other && (other >= slots + bytes || slots >= other + bytes), "it was given out again");
    p.links[1]->transport->leave(p.links[1], 1);
    p.links[0]->transport->free(p.links[0], other, bytes);
    rd_engine_close(kin, PROGRAM_TIMEOUT_NS, &err);
    rd_engine_close(p.engines[1], PROGRAM_TIMEOUT_NS, &err);
    rd_plan_free(plan);
    for (uint32_t r = 0; r < 2; r++)
        p.links[r]->transport->close(p.links[r]);
}
