/* bench.h: the parts of `ronda bench`.
 *
 *     bench_args   the arguments
 *     bench_call   what each rank of a collective gives and gets, and the call itself
 *     bench_data   numbers to send, and the numbers that should come out
 *     bench_limit  the limit of the machine: a copy, and a ping-pong of a cache line
 *     bench_time   one point: samples of one collective, size, algorithm and kind of memory
 *     bench_print  table, CSV, JSON
 *     bench_plot   a picture
 *     bench        goes through all points, rank 0 writes what came out */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/names.h"
#include "comm/comm.h"

enum {
    BENCH_KINDS = RD_KINDS,
    BENCH_TYPES = 12,
    BENCH_OPS = 8,
    BENCH_ALGORITHMS = 32,
    BENCH_SIZES = 64
};
enum { BENCH_PRIVATE = 1, BENCH_ALLOCATED = 2 };
enum { BENCH_TABLE, BENCH_CSV, BENCH_JSON };
enum { BENCH_MOST_SAMPLES = 2000 };
#define BENCH_MOST_BYTES ((uint64_t)1 << 40)

typedef struct {
    uint32_t ranks; /* to start; 0: as many as there are cores */
    ronda_kind kinds[BENCH_KINDS];
    ronda_type types[BENCH_TYPES];
    ronda_op ops[BENCH_OPS];
    const char *algorithms[BENCH_ALGORITHMS]; /* names */
    uint32_t kind_count, type_count, op_count, algorithm_count;
    bool all_algorithms;
    uint64_t min, max;           /* bytes */
    uint64_t sizes[BENCH_SIZES]; /* instead of these, if there are any */
    uint32_t size_count;
    double factor, seconds;
    uint32_t memory; /* BENCH_PRIVATE | BENCH_ALLOCATED */
    uint32_t root;
    bool out_of_place, samples, quiet;
    int format;
    const char *output, *plot;
} bench_request;

int bench_read(int count, char **arguments, bench_request *out); /* what cli commands return */

/* --- one point --- */

typedef struct {
    ronda_kind kind;
    ronda_type type;
    ronda_op op;
    uint32_t root;
    const rd_algorithm *algorithm; /* NULL: ronda's choice */
    uint64_t bytes;                /* of the larger buffer of a rank; a barrier: 0 */
    uint64_t count;                /* as the API counts; blocks that are ragged: on average */
    uint32_t memory;
    bool in_place;
} bench_point;

enum { BENCH_NEAR, BENCH_FAR, BENCH_UNKNOWN, BENCH_DISTANCES };
extern const char *const bench_distances[]; /* "near", "far", "-" */

/* The samples of a point that were taken while ranks 0 and 1 were near, or far; or all, if that is not known. */
typedef struct {
    bench_point point;
    const char *algorithm; /* that ran */
    int distance;
    uint32_t count; /* samples */
    double min_us, median_us, p99_us;
    double round_trip_us; /* median; 0: not measured */
    double copy_us;       /* each rank the larger of its buffers, all at once */
    double limit_us;      /* copy, and half a round trip, or min_us if that is less; 0: not known */
    float *samples;       /* [count] microseconds, if --samples was given */
} bench_row;

typedef struct {
    bench_row *rows;
    uint32_t count, capacity;
} bench_rows;

/* --- calls --- */

/* A rank's part of a point. */
typedef struct {
    uint32_t rank, size;
    uint64_t gives, gets;         /* elements of its buffers; broadcast: of the buffer, in gets */
    size_t *counts, *recv_counts; /* [size]: of the blocks of either buffer */
    size_t *begins; /* [size]: where in what rank r gives lies what this rank gets of it */
} bench_job;

bool bench_in_blocks(ronda_kind kind);                   /* a buffer has a block for each rank */
bool bench_in_place(ronda_kind kind, bool out_of_place); /* recv is send */
/* false: no memory */
bool bench_job_open(const bench_point *p, uint32_t rank, uint32_t size, bench_job *out);
void bench_job_close(bench_job *j);
ronda_status bench_call(ronda_comm *comm, const bench_job *j, const bench_point *p,
                        const void *send, void *recv);

/* --- data --- */

typedef struct bench_data bench_data;
/* For one kind, type and op; NULL: no memory. */
bench_data *bench_data_open(const bench_point *p, uint32_t rank, uint32_t size);
const bench_job *bench_data_job(const bench_data *d);
void bench_data_close(bench_data *d);
/* Fills what the rank gives in call number `turn`, and checks what it got. */
void bench_fill(const bench_data *d, const bench_point *p, uint64_t turn, void *send, void *recv);
bool bench_right(const bench_data *d, const bench_point *p, uint64_t turn, const void *recv,
                 char *why, size_t capacity);

/* --- limits --- */

typedef struct bench_pingpong bench_pingpong; /* of a cache line between ranks 0 and 1 */
/* Collective; NULL: there is none.  oversubscribed: more ranks than cores, so who waits yields its core. */
bench_pingpong *bench_pingpong_open(ronda_comm *comm, bool oversubscribed);
void bench_pingpong_close(bench_pingpong *l);
double bench_round_trip_us(bench_pingpong *l, uint32_t rank); /* by ranks 0 and 1, together */

/* --- measuring --- */

typedef struct {
    ronda_comm *comm;
    const bench_request *request;
    bench_pingpong *line; /* NULL: one rank, or ranks that cannot share one */
    bool oversubscribed;
    void *buffers[3][2]; /* [memory][send, recv]; [0]: for copies */
    uint64_t turn;
    double *us, *before, *alone, *late, *trips; /* [BENCH_MOST_SAMPLES] */
    double lead_ns;
} bench_world;

/* Least, median and 99th percentile of samples, which are sorted. */
void bench_sum_up(double *us, uint32_t n, bench_row *row);
double bench_limit_us(const bench_row *row, double half_trip_us); /* min_us and copy_us are known */

/* Adds rows on rank 0.  false: it failed, and standard error says why. */
bool bench_measure(bench_world *w, const bench_point *p, bench_rows *rows);

/* --- showing --- */

double bench_algorithm_bandwidth(const bench_row *r);               /* GB/s */
double bench_bus_bandwidth(const bench_row *r, uint32_t size);      /* the same, per link */
void bench_bytes_text(uint64_t bytes, char *text, size_t capacity); /* "64 KiB" */
void bench_print_head(FILE *to, const bench_request *q, uint32_t size, uint32_t cores);
void bench_print_row(FILE *to, const bench_request *q, const bench_row *r, uint32_t size,
                     bool first);
void bench_print_foot(FILE *to, const bench_request *q);
bool bench_plot(FILE *to, const bench_rows *rows, uint32_t size);

#endif
