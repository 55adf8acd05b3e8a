/* bench.c: `ronda bench`: goes through all points; see bench.h.
 *
 * Alone it starts itself again as ranks of a job, by `ronda run`; every rank then goes through the same
 * points, and rank 0 writes.  Ranks of another launcher are ranks, too. */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/names.h"
#include "cli.h"
#include "comm/environment.h"

static const char ME[] = "bench";
static const uint64_t PROGRESS_NS = 5000000000u;

/* --- alone --- */

static int start_ranks(int count, char **arguments, uint32_t ranks)
{
    enum { FIXED = 8 };
    static char self[4096], size[16];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return cli_failed(ME, "cannot find itself: %s", strerror(errno));
    self[length] = 0;
    snprintf(size, sizeof size, "%u", ranks);
    char **all = calloc((size_t)count + FIXED, sizeof *all);
    if (!all)
        return cli_failed(ME, "no memory");
    char *const first[] = {"-n", size, "--", self, "bench"};
    int n = 0;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        all[n++] = first[i];
    for (int i = 0; i < count; i++) { /* all but the number of ranks */
        const bool two = strcmp(arguments[i], "-n") == 0 || strcmp(arguments[i], "--size") == 0;
        if (two || strncmp(arguments[i], "-n", 2) == 0 || strncmp(arguments[i], "--size=", 7) == 0)
            i += two;
        else
            all[n++] = arguments[i];
    }
    const int status = cli_run(n, all);
    free(all);
    return status;
}

/* --- all points --- */

typedef struct {
    bench_world world;
    bench_request request;
    uint32_t rank, size;
    bench_rows rows;
    FILE *out, *plot;
    uint32_t done, total; /* points */
    uint64_t said_ns;
    bool counting; /* count the points, measure nothing */
} run;

static void say_progress(run *r, const bench_point *p)
{
    char bytes[24];
    const uint64_t now = rd_now_ns();
    if (r->rank || r->request.quiet || now < r->said_ns + PROGRESS_NS)
        return;
    r->said_ns = now;
    bench_bytes_text(p->bytes, bytes, sizeof bytes);
    fprintf(stderr, "ronda bench: %u of %u: %s, %s %s\n", r->done, r->total, rd_kind_name(p->kind),
            bytes, p->algorithm ? p->algorithm->name : "");
}

static bool measure(run *r, const bench_point *p)
{
    if (r->counting) {
        r->total++;
        return true;
    }
    const uint32_t before = r->rows.count;
    say_progress(r, p);
    if (!bench_measure(&r->world, p, &r->rows))
        return false;
    r->done++;
    for (uint32_t i = before; i < r->rows.count; i++)
        bench_print_row(r->out, &r->request, &r->rows.rows[i], r->size, i == 0);
    return r->rank || fflush(r->out) == 0 ||
           cli_failed(ME, "cannot write: %s", strerror(errno)) == 0;
}

/* The nearest size that can be cut into elements, and into blocks for all ranks; at least one each. */
static bool measure_size(run *r, bench_point p, double bytes, uint64_t *last)
{
    const uint64_t width = ronda_type_size(p.type);
    const uint64_t unit = bench_in_blocks(p.kind) ? width * r->size : width;
    const uint64_t units = (uint64_t)bytes / unit ? (uint64_t)bytes / unit : 1;
    if (units * unit == *last)
        return true; /* rounded to the same */
    *last = p.bytes = units * unit;
    p.count = units;
    return measure(r, &p);
}

static bool all_sizes(run *r, bench_point p)
{
    const bench_request *q = &r->request;
    uint64_t last = 0;
    if (p.kind == RONDA_BARRIER) {
        p.count = 1;
        return measure(r, &p);
    }
    for (uint32_t i = 0; i < q->size_count; i++)
        if (!measure_size(r, p, (double)q->sizes[i], &last))
            return false;
    if (q->size_count)
        return true;
    for (double bytes = (double)q->min; bytes < (double)q->max; bytes *= q->factor)
        if (!measure_size(r, p, bytes, &last))
            return false;
    return measure_size(r, p, (double)q->max, &last);
}

static bool all_algorithms(run *r, bench_point p)
{
    const bench_request *q = &r->request;
    if (!q->all_algorithms && !q->algorithm_count)
        return all_sizes(r, p);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++) {
        bool wanted = q->all_algorithms;
        for (uint32_t i = 0; i < q->algorithm_count; i++)
            wanted |= strcmp(q->algorithms[i], a->name) == 0;
        p.algorithm = a;
        if (wanted && a->kind == p.kind && !all_sizes(r, p))
            return false;
    }
    return true;
}

static bool all_memories(run *r, bench_point p)
{
    for (uint32_t m = BENCH_PRIVATE; m <= BENCH_ALLOCATED; m *= 2) {
        p.memory = m;
        if (r->request.memory & m && !all_algorithms(r, p))
            return false;
        if (p.kind == RONDA_BARRIER)
            break; /* it has no memory */
    }
    return true;
}

static bool all_points(run *r)
{
    const bench_request *q = &r->request;
    for (uint32_t k = 0; k < q->kind_count; k++)
        for (uint32_t t = 0; t < q->type_count; t++)
            for (uint32_t o = 0; o < q->op_count; o++) {
                bench_point p = {.kind = q->kinds[k],
                                 .type = q->types[t],
                                 .op = q->ops[o],
                                 .root = rd_kind_rooted(q->kinds[k]) ? q->root : 0,
                                 .in_place = bench_in_place(q->kinds[k], q->out_of_place)};
                const bool barrier = p.kind == RONDA_BARRIER, reduces = rd_kind_reduces(p.kind);
                if (barrier)
                    p.type = RONDA_U8;
                if ((barrier && t) || (!reduces && o))
                    continue; /* once is enough */
                if (reduces &&
                    (!rd_op_allows(p.op, p.type) || (p.op == RONDA_MEAN && !rd_kind_means(p.kind))))
                    continue;
                if (!all_memories(r, p))
                    return false;
            }
    return true;
}

static uint32_t count_points(run *r)
{
    r->total = 0;
    r->counting = true;
    all_points(r);
    r->counting = false;
    return r->total;
}

/* Choices that leave nothing to measure: those which do are widened one after another, until there is. */
static int check_choices(run r)
{
    r.size = 1; /* how many ranks there are makes no difference */
    if (count_points(&r))
        return CLI_OK;
    r.request.memory = BENCH_PRIVATE;
    if (count_points(&r))
        return cli_wrong(ME, "nothing to measure: barrier has no memory that could be allocated");
    r.request.all_algorithms = true;
    if (count_points(&r))
        return cli_wrong(ME, "nothing to measure: -a names no algorithm of these collectives");
    return cli_wrong(ME, "nothing to measure: -o names no op of these types and collectives");
}

/* --- a rank --- */

static bool open_buffers(run *r)
{
    bench_world *w = &r->world;
    const size_t bytes = r->request.max + 64 * r->size;
    for (int m = 0; m <= BENCH_ALLOCATED; m++)
        for (int i = 0; i < 2; i++) {
            if (m == 0 || r->request.memory & (uint32_t)m || m == BENCH_PRIVATE) {
                if (m == BENCH_ALLOCATED) {
                    if (ronda_alloc(w->comm, bytes, &w->buffers[m][i]))
                        w->buffers[m][i] = NULL;
                } else
                    w->buffers[m][i] = rd_pages(bytes);
                if (!w->buffers[m][i])
                    return cli_failed(ME, "rank %u: no memory for buffers of %zu bytes", r->rank,
                                      bytes) == CLI_OK;
            }
            if (m == 0)
                memset(w->buffers[m][i], 1, bytes);
        }
    w->us = calloc(5 * BENCH_MOST_SAMPLES, sizeof *w->us);
    if (!w->us)
        return cli_failed(ME, "no memory") == CLI_OK;
    w->before = w->us + BENCH_MOST_SAMPLES;
    w->alone = w->before + BENCH_MOST_SAMPLES;
    w->late = w->alone + BENCH_MOST_SAMPLES;
    w->trips = w->late + BENCH_MOST_SAMPLES;
    return true;
}

static void close_all(run *r)
{
    bench_world *w = &r->world;
    const size_t bytes = r->request.max + 64 * r->size;
    for (uint32_t i = 0; i < r->rows.count; i++)
        free(r->rows.rows[i].samples);
    free(r->rows.rows);
    free(w->us);
    for (int m = 0; m < BENCH_ALLOCATED; m++)
        for (int i = 0; i < 2; i++)
            rd_unmap(w->buffers[m][i], bytes);
    bench_pingpong_close(w->line);
    ronda_close(w->comm);
}

static bool write_plot(run *r)
{
    const bool drawn = bench_plot(r->plot, &r->rows, r->size);
    const bool closed = fclose(r->plot) == 0;
    r->plot = NULL;
    return (drawn && closed) || cli_failed(ME, "cannot write %s", r->request.plot) == CLI_OK;
}

static bool open_file(const char *path, FILE **out)
{
    *out = cli_open_to_write(path);
    return *out || cli_failed(ME, "cannot write %s: %s", path, strerror(errno)) == CLI_OK;
}

/* Before anything is measured: what cannot be written is said at once. */
static bool open_output(run *r)
{
    r->out = stdout;
    if (r->rank)
        return true;
    return (!r->request.output || open_file(r->request.output, &r->out)) &&
           (!r->request.plot || open_file(r->request.plot, &r->plot));
}

static bool measure_all(run *r)
{
    bench_world *w = &r->world;
    w->request = &r->request;
    w->oversubscribed = r->size > w->comm->link->cpus;
    if (r->size > 1)
        w->line = bench_pingpong_open(w->comm, w->oversubscribed);
    count_points(r);
    r->said_ns = rd_now_ns();
    if (r->rank == 0)
        bench_print_head(r->out, &r->request, r->size, w->comm->link->cpus);
    if (!all_points(r))
        return false;
    if (r->rank)
        return true;
    bench_print_foot(r->out, &r->request);
    return !r->request.plot || write_plot(r);
}

/* Who has started the ranks already; NULL: nobody.  What they say wrong, ronda_init() tells. */
static const char *started_by(void)
{
    const char *size = getenv("RONDA_SIZE");
    rd_launch launch = {0};
    rd_error error = {0};
    if (size && *size)
        return "ronda run";
    if (rd_environment_read(false, &launch, &error))
        return "another launcher";
    return launch.size > 1 ? launch.launcher : NULL;
}

int cli_bench(int count, char **arguments)
{
    static run r;
    const char *launcher = started_by();
    const bool rank = launcher != NULL;
    int status = bench_read(count, arguments, &r.request);
    if (!status)
        status = check_choices(r);
    if (status)
        return status;
    if (rank && r.request.ranks)
        return cli_wrong(ME, "-n: %s has started the ranks already, by its variables", launcher);
    const uint32_t cores = rd_usable_cpus();
    const uint32_t ranks = r.request.ranks ? r.request.ranks : cores < 2 ? 2 : cores;
    if (!rank && r.request.root >= ranks)
        return cli_wrong(ME, "--root %u is not one of %u ranks", r.request.root, ranks);
    if (!rank)
        return start_ranks(count, arguments, ranks);
    if (ronda_init(NULL, &r.world.comm))
        return cli_failed(ME, "%s", ronda_last_error(NULL));
    r.rank = ronda_rank(r.world.comm);
    r.size = ronda_size(r.world.comm);
    if (r.request.root >= r.size) {
        ronda_close(r.world.comm);
        return cli_wrong(ME, "--root %u is not one of %u ranks", r.request.root, r.size);
    }
    const bool ok = open_output(&r) && open_buffers(&r) && measure_all(&r);
    if (r.out && r.out != stdout && fclose(r.out))
        cli_failed(ME, "cannot write %s", r.request.output);
    if (!ok)
        ronda_abort(r.world.comm, "a rank of ronda bench failed");
    close_all(&r);
    return ok ? CLI_OK : CLI_FAILED;
}
