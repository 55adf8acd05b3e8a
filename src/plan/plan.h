/* plan.h: a collective as data.
 *
 * A plan is the immutable, flat list of steps of ONE rank.  A step names (buffer, range), never a
 * pointer, and a peer rank, never a connection.  An algorithm is a generator: the textbook loop,
 * written for one CHUNK of the elements and called once per chunk.
 *
 *     generator --rd_send, rd_recv, rd_fold ...--> raw steps --rd_plan_seal--> plan
 *
 * Sealing derives everything else (seal.c says how):
 *
 *   lanes    a step that talks to peer p is in lane "to p" or "from p", any other in lane "here".
 *            A lane runs in order.  Steps are stored lane after lane, so "step k is done" is
 *            cursor[lane of k] > k, and the whole state of a run is one cursor per lane.
 *   order    lanes are sorted by (chunk + 2 * round, chunk, generator's order).  Both ends of a
 *            message know these numbers, so both sort alike, and chunk c+1 fills the pipe while
 *            chunk c waits.  The i-th message from a to b is the i-th that b receives from a.
 *   deps     read-after-write, write-after-read and write-after-write on overlapping ranges.
 *   fusion   a send of exactly what a step has just written is linked to it (forward), and a send
 *            whose peer will return the same range is marked (back), so that with memory that
 *            both sides see, the peer stores its result straight into place.
 *   multicast  sends of one range to several peers are linked, so that bytes that must be copied for
 *            the peers are copied once for all of them.
 *   straight a small plan's steps in generator's order, for an engine that needs no lanes to run it.
 */
#ifndef RD_PLAN_H
#define RD_PLAN_H

#include "base/limits.h"
#include "base/names.h"
#include "plan/verbs.h"
#include "ronda.h"

#define RD_NONE UINT32_MAX

/* The call's send buffer, its recv buffer, ours for the time of a call, and what a plan keeps from one
 * run to the next: zeros before the first, in memory of whoever runs it (rd_job.state) */
enum { RD_IN, RD_OUT, RD_SCRATCH, RD_STATE, RD_BUFFERS };
/* Side of the local operand: here op there, there op here */
enum { RD_HERE_LEFT, RD_HERE_RIGHT };

enum {
    RD_STRAIGHT_SENDS = 8,     /* per peer, in a plan that may be walked straight */
    RD_STRAIGHT_BYTES = 16384, /* and of each of them, if what is sent are copies */
    RD_FETCHED_BYTES = 4096, /* of a copy: its lines are fetched in time, if each rank has a core */
    RD_SKEW = 2,             /* chunks that a round trails the round before it */
    RD_MAX_CHUNKS = 256,
    RD_MAX_STEPS = 65536, /* a plan of several chunks has at most about this many steps */
    /* Where each of more than so many ranks has a block (or RD_STAR) there is enough under way with fewer chunks */
    RD_MANY = 64,
    RD_MANY_STEPS = 8192
};

typedef struct {
    uint8_t buffer;
    uint64_t at, count; /* elements */
} rd_range;

static inline bool rd_same_range(rd_range a, rd_range b)
{
    return a.buffer == b.buffer && a.at == b.at && a.count == b.count;
}

static inline bool rd_ranges_overlap(rd_range a, rd_range b)
{
    return a.buffer == b.buffer && a.at < b.at + b.count && b.at < a.at + a.count;
}

/* A range that a step touches. */
typedef struct {
    rd_range range;
    uint8_t how; /* RD_READS, RD_WRITES, RD_UPDATES */
    bool last;   /* of its step, in a list */
} rd_access;

/* Which ranks share a host: hosts.h */
typedef struct rd_hosts rd_hosts;

/* What a plan is built for; a pure function of facts that all ranks share, apart from rank and in_place. */
typedef struct {
    ronda_kind kind;
    uint32_t rank, size, root;
    uint32_t width; /* bytes of an element */
    bool in_place;  /* as rd_kind_facts says; never true of a rank that gives or gets nothing */
    bool mean;      /* the op is MEAN: results are divided by size, once (rd_scale) */
    bool ordered;   /* the op does not commute: operands must stand in rank order */
    /* Elements as the API counts them (kinds that are counted: of the largest block, alltoallv: 0);
     * for a generator: of this chunk */
    uint64_t count;
    /* Kinds that are counted: where each rank's block begins in a buffer of RD_BLOCKS, and where the last
     * ends; per buffer, NULL: it has none.  A plan has its own copy. */
    const uint64_t *starts[2];
    const rd_hosts *hosts; /* NULL: all ranks share one.  It outlives the plan */
    uint64_t at;           /* generator: first element of this chunk */
    /* Generator: elements from one rank's block to the next in a buffer of RD_BLOCKS */
    uint64_t stride;
    uint32_t chunk, chunks; /* generator: which of how many */
} rd_shape;

typedef struct {
    uint32_t lane, step; /* met when the lane's cursor is past the step (and, if the step is a
                                send whose bytes were lent, when they have been released) */
} rd_dep;

typedef struct {
    uint8_t verb, side, to_buffer, from_buffer;
    bool scale; /* the result of this fold is divided by size before it is rounded */
    bool read;  /* a later step of this plan reads what it writes */
    uint16_t deps;
    uint32_t peer; /* RD_NONE for local steps */
    uint32_t lane;
    uint32_t first_dep; /* deps[first_dep .. first_dep + deps] */
    uint32_t group;     /* RD_FOLD_MANY: its group; else RD_NONE */
    /* forwards[first_forward .. + forward_count]: sends of exactly `to` that wait for this last */
    uint32_t first_forward;
    uint16_t forward_count;
    uint16_t chunk;
    /* RD_LISTED: accesses[first_access ..], up to the one that is the last; else RD_NONE */
    uint32_t first_access;
    /* send: the recv step by which the peer returns it, or RD_NONE (see below) */
    uint32_t back;
    /* send: the next of its multicast group, which are sends of one range to several peers, and the one
     * before, or RD_NONE */
    uint32_t multicast_next, multicast_prev;
    uint32_t ordinal; /* in its lane: the i-th message to or from the peer */
    uint32_t round;
    /* What its verb does with `to` and `from` is in the table; merge: to = to op from, by side.  RD_LISTED:
     * the first range that it writes, and the first that it reads */
    uint64_t to_at, from_at;
    uint64_t count;
} rd_step;
_Static_assert(sizeof(rd_step) == 80, "plans of many steps are walked often");

/* One fold_many: to = the operands folded in the order listed, in one pass, rounded once.
 * Each operand is a message (a step of verb RD_FOLD_MANY in its peer's lane) or the local range.
 * All its steps run at one moment, when every message is there and the deps of the LEADER, the
 * last step of the group in generator's order, are met; the leader has to, from, scale and forwards. */
typedef struct {
    uint32_t leader; /* step */
    /* members[first .. first + count]: steps in the order of the fold; RD_NONE: the local range */
    uint32_t first, count;
    uint32_t arriving; /* how many members are messages */
} rd_group;

typedef struct {
    uint32_t peer;       /* RD_NONE: here */
    bool sends;          /* to the peer; else from it */
    uint32_t first, end; /* steps[first .. end] */
} rd_plan_lane;

typedef struct rd_plan {
    rd_shape shape; /* of the whole call */
    const struct rd_algorithm *algorithm;
    rd_step *steps; /* lane after lane, each in the order it runs */
    rd_dep *deps;
    uint32_t *forwards; /* steps */
    rd_group *groups;
    uint32_t *members;
    rd_access *accesses; /* of steps that are RD_LISTED */
    rd_plan_lane *lanes;
    /* Steps in generator's order (of a group: the leader alone), or NULL */
    uint32_t *straight;
    uint32_t step_count, dep_count, forward_count, group_count, member_count, access_count,
        lane_count, straight_count;
    uint32_t chunks, rounds;
    uint64_t *starts;    /* shape.starts, or NULL */
    bool straight_lends; /* its straight order has messages that do not fit into a line */
    uint64_t scratch;    /* elements */
    uint64_t state;      /* elements that are kept from run to run */
    uint64_t sent;       /* elements sent by this rank */
    uint64_t returned;   /* elements of the longest send that may be given back */
    size_t bytes;        /* memory of the plan */
    struct rd_raw *raw;  /* only while building */
} rd_plan;

/* A step that may be given BACK: send s to p is marked with recv r from p when r lands what p
 * makes of s, r writes as many elements, and nothing that r waits for is unknown to be done when s
 * is sent: every dep of r is s itself or a dep of s.  A transport that lends memory then tells p where r's bytes
 * belong; p may store them there itself as soon as it has taken s, and send an empty "returned". */

/* --- for generators --- */

/* Starts at 0, never falls */
void rd_round(rd_plan *p, uint32_t round);
void rd_send(rd_plan *p, uint32_t peer, rd_range from);
void rd_recv(rd_plan *p, uint32_t peer, rd_range to);
void rd_fold(rd_plan *p, uint32_t peer, rd_range from, rd_range to, int side); /* side: of `from` */
/* peers[]: in the order to fold in; the plan's own rank stands for `from`, and may be absent.
 * NULL: ranks 0 .. count-1. */
void rd_fold_many(rd_plan *p, const uint32_t peers[], uint32_t count, rd_range from, rd_range to);
/* Nothing, if they are one */
void rd_copy(rd_plan *p, rd_range from, rd_range to);
void rd_merge(rd_plan *p, rd_range from, rd_range to, int side); /* side: of `to` */
/* Nothing, unless MEAN */
void rd_scale(rd_plan *p, rd_range range);
/* A step of a verb that is RD_LISTED: its ranges in the order that the verb wants, of which the first that
 * is written says how long the step is */
void rd_apply(rd_plan *p, int verb, const rd_access list[], uint32_t count);

/* These two take the shape by its address, for those below: a shape is long, and they are called for every message.
 * Elements first .. end-1 of `pieces` parts of the chunk; this chunk of a block */
rd_range rd_pieces_of(const rd_shape *s, int buffer, uint32_t pieces, uint32_t first, uint32_t end);
rd_range rd_chunk_of(const rd_shape *s, int buffer, uint64_t start, uint64_t count);

/* Of a buffer of RD_BLOCK: this chunk of it */
rd_range rd_whole(rd_shape s, int buffer);
/* The i-th of size parts of the chunk */
static inline rd_range rd_part(rd_shape s, int buffer, uint32_t i)
{
    return rd_pieces_of(&s, buffer, s.size, i, i + 1);
}
/* The same cut in `pieces`: first .. end-1 */
static inline rd_range rd_pieces(rd_shape s, int buffer, uint32_t pieces, uint32_t first,
                                 uint32_t end)
{
    return rd_pieces_of(&s, buffer, pieces, first, end);
}
/* Of a buffer of RD_BLOCKS: rank i's block, this chunk of it */
static inline rd_range rd_slot(rd_shape s, int buffer, uint32_t i)
{
    const uint64_t *starts = s.starts[buffer];
    if (starts)
        return rd_chunk_of(&s, buffer, starts[i], starts[i + 1] - starts[i]);
    return (rd_range){(uint8_t)buffer, i * s.stride + s.at, s.count};
}
/* The blocks first .. end-1 in one; only of what is never cut into chunks */
rd_range rd_slots(rd_shape s, int buffer, uint32_t first, uint32_t end);
/* Elements of the longest slot */
uint64_t rd_widest(rd_shape s, int buffer);
/* Ranks counted from the root on: this rank's number, and the rank that has a number */
uint32_t rd_number(rd_shape s);
uint32_t rd_numbered(rd_shape s, uint64_t number);
/* `count` elements of scratch for this chunk alone, at a place of the generator's own counting. */
rd_range rd_scratch(rd_plan *p, uint64_t at, uint64_t count);
/* The same of what is kept from run to run; but places are those of the whole call, not of a chunk. */
rd_range rd_state(rd_plan *p, uint64_t at, uint64_t count);
/* Room to list peers in, until the next call.  NULL: no memory, and the plan will not be. */
uint32_t *rd_peers(rd_plan *p, uint32_t count);

/* --- algorithms --- */

typedef void rd_generator(rd_plan *p, rd_shape s);

typedef struct rd_algorithm {
    ronda_kind kind;
    const char *name; /* "ring": unique within its kind */
    rd_generator *generate;
    uint32_t flags;
    const char *about; /* one line for people */
} rd_algorithm;

enum {
    RD_ORDERED = 1,   /* operands stand in rank order: fit for ops that do not commute */
    RD_WHOLE = 2,     /* never cut into chunks */
    RD_REFERENCE = 4, /* for comparison; never chosen by itself */
    /* A message carries one of size parts of a chunk, so chunks may be larger */
    RD_PARTED = 8,
    /* All messages are sent from scratch, which nobody writes again: copies */
    RD_COPIES = 16,
    /* Made for worlds of several hosts: chosen in no other, though it works in any.  If it is RD_ORDERED
     * too, operands stand in rank order where the ranks of each host follow each other */
    RD_BY_HOST = 32,
    /* One rank has a message for each other one in every chunk, and nothing is gained by many chunks */
    RD_STAR = 64
};

/* Ends with name NULL */
extern const rd_algorithm rd_algorithms[];
const rd_algorithm *rd_algorithm_named(ronda_kind kind, const char *name); /* NULL: none */

/* --- plans --- */

/* Builds and seals.  segment_bytes: aim of one message; 0: never cut.  NULL: no memory. */
rd_plan *rd_plan_build(const rd_algorithm *algorithm, const rd_shape *shape,
                       uint64_t segment_bytes);
void rd_plan_free(rd_plan *p);

/* As text for people: header, then the steps in an order that a newcomer can follow.  Returns the
 * length needed, like snprintf. */
size_t rd_plan_print(const rd_plan *p, ronda_type type, ronda_op op, char *text, size_t capacity);

/* The ranges that a step touches, of a group the leader alone, which has all of the group's.  pair: room
 * for two.  The plan's indices must be sound. */
const rd_access *rd_step_touches(const rd_plan *p, uint32_t step, rd_access pair[2],
                                 uint32_t *count);
bool rd_leads(const rd_plan *p, uint32_t step); /* not one of a group, or its leader */

/* What a shape makes of the user's elements: how long the buffers are, and where block i of a buffer
 * of RD_BLOCKS begins (i up to size). */
uint64_t rd_in_count(const rd_shape *s);
uint64_t rd_out_count(const rd_shape *s);
uint64_t rd_block_at(const rd_shape *s, int buffer, uint32_t i);
/* Elements of the block that is this rank's own. */
uint64_t rd_own_count(const rd_shape *s);
/* In place: the name of the buffer that has both, and where in it the other one begins. */
uint8_t rd_place_name(const rd_shape *s);
uint64_t rd_place_at(const rd_shape *s);
bool rd_can_be_in_place(const rd_shape *s);
/* Whether its operands stand in rank order in this world. */
bool rd_keeps_order(const rd_algorithm *a, const rd_shape *s);

#endif
