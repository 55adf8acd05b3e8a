/* test_split.c: parts of a world, as communicators of their own.
 *
 * Random colors and keys, split again and again, with random calls on all of them, blocking and not, in an
 * order of each rank's own as far as that is allowed; closed in any order; as threads and processes. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "forest.h"
#include "processes.h"
#include "under_way.h"

enum { MOST = 13, NODES = 6, CALLS = 12 };

/* The calls of a node: the same on all ranks of a part. */
static planned_call call_of(const forest *f, uint32_t n, const place *p, uint32_t i)
{
    rng r = {f->seed + n * 1000 + (uint64_t)p->part * 77 + i * 13};
    const model_call c = model_draw(&r, model_kind(&r), p->size, rng_below(&r, 6) ? 800 : 30000);
    return call_plan(&r, &c, true);
}

/* Calls of one communicator keep their order; those of different ones come in any order, as none of them
 * blocks. */
static bool run_calls(const forest *f, ronda_comm *comms[], uint32_t rank)
{
    rng r = {f->seed + rank * 99991};
    under_way open[NODES * CALLS];
    planned_call calls[NODES * CALLS];
    uint32_t next[NODES] = {0}, left = 0, count = 0;
    place places[NODES];
    for (uint32_t n = 0; n < NODES; n++) {
        places[n] = forest_place(f, n, rank);
        left += comms[n] ? CALLS : 0;
    }
    while (left || count) {
        const uint32_t n = (uint32_t)rng_below(&r, NODES);
        if (left && comms[n] && next[n] < CALLS && rng_below(&r, 3)) {
            calls[count] = call_of(f, n, &places[n], next[n]++);
            left--;
            if (!under_way_start(&r, comms[n], &calls[count], places[n].rank, &open[count]))
                return false;
            count++;
        } else if (count) {
            const uint32_t k = (uint32_t)rng_below(&r, count);
            bool done = true;
            if (left) /* what it waits for may be started later by a rank that waits for us */
                CHECK(ronda_test(open[k].request, &done) == RONDA_OK, "test");
            if (!done)
                continue;
            if (!under_way_finish(&r, &open[k]))
                return false;
            calls_free(&calls[k], 1);
            open[k] = open[--count];
            calls[k] = calls[count];
        }
    }
    return true;
}

static void run_forest(const forest *f, ronda_comm *world, uint32_t rank)
{
    ronda_comm *comms[NODES] = {world};
    rng r = {f->seed + rank};
    bool good = true;
    for (uint32_t n = 1; n < NODES && good; n++)
        good = forest_split(f, n, rank, comms);
    if (!good || !run_calls(f, comms, rank)) {
        ronda_abort(world, "a result was wrong");
        return;
    }
    for (uint32_t left = NODES; left; left--) { /* in any order, the world among them */
        const uint32_t k = (uint32_t)rng_below(&r, left);
        CHECK(ronda_close(comms[k]) == RONDA_OK, "close");
        comms[k] = comms[left - 1];
    }
}

static void run_thread(void *context, uint32_t rank)
{
    const forest *f = context;
    run_forest(f, f->worlds[rank], rank);
}

TEST(random_splits_of_threads)
{
    rng r = rng_start();
    test_deadline(200);
    for (uint32_t i = 0; i < (test_sanitized() ? 15 : 100) && !test_failed(); i++) {
        static forest f;
        forest_draw(&r, &f, 1 + (uint32_t)rng_below(&r, i % 4 ? 6 : MOST));
        if (!world_open(f.size, NULL, f.worlds))
            return;
        run_ranks(f.size, run_thread, &f);
    }
}

static int run_process(job *j, uint32_t rank)
{
    ronda_comm *comm = job_join(j, rank);
    if (!comm)
        return 1;
    run_forest(j->context, comm, rank);
    return 0;
}

TEST(random_splits_of_processes)
{
    rng r = rng_start();
    test_deadline(200);
    for (uint32_t i = 0; i < (test_sanitized() ? 5 : 20) && !test_failed(); i++) {
        static forest f;
        forest_draw(&r, &f, 1 + (uint32_t)rng_below(&r, i % 4 ? 5 : 9));
        job_run(f.size, run_process, &f, 60);
    }
}

/* --- progress --- */

/* Rank 0 waits on a part while ranks 1 and 2 need it for a call of the world that it has only started. */
static void run_crossing(ronda_comm *world, uint32_t rank)
{
    ronda_comm *pair = NULL;
    static uint32_t data[3][100000];
    ronda_request *request;
    ronda_set_timeout(world, 10000000000);
    CHECK(ronda_split(world, rank < 2 ? 0 : -1, 0, &pair) == RONDA_OK, "%s",
          ronda_last_error(world));
    for (uint32_t i = 0; i < 100000; i++)
        data[rank][i] = rank + i;
    CHECK(ronda_iallreduce(world, data[rank], data[rank], 100000, RONDA_U32, RONDA_SUM, &request) ==
              RONDA_OK,
          "%s", ronda_last_error(world));
    if (rank == 0)
        CHECK(ronda_barrier(pair) == RONDA_OK, "%s", ronda_last_error(pair));
    CHECK(ronda_wait(request) == RONDA_OK, "%s", ronda_last_error(world));
    if (rank == 1)
        CHECK(ronda_barrier(pair) == RONDA_OK, "%s", ronda_last_error(pair));
    for (uint32_t i = 0; i < 100000; i++)
        if (!CHECK(data[rank][i] == 3 + 3 * i, "element %u is %u", i, data[rank][i]))
            break;
    CHECK(ronda_close(pair) == RONDA_OK, "close");
}

TEST(waiting_for_one_moves_the_others)
{
    world_play(3, "allreduce=ring", run_crossing);
}

/* --- failure --- */

/* Rank 3 dies, closes its part, or aborts the world; parts {0 1} and {2 3}. */
typedef struct {
    int deed;
    ronda_comm *worlds[4];
    _Atomic uint64_t steps;
} failing;

/* One more rank has come so far. */
static void step(_Atomic uint64_t *steps)
{
    atomic_fetch_add(steps, 1);
}

/* Until so many have; the test's deadline bounds it. */
static void until(const _Atomic uint64_t *steps, uint64_t count)
{
    while (atomic_load(steps) < count)
        sleep_ms(1);
}

static void fail_part(int deed, ronda_comm *world, uint32_t rank, _Atomic uint64_t *steps)
{
    ronda_comm *part = NULL;
    uint32_t word = rank;
    ronda_set_timeout(world, 10000000000);
    CHECK(ronda_split(world, (int)rank / 2, 0, &part) == RONDA_OK, "%s", ronda_last_error(world));
    CHECK(ronda_allreduce(part, &word, &word, 1, RONDA_U32, RONDA_SUM) == RONDA_OK &&
              word == (rank < 2 ? 1 : 5),
          "%s", ronda_last_error(part));
    CHECK(ronda_barrier(world) == RONDA_OK, "%s", ronda_last_error(world));
    step(steps);
    if (rank == 3) {
        until(steps, 4); /* all are out of the barrier */
        if (deed == 0) {
            CHECK(ronda_close(part) == RONDA_OK, "close");
            until(steps, 5); /* rank 2 has missed it */
            CHECK(ronda_barrier(world) == RONDA_OK, "%s", ronda_last_error(world));
            return;
        }
        if (deed == 1)
            ronda_abort(world, "enough");
        else
            _exit(0);
    }
    const double start = seconds_now();
    ronda_status status = ronda_barrier(part);
    if (deed == 0) {
        CHECK(status == (rank < 2 ? RONDA_OK : RONDA_EPEER), "rank %u: %s", rank,
              ronda_last_error(part));
        if (rank == 2)
            step(steps);
        CHECK(ronda_barrier(world) == RONDA_OK, "rank %u: %s", rank, ronda_last_error(world));
    } else if (deed == 1) {
        while (!status && seconds_now() < start + 5)
            status = ronda_barrier(part);
        CHECK(status == RONDA_EABORTED && strstr(ronda_last_error(part), "enough"), "rank %u: %s",
              rank, ronda_last_error(part));
    } else if (rank == 2) {
        CHECK(status == RONDA_EPEER &&
                  strstr(ronda_last_error(part), "rank 1 (rank 3 of the world, pid "),
              "rank %u: %s", rank, ronda_last_error(part));
        CHECK(seconds_now() - start < 3, "it took %.1f s", seconds_now() - start);
    } else {
        CHECK(status == RONDA_OK, "rank %u: %s", rank, ronda_last_error(part));
        CHECK(ronda_barrier(world) == RONDA_EPEER, "rank %u: %s", rank, ronda_last_error(world));
    }
    CHECK(ronda_close(part) == RONDA_OK, "close");
}

static void run_failing(void *context, uint32_t rank)
{
    failing *s = context;
    fail_part(s->deed, s->worlds[rank], rank, &s->steps);
}

static int process_failing(job *j, uint32_t rank)
{
    const failing *s = j->context;
    ronda_comm *comm = job_join(j, rank);
    if (!comm)
        return 1;
    fail_part(s->deed, comm, rank, &j->shared->number[0]);
    CHECK(ronda_close(comm) == RONDA_OK, "close");
    return 0;
}

TEST(a_part_fails_alone)
{
    for (int deed = 0; deed < 3; deed++) {
        failing s = {.deed = deed};
        if (deed < 2) {
            if (!world_open(4, NULL, s.worlds))
                return;
            run_ranks(4, run_failing, &s);
            world_close(4, s.worlds);
        }
        job_run(4, process_failing, &s, 60);
    }
}

/* --- memory --- */

/* This rank's own memory, and its share of what ranks share: a page that four of them see is a quarter. */
static long resident_kib(void)
{
    long kib = 0;
    char line[256];
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "Pss: %ld", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return kib;
}

/* A hundred communicators of all ranks, each used with small and larger calls; then closed and made again:
 * nothing grows. */
static void many_parts(ronda_comm *world, uint32_t rank)
{
    enum { PARTS = 100 };
    ronda_comm *parts[PARTS];
    static float data[3000];
    long first = 0, second = 0, before;
    for (int round = 0; round < 3; round++) {
        before = resident_kib();
        for (int i = 0; i < PARTS; i++) {
            CHECK(ronda_split(world, 0, -(int)rank, &parts[i]) == RONDA_OK, "%s",
                  ronda_last_error(world));
            for (size_t count = 1; count <= 3000; count += 2999)
                CHECK(ronda_allreduce(parts[i], data, data, count, RONDA_F32, RONDA_SUM) ==
                          RONDA_OK,
                      "%s", ronda_last_error(parts[i]));
        }
        if (round == 0)
            first = resident_kib() - before;
        second = resident_kib();
        for (int i = 0; i < PARTS; i++)
            CHECK(ronda_close(parts[i]) == RONDA_OK, "close");
    }
    CHECK(test_sanitized() || first < PARTS * 64, "%ld KiB for each", first / PARTS);
    CHECK(test_sanitized() || second < before + PARTS * 200, "it grows: %ld KiB", second);
    if (rank == 0)
        printf("a part of 4 ranks takes %ld KiB of each\n", first / PARTS);
}

TEST(a_hundred_parts)
{
    job_play(4, many_parts, 60);
}

/* --- misuse --- */

TEST(splits_that_are_refused)
{
    ronda_comm *c, *part = NULL;
    if (!world_open(1, NULL, &c))
        return;
    CHECK(ronda_split(NULL, 0, 0, &part) == RONDA_EINVAL &&
              strstr(ronda_last_error(NULL), "comm is NULL"),
          "%s", ronda_last_error(NULL));
    CHECK(ronda_split(c, 0, 0, NULL) == RONDA_EINVAL && strstr(ronda_last_error(c), "out is NULL"),
          "%s", ronda_last_error(c));
    CHECK(ronda_split(c, -5, 0, &part) == RONDA_OK && !part, "%s", ronda_last_error(c));
    CHECK(ronda_split(c, 0, 0, &part) == RONDA_OK && part, "%s", ronda_last_error(c));
    CHECK(ronda_close(c) == RONDA_OK, "the world first");
    CHECK(ronda_barrier(part) == RONDA_OK, "%s", ronda_last_error(part));
    CHECK(ronda_close(part) == RONDA_OK, "then its part");
}
