/* share.h: ranks that see one mapping: threads of a process (local.c) or processes of a host (shm.c).
 *
 * Everything that ranks tell each other is in the mapping, at offsets from its start, so that it may
 * lie anywhere in each process:
 *
 *     | head: alarm, cause | boards [rank] | calls [rank][] | queues [channel][from][to] | what shm adds |
 *
 * share.c has the messages, control.c the boards, share_failure.c failure, the same for both.  What differs is how bytes are
 * named in a message (threads: by address, from anywhere; processes: by offset, in the mapping
 * alone), whether there is a place to stage bytes that cannot be lent, and how a rank sleeps. */
#ifndef RD_SHARE_H
#define RD_SHARE_H

#include "transport/control.h"

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
_Static_assert(offsetof(rd_line, data) + RD_INLINE == 64 &&
                   sizeof(((rd_line *)0)->ref) <= RD_INLINE,
               "a message is one cache line");
_Static_assert(RD_QUEUE <= UINT16_MAX / 2, "an acknowledgement has 16 bits");

typedef struct {
    rd_line lines[RD_QUEUE];                 /* written by the sender */
    _Alignas(128) _Atomic uint32_t consumed; /* lines; written by the receiver */
} rd_queue;

_Static_assert(RD_CHANNEL_RECORDS * sizeof(rd_announced) % _Alignof(rd_queue) == 0,
               "queues are behind the calls");

typedef struct {
    uint32_t cpus; /* written before anybody maps it */
    rd_failure failure;
    _Atomic uint32_t goodbyes;           /* links that have been closed */
    _Alignas(128) _Atomic uint32_t open; /* links not yet closed */
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
    const rd_data *data; /* of its ports */
    rd_member *whole;    /* itself, if it is no part */
    uint32_t *ranks;     /* of a part: its ranks as the whole counts; NULL: the same */
    uint32_t users;      /* of the whole: links to parts, and itself until it is closed */
    rd_share_head *head;
    rd_board *boards;
    rd_announced *calls; /* [rank][rd_records(channels)] */
    rd_queue *queues;
    uintptr_t origin; /* what `at` in messages counts from */
    uint64_t limit;   /* and how far it may reach */
    bool crowded;     /* more ranks than cores: do not spin */
    bool given_up;    /* it has failed, and this rank has left it */
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

_Static_assert(offsetof(rd_member, link) == 0, "a link is the beginning of its member");
static inline rd_member *rd_member_of(rd_link *link)
{
    return (rd_member *)link;
}

/* Orders what this rank stored before against what it loads next, for all ranks. */
void rd_everyone_fence(const rd_member *m);
void rd_wake_all(rd_member *m);

/* Queues from one rank to another: one for each channel, and those for messages. */
static inline size_t rd_queues(uint32_t channels)
{
    return (size_t)channels + RD_MESSAGE_CHANNELS;
}
/* Calls of one rank that can be read */
static inline uint32_t rd_records(uint32_t channels)
{
    return channels * RD_CHANNEL_RECORDS;
}
size_t rd_board_bytes(uint32_t size, uint32_t channels); /* of head, boards and calls */
size_t rd_share_bytes(uint32_t size, uint32_t channels); /* and of queues */
/* Of a member's ports, in private memory */
size_t rd_share_ports_bytes(uint32_t size, uint32_t channels);

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
void rd_share_abort(rd_link *l, const rd_error *cause);
void rd_share_quiesce(rd_link *l, uint64_t until_ns, uint64_t soon_ns);

/* As of threads, by `ronda bench`: what a process sends of its own memory is copied to where the others can read it,
 * and is read there by cores that do not share a cache. */
#define RD_SHM_COSTS                                                                               \
    .latency_ns = 120, .switch_ns = 1200, .send_ns = 70, .receive_ns = 120, .lend_ns = 300,        \
    .stage_ns = 300, .stage_byte_ns = 0.2, .copies = true, .copy_ns = 0.08, .fold_ns = 0.09

#define RD_SHARE_SLOTS                                                                             \
    .wake = rd_share_wake, .port = rd_share_port, .wait = rd_share_wait, .abort = rd_share_abort
#define RD_SHARE_DATA                                                                              \
    .can_send = rd_share_can_send, .reserve = rd_share_reserve, .commit = rd_share_commit,         \
    .share = rd_share_share, .lend = rd_share_lend, .give_back = rd_share_give_back,               \
    .sent = rd_share_sent, .completed = rd_share_completed, .peek = rd_share_peek,                 \
    .release = rd_share_release

#endif
