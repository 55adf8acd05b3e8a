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

#include "base/costs.h"
#include "base/error.h"
#include "base/generation.h"
#include "base/limits.h"
#include "base/names.h"

enum {
    RD_CHANNELS = 8,
    RD_PART_CHANNELS = 2,    /* of a part of a world */
    RD_MESSAGE_CHANNELS = 2, /* and behind them, for messages with tags */
    RD_QUEUE = 16,
    RD_INLINE = RD_INLINE_BYTES,
    RD_CHOICES = 256
};
#define RD_IS_POWER_OF_TWO(n) ((n) > 0 && ((n) & ((n)-1)) == 0)
_Static_assert(RD_IS_POWER_OF_TWO(RD_QUEUE), "a place of a queue is a number modulo 2^32 and this");
_Static_assert(RD_IS_POWER_OF_TWO(RD_CHANNELS) && RD_IS_POWER_OF_TWO(RD_PART_CHANNELS) &&
                   RD_PART_CHANNELS <= RD_CHANNELS,
               "a call's channel is the low bits of its number");

/* Calls that record() tells of: the last of a rank, and of each of its channels */
enum { RD_RECORDS = 32, RD_CHANNEL_RECORDS = 16 };
_Static_assert(RD_IS_POWER_OF_TWO(RD_RECORDS) && RD_IS_POWER_OF_TWO(RD_CHANNEL_RECORDS),
               "a call's record is the low bits of its number");

/* Idle rounds in which wait() spins, and then yields, before it sleeps where ranks share memory */
enum { RD_SPINS = 200, RD_YIELDS = 2000 };

/* The longest piece that reserve() gives, and what there is always room for when the peer has taken
 * everything that it was sent before. */
enum { RD_PIECE = 1 << 18, RD_SHORT_PIECE = 1 << 11 };
_Static_assert((int)RD_INLINE < (int)RD_SHORT_PIECE && RD_SHORT_PIECE < RD_PIECE,
               "a message is in its line, or short, or long");

typedef struct rd_port rd_port;
typedef struct rd_transport rd_transport;
typedef struct rd_board rd_board; /* control.h has these */
typedef struct rd_announced rd_announced;
struct rd_failure;

/* Where a rank stands, as far as this one can see. */
typedef struct {
    rd_board *board;
    rd_announced *calls; /* [records] the last ones; a power of two */
    uint32_t records;
    bool copy; /* in private memory: what was last heard of it */
} rd_known;

/* What every link begins with. */
typedef struct rd_link {
    const rd_transport *transport;
    uint32_t rank, size;
    /* To each peer, for collectives: twice a power of two, RD_CHANNELS at most.  RD_MESSAGE_CHANNELS are behind them */
    uint32_t channels;
    uint32_t
        cpus; /* cores for all ranks of this machine together; the same number for all of them */
    /* [RD_CHOICES], or NULL: what ranks of this machine have chosen, so that one prices for all: any
     * rank would come to the same */
    _Atomic uint64_t *choices;
    const _Atomic uint32_t *goodbyes; /* grows when a rank closes: time to look who */
    const _Atomic uint32_t *alarm;    /* failure->alarm; not 0: the world has failed */
    struct rd_failure *failure;
    rd_known *boards; /* [size] */
    bool fences;      /* no membarrier: what others must see in order needs a fence */
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
    bool remote;       /* all this is what was last heard of it */
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

/* The data path: how the messages of a port go.  Every rd_port begins with a pointer to it, so that a link may
 * have ports of several kinds, a route for each peer. */
typedef struct rd_data {
    bool pushes; /* messages go on only while this rank is inside, until they are flushed */

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
    /* Has the peer released it (and all before), so that its bytes may be overwritten? */
    bool (*completed)(rd_port *port, uint32_t message);
    /* If it pushes: will it arrive whatever this rank does from now on? */
    bool (*flushed)(rd_port *port, uint32_t message);

    /* Receiving: the first message that is not wholly released. */
    bool (*peek)(rd_port *port, rd_view *view);
    /* The first so many of view.bytes */
    void (*release)(rd_port *port, uint64_t bytes);
    /* A posted receive: if the first message that is not wholly released has so many bytes and this mark, now or when
     * it comes, what has not come of it yet is received straight into place, byte i at to[i].  What peek() shows of it
     * there is at its place: view.data == to + what was released before.  Bytes whose checksum is not yet checked may
     * be there, but are not shown.  One at a time: the next replaces it.  to NULL: cancelled, and nothing more is
     * written there, whatever has come of the message by then; it is of no use any more.  Only for more than RD_INLINE
     * bytes.  NULL: it cannot, or has no need to */
    void (*post_recv)(rd_port *port, void *to, uint64_t bytes, uint64_t mark);
} rd_data;

static inline const rd_data *rd_data_of(const rd_port *port)
{
    return *(const rd_data *const *)port;
}

static inline bool rd_port_can_send(rd_port *port)
{
    return rd_data_of(port)->can_send(port);
}

static inline void *rd_port_reserve(rd_port *port, uint64_t least, uint64_t *bytes)
{
    return rd_data_of(port)->reserve(port, least, bytes);
}

static inline void rd_port_commit(rd_port *port, uint64_t bytes, uint64_t total, uint64_t mark)
{
    rd_data_of(port)->commit(port, bytes, total, mark);
}

static inline bool rd_port_share(rd_port *port, const rd_port *committed, uint64_t bytes,
                                 uint64_t total, uint64_t mark)
{
    return rd_data_of(port) == rd_data_of(committed) &&
           rd_data_of(port)->share(port, committed, bytes, total, mark);
}

static inline bool rd_port_lends(const rd_port *port, const void *data, uint64_t bytes)
{
    return rd_data_of(port)->lends(port, data, bytes);
}

static inline void rd_port_lend(rd_port *port, const rd_loan *loan)
{
    rd_data_of(port)->lend(port, loan);
}

static inline void rd_port_give_back(rd_port *port, uint64_t bytes, uint64_t mark)
{
    rd_data_of(port)->give_back(port, bytes, mark);
}

static inline uint32_t rd_port_sent(const rd_port *port)
{
    return rd_data_of(port)->sent(port);
}

static inline bool rd_port_completed(rd_port *port, uint32_t message)
{
    return rd_data_of(port)->completed(port, message);
}

static inline bool rd_port_flushed(rd_port *port, uint32_t message)
{
    return !rd_data_of(port)->pushes || rd_data_of(port)->flushed(port, message);
}

static inline bool rd_port_peek(rd_port *port, rd_view *view)
{
    return rd_data_of(port)->peek(port, view);
}

/* false: it cannot, and what comes is shown by peek alone */
static inline bool rd_port_post_recv(rd_port *port, void *to, uint64_t bytes, uint64_t mark)
{
    if (rd_data_of(port)->post_recv)
        rd_data_of(port)->post_recv(port, to, bytes, mark);
    return rd_data_of(port)->post_recv;
}

static inline void rd_port_release(rd_port *port, uint64_t bytes)
{
    rd_data_of(port)->release(port, bytes);
}

struct rd_transport {
    const char *name;
    const char *setting;   /* what RONDA_TRANSPORT calls it; NULL: it is not asked for */
    const rd_facts *costs; /* of its messages, without cpus */
    bool copies;           /* the caller's memory cannot be lent, unless alloc() gave it */
    bool lends_alloc;      /* what alloc() gives can be */
    bool pushes;           /* some of its ports do: see rd_data */

    /* The port to a peer; never NULL for a peer other than oneself.  channel: below
     * link->channels + RD_MESSAGE_CHANNELS. */
    rd_port *(*port)(rd_link *link, uint32_t peer, uint32_t channel);

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

    /* Control (control.h).  Is the peer dead?  If it is found to be, the world has failed when this returns.  NULL:
     * never without this rank */
    bool (*dead)(rd_link *link, uint32_t peer);
    /* This rank waits for a peer, and late: for too long.  NULL: whoever wants to know looks at its board */
    void (*gossip)(rd_link *link, uint32_t peer, bool late);
    /* Something is expected of it some day: its death should be noticed.  NULL: it is anyway */
    void (*reach)(rd_link *link, uint32_t peer);

    /* Failure: the first cause wins, for all ranks.  quiesce: after the alarm, returns when no peer
     * uses this rank's memory any more, at the latest at until_ns; or at soon_ns, if all who still may run an op of
     * the program's, or can reach no more than alloc() gave.  What they may use is not used again. */
    void (*abort)(rd_link *link, const rd_error *cause);
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
    void (*withdraw)(rd_link *link, const rd_offer *offer, const uint32_t members[], uint32_t size);
};

/* A world of `size` ranks in this process, RD_LOCAL_RANKS at most: links[r] is rank r's. */
enum { RD_LOCAL_RANKS = 1024 };
ronda_status rd_local_open(uint32_t size, rd_link *links[], rd_error *err);

/* Ranks as processes of this host.  Rank 0 makes the memory; everybody opens it. */
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
