/* demo.c: four ranks, as threads of this process, run five collectives and check every element.
 *
 * Elements are small whole numbers that depend on rank and index, so sums are exact in f32 and a
 * block in the wrong place shows.  A line of the table is the best of some runs, as the slowest
 * rank saw it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ronda.h"

enum { RANKS = 4, RUNS = 5, COUNT = 1 << 20, ROOT = 2 };

typedef struct {
    ronda_comm *comm;
    float *send, *recv;
    unsigned barriers; /* that this rank has left */
    bool early;        /* it left one before every rank had come */
} rank_data;

typedef struct {
    const char *name;
    size_t elements; /* that each rank gets */
    ronda_status (*run)(rank_data *d);
    float (*expected)(uint32_t rank, size_t i); /* element i of recv on this rank; NULL: no data */
} collective;

/* What rank r puts at index i. */
static float element(uint32_t r, size_t i)
{
    return (float)(r * 1000 + i % 1000);
}

static float sum_at(size_t i)
{
    float sum = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        sum += element(r, i);
    return sum;
}

/* --- the five --- */

static ronda_status run_allreduce(rank_data *d)
{
    return ronda_allreduce(d->comm, d->send, d->recv, COUNT, RONDA_F32, RONDA_SUM);
}

static float expect_allreduce(uint32_t rank, size_t i)
{
    (void)rank;
    return sum_at(i);
}

static ronda_status run_broadcast(rank_data *d)
{
    float *buffer = ronda_rank(d->comm) == ROOT ? d->send : d->recv;
    return ronda_broadcast(d->comm, buffer, COUNT, RONDA_F32, ROOT);
}

static float expect_broadcast(uint32_t rank, size_t i)
{
    return rank == ROOT ? -1 : element(ROOT, i); /* the root's recv is not part of it */
}

static ronda_status run_allgather(rank_data *d)
{
    return ronda_allgather(d->comm, d->send, d->recv, COUNT / RANKS, RONDA_F32);
}

static float expect_allgather(uint32_t rank, size_t i)
{
    (void)rank;
    return element((uint32_t)(i / (COUNT / RANKS)), i % (COUNT / RANKS));
}

static ronda_status run_reduce_scatter(rank_data *d)
{
    return ronda_reduce_scatter(d->comm, d->send, d->recv, COUNT / RANKS, RONDA_F32, RONDA_SUM);
}

static float expect_reduce_scatter(uint32_t rank, size_t i)
{
    return sum_at(rank * (size_t)(COUNT / RANKS) + i);
}

static atomic_uint barriers_entered; /* by all ranks together */

static ronda_status run_barrier(rank_data *d)
{
    atomic_fetch_add(&barriers_entered, 1);
    ronda_status status = ronda_barrier(d->comm);
    d->barriers++;
    if (atomic_load(&barriers_entered) < d->barriers * RANKS)
        d->early = true;
    return status;
}

static const collective collectives[] = {
    {"allreduce", COUNT, run_allreduce, expect_allreduce},
    {"broadcast", COUNT, run_broadcast, expect_broadcast},
    {"allgather", COUNT, run_allgather, expect_allgather},
    {"reduce_scatter", COUNT / RANKS, run_reduce_scatter, expect_reduce_scatter},
    {"barrier", 0, run_barrier, NULL},
};
enum { COLLECTIVES = sizeof collectives / sizeof collectives[0] };

/* --- ranks --- */

typedef struct {
    ronda_comm *comm;
    pthread_t thread;
    double seconds[COLLECTIVES][RUNS];
    bool right[COLLECTIVES];
} rank_state;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool complain(const ronda_comm *comm)
{
    fprintf(stderr, "%s\n", ronda_last_error(comm));
    return false;
}

/* One collective, RUNS times, each time into a cleared buffer. */
static bool measure(const collective *c, rank_data *d, double seconds[RUNS])
{
    for (int run = 0; run < RUNS; run++) {
        for (size_t i = 0; i < COUNT; i++)
            d->recv[i] = -1;
        if (ronda_barrier(d->comm))
            return complain(d->comm);
        const double start = now();
        if (c->run(d))
            return complain(d->comm);
        seconds[run] = now() - start;
        if (d->early) {
            fprintf(stderr, "rank %u left a barrier too early\n", ronda_rank(d->comm));
            return false;
        }
        for (size_t i = 0; i < c->elements; i++)
            if (d->recv[i] != c->expected(ronda_rank(d->comm), i)) {
                fprintf(stderr, "rank %u: %s: element %zu is %g, not %g\n", ronda_rank(d->comm),
                        c->name, i, (double)d->recv[i],
                        (double)c->expected(ronda_rank(d->comm), i));
                return false;
            }
    }
    return true;
}

static void *rank_main(void *argument)
{
    rank_state *state = argument;
    rank_data d = {.comm = state->comm,
                   .send = malloc(COUNT * sizeof(float)),
                   .recv = malloc(COUNT * sizeof(float))};
    if (!d.send || !d.recv)
        ronda_abort(d.comm, "the demo has no memory for its buffers");
    for (size_t i = 0; d.send && i < COUNT; i++)
        d.send[i] = element(ronda_rank(d.comm), i);
    for (int c = 0; d.send && d.recv && c < COLLECTIVES; c++)
        state->right[c] = measure(&collectives[c], &d, state->seconds[c]);
    if (ronda_close(state->comm))
        state->right[0] = false;
    free(d.send);
    free(d.recv);
    return NULL;
}

/* --- the table --- */

static bool print_line(int c, const rank_state ranks[RANKS])
{
    bool right = true;
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        double slowest = 0;
        for (int r = 0; r < RANKS; r++)
            if (ranks[r].seconds[c][run] > slowest)
                slowest = ranks[r].seconds[c][run];
        if (slowest < best)
            best = slowest;
    }
    for (int r = 0; r < RANKS; r++)
        right = right && ranks[r].right[c];
    printf("%-16s %10zu %9.1f us   %s\n", collectives[c].name, collectives[c].elements, best * 1e6,
           right ? "yes" : "NO");
    return right;
}

int main(void)
{
    static rank_state ranks[RANKS];
    ronda_comm *comms[RANKS];
    if (ronda_init_local(RANKS, comms)) {
        complain(NULL);
        return 1;
    }
    for (int r = 0; r < RANKS; r++) {
        ranks[r].comm = comms[r];
        if (pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r])) {
            fprintf(stderr, "cannot start the thread of rank %d\n", r);
            return 1;
        }
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(ranks[r].thread, NULL);

    const uint32_t version = ronda_version();
    printf("ronda %u.%u.%u, %d ranks as threads of one process, f32\n\n", version / 10000,
           version / 100 % 100, version % 100, RANKS);
    printf("%-16s %10s %12s   %s\n", "collective", "elements", "time", "verified");
    bool right = true;
    for (int c = 0; c < COLLECTIVES; c++)
        right = print_line(c, ranks) && right;
    return right ? 0 : 1;
}
