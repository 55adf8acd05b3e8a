/* ranks.h: ranks as threads for the benches, with a barrier of their own, and medians. */
#ifndef RD_BENCH_RANKS_H
#define RD_BENCH_RANKS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "ronda.h"

enum { MOST_RANKS = 64, SAMPLES = 4000 };

static inline int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n ? v[n / 2] : 0;
}

static inline void die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static inline void *memory(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 4096) & ~(size_t)4095);
    if (!p)
        die("no memory");
    memset(p, 0, bytes);
    return p;
}

/* To the so-many-th core that this process may use. */
static inline void pin(uint32_t core)
{
    cpu_set_t usable, set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof usable, &usable))
        die("no affinity");
    for (uint32_t cpu = 0, nth = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &usable) && nth++ == core)
            CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        die("cannot stay on a core");
}

/* One measurement: every rank calls `call` again and again; ranks meet, untimed, before each call. */
typedef struct bench bench;
typedef struct {
    bench *b;
    uint32_t rank;
    ronda_comm *comm;
    float *x, *y; /* [count], [count] */
} worker;

struct bench {
    uint32_t ranks;
    size_t count;               /* of the workers' buffers */
    double seconds;             /* how long, at most SAMPLES calls */
    bool spins;                 /* a core for every rank */
    void (*prepare)(worker *w); /* before each call, untimed */
    ronda_status (*call)(worker *w);
    void (*after)(worker *w, int sample); /* untimed; sample < 0: warm-up */
    void *context;
    double *begins[MOST_RANKS], *ends[MOST_RANKS]; /* of each call, us */
    int taken;                                     /* samples */
    double round_trip_ns; /* of a cache line between ranks 0 and 1, if spins */
    _Alignas(128) _Atomic uint32_t arrived;
    _Alignas(128) _Atomic uint32_t turn;
    _Alignas(128) _Atomic uint64_t start_ns;
    _Alignas(128) _Atomic uint64_t ping;
    _Alignas(128) _Atomic uint64_t pong;
};

static inline void meet(bench *b)
{
    const uint32_t turn = atomic_load(&b->turn);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == b->ranks) {
        atomic_store(&b->arrived, 0);
        atomic_store(&b->turn, turn + 1);
        return;
    }
    while (atomic_load(&b->turn) == turn) {
        if (b->spins)
            rd_relax();
        else
            sched_yield();
    }
}

/* Everybody starts at one moment of the clock.  Leaving a meeting takes as long as a cache line needs
 * from core to core, which is as long as a small collective: it must not be measured as part of one. */
static inline uint64_t start_together(bench *b, uint32_t rank)
{
    enum { SOON_NS = 2000 };
    uint64_t now;
    if (!b->spins) {
        meet(b);
        return rd_now_ns();
    }
    if (rank == 0)
        atomic_store(&b->start_ns, rd_now_ns() + SOON_NS);
    meet(b);
    const uint64_t start = atomic_load(&b->start_ns);
    while ((now = rd_now_ns()) < start)
        rd_relax();
    return now;
}

static inline void round_trip(bench *b, uint32_t rank)
{
    enum { TRIPS = 20000 };
    meet(b);
    const uint64_t from = rd_now_ns();
    _Atomic uint64_t *mine = rank ? &b->pong : &b->ping, *theirs = rank ? &b->ping : &b->pong;
    for (uint64_t i = 1; i <= TRIPS && rank < 2; i++) {
        if (rank == 0)
            atomic_store_explicit(mine, i, memory_order_release);
        while (atomic_load_explicit(theirs, memory_order_acquire) != i)
            rd_relax();
        if (rank == 1)
            atomic_store_explicit(mine, i, memory_order_release);
    }
    if (rank == 0)
        b->round_trip_ns = (double)(rd_now_ns() - from) / TRIPS;
    meet(b);
}

static inline void *bench_work(void *argument)
{
    worker *w = argument;
    bench *b = w->b;
    const int warm = b->count > 1000000 ? 3 : 20;
    w->x = memory(b->count * sizeof *w->x);
    w->y = memory(b->count * sizeof *w->y);
    if (b->spins) {
        pin(w->rank);
        if (b->ranks > 1)
            round_trip(b, w->rank);
    }
    const uint64_t end = rd_now_ns() + (uint64_t)(b->seconds * 1e9);
    for (int k = -warm; k < SAMPLES; k++) {
        if (b->prepare)
            b->prepare(w);
        const uint64_t from = start_together(b, w->rank);
        if (b->call(w))
            die(ronda_last_error(w->comm));
        if (k >= 0) {
            b->begins[w->rank][k] = (double)from / 1e3;
            b->ends[w->rank][k] = (double)rd_now_ns() / 1e3;
        }
        if (b->after)
            b->after(w, k);
        if (w->rank == 0 && k >= 0 && (k + 1 == SAMPLES || (k >= 4 && rd_now_ns() > end)))
            b->taken = k + 1;
        meet(b);
        if (b->taken)
            break;
    }
    free(w->x);
    free(w->y);
    ronda_close(w->comm);
    return NULL;
}

/* Runs it; the median, in microseconds, of the time from the first rank's begin to the last one's end. */
static inline double run_bench(bench *b)
{
    pthread_t threads[MOST_RANKS];
    worker workers[MOST_RANKS];
    ronda_comm *comms[MOST_RANKS];
    static double v[SAMPLES];

    b->spins = b->ranks <= rd_usable_cpus();
    if (ronda_init_local(b->ranks, comms))
        die(ronda_last_error(NULL));
    for (uint32_t r = 0; r < b->ranks; r++)
        b->begins[r] = memory(2 * SAMPLES * sizeof(double)), b->ends[r] = b->begins[r] + SAMPLES;
    for (uint32_t r = 0; r < b->ranks; r++) {
        workers[r] = (worker){.b = b, .rank = r, .comm = comms[r]};
        if (pthread_create(&threads[r], NULL, bench_work, &workers[r]))
            die("no thread");
    }
    for (uint32_t r = 0; r < b->ranks; r++)
        pthread_join(threads[r], NULL);
    for (int k = 0; k < b->taken; k++) {
        double begin = b->begins[0][k], end = b->ends[0][k];
        for (uint32_t r = 1; r < b->ranks; r++) {
            begin = b->begins[r][k] < begin ? b->begins[r][k] : begin;
            end = b->ends[r][k] > end ? b->ends[r][k] : end;
        }
        v[k] = end - begin;
    }
    for (uint32_t r = 0; r < b->ranks; r++)
        free(b->begins[r]);
    return median(v, b->taken);
}

#endif
