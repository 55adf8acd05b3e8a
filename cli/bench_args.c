/* bench_args.c: the arguments of `ronda bench`. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "args.h"
#include "base/names.h"
#include "bench.h"
#include "cli.h"

const char cli_bench_help[] =
    "ronda bench: measure collectives on this machine\n"
    "\n"
    "  ronda bench [-n RANKS] [-c COLLECTIVES] [--min BYTES] [--max BYTES] [--factor F] [...]\n"
    "  ronda run -n RANKS -- ronda bench [...]\n"
    "\n"
    "  -n, --size RANKS         ranks to start; as many as there are cores if none is given, 2 at least.\n"
    "                           Not under ronda run, mpirun, srun or torchrun, which have started them.\n"
    "                           They have cores as ronda run gives them (ronda run --help)\n"
    "  -c, --collective NAMES   allreduce,scan,... or all (allreduce, broadcast, allgather,\n"
    "                           reduce_scatter, reduce, alltoall, barrier)\n"
    "      --min, --max BYTES   sizes to measure, as 8, 64K, 16M or 1G (8 to 64M); the size is that of\n"
    "                           the largest buffer: of allgather what a rank gets, of reduce_scatter\n"
    "                           what it gives, of gather and scatter all blocks, at the root\n"
    "      --factor F           from one size to the next (8); the last one is --max\n"
    "      --sizes LIST         these sizes instead: 8,1K,64K; not with --min, --max or --factor\n"
    "  -t, --type NAMES         f32,bf16,... (f32)\n"
    "  -o, --op NAMES           sum,max,... (sum); those that a type or a collective does not have are\n"
    "                           left out\n"
    "  -a, --algo NAMES         ring,two_shot,... or all (what ronda chooses)\n"
    "  -m, --memory NAMES       private, allocated (by ronda_alloc), or both (both); barrier, which has\n"
    "                           none, goes with private\n"
    "      --root RANK          of broadcast, reduce, gather and scatter (0)\n"
    "      --out-of-place       allreduce, reduce, scan and exscan into another buffer (in place);\n"
    "                           broadcast has but one, the others always have two\n"
    "  -s, --seconds S          for each line, and five samples at least (0.2); 0: those five\n"
    "  -f, --format NAME        table, csv or json (table)\n"
    "      --samples            every sample in the JSON\n"
    "      --output FILE        instead of the standard output\n"
    "      --plot FILE.svg      a picture too\n"
    "  -q, --quiet              no progress on standard error\n"
    "\n"
    "Before each timed call data is written anew and all ranks start at one moment; the time is the\n"
    "slowest rank's, and every result is checked: a wrong one ends the run with status 1.  near, far:\n"
    "how long a cache line takes between ranks 0 and 1 and back, below or above 0.2 us, measured again and\n"
    "again; machines that move their cores about have both, each on a line of its own.  With more ranks\n"
    "than cores they may share one, take turns on it, and are neither.\n"
    "\n"
    "Of allgatherv, reduce_scatterv, gatherv, scatterv and alltoallv the blocks are ragged: of each two\n"
    "the first is half as long again as the size says, the second half as long; as many bytes in\n"
    "all as without.\n"
    "\n"
    "limit, measured in the same run: each rank copies as many bytes as it gives or gets, whichever is\n"
    "more, all at once, and half a round trip of a cache line; the quickest of the copies before and after\n"
    "the calls, and of the trips between them.  That is its buffer read or written once and one message;\n"
    "that operands must be folded too is not counted.  A call that has its bytes in the caches may be\n"
    "quicker than any copy: then the limit is min, so nothing is ever below it.  Where ranks share\n"
    "no memory, as between hosts, the limit is not known, and one rank has none in place: \"-\", in JSON null.\n"
    "\n"
    "algbw is size over time, busbw the same times what the busiest link must carry, as in nccl-tests:\n"
    "2(n-1)/n for allreduce, (n-1)/n for those with a block for each rank, even or ragged, 1 for the\n"
    "others.\n";

static const char ME[] = "bench";

/* "64K" */
static bool read_bytes(const cli_args *a, uint64_t *out)
{
    static const char units[] = "BKMGT";
    const char *end;
    uint64_t x;
    if (!cli_digits(a->value, &x, &end))
        return cli_bad(a, "'%s' is not a number of bytes", a->value);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : units;
    const int shift = unit ? (int)(unit - units) * 10 : 0;
    if (!unit || (*end && end[1]))
        return cli_bad(a, "'%s' is not a size such as 8, 64K, 16M or 1G", a->value);
    if (x == 0 || x > BENCH_MOST_BYTES >> shift)
        return cli_bad(a, "%s is not within 1..1T", a->value);
    *out = x << shift;
    return true;
}

static bool read_min(const cli_args *a, void *request)
{
    return read_bytes(a, &((bench_request *)request)->min);
}

static bool read_max(const cli_args *a, void *request)
{
    return read_bytes(a, &((bench_request *)request)->max);
}

static bool read_factor(const cli_args *a, void *request)
{
    return cli_decimal(a, 1.01, 1e12, &((bench_request *)request)->factor);
}

static bool read_seconds(const cli_args *a, void *request)
{
    return cli_decimal(a, 0, 1e6, &((bench_request *)request)->seconds);
}

/* --- lists; a->at: the number of this one --- */

static bool add_size(const cli_args *a, void *request)
{
    bench_request *q = request;
    q->size_count = (uint32_t)a->at + 1;
    return read_bytes(a, &q->sizes[a->at]);
}

static bool read_sizes(const cli_args *a, void *request)
{
    return cli_list(a, BENCH_SIZES, add_size, request);
}

static bool add_kind(const cli_args *a, void *request)
{
    bench_request *q = request;
    q->kind_count = (uint32_t)a->at + 1;
    return cli_kind(a, &q->kinds[a->at]);
}

static bool read_kinds(const cli_args *a, void *request)
{
    bench_request *q = request;
    if (strcmp(a->value, "all") != 0)
        return cli_list(a, BENCH_KINDS, add_kind, q);
    q->kind_count = 0;
    for (ronda_kind k = RONDA_ALLREDUCE; k <= RONDA_BARRIER; k++)
        q->kinds[q->kind_count++] = k;
    return true;
}

static bool add_type(const cli_args *a, void *request)
{
    bench_request *q = request;
    q->type_count = (uint32_t)a->at + 1;
    return cli_type(a, &q->types[a->at]);
}

static bool read_types(const cli_args *a, void *request)
{
    return cli_list(a, BENCH_TYPES, add_type, request);
}

static bool add_op(const cli_args *a, void *request)
{
    bench_request *q = request;
    q->op_count = (uint32_t)a->at + 1;
    return cli_op(a, &q->ops[a->at]);
}

static bool read_ops(const cli_args *a, void *request)
{
    return cli_list(a, BENCH_OPS, add_op, request);
}

static bool add_algorithm(const cli_args *a, void *request)
{
    bench_request *q = request;
    for (const rd_algorithm *r = rd_algorithms; r->name; r++)
        if (strcmp(r->name, a->value) == 0) {
            q->algorithms[a->at] = r->name;
            q->algorithm_count = (uint32_t)a->at + 1;
            return true;
        }
    return cli_bad(a, "there is no algorithm '%s'", a->value);
}

static bool read_algorithms(const cli_args *a, void *request)
{
    bench_request *q = request;
    q->algorithm_count = 0;
    q->all_algorithms = strcmp(a->value, "all") == 0;
    return q->all_algorithms || cli_list(a, BENCH_ALGORITHMS, add_algorithm, q);
}

/* --- words --- */

static bool read_memory(const cli_args *a, void *request)
{
    bench_request *q = request;
    q->memory = strcmp(a->value, "private") == 0     ? BENCH_PRIVATE
                : strcmp(a->value, "allocated") == 0 ? BENCH_ALLOCATED
                : strcmp(a->value, "both") == 0      ? BENCH_PRIVATE | BENCH_ALLOCATED
                                                     : 0;
    return q->memory || cli_bad(a, "'%s' is not private, allocated or both", a->value);
}

static bool read_format(const cli_args *a, void *request)
{
    static const char *const names[] = {"table", "csv", "json"};
    bench_request *q = request;
    for (q->format = BENCH_TABLE; q->format <= BENCH_JSON; q->format++)
        if (strcmp(names[q->format], a->value) == 0)
            return true;
    return cli_bad(a, "'%s' is not table, csv or json", a->value);
}

static bool read_plot(const cli_args *a, void *request)
{
    const size_t length = strlen(a->value);
    ((bench_request *)request)->plot = a->value;
    return (length > 4 && strcmp(a->value + length - 4, ".svg") == 0) ||
           cli_bad(a, "'%s' does not end in .svg, the only kind of picture", a->value);
}

static const cli_option options[] = {
    {"size", 'n', CLI_NUMBER, offsetof(bench_request, ranks), 1, RD_MOST_PROCESSES, false, NULL},
    {"collective", 'c', CLI_CALL, .read = read_kinds},
    {"min", 0, CLI_CALL, .read = read_min},
    {"max", 0, CLI_CALL, .read = read_max},
    {"factor", 0, CLI_CALL, .read = read_factor},
    {"sizes", 0, CLI_CALL, .read = read_sizes},
    {"type", 't', CLI_CALL, .read = read_types},
    {"op", 'o', CLI_CALL, .read = read_ops},
    {"algo", 'a', CLI_CALL, .read = read_algorithms},
    {"memory", 'm', CLI_CALL, .read = read_memory},
    {"root", 0, CLI_NUMBER, offsetof(bench_request, root), 0, RD_MOST_PROCESSES - 1, false, NULL},
    {"out-of-place", 0, CLI_FLAG, offsetof(bench_request, out_of_place), .read = NULL},
    {"seconds", 's', CLI_CALL, .read = read_seconds},
    {"format", 'f', CLI_CALL, .read = read_format},
    {"samples", 0, CLI_FLAG, offsetof(bench_request, samples), .read = NULL},
    {"output", 0, CLI_NAME, offsetof(bench_request, output), .read = NULL},
    {"plot", 0, CLI_CALL, .read = read_plot},
    {"quiet", 'q', CLI_FLAG, offsetof(bench_request, quiet), .read = NULL},
    {.name = NULL}};

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    while (strncmp(a, "./", 2) == 0)
        a += 2;
    while (strncmp(b, "./", 2) == 0)
        b += 2;
    return strcmp(a, b) == 0 ||
           (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

static int check_together(const cli_args *a, bench_request *q)
{
    static const char *const range[] = {"min", "max", "factor"};
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (q->size_count && cli_given(a, range[i]))
            return cli_wrong(ME, "--%s says nothing with --sizes, which lists them all", range[i]);
    for (uint32_t i = 0; i < q->size_count; i++)
        q->max = i == 0 || q->sizes[i] > q->max ? q->sizes[i] : q->max;
    if (!q->size_count && q->min > q->max)
        return cli_wrong(ME, "--min %llu is more than --max %llu", (unsigned long long)q->min,
                         (unsigned long long)q->max);
    if (q->output && q->plot && same_file(q->output, q->plot))
        return cli_wrong(ME, "--output and --plot would both write %s", q->plot);
    return CLI_OK;
}

int bench_read(int count, char **arguments, bench_request *out)
{
    cli_args a = {.command = ME, .options = options, .count = count, .texts = arguments};
    bench_request q = {.kinds = {RONDA_ALLREDUCE, RONDA_BROADCAST, RONDA_ALLGATHER,
                                 RONDA_REDUCE_SCATTER, RONDA_REDUCE, RONDA_ALLTOALL, RONDA_BARRIER},
                       .kind_count = 7,
                       .types = {RONDA_F32},
                       .type_count = 1,
                       .ops = {RONDA_SUM},
                       .op_count = 1,
                       .min = 8,
                       .max = 64 << 20,
                       .factor = 8,
                       .seconds = 0.2,
                       .memory = BENCH_PRIVATE | BENCH_ALLOCATED};
    int status = cli_read(&a, &q);
    if (!status)
        status = check_together(&a, &q);
    if (status)
        return status;
    *out = q;
    return CLI_OK;
}
