/* engine.h: runs sealed plans over a link.
 *
 * One engine per rank.  An operation is one collective under way.  Several may be: each is on a channel of
 * its own, and whoever waits for one moves them all.  The engine has no thread; it runs inside the
 * calls that wait.  After warm-up it allocates nothing, and it never takes a lock. */
#ifndef RD_ENGINE_H
#define RD_ENGINE_H

#include "base/dump_signal.h"
#include "base/ops.h"
#include "engine/fold.h"
#include "plan/plan.h"
#include "transport/control.h"

typedef struct rd_engine rd_engine;
typedef struct rd_operation rd_operation;
typedef struct rd_awaited rd_awaited;

typedef struct {
    const rd_plan *plan; /* stays until the operation has been waited for */
    const void *in;
    void *out;
    void *
        state; /* plan->state elements, zeros before its first run; one run at a time.  NULL: none */
    rd_fold_fn *fold; /* NULL if the plan folds nothing, or by the user's op: */
    const rd_user_op *user;
    rd_record record;          /* sequence numbers rise by one from job to job, from 1 */
    int32_t priority;          /* of what can move, what has more of it moves first */
    _Atomic uint32_t *running; /* of the link: not 0 while the user's op runs; or NULL */
} rd_job;

/* RONDA_ENOMEM; the link stays the caller's.  sibling: NULL, or an engine that the same thread uses: whoever
 * waits for one moves both. */
ronda_status rd_engine_open(rd_link *link, rd_engine *sibling, rd_engine **out);

/* Looks whether the last calls of its peers were this rank's (closing.c).  Lets peers finish with what this rank has
 * lent them, up to the timeout, and frees in any case. */
ronda_status rd_engine_close(rd_engine *e, uint64_t timeout_ns, rd_error *err);
void rd_engine_free(rd_engine *e); /* the last half of it: nobody is waited for */

/* Begins a collective.  RONDA_ENOMEM: nothing was sent, and the sequence number is free again. */
ronda_status rd_engine_start(rd_engine *e, const rd_job *job, rd_operation **out);

/* Until it is done, or has failed: then *err has the cause, which is the same for all ranks and for
 * good.  The operation is over in either case: exactly one wait for each start. */
ronda_status rd_engine_wait(rd_engine *e, rd_operation *operation, uint64_t timeout_ns,
                            rd_error *err);

/* Moves what can be moved, without waiting for anybody.  true: the operation is done or has failed, and a
 * wait will say which without waiting. */
bool rd_engine_test(rd_engine *e, rd_operation *operation);

/* Both at once: what blocking calls use. */
ronda_status rd_engine_run(rd_engine *e, const rd_job *job, uint64_t timeout_ns, rd_error *err);

/* For a thread that moves calls under way, of this engine and its siblings, while nobody is inside. */
bool rd_engine_busy(const rd_engine *e);       /* there are some */
uint32_t rd_engine_progress_all(rd_engine *e); /* moves them; how many steps that were */
void rd_engine_sleep(rd_engine *e,
                     bool briefly); /* after nothing moved: until something may have happened */
void rd_engine_wake(rd_engine *e);  /* any thread: who sleeps wakes up */
rd_engine *rd_engine_next(const rd_engine *e); /* of the ring; NULL: it is alone */
/* While this is not 0, what moves calls returns after the next piece.  NULL: it need not */
void rd_engine_let_in(rd_engine *e, const _Atomic uint32_t *wanted);

/* Has the world failed in a way that concerns the call of this number? */
bool rd_engine_must_leave(rd_engine *e, uint64_t sequence);
void rd_engine_cause(rd_engine *e, rd_error *out); /* and why; status is never RONDA_OK */
void rd_engine_heard(rd_engine *e); /* a call has returned it: closing need not say it again */

/* in_use.c: does a call that nobody has waited for, of this engine or of one that the same thread uses, have some
 * of this memory?  Then text is its description.  others_only: not of this engine. */
enum { RD_USE_TEXT = 220 };
bool rd_engine_uses(const rd_engine *e, bool others_only, const void *memory, size_t bytes,
                    char *text, size_t capacity);

/* dump.c: what is under way, as text.  RONDA_ESYSTEM: the descriptor takes no bytes. */
ronda_status rd_engine_dump(rd_engine *e, int fd, rd_error *err);
/* The same on standard error, if somebody has asked since it was last told; what: of a straight walk */
void rd_engine_answer(rd_engine *e, const rd_awaited *what);
/* For every entry and every idle round: a load, as long as nobody ever asked. */
static inline void rd_engine_heed(rd_engine *e, const rd_awaited *what)
{
    if (__builtin_expect(rd_dump_requests() != 0, 0))
        rd_engine_answer(e, what);
}

/* For tests: walk no plan straight. */
void rd_engine_use_lanes(rd_engine *e);

#endif
