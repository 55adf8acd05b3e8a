/* mpi_bench.c: what `ronda bench` does, by an MPI, whichever it was compiled for.
 *
 *     mpi_bench NAME COLLECTIVES SIZES SECONDS       mpi_bench openmpi allreduce,barrier 8,1024 0.2
 *
 * The same work in the same way: buffers are written anew before every timed call, ranks 0 and 1 throw
 * a cache line every now and then to tell near from far, all ranks start at one moment of the clock (leaving a barrier, if
 * there are more ranks than cores), a sample ends with the slowest rank, results are checked.  Prints lines of
 * NAME,collective,bytes,distance,samples,median_us. */
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 2000, LEAST = 5, WARM_UPS = 3, PERIOD = 61, TRIPS = 64, SETS = 3 };
static const double FAR_US = 0.2, FIRST_LEAD_US = 3;

static int rank, ranks, crowded;
static double lead_us = 3;
static struct {
    _Alignas(128) _Atomic uint64_t ball;
} * sides;
static uint64_t thrown;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* --- data: element i of rank r in call t is (r + (i + 7 t) % 61) % 4 --- */

static float number(int of, uint64_t i)
{
    return (float)(((uint64_t)of + i % PERIOD) % 4);
}

static void fill(float *x, uint64_t count, uint64_t turn)
{
    for (uint64_t i = 0; i < count; i++)
        x[i] = number(rank, i + 7 * turn);
}

static float sum(uint64_t i)
{
    float s = 0;
    for (int r = 0; r < ranks; r++)
        s += number(r, i);
    return s;
}

/* --- calls --- */

typedef struct {
    const char *name;
    int blocks; /* bytes are those of all ranks' blocks together */
} collective;

static const collective collectives[] = {
    {"allreduce", 0}, {"broadcast", 0}, {"allgather", 1}, {"reduce_scatter", 1}, {"barrier", 0}};

static void call(int kind, float *x, float *y, int count)
{
    if (kind == 0)
        MPI_Allreduce(MPI_IN_PLACE, x, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (kind == 1)
        MPI_Bcast(x, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else if (kind == 2)
        MPI_Allgather(x, count, MPI_FLOAT, y, count, MPI_FLOAT, MPI_COMM_WORLD);
    else if (kind == 3)
        MPI_Reduce_scatter_block(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Barrier(MPI_COMM_WORLD);
}

static float wanted(int kind, uint64_t i, int count, uint64_t turn, const float *sums)
{
    const uint64_t shift = 7 * turn, n = (uint64_t)count;
    if (kind == 1)
        return number(0, i + shift);
    if (kind == 2)
        return number((int)(i / n), i % n + shift);
    if (kind == 3)
        return sums[(i + (uint64_t)rank * n + shift) % PERIOD];
    return sums[(i + shift) % PERIOD];
}

static void check(int kind, const float *x, const float *y, int count, uint64_t turn)
{
    const float *got = kind == 2 || kind == 3 ? y : x;
    const uint64_t n = kind == 4 ? 0 : (uint64_t)count * (uint64_t)(kind == 2 ? ranks : 1);
    float sums[PERIOD];
    for (uint64_t j = 0; j < PERIOD; j++)
        sums[j] = sum(j);
    for (uint64_t i = 0; i < n; i++)
        if (got[i] != wanted(kind, i, count, turn, sums)) {
            fprintf(stderr, "mpi_bench: %s: rank %d: element %llu is wrong\n",
                    collectives[kind].name, rank, (unsigned long long)i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

/* --- time --- */

static double round_trip(void)
{
    double least = 0;
    for (int k = 0; k < SETS && sides && rank < 2; k++) {
        const double from = now_us();
        for (int i = 0; i < TRIPS; i++) {
            const uint64_t ball = ++thrown;
            if (rank == 0)
                atomic_store_explicit(&sides[0].ball, ball, memory_order_release);
            while (atomic_load_explicit(&sides[1 - rank].ball, memory_order_acquire) < ball)
                relax();
            if (rank == 1)
                atomic_store_explicit(&sides[1].ball, ball, memory_order_release);
        }
        const double us = (now_us() - from) / TRIPS;
        least = k == 0 || us < least ? us : least;
    }
    return least;
}

/* The moment at which all begin; 0: rank 0 says that it is enough.  *late: this rank came after it. */
static double start_together(int more, int *late)
{
    double word = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (more)
        word = now_us() + lead_us;
    MPI_Bcast(&word, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (word != 0 && crowded)
        MPI_Barrier(MPI_COMM_WORLD);
    *late = !crowded && now_us() > word;
    while (!crowded && now_us() < word)
        ;
    return word;
}

/* *begin: when this rank began; the result: when it was done; both since the moment named. */
static double once(int kind, float *x, float *y, int count, int more, int *go, double *begin)
{
    static uint64_t turn;
    const uint64_t t = turn++;
    int late;
    if (kind != 4)
        fill(x, (uint64_t)count * (uint64_t)(kind == 3 ? ranks : 1), t);
    const double origin = start_together(more, &late);
    *go = origin != 0;
    if (!*go)
        return 0;
    *begin = now_us() - origin;
    call(kind, x, y, count);
    const double end = now_us() - origin;
    check(kind, x, y, count, t);
    return late ? INFINITY : end;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void show(const char *name, int kind, uint64_t bytes, const double *us, const double *trips,
                 int taken)
{
    static const char *const distances[] = {"near", "far", "-"};
    static double v[MOST];
    for (int d = 0; d < 3; d++) {
        int n = 0;
        for (int k = 0; k < taken; k++)
            if (!isinf(us[k]) && d == (!sides ? 2 : trips[k] > FAR_US))
                v[n++] = us[k];
        qsort(v, (size_t)n, sizeof *v, by_value);
        if (n)
            printf("%s,%s,%llu,%s,%d,%.4f\n", name, collectives[kind].name,
                   (unsigned long long)bytes, distances[d], n, v[n / 2]);
    }
    fflush(stdout);
}

static void measure(const char *name, int kind, uint64_t bytes, double seconds, float *x, float *y)
{
    static double us[MOST], before[MOST], trips[MOST];
    double begin = 0, trip = 0;
    const uint64_t unit = 4 * (uint64_t)(collectives[kind].blocks ? ranks : 1);
    const int count = kind == 4 ? 1 : (int)(bytes / unit ? bytes / unit : 1);
    int taken = 0, go = 1;
    lead_us = FIRST_LEAD_US;
    for (int k = 0, tries = 0; k < WARM_UPS; tries++) {
        double t = once(kind, x, y, count, rank == 0, &go, &begin);
        MPI_Allreduce(MPI_IN_PLACE, &t, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (isinf(t) && tries < 20)
            lead_us *= 2;
        else
            k++;
    }
    const double end = now_us() + seconds * 1e6;
    for (;; taken++) {
        const int more = rank == 0 && taken < MOST && (taken < LEAST || now_us() < end);
        if (taken % 20 == 0 || bytes >= 256 << 10)
            trip = round_trip();
        const double t = once(kind, x, y, count, more, &go, &begin);
        if (!go)
            break;
        us[taken] = t;
        before[taken] = -begin;
        trips[taken] = trip;
    }
    MPI_Allreduce(MPI_IN_PLACE, us, taken, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, before, taken, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int k = 0; k < taken; k++)
        us[k] += before[k]; /* the last end less the first begin */
    if (rank == 0)
        show(name, kind, kind == 4 ? 0 : (uint64_t)count * unit, us, trips, taken);
}

/* A page that ranks share, by MPI's own means. */
static void open_sides(void)
{
    MPI_Win window;
    MPI_Aint bytes;
    int unit;
    void *page;
    crowded = ranks > sysconf(_SC_NPROCESSORS_ONLN);
    MPI_Win_allocate_shared(rank == 0 ? 4096 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &page, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &page);
    if (ranks > 1 && !crowded)
        sides = page;
    if (rank == 0)
        memset(page, 0, 4096);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 5) {
        fprintf(stderr, "mpi_bench: NAME COLLECTIVES SIZES SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    uint64_t sizes[64], most = 0;
    int count = 0;
    for (char *s = strtok(argv[3], ","); s && count < 64; s = strtok(NULL, ","), count++) {
        sizes[count] = strtoull(s, NULL, 10);
        most = sizes[count] > most ? sizes[count] : most;
    }
    const size_t room = (most + 4096 + 4 * (size_t)ranks) & ~(size_t)4095;
    float *x = aligned_alloc(4096, room), *y = aligned_alloc(4096, room);
    memset(x, 0, room);
    memset(y, 0, room);
    open_sides();
    for (int kind = 0; kind < 5; kind++)
        for (int i = 0; i < (kind == 4 ? 1 : count) && strstr(argv[2], collectives[kind].name); i++)
            measure(argv[1], kind, sizes[i], atof(argv[4]), x, y);
    free(x);
    free(y);
    MPI_Finalize();
    return 0;
}
