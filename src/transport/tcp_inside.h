/* tcp_inside.h: what the files of the transport tcp know of each other.
 *
 *     tcp.c          the row: ports, waiting, memory, opening and closing
 *     tcp_data.c     the data path: messages in and out
 *     tcp_board.c    where ranks stand, failure, closing
 *     tcp_connect.c  connections: when they are opened, and by whom
 *     tcp_conn.c     one connection: its stream, and what is kept for it
 *     tcp_flow.c     bytes to streams
 *     tcp_read.c     bytes from streams
 *     tcp_post.c     receives that were posted: bytes straight into place
 *     tcp_forks.c    processes that are forked, or exit
 *     tcp_pool.c     buffers that are used again
 *     tcp_checksum.c  what was changed on its way
 *
 * None of them knows sockets: connections are streams of whatever network there is (stream.h; stream_tcp.c has
 * sockets).  A rank has one tcp_world: its network, and one thread that reads its streams, whoever waits.  The world and each part
 * of it that the rank is in are links that share it.
 *
 *     port: lines to be written --ready--> peer --> pipe of parcels --> stream
 *     port: slots of messages   <---------------------- parcels <------ stream
 *
 * A message that is lent is written from where it lies, and is released when the system has all of it.  The system
 * delivers what it has whatever this rank does, so a call is over when all of its messages are released.
 *
 * What a peer has not asked for cannot fill this rank's memory: of each channel at most RD_QUEUE messages, and
 * RD_WINDOW bytes of them, are under way; who sends more writes invalid data.  The receiver says what needs no room any
 * more with whatever it sends, or in a parcel of its own.
 *
 * The lock is for ronda_abort(), which another thread may call: it writes, and never reads. */
#ifndef RD_TCP_INSIDE_H
#define RD_TCP_INSIDE_H

#include "base/exits.h"
#include "transport/ip.h"
#include "transport/share.h"
#include "transport/stream.h"
#include "transport/tcp.h"
#include "transport/wire.h"

#include <pthread.h>

enum {
    RD_WINDOW = 1 << 20,
    RD_PIPE = 16,
    RD_INPUT = 8 << 10,
    RD_CHECKED_PARCEL = 64 << 10,
    RD_LONG = 32 << 10,
    RD_KEPT_RECORDS = 8,
    RD_POOLS = 16
};
_Static_assert((int)RD_CHECKED_PARCEL <= (int)RD_MOST_PARCEL &&
                   (int)RD_CAUSE <= (int)RD_MOST_PARCEL,
               "a peer takes no longer parcel");
_Static_assert((int)RD_HEAD <= (int)RD_INPUT && (int)RD_GREETING <= (int)RD_INPUT,
               "a head is read in one piece");
_Static_assert(RD_CHANNELS + RD_MESSAGE_CHANNELS <= UINT8_MAX, "a channel is a byte of a head");

typedef struct tcp_world tcp_world;
typedef struct tcp_link tcp_link;
typedef struct tcp_conn tcp_conn;
typedef struct tcp_peer tcp_peer;

/* A message to be written, or a piece of one. */
typedef struct {
    const char *data;
    uint64_t bytes, total, mark;
    char *staged; /* room for RD_SHORT_PIECE bytes, once it was needed */
    uint8_t small[RD_INLINE];
} tcp_line;

/* A message that comes. */
typedef struct {
    uint64_t total, mark, got, released;
    char *
        data; /* small, from the pool, or where a receive was posted; NULL: cancelled, its bytes go nowhere */
    bool placed; /* at a posted receive: data is where the message's first byte belongs */
    bool cancelled;
    /* [start, end) can be looked at; so many bytes behind them have come, but their checksum has not been checked */
    uint64_t capacity, start, end, unchecked;
    uint8_t small[RD_INLINE];
} tcp_slot;

/* A receive that was posted and has not been given a message yet. */
typedef struct {
    char *to; /* NULL: none */
    uint64_t bytes, mark;
} tcp_posted;

struct rd_port {
    const rd_data *data;
    tcp_link *link; /* NULL: not used yet */
    tcp_peer *to;
    uint32_t rank, channel; /* of the peer, in this link */
    rd_port *used;          /* the next in the link's list */
    rd_port *next;          /* in the peer's list of ready ports: */
    bool ready;
    /* Lines: [written, framed) are in the pipe, [framed, queued) are not */
    uint32_t queued, framed;
    _Atomic uint32_t written;
    uint64_t framed_bytes;        /* of the line that is being framed */
    uint32_t messages;            /* that were sent, or begun */
    uint32_t last_line[RD_QUEUE]; /* of message m: [m % RD_QUEUE] */
    _Atomic uint32_t acked;       /* messages that the peer has released */
    uint64_t flown, landed;       /* bytes that were framed; and that the peer has released */
    uint64_t pushed;              /* bytes of the message being sent that were committed */
    uint64_t sequence;            /* of the call whose message was framed last */
    tcp_line out[RD_QUEUE];
    /* Messages that came [taken, came), the last of which may still be coming */
    uint32_t came, taken, told;
    uint64_t begun, freed, told_freed; /* bytes of parcels whose heads have come; and released */
    bool filling;
    tcp_slot in[RD_QUEUE];
    tcp_posted posted; /* for message `taken` */
};

struct tcp_link {
    rd_link link;
    tcp_world *world;
    tcp_link *next;
    uint64_t id;        /* 0: the whole */
    uint32_t *members;  /* ranks as the whole counts; NULL: the same */
    uint32_t *index_of; /* and the other way round; UINT32_MAX: not in it */
    uint32_t *host_of;  /* of a part: what link.host_of is, or NULL */
    rd_port *ports;     /* [channel][peer]; memory is taken for those that are used: */
    rd_port *used;
    size_t ports_bytes;
    /* Boards and calls of ranks whose memory this one does not see, and of its own if nobody sees it */
    rd_board *copies;
    rd_announced *copied_calls;
    size_t copies_bytes, calls_bytes;
    uint64_t
        query_ns; /* when a rank whose call is late last asked where the others stand; 0: never */
    rd_failure own_failure; /* unless ranks of this host share one */
    rd_link *beside;        /* to the ranks of this host, which share the failure; or NULL */
    bool told;              /* the neighbours, why it has failed */
    bool closed;
    bool left_for_good; /* it has said goodbye, and hears only */
    bool left;          /* it has failed, and this rank writes no more of its messages */
};

/* Something in the pipe: a head, and bytes that lie elsewhere. */
typedef struct {
    uint8_t head[RD_HEAD];
    uint32_t head_bytes;
    const char *data;
    uint64_t bytes;
    rd_port *port; /* NULL: not a message's */
    bool ends;     /* a line */
} tcp_parcel;

typedef struct {
    char *bytes;
    size_t length, capacity;
} tcp_text;

struct tcp_conn {
    tcp_conn *next;
    rd_bytestream *stream; /* NULL: it has ended */
    enum { TCP_CONNECTING, TCP_UNPROVEN, TCP_OPEN } state;
    uint32_t rank;    /* of the peer; of one that has not proved the key: none */
    uint32_t address; /* which of the peer's is being tried */
    rd_ip from;       /* where the peer is, if it has connected itself; else no family */
    bool greeted;     /* by the peer */
    uint64_t counter; /* of the greeting and its answer */
    bool hung_up;     /* the peer has said that this is the end */
    bool broken;      /* nothing can be written to it any more */
    bool full;        /* waits until it can be written */
    bool checked;     /* its frames have checksums */
    bool corrupt;     /* and one was wrong: what comes is not looked at any more */
    uint64_t since_ns;
    /* Reading */
    uint8_t *input;
    uint32_t have, used;
    rd_head head;
    uint64_t left; /* bytes of the parcel that have not come */
    uint32_t crc;  /* of those that have */
    bool whole;    /* a long message has become so in this read */
    rd_port *into; /* where they go, or: */
    tcp_text body; /* of a frame that is no message */
    /* Writing */
    tcp_parcel pipe[RD_PIPE];
    uint32_t first, count;
    uint64_t at;                    /* bytes of the first parcel that are written */
    tcp_text control, next_control; /* whole parcels: being written, and to be written then */
    bool control_in_pipe;
    char *spilled; /* the first parcel's bytes, if what they were lent from is not there any more */
};

/* A buffer that nobody uses. */
typedef struct tcp_unused {
    struct tcp_unused *next;
} tcp_unused;

typedef enum { TCP_LEFT, TCP_DIED, TCP_UNREACHABLE } tcp_suspicion;

/* A rank of the whole world. */
struct tcp_peer {
    tcp_conn *out;    /* where this rank writes to it, once it is open */
    tcp_conn *in;     /* where its messages come from */
    bool gap;         /* messages to it were lost with a connection: no other may follow them */
    uint64_t want_ns; /* when to connect, if it has not by then; 0: no need */
    /* If nobody says by then why a connection to it was lost, or did not come about, it is; 0: none was */
    uint64_t suspect_ns;
    tcp_suspicion suspicion;
    bool looked;          /* once more, after that: this rank may have slept through all of it */
    uint64_t next_try_ns; /* when to try the next of its addresses */
    uint32_t tried, trying;
    uint32_t retries; /* after it had closed a connection on which nothing was said */
    int errors[RD_ADDRESSES];
    uint64_t greetings; /* that this rank has sent it: the counter of the last */
    uint64_t accepted;  /* the counter of its last greeting that was accepted; 0: none was */
    bool exited;        /* it has said that its process exits without having closed everything */
    _Atomic bool dead;
    rd_port *ready, *last_ready;
    bool listed; /* in the world's list of peers with ready ports: */
    tcp_peer *next_ready;
};

struct tcp_world {
    tcp_world *next; /* of this process's */
    rd_exit_note exits;
    pthread_mutex_t lock;
    rd_tcp_parts its; /* the network with them */
    tcp_peer *peers;
    tcp_peer *ready;         /* those that may have ready ports */
    tcp_conn *conns, *ended; /* ended: to be freed when nobody looks at them */
    tcp_link *links;
    uint32_t users, unproven; /* links; connections that have not proved the key */
    uint32_t full;            /* connections that wait until they can be written */
    _Atomic uint32_t wanted;  /* peers to whom a connection is to be opened */
    /* While there are no descriptors the listener is left alone: until when, and since when; 0: there are */
    uint64_t deaf_ns, deaf_since_ns;
    bool closing;
    uint64_t probed_ns; /* time spent on probes */
    uint64_t parts;     /* that this rank has made */
    _Atomic uint32_t own_goodbyes;
    _Atomic uint32_t *goodbyes; /* own_goodbyes, or what ranks of this host share */
    bool crowded;
    void (*wait)(void *context, uint32_t idle, uint64_t until_ns); /* instead of its own */
    void *wait_context;
    tcp_unused *pool[RD_POOLS]; /* buffers of 2^(8+i) bytes that nobody uses */
};

_Static_assert(offsetof(tcp_link, link) == 0, "a link is the beginning of a tcp_link");
static inline tcp_link *rd_tcp_link(const rd_link *link)
{
    return (tcp_link *)link;
}

static inline uint32_t rd_tcp_in_whole(const tcp_link *l, uint32_t rank)
{
    return l->members ? l->members[rank] : rank;
}

static inline uint64_t rd_tcp_now(const tcp_world *w)
{
    return w->its.network->kind->now_ns(w->its.network);
}

/* tcp_data.c */
extern const rd_data rd_tcp_data;

/* tcp.c */
rd_port *rd_tcp_port(rd_link *link, uint32_t peer, uint32_t channel);

/* tcp_pool.c */
char *rd_pool_take(tcp_world *w, uint64_t bytes, uint64_t *capacity); /* NULL: no memory */
void rd_pool_give(tcp_world *w, char *data, uint64_t capacity);
void rd_pool_free(tcp_world *w); /* what nobody uses */

/* tcp_forks.c */
void rd_tcp_enlist(tcp_world *w);
void rd_tcp_strike_off(tcp_world *w);  /* if it is there */
void rd_tcp_leave_files(tcp_world *w); /* a forked process gives back its copies */

/* tcp_checksum.c; the lock is held */
bool rd_tcp_checks(const tcp_world *w,
                   uint32_t rank); /* whether frames to and from it have checksums */
/* The one that this rank waits for on that connection is wrong: the world fails.  head: its head is right */
void rd_tcp_corrupt(tcp_world *w, tcp_conn *c, const rd_head *head);

/* tcp_flow.c; the lock is held. */
void rd_tcp_make_ready(rd_port *p);              /* it has something to write */
void rd_tcp_flush(tcp_world *w, tcp_peer *peer); /* as much as the system takes */
void rd_tcp_flush_ready(tcp_world *w);           /* to all that have something to be written */
void rd_tcp_flush_conn(tcp_world *w, tcp_conn *c);
/* A parcel of no message: to be written soon.  false: no memory */
bool rd_tcp_say(tcp_conn *c, const rd_head *head, const void *bytes);
bool rd_tcp_can_fail(tcp_conn *c); /* has memory to say, and to hear, that the world has */
bool rd_tcp_append(tcp_text *t, const void *bytes, size_t length); /* false: no memory */
void rd_tcp_drop_messages(tcp_link *l, bool all); /* its messages are not written any more */
bool rd_tcp_owes(const tcp_conn *c);       /* its stream has bytes that it must be told to write */
bool rd_tcp_settled(const tcp_conn *c);    /* nothing is left to be written to it */
bool rd_tcp_owes_credit(const rd_port *p); /* enough to be said by itself */

/* tcp_read.c; the lock is held */
void rd_tcp_read(tcp_world *w, tcp_conn *c);

/* tcp_post.c; the lock is held */
void rd_tcp_place(rd_port *p,
                  tcp_slot *s);     /* s goes where a receive was posted, if it is its turn */
void rd_tcp_cancel(rd_port *p);     /* nothing is written there any more */
void rd_tcp_drop_rest(tcp_conn *c); /* of the parcel that it reads, which is a message's */
void rd_tcp_free_slot(tcp_world *w, tcp_slot *s);

/* tcp_connect.c; the lock is held */
void rd_tcp_want(tcp_world *w, uint32_t rank, uint64_t delay_ns); /* a connection to it */
uint64_t rd_tcp_timers(tcp_world *w, uint64_t now); /* does what is due; when to come again */
void rd_tcp_accept(tcp_world *w);
void rd_tcp_connected(tcp_world *w, tcp_conn *c); /* or not: something has come of trying */
/* The first bytes that came: are they of who they must be of?  false: no, and it is gone */
bool rd_tcp_greeted(tcp_world *w, tcp_conn *c, const uint8_t bytes[RD_GREETING]);
void rd_tcp_lost(tcp_world *w, tcp_conn *c, int error); /* a connection has ended; 0: in order */
void rd_tcp_trust(tcp_world *w, uint32_t rank);         /* it has said goodbye */

/* tcp_conn.c; the lock is held */
/* With all the memory that it takes to tell, and to be told, that the world has failed.  NULL: there is none */
tcp_conn *rd_tcp_new_conn(void);
void rd_tcp_discard(tcp_conn *c); /* one that was not added; accepts NULL */
/* c: a new one, or NULL.  NULL: it is gone, and so is the stream */
tcp_conn *rd_tcp_add(tcp_world *w, tcp_conn *c, rd_bytestream *stream, bool connecting);
void rd_tcp_end(tcp_world *w, tcp_conn *c);

/* tcp_board.c; the lock is held */
void rd_tcp_hear(tcp_world *w, tcp_conn *c, const rd_head *h, const char *bytes);
void rd_tcp_fail(tcp_link *l, const rd_error *cause); /* the first one counts */
bool rd_tcp_has_closed(const tcp_link *l, uint32_t rank);
void rd_tcp_peer_failed(tcp_world *w, uint32_t rank, const char *how);
void rd_tcp_opened(tcp_world *w, tcp_conn *c); /* what it must be told first */
tcp_link *rd_tcp_find(tcp_world *w, uint64_t id);

/* tcp_board.c, from here on: the lock is not held.  Whatever comes or can go, within so long. */
void rd_tcp_pump(tcp_world *w, uint64_t until_ns);
/* What has come of a peer, and nothing else; false: it has no connection, or one waits for room. */
bool rd_tcp_poll(tcp_world *w, tcp_peer *peer);
/* Tells its ranks, when all that it owes them is written */
void rd_tcp_take_leave(tcp_link *l, uint64_t until_ns);
void rd_tcp_close_world(tcp_world *w, uint64_t until_ns);
bool rd_tcp_dead(rd_link *link, uint32_t peer);
void rd_tcp_gossip(rd_link *link, uint32_t peer, bool late);
void rd_tcp_abort(rd_link *link, const rd_error *cause);
void rd_tcp_quiesce(rd_link *link, uint64_t until_ns, uint64_t soon_ns);

#endif
