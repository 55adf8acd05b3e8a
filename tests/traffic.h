/* traffic.h: messages between the ranks of a communicator, as data that all of them know. */
#ifndef RD_TRAFFIC_H
#define RD_TRAFFIC_H

#include "harness.h"
#include "ronda.h"

enum { TRAFFIC_MOST = 64, TRAFFIC_LONGEST = 200000 };

typedef struct {
    uint32_t from, to, tag;
    size_t count; /* of u32 */
} message;

typedef struct {
    uint32_t count;
    message messages[TRAFFIC_MOST]; /* in the order in which each rank sends its own */
    uint64_t seed;
} traffic;

message message_draw(rng *r, uint32_t size, size_t longest);
void traffic_fill(const traffic *t, uint32_t i, uint32_t *to); /* what message i carries */

/* Whether a rank may have got this: of messages alike the first that has not been received comes first.
 * To be asked in the order in which the receives were posted; received[]: false at first. */
bool traffic_check(const traffic *t, uint32_t rank, const ronda_message *info, const uint32_t *got,
                   bool received[]);

#endif
