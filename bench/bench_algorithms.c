/* bench_algorithms.c: every row of the table beside every other, and which one would be chosen.
 *
 *     bench_algorithms [--quick] [-n RANKS] [--max BYTES] [-c COLLECTIVE]
 *
 * Per collective and size: microseconds (median of the slowest rank) of each algorithm; the one that
 * the library chooses by itself is marked with *, the fastest is named at the end of the line with
 * what the choice loses against it.  Calls, data and ragged blocks are those of `ronda bench`, bytes are
 * those of the largest buffer, and every result is checked, untimed. */
#include "../cli/bench.h"
#include "plan/choose.h"
#include "ranks.h"
#include "transport/transports.h"

static bench_point point; /* what the ranks call */
static struct {
    bench_data *data;
    uint64_t turn;
} parts[MOST_RANKS];

static float *result(worker *w)
{
    return point.in_place ? w->x : w->y;
}

static void prepare(worker *w)
{
    bench_fill(parts[w->rank].data, &point, ++parts[w->rank].turn, w->x, result(w));
}

static ronda_status call(worker *w)
{
    return bench_call(w->comm, bench_data_job(parts[w->rank].data), &point, w->x, result(w));
}

static void check(worker *w, int sample)
{
    char why[200], line[300];
    (void)sample;
    if (bench_right(parts[w->rank].data, &point, parts[w->rank].turn, result(w), why, sizeof why))
        return;
    snprintf(line, sizeof line, "%s: rank %u: %s", rd_kind_name(point.kind), w->rank, why);
    die(line);
}

/* As large as the bytes allow. */
static bench_point point_of(ronda_kind kind, uint32_t n, size_t bytes)
{
    const bool barrier = kind == RONDA_BARRIER;
    return (bench_point){.kind = kind,
                         .type = barrier ? RONDA_U8 : RONDA_F32,
                         .op = RONDA_SUM,
                         .count = barrier                 ? 1
                                  : bench_in_blocks(kind) ? bytes / 4 / n
                                                          : bytes / 4,
                         .in_place = bench_in_place(kind, false)};
}

static double measure(uint32_t n, const rd_algorithm *a, size_t bytes, double seconds)
{
    char force[64];
    snprintf(force, sizeof force, "%s=%s", rd_kind_name(a->kind), a->name);
    setenv("RONDA_ALGO", force, 1);
    point = point_of(a->kind, n, bytes);
    for (uint32_t r = 0; r < n; r++)
        if (!(parts[r].data = bench_data_open(&point, r, n)))
            die("no memory");
    bench b = {.ranks = n,
               .count = bytes / 4,
               .seconds = seconds,
               .prepare = prepare,
               .call = call,
               .after = check};
    const double us = run_bench(&b);
    for (uint32_t r = 0; r < n; r++)
        bench_data_close(parts[r].data);
    unsetenv("RONDA_ALGO");
    return us;
}

/* By rank 0's shape, as the library makes it of the call. */
static const rd_algorithm *chosen(uint32_t n, ronda_kind of, size_t bytes)
{
    const rd_facts facts = rd_facts_of(&rd_local, rd_usable_cpus());
    const rd_kind_facts *k = rd_kind(of);
    const bench_point p = point_of(of, n, bytes);
    uint64_t starts[2][MOST_RANKS + 1] = {{0}};
    bench_job job;
    rd_shape shape = {
        .kind = of, .size = n, .width = (uint32_t)ronda_type_size(p.type), .count = p.count};
    if (!bench_job_open(&p, 0, n, &job))
        die("no memory");
    for (uint32_t r = 0; r < n && k->counted; r++) {
        starts[0][r + 1] = starts[0][r] + job.counts[r];
        starts[1][r + 1] = starts[1][r] + job.recv_counts[r];
        shape.count = job.counts[r] > shape.count ? job.counts[r] : shape.count;
    }
    if (k->counted && k->gives == RD_BLOCKS)
        shape.starts[0] = starts[0];
    if (k->counted && k->gets == RD_BLOCKS)
        shape.starts[1] = starts[1];
    if (of == RONDA_ALLTOALLV)
        shape.count = 0;
    bench_job_close(&job);
    const rd_shape class = rd_class_of(&shape);
    return rd_choose(&class, &facts, NULL, NULL);
}

static void show_size(uint32_t n, ronda_kind of, size_t bytes, double seconds)
{
    const rd_algorithm *best = NULL;
    const rd_algorithm *pick = chosen(n, of, bytes);
    double best_us = 0, pick_us = 0;

    printf("  %10zu", bytes);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++) {
        if (a->kind != of)
            continue;
        const double us = measure(n, a, bytes, seconds);
        printf("  %s %.2f%s", a->name, us, a == pick ? "*" : "");
        fflush(stdout);
        if (a == pick)
            pick_us = us;
        if (!best || us < best_us) {
            best = a;
            best_us = us;
        }
    }
    printf("  | %s", best->name);
    if (best != pick)
        printf(", choice loses %.0f%%", 100 * (pick_us / best_us - 1));
    printf("\n");
}

static void show_kind(uint32_t n, ronda_kind kind, size_t max, double seconds)
{
    printf("%s\n", rd_kind_name(kind));
    for (size_t bytes = bench_in_blocks(kind) ? 4 * (size_t)n : 8; bytes <= max; bytes *= 8) {
        show_size(n, kind, bytes, seconds);
        if (kind == RONDA_BARRIER)
            break;
    }
}

int main(int argc, char **argv)
{
    double seconds = 0.1;
    size_t max = 16u << 20;
    uint32_t n = 4;
    ronda_kind one = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            seconds = 0.02;
            max = 1u << 20;
        } else if (strcmp(argv[i], "-n") == 0 && i + 1 < argc) {
            n = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--max") == 0 && i + 1 < argc) {
            max = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "-c") == 0 && i + 1 < argc) {
            if (!(one = rd_kind_named(argv[++i])))
                die("-c: there is no such collective");
        } else {
            fprintf(stderr, "bench_algorithms: takes --quick, -n RANKS, --max BYTES and -c NAME\n");
            return 2;
        }
    }
    if (n == 0 || n > MOST_RANKS)
        die("-n is 1 to 64");
    printf("algorithms, %u ranks on %u cores, microseconds; * is what ronda chooses\n", n,
           rd_usable_cpus());
    for (ronda_kind k = one ? one : RONDA_ALLREDUCE; k <= (one ? one : RONDA_BARRIER); k++)
        show_kind(n, k, max, seconds);
    return 0;
}
