/* plan_args.c: the arguments of `ronda plan`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "base/names.h"
#include "comm/comm.h"
#include "picture.h"
#include "plan.h"
#include "transport/transports.h"

static const char ME[] = "plan";

enum { MOST_RANKS = 1024 };

static bool read_kind(const cli_args *a, void *request)
{
    return cli_kind(a, &((cli_plan_request *)request)->shape.kind);
}

static bool read_hosts(const cli_args *a, void *request)
{
    return cli_read_hosts(a, &((cli_plan_request *)request)->map);
}

static bool read_type(const cli_args *a, void *request)
{
    return cli_type(a, &((cli_plan_request *)request)->type);
}

static bool read_op(const cli_args *a, void *request)
{
    return cli_op(a, &((cli_plan_request *)request)->op);
}

static const cli_option options[] = {
    {"collective", 'c', CLI_CALL, .read = read_kind},
    {"algo", 'a', CLI_TEXT, offsetof(cli_plan_request, name), .read = NULL},
    {"size", 'n', CLI_NUMBER, offsetof(cli_plan_request, shape.size), 1, MOST_RANKS, false, NULL},
    {"hosts", 0, CLI_CALL, .read = read_hosts},
    {"rank", 'r', CLI_NUMBER, offsetof(cli_plan_request, shape.rank), 0, MOST_RANKS - 1, false,
     NULL},
    {"count", 0, CLI_NUMBER, offsetof(cli_plan_request, shape.count), 0, PTRDIFF_MAX, true, NULL},
    {"type", 0, CLI_CALL, .read = read_type},
    {"op", 0, CLI_CALL, .read = read_op},
    {"root", 0, CLI_NUMBER, offsetof(cli_plan_request, shape.root), 0, MOST_RANKS - 1, false, NULL},
    {"in-place", 0, CLI_FLAG, offsetof(cli_plan_request, shape.in_place), .read = NULL},
    {"segment", 0, CLI_NUMBER, offsetof(cli_plan_request, segment_bytes), 0, PTRDIFF_MAX, true,
     NULL},
    {"all-ranks", 0, CLI_FLAG, offsetof(cli_plan_request, all_ranks), .read = NULL},
    {"summary", 0, CLI_FLAG, offsetof(cli_plan_request, summary), .read = NULL},
    {"list", 0, CLI_FLAG, offsetof(cli_plan_request, list), .read = NULL},
    {"threads", 0, CLI_FLAG, offsetof(cli_plan_request, threads), .read = NULL},
    {"draw", 0, CLI_FLAG, offsetof(cli_plan_request, draw), .read = NULL},
    {"svg", 0, CLI_TEXT, offsetof(cli_plan_request, svg), .read = NULL},
    {.name = NULL}};

/* --- do they fit together? --- */

static int check_hosts(const cli_args *a, cli_plan_request *q)
{
    if (!q->map.size)
        return CLI_OK;
    if (cli_given(a, "size") && q->shape.size != q->map.size)
        return cli_wrong(ME, "--hosts: that is %" PRIu32 " ranks, and --size says %" PRIu32,
                         q->map.size, q->shape.size);
    if (q->threads)
        return cli_wrong(ME, "--threads: the threads of a process are on one host");
    q->shape.size = q->map.size;
    return CLI_OK;
}

static int check_numbers(const cli_args *a, const cli_plan_request *q)
{
    const rd_shape *s = &q->shape;
    if (s->rank >= s->size)
        return cli_wrong(ME, "--rank: there is no rank %" PRIu32 " in a world of %" PRIu32, s->rank,
                         s->size);
    if (s->root >= s->size)
        return cli_wrong(ME, "--root: there is no rank %" PRIu32 " in a world of %" PRIu32, s->root,
                         s->size);
    if (s->count > (uint64_t)PTRDIFF_MAX / s->width / s->size)
        return cli_wrong(ME,
                         "--count: %" PRIu64 " elements of %s, times %" PRIu32
                         " ranks, are more bytes than memory can have",
                         s->count, rd_type_name(q->type), s->size);
    if (!rd_op_allows(q->op, q->type))
        return cli_wrong(ME, "--op: %s is not defined for %s", rd_op_name(q->op),
                         rd_type_name(q->type));
    if (q->all_ranks && cli_given(a, "rank"))
        return cli_wrong(ME, "--rank and --all-ranks: which?");
    const int others = __builtin_popcountll(a->given) - q->list - cli_given(a, "collective") -
                       cli_given(a, "algo");
    if (q->list && others)
        return cli_wrong(ME, "--list takes --collective and nothing else");
    if (q->name && (q->summary || q->list))
        return cli_wrong(ME, "--algo: --%s shows every algorithm", q->list ? "list" : "summary");
    return CLI_OK;
}

/* A picture shows all ranks, and only so many can be looked at. */
static int check_picture(const cli_args *a, const cli_plan_request *q)
{
    const char *option = q->draw ? "--draw" : "--svg";
    if (!q->draw && !q->svg)
        return CLI_OK;
    if (q->summary)
        return cli_wrong(ME, "%s and --summary: which?", option);
    if (cli_given(a, "rank") || q->all_ranks)
        return cli_wrong(ME, "%s: a picture shows all ranks",
                         cli_given(a, "rank") ? "--rank" : "--all-ranks");
    if (q->svg && !*q->svg)
        return cli_wrong(ME, "--svg: '' is not the name of a file");
    if (q->draw && q->svg && strcmp(q->svg, "-") == 0)
        return cli_wrong(ME, "--draw and --svg -: which of them to standard output?");
    if (q->draw && q->shape.size > CLI_TEXT_RANKS)
        return cli_wrong(ME,
                         "--draw: %" PRIu32
                         " ranks are too wide for text; %d can be drawn, and %d with --svg",
                         q->shape.size, CLI_TEXT_RANKS, CLI_SVG_RANKS);
    if (q->shape.size > CLI_SVG_RANKS)
        return cli_wrong(ME, "--svg: %" PRIu32 " ranks are too wide for a picture; %d can be drawn",
                         q->shape.size, CLI_SVG_RANKS);
    return CLI_OK;
}

/* Options that mean nothing to this collective are mistakes. */
static int check_kind(const cli_args *a, const cli_plan_request *q)
{
    const ronda_kind kind = q->shape.kind;
    const char *name = rd_kind_name(kind), *lacks = NULL;
    if (cli_given(a, "op") && !rd_kind_reduces(kind))
        lacks = "--op: %s has no op";
    else if (cli_given(a, "root") && !rd_kind_rooted(kind))
        lacks = "--root: %s has no root";
    else if (q->op == RONDA_MEAN && rd_kind_reduces(kind) && !rd_kind_means(kind))
        lacks = "--op: mean is not defined for %s";
    else if (cli_given(a, "in-place") && rd_kind(kind)->place == RD_APART)
        lacks = "--in-place: %s does not work in place";
    else if ((cli_given(a, "count") || cli_given(a, "type")) && kind == RONDA_BARRIER)
        lacks = "--count, --type: %s has no elements";
    return lacks ? cli_wrong(ME, lacks, name) : CLI_OK;
}

static int find_algorithm(cli_plan_request *q)
{
    const ronda_kind kind = q->shape.kind;
    char names[300];
    size_t length = 0;
    if (!q->name)
        return CLI_OK;
    q->algorithm = rd_algorithm_named(kind, q->name);
    if (q->algorithm)
        return CLI_OK;
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        if (a->kind == kind && length < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       length ? ", " : "", a->name);
    return cli_wrong(ME, "%s has no algorithm '%s'; it has %s", rd_kind_name(kind), q->name, names);
}

/* What programs would be forced to by the environment. */
static int read_environment(cli_plan_request *q)
{
    rd_settings settings;
    rd_error error = {0};
    if (rd_settings_read(NULL, &settings, &error))
        return cli_wrong(ME, "%s", error.message);
    q->forced = settings.forced[rd_kind_row(q->shape.kind)];
    return CLI_OK;
}

int cli_plan_read(int count, char **arguments, cli_plan_request *out)
{
    cli_args a = {.command = ME, .options = options, .count = count, .texts = arguments};
    cli_plan_request q = {.shape = {.size = 4, .count = 1000}, .type = RONDA_F32, .op = RONDA_SUM};
    rd_shape *s = &q.shape;
    q.segment_bytes = rd_facts_of(&rd_local, 1).segment_bytes;
    int status = cli_read(&a, &q);
    if (status)
        return status;
    const bool every_kind = s->kind == 0 && (q.summary || q.list);
    if (!s->kind && !every_kind)
        s->kind = RONDA_ALLREDUCE;
    q.cut = cli_given(&a, "segment");
    s->width = (uint32_t)ronda_type_size(q.type);
    s->mean = q.op == RONDA_MEAN;
    status = check_hosts(&a, &q);
    if (!status)
        status = check_numbers(&a, &q);
    if (!status)
        status = check_picture(&a, &q);
    if (!status && !every_kind)
        status = check_kind(&a, &q);
    if (!status && !every_kind)
        status = find_algorithm(&q);
    if (!status && !every_kind)
        status = read_environment(&q);
    if (status)
        return status;
    if (s->kind == RONDA_BARRIER) { /* one token of one byte, gathered by OR */
        s->count = s->width = 1;
        q.type = RONDA_U8;
        q.op = RONDA_BOR;
    }
    *out = q;
    return CLI_OK;
}
