/* bench_algorithms.c: every row of the table beside every other, and which one would be chosen.
 *
 *     bench_algorithms [--quick] [-n RANKS] [--max BYTES]
 *
 * Per collective and size: microseconds (median of the slowest rank) of each algorithm; the one that
 * the library chooses by itself is marked with *, the fastest is named at the end of the line with
 * what the choice loses against it. */
#include "base/names.h"
#include "plan/choose.h"
#include "ranks.h"

static ronda_kind kind; /* what the ranks call */
static size_t elements; /* with this count */

static void prepare(worker *w)
{
    for (size_t i = 0; i < w->b->count; i++)
        w->x[i] = (float)(w->rank + i % 61);
}

static ronda_status call(worker *w)
{
    switch (kind) {
    case RONDA_ALLREDUCE:
        return ronda_allreduce(w->comm, w->x, w->x, elements, RONDA_F32, RONDA_SUM);
    case RONDA_BROADCAST:
        return ronda_broadcast(w->comm, w->x, elements, RONDA_F32, 0);
    case RONDA_ALLGATHER:
        return ronda_allgather(w->comm, w->x, w->y, elements, RONDA_F32);
    case RONDA_REDUCE_SCATTER:
        return ronda_reduce_scatter(w->comm, w->x, w->y, elements, RONDA_F32, RONDA_SUM);
    default:
        return ronda_barrier(w->comm);
    }
}

/* Bytes are those of all blocks together. */
static bool in_blocks(ronda_kind k)
{
    return k == RONDA_ALLGATHER || k == RONDA_REDUCE_SCATTER;
}

static double measure(uint32_t n, const rd_algorithm *a, size_t bytes, double seconds)
{
    char force[64];
    snprintf(force, sizeof force, "%s=%s", rd_kind_name(a->kind), a->name);
    setenv("RONDA_ALGO", force, 1);
    kind = a->kind;
    const bool blocks = in_blocks(kind);
    elements = blocks ? bytes / 4 / n : bytes / 4;
    bench b = {.ranks = n,
               .count = blocks ? elements * n : elements,
               .seconds = seconds,
               .prepare = prepare,
               .call = call};
    const double us = run_bench(&b);
    unsetenv("RONDA_ALGO");
    return us;
}

static const rd_algorithm *chosen(uint32_t n, ronda_kind of, uint64_t count)
{
    const rd_facts facts = rd_facts_local(rd_usable_cpus());
    const rd_shape shape = {
        .kind = of, .size = n, .width = of == RONDA_BARRIER ? 1 : 4, .count = count};
    return rd_choose(&shape, &facts, NULL, NULL);
}

static void show_size(uint32_t n, ronda_kind of, size_t bytes, double seconds)
{
    const rd_algorithm *best = NULL;
    const bool blocks = in_blocks(of);
    const rd_algorithm *pick = chosen(n, of,
                                      of == RONDA_BARRIER ? 1
                                      : blocks            ? bytes / 4 / n
                                                          : bytes / 4);
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

int main(int argc, char **argv)
{
    static const ronda_kind kinds[] = {RONDA_ALLREDUCE, RONDA_BROADCAST, RONDA_ALLGATHER,
                                       RONDA_REDUCE_SCATTER, RONDA_BARRIER};
    double seconds = 0.1;
    size_t max = 16u << 20;
    uint32_t n = 4;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            seconds = 0.02;
            max = 1u << 20;
        } else if (strcmp(argv[i], "-n") == 0 && i + 1 < argc) {
            n = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--max") == 0 && i + 1 < argc) {
            max = strtoul(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "bench_algorithms: takes --quick, -n RANKS and --max BYTES\n");
            return 2;
        }
    }
    if (n == 0 || n > MOST_RANKS)
        die("-n is 1 to 64");
    printf("algorithms, %u ranks on %u cores, microseconds; * is what ronda chooses\n", n,
           rd_usable_cpus());
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        printf("%s\n", rd_kind_name(kinds[k]));
        for (size_t bytes = in_blocks(kinds[k]) ? 4 * (size_t)n : 8; bytes <= max; bytes *= 8) {
            show_size(n, kinds[k], bytes, seconds);
            if (kinds[k] == RONDA_BARRIER)
                break;
        }
    }
    return 0;
}
