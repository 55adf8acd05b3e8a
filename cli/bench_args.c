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
    "how long a cache line takes between ranks 0 and 1 and back, below or above 0.2 us, asked again and\n"
    "again; machines that move their cores about have both, each on a line of its own.  With more ranks\n"
    "than cores they may share one, take turns on it, and are neither.\n"
    "\n"
    "Of allgatherv, reduce_scatterv, gatherv, scatterv and alltoallv the blocks are ragged: of each two\n"
    "the first is half as long again as the size asks for, the second half as long; as many bytes in\n"
    "all as without.\n"
    "\n"
    "limit, measured in the same run: each rank copies as many bytes as it gives or gets, whichever is\n"
    "more, all at once, and half a round trip of a cache line; the quickest of the copies before and after\n"
    "the calls, and of the trips between them.  That is its buffer read or written once and one message;\n"
    "that operands must be folded too is not counted.  A call that has its bytes in the caches may be\n"
    "quicker than any copy: then the limit is min, so nothing is ever below it.  Where ranks cannot throw\n"
    "a line, as between hosts, the limit is not known, and one rank has none in place: \"-\", in JSON null.\n"
    "\n"
    "algbw is size over time, busbw the same times what the busiest link must carry, as in nccl-tests:\n"
    "2(n-1)/n for allreduce, (n-1)/n for those with a block for each rank, even or ragged, 1 for the\n"
    "others.\n";

static const char ME[] = "bench";

enum {
    SIZE,
    COLLECTIVE,
    MIN,
    MAX,
    FACTOR,
    SIZES,
    TYPE,
    OP,
    ALGO,
    MEMORY,
    ROOT,
    OUT_OF_PLACE,
    SECONDS,
    FORMAT,
    SAMPLES,
    OUTPUT,
    PLOT,
    QUIET
};

static const cli_option options[] = {[SIZE] = {"size", 'n', true},
                                     [COLLECTIVE] = {"collective", 'c', true},
                                     [MIN] = {"min", 0, true},
                                     [MAX] = {"max", 0, true},
                                     [FACTOR] = {"factor", 0, true},
                                     [SIZES] = {"sizes", 0, true},
                                     [TYPE] = {"type", 't', true},
                                     [OP] = {"op", 'o', true},
                                     [ALGO] = {"algo", 'a', true},
                                     [MEMORY] = {"memory", 'm', true},
                                     [ROOT] = {"root", 0, true},
                                     [OUT_OF_PLACE] = {"out-of-place", 0, false},
                                     [SECONDS] = {"seconds", 's', true},
                                     [FORMAT] = {"format", 'f', true},
                                     [SAMPLES] = {"samples", 0, false},
                                     [OUTPUT] = {"output", 0, true},
                                     [PLOT] = {"plot", 0, true},
                                     [QUIET] = {"quiet", 'q', false},
                                     {NULL, 0, false}};

/* "64K" */
static bool read_bytes(const cli_args *a, uint64_t *out)
{
    static const char units[] = "BKMGT";
    const char *end;
    uint64_t x;
    if (!cli_digits(a->value, &x, &end))
        return cli_wrong(ME, "%s: '%s' is not a number of bytes", a->name, a->value) == CLI_OK;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : units;
    const int shift = unit ? (int)(unit - units) * 10 : 0;
    if (!unit || (*end && end[1]))
        return cli_wrong(ME, "%s: '%s' is not a size such as 8, 64K, 16M or 1G", a->name,
                         a->value) == CLI_OK;
    if (x == 0 || x > BENCH_MOST_BYTES >> shift)
        return cli_wrong(ME, "%s: %s is not within 1..1T", a->name, a->value) == CLI_OK;
    *out = x << shift;
    return true;
}

static bool read_decimal(const cli_args *a, double least, double most, double *out)
{
    char *end;
    const bool digits = *a->value && strspn(a->value, "0123456789.") == strlen(a->value);
    const double x = strtod(a->value, &end);
    if (!digits || *end)
        return cli_wrong(ME, "%s: '%s' is not a number", a->name, a->value) == CLI_OK;
    if (!(x >= least && x <= most))
        return cli_wrong(ME, "%s: %s is not within %g..%g", a->name, a->value, least, most) ==
               CLI_OK;
    *out = x;
    return true;
}

/* A list by commas: all its names are there. */
static bool list_whole(const cli_args *a)
{
    const char *v = a->value;
    const size_t length = strlen(v);
    if (!length)
        return cli_wrong(ME, "%s: which?", a->name) == CLI_OK;
    if (*v == ',' || v[length - 1] == ',' || strstr(v, ",,"))
        return cli_wrong(ME, "%s: '%s' has a comma with nothing before or after it", a->name, v) ==
               CLI_OK;
    return true;
}

/* The next name of a list by commas; false: there is none left. */
static bool next_name(const char **at, char name[24])
{
    if (!**at)
        return false;
    const size_t length = strcspn(*at, ",");
    snprintf(name, 24, "%.*s", (int)(length < 23 ? length : 23), *at);
    *at += length + ((*at)[length] == ',');
    return true;
}

static bool no_such(const cli_args *a, const char *what, const char *name)
{
    return cli_wrong(ME, "%s: there is no %s '%s'", a->name, what, name) == CLI_OK;
}

static bool read_kinds(const cli_args *a, bench_request *q)
{
    char name[24];
    q->kind_count = 0;
    if (strcmp(a->value, "all") == 0) {
        for (ronda_kind k = RONDA_ALLREDUCE; k <= RONDA_BARRIER; k++)
            q->kinds[q->kind_count++] = k;
        return true;
    }
    for (const char *at = a->value; next_name(&at, name);) {
        cli_args one = *a;
        one.value = name;
        if (q->kind_count == BENCH_KINDS)
            return cli_wrong(ME, "%s: more than %d", a->name, BENCH_KINDS) == CLI_OK;
        if (!cli_kind(&one, &q->kinds[q->kind_count++]))
            return false;
    }
    return true;
}

static bool read_types(const cli_args *a, bench_request *q)
{
    char name[24];
    q->type_count = 0;
    for (const char *at = a->value; next_name(&at, name);) {
        const ronda_type type = rd_type_named(name);
        if (!type || q->type_count == BENCH_TYPES)
            return no_such(a, "type", name);
        q->types[q->type_count++] = type;
    }
    return true;
}

static bool read_sizes(const cli_args *a, bench_request *q)
{
    char name[24];
    q->size_count = 0;
    for (const char *at = a->value; next_name(&at, name);) {
        cli_args one = *a;
        one.value = name;
        if (q->size_count == BENCH_SIZES)
            return cli_wrong(ME, "%s: more than %d", a->name, BENCH_SIZES) == CLI_OK;
        if (!read_bytes(&one, &q->sizes[q->size_count++]))
            return false;
    }
    return true;
}

static bool read_ops(const cli_args *a, bench_request *q)
{
    char name[24];
    q->op_count = 0;
    for (const char *at = a->value; next_name(&at, name);) {
        const ronda_op op = rd_op_named(name);
        if (!op || q->op_count == BENCH_OPS)
            return no_such(a, "op", name);
        q->ops[q->op_count++] = op;
    }
    return true;
}

static bool some_algorithm(const char *name)
{
    for (const rd_algorithm *r = rd_algorithms; r->name; r++)
        if (strcmp(r->name, name) == 0)
            return true;
    return false;
}

static bool read_algorithms(const cli_args *a, bench_request *q)
{
    char name[24];
    q->algorithm_count = 0;
    q->all_algorithms = strcmp(a->value, "all") == 0;
    if (q->all_algorithms)
        return true;
    for (const char *at = a->value; next_name(&at, name);) {
        if (!some_algorithm(name) || q->algorithm_count == BENCH_ALGORITHMS)
            return no_such(a, "algorithm", name);
        memcpy(q->algorithms[q->algorithm_count++], name, sizeof name);
    }
    return true;
}

static bool read_memory(const cli_args *a, bench_request *q)
{
    q->memory = strcmp(a->value, "private") == 0     ? BENCH_PRIVATE
                : strcmp(a->value, "allocated") == 0 ? BENCH_ALLOCATED
                : strcmp(a->value, "both") == 0      ? BENCH_PRIVATE | BENCH_ALLOCATED
                                                     : 0;
    return q->memory ||
           cli_wrong(ME, "%s: '%s' is not private, allocated or both", a->name, a->value) == CLI_OK;
}

static bool read_format(const cli_args *a, bench_request *q)
{
    static const char *const names[] = {"table", "csv", "json"};
    for (q->format = BENCH_TABLE; q->format <= BENCH_JSON; q->format++)
        if (strcmp(names[q->format], a->value) == 0)
            return true;
    return cli_wrong(ME, "%s: '%s' is not table, csv or json", a->name, a->value) == CLI_OK;
}

static bool read_plot(const cli_args *a, bench_request *q)
{
    const size_t length = strlen(a->value);
    q->plot = a->value;
    return (length > 4 && strcmp(a->value + length - 4, ".svg") == 0) ||
           cli_wrong(ME, "%s: '%s' does not end in .svg, the only kind of picture", a->name,
                     a->value) == CLI_OK;
}

static bool read_rank(const cli_args *a, uint64_t least, uint64_t most, uint32_t *out)
{
    uint64_t x;
    if (!cli_number(a, least, most, &x))
        return false;
    *out = (uint32_t)x;
    return true;
}

static bool read_switch(bench_request *q, int option)
{
    if (option == OUT_OF_PLACE)
        q->out_of_place = true;
    else if (option == SAMPLES)
        q->samples = true;
    else
        q->quiet = true;
    return true;
}

static bool read_one(bench_request *q, const cli_args *a, int option)
{
    switch (option) {
    case SIZE:
        return read_rank(a, 1, RD_MOST_PROCESSES, &q->ranks);
    case COLLECTIVE:
        return list_whole(a) && read_kinds(a, q);
    case MIN:
        return read_bytes(a, &q->min);
    case MAX:
        return read_bytes(a, &q->max);
    case FACTOR:
        return read_decimal(a, 1.01, 1e12, &q->factor);
    case SIZES:
        return list_whole(a) && read_sizes(a, q);
    case TYPE:
        return list_whole(a) && read_types(a, q);
    case OP:
        return list_whole(a) && read_ops(a, q);
    case ALGO:
        return list_whole(a) && read_algorithms(a, q);
    case MEMORY:
        return read_memory(a, q);
    case ROOT:
        return read_rank(a, 0, RD_MOST_PROCESSES - 1, &q->root);
    case SECONDS:
        return read_decimal(a, 0, 1e6, &q->seconds);
    case FORMAT:
        return read_format(a, q);
    case OUTPUT:
        return (q->output = a->value);
    case PLOT:
        return read_plot(a, q);
    default:
        return read_switch(q, option);
    }
}

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

/* What options say together.  range: one of --min, --max and --factor, the one that was given last. */
static int check_together(bench_request *q, const char *range)
{
    if (q->size_count && *range)
        return cli_wrong(ME, "%s says nothing with --sizes, which lists them all", range);
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
    cli_args a = {.command = ME, .count = count, .texts = arguments};
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
    char range[sizeof a.name] = "";
    for (int option; (option = cli_next(&a, options)) != CLI_END;) {
        if (option == CLI_BAD || !read_one(&q, &a, option))
            return CLI_USAGE;
        if (option == MIN || option == MAX || option == FACTOR)
            memcpy(range, a.name, sizeof range);
    }
    const int status = check_together(&q, range);
    if (status)
        return status;
    *out = q;
    return CLI_OK;
}
