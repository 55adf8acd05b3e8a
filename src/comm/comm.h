/* comm.h: a communicator: one rank's end of a group, with its engine and the plans it has made. */
#ifndef RD_COMM_H
#define RD_COMM_H

#include "base/log.h"
#include "comm/bootstrap.h"
#include "comm/environment.h"
#include "engine/mail.h"
#include "plan/choose.h"
#include "plan/hosts.h"

typedef struct rd_prepared rd_prepared;

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
    const rd_algorithm *algorithm; /* NULL: by the environment, or by cost */
    uint8_t purpose;     /* of ronda itself, such as to split: 1 ...; 0: the program\'s own call */
    uint64_t timeout_ns; /* 0: the communicator's */
    int32_t priority;    /* of a call that does not block */
    rd_prepared *const *known; /* not in place, in place: what a plan object holds; NULL: nothing */
} rd_call;

/* Everything that a call of one shape needs, made once. */
struct rd_prepared {
    rd_call call; /* counts: its own copy */
    rd_plan *plan;
    rd_fold_fn *fold;
    const rd_user_op *user;
    uint32_t algorithm; /* row of the table */
    uint32_t users;     /* requests and plans that hold it: it stays */
    bool apart;         /* not one of the set: all of that were held */
    uint64_t hash;      /* of what must be equal on all ranks: call and algorithm */
    uint64_t used;      /* when last */
};

/* Bounded: what was used longest ago goes first. */
enum { RD_PREPARED = 64 };
typedef struct {
    rd_prepared at[RD_PREPARED];
    uint32_t count, last;
    uint64_t uses;
} rd_prepared_set;

/* A call that does not block.  Requests live until their communicator is closed, and are used again: whoever
 * waits twice is told so. */
struct ronda_request {
    ronda_comm *comm;
    ronda_request *next;   /* of all that the communicator has made */
    ronda_request *unused; /* the next of those that nobody has */
    bool open;
    rd_flight *flight;
    rd_letter *letter; /* instead of a flight */
    ronda_message *info;
    rd_prepared *prepared;
    uint64_t timeout_ns;
    uint8_t everyone; /* the token of a barrier */
};

struct ronda_plan {
    ronda_comm *comm; /* NULL: it has been closed */
    ronda_plan *next; /* among the communicator's */
    rd_call call;
    rd_prepared *prepared[2]; /* not in place, in place; NULL: not needed so far */
};

/* What ronda_alloc() gave. */
typedef struct {
    void *memory;
    size_t bytes;
} rd_block;
typedef struct {
    rd_block *at;
    uint32_t count, capacity;
} rd_blocks;

typedef struct rd_tender rd_tender;

struct ronda_comm {
    uint32_t rank, size;
    rd_tender *tender; /* or NULL: calls move while the program is inside one */
    rd_link *link;
    rd_engine *engine;
    uint64_t sequence, mark; /* of the last call that was made */
    uint64_t timeout_ns;
    bool listens; /* to SIGUSR1 */
    bool failed;  /* for good, by cause */
    rd_error cause;
    rd_error error; /* of the last call that failed */
    rd_facts facts;
    rd_hosts *hosts; /* NULL: one, or nobody knows */
    rd_log log;
    uint8_t everyone;                     /* the token of a barrier that blocks */
    const rd_algorithm *forced[RD_KINDS]; /* per kind; NULL: by cost */
    rd_prepared_set prepared;
    rd_blocks blocks;
    ronda_request *requests, *unused;
    uint32_t open_requests, tests;
    ronda_plan *plans;
};

typedef struct {
    uint64_t timeout_ns;
    rd_log log;
    bool debug; /* SIGUSR1 asks what is under way */
    const rd_algorithm *forced[RD_KINDS];
    bool tended; /* a thread moves calls under way */
} rd_settings;

/* settings.c: config, then environment, then defaults. */
ronda_status rd_settings_read(const ronda_config *config, rd_settings *out, rd_error *err);
ronda_status rd_world_read(const ronda_config *config, const rd_settings *settings, rd_joining *out,
                           rd_error *err);

/* comm.c */
/* kin: NULL, or what it was split off */
ronda_status rd_comm_open(rd_link *link, const rd_settings *settings, ronda_comm *kin,
                          ronda_comm **out, rd_error *err);
/* split.c */
ronda_status rd_comm_split(ronda_comm *c, int color, int key, ronda_comm **out);
ronda_status rd_comm_close(ronda_comm *c);
/* p: what rd_prepared_find() found, or NULL. */
ronda_status rd_comm_run(ronda_comm *c, const rd_call *call, rd_prepared *p, const void *in,
                         void *out);
ronda_status rd_comm_start(ronda_comm *c, const rd_call *call, rd_prepared *p, const void *in,
                           void *out, ronda_request **request);
ronda_status rd_comm_wait(ronda_request *r); /* it is over */
bool rd_comm_test(ronda_request *r);         /* the wait will not wait */
ronda_status rd_comm_post(ronda_comm *c, const rd_posting *what, ronda_message *info,
                          ronda_request **request);
void rd_requests_free(ronda_comm *c);

/* tender.c: NULL if there is no thread to be had.  share and drop: the lock is held. */
rd_tender *rd_tender_open(rd_engine *engine);
rd_tender *rd_tender_share(rd_tender *t);
bool rd_tender_drop(rd_tender *t, const rd_engine *leaving); /* true: it is gone, and its lock */
void rd_tender_enter(rd_tender *t);
bool rd_tender_try(rd_tender *t); /* enters, if that can be done at once */
void rd_tender_leave(rd_tender *t);
static inline void rd_comm_lock(ronda_comm *c)
{
    if (c->tender)
        rd_tender_enter(c->tender);
}
static inline void rd_comm_unlock(ronda_comm *c)
{
    if (c->tender)
        rd_tender_leave(c->tender);
}

/* The communicator's error, of this rank and about nobody; the message begins with "rank N: ". */
ronda_status rd_comm_fail(ronda_comm *c, ronda_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What every call on it returns from now on, if it has failed for good. */
static inline ronda_status rd_comm_over(ronda_comm *c)
{
    if (c->failed)
        c->error = c->cause;
    return c->cause.status;
}

/* submit.c: checks a call and runs it; request: NULL, or where to put it if it is not to block */
ronda_status rd_submit(ronda_comm *c, rd_call *call, const void *send, void *recv,
                       ronda_request **request);
ronda_status rd_check_shape(ronda_comm *c,
                            rd_call *call); /* all but the buffers; sets call->count */
ronda_status rd_invalid(ronda_comm *c, ronda_kind kind, const char *what);
ronda_status rd_no_comm(const char *function); /* RONDA_EINVAL, and the thread's error says why */

/* prepared.c */
/* NULL: not there */
rd_prepared *rd_prepared_find(const ronda_comm *c, rd_prepared_set *set, const rd_call *call);
/* NULL: no memory */
rd_prepared *rd_prepared_make(ronda_comm *c, const rd_call *call);
void rd_prepared_hold(rd_prepared *p);
void rd_prepared_drop(rd_prepared *p);
void rd_prepared_free(rd_prepared_set *set);

/* plans.c */
ronda_status rd_plan_object(ronda_comm *c, rd_call *call, ronda_plan **out);
ronda_status rd_plan_object_start(ronda_plan *p, const void *send, void *recv, ronda_request **out);
void rd_plan_object_free(ronda_plan *p);
void rd_plans_orphan(ronda_comm *c); /* their communicator goes */

/* memory.c */
void *rd_comm_alloc(ronda_comm *c, size_t bytes); /* NULL: none to be had */
bool rd_comm_free(ronda_comm *c, void *memory);   /* false: not what rd_comm_alloc gave */
void rd_comm_free_all(ronda_comm *c);

#endif
