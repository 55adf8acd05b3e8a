/* test_kills.c: a rank is killed by SIGKILL at a random moment of what the others do with it.
 *
 * They split, send each other long messages, have many requests under way, with and without a thread that
 * moves them.  Every survivor gets RONDA_EPEER, in time, with the name of the dead; once it has closed, no
 * file is open and no memory is in use that was not before. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "processes.h"

enum { LONG = 300000, SMALL = 200, MANY = 60, PATIENCE_S = 30 };

typedef enum { SPLITS, LONG_MESSAGES, MANY_REQUESTS, DEEDS } deed;
static const char *const deed_names[] = {"splits", "long messages", "many requests"};

typedef struct {
    deed deed;
    bool tended;
    uint32_t victim;
} scene;

typedef struct {
    const scene *s;
    ronda_comm *world;
    uint32_t rank, size;
    uint32_t *words; /* MANY * LONG would be too much: 4 * LONG, and 2 * MANY * SMALL */
    rng own;
} survivor;

/* --- what they do until it fails --- */

/* The error is about the victim.  In a part it may be about a rank that has closed its end at once, since it
 * was told of the death before the split was over. */
static void check_error(const survivor *v, ronda_comm *comm, ronda_status status)
{
    ronda_error e = {.struct_size = sizeof e};
    char name[40];
    ronda_get_error(comm, &e);
    snprintf(name, sizeof name, comm == v->world ? "rank %u (" : "rank %u of the world",
             v->s->victim);
    const bool named = strstr(e.message, name) && (comm != v->world || e.peer == v->s->victim),
               left = comm != v->world && strstr(e.message, "has closed");
    CHECK(status == RONDA_EPEER && (named || left),
          "rank %u of %u, %s: %d about rank %u instead of %u: %s", v->rank, v->size,
          deed_names[v->s->deed], status, e.peer, v->s->victim, e.message);
}

/* Splits, and what the part is for; a part without the dead rank goes on. */
static ronda_status split_once(survivor *v, uint64_t round)
{
    ronda_comm *part = NULL;
    uint32_t word = 1;
    const int color = (int)((v->rank + round) % 3) - (round % 4 == 0);
    ronda_status status = ronda_split(v->world, color, (int)(round % 2 * v->rank), &part);
    if (status)
        return status;
    status = part ? ronda_allreduce(part, &word, &word, 1, RONDA_U32, RONDA_SUM) : RONDA_OK;
    if (status)
        check_error(v, part, status);
    CHECK(ronda_close(part) == RONDA_OK, "closing a part: %s", ronda_last_error(NULL));
    return status ? ronda_barrier(v->world) : RONDA_OK;
}

static ronda_status wait_in_any_order(survivor *v, ronda_request *requests[], uint32_t count)
{
    ronda_status first = RONDA_OK;
    while (count) {
        const uint32_t k = (uint32_t)rng_below(&v->own, count);
        const ronda_status status = requests[k] ? ronda_wait(requests[k]) : RONDA_OK;
        first = first ? first : status;
        requests[k] = requests[--count];
    }
    return first;
}

/* More than a MiB to the right and from the left, and to the rank opposite. */
static ronda_status send_once(survivor *v, uint64_t round)
{
    const uint32_t n = v->size, right = (v->rank + 1) % n, left = (v->rank + n - 1) % n;
    const uint32_t tag = (uint32_t)round;
    ronda_request *requests[4] = {NULL};
    ronda_status status =
        ronda_isend(v->world, v->words, LONG, RONDA_U32, right, tag, &requests[0]);
    if (!status)
        status =
            ronda_irecv(v->world, v->words + LONG, LONG, RONDA_U32, left, tag, NULL, &requests[1]);
    if (!status)
        status = ronda_isend(v->world, v->words, LONG, RONDA_U32, left, tag, &requests[2]);
    if (!status)
        status = ronda_irecv(v->world, v->words + 2 * LONG, LONG, RONDA_U32,
                             n == 2 ? right : RONDA_ANY, tag, NULL, &requests[3]);
    const ronda_status waited = wait_in_any_order(v, requests, 4);
    return status ? status : waited;
}

/* Collectives of several lengths and short messages, all at once. */
static ronda_status request_many(survivor *v, uint64_t round)
{
    ronda_request *requests[2 * MANY] = {NULL};
    ronda_status status = RONDA_OK;
    uint32_t count = 0, *at = v->words;
    for (uint32_t i = 0; i < MANY && !status; i++, at += 2 * SMALL) {
        const uint32_t peer = (v->rank + v->size - i % v->size) % v->size;
        const size_t length = i == 7 ? LONG : i % SMALL;
        uint32_t *to = i == 7 ? v->words + 2 * LONG : at;
        if (i % 3 == 0)
            status = ronda_isend(v->world, at, i, RONDA_U32, (v->rank + i) % v->size,
                                 (uint32_t)round, &requests[count++]);
        if (!status && i % 3 == 0)
            status = ronda_irecv(v->world, at + SMALL, SMALL, RONDA_U32, peer, (uint32_t)round,
                                 NULL, &requests[count++]);
        if (!status && i % 3)
            status = ronda_iallreduce(v->world, to, to, length, RONDA_U32, RONDA_SUM,
                                      &requests[count++]);
    }
    const ronda_status waited = wait_in_any_order(v, requests, count);
    return status ? status : waited;
}

static void survive(job *j, const scene *s, ronda_comm *world, uint32_t rank)
{
    survivor v = {.s = s, .world = world, .rank = rank, .size = j->size, .own = {rank + 1}};
    ronda_status status = RONDA_OK;
    v.words = calloc(4 * LONG, sizeof *v.words);
    ronda_set_timeout(world, PATIENCE_S * 1000000000u);
    for (uint64_t round = 0; !status; round++) {
        j->shared->number[rank] = round + 1;
        status = s->deed == SPLITS          ? split_once(&v, round)
                 : s->deed == LONG_MESSAGES ? send_once(&v, round)
                                            : request_many(&v, round);
    }
    check_error(&v, world, status);
    CHECK(ronda_barrier(world) == status, "another status later");
    free(v.words);
}

/* --- one rank --- */

static void join_and_survive(job *j, uint32_t rank)
{
    const scene *s = j->context;
    ronda_comm *world = NULL;
    const ronda_config config = {.struct_size = sizeof config,
                                 .rank = rank,
                                 .size = j->size,
                                 .addr = j->address,
                                 .flags = s->tended ? RONDA_PROGRESS_THREAD : 0};
    if (!CHECK(ronda_init(&config, &world) == RONDA_OK, "%s", ronda_last_error(NULL)))
        return;
    survive(j, s, world, rank);
    CHECK(ronda_close(world) == RONDA_OK, "close: %s", ronda_last_error(NULL));
}

static int be_a_rank(job *j, uint32_t rank)
{
    return leave_nothing(j, rank, join_and_survive);
}

static void strike(rng *r, uint32_t size, const scene *s)
{
    job j = job_open(size, be_a_rank, s);
    job_start(&j);
    const uint64_t rounds = 1 + rng_below(r, 6);
    const double end = seconds_now() + PATIENCE_S;
    while (j.shared->number[s->victim] < rounds && seconds_now() < end)
        sched_yield();
    usleep((unsigned)rng_below(r, 3000));
    const double start = seconds_now();
    kill(j.pids[s->victim], SIGKILL);
    job_wait(&j, PATIENCE_S);
    CHECK(seconds_now() - start < PATIENCE_S / 2, "it took %.1f s", seconds_now() - start);
    for (uint32_t k = 0; k < size; k++)
        CHECK(k == s->victim || j.status[k] == 0, "rank %u of %u ended with 0x%x (%s%s)", k, size,
              (unsigned)j.status[k], deed_names[s->deed], s->tended ? ", with a thread" : "");
    job_close(&j);
}

static void strike_often(deed what)
{
    rng r = rng_start();
    const double end = seconds_now() + test_seconds();
    test_deadline(200 + test_seconds());
    for (uint32_t i = 0; (i < (test_sanitized() ? 4 : 10) || seconds_now() < end) && !test_failed();
         i++) {
        const uint32_t size = 2 + (uint32_t)rng_below(&r, 5);
        const scene s = {what, i % 2, (uint32_t)rng_below(&r, size)};
        strike(&r, size, &s);
    }
}

TEST(killed_in_the_middle_of_a_split)
{
    strike_often(SPLITS);
}

TEST(killed_in_the_middle_of_long_messages)
{
    strike_often(LONG_MESSAGES);
}

TEST(killed_with_many_requests_under_way)
{
    strike_often(MANY_REQUESTS);
}
