/* test_requests.c: calls that do not block, and plans as objects.
 *
 * Random programs of collectives, blocking and not, the same on every rank, waited for in an order of
 * each rank's own; as threads and as processes.  Then misuse, and failure with requests under way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "dumped.h"
#include "processes.h"
#include "under_way.h"

enum { MOST = 17, CALLS = 48, WINDOW = 14 };

/* --- random programs --- */

typedef struct {
    uint32_t size, count;
    planned_call calls[CALLS];
    uint64_t seed;
    ronda_comm *comms[MOST];
} random_calls;

static void draw_calls(rng *r, random_calls *p, uint32_t size, uint64_t most_bytes)
{
    p->size = size;
    p->count = CALLS;
    p->seed = rng_next(r);
    for (uint32_t i = 0; i < CALLS; i++) {
        const model_call c =
            model_draw(r, model_kind(r), size, rng_below(r, 8) ? most_bytes : 20 * most_bytes);
        p->calls[i] = call_plan(r, &c, true);
    }
}

static bool run_calls(const random_calls *p, ronda_comm *comm, uint32_t rank)
{
    rng r = {p->seed + rank * 77};
    under_way open[WINDOW];
    uint32_t count = 0, next = 0;
    while (next < p->count || count) {
        if (next < p->count && count < WINDOW && rng_below(&r, 3)) {
            const planned_call *c = &p->calls[next++];
            const bool blocks = rng_below(&r, 4) == 0; /* with others under way */
            if (blocks ? !under_way_run(&r, comm, c, rank)
                       : !under_way_start(&r, comm, c, rank, &open[count]))
                return false;
            count += !blocks;
        } else if (count) {
            const uint32_t k = (uint32_t)rng_below(&r, count);
            if (!under_way_finish(&r, &open[k]))
                return false;
            open[k] = open[--count];
        }
    }
    return true;
}

static void run_thread(void *context, uint32_t rank)
{
    random_calls *p = context;
    if (!run_calls(p, p->comms[rank], rank))
        ronda_abort(p->comms[rank], "a result was wrong");
}

TEST(random_programs_of_threads)
{
    rng r = rng_start();
    static random_calls p;
    test_deadline(200);
    for (uint32_t i = 0; i < (test_sanitized() ? 12 : 60) && !test_failed(); i++) {
        draw_calls(&r, &p, 1 + (uint32_t)rng_below(&r, i % 3 ? 6 : MOST), 2000);
        if (!world_open(p.size, NULL, p.comms))
            return;
        run_ranks(p.size, run_thread, &p);
        if (!test_failed())
            world_close(p.size, p.comms);
        calls_free(p.calls, p.count);
    }
}

static int run_process(job *j, uint32_t rank)
{
    const random_calls *p = j->context;
    ronda_comm *comm = job_join(j, rank);
    if (!comm)
        return 1;
    if (!run_calls(p, comm, rank))
        ronda_abort(comm, "a result was wrong");
    else
        CHECK(ronda_close(comm) == RONDA_OK, "close");
    return 0;
}

TEST(random_programs_of_processes)
{
    rng r = rng_start();
    static random_calls p;
    test_deadline(300);
    for (uint32_t i = 0; i < (test_sanitized() ? 4 : 16) && !test_failed(); i++) {
        draw_calls(&r, &p, 1 + (uint32_t)rng_below(&r, i % 3 ? 5 : 9), 3000);
        job_run(p.size, run_process, &p, 100);
        calls_free(p.calls, p.count);
    }
}

/* --- many at once --- */

enum { MANY = 300 };

/* More than there are channels, and more than a queue holds; waited for from the last to the first. */
static void run_many(ronda_comm *comm, uint32_t rank)
{
    static uint32_t data[3][MANY][2];
    ronda_request *requests[MANY + 1];
    for (uint32_t i = 0; i < MANY; i++) {
        data[rank][i][0] = rank * 1000 + i;
        CHECK(ronda_iallreduce(comm, &data[rank][i][0], &data[rank][i][1], 1, RONDA_U32, RONDA_SUM,
                               &requests[i]) == RONDA_OK,
              "%s", ronda_last_error(comm));
    }
    if (rank == 1) {
        for (uint32_t i = MANY; i-- > 0;)
            CHECK(ronda_wait(requests[i]) == RONDA_OK, "%s", ronda_last_error(comm));
    } else {
        requests[MANY] = NULL;
        CHECK(ronda_wait_all(requests, MANY + 1) == RONDA_OK, "%s", ronda_last_error(comm));
    }
    for (uint32_t i = 0; i < MANY; i++)
        CHECK(data[rank][i][1] == 3000 + 3 * i, "request %u of rank %u: %u", i, rank,
              data[rank][i][1]);
}

TEST(three_hundred_at_once)
{
    world_play(3, NULL, run_many);
}

/* A plan is run over itself, on buffers of its own each time. */
static void run_overlapping(ronda_comm *comm, uint32_t rank)
{
    enum { TIMES = 9, COUNT = 5000 };
    float *data = malloc(TIMES * COUNT * sizeof *data);
    ronda_request *requests[TIMES];
    ronda_plan *plan = NULL;
    char text[4000];
    size_t needed = 0;
    const ronda_call call = {.struct_size = sizeof call,
                             .kind = RONDA_ALLREDUCE,
                             .type = RONDA_F32,
                             .op = RONDA_SUM,
                             .count = COUNT,
                             .algorithm = "ring"};
    CHECK(ronda_plan_create(comm, &call, &plan) == RONDA_OK, "%s", ronda_last_error(comm));
    CHECK(ronda_plan_print(plan, text, sizeof text, &needed) == RONDA_OK && needed < sizeof text &&
              strlen(text) + 1 == needed && strstr(text, "by ring"),
          "%zu: %s", needed, text);
    CHECK(ronda_plan_print(plan, NULL, 0, &needed) == RONDA_OK && strlen(text) + 1 == needed, "%zu",
          needed);
    for (uint32_t t = 0; t < TIMES; t++)
        for (uint32_t i = 0; i < COUNT; i++)
            data[t * COUNT + i] = (float)(t + rank * i);
    for (uint32_t t = 0; t < TIMES; t++)
        CHECK(ronda_start(plan, data + t * COUNT, data + t * COUNT, &requests[t]) == RONDA_OK, "%s",
              ronda_last_error(comm));
    CHECK(ronda_wait_all(requests, TIMES) == RONDA_OK, "%s", ronda_last_error(comm));
    for (uint32_t t = 0; t < TIMES; t++)
        for (uint32_t i = 0; i < COUNT; i++)
            if (!CHECK(data[t * COUNT + i] == (float)(3 * t + 3 * i), "run %u, element %u: %f", t,
                       i, (double)data[t * COUNT + i]))
                return;
    ronda_plan_free(plan);
    free(data);
}

TEST(a_plan_runs_over_itself)
{
    world_play(3, NULL, run_overlapping);
}

/* --- misuse --- */

static void expect(ronda_status status, ronda_status want, const char *text, const char *says)
{
    CHECK(status == want && strstr(text, says), "%d: '%s' instead of '%s'", status, text, says);
}

TEST(misuse_has_a_sentence)
{
    ronda_comm *c;
    ronda_request *r = NULL;
    ronda_plan *p = NULL;
    uint32_t word = 7;
    bool done = false;
    ronda_call call = {.struct_size = sizeof call,
                       .kind = RONDA_BROADCAST,
                       .type = RONDA_U32,
                       .recv = &word,
                       .count = 1};
    if (!world_open(1, NULL, &c))
        return;
    CHECK(ronda_wait(NULL) == RONDA_OK && ronda_test(NULL, &done) == RONDA_OK && done, "NULL");
    expect(ronda_ibarrier(c, NULL), RONDA_EINVAL, ronda_last_error(c), "out is NULL");
    expect(ronda_ibarrier(NULL, &r), RONDA_EINVAL, ronda_last_error(NULL), "comm is NULL");
    expect(ronda_wait_all(NULL, 2), RONDA_EINVAL, ronda_last_error(NULL), "requests is NULL");
    CHECK(ronda_ibarrier(c, &r) == RONDA_OK, "%s", ronda_last_error(c));
    expect(ronda_test(r, NULL), RONDA_EINVAL, ronda_last_error(NULL), "done is NULL");
    expect(ronda_close(c), RONDA_EINVAL, ronda_last_error(c), "1 request has not been waited for");
    CHECK(ronda_wait(r) == RONDA_OK, "%s", ronda_last_error(c));
    expect(ronda_wait(r), RONDA_EINVAL, ronda_last_error(c), "was waited for already");
    expect(ronda_test(r, &done), RONDA_EINVAL, ronda_last_error(c), "was waited for already");
    call.struct_size--;
    expect(ronda_post(c, &call, &r), RONDA_EINVAL, ronda_last_error(c), "sizeof(ronda_call)");
    call.struct_size++;
    expect(ronda_post(c, NULL, &r), RONDA_EINVAL, ronda_last_error(c), "the call is NULL");
    expect(ronda_post(NULL, &call, &r), RONDA_EINVAL, ronda_last_error(NULL), "comm is NULL");
    call.kind = 99;
    expect(ronda_post(c, &call, &r), RONDA_EINVAL, ronda_last_error(c), "99 is not a collective");
    call.kind = RONDA_BROADCAST;
    call.algorithm = "pigeon";
    expect(ronda_post(c, &call, &r), RONDA_EINVAL, ronda_last_error(c), "no algorithm 'pigeon'");
    expect(ronda_plan_create(c, &call, &p), RONDA_EINVAL, ronda_last_error(c), "'pigeon'");
    call.algorithm = "tree";
    call.compressor = (ronda_compressor *)&word;
    expect(ronda_post(c, &call, &r), RONDA_EUNSUPPORTED, ronda_last_error(c), "no compressors");
    call.compressor = NULL;
    call.root = 1;
    expect(ronda_plan_create(c, &call, &p), RONDA_EINVAL, ronda_last_error(c), "root 1");
    call.root = 0;
    expect(ronda_plan_create(c, &call, NULL), RONDA_EINVAL, ronda_last_error(c), "out is NULL");
    expect(ronda_plan_create(NULL, &call, &p), RONDA_EINVAL, ronda_last_error(NULL), "comm is");
    CHECK(ronda_plan_create(c, &call, &p) == RONDA_OK, "%s", ronda_last_error(c));
    expect(ronda_start(p, NULL, NULL, &r), RONDA_EINVAL, ronda_last_error(c), "buffer is NULL");
    expect(ronda_start(NULL, NULL, &word, &r), RONDA_EINVAL, ronda_last_error(NULL), "plan is");
    expect(ronda_start(p, NULL, &word, NULL), RONDA_EINVAL, ronda_last_error(c), "out is NULL");
    expect(ronda_plan_print(p, NULL, 5, NULL), RONDA_EINVAL, ronda_last_error(NULL), "text is");
    CHECK(ronda_close(c) == RONDA_OK, "close");
    expect(ronda_start(p, NULL, &word, &r), RONDA_EINVAL, ronda_last_error(NULL), "is closed");
    expect(ronda_plan_print(p, NULL, 0, NULL), RONDA_EINVAL, ronda_last_error(NULL), "is closed");
    ronda_plan_free(p);
    ronda_plan_free(NULL);
}

/* --- failure --- */

typedef struct {
    ronda_comm *comms[3];
    int deed; /* of rank 2: closes, aborts, never comes */
    bool tests;
} failing;

/* Two requests that need rank 2, and one before them that all have made. */
static void run_failing(void *context, uint32_t rank)
{
    failing *s = context;
    ronda_comm *comm = s->comms[rank];
    ronda_request *requests[3] = {NULL};
    static uint32_t data[3][3][70000];
    const ronda_status want = s->deed == 0   ? RONDA_EPEER
                              : s->deed == 1 ? RONDA_EABORTED
                                             : RONDA_ETIMEOUT;
    ronda_set_timeout(comm, s->deed == 2 ? 300000000 : 20000000000);
    CHECK(ronda_iallreduce(comm, data[rank][0], data[rank][0], 70000, RONDA_U32, RONDA_SUM,
                           &requests[0]) == RONDA_OK,
          "%s", ronda_last_error(comm));
    if (rank == 2) {
        CHECK(ronda_wait(requests[0]) == RONDA_OK, "%s", ronda_last_error(comm));
        if (s->deed == 0)
            CHECK(ronda_close(comm) == RONDA_OK, "close");
        else if (s->deed == 1)
            ronda_abort(comm, "no more");
        if (s->deed == 0)
            s->comms[2] = NULL;
        return;
    }
    for (int i = 1; i < 3; i++) {
        const ronda_status started =
            ronda_iallreduce(comm, data[rank][i], data[rank][i], i == 1 ? 1 : 70000, RONDA_U32,
                             RONDA_SUM, &requests[i]);
        CHECK(started == RONDA_OK || (s->deed < 2 && started == want), "%s",
              ronda_last_error(comm));
        if (started) {
            CHECK(ronda_wait_all(requests, 3), "all went well after a failed start");
            return;
        }
    }
    const ronda_status first = ronda_wait(requests[0]);
    CHECK(first == RONDA_OK || first == want, "%s", ronda_last_error(comm));
    for (bool done = false; s->tests && s->deed < 2 && !done;)
        CHECK(ronda_test(requests[2], &done) == RONDA_OK, "%s", ronda_last_error(comm));
    const ronda_status status = ronda_wait(requests[1]);
    CHECK(status == want, "rank %u: %d: %s", rank, status, ronda_last_error(comm));
    CHECK(ronda_wait(requests[2]) == want, "rank %u: %s", rank, ronda_last_error(comm));
    memset(data[rank], 0x5a, sizeof data[rank]);
    CHECK(ronda_barrier(comm) == want, "rank %u: %s", rank, ronda_last_error(comm));
}

TEST(a_failure_with_requests_under_way)
{
    for (int deed = 0; deed < 3; deed++)
        for (int tests = 0; tests < 2 && !test_failed(); tests++) {
            failing s = {.deed = deed, .tests = tests};
            if (!world_open(3, NULL, s.comms))
                return;
            run_ranks(3, run_failing, &s);
            for (int r = 0; r < 3; r++)
                CHECK(ronda_close(s.comms[r]) == RONDA_OK, "close");
        }
}

/* A rank that has started a call and computes is named as such. */
static void run_elsewhere(ronda_comm *comm, uint32_t rank)
{
    static float data[2][100000];
    ronda_request *request;
    static _Atomic int posted, failed;
    ronda_set_timeout(comm, rank ? 20000000000 : 300000000);
    while (rank == 0 && !posted)
        sleep_ms(1);
    CHECK(ronda_iallreduce(comm, data[rank], data[rank], 100000, RONDA_F32, RONDA_SUM, &request) ==
              RONDA_OK,
          "%s", ronda_last_error(comm));
    posted = 1;
    while (rank == 1 && !failed)
        sleep_ms(1);
    CHECK(ronda_wait(request) == RONDA_ETIMEOUT &&
              strstr(ronda_last_error(comm), "rank 1, which has posted it"),
          "%s", ronda_last_error(comm));
    failed = 1;
}

TEST(a_rank_that_is_elsewhere)
{
    world_play(2, "allreduce=ring", run_elsewhere);
}

/* --- a thread that moves calls --- */

/* A call of many rounds is done when the program comes back from something else, on all ranks. */
static void run_tended(ronda_comm *comm, uint32_t rank)
{
    enum { COUNT = 300000 };
    uint32_t *data = malloc(2 * COUNT * sizeof *data), word = 0;
    ronda_request *requests[3];
    ronda_comm *part = NULL;
    CHECK(ronda_split(comm, 0, 0, &part) == RONDA_OK, "%s", ronda_last_error(comm));
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 2 * COUNT; i++)
            data[i] = rank + i;
        for (int k = 0; k < 2; k++)
            CHECK(ronda_iallreduce(k ? part : comm, data + k * COUNT, data + k * COUNT, COUNT,
                                   RONDA_U32, RONDA_SUM, &requests[k]) == RONDA_OK,
                  "%s", ronda_last_error(comm));
        CHECK(ronda_irecv(comm, &word, 1, RONDA_U32, RONDA_ANY, 9, NULL, &requests[2]) == RONDA_OK,
              "%s", ronda_last_error(comm));
        CHECK(ronda_send(comm, &rank, 1, RONDA_U32, (rank + 1) % ronda_size(comm), 9) == RONDA_OK,
              "%s", ronda_last_error(comm));
        for (int k = 0; k < 2; k++) /* to look moves nothing */
            CHECK(dump_says(k ? part : comm, "nothing under way", 30), "it does not move:\n%s",
                  dumped(k ? part : comm));
        CHECK(ronda_wait_all(requests, 3) == RONDA_OK, "%s", ronda_last_error(comm));
        for (uint32_t i = 0; i < 2 * COUNT; i++)
            if (!CHECK(data[i] == 3 + 3 * i, "element %u is %u", i, data[i]))
                break;
    }
    CHECK(ronda_close(part) == RONDA_OK, "close");
    free(data);
}

static int process_tended(job *j, uint32_t rank)
{
    ronda_comm *comm = NULL;
    const ronda_config config = {.struct_size = sizeof config,
                                 .rank = rank,
                                 .size = j->size,
                                 .addr = j->address,
                                 .flags = RONDA_PROGRESS_THREAD};
    if (!CHECK(ronda_init(&config, &comm) == RONDA_OK, "%s", ronda_last_error(NULL)))
        return 1;
    run_tended(comm, rank);
    CHECK(ronda_close(comm) == RONDA_OK, "close");
    return 0;
}

TEST(calls_move_by_themselves)
{
    setenv("RONDA_PROGRESS", "1", 1);
    world_play(3, "allreduce=ring", run_tended);
    unsetenv("RONDA_PROGRESS");
    setenv("RONDA_ALGO", "allreduce=ring", 1);
    job_run(3, process_tended, NULL, 60);
    unsetenv("RONDA_ALGO");
}

TEST(random_programs_with_a_thread_each)
{
    rng r = rng_start();
    static random_calls p;
    test_deadline(200);
    for (uint32_t i = 0; i < (test_sanitized() ? 5 : 25) && !test_failed(); i++) {
        draw_calls(&r, &p, 1 + (uint32_t)rng_below(&r, 5), 2000);
        setenv("RONDA_PROGRESS", "1", 1);
        const bool open = world_open(p.size, NULL, p.comms);
        unsetenv("RONDA_PROGRESS");
        if (!open)
            return;
        run_ranks(p.size, run_thread, &p);
        if (!test_failed())
            world_close(p.size, p.comms);
        calls_free(p.calls, p.count);
    }
}
