/* liar.h: a rank whose messages are forged, and numbers that hurt. */
#ifndef RD_LIAR_H
#define RD_LIAR_H

#include "harness.h"
#include "transport/share.h"

/* A number that somebody may not have thought of, near `now` or `limit` or far from both. */
uint64_t hurtful(rng *r, uint64_t now, uint64_t limit);

/* After so many true messages one of this link's is a lie of this kind; after that it says the truth
 * again.  One liar per process, over rd_shm. */
enum { LIE_COUNT = 20, LIAR_RANKS = 8 };
void become_liar(rd_link *link, uint64_t seed, uint32_t lie, uint32_t after);

/* The line that a rank writes as its number-th to a peer. */
rd_line *line_of(rd_member *m, uint32_t from, uint32_t to, uint32_t channel, uint32_t number);

enum { LINE_INLINE = 1, LINE_LENT, LINE_STAGED, LINE_RETURNED }; /* as share.c has them */

#endif
