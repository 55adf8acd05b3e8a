/* test_closing.c: when memory is the caller's again: after a failed call at once, after a good one
 * too, and a rank that closes takes nothing away that others still read. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "calls.h"

enum { MOST = 8 };

static const ronda_kind kinds[] = {RONDA_ALLREDUCE, RONDA_BROADCAST, RONDA_ALLGATHER,
                                   RONDA_REDUCE_SCATTER};

/* --- buffers --- */

typedef struct {
    uint32_t size;
    model_call call;
    ronda_comm *comms[MOST];
    _Atomic uint32_t busy;
    unsigned pause_us;
} cut;

/* Rounds of large calls until somebody from outside cuts them off; then everything is freed. */
static void run_cut(void *context, uint32_t rank)
{
    cut *s = context;
    ronda_status status = RONDA_OK;
    while (!status) {
        call_buffers b = call_open(&s->call, rank, rank % 2, 0);
        atomic_fetch_add(&s->busy, 1);
        status = call_run(s->comms[rank], &b);
        call_close(&b);
    }
    CHECK(status == RONDA_EABORTED, "rank %u: %s", rank, ronda_last_error(s->comms[rank]));
}

static void *cut_off(void *context)
{
    cut *s = context;
    while (atomic_load(&s->busy) < s->size)
        sleep_ms(1);
    const double end = seconds_now() + s->pause_us * 1e-6;
    while (seconds_now() < end)
        continue;
    ronda_abort(s->comms[0], "cut off");
    return NULL;
}

static void play_cut(rng *r, const char *algorithms, ronda_kind kind, uint64_t count)
{
    cut s = {.size = 2 + (uint32_t)rng_below(r, 4), .pause_us = (unsigned)rng_below(r, 3000)};
    pthread_t thread;
    s.call = (model_call){
        .kind = kind, .type = RONDA_U64, .op = RONDA_SUM, .size = s.size, .count = count};
    if (!world_open(s.size, algorithms, s.comms))
        return;
    if (CHECK(pthread_create(&thread, NULL, cut_off, &s) == 0, "no thread")) {
        run_ranks(s.size, run_cut, &s);
        pthread_join(thread, NULL);
    }
    world_close(s.size, s.comms);
}

TEST(buffers_are_free_when_a_failed_call_returns)
{
    rng r = rng_start();
    static const char *const algorithms[] = {
        "allreduce=ring",    "allreduce=two_shot",    "allreduce=halving",  "broadcast=direct",
        "broadcast=scatter", "broadcast=tree",        "allgather=direct",   "allgather=ring",
        "allgather=bruck",   "reduce_scatter=direct", "reduce_scatter=ring"};
    test_deadline(120);
    for (uint32_t round = 0; round < (test_sanitized() ? 6 : 12); round++)
        for (uint32_t i = 0; i < 11 && !test_failed(); i++)
            play_cut(&r, algorithms[i],
                     kinds[i < 3   ? 0
                           : i < 6 ? 1
                           : i < 9 ? 2
                                   : 3],
                     round % 3 == 0 ? 100000 : 3000);
}

/* --- closing in good order --- */

typedef struct {
    uint32_t size;
    ronda_comm *comms[MOST];
    planned_call calls[3];
    uint64_t seed;
} leaving;

/* Ranks close the moment their part is done, while others may still read what they sent. */
static void run_leaving(void *context, uint32_t rank)
{
    leaving *s = context;
    rng r = {s->seed + rank};
    for (uint32_t i = 0; i < 3; i++) {
        const planned_call *c = &s->calls[i];
        if (rng_below(&r, 4) == 0)
            sleep_ms(1);
        call_buffers b = call_open(&c->call, rank, c->in_place >> rank & 1, 0);
        const ronda_status status = call_run(s->comms[rank], &b);
        if (CHECK(status == RONDA_OK, "rank %u: %s", rank, ronda_last_error(s->comms[rank])))
            call_right(&b, c->whole);
        call_close(&b);
    }
    const ronda_status status = ronda_close(s->comms[rank]);
    CHECK(status == RONDA_OK, "rank %u: close: %s", rank, ronda_strerror(status));
}

TEST(closing_when_done_disturbs_nobody)
{
    rng r = rng_start();
    static const char *const algorithms[] = {
        NULL, "allreduce=one_shot,allgather=bruck,reduce_scatter=ring",
        "allreduce=ring,reduce_scatter=star",
        "allreduce=halving,broadcast=binomial,allgather=ring,barrier=ring"};
    test_deadline(120);
    for (uint32_t round = 0; round < (test_sanitized() ? 200 : 600) && !test_failed(); round++) {
        leaving s = {.size = 2 + (uint32_t)rng_below(&r, 6), .seed = rng_next(&r)};
        for (uint32_t i = 0; i < 3; i++) {
            const model_call c = model_draw(&r, model_kind(&r), s.size, 9000);
            s.calls[i] = call_plan(&r, &c, true);
        }
        if (world_open(s.size, algorithms[round % 4], s.comms))
            run_ranks(s.size, run_leaving, &s);
        calls_free(s.calls, 3);
    }
}
