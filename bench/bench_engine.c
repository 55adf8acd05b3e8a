/* bench_engine.c: what the engine costs, and what collectives reach against the machine's own limits.
 *
 *     step      two ranks driven by one thread, tiny messages: nothing but the engine is measured
 *     latency   8-byte collectives between two threads, beside the round trip of a cache line
 *     bandwidth allreduce beside two bare threads that fold the same buffers
 *     crowd     more ranks than cores: does time grow with the work, or does it collapse?
 *
 * Samples of what is compared are taken in turn, and medians are shown: machines are noisy. */
#include "engine/engine.h"
#include "ranks.h"

/* --- the engine alone --- */

/* Both ranks' engines are moved by one thread, so no cache line travels and nobody waits. */
static double step_ns(const char *algorithm, uint64_t count, bool lanes, uint32_t *steps)
{
    rd_link *links[2];
    rd_engine *engines[2];
    rd_plan *plans[2];
    float *buffers[2];
    rd_error err;
    double v[200];
    if (rd_local_open(2, links, &err))
        die(err.message);
    *steps = 0;
    for (uint32_t r = 0; r < 2; r++) {
        const rd_shape shape = {.kind = RONDA_ALLREDUCE,
                                .rank = r,
                                .size = 2,
                                .width = 4,
                                .in_place = true,
                                .count = count};
        plans[r] =
            rd_plan_build(rd_algorithm_named(RONDA_ALLREDUCE, algorithm), &shape, lanes ? 16 : 0);
        buffers[r] = memory(count * 4);
        if (!plans[r] || rd_engine_open(links[r], NULL, &engines[r]))
            die("no memory");
        *steps += plans[r]->step_count;
    }
    const uint64_t rounds = 20000 / plans[0]->step_count + 1;
    uint64_t sequence = 0;
    for (int k = 0; k < 200; k++) {
        const uint64_t from = rd_now_ns();
        for (uint64_t i = 0; i < rounds; i++) {
            rd_operation *operations[2];
            sequence++;
            for (uint32_t r = 0; r < 2; r++) {
                const rd_job job = {.plan = plans[r],
                                    .in = buffers[r],
                                    .out = buffers[r],
                                    .fold = rd_fold_kernel(RONDA_F32, RONDA_SUM),
                                    .record = {.sequence = sequence, .mark = sequence}};
                if (rd_engine_start(engines[r], &job, &operations[r]))
                    die("no memory");
            }
            for (bool first = false, second = false; !first || !second;) {
                first = rd_engine_test(engines[0], operations[0]);
                second = rd_engine_test(engines[1], operations[1]);
            }
            rd_engine_wait(engines[0], operations[0], 1000000000, &err);
            rd_engine_wait(engines[1], operations[1], 1000000000, &err);
        }
        v[k] = (double)(rd_now_ns() - from) / (double)(rounds * *steps);
    }
    for (uint32_t r = 0; r < 2; r++) {
        rd_engine_close(engines[r], 1000000000, &err);
        rd_plan_free(plans[r]);
        free(buffers[r]);
    }
    links[0]->transport->close(links[0]);
    links[1]->transport->close(links[1]);
    return median(v, 200);
}

static void show_steps(void)
{
    static const struct {
        const char *algorithm;
        uint64_t count;
    } rows[] = {{"two_shot", 2048}, {"ring", 2048}, {"halving", 2048}, {"one_shot", 4}};
    printf(
        "engine: cost of a step, two ranks driven by one thread, messages of 16 bytes or less (bar: 30 ns)\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t steps;
        const double ns = step_ns(rows[i].algorithm, rows[i].count, true, &steps);
        printf("  %-10s %5u steps   %6.1f ns a step\n", rows[i].algorithm, steps, ns);
    }
}

/* --- between threads --- */

/* The bare threads' buffers and times. */
typedef struct {
    float *buffer[2];
    double *samples[2];
} bare;

static void rewrite(float *x, size_t count, uint32_t rank)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((rank + 1) * (i % 61 + 1));
}

static void prepare(worker *w)
{
    rewrite(w->x, w->b->count, w->rank);
}

static void check_sum(const worker *w)
{
    const float ranks = (float)(w->b->ranks * (w->b->ranks + 1) / 2);
    for (size_t i = 0; i < w->b->count; i++)
        if (w->x[i] != ranks * (float)(i % 61 + 1))
            die("a sum is wrong");
}

/* What two threads can do at best: each folds its half of both buffers and stores it in both. */
static void fold_bare(worker *w, int sample)
{
    bare *limit = w->b->context;
    const size_t half = w->b->count / 2, at = w->rank ? half : 0;
    const size_t count = w->rank ? w->b->count - half : half;
    void *out[2] = {limit->buffer[w->rank] + at, limit->buffer[!w->rank] + at};
    const void *in[2] = {limit->buffer[0] + at, limit->buffer[1] + at};

    if (sample == -1)
        check_sum(w);
    rewrite(limit->buffer[w->rank], w->b->count, w->rank);
    const uint64_t from = start_together(w->b, w->rank);
    rd_fold_kernel(RONDA_F32, RONDA_SUM)(out, 2, in, 2, count, 0);
    const double us = (double)(rd_now_ns() - from) / 1e3;
    if (sample >= 0)
        limit->samples[w->rank][sample] = us;
}

static ronda_status call_allreduce(worker *w)
{
    return ronda_allreduce(w->comm, w->x, w->x, w->b->count, RONDA_F32, RONDA_SUM);
}

static ronda_status call_barrier(worker *w)
{
    return ronda_barrier(w->comm);
}

static ronda_status call_broadcast(worker *w)
{
    return ronda_broadcast(w->comm, w->x, w->b->count, RONDA_F32, 0);
}

/* Many calls, one after the other. */
enum { STREAK = 100 };
static ronda_status (*streak_of)(worker *w);

static ronda_status call_streak(worker *w)
{
    ronda_status status = RONDA_OK;
    for (int i = 0; i < STREAK && !status; i++)
        status = streak_of(w);
    return status;
}

static void show_latency(double seconds)
{
    static const struct {
        const char *name;
        ronda_status (*call)(worker *w);
    } rows[] = {
        {"allreduce", call_allreduce}, {"broadcast", call_broadcast}, {"barrier", call_barrier}};

    printf(
        "\ntwo threads on two cores: 8 bytes, single calls that both ranks begin at one moment, data "
        "rewritten before each (bar: allreduce 0.30 us)\n");
    for (size_t i = 0; i < 3; i++) {
        bench b = {
            .ranks = 2, .count = 2, .seconds = seconds, .prepare = prepare, .call = rows[i].call};
        const double us = run_bench(&b);
        printf("  %-10s %6.3f us   round trip of a cache line %.3f us (%s)\n", rows[i].name, us,
               b.round_trip_ns / 1e3, b.round_trip_ns < 200 ? "near" : "far");
    }
    printf("the same without a pause, a call's share of %d of them\n", STREAK);
    for (size_t i = 0; i < 3; i++) {
        streak_of = rows[i].call;
        bench b = {
            .ranks = 2, .count = 2, .seconds = seconds, .prepare = prepare, .call = call_streak};
        printf("  %-10s %6.3f us\n", rows[i].name, run_bench(&b) / STREAK);
    }
}

static void show_bandwidth(double seconds)
{
    printf(
        "\ntwo threads on two cores: allreduce of f32 beside bare threads folding buffers of the "
        "same size (bar at 16 MiB: 0.8)\n");
    printf("  %10s %12s %12s %8s\n", "bytes", "ronda us", "bare us", "ratio");
    for (size_t bytes = 1024; bytes <= (size_t)64 << 20; bytes *= 4) {
        bare limit = {{memory(bytes), memory(bytes)},
                      {memory(SAMPLES * sizeof(double)), memory(SAMPLES * sizeof(double))}};
        bench b = {.ranks = 2,
                   .count = bytes / 4,
                   .seconds = seconds,
                   .prepare = prepare,
                   .call = call_allreduce,
                   .after = fold_bare,
                   .context = &limit};
        const double us = run_bench(&b);
        for (int k = 0; k < b.taken; k++) /* of the slower one, as of ronda's */
            if (limit.samples[1][k] > limit.samples[0][k])
                limit.samples[0][k] = limit.samples[1][k];
        const double bare_us = median(limit.samples[0], b.taken);
        printf("  %10zu %12.2f %12.2f %8.2f\n", bytes, us, bare_us, bare_us / us);
        fflush(stdout);
        free(limit.buffer[0]);
        free(limit.buffer[1]);
        free(limit.samples[0]);
        free(limit.samples[1]);
    }
}

/* The same work by two threads that need not talk: each rewrites half of the ranks' buffers, untimed,
 * then folds its half of all of them and stores it into all of them. */
typedef struct {
    float *buffer[MOST_RANKS];
    uint32_t ranks;
    size_t count;
} crowd;

static void rewrite_crowd(worker *w)
{
    const crowd *c = w->b->context;
    for (uint32_t r = w->rank; r < c->ranks; r += 2)
        rewrite(c->buffer[r], c->count, r);
}

static ronda_status fold_crowd(worker *w)
{
    const crowd *c = w->b->context;
    const size_t half = c->count / 2, end = w->rank ? c->count : half;
    enum { STRIP = 2048 }; /* elements: what is read once is in the cache when it is stored */
    for (size_t at = w->rank ? half : 0; at < end; at += STRIP) {
        void *out[MOST_RANKS];
        for (uint32_t r = 0; r < c->ranks; r++)
            out[r] = c->buffer[r] + at;
        rd_fold_kernel(RONDA_F32, RONDA_SUM)(out, c->ranks, (const void **)out, c->ranks,
                                             end - at < STRIP ? end - at : STRIP, 0);
    }
    return RONDA_OK;
}

static double crowd_work(uint32_t ranks, size_t count, double seconds)
{
    crowd c = {.ranks = ranks, .count = count};
    bench b = {.ranks = 2,
               .count = 1,
               .seconds = seconds,
               .prepare = rewrite_crowd,
               .call = fold_crowd,
               .context = &c};
    for (uint32_t r = 0; r < ranks; r++)
        c.buffer[r] = memory(count * sizeof(float));
    const double us = run_bench(&b);
    for (uint32_t r = 0; r < ranks; r++)
        free(c.buffer[r]);
    return us;
}

static void show_crowd(double seconds)
{
    static const uint32_t ranks[] = {2, 4, 8, 16};
    static const size_t sizes[] = {8, 65536, 1048576, 16777216};

    printf(
        "\nallreduce of f32, ranks sharing %u cores: us, beside two bare threads that do all ranks' "
        "folding, and us per rank\n",
        rd_usable_cpus());
    printf("  %6s", "ranks");
    for (size_t s = 0; s < 4; s++)
        printf(" %22zu B", sizes[s]);
    printf("\n");
    for (size_t i = 0; i < 4; i++) {
        printf("  %6u", ranks[i]);
        for (size_t s = 0; s < 4; s++) {
            bench b = {.ranks = ranks[i],
                       .count = sizes[s] / 4,
                       .seconds = seconds,
                       .prepare = prepare,
                       .call = call_allreduce};
            const double us = run_bench(&b), bare_us = crowd_work(ranks[i], sizes[s] / 4, seconds);
            printf(" %8.1f/%6.1f (%6.2f)", us, bare_us, us / ranks[i]);
            fflush(stdout);
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !quick) {
        fprintf(stderr, "bench_engine: takes no argument but --quick\n");
        return 2;
    }
    show_steps();
    fflush(stdout);
    if (rd_usable_cpus() >= 2) {
        show_latency(quick ? 0.05 : 0.5);
        show_bandwidth(quick ? 0.05 : 0.6);
    } else {
        printf("\none core only: latency and bandwidth between two threads are not measured\n");
    }
    show_crowd(quick ? 0.02 : 0.4);
    return 0;
}
