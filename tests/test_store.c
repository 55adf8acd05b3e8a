/* test_store.c: letters that nobody has asked for: how many are kept, and what happens to the rest. */
#include <sched.h>
#include <stdlib.h>

#include "calls.h"
#include "processes.h"

/* Rank 0 sends more than rank 1 keeps: it waits until rank 1 takes some, and memory stays bounded. */
static int flood(job *j, uint32_t rank)
{
    enum { LETTERS = 600, WORDS = 4000 };
    ronda_comm *comm = job_join(j, rank);
    static uint32_t data[WORDS];
    if (!comm)
        return 1;
    ronda_set_timeout(comm, 20000000000);
    for (uint32_t i = 0; i < LETTERS && rank == 0; i++) {
        data[1] = i;
        CHECK(ronda_send(comm, data, WORDS, RONDA_U32, 1, 5) == RONDA_OK, "%s",
              ronda_last_error(comm));
        j->shared->number[0] = i + 1;
    }
    if (rank == 1) {
        ronda_request *request;
        bool done = false;
        CHECK(ronda_irecv(comm, data, WORDS, RONDA_U32, 0, 6, NULL, &request) == RONDA_OK, "%s",
              ronda_last_error(comm));
        const double end = seconds_now() + 15;
        uint64_t came = 0;
        while (came < 60 && !done && seconds_now() < end) {
            CHECK(ronda_test(request, &done) == RONDA_OK, "%s", ronda_last_error(comm));
            came = j->shared->number[0];
            sched_yield();
        }
        for (int i = 0; i < 50; i++) { /* more would come now if they could */
            CHECK(ronda_test(request, &done) == RONDA_OK, "%s", ronda_last_error(comm));
            sleep_ms(1);
        }
        CHECK(came >= 60 && j->shared->number[0] < LETTERS - 50,
              "%d letters were taken in, then %d", (int)came, (int)j->shared->number[0]);
        for (uint32_t i = 0; i < LETTERS; i++)
            CHECK(ronda_recv(comm, data, WORDS, RONDA_U32, 0, 5, NULL) == RONDA_OK && data[1] == i,
                  "letter %u: %u: %s", i, data[1], ronda_last_error(comm));
        CHECK(ronda_send(comm, data, 1, RONDA_U32, 1, 6) == RONDA_OK, "%s", ronda_last_error(comm));
        ronda_request *mine = request;
        CHECK(ronda_abort(comm, "the end") == RONDA_OK, "abort");
        CHECK(ronda_wait(mine) == RONDA_EABORTED, "%s", ronda_last_error(comm));
    } else {
        while (ronda_barrier(comm) == RONDA_OK)
            ;
    }
    ronda_close(comm);
    return 0;
}

TEST(a_flood_is_held_back)
{
    job_run(2, flood, NULL, 60);
}

/* Rank 1's store and the way to it are full, so rank 0 is stuck.  Rank 1 takes some letters out of its store,
 * and the two meet: what could not come before comes in now, though nobody has asked for it. */
typedef struct {
    uint32_t words, letters; /* in a letter, and how many of these */
    uint32_t room, taken;    /* how many the store keeps, and rank 1 takes before they meet */
    bool blocks;             /* rank 0 is in a send, not in the barrier */
} jam;

typedef struct {
    const jam *jam;
    ronda_comm *comms[2];
    _Atomic uint64_t sent;
} jammed;

static void send_letters(ronda_comm *comm, const jam *m, _Atomic uint64_t *sent)
{
    uint32_t *data = calloc(m->letters, m->words * 4);
    ronda_request **requests = calloc(m->letters, sizeof *requests);
    for (uint32_t i = 0; i < m->letters; i++) {
        uint32_t *at = data + (size_t)i * m->words;
        at[0] = i;
        CHECK((m->blocks
                   ? ronda_send(comm, at, m->words, RONDA_U32, 1, 5)
                   : ronda_isend(comm, at, m->words, RONDA_U32, 1, 5, &requests[i])) == RONDA_OK,
              "letter %u: %s", i, ronda_last_error(comm));
        *sent = i + 1;
    }
    CHECK(ronda_barrier(comm) == RONDA_OK, "%s", ronda_last_error(comm));
    CHECK(ronda_wait_all(requests, m->letters) == RONDA_OK, "%s", ronda_last_error(comm));
    free(requests);
    free(data);
}

static void take_letters(ronda_comm *comm, const jam *m, uint32_t from, uint32_t to)
{
    uint32_t *data = calloc(m->words, 4);
    for (uint32_t i = from; i < to; i++)
        CHECK(ronda_recv(comm, data, m->words, RONDA_U32, 0, 5, NULL) == RONDA_OK && data[0] == i,
              "letter %u: %u: %s", i, data[0], ronda_last_error(comm));
    free(data);
}

/* It has nothing to do with letters while they come. */
static void receive_letters(ronda_comm *comm, ronda_comm *part, const jam *m,
                            const _Atomic uint64_t *sent)
{
    const double end = seconds_now() + 20;
    ronda_request *other;
    bool done = false;
    CHECK(ronda_ibarrier(part, &other) == RONDA_OK, "%s", ronda_last_error(part));
    while (*sent < (m->blocks ? m->room : m->letters) && seconds_now() < end) {
        CHECK(ronda_test(other, &done) == RONDA_OK && !done, "%s", ronda_last_error(part));
        sched_yield();
    }
    for (int i = 0; i < 20; i++) { /* the way to here fills up, too */
        CHECK(ronda_test(other, &done) == RONDA_OK && !done, "%s", ronda_last_error(part));
        sleep_ms(1);
    }
    CHECK(*sent >= m->room && (!m->blocks || *sent < m->letters), "%d were sent", (int)*sent);
    take_letters(comm, m, 0, m->taken);
    CHECK(ronda_barrier(comm) == RONDA_OK, "%s", ronda_last_error(comm));
    take_letters(comm, m, m->taken, m->letters);
    CHECK(ronda_wait(other) == RONDA_OK, "%s", ronda_last_error(part));
}

static void run_jam(ronda_comm *comm, uint32_t rank, const jam *m, _Atomic uint64_t *sent)
{
    ronda_comm *part = NULL;
    ronda_set_timeout(comm, 20000000000);
    CHECK(ronda_split(comm, 0, 0, &part) == RONDA_OK, "%s", ronda_last_error(comm));
    if (rank == 0) {
        send_letters(comm, m, sent);
        CHECK(ronda_barrier(part) == RONDA_OK, "%s", ronda_last_error(part));
    } else {
        receive_letters(comm, part, m, sent);
    }
    CHECK(ronda_close(part) == RONDA_OK, "close");
}

static void thread_jam(void *context, uint32_t rank)
{
    jammed *s = context;
    run_jam(s->comms[rank], rank, s->jam, &s->sent);
}

static int process_jam(job *j, uint32_t rank)
{
    ronda_comm *comm = job_join(j, rank);
    if (!comm)
        return 1;
    run_jam(comm, rank, j->context, &j->shared->number[0]);
    CHECK(ronda_close(comm) == RONDA_OK, "close");
    return 0;
}

TEST(a_jam_comes_loose)
{
    static const jam jams[] = {{4096, 80, 64, 16, true},     {4096, 80, 64, 64, true},
                               {4096, 80, 64, 80, true},     {4096, 80, 64, 64, false},
                               {4096, 80, 64, 0, false},     {1, 4200, 4096, 104, true},
                               {1, 4200, 4096, 4096, true},  {1, 4200, 4096, 4096, false},
                               {1500, 500, 174, 400, false}, {1500, 300, 174, 174, true}};
    for (uint32_t i = 0; i < sizeof jams / sizeof jams[0] && !test_failed(); i++) {
        jammed s = {.jam = &jams[i]};
        if (!world_open(2, NULL, s.comms))
            return;
        run_ranks(2, thread_jam, &s);
        if (!CHECK(!test_failed(), "jam %u", i))
            return;
        world_close(2, s.comms);
        job_run(2, process_jam, &jams[i], 60);
        CHECK(!test_failed(), "jam %u of processes", i);
    }
}

/* Rank 0's store is full; the last letter in it has come in part when it is asked for.  Once that has gone,
 * there is room for what rank 0 has written to itself. */
enum { PAGEFUL = 4096, FEW = 63 };

static void fill_store(ronda_comm *comm, _Atomic uint64_t *steps)
{
    static uint32_t data[PAGEFUL];
    ronda_request *last;
    for (uint32_t i = 0; i < FEW; i++)
        CHECK(ronda_send(comm, data, PAGEFUL, RONDA_U32, 0, 1) == RONDA_OK, "%s",
              ronda_last_error(comm));
    for (steps[0] = 1; steps[0] < 2;) /* until they have been taken in */
        sleep_ms(1);
    CHECK(ronda_isend(comm, data, PAGEFUL, RONDA_U32, 0, 2, &last) == RONDA_OK, "%s",
          ronda_last_error(comm));
    for (steps[0] = 3; steps[0] < 4;)
        sleep_ms(1);
    CHECK(ronda_wait(last) == RONDA_OK && ronda_barrier(comm) == RONDA_OK, "%s",
          ronda_last_error(comm));
}

static void write_into_full_store(ronda_comm *comm, _Atomic uint64_t *steps)
{
    static uint32_t data[PAGEFUL], own[PAGEFUL];
    ronda_request *meeting = NULL, *last = NULL, *mine = NULL;
    bool done;
    CHECK(ronda_ibarrier(comm, &meeting) == RONDA_OK, "%s", ronda_last_error(comm));
    for (uint64_t i = 0, step = 1; step <= 3; step += 2, i = 0) {
        for (; i < 20; i += steps[0] == step) {
            CHECK(ronda_test(meeting, &done) == RONDA_OK, "%s", ronda_last_error(comm));
            sched_yield();
        }
        steps[0] += step == 1;
    }
    CHECK(ronda_irecv(comm, data, PAGEFUL, RONDA_U32, 1, 2, NULL, &last) == RONDA_OK &&
              ronda_isend(comm, own, PAGEFUL, RONDA_U32, 0, 3, &mine) == RONDA_OK,
          "%s", ronda_last_error(comm));
    steps[0] = 4;
    CHECK(ronda_wait(mine) == RONDA_OK && ronda_wait(last) == RONDA_OK &&
              ronda_wait(meeting) == RONDA_OK,
          "%s", ronda_last_error(comm));
    for (uint32_t i = 0; i <= FEW; i++)
        CHECK(ronda_recv(comm, data, PAGEFUL, RONDA_U32, RONDA_ANY, i ? 1 : 3, NULL) == RONDA_OK,
              "%s", ronda_last_error(comm));
}

static int make_room(job *j, uint32_t rank)
{
    ronda_comm *comm = job_join(j, rank);
    if (!comm)
        return 1;
    ronda_set_timeout(comm, 20000000000);
    (rank ? fill_store : write_into_full_store)(comm, j->shared->number);
    CHECK(ronda_close(comm) == RONDA_OK, "close");
    return 0;
}

TEST(room_for_ones_own_letter)
{
    job_run(2, make_room, NULL, 60);
}

/* --- a writer that has closed --- */

enum { CROWD = 4105 }; /* more than the store has room for, and what a queue holds of it */

static void write_and_close(ronda_comm *comm, uint32_t rank)
{
    uint8_t word = 1, got = 0;
    ronda_set_timeout(comm, 20000000000);
    for (uint32_t i = 0; i < CROWD && !rank; i++)
        CHECK(ronda_send(comm, &word, 1, RONDA_U8, 1, i < CROWD - 1 ? 1 : 2) == RONDA_OK, "%s",
              ronda_last_error(comm));
    for (uint32_t i = 0; i < CROWD && rank; i++) /* the last one first */
        if (!CHECK(ronda_recv(comm, &got, 1, RONDA_U8, 0, i ? 1 : 2, NULL) == RONDA_OK,
                   "letter %u: %s", i, ronda_last_error(comm)))
            return;
}

/* What it has sent is there, also what has no room in the store. */
TEST(a_crowd_of_letters_and_a_writer_that_has_closed)
{
    job_play(2, write_and_close, 60);
}
