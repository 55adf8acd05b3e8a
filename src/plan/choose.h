/* choose.h: what a plan costs, and which algorithm is cheapest. */
#ifndef RD_CHOOSE_H
#define RD_CHOOSE_H

#include "plan/plan.h"

/* What the choice may depend on: equal on all ranks of a world. */
typedef struct rd_facts {
    uint32_t cpus;     /* that the ranks share, on all hosts together */
    double latency_ns; /* waiting, a round */
    double switch_ns;  /* from one rank to the next on the same core */
    double send_ns;    /* a message sent */
    double receive_ns; /* a message received */
    double lend_ns;    /* more for one that is lent: its bytes are fetched after it */
    double stage_ns;   /* writing what will be lent, and per byte of it: */
    double stage_byte_ns;
    double carry_ns;        /* per byte sent, and per byte received, by the system */
    double copy_ns;         /* per byte received */
    double fold_ns;         /* per byte and operand */
    bool copies;            /* what is sent of the caller's memory */
    uint64_t segment_bytes; /* what plans are cut for */
    uint64_t part_bytes;    /* those whose messages are parts: rd_segment_for; 0: as all */
    /* Of peers on another host, by the map of the shape; NULL: they are like others */
    const struct rd_facts *far;
    double wire_ns; /* per byte that a host sends or gets, by all of its ranks together */
} rd_facts;

rd_facts rd_facts_local(uint32_t cpus); /* ranks as threads */
rd_facts rd_facts_shm(uint32_t cpus);   /* as processes of a machine */
rd_facts rd_facts_tcp(uint32_t cpus);   /* anywhere */
rd_facts rd_facts_mixed(uint32_t cpus); /* processes on each host, and sockets between hosts */

typedef struct {
    const rd_algorithm *algorithm;
    uint32_t rounds, messages; /* of the rank that has most of them */
    uint64_t sent_bytes;       /* by the rank that sends most */
    double ns;                 /* estimate */
    bool bulky;                /* it wants more scratch than is worth it: after all others */
} rd_price;

/* The size of messages that a plan is cut for, as rd_plan_build wants it. */
uint64_t rd_segment_for(const rd_facts *facts, const rd_algorithm *a, const rd_shape *shape);

/* No memory: .algorithm is NULL. */
rd_price rd_price_of(const rd_algorithm *a, const rd_shape *shape, const rd_facts *facts);

/* The shape that stands for all of its class, of which a choice is made once: sizes of 256 bytes and more are
 * rounded down to a quarter of a power of two, shorter ones stand for themselves; so do the counts of kinds
 * that are counted.  A pure function, so all ranks have the same classes whatever they called before. */
rd_shape rd_class_of(const rd_shape *shape);

/* The cheapest algorithm for this shape.  A pure function of shape (without rank and in_place) and
 * facts.  prices: NULL, or room for all candidates (*count of them), ends up cheapest first.
 * NULL: no memory. */
bool rd_fits(const rd_algorithm *a,
             const rd_shape *shape); /* an op that does not commute wants order */
/* Whether it is looked at: what is for hosts alone or for comparison is not, elsewhere. */
bool rd_is_candidate(const rd_algorithm *a, const rd_shape *shape);
enum { RD_MOST_CANDIDATES = 16 };
const rd_algorithm *rd_choose(const rd_shape *shape, const rd_facts *facts, rd_price prices[],
                              uint32_t *count);

#endif
