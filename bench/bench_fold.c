/* bench_fold.c: how fast the arithmetic is, beside what the machine copies at.
 *
 * One row per type, op and number of ins: gigabytes moved a second (bytes read plus bytes written),
 * memcpy's in the same moment, and their ratio.  Two sizes: one that stays in the L2 cache and one
 * that does not fit in any.  With many ins the buffers are smaller, so that all of them together
 * stay as large.  Runs of both alternate, and medians are shown (of the ratios, too), since machines
 * are shared.
 *
 *     bench_fold [--quick] [--set avx2] */
#include "base/clock.h"
#include "base/mem.h"
#include "base/names.h"
#include "engine/fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INS = 16, MAX_RUNS = 31 };

typedef struct {
    const char *name;
    size_t bytes; /* of each buffer where there are two ins and an out */
} size_class;

static const size_class classes[] = {{"256 KiB", 256u << 10}, {"64 MiB", 64u << 20}};

typedef struct {
    const rd_fold_set *set;
    char *memory; /* 3 * the largest class */
    int runs;
    uint64_t run_ns; /* a run repeats until it has taken this long */
} bench;

typedef struct {
    rd_fold_fn *kernel; /* NULL: rd_move */
    size_t width;
    uint32_t ins, divisor;
} work;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/* Buffers lie one after the other, each a little more than a whole number of pages from the next, as
 * buffers of a program do. */
static size_t stride_of(size_t bytes)
{
    return bytes / 4096 * 4096;
}

static void fold_once(const bench *b, const work *w, size_t bytes)
{
    const size_t stride = stride_of(bytes), used = stride - 64 * MAX_INS;
    void *out[1] = {b->memory};
    const void *in[MAX_INS];

    for (uint32_t i = 0; i < w->ins; i++)
        in[i] = b->memory + (i + 1) * stride + 64 * i;
    if (w->kernel)
        w->kernel(out, 1, in, w->ins, used / w->width, w->divisor);
    else
        rd_move(out[0], in[0], used);
}

static void copy_once(const bench *b, size_t bytes)
{
    const size_t stride = stride_of(bytes);

    memcpy(b->memory, b->memory + stride, stride - 64 * MAX_INS);
}

/* Gigabytes a second of one run of the work, or without work of memcpy. */
static double run_once(const bench *b, const work *w, size_t bytes)
{
    const size_t moved = (stride_of(bytes) - 64 * MAX_INS) * (w ? w->ins + 1 : 2);
    const uint64_t start = rd_now_ns();
    uint64_t now = start, times = 0;

    while (now - start < b->run_ns) {
        if (w)
            fold_once(b, w, bytes);
        else
            copy_once(b, bytes);
        times++;
        now = rd_now_ns();
    }
    return (double)moved * (double)times / (double)(now - start);
}

static void print_row(const bench *b, const char *type, const char *op, const work *w)
{
    printf("%-5s %-5s %3u", type, op, w->ins);
    for (size_t c = 0; c < sizeof classes / sizeof *classes; c++) {
        const size_t bytes = 3 * classes[c].bytes / (w->ins + 1);
        double fold[MAX_RUNS], copy[MAX_RUNS], ratio[MAX_RUNS];

        for (int r = 0; r < b->runs; r++) {
            fold[r] = run_once(b, w, bytes);
            copy[r] = run_once(b, NULL, classes[c].bytes);
            ratio[r] = fold[r] / copy[r];
        }
        printf("   %8.1f %8.1f %7.2f", median(fold, b->runs), median(copy, b->runs),
               median(ratio, b->runs));
    }
    printf("\n");
    fflush(stdout);
}

static void print_all(const bench *b)
{
    static const uint32_t many[] = {4, 8, 16};

    print_row(b, "bytes", "move", &(work){.width = 1, .ins = 1});
    for (ronda_type type = RONDA_F16; type <= RONDA_U64; type++)
        for (ronda_op op = RONDA_SUM; op <= RONDA_BXOR; op++) {
            rd_fold_fn *const kernel = b->set->kernel(type, op);
            work w = {kernel, ronda_type_size(type), 2, op == RONDA_MEAN ? 7 : 0};

            if (!kernel)
                continue;
            print_row(b, rd_type_name(type), rd_op_name(op), &w);
            if (op != RONDA_SUM || (type != RONDA_F32 && type != RONDA_BF16))
                continue;
            for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
                w.ins = many[i];
                print_row(b, rd_type_name(type), rd_op_name(op), &w);
            }
        }
}

/* The set of this name, or without a name the best one that the machine has. */
static const rd_fold_set *set_named(const char *name)
{
    for (const rd_fold_set *set = rd_fold_sets(); set->name; set++)
        if (set->usable && (!name || strcmp(set->name, name) == 0))
            return set;
    return NULL;
}

int main(int argc, char **argv)
{
    bench b = {.runs = 15, .run_ns = 1500000}; /* shorter than a time slice */
    const char *name = NULL;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            b.runs = 3;
            b.run_ns = 500000;
        } else if (strcmp(argv[i], "--set") == 0 && i + 1 < argc) {
            name = argv[++i];
        } else {
            fprintf(stderr, "usage: bench_fold [--quick] [--set NAME]\n");
            return 2;
        }
    }
    b.set = set_named(name);
    const size_t total = 3 * classes[1].bytes + (1 << 20);
    b.memory = rd_map(total);
    if (!b.set || !b.memory) {
        fprintf(stderr, "bench_fold: %s\n", b.set ? "no memory" : "no such instruction set here");
        return 1;
    }
    memset(b.memory, 0x3c, total); /* an ordinary number in every type */

    printf("fold: instruction set %s; GB/s read and written, median of %d, beside memcpy\n\n",
           b.set->name, b.runs);
    printf("%15s   %-26s %s\n", "", classes[0].name, classes[1].name);
    printf("type  op    ins       fold     copy   ratio       fold     copy   ratio\n");
    print_all(&b);
    rd_unmap(b.memory, total);
    return 0;
}
