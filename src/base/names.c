/* names.c: what types, ops and kinds are called and allow. */
#include "base/names.h"

#include "base/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t size;
    bool is_float;
} types[] = {[RONDA_F16] = {"f16", 2, true},  [RONDA_BF16] = {"bf16", 2, true},
             [RONDA_F32] = {"f32", 4, true},  [RONDA_F64] = {"f64", 8, true},
             [RONDA_I8] = {"i8", 1, false},   [RONDA_U8] = {"u8", 1, false},
             [RONDA_I16] = {"i16", 2, false}, [RONDA_U16] = {"u16", 2, false},
             [RONDA_I32] = {"i32", 4, false}, [RONDA_U32] = {"u32", 4, false},
             [RONDA_I64] = {"i64", 8, false}, [RONDA_U64] = {"u64", 8, false}};

static const char *const ops[] = {
    [RONDA_SUM] = "sum", [RONDA_MEAN] = "mean", [RONDA_PROD] = "prod", [RONDA_MIN] = "min",
    [RONDA_MAX] = "max", [RONDA_BAND] = "band", [RONDA_BOR] = "bor",   [RONDA_BXOR] = "bxor"};

static const rd_kind_facts kinds[RD_KINDS] = {
    [RONDA_ALLREDUCE] = {.name = "allreduce",
                         .gives = RD_BLOCK,
                         .gets = RD_BLOCK,
                         .place = RD_SAME,
                         .reduces = true},
    [RONDA_REDUCE] = {.name = "reduce",
                      .gives = RD_BLOCK,
                      .gets = RD_BLOCK,
                      .place = RD_SAME,
                      .root_gets = true,
                      .reduces = true,
                      .rooted = true},
    [RONDA_BROADCAST] = {.name = "broadcast",
                         .gives = RD_NOTHING,
                         .gets = RD_BLOCK,
                         .place = RD_APART,
                         .rooted = true},
    [RONDA_ALLGATHER] = {.name = "allgather",
                         .gives = RD_BLOCK,
                         .gets = RD_BLOCKS,
                         .place = RD_SEND_IN_RECV},
    [RONDA_ALLGATHERV] = {.name = "allgatherv",
                          .gives = RD_BLOCK,
                          .gets = RD_BLOCKS,
                          .place = RD_SEND_IN_RECV,
                          .counted = true},
    [RONDA_REDUCE_SCATTER] = {.name = "reduce_scatter",
                              .gives = RD_BLOCKS,
                              .gets = RD_BLOCK,
                              .place = RD_RECV_IN_SEND,
                              .reduces = true},
    [RONDA_REDUCE_SCATTERV] = {.name = "reduce_scatterv",
                               .gives = RD_BLOCKS,
                               .gets = RD_BLOCK,
                               .place = RD_RECV_IN_SEND,
                               .reduces = true,
                               .counted = true},
    [RONDA_GATHER] = {.name = "gather",
                      .gives = RD_BLOCK,
                      .gets = RD_BLOCKS,
                      .place = RD_SEND_IN_RECV,
                      .root_gets = true,
                      .rooted = true},
    [RONDA_GATHERV] = {.name = "gatherv",
                       .gives = RD_BLOCK,
                       .gets = RD_BLOCKS,
                       .place = RD_SEND_IN_RECV,
                       .root_gets = true,
                       .rooted = true,
                       .counted = true},
    [RONDA_SCATTER] = {.name = "scatter",
                       .gives = RD_BLOCKS,
                       .gets = RD_BLOCK,
                       .place = RD_RECV_IN_SEND,
                       .root_gives = true,
                       .rooted = true},
    [RONDA_SCATTERV] = {.name = "scatterv",
                        .gives = RD_BLOCKS,
                        .gets = RD_BLOCK,
                        .place = RD_RECV_IN_SEND,
                        .root_gives = true,
                        .rooted = true,
                        .counted = true},
    [RONDA_ALLTOALL] = {.name = "alltoall",
                        .gives = RD_BLOCKS,
                        .gets = RD_BLOCKS,
                        .place = RD_SAME},
    [RONDA_ALLTOALLV] = {.name = "alltoallv",
                         .gives = RD_BLOCKS,
                         .gets = RD_BLOCKS,
                         .place = RD_APART,
                         .counted = true},
    [RONDA_SCAN] =
        {.name = "scan", .gives = RD_BLOCK, .gets = RD_BLOCK, .place = RD_SAME, .reduces = true},
    [RONDA_EXSCAN] =
        {.name = "exscan", .gives = RD_BLOCK, .gets = RD_BLOCK, .place = RD_SAME, .reduces = true},
    [RONDA_BARRIER] = {.name = "barrier", .gives = RD_BLOCK, .gets = RD_BLOCK, .place = RD_APART}};

enum { TYPES = sizeof types / sizeof *types, OPS = sizeof ops / sizeof *ops };

const char *rd_type_name(ronda_type type)
{
    return type > 0 && type < TYPES ? types[type].name : "?";
}

size_t ronda_type_size(ronda_type type)
{
    return type > 0 && type < TYPES ? types[type].size : 0;
}

bool rd_type_is_float(ronda_type type)
{
    return type > 0 && type < TYPES && types[type].is_float;
}

const char *rd_op_name(ronda_op op)
{
    const rd_user_op *user = op < RD_FIRST_USER_OP ? NULL : rd_user_op_of(op);
    return op > 0 && op < OPS ? ops[op] : user ? user->name : "?";
}

const rd_kind_facts *rd_kind(ronda_kind kind)
{
    return &kinds[kind > 0 && kind < RD_KINDS ? kind : 0];
}

const char *rd_kind_name(ronda_kind kind)
{
    const char *name = rd_kind(kind)->name;
    return name ? name : "?";
}

ronda_type rd_type_named(const char *name)
{
    for (ronda_type t = 1; t < TYPES; t++)
        if (strcmp(name, types[t].name) == 0)
            return t;
    return 0;
}

ronda_op rd_op_named(const char *name)
{
    for (ronda_op o = 1; o < OPS; o++)
        if (strcmp(name, ops[o]) == 0)
            return o;
    return 0;
}

ronda_kind rd_kind_named(const char *name)
{
    for (ronda_kind k = 1; k < RD_KINDS; k++)
        if (kinds[k].name && strcmp(name, kinds[k].name) == 0)
            return k;
    return 0;
}

bool rd_op_allows(ronda_op op, ronda_type type)
{
    if (op >= RD_FIRST_USER_OP)
        return rd_user_op_of(op) && ronda_type_size(type);
    if (op <= 0 || op >= OPS || ronda_type_size(type) == 0)
        return false;
    return !(rd_type_is_float(type) && (op == RONDA_BAND || op == RONDA_BOR || op == RONDA_BXOR));
}

bool rd_kind_reduces(ronda_kind kind)
{
    return rd_kind(kind)->reduces;
}

/* Of how many? */
bool rd_kind_means(ronda_kind kind)
{
    return rd_kind(kind)->reduces && kind != RONDA_SCAN && kind != RONDA_EXSCAN;
}

bool rd_kind_rooted(ronda_kind kind)
{
    return rd_kind(kind)->rooted;
}

int rd_kind_gives(ronda_kind kind, uint32_t rank, uint32_t root)
{
    const rd_kind_facts *k = rd_kind(kind);
    return k->root_gives && rank != root ? RD_NOTHING : k->gives;
}

/* Nothing comes before rank 0. */
int rd_kind_gets(ronda_kind kind, uint32_t rank, uint32_t root)
{
    const rd_kind_facts *k = rd_kind(kind);
    return (k->root_gets && rank != root) || (kind == RONDA_EXSCAN && rank == 0) ? RD_NOTHING
                                                                                 : k->gets;
}

void rd_record_text(const rd_record *r, char *text, size_t capacity)
{
    const rd_kind_facts *k = rd_kind(r->kind);
    char op[40] = "", root[32] = "", count[40] = "";
    if (k->reduces && r->op >= RD_FIRST_USER_OP && !rd_user_op_of(r->op))
        snprintf(op, sizeof op, ", an op unknown here");
    else if (k->reduces)
        snprintf(op, sizeof op, ", %s", rd_op_name(r->op));
    if (k->rooted)
        snprintf(root, sizeof root, k->root_gets ? " to root %" PRIu32 : " from root %" PRIu32,
                 r->root);
    if (r->kind != RONDA_ALLTOALLV) /* which has other counts on every rank */
        snprintf(count, sizeof count, " of %" PRIu64, r->count);
    if (!k->name)
        snprintf(text, capacity, "a message with a tag");
    else if (r->algorithm >> 16)
        snprintf(text, capacity, "split #%" PRIu64 " (its %s)", r->sequence, k->name);
    else if (r->kind == RONDA_BARRIER)
        snprintf(text, capacity, "barrier #%" PRIu64, r->sequence);
    else
        snprintf(text, capacity, "%s #%" PRIu64 "%s %s%s%s%s", rd_kind_name(r->kind), r->sequence,
                 *count ? count : " of", rd_type_name(r->type),
                 k->counted && *count ? " in all" : "", op, root);
}
