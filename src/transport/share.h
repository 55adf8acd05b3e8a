/* share.h: ranks that see one mapping: threads of a process (local.c) or processes of a host (shm.c).
 *
 * Everything that ranks tell each other is in the mapping, at offsets from its start, so that it may
 * lie anywhere in each process:
 *
 *     | head: alarm, cause | boards [rank] | calls [rank][] | queues [channel][from][to] | what shm adds |
 *
 * share.c has the messages, board.c the board and failure, the same for both.  What differs is how bytes are
 * named in a message (threads: by address, from anywhere; processes: by offset, in the mapping
 * alone), whether there is a place to stage bytes that cannot be lent, and how a rank sleeps. */
#ifndef RD_SHARE_H
#define RD_SHARE_H

#include "transport/transport.h"

typedef struct {
    _Alignas(128) _Atomic uint32_t seq;
    uint16_t ack;
    uint8_t kind, len;
    uint64_t mark;
    union {
        uint8_t data[RD_INLINE];
        struct {
            uint64_t at, len; /* where the bytes are, and how many */
            uint64_t total;   /* of the message, if this is a piece of it */
            uint64_t back;    /* where a later message is awaited; 0: nowhere */
            uint32_t back_ordinal;
        } ref;
    };
} rd_line;
_Static_assert(offsetof(rd_line, data) + RD_INLINE == 64, "a message is one cache line");

typedef struct {
    rd_line lines[RD_QUEUE];                 /* written by the sender */
    _Alignas(128) _Atomic uint32_t consumed; /* lines; written by the receiver */
} rd_queue;

typedef struct {
    _Alignas(128) _Atomic uint64_t entered; /* sequence * 4 + posted * 2 + inside */
    _Atomic uint32_t awaits;                /* 1 + peer, or 0 */
    _Atomic uint32_t closed;
    _Atomic uint32_t exited;   /* of the whole: its process exits, and has not closed everything */
    _Atomic uint64_t heard_ns; /* when it last said whom it awaits */
    /* What it waits for if that is a message: direction, whether its unexpected queue is full, type and tag; count */
    _Atomic uint64_t message[2];
    _Atomic uint32_t running; /* an op of the program's */
    /* Of the whole: 1 + the core that it was on when it last looked, which it does now and then; 0: never */
    _Atomic uint32_t core;
    _Alignas(128) _Atomic uint32_t asleep;
    _Atomic uint32_t message_lines; /* lines of messages that were sent to it */
} rd_board;

/* A call that a rank has announced; the last ones stay, some for each channel. */
enum { RD_RECORDS = 32, RD_CHANNEL_RECORDS = 16, RD_RECORD_WORDS = 6 };
typedef struct {
    _Alignas(64) _Atomic uint64_t words[RD_RECORD_WORDS];
} rd_announced;

typedef struct {
    uint32_t cpus; /* written before anybody maps it */
    _Alignas(128) _Atomic uint32_t alarm;
    _Atomic uint32_t deciding;           /* 1: somebody is writing the cause */
    _Atomic uint32_t goodbyes;           /* links that have been closed */
    _Alignas(128) _Atomic uint32_t open; /* links not yet closed */
    rd_error cause;
    _Alignas(128) _Atomic uint64_t choices[RD_CHOICES];
} rd_share_head;

/* A part of the mapping where one rank stages bytes, as a ring: places are given in order, and are
 * free again in order, when the peers have released what was in them. */
typedef struct {
    uint64_t at, bytes; /* offset in the mapping; a power of two, 0: there is none */
    uint64_t around; /* when it is empty, places are given from the start again, or from here on */
    uint64_t head, tail;      /* counted without end */
    struct rd_staged *pieces; /* [RD_STAGED], oldest first */
    uint32_t first, count;
} rd_ring;

enum { RD_STAGED = 1024 };
typedef struct rd_staged {
    rd_port *port;
    uint32_t line;
    uint32_t bytes; /* that count against the port's share */
    uint64_t end;   /* of its place, as head counts */
} rd_staged;

typedef struct rd_member rd_member;

/* One rank's end of a world; a transport puts what it needs behind it.  Members of a part of a world sleep
 * and are woken as members of the whole. */
struct rd_member {
    rd_link link;
    rd_member *whole; /* itself, if it is no part */
    uint32_t *ranks;  /* of a part: its ranks as the whole counts; NULL: the same */
    uint32_t users;   /* of the whole: links to parts, and itself until it is closed */
    rd_share_head *head;
    rd_board *boards;
    rd_announced *calls; /* [rank][rd_records(channels)] */
    rd_queue *queues;
    uintptr_t origin; /* what `at` in messages counts from */
    uint64_t limit;   /* and how far it may reach */
    bool crowded;     /* more ranks than cores: do not spin */
    uint32_t core;    /* of the whole: what its board says */
    bool given_up;    /* it has failed, and this rank has left it */
    bool fences;      /* no membarrier: every publication needs a fence */
    int membarrier;   /* the command that orders all ranks' stores */
    rd_ring *arena;   /* for all peers, of all parts */
    rd_ring ring_of_all;
    uint32_t staged; /* pieces in it that are this member's */
    uint64_t piece;  /* the longest that is staged at once */
    uint64_t share;  /* of the arena, for one port: a fold of many waits for all of its peers */
    /* A ring per port, so that each can always move: [peer][channel] */
    uint64_t small_at, small_bytes;
    bool messages_alone; /* only ports for messages that nobody has asked for have one: [peer] */
    size_t ports_bytes;
    rd_port *ports; /* [peer][channel], filled when first asked for */
    void (*sleep)(rd_member *m, uint64_t until_ns); /* while the board says asleep */
    void (*ring)(rd_member *m, uint32_t rank);      /* wakes who sleeps */
};

static inline rd_member *rd_member_of(rd_link *link)
{
    return (rd_member *)link;
}

/* Orders what this rank stored before against what it loads next, for all ranks. */
void rd_everyone_fence(const rd_member *m);
/* Says on the board on which core this rank is.  1 + its number */
uint32_t rd_share_say_core(rd_member *m);
void rd_wake_all(rd_member *m);

/* Queues from one rank to another: one for each channel, and two for messages. */
static inline size_t rd_queues(uint32_t channels)
{
    return (size_t)channels + 2;
}
/* Calls of one rank that can be read */
static inline uint32_t rd_records(uint32_t channels)
{
    return channels * RD_CHANNEL_RECORDS;
}
size_t rd_board_bytes(uint32_t size, uint32_t channels); /* of head, boards and calls */
size_t rd_share_bytes(uint32_t size, uint32_t channels); /* and of queues */
enum { RD_PART_CHANNELS = 2 };                           /* of a part of a world */

static inline uint32_t rd_rank_in_whole(const rd_member *m, uint32_t rank)
{
    return m->ranks ? m->ranks[rank] : rank;
}

/* Fills in what is common.  The mapping is zero, or in use by others already.  false: no memory. */
bool rd_member_open(rd_member *m, const rd_transport *transport, void *mapping, uint32_t rank,
                    uint32_t size);
/* The same for a part of the world that `of` is in, or is a part of. */
bool rd_member_join(rd_member *m, rd_member *of, void *mapping, uint32_t rank, uint32_t size,
                    const uint32_t members[]);

/* Says on the board that this rank has closed, and wakes the others. */
void rd_member_close(rd_member *m);
/* Frees the ports.  What is staged must not be theirs: m->staged is 0, or the arena goes too. */
void rd_member_free(rd_member *m);
void rd_arena_tidy(rd_ring *arena); /* forgets what peers have released */

/* The slots of rd_transport that both use as they are. */
void rd_share_wait(rd_link *l, rd_port *port, uint32_t idle, uint64_t until_ns);
void rd_share_wake(rd_link *l);
void *rd_share_reserve(rd_port *p, uint64_t least, uint64_t *bytes);
rd_port *rd_share_port(rd_link *l, uint32_t peer, uint32_t channel);
uint32_t rd_share_message_lines(const rd_link *l);
bool rd_share_can_send(rd_port *p);
void rd_share_commit(rd_port *p, uint64_t bytes, uint64_t total, uint64_t mark);
bool rd_share_share(rd_port *p, const rd_port *committed, uint64_t bytes, uint64_t total,
                    uint64_t mark);
bool rd_share_lends(const rd_port *p, const void *data, uint64_t bytes); /* in the mapping */
void rd_share_lend(rd_port *p, const rd_loan *loan);
void rd_share_give_back(rd_port *p, uint64_t bytes, uint64_t mark);
uint32_t rd_share_sent(const rd_port *p);
bool rd_share_completed(rd_port *p, uint32_t message);
bool rd_share_peek(rd_port *p, rd_view *view);
void rd_share_release(rd_port *p, uint64_t bytes);
void rd_share_enter(rd_link *l, const rd_record *r);
void rd_share_leave(rd_link *l, uint64_t sequence);
void rd_share_pause(rd_link *l, uint64_t sequence);
void rd_share_resume(rd_link *l, uint64_t sequence);
void rd_share_await(rd_link *l, uint32_t peer, bool late);
void rd_share_announce(rd_link *l, const rd_pending *message, bool full);
bool rd_share_record(rd_link *l, uint32_t peer, uint64_t sequence, rd_record *out);
rd_presence rd_share_presence(rd_link *l, uint32_t peer);
void rd_share_abort(rd_link *l, const rd_error *cause);
void rd_share_cause(rd_link *l, rd_error *out);
void rd_share_quiesce(rd_link *l, uint64_t until_ns, uint64_t soon_ns);

#define RD_SHARE_SLOTS                                                                             \
    .wake = rd_share_wake, .port = rd_share_port, .message_lines = rd_share_message_lines,         \
    .can_send = rd_share_can_send, .reserve = rd_share_reserve, .commit = rd_share_commit,         \
    .share = rd_share_share, .lend = rd_share_lend, .give_back = rd_share_give_back,               \
    .sent = rd_share_sent, .completed = rd_share_completed, .peek = rd_share_peek,                 \
    .release = rd_share_release, .wait = rd_share_wait, .enter = rd_share_enter,                   \
    .leave = rd_share_leave, .pause = rd_share_pause, .resume = rd_share_resume,                   \
    .await = rd_share_await, .announce = rd_share_announce, .record = rd_share_record,             \
    .abort = rd_share_abort, .cause = rd_share_cause

#endif
