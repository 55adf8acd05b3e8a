/* comm.h: a communicator: one rank's end of a group, with its engine and the plans it has made. */
#ifndef RD_COMM_H
#define RD_COMM_H

#include "base/log.h"
#include "comm/bootstrap.h"
#include "engine/engine.h"
#include "plan/choose.h"

/* A call, checked. */
typedef struct {
    ronda_kind kind;
    ronda_type type;
    ronda_op op; /* 0 if the kind has none */
    uint32_t root;
    uint64_t count; /* as the API counts; kinds that are counted: of all blocks; alltoallv: 0 */
    const size_t *counts; /* kinds that are counted: of each block; alltoallv: of what is sent */
    const size_t *recv_counts; /* alltoallv */
    bool in_place;
} rd_call;

/* Everything that a call of one shape needs, made once. */
typedef struct {
    rd_call call; /* counts: its own copy */
    rd_plan *plan;
    rd_fold_fn *fold;
    uint32_t algorithm; /* row of the table */
    uint64_t hash;      /* of what must be equal on all ranks: call and algorithm */
    uint64_t used;      /* when last */
} rd_prepared;

/* Bounded: what was used longest ago goes first. */
enum { RD_PREPARED = 64 };
typedef struct {
    rd_prepared at[RD_PREPARED];
    uint32_t count, last;
    uint64_t uses;
} rd_prepared_set;

/* What ronda_alloc() gave. */
typedef struct {
    void *memory;
    size_t bytes;
} rd_block;
typedef struct {
    rd_block *at;
    uint32_t count, capacity;
} rd_blocks;

struct ronda_comm {
    uint32_t rank, size;
    rd_link *link;
    rd_engine *engine;
    uint64_t sequence, mark; /* of the last call that was made */
    uint64_t timeout_ns;
    bool failed; /* for good, by cause */
    rd_error cause;
    rd_error error; /* of the last call that failed */
    rd_facts facts;
    rd_log log;
    const rd_algorithm *forced[RD_KINDS]; /* per kind; NULL: by cost */
    rd_prepared_set prepared;
    rd_blocks blocks;
};

typedef struct {
    uint64_t timeout_ns;
    rd_log log;
    const rd_algorithm *forced[RD_KINDS];
} rd_settings;

/* settings.c: config, then environment, then defaults. */
ronda_status rd_settings_read(const ronda_config *config, rd_settings *out, rd_error *err);
enum { RD_MOST_PROCESSES = 1024 };
ronda_status rd_world_read(const ronda_config *config, const rd_settings *settings, rd_joining *out,
                           rd_error *err);

/* comm.c */
ronda_status rd_comm_open(rd_link *link, const rd_settings *settings, ronda_comm **out,
                          rd_error *err);
ronda_status rd_comm_close(ronda_comm *c);
/* p: what rd_prepared_find() found, or NULL. */
ronda_status rd_comm_run(ronda_comm *c, const rd_call *call, const rd_prepared *p, const void *in,
                         void *out);
ronda_status rd_no_comm(const char *function); /* RONDA_EINVAL, and the thread's error says why */

/* prepared.c */
/* NULL: not there */
const rd_prepared *rd_prepared_find(const ronda_comm *c, rd_prepared_set *set, const rd_call *call);
/* NULL: no memory */
const rd_prepared *rd_prepared_make(ronda_comm *c, const rd_call *call);
void rd_prepared_free(rd_prepared_set *set);

/* memory.c */
void *rd_comm_alloc(ronda_comm *c, size_t bytes); /* NULL: none to be had */
bool rd_comm_free(ronda_comm *c, void *memory);   /* false: not what rd_comm_alloc gave */
void rd_comm_free_all(ronda_comm *c);

#endif
