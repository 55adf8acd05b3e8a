/* bench_print.c: what `ronda bench` measured, as a table for people, or as CSV or JSON for programs. */
#include <inttypes.h>
#include <string.h>

#include "base/names.h"
#include "bench.h"

/* --- bandwidths, as nccl-tests defines them --- */

double bench_algorithm_bandwidth(const bench_row *r)
{
    return r->median_us > 0 ? (double)r->point.bytes / r->median_us / 1e3 : 0;
}

/* What the busiest link must carry, so that it compares with the hardware whatever the collective.  Of
 * size bytes:
 *
 *     2(n-1)/n   allreduce: all but its own part goes out of a rank to be folded, and comes back
 *     (n-1)/n    a block for each rank: all but a rank's own goes or comes
 *     1          the others: everything goes once, from the root, to it, or to the next rank */
double bench_bus_bandwidth(const bench_row *r, uint32_t size)
{
    const double n = size, algorithm = bench_algorithm_bandwidth(r);
    if (r->point.kind == RONDA_ALLREDUCE)
        return algorithm * 2 * (n - 1) / n;
    return bench_in_blocks(r->point.kind) ? algorithm * (n - 1) / n : algorithm;
}

void bench_bytes_text(uint64_t bytes, char *text, size_t capacity)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double x = (double)bytes;
    for (; unit < 4 && x >= 1024; unit++)
        x /= 1024;
    snprintf(text, capacity, x == (double)(uint64_t)x ? "%.0f %s" : "%.1f %s", x, units[unit]);
}

static const char *memory_name(uint32_t memory)
{
    return memory == BENCH_ALLOCATED ? "allocated" : "private";
}

static const char *op_of(const bench_row *r)
{
    return rd_kind_reduces(r->point.kind) ? rd_op_name(r->point.op) : "-";
}

static const char *blocks_of(const bench_row *r)
{
    return rd_kind(r->point.kind)->counted  ? "ragged"
           : bench_in_blocks(r->point.kind) ? "even"
                                            : "-";
}

/* A number that may not be known, and is 0 then: another text instead. */
static const char *known(char *text, size_t capacity, int digits, double x, const char *unknown)
{
    if (!(x > 0))
        return unknown;
    snprintf(text, capacity, "%.*f", digits, x);
    return text;
}

/* --- table --- */

static void number(char *text, size_t capacity, double x)
{
    snprintf(text, capacity, x >= 1000 ? "%.0f" : x >= 100 ? "%.1f" : x >= 10 ? "%.2f" : "%.3f", x);
}

static void table_head(FILE *to, const bench_request *q, uint32_t size, uint32_t cores)
{
    bool counted = false;
    for (uint32_t k = 0; k < q->kind_count; k++)
        counted |= rd_kind(q->kinds[k])->counted;
    fprintf(
        to,
        "%" PRIu32 " rank%s on %" PRIu32 " core%s; microseconds of the slowest rank, data written "
        "anew before each call, results checked\n"
        "limit: a copy of what each rank gives or gets, whichever is more, by all at once, and half a "
        "round trip of a cache line, or the quickest call\n",
        size, size == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
    if (counted)
        fprintf(to, "...v: blocks are ragged: half as long again and half as long in turn, as many "
                    "bytes in all\n");
    fprintf(to, "\n%-15s %9s %-4s %-4s %-13s %-9s %-4s %7s %10s %10s %10s %10s %6s %7s %7s %6s\n",
            "collective", "size", "type", "op", "algorithm", "memory", "dist", "samples", "min",
            "median", "p99", "limit", "times", "algbw", "busbw", "trip");
    fprintf(to, "%99s %10s %6s %7s %7s %6s\n", "", "us", "limit", "GB/s", "GB/s", "us");
}

static void table_row(FILE *to, const bench_row *r, uint32_t size)
{
    char bytes[24], min[24], median[24], p99[24], limit[24] = "-", times[24], trip[24];
    const double ratio = r->limit_us > 0 ? r->median_us / r->limit_us : 0;
    bench_bytes_text(r->point.bytes, bytes, sizeof bytes);
    number(min, sizeof min, r->min_us);
    number(median, sizeof median, r->median_us);
    number(p99, sizeof p99, r->p99_us);
    if (r->limit_us > 0)
        number(limit, sizeof limit, r->limit_us);
    fprintf(to, "%-15s %9s %-4s %-4s %-13s %-9s %-4s %7" PRIu32 " %10s %10s %10s %10s %6s",
            rd_kind_name(r->point.kind), r->point.kind == RONDA_BARRIER ? "-" : bytes,
            rd_type_name(r->point.type), op_of(r), r->algorithm, memory_name(r->point.memory),
            bench_distances[r->distance], r->count, min, median, p99, limit,
            known(times, sizeof times, 1, ratio, "-"));
    if (r->point.bytes)
        fprintf(to, " %7.2f %7.2f", bench_algorithm_bandwidth(r), bench_bus_bandwidth(r, size));
    else
        fprintf(to, " %7s %7s", "-", "-");
    fprintf(to, " %6s\n", known(trip, sizeof trip, 3, r->round_trip_us, "-"));
}

/* --- for programs: the same names in both --- */

static const char columns[] = "collective,ranks,bytes,count,type,op,algorithm,memory,in_place,root,"
                              "distance,samples,min_us,median_us,p99_us,limit_us,copy_us,"
                              "round_trip_us,algbw_gbs,busbw_gbs,blocks";

static void csv_row(FILE *to, const bench_row *r, uint32_t size)
{
    const bench_point *p = &r->point;
    char limit[32], trip[32];
    fprintf(to, "%s,%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%s,%s,%s,%s,%d,%" PRIu32 ",%s,%" PRIu32,
            rd_kind_name(p->kind), size, p->bytes, p->count, rd_type_name(p->type), op_of(r),
            r->algorithm, memory_name(p->memory), p->in_place, p->root,
            bench_distances[r->distance], r->count);
    fprintf(to, ",%.4f,%.4f,%.4f,%s,%.4f,%s,%.4f,%.4f,%s\n", r->min_us, r->median_us, r->p99_us,
            known(limit, sizeof limit, 4, r->limit_us, "-"), r->copy_us,
            known(trip, sizeof trip, 4, r->round_trip_us, "-"), bench_algorithm_bandwidth(r),
            bench_bus_bandwidth(r, size), blocks_of(r));
}

static void json_row(FILE *to, const bench_row *r, uint32_t size)
{
    const bench_point *p = &r->point;
    char limit[32], trip[32];
    fprintf(to,
            "{\"collective\": \"%s\", \"ranks\": %" PRIu32 ", \"bytes\": %" PRIu64
            ", \"count\": %" PRIu64 ", \"type\": \"%s\", \"op\": \"%s\", \"algorithm\": \"%s\", "
            "\"memory\": \"%s\", \"in_place\": %s, \"root\": %" PRIu32
            ", \"distance\": \"%s\", \"samples\": %" PRIu32,
            rd_kind_name(p->kind), size, p->bytes, p->count, rd_type_name(p->type), op_of(r),
            r->algorithm, memory_name(p->memory), p->in_place ? "true" : "false", p->root,
            bench_distances[r->distance], r->count);
    fprintf(to,
            ", \"min_us\": %.4f, \"median_us\": %.4f, \"p99_us\": %.4f, \"limit_us\": %s, "
            "\"copy_us\": %.4f, \"round_trip_us\": %s, \"algbw_gbs\": %.4f, \"busbw_gbs\": %.4f, "
            "\"blocks\": \"%s\"",
            r->min_us, r->median_us, r->p99_us, known(limit, sizeof limit, 4, r->limit_us, "null"),
            r->copy_us, known(trip, sizeof trip, 4, r->round_trip_us, "null"),
            bench_algorithm_bandwidth(r), bench_bus_bandwidth(r, size), blocks_of(r));
    for (uint32_t i = 0; r->samples && i < r->count; i++)
        fprintf(to, "%s%.4g", i ? ", " : ", \"all_us\": [", (double)r->samples[i]);
    fprintf(to, r->samples ? "]}" : "}");
}

void bench_print_head(FILE *to, const bench_request *q, uint32_t size, uint32_t cores)
{
    if (q->format == BENCH_TABLE)
        table_head(to, q, size, cores);
    else if (q->format == BENCH_CSV)
        fprintf(to, "%s\n", columns);
    else
        fprintf(to, "[\n");
}

void bench_print_row(FILE *to, const bench_request *q, const bench_row *r, uint32_t size,
                     bool first)
{
    if (q->format == BENCH_TABLE) {
        table_row(to, r, size);
    } else if (q->format == BENCH_CSV) {
        csv_row(to, r, size);
    } else {
        if (!first)
            fprintf(to, ",\n");
        json_row(to, r, size);
    }
}

void bench_print_foot(FILE *to, const bench_request *q)
{
    if (q->format == BENCH_JSON)
        fprintf(to, "\n]\n");
}
