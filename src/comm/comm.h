/* comm.h: a communicator: one rank's end of a group, with its engine and the plans it has made. */
#ifndef RD_COMM_H
#define RD_COMM_H

#include "base/exits.h"
#include "base/log.h"
#include "comm/bootstrap.h"
#include "comm/environment.h"
#include "engine/messages.h"
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
    bool apart;         /* of the set no more: who drops it last frees it */
    uint64_t hash;      /* of what must be equal on all ranks: call and algorithm */
    uint64_t key;       /* of the whole call: where it is in the set */
    size_t bytes;       /* all of it takes */
    rd_prepared *next;  /* in its bucket */
    rd_prepared *newer, *older;
};

/* Bounded by bytes: what was used longest ago goes first. */
enum { RD_PREPARED_BYTES = 32 << 20 };
typedef struct {
    rd_prepared **buckets;        /* [bucket_count], a power of two, or 0 */
    rd_prepared *newest, *oldest; /* by when they were last asked for */
    uint32_t bucket_count, count;
    size_t bytes;      /* of all that are in it */
    size_t most_bytes; /* 0: RD_PREPARED_BYTES */
} rd_prepared_set;

/* A call that does not block.  Requests live until their communicator is closed, and are used again: whoever
 * waits twice is told so. */
struct ronda_request {
    ronda_comm *comm;
    ronda_request *next;   /* of all that the communicator has made */
    ronda_request *unused; /* the next of those that nobody has */
    bool open;
    rd_operation *operation;
    rd_message *message; /* instead of an operation */
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
typedef struct rd_block {
    struct rd_block *next;
    void *memory;
    size_t bytes;
} rd_block;

typedef struct rd_progress_thread rd_progress_thread;

/* What a communicator and all that were split off it share: one thread at a time uses them. */
typedef struct {
    uint32_t users;  /* communicators */
    uint32_t inside; /* calls that a thread is in, those that a call is made of counted too */
} rd_siblings;

struct ronda_comm {
    uint32_t rank, size;
    uint32_t generation; /* number of the process that made it: see base/generation.h */
    int32_t pid;         /* and what the system calls it */
    rd_exit_note exits;  /* of a world of processes */
    rd_siblings *siblings;
    rd_progress_thread *progress_thread; /* or NULL: calls move while the program is inside one */
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
    const rd_algorithm *forced[RD_KINDS]; /* by rd_kind_row(); NULL: by cost */
    rd_prepared_set prepared;
    _Atomic uint64_t *choices; /* [RD_CHOICES], or NULL: the link has them, or none was made */
    rd_block *blocks;          /* the one given last comes first */
    ronda_request *requests, *unused;
    uint32_t open_requests, tests;
    ronda_plan *plans;
    ronda_comm *abandoned; /* the next of those that forked.c has given up */
};

typedef struct {
    uint64_t timeout_ns;
    rd_log log;
    bool debug; /* SIGUSR1 asks what is under way */
    const rd_algorithm *forced[RD_KINDS];
    bool progress_thread; /* a thread moves calls under way */
} rd_settings;

/* settings.c: config, then environment, then defaults. */
ronda_status rd_settings_read(const ronda_config *config, rd_settings *out, rd_error *err);
ronda_status rd_world_read(const ronda_config *config, const rd_settings *settings, rd_joining *out,
                           rd_error *err);

/* comm.c */
/* sibling: NULL, or what it was split off */
ronda_status rd_comm_open(rd_link *link, const rd_settings *settings, ronda_comm *sibling,
                          ronda_comm **out, rd_error *err);
/* split.c */
ronda_status rd_comm_split(ronda_comm *c, int color, int key, ronda_comm **out);
ronda_status rd_comm_close(ronda_comm *c);
void rd_comm_dismantle(ronda_comm *c); /* the last half of it: its engine is gone */
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

/* progress_thread.c: NULL if there is no thread to be had.  share and drop: the lock is held. */
rd_progress_thread *rd_progress_thread_open(rd_engine *engine);
rd_progress_thread *rd_progress_thread_share(rd_progress_thread *t);
bool rd_progress_thread_drop(rd_progress_thread *t,
                             rd_engine *leaving); /* true: it is gone, and its lock */
void rd_progress_thread_enter(rd_progress_thread *t);
bool rd_progress_thread_try(rd_progress_thread *t); /* enters, if that can be done at once */
void rd_progress_thread_leave(rd_progress_thread *t);
void rd_progress_thread_forget(
    rd_progress_thread *t); /* in a forked process, which has no such thread */
static inline void rd_comm_lock(ronda_comm *c)
{
    if (c->progress_thread)
        rd_progress_thread_enter(c->progress_thread);
    c->siblings->inside++;
}
static inline bool rd_comm_try_lock(ronda_comm *c)
{
    if (c->progress_thread && !rd_progress_thread_try(c->progress_thread))
        return false;
    c->siblings->inside++;
    return true;
}
static inline void rd_comm_unlock(ronda_comm *c)
{
    c->siblings->inside--;
    if (c->progress_thread)
        rd_progress_thread_leave(c->progress_thread);
}

/* forked.c: this process was forked from the one that made the communicator, and is no rank of it. */
static inline bool rd_comm_inherited(const ronda_comm *c)
{
    return __builtin_expect(c->generation != rd_generation(), 0);
}
ronda_status rd_comm_refuse(ronda_comm *c, const char *function); /* RONDA_EINVAL, and why */
/* Gives back what is this process's of an inherited one, and tells nobody; it never waits. */
void rd_comm_close_inherited(ronda_comm *c);

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
/* RONDA_EINVAL: not what rd_comm_alloc gave, or a call under way has it */
ronda_status rd_comm_free(ronda_comm *c, void *memory);
/* RONDA_EINVAL: a call of another communicator has some of its memory */
ronda_status rd_comm_keeps_memory(ronda_comm *c);
void rd_comm_free_all(ronda_comm *c);

#endif
