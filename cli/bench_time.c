/* bench_time.c: samples of one point.
 *
 * Before every timed call each rank writes its data anew.  Every few calls, before each of those that
 * take long, the first two ranks time a ping-pong of a cache line, which shows how far apart they are: machines move
 * their cores about.  (Not before each of the others: a call after it takes longer.)  Then all start
 * at one moment of the clock that rank 0 names.  A sample is the time from the first rank's begin to the last
 * one's end; the result is checked after each.  With more ranks than cores nobody can wait for a moment without taking a core
 * from the others, so they start as they leave a barrier. */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/names.h"
#include "bench.h"
#include "engine/fold.h"

enum {
    WARM_UPS = 3,
    MOST_TRIES = 20,
    MOST_RETRIES = 4,
    LEAST_SAMPLES = 5,
    COPIES = 3, /* before the calls, and after them */
    TRIP_EVERY = 20
};
enum { SLOW_BYTES = 256 << 10 };
static const double FIRST_LEAD_NS = 3000, MOST_LEAD_NS = 1e6, FAR_US = 0.2;

const char *const bench_distances[] = {"near", "far", "-"};

/* --- calls --- */

static bool say_failure(bench_world *w, const bench_point *p, const char *why)
{
    char line[400];
    snprintf(line, sizeof line, "%s of %llu %s%s%s by %s: %s", rd_kind_name(p->kind),
             (unsigned long long)p->count, rd_type_name(p->type),
             rd_kind_reduces(p->kind) ? ", " : "",
             rd_kind_reduces(p->kind) ? rd_op_name(p->op) : "",
             p->algorithm ? p->algorithm->name : "ronda's choice", why);
    fprintf(stderr, "ronda bench: rank %u: %s\n", ronda_rank(w->comm), line);
    ronda_abort(w->comm, line);
    return false;
}

/* A moment of the clock, by one that all ranks know. */
typedef struct {
    uint64_t origin;
    double from, end; /* us since then */
    bool late;        /* this rank came after the moment at which all were to begin */
} span;

static double since(const span *s)
{
    return (double)(int64_t)(rd_now_ns() - s->origin) / 1e3;
}

/* All ranks begin.  more: rank 0's word whether this one is to be made; origin 0: it is not. */
static ronda_status start_together(bench_world *w, bool more, span *s)
{
    uint64_t word = 0;
    ronda_status status = ronda_barrier(w->comm);
    if (more)
        word = rd_now_ns() + (uint64_t)w->lead_ns;
    if (!status)
        status = ronda_broadcast(w->comm, &word, 1, RONDA_U64, 0);
    if (!status && w->oversubscribed)
        status = ronda_barrier(w->comm);
    *s = (span){.origin = word, .late = !w->oversubscribed && rd_now_ns() > word};
    while (!w->oversubscribed && rd_now_ns() < word)
        ;
    s->from = since(s);
    return status;
}

static bool try_once(bench_world *w, const bench_point *p, const bench_data *d, bool more, span *s)
{
    void **b = w->buffers[p->memory];
    void *send = b[0], *recv = p->in_place ? b[0] : b[1];
    char why[200];
    const uint64_t turn = w->turn++;
    bench_fill(d, p, turn, send, recv);
    ronda_status status = start_together(w, more, s);
    if (!status && !s->origin)
        return true;
    if (!status)
        status = bench_call(w->comm, bench_data_job(d), p, send, recv);
    s->end = since(s);
    if (status)
        return say_failure(w, p, ronda_last_error(w->comm));
    return bench_right(d, p, turn, recv, why, sizeof why) || say_failure(w, p, why);
}

/* --- the machine's own copy --- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, uint32_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n ? v[n / 2] : 0;
}

/* The least value that 99 in 100 of them do not exceed, so never less than the median. */
void bench_sum_up(double *us, uint32_t n, bench_row *row)
{
    row->count = n;
    row->median_us = median(us, n);
    row->min_us = n ? us[0] : 0;
    row->p99_us = n ? us[((uint64_t)n * 99 + 99) / 100 - 1] : 0;
}

/* A copy that is slow for a moment is no limit, and where a call was quicker than all copies, as one that has its
 * bytes in the caches can be, its time is what the machine can do. */
double bench_limit_us(const bench_row *row, double half_trip_us)
{
    return fmin(row->copy_us + half_trip_us, row->min_us);
}

/* All ranks at once, each from memory of its own to memory of its own: the larger of what it gives and what
 * it gets.  The quickest that the slowest rank was, of those before and after the calls. */
static bool measure_copy(bench_world *w, const bench_point *p, const bench_job *j, double *out)
{
    const size_t bytes = (j->gives > j->gets ? j->gives : j->gets) * ronda_type_size(p->type);
    double v[COPIES];
    for (int k = 0; k < COPIES; k++) {
        span s;
        memset(w->buffers[0][0], k, bytes); /* just written, as the collectives' data is */
        if (start_together(w, true, &s))
            return say_failure(w, p, ronda_last_error(w->comm));
        (2 * bytes > RD_STREAMED ? rd_stream : rd_move)(w->buffers[0][1], w->buffers[0][0], bytes);
        v[k] = since(&s) - s.from;
    }
    if (ronda_allreduce(w->comm, v, v, COPIES, RONDA_F64, RONDA_MAX))
        return say_failure(w, p, ronda_last_error(w->comm));
    for (int k = 0; k < COPIES; k++)
        *out = p->bytes && (*out == 0 || v[k] < *out) ? v[k] : *out;
    return true;
}

/* --- a point --- */

static void more_lead(bench_world *w)
{
    if (w->lead_ns < MOST_LEAD_NS)
        w->lead_ns *= 2;
}

/* Samples until rank 0 says that it is enough; how many, or -1. */
static int sample(bench_world *w, const bench_point *p, const bench_data *d)
{
    const uint64_t end = rd_now_ns() + (uint64_t)(w->request->seconds * 1e9);
    const uint32_t rank = ronda_rank(w->comm);
    double trip = 0;
    for (int k = 0;; k++) {
        span s;
        const bool more =
            k < BENCH_MOST_SAMPLES && (k < LEAST_SAMPLES || rd_now_ns() < end) && rank == 0;
        if (k % TRIP_EVERY == 0 || p->bytes >= SLOW_BYTES)
            trip = w->line && rank < 2 ? bench_round_trip_us(w->line, rank) : 0;
        if (!try_once(w, p, d, more, &s))
            return -1;
        if (!s.origin)
            return k;
        w->us[k] = s.end;
        w->before[k] = -s.from;
        w->alone[k] = s.end - s.from;
        w->late[k] = s.late;
        w->trips[k] = trip;
    }
}

/* Ranks that were late make the lead longer before the samples begin.  All see the same and go on alike. */
static bool warm_up(bench_world *w, const bench_point *p, const bench_data *d)
{
    for (int k = 0, tries = 0; k < WARM_UPS; tries++) {
        span s;
        if (!try_once(w, p, d, ronda_rank(w->comm) == 0, &s))
            return false;
        int32_t late = s.late;
        if (ronda_allreduce(w->comm, &late, &late, 1, RONDA_I32, RONDA_MAX))
            return say_failure(w, p, ronda_last_error(w->comm));
        if (late)
            more_lead(w);
        if (!late || tries >= MOST_TRIES)
            k++;
    }
    return true;
}

/* From what each rank saw to what all of them did: the last end less the first begin, or, where a rank
 * came late, the longest that any of them took.  How many nobody was late for; -1: it failed. */
static int put_together(bench_world *w, const bench_point *p, int taken)
{
    double *const all[] = {w->us, w->before, w->alone, w->late};
    int on_time = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all && taken; i++)
        if (ronda_allreduce(w->comm, all[i], all[i], (size_t)taken, RONDA_F64, RONDA_MAX)) {
            say_failure(w, p, ronda_last_error(w->comm));
            return -1;
        }
    for (int k = 0; k < taken; k++) {
        w->us[k] = w->late[k] > 0 ? w->alone[k] : w->us[k] + w->before[k];
        on_time += !(w->late[k] > 0);
    }
    return on_time;
}

/* Samples of which enough were on time; if that cannot be had, all count. */
static int sample_well(bench_world *w, const bench_point *p, const bench_data *d)
{
    for (int tries = 0;; tries++) {
        const int taken = sample(w, p, d);
        const int on_time = taken < 0 ? -1 : put_together(w, p, taken);
        if (on_time < 0)
            return -1;
        const bool enough = on_time >= LEAST_SAMPLES;
        for (int k = 0; k < taken && !enough; k++)
            w->late[k] = 0;
        if (enough || tries == MOST_RETRIES)
            return taken;
        more_lead(w);
        more_lead(w);
    }
}

static const char *algorithm_that_ran(const bench_world *w, const bench_point *p)
{
    const bool counted = rd_kind(p->kind)->counted; /* those are looked for by kind and type */
    for (const rd_prepared *of = w->comm->prepared.newest; of; of = of->older)
        if (of->call.kind == p->kind && of->call.type == p->type &&
            (of->call.count == p->count || counted || p->kind == RONDA_BARRIER))
            return rd_algorithms[of->algorithm].name;
    return "?";
}

static bool add_row(bench_rows *rows, const bench_row *row)
{
    if (rows->count == rows->capacity) {
        const uint32_t more = rows->capacity ? 2 * rows->capacity : 64;
        bench_row *all = realloc(rows->rows, more * sizeof *all);
        if (!all)
            return false;
        rows->rows = all;
        rows->capacity = more;
    }
    rows->rows[rows->count++] = *row;
    return true;
}

/* The samples that were taken at one distance. */
static bool add_distance(bench_world *w, const bench_point *p, int distance, int taken,
                         double copy_us, bench_rows *rows)
{
    double *v = malloc((size_t)taken * 2 * sizeof *v), *trips = v + taken;
    uint32_t n = 0;
    if (!v)
        return say_failure(w, p, "no memory");
    for (int k = 0; k < taken; k++) {
        const int is = !w->line || w->oversubscribed ? BENCH_UNKNOWN
                       : w->trips[k] > FAR_US        ? BENCH_FAR
                                                     : BENCH_NEAR;
        if (is == distance && !(w->late[k] > 0)) {
            v[n] = w->us[k];
            trips[n++] = w->trips[k];
        }
    }
    bench_row row = {.point = *p,
                     .algorithm = algorithm_that_ran(w, p),
                     .distance = distance,
                     .copy_us = copy_us};
    if (n && w->request->samples && (row.samples = malloc(n * sizeof *row.samples)))
        for (uint32_t i = 0; i < n; i++)
            row.samples[i] = (float)v[i];
    bench_sum_up(v, n, &row);
    row.round_trip_us = median(trips, n);
    /* Alone no message is awaited, and in place there is nothing to do, so nothing to set beside it */
    if (n && (w->line || (ronda_size(w->comm) == 1 && !p->in_place)))
        row.limit_us = bench_limit_us(&row, trips[0] / 2);
    free(v);
    return n == 0 || add_row(rows, &row) || say_failure(w, p, "no memory");
}

bool bench_measure(bench_world *w, const bench_point *p, bench_rows *rows)
{
    const uint32_t rank = ronda_rank(w->comm);
    double copy_us = 0;
    bench_data *d = bench_data_open(p, rank, ronda_size(w->comm));
    if (!d)
        return say_failure(w, p, "no memory");
    const rd_algorithm *told = w->comm->forced[rd_kind_row(p->kind)]; /* by RONDA_ALGO */
    w->lead_ns = FIRST_LEAD_NS;
    if (p->algorithm)
        w->comm->forced[rd_kind_row(p->kind)] = p->algorithm;
    rd_prepared_free(&w->comm->prepared);
    int taken = -1;
    if (warm_up(w, p, d) && measure_copy(w, p, bench_data_job(d), &copy_us))
        taken = sample_well(w, p, d);
    if (taken >= 0 && !measure_copy(w, p, bench_data_job(d), &copy_us))
        taken = -1;
    bench_data_close(d);
    w->comm->forced[rd_kind_row(p->kind)] = told;
    if (taken < 0)
        return false;
    bool ok = true;
    for (int distance = 0; distance < BENCH_DISTANCES && ok && rank == 0; distance++)
        ok = add_distance(w, p, distance, taken, copy_us, rows);
    return ok;
}
