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

static const char *const ops[RD_OPS] = {
    [RONDA_SUM - RONDA_SUM] = "sum",   [RONDA_MEAN - RONDA_SUM] = "mean",
    [RONDA_PROD - RONDA_SUM] = "prod", [RONDA_MIN - RONDA_SUM] = "min",
    [RONDA_MAX - RONDA_SUM] = "max",   [RONDA_BAND - RONDA_SUM] = "band",
    [RONDA_BOR - RONDA_SUM] = "bor",   [RONDA_BXOR - RONDA_SUM] = "bxor"};

static const rd_kind_facts kinds[RD_KINDS] = {
    [RONDA_ALLREDUCE - RONDA_ALLREDUCE] = {.name = "allreduce",
                                           .gives = RD_BLOCK,
                                           .gets = RD_BLOCK,
                                           .place = RD_SAME,
                                           .reduces = true},
    [RONDA_REDUCE - RONDA_ALLREDUCE] = {.name = "reduce",
                                        .gives = RD_BLOCK,
                                        .gets = RD_BLOCK,
                                        .place = RD_SAME,
                                        .root_gets = true,
                                        .reduces = true,
                                        .rooted = true},
    [RONDA_BROADCAST - RONDA_ALLREDUCE] = {.name = "broadcast",
                                           .gives = RD_NOTHING,
                                           .gets = RD_BLOCK,
                                           .place = RD_APART,
                                           .rooted = true},
    [RONDA_ALLGATHER - RONDA_ALLREDUCE] = {.name = "allgather",
                                           .gives = RD_BLOCK,
                                           .gets = RD_BLOCKS,
                                           .place = RD_SEND_IN_RECV},
    [RONDA_ALLGATHERV - RONDA_ALLREDUCE] = {.name = "allgatherv",
                                            .gives = RD_BLOCK,
                                            .gets = RD_BLOCKS,
                                            .place = RD_SEND_IN_RECV,
                                            .counted = true},
    [RONDA_REDUCE_SCATTER - RONDA_ALLREDUCE] = {.name = "reduce_scatter",
                                                .gives = RD_BLOCKS,
                                                .gets = RD_BLOCK,
                                                .place = RD_RECV_IN_SEND,
                                                .reduces = true},
    [RONDA_REDUCE_SCATTERV - RONDA_ALLREDUCE] = {.name = "reduce_scatterv",
                                                 .gives = RD_BLOCKS,
                                                 .gets = RD_BLOCK,
                                                 .place = RD_RECV_IN_SEND,
                                                 .reduces = true,
                                                 .counted = true},
    [RONDA_GATHER - RONDA_ALLREDUCE] = {.name = "gather",
                                        .gives = RD_BLOCK,
                                        .gets = RD_BLOCKS,
                                        .place = RD_SEND_IN_RECV,
                                        .root_gets = true,
                                        .rooted = true},
    [RONDA_GATHERV - RONDA_ALLREDUCE] = {.name = "gatherv",
                                         .gives = RD_BLOCK,
                                         .gets = RD_BLOCKS,
                                         .place = RD_SEND_IN_RECV,
                                         .root_gets = true,
                                         .rooted = true,
                                         .counted = true},
    [RONDA_SCATTER - RONDA_ALLREDUCE] = {.name = "scatter",
                                         .gives = RD_BLOCKS,
                                         .gets = RD_BLOCK,
                                         .place = RD_RECV_IN_SEND,
                                         .root_gives = true,
                                         .rooted = true},
    [RONDA_SCATTERV - RONDA_ALLREDUCE] = {.name = "scatterv",
                                          .gives = RD_BLOCKS,
                                          .gets = RD_BLOCK,
                                          .place = RD_RECV_IN_SEND,
                                          .root_gives = true,
                                          .rooted = true,
                                          .counted = true},
    [RONDA_ALLTOALL - RONDA_ALLREDUCE] = {.name = "alltoall",
                                          .gives = RD_BLOCKS,
                                          .gets = RD_BLOCKS,
                                          .place = RD_SAME},
    [RONDA_ALLTOALLV - RONDA_ALLREDUCE] = {.name = "alltoallv",
                                           .gives = RD_BLOCKS,
                                           .gets = RD_BLOCKS,
                                           .place = RD_APART,
                                           .counted = true},
    [RONDA_SCAN - RONDA_ALLREDUCE] =
        {.name = "scan", .gives = RD_BLOCK, .gets = RD_BLOCK, .place = RD_SAME, .reduces = true},
    [RONDA_EXSCAN - RONDA_ALLREDUCE] =
        {.name = "exscan", .gives = RD_BLOCK, .gets = RD_BLOCK, .place = RD_SAME, .reduces = true},
    [RONDA_BARRIER - RONDA_ALLREDUCE] = {
        .name = "barrier", .gives = RD_BLOCK, .gets = RD_BLOCK, .place = RD_APART}};

enum { TYPES = sizeof types / sizeof *types };

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
    return rd_op_row(op) < RD_OPS ? ops[rd_op_row(op)] : user ? user->name : "?";
}

const rd_kind_facts *rd_kind(ronda_kind kind)
{
    static const rd_kind_facts none;
    return rd_kind_row(kind) < RD_KINDS ? &kinds[rd_kind_row(kind)] : &none;
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
    for (ronda_op o = RONDA_SUM; o <= RONDA_BXOR; o++)
        if (strcmp(name, rd_op_name(o)) == 0)
            return o;
    return 0;
}

ronda_kind rd_kind_named(const char *name)
{
    for (ronda_kind k = RONDA_ALLREDUCE; k <= RONDA_BARRIER; k++)
        if (strcmp(name, rd_kind_name(k)) == 0)
            return k;
    return 0;
}

bool rd_is_op(ronda_op op)
{
    return rd_op_row(op) < RD_OPS || rd_user_op_of(op);
}

void rd_not_text(int32_t number, const char *wanted, char *text, size_t capacity)
{
    const char *is = NULL, *name = NULL;
    if (ronda_type_size(number)) {
        is = "a type";
        name = rd_type_name(number);
    } else if (rd_is_op(number)) {
        is = "an op";
        name = rd_op_name(number);
    } else if ((name = rd_kind(number)->name)) {
        is = "a collective";
    }
    if (is)
        snprintf(text, capacity, "%" PRId32 " is %s (%s), not %s", number, is, name, wanted);
    else
        snprintf(text, capacity, "%" PRId32 " is not %s", number, wanted);
}

bool rd_op_allows(ronda_op op, ronda_type type)
{
    if (!rd_is_op(op) || ronda_type_size(type) == 0)
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

void rd_pending_text(const rd_pending *p, char *text, size_t capacity)
{
    const bool sends = p->direction == RD_SENDING;
    char tag[24] = "any tag", peer[24] = "any rank";
    if (p->tag != RONDA_ANY)
        snprintf(tag, sizeof tag, "tag %" PRIu32, p->tag);
    if (p->peer != RONDA_ANY)
        snprintf(peer, sizeof peer, "rank %" PRIu32, p->peer);
    snprintf(text, capacity, "%s of %" PRIu64 " %s with %s %s %s", sends ? "send" : "recv",
             p->count, rd_type_name(p->type), tag, sends ? "to" : "from", peer);
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
    else if (rd_record_purpose(r))
        snprintf(text, capacity, "split #%" PRIu64 " (its %s)", r->sequence, k->name);
    else if (r->kind == RONDA_BARRIER)
        snprintf(text, capacity, "barrier #%" PRIu64, r->sequence);
    else
        snprintf(text, capacity, "%s #%" PRIu64 "%s %s%s%s%s", rd_kind_name(r->kind), r->sequence,
                 *count ? count : " of", rd_type_name(r->type),
                 k->counted && *count ? " in all" : "", op, root);
}
