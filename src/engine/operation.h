/* operation.h: a collective under way, as the engine's own files see it. */
#ifndef RD_OPERATION_H
#define RD_OPERATION_H

#include <assert.h>

#include "engine/engine.h"

typedef struct {
    rd_port *port;      /* NULL: "here" */
    uint32_t next, end; /* the step at its head; the lane is done when they meet */
    uint32_t base;      /* sends: number of the message less number of the step */
    uint32_t lent;      /* sends: 1 + the last step whose bytes were lent; 0: none */
    uint32_t lent_user; /* the same, of the caller's memory alone */
    uint32_t swapped;   /* the same, of slots, which are not in `lent`: no step waits for them */
    uint32_t posted;    /* receives: 1 + the step whose place the transport knows; 0: none */
    uint64_t taken;     /* bytes of the head step that are done already */
    char *
        back; /* sends: where the peer awaits the head step, whose first bytes are there; or NULL */
    uint32_t
        held; /* sends: rounds in which it left a piece to the one before in its multicast group, or had no slot */
    bool refused; /* sends: there was no place for the head step when it was last tried */
} rd_lane_state;

struct rd_operation {
    rd_job job;
    const rd_plan *plan;
    char *buffer[RD_BUFFERS];
    uint32_t width;
    uint32_t open_count;
    rd_lane_state *lanes; /* [plan->lane_count] */
    uint32_t *open;       /* lanes that are not done */
    uint32_t turn;        /* the next of them to run, by its place in open[] */
    uint32_t capacity;    /* of both */
    void *larger;         /* scratch for its channel, if the channel's is too small */
    size_t larger_bytes;
    bool begun, done;
    bool staged; /* it has waited for a slot in vain once: it does not again */
    bool sound;  /* done, and nobody had given up by then */
    bool lost;   /* it will never be done: the engine's cause says why */
    /* In the engine's list, oldest first, or in its store of unused ones */
    rd_operation *next, *before;
    rd_operation *behind; /* the next on its channel, as long as it is neither done nor lost */
};

typedef struct {
    rd_port *port;
    uint32_t peer, message;
} rd_loan_out;

typedef struct {
    void *memory;
    size_t bytes;
    rd_loan_out *owed; /* loans of this scratch, or of slots, that may not have been released yet */
    uint32_t owed_count;
    /* Neither done nor lost, oldest first: only the first of them may have begun */
    rd_operation *first, *last;
} rd_channel;

/* Notes a loan of scratch; one for each peer, the last. */
static inline void rd_channel_owes(rd_channel *c, rd_loan_out loan)
{
    uint32_t i = 0;
    while (i < c->owed_count && c->owed[i].port != loan.port)
        i++;
    c->owed[i] = loan;
    c->owed_count += i == c->owed_count;
}

typedef struct {
    uint32_t send; /* step */
    bool returned; /* into the peer's memory; else into what the transport reserved */
} rd_fused;

/* Rounds for which one waits for what may never come: over before a rank goes to sleep, if all are on one
 * host. */
enum { RD_PATIENCE = 500 };
_Static_assert((int)RD_PATIENCE < (int)RD_SPINS + (int)RD_YIELDS, "nobody sleeps meanwhile");

/* Of a pass, where bytes must be written to reserved places */
enum { RD_MOST_OUTS = 16, RD_MOST_STRIPPED = 64 };

/* How far a peer's cache seems to be: see stage.c. */
typedef struct {
    bool far;
    uint8_t votes;
    uint32_t turn, rest; /* pieces: since it was last probed, until it is next tried */
    uint32_t slow_ns;    /* what a KiB took last */
} rd_distance;

/* Memory by which bytes go to a peer and come back: see swap.c.  Engines of one rank share it if their links
 * take memory from the same heap. */
enum { RD_SLOTS = RD_SKEW + 2, RD_SWAP_RANKS = 16 };
typedef struct {
    rd_port *port; /* of the loan that filled it last, which was number `message`; NULL: none */
    uint32_t message;
    uint32_t awaited; /* 1 + the receive that empties it, 0: none */
} rd_swap_slot;
typedef struct {
    uint32_t engines; /* that share it */
    char *memory;
    size_t bytes, refused;    /* what it has; what was not to be had, 0: nothing so far */
    const rd_operation *user; /* NULL: nobody */
    const rd_engine *owner;   /* of its user, and of the last one */
    uint32_t slots; /* for each peer, and bytes from one to the next, as the user has cut it */
    size_t stride;
    rd_swap_slot of[RD_SWAP_RANKS * RD_SLOTS]; /* RD_SLOTS for each rank of its owner's world */
} rd_swap;

enum { RD_ALL_CHANNELS = RD_CHANNELS + RD_MESSAGE_CHANNELS };

/* Bytes that are copied or folded for one operation before those with more priority are looked at again.  A single step
 * does RD_PIECE of them at most. */
enum { RD_BUDGET = RD_PIECE / 2 };

struct rd_engine {
    rd_link *link;
    const rd_transport *transport;
    rd_engine
        *sibling; /* the next in the ring of engines that one thread moves; itself: there is none */
    rd_operation *first, *last; /* that nobody has waited for, oldest first */
    rd_operation *unused;
    uint32_t busy; /* channels with operations that are neither done nor lost, one bit each */
    struct rd_messages *messages; /* NULL: no message so far */
    bool lanes_only;
    bool moving;            /* this thread is inside, and moves it */
    uint64_t spent;         /* bytes that were copied or folded since an operation had its turn */
    _Atomic bool told;      /* the launcher of its failure, if there is one */
    bool gave_up;           /* the world has failed, and this rank has left it once */
    bool announced;         /* something of messages stands on the board */
    bool heard;             /* the program has been told that it has failed */
    uint64_t timeout_ns;    /* of the last wait that took long; 0: none did */
    rd_error cause;         /* why operations were lost */
    uint32_t answered;      /* what rd_dump_signals was when it last was */
    uint32_t tests;         /* how many more may find nothing to do before the clock is read */
    uint64_t tested_ns;     /* when the next one looks around */
    uint64_t entered;       /* sequence of the last job */
    uint32_t wrong;         /* 1 + a peer whose message does not fit, 0: none */
    bool invalid;           /* it cannot even be a message */
    rd_record wronged;      /* the call that met it */
    rd_port **ports;        /* [size][RD_ALL_CHANNELS], as they were asked for */
    rd_view *views;         /* [size], for a fold_many */
    const void **ins;       /* [size + 1] */
    void **outs;            /* [size + 1] */
    rd_fused *fused;        /* [size]: sends that a fold does by the way */
    rd_distance *distances; /* [size] */
    rd_channel channels[RD_CHANNELS];
    rd_swap *swap;
    /* Threads that wait for this one to let them in (see progress_thread.c); NULL: there is no other */
    const _Atomic uint32_t *wanted;
};

/* progress.c */
uint32_t rd_engine_progress(rd_engine *e);   /* how many steps that were */
bool rd_siblings_busy(const rd_engine *e);   /* others of the ring have calls under way */
uint32_t rd_siblings_progress(rd_engine *e); /* moves them; how many steps that were */
/* Of the first operations on these channels, one bit each: which moves next; NULL: none. */
rd_operation *rd_operation_next(const rd_engine *e, uint32_t channels);
uint32_t rd_channel_bit(const rd_engine *e, const rd_operation *f);
/* Calls of higher priority have the second half of the channels: they wait for no others. */
static inline uint32_t rd_channel_number(const rd_engine *e, const rd_job *job)
{
    const uint32_t half = e->link->channels / 2; /* a power of two */
    return (job->priority > 0 ? half : 0) + (uint32_t)(job->record.sequence & (half - 1));
}
static inline rd_channel *rd_channel_of(rd_engine *e, const rd_job *job)
{
    return &e->channels[rd_channel_number(e, job)];
}
/* Whether all loans of a channel's scratch have been released; forgets those that have. */
bool rd_channel_paid(rd_channel *c);

static inline bool rd_has_spent(const rd_engine *e)
{
    return e->spent >= RD_BUDGET;
}

/* run.c */
void rd_operation_begin(rd_engine *e, rd_operation *f); /* its channel is free */
/* Until all its lanes have had their turn, or RD_BUDGET bytes are done: then rd_has_spent(), and the next call goes on
 * from there.  How many steps were done; 0: nothing could move */
uint32_t rd_operation_advance(rd_engine *e, rd_operation *f);
/* It will never be done: what comes for it is not written to its memory any more */
void rd_operation_cancel(const rd_operation *f);
/* All steps done, and all of the caller's memory is released */
bool rd_operation_ended(rd_engine *e, rd_operation *f);

/* stage.c: into what a transport reserved, at the beginning of a cache line. */
void rd_stage(rd_distance *d, void *to, const void *from, size_t bytes);
/* The same without taking the time. */
void rd_stage_plain(void *to, const void *from, size_t bytes);
/* out[outs - 1] is such a place, of a peer that is far; the others are not. */
void rd_fold_staged(const rd_job *job, uint32_t width, void *const out[], uint32_t outs,
                    const void *const in[], uint32_t ins, size_t count, uint32_t divisor);

/* rd_land() of many bytes. */
void rd_land_long(const rd_plan *p, const rd_step *s, void *to, const void *from, size_t bytes);

/* swap.c */
/* The send s of private bytes, which come back, at the head of a lane.  False: not this way; else how many
 * steps that were: 0, not now. */
bool rd_swap_send(rd_engine *e, rd_operation *f, rd_lane_state *lane, const rd_step *s,
                  const char *from, uint32_t *ran);
/* Empties the slot that this receive awaits: where it is, until the operation's next step; NULL: it awaits none. */
const char *rd_swap_take(rd_engine *e, const rd_operation *f, const rd_step *s);
void rd_swap_end(rd_engine *e, const rd_operation *f); /* it is done, or will never be */
/* sibling: NULL, it is the first.  false: no memory */
bool rd_swap_open(rd_engine *e, const rd_engine *sibling);
void rd_swap_close(rd_engine *e); /* what e has lent is released, or its world has failed */

/* straight.c */
ronda_status rd_run_straight(rd_engine *e, const rd_job *job, uint64_t timeout_ns, rd_error *err);

/* engine.c: what a waiting loop does when nothing moved. */
typedef struct {
    uint32_t idle; /* rounds without progress */
    uint64_t timeout_ns, deadline_ns, look_ns, tick_ns;
    uint64_t late_ns;  /* from then on the call is far later than it should be */
    uint32_t goodbyes; /* that were known when it last looked */
} rd_patience;
void rd_patience_begin(rd_patience *p,
                       uint64_t now); /* the first time that it looks at the clock */
struct rd_awaited {                   /* one thing that a straight walk waits for */
    rd_port *port;
    uint32_t peer;
    bool sends; /* room to send; else a message */
    const rd_job *job;
    const rd_step *step;
};
/* Of one who has found nothing to do a few times: asked each time, and now and then it looks at the clock. */
bool rd_is_late(const rd_patience *patience);
/* what: of a straight walk; NULL: whatever the operations wait for, and hint where news may come from. */
ronda_status rd_engine_idle(rd_engine *e, const rd_record *call, const rd_awaited *what,
                            rd_port *hint, rd_patience *patience, rd_error *err);
/* Err is the cause; returns its status */
ronda_status rd_engine_give_up(rd_engine *e, rd_error *err);
void rd_engine_quiesce(rd_engine *e, uint64_t timeout_ns);
void rd_engine_pump(rd_engine *e);       /* for those who do not wait: takes in what has come */
void rd_engine_look_after(rd_engine *e); /* now and then: do the peers live, and agree? */
void rd_engine_step_in(rd_engine *e);    /* back to calls under way */
void rd_engine_step_out(rd_engine *e);   /* to the caller, with or without calls under way */
void rd_engine_lose(rd_engine *e);       /* the same, for what is found by the way */

/* look.c */
/* Does an operation that has begun wait for the peer of its lane l, be it for a message, for room, or for
 * a loan to be released? */
bool rd_lane_waits(const rd_operation *f, uint32_t l);
/* What has gone wrong with those that are waited for, by `what` or by all operations; else OK and one whom we
 * wait for, RONDA_ANY: nobody, things can go on. */
ronda_status rd_look_around(rd_engine *e, const rd_record *call, const rd_awaited *what,
                            uint32_t *whom, rd_error *err);
/* The same of those who have not taken what they were lent of a channel's memory */
ronda_status rd_look_at_loans(rd_engine *e, const rd_channel *c, const rd_record *call,
                              uint32_t *whom, rd_error *err);

/* closing.c: for a rank that closes: whether its last calls were those of its peers, as far as that is known.  It
 * waits for nobody. */
ronda_status rd_look_back(rd_engine *e, rd_error *err);
/* Waits until peers have taken what they were lent.  failed: the world had, before this rank closed */
ronda_status rd_settle(rd_engine *e, uint64_t timeout_ns, bool failed, rd_error *err);

/* trouble.c: what went wrong, in a sentence. */
/* "1-4, 7": those of `size` ranks, cut at the capacity.  How many they are. */
uint32_t rd_ranks_text(const bool is[], uint32_t size, char *text, size_t capacity);
ronda_status rd_trouble_mismatch(rd_link *link, const rd_record *mine, uint32_t peer,
                                 rd_error *err);
/* OK: its calls are ours */
ronda_status rd_trouble_look(rd_link *link, const rd_record *mine, uint32_t peer, rd_error *err);
ronda_status rd_trouble_invalid(rd_link *link, const rd_record *mine, uint32_t peer, rd_error *err);
ronda_status rd_trouble_closed(rd_link *link, const rd_record *mine, uint32_t peer, rd_error *err);
/* The peer has made this call and has closed; this rank closes and has not made it. */
ronda_status rd_trouble_missed(rd_link *link, const rd_record *theirs, uint32_t peer,
                               rd_error *err);
/* A message that this rank waits for: what the others do instead. */
ronda_status rd_trouble_message(rd_link *link, const rd_pending *mine, uint64_t timeout_ns,
                                rd_error *err);
ronda_status rd_trouble_timeout(rd_link *link, const rd_record *mine, uint32_t peer,
                                uint64_t timeout_ns, rd_error *err);

/* One pass of arithmetic, the library's or the user's. */
static inline void rd_job_fold(const rd_job *job, void *const out[], uint32_t outs,
                               const void *const in[], uint32_t ins, size_t count, uint32_t divisor)
{
    if (!job->user) {
        job->fold(out, outs, in, ins, count, divisor);
        return;
    }
    if (job->running)
        atomic_store_explicit(job->running, 1, memory_order_release);
    rd_user_fold(job->user, job->record.type, out, outs, in, ins, count);
    if (job->running)
        atomic_store_explicit(job->running, 0, memory_order_release);
}

/* Moves a few bytes or many, the commonest sizes without a call. */
static inline void rd_put(void *to, const void *from, size_t bytes)
{
    if (bytes == 8)
        __builtin_memcpy(to, from, 8);
    else if (bytes == 4)
        __builtin_memcpy(to, from, 4);
    else if (bytes == 16)
        __builtin_memcpy(to, from, 16);
    else if (bytes)
        rd_move(to, from, bytes);
}

/* Writes what step s has received, or copies. */
static inline void rd_land(const rd_plan *p, const rd_step *s, void *to, const void *from,
                           size_t bytes)
{
    enum { LONG = 4 << 10 };
    if (bytes < LONG)
        rd_put(to, from, bytes);
    else
        rd_land_long(p, s, to, from, bytes);
}

/* The port to a peer, remembered. */
static inline rd_port *rd_port_to(rd_engine *e, uint32_t peer, uint32_t channel)
{
    rd_port **port = &e->ports[peer * RD_ALL_CHANNELS + channel];
    if (!*port)
        *port = e->transport->port(e->link, peer, channel);
    return *port;
}

#endif
