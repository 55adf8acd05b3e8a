/* test_messages.c: sends and receives between two ranks.
 *
 * Random messages of all lengths and tags, received in another order than sent, by name or by RONDA_ANY,
 * with collectives in between, as threads and as processes; then limits, misuse and failure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "processes.h"
#include "traffic.h"

enum { MOST = 7, MESSAGES = 60 };

typedef struct {
    uint32_t size;
    traffic traffic;
    bool any; /* receives ask for anything */
    ronda_comm *comms[MOST];
} exchange;

static void draw_exchange(rng *r, exchange *x, uint32_t size)
{
    x->size = size;
    x->traffic = (traffic){.count = MESSAGES, .seed = rng_next(r)};
    x->any = rng_below(r, 2);
    for (uint32_t i = 0; i < MESSAGES; i++)
        x->traffic.messages[i] = message_draw(r, size, TRAFFIC_LONGEST);
}

typedef struct {
    ronda_request *request;
    ronda_message info;
    uint32_t *data;
} under_way;

static bool post_receive(const exchange *x, ronda_comm *comm, const message *m, under_way *u)
{
    u->data = malloc(TRAFFIC_LONGEST * 4); /* room for whatever comes */
    return CHECK(ronda_irecv(comm, u->data, TRAFFIC_LONGEST, RONDA_U32,
                             x->any ? RONDA_ANY : m->from, x->any ? RONDA_ANY : m->tag, &u->info,
                             &u->request) == RONDA_OK,
                 "%s", ronda_last_error(comm));
}

static bool run_exchange(const exchange *x, ronda_comm *comm, uint32_t rank)
{
    const traffic *t = &x->traffic;
    rng r = {t->seed + rank * 31};
    under_way sends[MESSAGES], receives[MESSAGES];
    uint32_t order[MESSAGES], sent = 0, expected = 0, posted = 0;
    bool received[MESSAGES] = {false};
    for (uint32_t i = 0; i < t->count; i++)
        if (t->messages[i].to == rank) { /* in any order */
            const uint32_t at = (uint32_t)rng_below(&r, expected + 1);
            memmove(&order[at + 1], &order[at], (expected - at) * sizeof *order);
            order[at] = i;
            expected++;
        }
    for (uint32_t i = 0; i < t->count || posted < expected;) {
        if (i < t->count && t->messages[i].from != rank) {
            i++;
        } else if (i < t->count && rng_below(&r, 2)) {
            const message *m = &t->messages[i];
            under_way *u = &sends[sent++];
            u->data = malloc(m->count * 4 + 1);
            traffic_fill(t, i++, u->data);
            if (!CHECK(ronda_isend(comm, u->data, m->count, RONDA_U32, m->to, m->tag,
                                   &u->request) == RONDA_OK,
                       "%s", ronda_last_error(comm)))
                return false;
        } else if (posted < expected) {
            if (!post_receive(x, comm, &t->messages[order[posted]], &receives[posted]))
                return false;
            posted++;
        }
    }
    uint32_t one = 1, all = 0; /* a collective among them */
    CHECK(ronda_allreduce(comm, &one, &all, 1, RONDA_U32, RONDA_SUM) == RONDA_OK && all == x->size,
          "%s", ronda_last_error(comm));
    /* receives were matched in the order in which they were posted */
    for (uint32_t i = 0; i < expected; i++) {
        if (!CHECK(ronda_wait(receives[i].request) == RONDA_OK, "%s", ronda_last_error(comm)))
            return false;
    }
    for (uint32_t i = 0; i < expected; i++) {
        if (!traffic_check(t, rank, &receives[i].info, receives[i].data, received))
            return false;
        free(receives[i].data);
    }
    for (uint32_t i = 0; i < sent; i++) {
        CHECK(ronda_wait(sends[i].request) == RONDA_OK, "%s", ronda_last_error(comm));
        free(sends[i].data);
    }
    return true;
}

static void run_thread(void *context, uint32_t rank)
{
    const exchange *x = context;
    if (!run_exchange(x, x->comms[rank], rank))
        ronda_abort(x->comms[rank], "a message was wrong");
}

TEST(random_messages_of_threads)
{
    rng r = rng_start();
    test_deadline(200);
    for (uint32_t i = 0; i < (test_sanitized() ? 20 : 100) && !test_failed(); i++) {
        static exchange x;
        draw_exchange(&r, &x, 1 + (uint32_t)rng_below(&r, MOST));
        if (!world_open(x.size, NULL, x.comms))
            return;
        run_ranks(x.size, run_thread, &x);
        if (!test_failed())
            world_close(x.size, x.comms);
    }
}

static int run_process(job *j, uint32_t rank)
{
    ronda_comm *comm = job_join(j, rank), *part = NULL;
    if (!comm)
        return 1;
    if (!run_exchange(j->context, comm, rank))
        ronda_abort(comm, "a message was wrong");
    CHECK(ronda_split(comm, 0, 0, &part) == RONDA_OK, "%s", ronda_last_error(comm));
    if (part && !run_exchange(j->context, part, rank))
        ronda_abort(comm, "a message was wrong");
    ronda_close(comm);
    ronda_close(part);
    return 0;
}

TEST(random_messages_of_processes)
{
    rng r = rng_start();
    test_deadline(200);
    for (uint32_t i = 0; i < (test_sanitized() ? 6 : 25) && !test_failed(); i++) {
        static exchange x;
        draw_exchange(&r, &x, 1 + (uint32_t)rng_below(&r, 5));
        job_run(x.size, run_process, &x, 60);
    }
}

/* --- what the manual says --- */

static void run_rules(ronda_comm *comm, uint32_t rank)
{
    uint32_t here[5000], there[5000];
    ronda_message info = {0};
    ronda_set_timeout(comm, 20000000000);
    for (uint32_t i = 0; i < 5000; i++)
        here[i] = rank * 100000 + i;
    /* both send first: short messages do not wait for their receiver; 40 are more than a queue holds */
    for (uint32_t i = 0; i < 40; i++)
        CHECK(ronda_send(comm, here, 1000, RONDA_U32, 1 - rank, i) == RONDA_OK, "%s",
              ronda_last_error(comm));
    CHECK(ronda_barrier(comm) == RONDA_OK, "%s", ronda_last_error(comm));
    for (uint32_t i = 40; i-- > 0;) /* from the last to the first */
        CHECK(ronda_recv(comm, there, 5000, RONDA_U32, 1 - rank, i, &info) == RONDA_OK &&
                  info.count == 1000 && info.tag == i && info.peer == 1 - rank &&
                  there[999] == (1 - rank) * 100000 + 999,
              "%s: %zu from %u with %u", ronda_last_error(comm), info.count, info.peer, info.tag);
    /* one that is too long, or of another type, stays */
    CHECK(ronda_send(comm, here, 10, RONDA_U32, 1 - rank, 7) == RONDA_OK, "%s",
          ronda_last_error(comm));
    CHECK(ronda_recv(comm, there, 9, RONDA_U32, 1 - rank, 7, NULL) == RONDA_EINVAL &&
              strstr(ronda_last_error(comm), "has 10 elements, and there is room for 9"),
          "%s", ronda_last_error(comm));
    CHECK(ronda_recv(comm, there, 10, RONDA_F32, 1 - rank, RONDA_ANY, NULL) == RONDA_EINVAL &&
              strstr(ronda_last_error(comm), "is of u32, not of f32"),
          "%s", ronda_last_error(comm));
    CHECK(ronda_recv(comm, there, 10, RONDA_U32, RONDA_ANY, 7, &info) == RONDA_OK &&
              info.count == 10 && there[9] == (1 - rank) * 100000 + 9,
          "%s", ronda_last_error(comm));
    /* to oneself, before and after it is asked for */
    ronda_request *request;
    CHECK(ronda_send(comm, here, 5, RONDA_U32, rank, 1) == RONDA_OK &&
              ronda_recv(comm, there, 5, RONDA_U32, rank, 1, &info) == RONDA_OK &&
              info.peer == rank && there[4] == here[4],
          "%s", ronda_last_error(comm));
    CHECK(ronda_irecv(comm, there, 5000, RONDA_U32, RONDA_ANY, 2, NULL, &request) == RONDA_OK &&
              ronda_send(comm, here, 5000, RONDA_U32, rank, 2) == RONDA_OK &&
              ronda_wait(request) == RONDA_OK && memcmp(here, there, sizeof here) == 0,
          "%s", ronda_last_error(comm));
    CHECK(ronda_isend(comm, here, 5000, RONDA_U32, rank, 3, &request) == RONDA_OK &&
              ronda_recv(comm, there, 5000, RONDA_U32, rank, 3, NULL) == RONDA_OK &&
              ronda_wait(request) == RONDA_OK,
          "%s", ronda_last_error(comm));
    /* a short one is taken in behind a long one that nobody has asked for, and keeps its turn */
    CHECK(ronda_isend(comm, here, 5000, RONDA_U32, rank, 4, &request) == RONDA_OK &&
              ronda_send(comm, here, 5, RONDA_U32, rank, 4) == RONDA_OK &&
              ronda_recv(comm, there, 5000, RONDA_U32, RONDA_ANY, 4, &info) == RONDA_OK &&
              info.count == 5000 && ronda_wait(request) == RONDA_OK &&
              memcmp(here, there, sizeof here) == 0 &&
              ronda_recv(comm, there, 5000, RONDA_U32, rank, 4, &info) == RONDA_OK &&
              info.count == 5,
          "%s", ronda_last_error(comm));
    CHECK(ronda_barrier(comm) == RONDA_OK, "%s", ronda_last_error(comm));
}

TEST(the_rules)
{
    world_play(2, NULL, run_rules);
    job_play(2, run_rules, 60);
}

/* --- misuse and failure --- */

TEST(messages_that_are_refused)
{
    ronda_comm *c;
    uint32_t word = 0;
    ronda_request *request;
    if (!world_open(1, NULL, &c))
        return;
    static const struct {
        uint32_t peer, tag;
        ronda_type type;
        size_t count;
        const char *says;
    } bad[] = {{1, 0, RONDA_U32, 1, "there is no rank 1 in a world of 1"},
               {0, RONDA_ANY, RONDA_U32, 1, "not a tag to send with"},
               {0, 0, 77, 1, "77 is not a type"},
               {0, 0, RONDA_U32, SIZE_MAX / 2, "more bytes than memory"},
               {RONDA_ANY, 0, RONDA_U32, 1, "RONDA_ANY is not a rank to send to"}};
    for (int i = 0; i < 5; i++)
        CHECK(ronda_send(c, &word, bad[i].count, bad[i].type, bad[i].peer, bad[i].tag) ==
                      RONDA_EINVAL &&
                  strstr(ronda_last_error(c), bad[i].says),
              "%s", ronda_last_error(c));
    CHECK(ronda_recv(c, NULL, 1, RONDA_U32, 0, 0, NULL) == RONDA_EINVAL &&
              strstr(ronda_last_error(c), "buffer is NULL"),
          "%s", ronda_last_error(c));
    CHECK(ronda_isend(c, &word, 1, RONDA_U32, 0, 0, NULL) == RONDA_EINVAL, "out");
    CHECK(ronda_send(NULL, &word, 1, RONDA_U32, 0, 0) == RONDA_EINVAL, "comm");
    CHECK(ronda_irecv(c, &word, 1, RONDA_U32, 0, 0, NULL, &request) == RONDA_OK, "%s",
          ronda_last_error(c));
    CHECK(ronda_close(c) == RONDA_EINVAL, "a receive is open");
    CHECK(ronda_send(c, &word, 1, RONDA_U32, 0, 0) == RONDA_OK, "%s", ronda_last_error(c));
    CHECK(ronda_wait(request) == RONDA_OK, "%s", ronda_last_error(c));
    CHECK(ronda_close(c) == RONDA_OK, "close");
}

/* Rank 1 closes, dies or never writes; rank 0 waits for a message of its. */
static int fail_alone(job *j, uint32_t rank)
{
    const int deed = *(const int *)j->context;
    ronda_comm *comm = job_join(j, rank);
    uint32_t word;
    if (!comm)
        return 1;
    if (rank == 1) {
        sleep_ms(100);
        if (deed == 1)
            _exit(0);
        while (deed == 2 && !j->shared->number[0]) /* until it has been missed */
            sleep_ms(1);
        ronda_close(comm);
        return 0;
    }
    ronda_set_timeout(comm, deed == 2 ? 200000000 : 20000000000);
    const double start = seconds_now();
    const ronda_status status = deed == 3
                                    ? ronda_recv(comm, &word, 1, RONDA_U32, RONDA_ANY, 3, NULL)
                                    : ronda_recv(comm, &word, 1, RONDA_U32, 1, 3, NULL);
    const char *text = ronda_last_error(comm);
    j->shared->number[0] = 1;
    CHECK(status == (deed == 2 ? RONDA_ETIMEOUT : RONDA_EPEER), "%d: %s", status, text);
    CHECK(strstr(text, deed == 0   ? "recv of 1 u32 with tag 3 from rank 1: it has closed"
                       : deed == 1 ? "rank 1 (pid "
                       : deed == 2 ? "recv of 1 u32 with tag 3 from rank 1 timed out after 0.2 s"
                                   : "all others have closed"),
          "%s", text);
    CHECK(seconds_now() - start < 5, "it took %.1f s", seconds_now() - start);
    CHECK(ronda_barrier(comm) == status, "%s", ronda_last_error(comm));
    ronda_close(comm);
    return 0;
}

TEST(a_writer_that_is_gone)
{
    for (int deed = 0; deed < 4; deed++)
        job_run(2, fail_alone, &deed, 60);
}

/* --- nobody stands in anybody's way --- */

/* Rank 1 takes in what is written on a part while it waits on the world, and the reverse; what is asked for
 * overtakes what is not; messages to oneself keep order by tag alone. */
static void run_ways(ronda_comm *world, uint32_t rank)
{
    enum { MANY = 5000, LONG = 1 << 20 };
    static char big[2][LONG];
    static ronda_request *requests[MANY + 1];
    ronda_comm *part = NULL;
    char byte = 1;
    CHECK(ronda_split(world, 0, 0, &part) == RONDA_OK, "%s", ronda_last_error(world));
    ronda_set_timeout(world, 20000000000);
    ronda_set_timeout(part, 20000000000);
    for (int k = 0; k < 2; k++) {
        ronda_comm *one = k ? world : part, *other = k ? part : world;
        for (uint32_t i = 0; i < 60 && rank == 0; i++)
            CHECK(ronda_send(one, big[0], 100, RONDA_U8, 1, i) == RONDA_OK, "%s",
                  ronda_last_error(one));
        CHECK(ronda_barrier(other) == RONDA_OK, "%s", ronda_last_error(other));
        for (uint32_t i = 60; i-- > 0 && rank == 1;)
            CHECK(ronda_recv(one, big[1], 100, RONDA_U8, 0, i, NULL) == RONDA_OK, "%s",
                  ronda_last_error(one));
    }
    if (rank == 1) {
        for (uint32_t i = 0; i < MANY; i++)
            CHECK(ronda_isend(world, &byte, 1, RONDA_U8, 0, 1, &requests[i]) == RONDA_OK, "%s",
                  ronda_last_error(world));
        CHECK(ronda_irecv(world, big[1], LONG, RONDA_U8, 0, 2, NULL, &requests[MANY]) == RONDA_OK &&
                  ronda_wait_all(requests, MANY + 1) == RONDA_OK,
              "%s", ronda_last_error(world));
    } else {
        CHECK(ronda_send(world, big[0], LONG, RONDA_U8, 1, 2) == RONDA_OK, "%s",
              ronda_last_error(world));
        for (uint32_t i = 0; i < MANY; i++)
            CHECK(ronda_recv(world, &byte, 1, RONDA_U8, 1, 1, NULL) == RONDA_OK, "%s",
                  ronda_last_error(world));
    }
    ronda_request *mine[2];
    CHECK(ronda_isend(world, big[rank], 40000, RONDA_U8, rank, 1, &mine[0]) == RONDA_OK &&
              ronda_isend(world, &byte, 1, RONDA_U8, rank, 2, &mine[1]) == RONDA_OK &&
              ronda_recv(world, &byte, 1, RONDA_U8, rank, 2, NULL) == RONDA_OK &&
              ronda_recv(world, big[1 - rank], 40000, RONDA_U8, rank, 1, NULL) == RONDA_OK &&
              ronda_wait_all(mine, 2) == RONDA_OK,
          "%s", ronda_last_error(world));
    CHECK(ronda_barrier(world) == RONDA_OK && ronda_close(part) == RONDA_OK, "close");
}

TEST(nobody_stands_in_the_way)
{
    job_play(2, run_ways, 60);
}

/* Whoever only tests hears of a peer's death, too. */
static int test_only(job *j, uint32_t rank)
{
    ronda_comm *comm = job_join(j, rank);
    ronda_request *request;
    uint32_t word;
    bool done = false;
    if (!comm)
        return 1;
    if (rank == 1) {
        sleep_ms(100);
        _exit(0);
    }
    CHECK(ronda_irecv(comm, &word, 1, RONDA_U32, 1, 1, NULL, &request) == RONDA_OK, "%s",
          ronda_last_error(comm));
    const double start = seconds_now();
    while (!done && seconds_now() < start + 10)
        CHECK(ronda_test(request, &done) == RONDA_OK, "%s", ronda_last_error(comm));
    CHECK(done && ronda_wait(request) == RONDA_EPEER, "%s", ronda_last_error(comm));
    ronda_close(comm);
    return 0;
}

TEST(a_test_notices_that_the_writer_died)
{
    job_run(2, test_only, NULL, 60);
}

/* Rank 1 has closed, and rank 0 has asked for anything: it may still write to itself. */
static int write_to_oneself(job *j, uint32_t rank)
{
    ronda_comm *comm = job_join(j, rank);
    uint32_t got = 0, word = 77;
    ronda_request *request;
    ronda_message info;
    bool done = false;
    if (!comm)
        return 1;
    if (rank == 1) {
        ronda_close(comm);
        j->shared->number[0] = 1;
        return 0;
    }
    CHECK(ronda_irecv(comm, &got, 1, RONDA_U32, RONDA_ANY, RONDA_ANY, &info, &request) == RONDA_OK,
          "%s", ronda_last_error(comm));
    while (!j->shared->number[0])
        sleep_ms(1);
    for (double end = seconds_now() + 0.1; seconds_now() < end && !done;) /* it looks around */
        CHECK(ronda_test(request, &done) == RONDA_OK, "%s", ronda_last_error(comm));
    CHECK(!done, "from whom?");
    CHECK(ronda_send(comm, &word, 1, RONDA_U32, 0, 5) == RONDA_OK &&
              ronda_wait(request) == RONDA_OK && got == 77 && info.peer == 0,
          "%s", ronda_last_error(comm));
    CHECK(ronda_recv(comm, &got, 1, RONDA_U32, RONDA_ANY, 5, NULL) == RONDA_EPEER, "%s",
          ronda_last_error(comm));
    ronda_close(comm);
    return 0;
}

TEST(the_last_one_writes_to_itself)
{
    job_run(2, write_to_oneself, NULL, 60);
}
