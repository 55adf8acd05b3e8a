/* plan_args.c: the arguments of `ronda plan`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "base/names.h"
#include "comm/comm.h"
#include "picture.h"
#include "plan.h"

static const char ME[] = "plan";

enum { MOST_RANKS = 1024 };

enum {
    COLLECTIVE,
    ALGO,
    SIZE,
    HOSTS,
    RANK,
    COUNT,
    TYPE,
    OP,
    ROOT,
    IN_PLACE,
    SEGMENT,
    ALL_RANKS,
    SUMMARY,
    LIST,
    THREADS,
    DRAW,
    SVG
};

static const cli_option options[] = {[COLLECTIVE] = {"collective", 'c', true},
                                     [ALGO] = {"algo", 'a', true},
                                     [SIZE] = {"size", 'n', true},
                                     [HOSTS] = {"hosts", 0, true},
                                     [RANK] = {"rank", 'r', true},
                                     [COUNT] = {"count", 0, true},
                                     [TYPE] = {"type", 0, true},
                                     [OP] = {"op", 0, true},
                                     [ROOT] = {"root", 0, true},
                                     [IN_PLACE] = {"in-place", 0, false},
                                     [SEGMENT] = {"segment", 0, true},
                                     [ALL_RANKS] = {"all-ranks", 0, false},
                                     [SUMMARY] = {"summary", 0, false},
                                     [LIST] = {"list", 0, false},
                                     [THREADS] = {"threads", 0, false},
                                     [DRAW] = {"draw", 0, false},
                                     [SVG] = {"svg", 0, true},
                                     {NULL, 0, false}};

typedef struct {
    cli_plan_request request;
    uint32_t given; /* bit i: option i */
    const char *algorithm;
} reading;

static bool given(const reading *r, int option)
{
    return r->given >> option & 1;
}

static bool number32(const cli_args *a, uint64_t least, uint64_t most, uint32_t *out)
{
    uint64_t value;
    if (!cli_number(a, least, most, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool read_type(const cli_args *a, ronda_type *out)
{
    *out = rd_type_named(a->value);
    return *out ||
           cli_wrong(ME,
                     "there is no type '%s'; there are f16, bf16, f32, f64, i8, u8, i16, u16, i32, "
                     "u32, i64, u64",
                     a->value) == CLI_OK;
}

static bool read_op(const cli_args *a, ronda_op *out)
{
    *out = rd_op_named(a->value);
    return *out ||
           cli_wrong(ME,
                     "there is no op '%s'; there are sum, mean, prod, min, max, band, bor, bxor",
                     a->value) == CLI_OK;
}

static bool read_one(reading *r, const cli_args *a, int option)
{
    cli_plan_request *q = &r->request;
    r->given |= 1u << option;
    switch (option) {
    case COLLECTIVE:
        return cli_kind(a, &q->shape.kind);
    case ALGO:
        r->algorithm = a->value;
        return true;
    case SIZE:
        return number32(a, 1, MOST_RANKS, &q->shape.size);
    case HOSTS:
        return cli_read_hosts(a, &q->map);
    case RANK:
        return number32(a, 0, MOST_RANKS - 1, &q->shape.rank);
    case COUNT:
        return cli_number(a, 0, PTRDIFF_MAX, &q->shape.count);
    case TYPE:
        return read_type(a, &q->type);
    case OP:
        return read_op(a, &q->op);
    case ROOT:
        return number32(a, 0, MOST_RANKS - 1, &q->shape.root);
    case SEGMENT:
        return q->cut = cli_number(a, 0, PTRDIFF_MAX, &q->segment_bytes);
    case IN_PLACE:
        return q->shape.in_place = true;
    case ALL_RANKS:
        return q->all_ranks = true;
    case SUMMARY:
        return q->summary = true;
    case THREADS:
        return q->threads = true;
    case DRAW:
        return q->draw = true;
    case SVG:
        q->svg = a->value;
        return true;
    default:
        return q->list = true;
    }
}

/* --- do they fit together? --- */

static int check_hosts(reading *r)
{
    cli_plan_request *q = &r->request;
    if (!q->map.size)
        return CLI_OK;
    if (given(r, SIZE) && q->shape.size != q->map.size)
        return cli_wrong(ME, "--hosts: that is %" PRIu32 " ranks, and --size says %" PRIu32,
                         q->map.size, q->shape.size);
    if (q->threads)
        return cli_wrong(ME, "--threads: the threads of a process are on one host");
    q->shape.size = q->map.size;
    return CLI_OK;
}

static int check_numbers(const reading *r)
{
    const cli_plan_request *q = &r->request;
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
    if (q->all_ranks && given(r, RANK))
        return cli_wrong(ME, "--rank and --all-ranks: which?");
    if (q->list && r->given & ~(1u << LIST | 1u << COLLECTIVE | 1u << ALGO))
        return cli_wrong(ME, "--list takes --collective and nothing else");
    if (r->algorithm && (q->summary || q->list))
        return cli_wrong(ME, "--algo: --%s shows every algorithm", q->list ? "list" : "summary");
    return CLI_OK;
}

/* A picture shows all ranks, and only so many can be looked at. */
static int check_picture(const reading *r)
{
    const cli_plan_request *q = &r->request;
    const char *option = q->draw ? "--draw" : "--svg";
    if (!q->draw && !q->svg)
        return CLI_OK;
    if (q->summary)
        return cli_wrong(ME, "%s and --summary: which?", option);
    if (given(r, RANK) || q->all_ranks)
        return cli_wrong(ME, "%s: a picture shows all ranks",
                         given(r, RANK) ? "--rank" : "--all-ranks");
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
static int check_kind(const reading *r)
{
    const ronda_kind kind = r->request.shape.kind;
    const char *name = rd_kind_name(kind), *lacks = NULL;
    if (given(r, OP) && !rd_kind_reduces(kind))
        lacks = "--op: %s has no op";
    else if (given(r, ROOT) && !rd_kind_rooted(kind))
        lacks = "--root: %s has no root";
    else if (r->request.op == RONDA_MEAN && rd_kind_reduces(kind) && !rd_kind_means(kind))
        lacks = "--op: mean is not defined for %s";
    else if (given(r, IN_PLACE) && rd_kind(kind)->place == RD_APART)
        lacks = "--in-place: %s does not work in place";
    else if ((given(r, COUNT) || given(r, TYPE)) && kind == RONDA_BARRIER)
        lacks = "--count, --type: %s has no elements";
    return lacks ? cli_wrong(ME, lacks, name) : CLI_OK;
}

static int find_algorithm(reading *r)
{
    const ronda_kind kind = r->request.shape.kind;
    char names[300];
    size_t length = 0;
    if (!r->algorithm)
        return CLI_OK;
    r->request.algorithm = rd_algorithm_named(kind, r->algorithm);
    if (r->request.algorithm)
        return CLI_OK;
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        if (a->kind == kind && length < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       length ? ", " : "", a->name);
    return cli_wrong(ME, "%s has no algorithm '%s'; it has %s", rd_kind_name(kind), r->algorithm,
                     names);
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
    cli_args a = {.command = ME, .count = count, .texts = arguments};
    reading r = {
        .request = {.shape = {.size = 4, .count = 1000}, .type = RONDA_F32, .op = RONDA_SUM}};
    r.request.segment_bytes = rd_facts_local(1).segment_bytes;
    for (int option; (option = cli_next(&a, options)) != CLI_END;)
        if (option == CLI_BAD || !read_one(&r, &a, option))
            return CLI_USAGE;

    cli_plan_request *q = &r.request;
    rd_shape *s = &q->shape;
    const bool every_kind = s->kind == 0 && (q->summary || q->list);
    if (!s->kind && !every_kind)
        s->kind = RONDA_ALLREDUCE;
    s->width = (uint32_t)ronda_type_size(q->type);
    s->mean = q->op == RONDA_MEAN;
    int status = check_hosts(&r);
    if (!status)
        status = check_numbers(&r);
    if (!status)
        status = check_picture(&r);
    if (!status && !every_kind)
        status = check_kind(&r);
    if (!status && !every_kind)
        status = find_algorithm(&r);
    if (!status && !every_kind)
        status = read_environment(q);
    if (status)
        return status;
    if (s->kind == RONDA_BARRIER) { /* one token of one byte, gathered by OR */
        s->count = s->width = 1;
        q->type = RONDA_U8;
        q->op = RONDA_BOR;
    }
    *out = *q;
    return CLI_OK;
}
