/* forest.h: random splits of a world, as data that all ranks know. */
#ifndef RD_FOREST_H
#define RD_FOREST_H

#include "harness.h"
#include "ronda.h"

enum { FOREST_RANKS = 17, FOREST_NODES = 7 };

/* Node 0 is the world; any other is what comes of splitting an earlier one, all of its parts. */
typedef struct {
    uint32_t parent;
    int color[FOREST_RANKS], key[FOREST_RANKS]; /* per rank of the parent */
} node;

typedef struct {
    uint32_t size;
    node nodes[FOREST_NODES];
    uint64_t seed;
    ronda_comm *worlds[FOREST_RANKS]; /* of threads */
} forest;

/* Where a rank of the world is in a node. */
typedef struct {
    int part; /* by color, all the way down; -1: in none */
    uint32_t rank, size;
    uint32_t members[FOREST_RANKS]; /* ranks of the world */
} place;

void forest_draw(rng *r, forest *f, uint32_t size); /* parents are drawn, too */
place forest_place(const forest *f, uint32_t n, uint32_t world_rank);

/* Makes a rank's end of node n out of its parent's, and checks rank and size of it. */
bool forest_split(const forest *f, uint32_t n, uint32_t world_rank, ronda_comm *comms[]);

#endif
