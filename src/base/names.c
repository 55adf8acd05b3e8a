/* names.c: what types, ops and kinds are called and allow. */
#include "base/names.h"

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

static const char *const kinds[] = {[RONDA_ALLREDUCE] = "allreduce",
                                    [RONDA_BROADCAST] = "broadcast",
                                    [RONDA_ALLGATHER] = "allgather",
                                    [RONDA_REDUCE_SCATTER] = "reduce_scatter",
                                    [RONDA_BARRIER] = "barrier"};

enum {
    TYPES = sizeof types / sizeof *types,
    OPS = sizeof ops / sizeof *ops,
    KINDS = sizeof kinds / sizeof *kinds
};

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
    return op > 0 && op < OPS ? ops[op] : "?";
}

const char *rd_kind_name(ronda_kind kind)
{
    return kind > 0 && kind < KINDS && kinds[kind] ? kinds[kind] : "?";
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
    for (ronda_kind k = 1; k < KINDS; k++)
        if (kinds[k] && strcmp(name, kinds[k]) == 0)
            return k;
    return 0;
}

bool rd_op_allows(ronda_op op, ronda_type type)
{
    if (op <= 0 || op >= OPS || ronda_type_size(type) == 0)
        return false;
    return !(rd_type_is_float(type) && (op == RONDA_BAND || op == RONDA_BOR || op == RONDA_BXOR));
}

bool rd_kind_reduces(ronda_kind kind)
{
    return kind == RONDA_ALLREDUCE || kind == RONDA_REDUCE_SCATTER;
}

bool rd_kind_rooted(ronda_kind kind)
{
    return kind == RONDA_BROADCAST;
}

void rd_record_text(const rd_record *r, char *text, size_t capacity)
{
    char tail[64] = "";
    if (rd_kind_reduces(r->kind))
        snprintf(tail, sizeof tail, ", %s", rd_op_name(r->op));
    if (rd_kind_rooted(r->kind))
        snprintf(tail, sizeof tail, " from root %" PRIu32, r->root);
    if (r->kind == RONDA_BARRIER)
        snprintf(text, capacity, "barrier #%" PRIu64, r->sequence);
    else
        snprintf(text, capacity, "%s #%" PRIu64 " of %" PRIu64 " %s%s", rd_kind_name(r->kind),
                 r->sequence, r->count, rd_type_name(r->type), tail);
}
