/* test_kills.c: a rank is killed by SIGKILL at a random moment of what the others do with it.
 *
 * They split, send each other long messages, have many requests under way, or use nothing but
 * subcommunicators, with and without a thread that moves calls.  Every survivor gets RONDA_EPEER, in time, with
 * the name of the dead; once it has closed, no file is open and no memory is in use that was not before.  A
 * subcommunicator without the dead rank goes on. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "processes.h"

enum { LONG = 300000, SMALL = 200, MANY = 60, PATIENCE_S = 30 };

typedef enum { SPLITS, LONG_MESSAGES, MANY_REQUESTS, SUBCOMMUNICATORS, DEEDS } deed;
static const char *const deed_names[] = {"splits", "long messages", "many requests",
                                         "subcommunicators"};
enum { STOP = MOST_PROCESSES - 1 }; /* the number that says that the victim is dead */

typedef struct {
    deed deed;
    bool tended;
    uint32_t victim;
    uint32_t colors; /* into how many subcommunicators the world is split */
    uint64_t seed;   /* of what all ranks do alike */
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
               left = comm != v->world && v->s->deed == SPLITS && strstr(e.message, "has closed");
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

/* --- what they do in subcommunicators --- */

/* Without blocking: tests without a pause, or now and then. */
static ronda_status poll_until_done(survivor *v, ronda_request *request)
{
    const unsigned pause_us = rng_below(&v->own, 2) ? 0 : 1 + (unsigned)rng_below(&v->own, 2000);
    bool done = false;
    while (!done && !ronda_test(request, &done))
        if (pause_us && !done)
            usleep(pause_us);
    return ronda_wait(request);
}

static ronda_status pass_around(survivor *v, ronda_comm *part, bool polls, size_t count)
{
    const uint32_t n = ronda_size(part), right = (ronda_rank(part) + 1) % n;
    ronda_request *requests[2] = {NULL};
    ronda_status status =
        ronda_irecv(part, v->words + LONG, LONG, RONDA_U32, RONDA_ANY, 7, NULL, &requests[0]);
    if (!status)
        status = ronda_isend(part, v->words, count, RONDA_U32, right, 7, &requests[1]);
    for (uint32_t i = 0; i < 2; i++) {
        const ronda_status own = !requests[i] ? RONDA_OK
                                 : polls      ? poll_until_done(v, requests[i])
                                              : ronda_wait(requests[i]);
        status = status ? status : own;
    }
    return status;
}

/* One call, the same on all ranks of the part; each waits for it in its own way. */
static ronda_status call_in_part(survivor *v, ronda_comm *part, rng *common)
{
    const bool polls = rng_below(&v->own, 2), is_long = rng_below(common, 4) == 0;
    const size_t count = rng_below(common, is_long ? LONG : SMALL);
    const uint32_t root = (uint32_t)rng_below(common, ronda_size(part));
    uint32_t *in = v->words, *out = v->words + LONG;
    ronda_request *request = NULL;
    ronda_status status;
    switch (rng_below(common, 6)) {
    case 0:
        return pass_around(v, part, polls, count);
    case 1:
        status = ronda_ibroadcast(part, out, count, RONDA_U32, root, &request);
        break;
    case 2:
        status = ronda_ireduce(part, in, out, count, RONDA_U32, RONDA_SUM, root, &request);
        break;
    case 3:
        status = ronda_ibarrier(part, &request);
        break;
    default:
        if (!polls)
            return ronda_allreduce(part, in, out, count, RONDA_U32, RONDA_SUM);
        status = ronda_iallreduce(part, in, out, count, RONDA_U32, RONDA_SUM, &request);
    }
    return status ? status : polls ? poll_until_done(v, request) : ronda_wait(request);
}

/* Until the dead is missed; where it is not a member, until all members know that it is dead. */
static void survive_in_part(job *j, const scene *s, survivor *v)
{
    ronda_comm *part = NULL;
    rng common = {s->seed};
    ronda_status status = ronda_split(v->world, (int)(v->rank % s->colors), 0, &part);
    if (!CHECK(status == RONDA_OK, "split: %s", ronda_last_error(v->world)))
        return;
    const bool concerned = v->rank % s->colors == s->victim % s->colors;
    for (uint32_t stop = 0; !status && !stop;) {
        j->shared->number[v->rank]++;
        status = call_in_part(v, part, &common);
        stop = !concerned && j->shared->number[STOP];
        if (!status && !concerned)
            status = ronda_allreduce(part, &stop, &stop, 1, RONDA_U32, RONDA_MAX);
    }
    if (concerned)
        check_error(v, part, status);
    else
        CHECK(status == RONDA_OK, "rank %u, without the dead: %s", v->rank, ronda_last_error(part));
    CHECK(ronda_close(part) == RONDA_OK, "closing a part: %s", ronda_last_error(NULL));
}

static void survive(job *j, const scene *s, ronda_comm *world, uint32_t rank)
{
    survivor v = {.s = s, .world = world, .rank = rank, .size = j->size, .own = {rank + 1}};
    ronda_status status = RONDA_OK;
    v.words = calloc(4 * LONG, sizeof *v.words);
    ronda_set_timeout(world, PATIENCE_S * 1000000000ull);
    if (s->deed == SUBCOMMUNICATORS) {
        survive_in_part(j, s, &v);
        free(v.words);
        return;
    }
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
    const uint64_t rounds = 1 + rng_below(r, s->deed == SUBCOMMUNICATORS ? 100 : 6);
    const double end = seconds_now() + PATIENCE_S;
    while (j.shared->number[s->victim] < rounds && seconds_now() < end)
        sched_yield();
    usleep((unsigned)rng_below(r, 3000));
    const double start = seconds_now();
    kill(j.pids[s->victim], SIGKILL);
    j.shared->number[STOP] = 1;
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
        const scene s = {what, i % 2, (uint32_t)rng_below(&r, size),
                         1 + (uint32_t)rng_below(&r, size / 2), rng_next(&r)};
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

TEST(killed_as_a_member_of_a_subcommunicator)
{
    strike_often(SUBCOMMUNICATORS);
}

/* --- killed after it has sent, before it takes what it was sent --- */

typedef enum { BLOCKS, POLLS, CLOSES, WAYS } way;
static const char *const way_names[] = {"blocks", "polls", "closes"};

typedef struct {
    way way;
    bool splits;
} owing;

static ronda_status reduce_polled(ronda_comm *c, uint32_t *words, double until)
{
    ronda_request *request;
    bool done = false;
    ronda_status status =
        ronda_iallreduce(c, words, words + SMALL, SMALL, RONDA_U32, RONDA_SUM, &request);
    while (!status && !done && seconds_now() < until)
        status = ronda_test(request, &done);
    return status ? status : ronda_wait(request);
}

/* Rank 1 waits in a call, and sleeps: rank 0 stops it, makes the same call, and kills it. */
static ronda_status call_and_kill(ronda_comm *c, uint32_t *words, pid_t victim)
{
    ronda_request *request;
    bool done = false;
    sleep_ms(60);
    kill(victim, SIGSTOP);
    sleep_ms(10);
    ronda_status status =
        ronda_iallreduce(c, words, words + SMALL, SMALL, RONDA_U32, RONDA_SUM, &request);
    for (const double end = seconds_now() + 0.03; !status && !done && seconds_now() < end;)
        status = ronda_test(request, &done);
    kill(victim, SIGKILL);
    return status ? status : ronda_wait(request);
}

/* Over sockets the system has all that was sent: nothing is owed, and closing says nothing. */
static void close_and_hear(ronda_comm *c, bool owed)
{
    const char *transport = getenv("RONDA_TRANSPORT");
    const bool shares = !getenv("RONDA_TEST_NETNS") && (!transport || !strcmp(transport, "shm"));
    const ronda_status status = ronda_close(c);
    CHECK(!owed || !shares || (status == RONDA_EPEER && strstr(ronda_last_error(NULL), "rank 1")),
          "close: %d: %s", status, ronda_last_error(NULL));
}

static void be_owed(job *j, uint32_t rank)
{
    const owing *o = j->context;
    ronda_comm *world = job_join(j, rank), *c = world;
    uint32_t words[2 * SMALL];
    int32_t own = getpid(), pids[MOST_PROCESSES];
    ronda_error e = {.struct_size = sizeof e};
    if (!world)
        return;
    ronda_set_timeout(world, PATIENCE_S * 1000000000ull);
    for (uint32_t i = 0; i < 2 * SMALL; i++)
        words[i] = rank + i;
    ronda_status status = o->splits ? ronda_split(world, 0, 0, &c) : RONDA_OK;
    if (!status)
        status = ronda_allgather(c, &own, pids, 1, RONDA_I32);
    for (uint32_t i = 0; i < 3 && !status; i++)
        status = ronda_allreduce(c, words, words + SMALL, SMALL, RONDA_U32, RONDA_SUM);
    CHECK(status == RONDA_OK, "rank %u: %s", rank, ronda_last_error(c));
    status = rank == 0 ? call_and_kill(c, words, pids[1])
                       : ronda_allreduce(c, words, words + SMALL, SMALL, RONDA_U32, RONDA_SUM);
    const double start = seconds_now();
    for (uint32_t i = 0; i < 8 && !status && o->way != CLOSES; i++)
        status = o->way == POLLS
                     ? reduce_polled(c, words, start + PATIENCE_S / 2)
                     : ronda_allreduce(c, words, words + SMALL, SMALL, RONDA_U32, RONDA_SUM);
    ronda_get_error(c, &e);
    CHECK(o->way == CLOSES || (status == RONDA_EPEER && e.peer == 1 && strstr(e.message, "rank 1")),
          "rank %u %s: %d: %s", rank, way_names[o->way], status, e.message);
    const bool owed = rank == 0 && o->way == CLOSES && !status;
    for (const double end = start + PATIENCE_S / 6.0; owed && j->size > 2 && seconds_now() < end;) {
        if (j->shared->number
                [2]) /* it has found that rank 1 is dead, and rank 0 is to be told all the same */
            break;
        sched_yield();
    }
    if (c != world)
        close_and_hear(c, owed);
    j->shared->number[rank] = c != world;
    close_and_hear(world, owed && c == world);
    j->shared->number[rank] = 1;
    CHECK(seconds_now() - start < PATIENCE_S / 3.0, "rank %u %s: it took %.1f s%s", rank,
          way_names[o->way], seconds_now() - start, o->splits ? " in a subcommunicator" : "");
}

static int be_owed_and_leave(job *j, uint32_t rank)
{
    return leave_nothing(j, rank, be_owed);
}

TEST(killed_before_it_took_what_it_was_lent)
{
    test_deadline(200);
    for (uint32_t i = 0; i < 4 * WAYS && !test_failed(); i++) {
        const uint32_t size = 2 + i / (2 * WAYS);
        const owing o = {(way)(i % WAYS), i / WAYS % 2};
        job j = job_open(size, be_owed_and_leave, &o);
        job_start(&j);
        job_wait(&j, 2 * PATIENCE_S);
        for (uint32_t r = 0; r < size; r++)
            CHECK(r == 1 || j.status[r] == 0, "rank %u of %u ended with 0x%x", r, size,
                  (unsigned)j.status[r]);
        job_close(&j);
    }
}

/* --- killed while others only test --- */

/* Numbers: how many have posted their receive, and which is the first of those that die */
enum { POSTED = MOST_PROCESSES - 2, FIRST_DEAD = MOST_PROCESSES - 3 };

/* The last ranks of a subcommunicator die; the others have a receive from any rank, and make no call but
 * ronda_test. */
static void test_until_told(job *j, uint32_t rank)
{
    ronda_comm *world = job_join(j, rank), *part = NULL;
    ronda_request *request = NULL;
    ronda_error e = {.struct_size = sizeof e};
    ronda_status status = RONDA_OK;
    uint32_t word = rank, words[SMALL];
    bool done = false;
    const double start = seconds_now();
    if (!world)
        return;
    ronda_set_timeout(world, PATIENCE_S * 1000000000ull);
    if (CHECK(!ronda_split(world, 0, 0, &part) &&
                  !ronda_allreduce(part, &word, words, 1, RONDA_U32, RONDA_SUM) &&
                  !ronda_irecv(part, words, SMALL, RONDA_U32, RONDA_ANY, 7, NULL, &request),
              "rank %u: %s", rank, ronda_last_error(world))) {
        j->shared->number[POSTED]++;
        while (!status && !done && seconds_now() < start + PATIENCE_S / 2.0)
            status = ronda_test(request, &done);
        if (!CHECK(done, "rank %u is not told for %.1f s", rank, seconds_now() - start))
            _exit(1); /* to wait for it would take the whole timeout */
        status = ronda_wait(request);
        ronda_get_error(part, &e);
        CHECK(status == RONDA_EPEER && e.peer >= j->shared->number[FIRST_DEAD], "rank %u: %d: %s",
              rank, status, e.message);
    }
    if (part)
        ronda_close(part);
    ronda_close(world);
}

static int test_and_leave(job *j, uint32_t rank)
{
    return leave_nothing(j, rank, test_until_told);
}

static void kill_the_last(uint32_t size, uint32_t dying)
{
    job j = job_open(size, test_and_leave, NULL);
    const double end = seconds_now() + PATIENCE_S / 2.0;
    j.shared->number[FIRST_DEAD] = size - dying;
    job_start(&j);
    while (j.shared->number[POSTED] < size && seconds_now() < end)
        sleep_ms(1);
    for (uint32_t r = size - dying; r < size; r++)
        kill(j.pids[r], SIGKILL);
    job_wait(&j, 2 * PATIENCE_S);
    for (uint32_t r = 0; r < size - dying; r++)
        CHECK(j.status[r] == 0, "rank %u of %u ended with 0x%x", r, size, (unsigned)j.status[r]);
    job_close(&j);
}

TEST(killed_while_others_only_test_for_a_message_from_anybody)
{
    static const char *const ways[] = {"shm", "tcp"};
    const bool given = getenv("RONDA_TRANSPORT") || getenv("RONDA_TEST_NETNS");
    test_deadline(200);
    for (int i = 0; i < (given ? 1 : 2) && !test_failed(); i++) {
        if (!given)
            setenv("RONDA_TRANSPORT", ways[i], 1);
        kill_the_last(2, 1);
        kill_the_last(3, 1);
        kill_the_last(4, 2);
    }
    if (!given)
        unsetenv("RONDA_TRANSPORT");
}
