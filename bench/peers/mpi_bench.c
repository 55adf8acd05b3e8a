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

/* By copies of a tile, as ronda's: how quickly data was written shows in how quickly it is read. */
static void fill(float *x, uint64_t count, uint64_t turn)
{
    enum { TIMES = 64, TILE = PERIOD * TIMES };
    static float tile[TILE];
    for (uint64_t i = 0; i < TILE && !turn; i++)
        tile[i] = number(rank, i);
    for (uint64_t at = 0, some; at < count; at += some) {
        some = count - at < TILE - PERIOD ? count - at : TILE - PERIOD;
        memcpy(x + at, tile + 7 * turn % PERIOD, some * sizeof *x);
    }
}

/* Of ranks 0 .. end-1. */
static float sum(int end, uint64_t i)
{
    float s = 0;
    for (int r = 0; r < end; r++)
        s += number(r, i);
    return s;
}

/* --- calls --- */

typedef enum {
    ALLREDUCE,
    BROADCAST,
    ALLGATHER,
    REDUCE_SCATTER,
    REDUCE,
    ALLTOALL,
    GATHER,
    SCATTER,
    SCAN,
    BARRIER,
    KINDS
} kinds;

/* In blocks: gives or gets one for each rank, and bytes are those of all of them together. */
typedef struct {
    const char *name;
    int gives_blocks, gets_blocks;
    int in_place;              /* the result is in x */
    int root_gives, root_gets; /* only rank 0 does */
} collective;

static const collective collectives[KINDS] = {
    [ALLREDUCE] = {"allreduce", .in_place = 1},
    [BROADCAST] = {"broadcast", .in_place = 1},
    [ALLGATHER] = {"allgather", .gets_blocks = 1},
    [REDUCE_SCATTER] = {"reduce_scatter", .gives_blocks = 1},
    [REDUCE] = {"reduce", .in_place = 1, .root_gets = 1},
    [ALLTOALL] = {"alltoall", 1, 1},
    [GATHER] = {"gather", .gets_blocks = 1, .root_gets = 1},
    [SCATTER] = {"scatter", .gives_blocks = 1, .root_gives = 1},
    [SCAN] = {"scan", .in_place = 1},
    [BARRIER] = {"barrier"}};

static int in_blocks(int kind)
{
    return collectives[kind].gives_blocks || collectives[kind].gets_blocks;
}

/* Elements that this rank writes before the call, and gets by it. */
static uint64_t gives(int kind, int count)
{
    const collective *c = &collectives[kind];
    if (kind == BARRIER || (c->root_gives && rank))
        return 0;
    return (uint64_t)count * (uint64_t)(c->gives_blocks ? ranks : 1);
}

static uint64_t gets(int kind, int count)
{
    const collective *c = &collectives[kind];
    if (kind == BARRIER || (c->root_gets && rank))
        return 0;
    return (uint64_t)count * (uint64_t)(c->gets_blocks ? ranks : 1);
}

static void call(int kind, float *x, float *y, int count)
{
    const MPI_Comm all = MPI_COMM_WORLD;
    switch (kind) {
    case ALLREDUCE:
        MPI_Allreduce(MPI_IN_PLACE, x, count, MPI_FLOAT, MPI_SUM, all);
        break;
    case BROADCAST:
        MPI_Bcast(x, count, MPI_FLOAT, 0, all);
        break;
    case ALLGATHER:
        MPI_Allgather(x, count, MPI_FLOAT, y, count, MPI_FLOAT, all);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(x, y, count, MPI_FLOAT, MPI_SUM, all);
        break;
    case REDUCE:
        MPI_Reduce(rank ? x : MPI_IN_PLACE, rank ? NULL : x, count, MPI_FLOAT, MPI_SUM, 0, all);
        break;
    case ALLTOALL:
        MPI_Alltoall(x, count, MPI_FLOAT, y, count, MPI_FLOAT, all);
        break;
    case GATHER:
        MPI_Gather(x, count, MPI_FLOAT, y, count, MPI_FLOAT, 0, all);
        break;
    case SCATTER:
        MPI_Scatter(x, count, MPI_FLOAT, y, count, MPI_FLOAT, 0, all);
        break;
    case SCAN:
        MPI_Scan(MPI_IN_PLACE, x, count, MPI_FLOAT, MPI_SUM, all);
        break;
    default:
        MPI_Barrier(all);
    }
}

/* Element i of what this rank gets; what a rank has for it begins with element `own` where it gives blocks. */
static float wanted(int kind, uint64_t i, int count, uint64_t turn, const float *sums)
{
    const uint64_t shift = 7 * turn, n = (uint64_t)count;
    const uint64_t own = collectives[kind].gives_blocks ? (uint64_t)rank * n : 0;
    if (kind == BROADCAST || kind == SCATTER)
        return number(0, own + i + shift);
    if (collectives[kind].gets_blocks)
        return number((int)(i / n), own + i % n + shift);
    return sums[(own + i + shift) % PERIOD];
}

static void check(int kind, const float *x, const float *y, int count, uint64_t turn)
{
    const float *got = collectives[kind].in_place ? x : y;
    const uint64_t n = gets(kind, count);
    float sums[PERIOD];
    for (uint64_t j = 0; j < PERIOD; j++)
        sums[j] = sum(kind == SCAN ? rank + 1 : ranks, j);
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
    fill(x, gives(kind, count), t);
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
    const uint64_t unit = 4 * (uint64_t)(in_blocks(kind) ? ranks : 1);
    const int count = kind == BARRIER ? 1 : (int)(bytes / unit ? bytes / unit : 1);
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
        show(name, kind, kind == BARRIER ? 0 : (uint64_t)count * unit, us, trips, taken);
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

/* Is it one of the names between commas? */
static int named(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ','))
            return 1;
    return 0;
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
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < (kind == BARRIER ? 1 : count) && named(argv[2], collectives[kind].name);
             i++)
            measure(argv[1], kind, sizes[i], atof(argv[4]), x, y);
    free(x);
    free(y);
    return MPI_Finalize() != 0;
}
