/* names.h: types, ops and kinds by name and by property; the tables behind messages and commands. */
#ifndef RD_NAMES_H
#define RD_NAMES_H

#include "ronda.h"

/* Ops and kinds are numbered without gaps from the first to the last; the row of a table that belongs to
 * one is 0 .. RD_OPS - 1 or 0 .. RD_KINDS - 1, and beyond of what is none. */
enum {
    RD_OPS = RONDA_BXOR - RONDA_SUM + 1, /* ronda's own */
    RD_KINDS = RONDA_BARRIER - RONDA_ALLREDUCE + 1
};
static inline uint32_t rd_op_row(ronda_op op)
{
    return (uint32_t)op - RONDA_SUM;
}
static inline uint32_t rd_kind_row(ronda_kind kind)
{
    return (uint32_t)kind - RONDA_ALLREDUCE;
}

const char *rd_type_name(ronda_type type);  /* "f32"; "type 77" is not a type: "?" */
const char *rd_op_name(ronda_op op);        /* "sum" */
const char *rd_kind_name(ronda_kind kind);  /* "allreduce" */
ronda_type rd_type_named(const char *name); /* 0: none */
ronda_op rd_op_named(const char *name);
ronda_kind rd_kind_named(const char *name);
/* That a number is not what was wanted ("a type"), and what it is: "101 is an op (sum), not a type". */
void rd_not_text(int32_t number, const char *wanted, char *text, size_t capacity);
bool rd_type_is_float(ronda_type type);
bool rd_is_op(ronda_op op);
bool rd_op_allows(ronda_op op, ronda_type type); /* both valid, and op defined for type */

/* What the ranks of a collective give and get: everything that follows from the kind alone.  A BLOCK is
 * as many elements as the call counts, BLOCKS one such block for each rank, in rank order. */
enum { RD_NOTHING, RD_BLOCK, RD_BLOCKS };
/* In place: not at all; recv is send; send is this rank's block of recv; recv is its block of send */
enum { RD_APART, RD_SAME, RD_SEND_IN_RECV, RD_RECV_IN_SEND };
typedef struct {
    const char *name;
    uint8_t gives, gets;
    uint8_t place;
    bool root_gives, root_gets; /* only the root does */
    bool reduces;               /* has an op */
    bool rooted;                /* has a root */
    bool counted;               /* each rank's block has a length of its own */
} rd_kind_facts;
const rd_kind_facts *rd_kind(ronda_kind kind); /* of what is no kind: a row without a name */
bool rd_kind_reduces(ronda_kind kind);
bool rd_kind_rooted(ronda_kind kind);
bool rd_kind_means(ronda_kind kind); /* and RONDA_MEAN means something there */
/* The same for one rank of it: RD_NOTHING, RD_BLOCK or RD_BLOCKS. */
int rd_kind_gives(ronda_kind kind, uint32_t rank, uint32_t root);
int rd_kind_gets(ronda_kind kind, uint32_t rank, uint32_t root);

/* One call as messages show it: "allreduce #3 of 10 f32, sum". */
typedef struct {
    uint64_t sequence, count, mark; /* mark: hash of this call and all before it */
    ronda_kind kind;
    ronda_type type;
    ronda_op op;
    uint32_t root;
    /* Its row of the table; from bit 16 on, what ronda itself wants with the call (0: nothing, it is the
     * program's); and RD_RECORD_URGENT if its priority is above 0 */
    uint32_t algorithm;
} rd_record;

#define RD_RECORD_URGENT 0x80000000u
static inline uint32_t rd_record_purpose(const rd_record *r)
{
    return (r->algorithm & ~RD_RECORD_URGENT) >> 16;
}

void rd_record_text(const rd_record *record, char *text, size_t capacity);

/* A message that a rank waits for, as messages show it: "send of 10 f32 with tag 3 to rank 1". */
typedef enum { RD_NO_MESSAGE, RD_SENDING, RD_RECEIVING } rd_direction;
typedef struct {
    rd_direction direction;
    ronda_type type;
    uint32_t peer, tag; /* RONDA_ANY: of a receive, any */
    uint64_t count;
} rd_pending;

void rd_pending_text(const rd_pending *pending, char *text, size_t capacity);

#endif
