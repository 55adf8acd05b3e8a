/* test_many.c: thousands of requests under way at once.  Time must grow with their number, not with its
 * square, and what matches what must stay exact. */
#include <stdlib.h>

#include "calls.h"

/* --- messages --- */

/* Receives by name, by any rank, by any tag; messages one for each of them. */
enum { MESSAGES = 4000, TAGS = 500 };
typedef struct {
    ronda_comm *comms[2];
    bool ahead; /* receives are posted before the messages come; else after them */
    uint32_t peer[MESSAGES], tag[MESSAGES]; /* of receive i */
    uint32_t sent[MESSAGES];                /* tag of message i */
    uint32_t meets[MESSAGES];               /* the message that receive i must get */
} crowd;

static bool takes(const crowd *c, uint32_t receive, uint32_t message)
{
    return c->tag[receive] == RONDA_ANY || c->tag[receive] == c->sent[message];
}

/* Every message has a receive, and every receive a message: each is drawn for one that is still free, and
 * goes to the oldest that takes it. */
static void draw_crowd(rng *r, crowd *c)
{
    static bool used[MESSAGES];
    for (uint32_t i = 0; i < MESSAGES; i++) {
        used[i] = false;
        c->meets[i] = RONDA_ANY;
        c->peer[i] = rng_below(r, 2) ? RONDA_ANY : 0;
        c->tag[i] = c->ahead && rng_below(r, 8) == 0 ? RONDA_ANY : (uint32_t)rng_below(r, TAGS);
        c->sent[i] = (uint32_t)rng_below(r, TAGS);
    }
    for (uint32_t m = 0; m < MESSAGES && c->ahead; m++) {
        uint32_t i = (uint32_t)rng_below(r, MESSAGES);
        while (c->meets[i] != RONDA_ANY)
            i = (i + 1) % MESSAGES;
        if (c->tag[i] != RONDA_ANY)
            c->sent[m] = c->tag[i];
        for (i = 0; c->meets[i] != RONDA_ANY || !takes(c, i, m);)
            i++;
        c->meets[i] = m;
    }
    for (uint32_t i = 0; i < MESSAGES && !c->ahead; i++) {
        uint32_t m = (uint32_t)rng_below(r, MESSAGES);
        while (used[m])
            m = (m + 1) % MESSAGES;
        c->tag[i] = rng_below(r, 8) ? c->sent[m] : RONDA_ANY;
        for (m = 0; used[m] || !takes(c, i, m);)
            m++;
        used[m] = true;
        c->meets[i] = m;
    }
}

static bool good(ronda_comm *comm, ronda_status status)
{
    return CHECK(status == RONDA_OK, "%s", ronda_last_error(comm));
}

static void receive_crowd(const crowd *c, ronda_comm *comm)
{
    static uint32_t words[MESSAGES];
    static ronda_message info[MESSAGES];
    static ronda_request *requests[MESSAGES];
    if (!c->ahead)
        good(comm, ronda_barrier(comm));
    for (uint32_t i = 0; i < MESSAGES; i++)
        good(comm, ronda_irecv(comm, &words[i], 1, RONDA_U32, c->peer[i], c->tag[i], &info[i],
                               &requests[i]));
    if (c->ahead)
        good(comm, ronda_barrier(comm));
    good(comm, ronda_wait_all(requests, MESSAGES));
    for (uint32_t i = 0; i < MESSAGES && !test_failed(); i++)
        CHECK(words[i] == c->meets[i] && info[i].tag == c->sent[c->meets[i]],
              "receive %u got message %u, not %u", i, words[i], c->meets[i]);
}

static void run_crowd(void *context, uint32_t rank)
{
    static uint32_t words[MESSAGES];
    static ronda_request *requests[MESSAGES];
    const crowd *c = context;
    ronda_comm *comm = c->comms[rank];
    if (rank == 1) {
        receive_crowd(c, comm);
        return;
    }
    if (c->ahead)
        good(comm, ronda_barrier(comm));
    for (uint32_t i = 0; i < MESSAGES; i++) {
        words[i] = i;
        good(comm, ronda_isend(comm, &words[i], 1, RONDA_U32, 1, c->sent[i], &requests[i]));
    }
    if (!c->ahead)
        good(comm, ronda_barrier(comm));
    good(comm, ronda_wait_all(requests, MESSAGES));
}

TEST(the_oldest_that_matches)
{
    rng r = rng_start();
    static crowd c;
    for (int i = 0; i < 6 && !test_failed(); i++) {
        c.ahead = i % 2;
        draw_crowd(&r, &c);
        if (!world_open(2, NULL, c.comms))
            return;
        run_ranks(2, run_crowd, &c);
        world_close(2, c.comms);
    }
}

/* --- time --- */

/* Rank 0 posts everything before rank 1 posts anything; each waits in an order of its own. */
typedef struct {
    ronda_comm *comms[2];
    uint32_t count;
    bool messages;
} thousands;

static ronda_status post_one(const thousands *t, ronda_comm *comm, uint32_t rank, uint32_t i,
                             double *at, ronda_request **out)
{
    *at = i + rank;
    if (t->messages && rank == 0)
        return ronda_irecv(comm, at, 1, RONDA_F64, 1, i, NULL, out);
    if (t->messages)
        return ronda_isend(comm, at, 1, RONDA_F64, 0, i, out);
    const ronda_call call = {.struct_size = sizeof call,
                             .kind = RONDA_ALLREDUCE,
                             .type = RONDA_F64,
                             .op = RONDA_SUM,
                             .send = at,
                             .recv = at,
                             .count = 1,
                             .priority = (int32_t)(i % 3)};
    return ronda_post(comm, &call, out);
}

static void run_thousands(void *context, uint32_t rank)
{
    const thousands *t = context;
    ronda_comm *comm = t->comms[rank];
    double *words = malloc(t->count * sizeof *words);
    ronda_request **requests = malloc(t->count * sizeof *requests);
    uint8_t go = 1;
    if (rank == 1)
        good(comm, ronda_recv(comm, &go, 1, RONDA_U8, 0, RONDA_ANY - 1, NULL));
    for (uint32_t i = 0; i < t->count; i++) {
        const uint32_t tag = rank && t->messages ? t->count - 1 - i : i;
        good(comm, post_one(t, comm, rank, tag, &words[tag], &requests[i]));
    }
    if (rank == 0)
        good(comm, ronda_send(comm, &go, 1, RONDA_U8, 1, RONDA_ANY - 1));
    for (uint32_t i = 0; i < t->count; i++)
        good(comm, ronda_wait(requests[rank ? i : t->count - 1 - i]));
    for (uint32_t i = 0; i < t->count && !test_failed(); i++)
        CHECK(words[i] == (t->messages ? i + 1 : 2 * i + 1), "word %u is %g", i, words[i]);
    free(words);
    free(requests);
}

TEST(twenty_thousand_at_once)
{
    for (int messages = 0; messages < 2; messages++) {
        thousands t = {.count = test_sanitized() ? 4000 : 20000, .messages = messages};
        if (!world_open(2, NULL, t.comms))
            return;
        const double start = seconds_now();
        run_ranks(2, run_thousands, &t);
        CHECK(seconds_now() - start < 10, "%u %s took %.1f s", t.count,
              messages ? "messages" : "calls", seconds_now() - start);
        world_close(2, t.comms);
    }
}
