/* test_init.c: joining worlds: configs, the environment, logs, and no memory. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "calls.h"

enum { MOST = 8 };
static ronda_comm *const UNTOUCHED = (ronda_comm *)0x1234;

/* --- joining a world of one --- */

/* A communicator of one rank that works; closes it. */
static void check_one(ronda_status status, ronda_comm **made)
{
    ronda_comm *comm = *made;
    double x = 2.5, y = 0;
    if (!CHECK(status == RONDA_OK, "%s: %s", ronda_strerror(status), ronda_last_error(NULL)))
        return;
    CHECK(ronda_rank(comm) == 0 && ronda_size(comm) == 1, "rank %u of %u", ronda_rank(comm),
          ronda_size(comm));
    CHECK(ronda_allreduce(comm, &x, &y, 1, RONDA_F64, RONDA_MEAN) == RONDA_OK && y == 2.5, "%g", y);
    CHECK(ronda_barrier(comm) == RONDA_OK, "%s", ronda_last_error(comm));
    CHECK(ronda_close(comm) == RONDA_OK, "close");
}

/* ronda_init() fails with this status and a sentence that names the thing. */
static void check_refused(const ronda_config *config, ronda_status want, const char *thing)
{
    ronda_comm *comm = UNTOUCHED;
    ronda_error e = {.struct_size = sizeof e};
    const ronda_status status = ronda_init(config, &comm);
    const char *text = ronda_last_error(NULL);
    ronda_get_error(NULL, &e);
    CHECK(status == want, "%s: %s instead of %s", thing, ronda_strerror(status),
          ronda_strerror(want));
    CHECK(strstr(text, thing) && !strchr(text, '\n'), "'%s' is not in: %s", thing, text);
    CHECK(e.status == status && strcmp(e.message, text) == 0, "%s: %d: %s", thing, e.status,
          e.message);
    CHECK(comm == UNTOUCHED, "%s: out was touched", thing);
}

TEST(a_world_of_one)
{
    ronda_comm *comm = NULL;
    const ronda_config empty = {.struct_size = sizeof empty};
    const ronda_config full = {.struct_size = sizeof full,
                               .size = 1,
                               .transport = "shm",
                               .timeout_ns = 1000,
                               .start_timeout_ns = 1000};
    check_one(ronda_init(NULL, &comm), &comm);
    check_one(ronda_init(&empty, &comm), &comm);
    check_one(ronda_init(&full, &comm), &comm);
    CHECK(ronda_init(NULL, NULL) == RONDA_EINVAL && strstr(ronda_last_error(NULL), "out"), "%s",
          ronda_last_error(NULL));
}

TEST(configs_that_cannot_be)
{
    ronda_config c = {0};
    check_refused(&c, RONDA_EINVAL, "struct_size");
    c.struct_size = sizeof c - 8;
    check_refused(&c, RONDA_EINVAL, "struct_size");
    c.struct_size = sizeof c + 8;
    check_refused(&c, RONDA_EINVAL, "struct_size");
    c = (ronda_config){.struct_size = sizeof c, .flags = 4};
    check_refused(&c, RONDA_EINVAL, "flags");
    c = (ronda_config){.struct_size = sizeof c, .rank = 1};
    check_refused(&c, RONDA_EINVAL, "rank 1");
    c = (ronda_config){.struct_size = sizeof c, .rank = 3, .size = 3};
    check_refused(&c, RONDA_EINVAL, "rank 3");
    c = (ronda_config){.struct_size = sizeof c, .rank = 2, .size = 3};
    check_refused(&c, RONDA_EINVAL, "RONDA_ADDR");
    c = (ronda_config){.struct_size = sizeof c, .rank = 2, .size = 3, .addr = "nowhere"};
    check_refused(&c, RONDA_EINVAL, "nowhere");
    c = (ronda_config){.struct_size = sizeof c, .size = 1000000};
    check_refused(&c, RONDA_ELIMIT, "1000000");
    c = (ronda_config){.struct_size = sizeof c, .transport = "pigeon"};
    check_refused(&c, RONDA_EUNSUPPORTED, "pigeon");
    c = (ronda_config){.struct_size = sizeof c, .tuning = "/tmp/x"};
    check_refused(&c, RONDA_EUNSUPPORTED, "tuning");
}

/* --- the environment --- */

TEST(the_place_in_the_environment)
{
    static const char *const bad[] = {
        "0", "-1", "abc", "1x", " 1", "+1", "4294967296", "99999999999999999999", "1.0"};
    ronda_comm *comm = NULL;
    for (int i = 0; i < 9; i++) {
        setenv("RONDA_SIZE", bad[i], 1);
        check_refused(NULL, RONDA_EINVAL, "RONDA_SIZE");
    }
    setenv("RONDA_SIZE", "2", 1);
    check_refused(NULL, RONDA_EINVAL, "RONDA_RANK");
    for (int i = 1; i < 9; i++) {
        setenv("RONDA_RANK", bad[i], 1);
        check_refused(NULL, RONDA_EINVAL, "RONDA_RANK");
    }
    setenv("RONDA_RANK", "2", 1);
    check_refused(NULL, RONDA_EINVAL, "rank 2");
    setenv("RONDA_RANK", "1", 1);
    check_refused(NULL, RONDA_EINVAL, "RONDA_ADDR");
    setenv("RONDA_ADDR", "", 1);
    check_refused(NULL, RONDA_EINVAL, "RONDA_ADDR");
    unsetenv("RONDA_ADDR");
    setenv("RONDA_RANK", "0", 1);
    setenv("RONDA_SIZE", "1", 1);
    check_one(ronda_init(NULL, &comm), &comm);
    unsetenv("RONDA_RANK");
    check_one(ronda_init(NULL, &comm), &comm);
    setenv("RONDA_SIZE", "", 1);
    check_one(ronda_init(NULL, &comm), &comm);
    unsetenv("RONDA_SIZE");
    setenv("RONDA_TRANSPORT", "pigeon", 1);
    check_refused(NULL, RONDA_EUNSUPPORTED, "pigeon");
    unsetenv("RONDA_TRANSPORT");
}

/* Both ways of joining refuse a variable that cannot be read, and name it. */
static void check_variable(const char *name, const char *bad)
{
    ronda_comm *comms[2] = {UNTOUCHED, UNTOUCHED};
    setenv(name, bad, 1);
    check_refused(NULL, RONDA_EINVAL, name);
    CHECK(ronda_init_local(2, comms) == RONDA_EINVAL, "%s=%s was taken", name, bad);
    CHECK(strstr(ronda_last_error(NULL), name), "%s=%s: %s", name, bad, ronda_last_error(NULL));
    CHECK(comms[0] == UNTOUCHED && comms[1] == UNTOUCHED, "comms were touched");
    unsetenv(name);
}

static void check_accepted(const char *name, const char *good)
{
    ronda_comm *comm = NULL;
    setenv(name, good, 1);
    check_one(ronda_init(NULL, &comm), &comm);
    unsetenv(name);
}

TEST(variables_that_cannot_be_read)
{
    static const char *const timeouts[] = {"0",   "-1",   "abc",   "1s",  "nan",
                                           "inf", "1e30", "1e-12", "1 2", "-0"};
    static const char *const algorithms[] = {"ring",
                                             "allreduce",
                                             "allreduce=",
                                             "allreduce=none",
                                             "x=ring",
                                             "allreduce=ring,broadcast=ring",
                                             "=",
                                             "=ring",
                                             "allreduce=ring broadcast=tree",
                                             "allreduce=ring,x"};
    check_variable("RONDA_PROGRESS", "yes");
    static const char *const logs[] = {"verbose", "2", "INFO", "info,debug"};
    char longer[2000];
    for (int i = 0; i < 10; i++)
        check_variable("RONDA_TIMEOUT", timeouts[i]);
    for (int i = 0; i < 10; i++)
        check_variable("RONDA_ALGO", algorithms[i]);
    for (int i = 0; i < 4; i++)
        check_variable("RONDA_LOG", logs[i]);
    memset(longer, ',', sizeof longer);
    longer[sizeof longer - 1] = 0;
    check_variable("RONDA_ALGO", longer);
}

TEST(variables_that_can_be_read)
{
    static const char *const timeouts[] = {"", "1", "60", "0.5", "86400"};
    static const char *const algorithms[] = {"", "allreduce=ring", "allreduce=ring,broadcast=tree",
                                             "allreduce=ring,",
                                             "barrier=star,allgather=bruck,reduce_scatter=direct"};
    for (int i = 0; i < 5; i++)
        check_accepted("RONDA_TIMEOUT", timeouts[i]);
    for (int i = 0; i < 5; i++)
        check_accepted("RONDA_ALGO", algorithms[i]);
    check_accepted("RONDA_LOG", "");
    check_accepted("RONDA_LOG", "none");
}

TEST(the_timeout_of_the_environment_is_used)
{
    ronda_comm *comms[2];
    setenv("RONDA_TIMEOUT", "0.125", 1);
    const bool open = world_open(2, NULL, comms);
    unsetenv("RONDA_TIMEOUT");
    if (!open)
        return;
    CHECK(ronda_barrier(comms[0]) == RONDA_ETIMEOUT, "%s", ronda_last_error(comms[0]));
    CHECK(strstr(ronda_last_error(comms[0]), "0.125 s"), "%s", ronda_last_error(comms[0]));
    world_close(2, comms);
}

/* --- worlds of threads --- */

TEST(worlds_that_cannot_be)
{
    ronda_comm *comms[2] = {UNTOUCHED, UNTOUCHED};
    CHECK(ronda_init_local(0, comms) == RONDA_EINVAL && strstr(ronda_last_error(NULL), "size"),
          "%s", ronda_last_error(NULL));
    CHECK(ronda_init_local(2, NULL) == RONDA_EINVAL && strstr(ronda_last_error(NULL), "comms"),
          "%s", ronda_last_error(NULL));
    CHECK(ronda_init_local(1025, comms) == RONDA_ELIMIT && strstr(ronda_last_error(NULL), "1024"),
          "%s", ronda_last_error(NULL));
    CHECK(ronda_init_local(UINT32_MAX, comms) == RONDA_ELIMIT, "%s", ronda_last_error(NULL));
    CHECK(comms[0] == UNTOUCHED && comms[1] == UNTOUCHED, "comms were touched");
}

static void run_crowd(void *context, uint32_t rank)
{
    ronda_comm **comms = context;
    const uint32_t n = ronda_size(comms[rank]);
    uint64_t x = rank;
    CHECK(ronda_rank(comms[rank]) == rank, "rank %u", ronda_rank(comms[rank]));
    CHECK(ronda_barrier(comms[rank]) == RONDA_OK, "%s", ronda_last_error(comms[rank]));
    CHECK(ronda_allreduce(comms[rank], &x, &x, 1, RONDA_U64, RONDA_SUM) == RONDA_OK, "%s",
          ronda_last_error(comms[rank]));
    CHECK(x == (uint64_t)n * (n - 1) / 2, "rank %u: %" PRIu64, rank, x);
}

TEST(a_world_of_1024)
{
    static ronda_comm *comms[1024];
    const uint32_t n = test_sanitized() ? 80 : 300;
    test_deadline(100);
    if (world_open(1024, NULL, comms))
        world_close(1024, comms);
    if (!world_open(n, NULL, comms))
        return;
    run_ranks(n, run_crowd, comms);
    world_close(n, comms);
}

/* Worlds have nothing to do with each other: one fails, the other goes on; and a communicator may be
 * used by another thread than before. */
static void run_two_worlds(void *context, uint32_t rank)
{
    ronda_comm **comms = context; /* 3 of the first, then 3 of the second */
    uint32_t x = rank;
    for (int i = 0; i < 20; i++) {
        CHECK(ronda_allreduce(comms[3 + rank], &x, &x, 1, RONDA_U32, RONDA_MAX) == RONDA_OK, "%s",
              ronda_last_error(comms[3 + rank]));
        CHECK(ronda_barrier(comms[rank]) == RONDA_EABORTED, "not aborted");
    }
    CHECK(x == 2, "%u", x);
}

TEST(worlds_are_independent)
{
    ronda_comm *comms[6];
    if (!world_open(3, NULL, comms) || !world_open(3, NULL, comms + 3))
        return;
    run_ranks(3, run_crowd, comms);
    ronda_abort(comms[1], "for the test");
    run_ranks(3, run_crowd, comms + 3);
    run_ranks(3, run_two_worlds, comms);
    world_close(3, comms);
    run_ranks(3, run_crowd, comms + 3);
    world_close(3, comms + 3);
}

/* --- each thread's own error --- */

static void *fail_elsewhere(void *context)
{
    char *text = context;
    snprintf(text, 480, "%s", ronda_last_error(NULL));
    CHECK(ronda_init_local(0, NULL), "a world of none");
    return NULL;
}

TEST(the_error_of_a_failed_init_is_the_threads_own)
{
    char before[480] = "?", here[480];
    ronda_comm *comm = NULL;
    pthread_t thread;
    CHECK(ronda_init(NULL, NULL), "a NULL was taken");
    snprintf(here, sizeof here, "%s", ronda_last_error(NULL));
    if (!CHECK(pthread_create(&thread, NULL, fail_elsewhere, before) == 0, "no thread"))
        return;
    pthread_join(thread, NULL);
    CHECK(strcmp(before, "") == 0, "a new thread has the error '%s'", before);
    CHECK(*here && strcmp(here, ronda_last_error(NULL)) == 0, "'%s' became '%s'", here,
          ronda_last_error(NULL));
    check_one(ronda_init(NULL, &comm), &comm);
    CHECK(strcmp(here, ronda_last_error(NULL)) == 0, "a success made '%s' of '%s'",
          ronda_last_error(NULL), here);
}

/* --- logs --- */

typedef struct {
    uint32_t lines[4];
    bool odd;
} heard;

static void hear(void *context, int level, const char *line)
{
    heard *h = context;
    h->lines[level >= 1 && level <= 2 ? level : 0]++;
    h->odd |= !line || !*line || strchr(line, '\n');
}

/* What the body says on standard error. */
static void standard_error_of(void (*body)(void), char *text, size_t capacity)
{
    FILE *file = tmpfile();
    fflush(stderr);
    const int kept = dup(STDERR_FILENO);
    text[0] = 0;
    if (!CHECK(file && kept >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0, "cannot redirect"))
        return;
    body();
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    text[fread(text, 1, capacity - 1, file)] = 0;
    fclose(file);
}

static void work_a_little(void)
{
    ronda_comm *comms[2], *one = NULL;
    check_one(ronda_init(NULL, &one), &one);
    if (!world_open(2, NULL, comms))
        return;
    run_ranks(2, run_crowd, comms);
    CHECK(ronda_broadcast(comms[0], NULL, 1, RONDA_U8, 0), "a NULL was taken");
    ronda_abort(comms[0], "for the test");
    CHECK(ronda_barrier(comms[0]) == RONDA_EABORTED, "it was aborted");
    world_close(2, comms);
    CHECK(ronda_init(NULL, NULL), "a NULL was taken");
}

TEST(nothing_is_said_unless_asked_for)
{
    char text[8000];
    standard_error_of(work_a_little, text, sizeof text);
    CHECK(text[0] == 0, "it said: %s", text);
    setenv("RONDA_LOG", "none", 1);
    standard_error_of(work_a_little, text, sizeof text);
    CHECK(text[0] == 0, "it said: %s", text);
    unsetenv("RONDA_LOG");
}

TEST(what_was_asked_for_is_said)
{
    char info[8000], debug[8000];
    setenv("RONDA_LOG", "info", 1);
    standard_error_of(work_a_little, info, sizeof info);
    setenv("RONDA_LOG", "debug", 1);
    standard_error_of(work_a_little, debug, sizeof debug);
    unsetenv("RONDA_LOG");
    CHECK(strstr(info, "rank 1 of 2") && !strstr(info, "allreduce of 1 u64"), "%s", info);
    CHECK(strstr(debug, "rank 1 of 2") && strstr(debug, "allreduce of 1 u64"), "%s", debug);
    CHECK(strlen(debug) > strlen(info), "debug says no more than info");
}

static heard hears;
static void work_with_callback(void)
{
    ronda_comm *comm = NULL;
    const ronda_config c = {.struct_size = sizeof c, .log = hear, .log_context = &hears};
    hears = (heard){0};
    check_one(ronda_init(&c, &comm), &comm);
}

TEST(a_log_function_gets_each_line)
{
    char text[800];
    standard_error_of(work_with_callback, text, sizeof text);
    CHECK(text[0] == 0, "it said: %s", text);
    CHECK(hears.lines[1] >= 2 && hears.lines[2] >= 1 && hears.lines[0] == 0 && !hears.odd,
          "%u of level 1, %u of level 2, %u of others", hears.lines[1], hears.lines[2],
          hears.lines[0]);
}

/* --- no memory --- */

enum { MANY = 2000 };

/* The k-th allocation and all after it fail, for every k until it works. */
TEST(no_memory_for_a_world)
{
    static const uint32_t sizes[] = {1, 2, 5};
    for (int s = 0; s < 3; s++) {
        ronda_comm *comms[MOST];
        ronda_status status = RONDA_ENOMEM;
        for (long k = 0; status != RONDA_OK && k < MANY; k++) {
            for (int i = 0; i < MOST; i++)
                comms[i] = UNTOUCHED;
            rd_mem_fail_after(k);
            status = ronda_init_local(sizes[s], comms);
            rd_mem_fail_after(-1);
            CHECK(k > 0 || status, "it needs no memory");
            CHECK(!status || (status == RONDA_ENOMEM && strstr(ronda_last_error(NULL), "memory")),
                  "%s: %s", ronda_strerror(status), ronda_last_error(NULL));
            for (uint32_t i = 0; status && i < MOST; i++)
                CHECK(comms[i] == UNTOUCHED, "comms[%u] was touched", i);
        }
        if (!CHECK(status == RONDA_OK, "%u ranks never got enough", sizes[s]))
            return;
        run_ranks(sizes[s], run_crowd, comms);
        world_close(sizes[s], comms);
    }
}

/* The call fails until there is memory; each failure leaves everything as it was. */
static void run_starved(ronda_comm *comm, const call_buffers *b, const void *whole)
{
    ronda_status status = RONDA_ENOMEM;
    long k = 0;
    for (; status != RONDA_OK && k < MANY; k++) {
        ronda_error e = {.struct_size = sizeof e};
        rd_mem_fail_after(k);
        status = call_run(comm, b);
        rd_mem_fail_after(-1);
        ronda_get_error(comm, &e);
        if (!status)
            break;
        CHECK(k == 0 || status == RONDA_ENOMEM, "%s: %s", ronda_strerror(status), e.message);
        CHECK(e.status == RONDA_ENOMEM && e.sequence == 0 && strstr(e.message, "memory"),
              "%d, %" PRIu64 ": %s", e.status, e.sequence, e.message);
        CHECK(call_clean(b), "it wrote");
    }
    CHECK(k > 0, "%s needs no memory", model_text(&b->call));
    CHECK(status == RONDA_OK, "%s: %s", model_text(&b->call), ronda_last_error(comm));
    call_right(b, whole);
}

TEST(no_memory_for_a_first_call)
{
    static const ronda_kind kinds[] = {RONDA_ALLREDUCE, RONDA_BROADCAST, RONDA_ALLGATHER,
                                       RONDA_REDUCE_SCATTER, RONDA_BARRIER};
    ronda_comm *comm[1];
    if (!world_open(1, NULL, comm))
        return;
    for (uint64_t count = 0; count < 5000; count = count ? count * 40 : 3)
        for (int i = 0; i < (count ? 4 : 5); i++) {
            const model_call c = {.kind = kinds[i],
                                  .type = kinds[i] == RONDA_BARRIER ? RONDA_U8 : RONDA_U16,
                                  .op = RONDA_SUM,
                                  .size = 1,
                                  .count = kinds[i] == RONDA_BARRIER ? 0 : count,
                                  .seed = count};
            void *whole = model_whole(&c);
            call_buffers b = call_open(&c, 0, false, 0);
            run_starved(comm[0], &b, whole);
            call_close(&b);
            free(whole);
        }
    world_close(1, comm);
}

typedef struct {
    ronda_comm *comms[MOST];
    planned_call call;
} starving;

/* Out of place everything is warm.  Then rank 0 alone is in place, has to plan anew, and is the only
 * one that asks for memory; the others wait for it inside the call. */
static void run_one_starved(void *context, uint32_t rank)
{
    starving *s = context;
    for (int i = 0; i < 8; i++) {
        call_buffers b = call_open(&s->call.call, rank, false, 0);
        CHECK(call_run(s->comms[rank], &b) == RONDA_OK, "%s", ronda_last_error(s->comms[rank]));
        call_right(&b, s->call.whole);
        call_close(&b);
    }
    for (int i = 0; i < 8; i++)
        CHECK(ronda_barrier(s->comms[rank]) == RONDA_OK, "%s", ronda_last_error(s->comms[rank]));
    call_buffers b = call_open(&s->call.call, rank, rank == 0, 0);
    if (rank == 0) {
        run_starved(s->comms[rank], &b, s->call.whole);
    } else {
        CHECK(call_run(s->comms[rank], &b) == RONDA_OK, "%s", ronda_last_error(s->comms[rank]));
        call_right(&b, s->call.whole);
    }
    call_close(&b);
    CHECK(ronda_barrier(s->comms[rank]) == RONDA_OK, "%s", ronda_last_error(s->comms[rank]));
}

TEST(no_memory_on_one_rank_of_several)
{
    static const ronda_kind kinds[] = {RONDA_ALLREDUCE, RONDA_ALLGATHER, RONDA_REDUCE_SCATTER};
    static const char *const algorithms[] = {NULL,
                                             "allreduce=ring,allgather=bruck,reduce_scatter=ring"};
    rng r = rng_start();
    for (uint32_t n = 2; n <= 4; n++)
        for (int i = 0; i < 12; i++) {
            const model_call c = {.kind = kinds[i % 3],
                                  .type = RONDA_U32,
                                  .op = RONDA_SUM,
                                  .size = n,
                                  .count = i / 3 % 2 ? 5 : 3000,
                                  .seed = rng_next(&r)};
            starving s = {.call = call_plan(&r, &c, true)};
            if (world_open(n, algorithms[i / 6], s.comms)) {
                run_ranks(n, run_one_starved, &s);
                world_close(n, s.comms);
            }
            calls_free(&s.call, 1);
        }
}
