/* transport.h: what carries messages between ranks, and what every transport must promise.
 *
 * A link is one rank's end of a world.  Between any two ranks there are up to RD_CHANNELS channels, each a
 * queue of messages in either direction, in order; a port is this rank's end of one channel.
 * Half of the channels are for collectives of ordinary priority, half for those of a higher one.  Collective
 * number q runs on channel q % (channels / 2) of its half, and not before this rank has finished the one before
 * it there: so messages of different collectives never stand in each other's way, a collective of higher
 * priority waits for no ordinary one, and a rank that is ahead fills at most a queue.  That is the eager credit.
 *
 *       rank a                                             rank b
 *     port (b, c)   --- queue of RD_QUEUE messages --->   port (a, c)
 *                   <--- queue of RD_QUEUE messages ---
 *
 * A message carries up to RD_INLINE bytes itself, or lends a range of the sender's memory: the
 * receiver is shown a VIEW of the bytes, uses them where they lie, and releases them; then they are
 * home.  A loan may name a place of the sender's where it awaits a later message of the
 * same collective: the receiver may store that message there itself and send an empty "returned".
 *
 * Calls go down only: a transport never calls the engine.  Nothing here blocks but wait(), quiesce()
 * and close(). */
#ifndef RD_TRANSPORT_H
#define RD_TRANSPORT_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/generation.h"
#include "base/limits.h"
#include "base/names.h"

enum { RD_CHANNELS = 8, RD_QUEUE = 16, RD_INLINE = RD_INLINE_BYTES, RD_CHOICES = 256 };

/* The longest piece that reserve() gives, and what there is always room for when the peer has taken
 * everything that it was sent before. */
enum { RD_PIECE = 1 << 18, RD_SHORT_PIECE = 1 << 11 };

typedef struct rd_port rd_port;
typedef struct rd_transport rd_transport;

/* What every link begins with. */
typedef struct rd_link {
    const rd_transport *transport;
    uint32_t rank, size;
    /* To each peer, for collectives: twice a power of two, RD_CHANNELS at most.  Two more are for messages */
    uint32_t channels;
    uint32_t
        cpus; /* cores for all ranks of this machine together; the same number for all of them */
    /* [RD_CHOICES], or NULL: what ranks of this machine have chosen, so that one prices for all: any
     * rank would come to the same */
    _Atomic uint64_t *choices;
    const _Atomic uint32_t *goodbyes; /* grows when a rank closes: time to look who */
    const _Atomic uint32_t *alarm;    /* not 0: the world has failed, cause() says why */
    const uint32_t
        *host_of; /* [size]: ranks with equal numbers share memory; NULL: all do, or none */
    struct rd_link *whole; /* of a part of a world (see split): the link to all of it; else NULL */
    /* Set by the communicator.  0: not known */
    uint64_t timeout_ns;       /* of its calls: what follows a failure must be short beside it */
    uint64_t close_by_ns;      /* when close() must be over, whatever is still owed */
    _Atomic uint32_t *running; /* where this rank says that it runs the program's own op, or NULL */
    /* Where alloc() takes memory from, as an identity: what one link gave another one of this rank can free
     * and lend if both have the same; never NULL */
    const void *heap;
    uint32_t generation; /* number of the process that made it: see base/generation.h */
} rd_link;

/* This process was forked from the one whose link this is: it has a copy, and is no rank. */
static inline bool rd_link_inherited(const rd_link *link)
{
    return link->generation != rd_generation();
}

/* Cores for a part of so many ranks: they are shared out, since other parts are at work, too. */
static inline uint32_t rd_cpus_of_part(const rd_link *of, uint32_t size)
{
    return (uint32_t)(((uint64_t)of->cpus * size + of->size - 1) / of->size);
}

typedef struct {
    const void *data; /* what has come of the message and is not yet released, in one piece;
                                NULL: its bytes are in place already ("returned") */
    uint64_t bytes;   /* at data */
    /* Of the message; UINT64_MAX: this cannot be one, its sender writes invalid data */
    uint64_t total;
    uint64_t mark; /* the sender's call, by hash */
    /* Where the sender awaits message back_ordinal of this collective, or NULL */
    void *back;
    uint32_t back_ordinal;
} rd_view;

typedef struct {
    const void *data;
    uint64_t bytes, mark;
    void *back; /* or NULL */
    uint32_t back_ordinal;
} rd_loan;

/* Where a rank stands, for those who wait for it. */
typedef struct {
    uint64_t sequence; /* of its last call; 0: none yet */
    bool inside, closed, dead;
    bool posted;       /* not inside, but calls of its are under way */
    bool running;      /* inside, and in an op of the program's, which may take any time */
    bool hearsay;      /* all this is what was last heard of it */
    uint32_t awaits;   /* inside: whom it has been waiting for, or RONDA_ANY */
    uint64_t heard_ns; /* when it last said so */
    rd_pending
        message; /* inside: the message that it has been waiting for, whose peer is `awaits` */
    /* Its unexpected queue is full: messages wait outside that it has posted no receive for */
    bool full;
} rd_presence;

/* What a rank offers to the others of a part: zeros, nothing. */
typedef struct {
    uint64_t memory, number;
} rd_offer;

struct rd_transport {
    const char *name;
    bool copies;      /* the caller's memory cannot be lent, unless alloc() gave it */
    bool lends_alloc; /* what alloc() gives can be */
    bool pushes;      /* messages go on only while this rank is inside, until they are gone */

    /* The port to a peer; never NULL for a peer other than oneself.  channel: up to link->channels + 1. */
    rd_port *(*port)(rd_link *link, uint32_t peer, uint32_t channel);
    /* How many lines all peers have put into the channels for messages, modulo 2^32 */
    uint32_t (*message_lines)(const rd_link *link);

    /* Sending.  Each takes one place of the queue; reserve and can_send say whether there is one.
     * Up to RD_INLINE bytes are written into what reserve gives and committed.  Longer messages are
     * lent if the peer can see the memory they are in, and else written in pieces: such a message
     * takes several commits, each with its total; only its last piece may be RD_INLINE bytes or less. */
    bool (*can_send)(rd_port *port);
    /* Room for at least so many bytes, and at most *bytes, which becomes what there is.  NULL: not now.
     * What was given is committed whole */
    void *(*reserve)(rd_port *port, uint64_t least, uint64_t *bytes);
    /* Publishes what reserve gave */
    void (*commit)(rd_port *port, uint64_t bytes, uint64_t total, uint64_t mark);
    /* The piece that was just committed to another port goes to this one too, from where it lies;
     * bytes, total, mark: as they were there.  false: it cannot, or not now, and nothing was sent */
    bool (*share)(rd_port *port, const rd_port *committed, uint64_t bytes, uint64_t total,
                  uint64_t mark);
    /* Can this memory be lent to the peer? */
    bool (*lends)(const rd_port *port, const void *data, uint64_t bytes);
    void (*lend)(rd_port *port, const rd_loan *loan); /* only if can_send and lends */
    /* "returned"; only if can_send, and a loan of the peer's on this port has named a place */
    void (*give_back)(rd_port *port, uint64_t bytes, uint64_t mark);
    uint32_t (*sent)(const rd_port *port); /* messages so far, modulo 2^32 */
    /* Has the peer released it (and all before), or is it as good as that? */
    bool (*completed)(rd_port *port, uint32_t message);
    /* If this transport pushes: will it arrive whatever this rank does from now on? */
    bool (*gone)(rd_port *port, uint32_t message);

    /* Receiving: the first message that is not wholly released. */
    bool (*peek)(rd_port *port, rd_view *view);
    /* The first so many of view.bytes */
    void (*release)(rd_port *port, uint64_t bytes);

    /* Memory that lends() says yes to: zero, on pages of its own.  NULL: none to be had. */
    void *(*alloc)(rd_link *link, size_t bytes);
    void (*free)(rd_link *link, void *memory, size_t bytes); /* as it was asked for; NULL is fine */

    /* Waiting: returns early when something may have happened, at the latest at until_ns.  idle: how
     * often in a row the caller has found nothing to do; port: where news is expected, or NULL. */
    void (*wait)(rd_link *link, rd_port *port, uint32_t idle, uint64_t until_ns);

    /* The same for those who do not wait: takes in what has come.  NULL: there is no need */
    void (*pump)(rd_link *link);

    /* Any thread of this rank: a wait returns soon */
    void (*wake)(rd_link *link);

    /* The board: each rank announces its calls, and others can look when they wait too long. */
    void (*enter)(rd_link *link, const rd_record *record);
    void (*leave)(rd_link *link, uint64_t sequence);
    /* Leaves while calls are under way, and comes back to them: only inside a rank touches peers' memory */
    void (*pause)(rd_link *link, uint64_t sequence);
    void (*resume)(rd_link *link, uint64_t sequence);
    /* Whom it waits for.  late: the call takes far longer than it should, so a transport whose ranks cannot look
     * at each other may now send and allocate what it takes to find out why; before that, nothing. */
    void (*await)(rd_link *link, uint32_t peer, bool late);
    /* What the others should know beside whom it awaits, from the next await() on, which names the peer of the
     * message: see rd_presence.  message: NULL, none */
    void (*announce)(rd_link *link, const rd_pending *message, bool full);
    /* Something is expected of it some day: its death should be noticed.  NULL: it is anyway */
    void (*reach)(rd_link *link, uint32_t peer);
    /* False: not there (yet, or any more) */
    bool (*record)(rd_link *link, uint32_t peer, uint64_t sequence, rd_record *out);
    rd_presence (*presence)(rd_link *link, uint32_t peer);

    /* Failure: the first cause wins, for all ranks.  quiesce: after the alarm, returns when no peer
     * uses this rank's memory any more, at the latest at until_ns; or at soon_ns, if all who still may run an op of
     * the program's, or can reach no more than alloc() gave.  What they may use is not used again. */
    void (*abort)(rd_link *link, const rd_error *cause);
    void (*cause)(rd_link *link, rd_error *out);
    void (*quiesce)(rd_link *link, uint64_t until_ns, uint64_t soon_ns);
    /* Tells the peers that this rank closes, and hears what they say until that has reached them.  Only close()
     * may follow, and what frees or asks.  NULL: there is nothing to be heard */
    void (*goodbye)(rd_link *link);
    /* Accepts NULL; tells the peers, if they were not told.  Of a link that is inherited: tells nobody, changes
     * nothing that others see, and gives back this process's copies of descriptors and memory; free() does nothing
     * that others see, too */
    void (*close)(rd_link *link);
    /* The same for an inherited link that another thread was using when this process was forked, so that what is
     * private may be half changed: it is left alone.  NULL: there is nothing else */
    void (*abandon)(rd_link *link);

    /* A part of a world is a world of its own, whose ranks wait in one place with those of the whole.  Each
     * of its members says what it offers, the first of them always something; then all of them join with the
     * offers of all.  What a rank has offered it forgoes if nobody will come.  members: ranks as this link
     * counts them; rank: this rank's among them. */
    ronda_status (*split)(rd_link *link, const uint32_t members[], uint32_t size, uint32_t rank,
                          rd_offer *out, rd_error *err);
    ronda_status (*join)(rd_link *link, const rd_offer offers[], const uint32_t members[],
                         uint32_t size, uint32_t rank, rd_link **out, rd_error *err);
    void (*forgo)(rd_link *link, const rd_offer *offer, const uint32_t members[], uint32_t size);
};

extern const rd_transport rd_local;

/* A world of `size` ranks in this process, RD_LOCAL_RANKS at most: links[r] is rank r's. */
enum { RD_LOCAL_RANKS = 1024 };
ronda_status rd_local_open(uint32_t size, rd_link *links[], rd_error *err);

/* Ranks as processes of this host.  Rank 0 makes the memory; everybody opens it. */
extern const rd_transport rd_shm;
typedef struct {
    uint32_t rank, size;
    int memfd;      /* -1: none yet */
    int *doorbells; /* [size] eventfds, -1: none yet */
    int32_t *pids;  /* [size] */
    const uint32_t
        *names; /* [size] what ranks are called in sentences; NULL: as they are counted */
} rd_shm_parts;
ronda_status rd_shm_gather_parts(uint32_t rank, uint32_t size, rd_shm_parts *out, rd_error *err);
void rd_shm_free_parts(rd_shm_parts *parts); /* and what is still theirs */
size_t rd_shm_bytes(uint32_t size); /* without the heaps, which cost nothing until they are used */
int rd_shm_create(uint32_t size, rd_error *err); /* a memfd; -1: err says why */
/* Before anybody opens it: who the ranks are decides how many cores they have together. */
ronda_status rd_shm_prepare(int memfd, const int32_t pids[], uint32_t size, rd_error *err);
/* For a link that has this one for some of its ranks (mixed.c): a descriptor that wakes sleepers too, and what
 * is then called, -1: none; and, also for a part, what ranks and their host are called in sentences,
 * NULL: as they are counted here, and not at all. */
void rd_shm_wake_also(rd_link *link, int fd, void (*then)(void *context), void *context);
void rd_shm_call_ranks(rd_link *link, const uint32_t *names, const char *host);
/* The doorbells are the link's from now on, whatever it returns, and -1 in parts. */
ronda_status rd_shm_open(const rd_shm_parts *parts, rd_link **out, rd_error *err);

#endif
