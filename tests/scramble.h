/* scramble.h: a transport that is as unhelpful as transport.h allows.
 *
 * It carries messages over rd_local, but at random refuses to send, to show what has come, or to say
 * that a loan is released; shows a message bit by bit, whole elements or not; forgets where
 * a message could be stored back; and lends some memory but not other, which is then sent in pieces.
 * It never sleeps.  What a seed refuses is always the same for the same sequence of calls. */
#ifndef RD_SCRAMBLE_H
#define RD_SCRAMBLE_H

#include "transport/transport.h"

typedef struct {
    uint64_t seed;
    uint32_t refuse;  /* of 256 sends, looks and questions, how many are refused */
    uint32_t shorten; /* of 256 messages shown, how many not whole */
    uint32_t forget;  /* of 256 places to store back, how many are dropped */
    uint32_t copy;    /* of 256 ranges of memory, how many cannot be lent */
} scramble_mood;

scramble_mood scramble_draw(uint64_t seed); /* some mood, harsh or mild */
bool scramble_open(uint32_t size, scramble_mood mood, rd_link *links[]);

#endif
