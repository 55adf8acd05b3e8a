/* names.h: types, ops and kinds by name and by property; the tables behind messages and commands. */
#ifndef RD_NAMES_H
#define RD_NAMES_H

#include "ronda.h"

const char *rd_type_name(ronda_type type);  /* "f32"; "type 77" is not a type: "?" */
const char *rd_op_name(ronda_op op);        /* "sum" */
const char *rd_kind_name(ronda_kind kind);  /* "allreduce" */
ronda_type rd_type_named(const char *name); /* 0: none */
ronda_op rd_op_named(const char *name);
ronda_kind rd_kind_named(const char *name);
bool rd_type_is_float(ronda_type type);
bool rd_op_allows(ronda_op op, ronda_type type); /* both valid, and op defined for type */
bool rd_kind_reduces(ronda_kind kind);           /* has an op */
bool rd_kind_rooted(ronda_kind kind);            /* has a root */

/* One call as messages show it: "allreduce #3 of 10 f32, sum". */
typedef struct {
    uint64_t sequence, count, mark; /* mark: hash of this call and all before it */
    ronda_kind kind;
    ronda_type type;
    ronda_op op;
    uint32_t root, algorithm;
} rd_record;

void rd_record_text(const rd_record *record, char *text, size_t capacity);

#endif
