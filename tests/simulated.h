/* simulated.h: a network in memory for the framing of tcp, which does by a seed what networks may do: it takes and gives
 * bytes in pieces of any length, delays them, lets one stream overtake another, refuses for a moment, and ends streams.
 *
 * On its virtual clock, which moves when somebody waits or asks for the time, one thread can have all ranks, and a run
 * is the same whenever its seed is. */
#ifndef RD_SIMULATED_H
#define RD_SIMULATED_H

#include "harness.h"
#include "transport/transport.h"

enum { SIMULATED_RANKS = 8 };

typedef struct simulated simulated;

typedef struct {
    uint64_t seed;
    uint64_t piece;    /* the most bytes that one read or write moves */
    uint64_t delay_ns; /* the most that bytes take */
    uint32_t refuse;   /* how often in 256 there is nothing to do although there is */
    bool checksum;     /* frames have checksums */
    bool clock;        /* the machine's, for ranks in threads; else virtual */
} simulated_mood;

simulated_mood simulated_draw(uint64_t seed);
/* A world of links over it, which is freed with its last link. */
simulated *simulated_open(uint32_t size, simulated_mood mood, rd_link *links[]);
uint64_t simulated_now(simulated *s);
/* What the network has done so far, as a number. */
uint64_t simulated_trace(const simulated *s);
/* Ends a stream between two ranks on which both have read so much, and what was under way on it is lost; false: there
 * is none. */
bool simulated_cut(simulated *s, uint32_t one, uint32_t other, uint64_t least_read);
void simulated_kill(simulated *s, uint32_t rank); /* its streams end, and it listens no more */

#endif
