/* costs.h: what messages cost, for the price of a plan.  Each transport has its own numbers (in its row of the table
 * of transports); plan/choose.c knows no transport by name. */
#ifndef RD_COSTS_H
#define RD_COSTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rd_facts {
    uint32_t cpus;     /* that the ranks share, on all hosts together; 0 in a transport's row */
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

#endif
