/* program.h: programs of collectives on engines, over any transport.
 *
 * All ranks run the same list of collectives, one after the other or several under way at once, in
 * threads of this process; results are compared with the model and with those of an earlier run. */
#ifndef RD_PROGRAM_H
#define RD_PROGRAM_H

#include "calls.h"
#include "engine/engine.h"

enum { PROGRAM_RANKS = 17, PROGRAM_LEGS = 64, PROGRAM_WINDOW = 12 };
#define PROGRAM_TIMEOUT_NS UINT64_C(30000000000)

/* One collective of a program, as all ranks know it. */
typedef struct {
    planned_call planned;
    const rd_algorithm *algorithm;
    uint64_t segment;          /* bytes for which the plan is cut */
    char *bits[PROGRAM_RANKS]; /* what an earlier run gave each rank, or NULL */
} leg;

typedef struct {
    uint32_t size, count;
    uint32_t first; /* leg to run: those before it have been run on these engines */
    leg legs[PROGRAM_LEGS];
    rd_link *links[PROGRAM_RANKS];
    rd_engine *engines[PROGRAM_RANKS];
    bool lanes;      /* walk nothing straight */
    uint32_t window; /* at most so many under way; 0: one after the other by rd_engine_run */
    bool keep;       /* put results into bits, instead of comparing with them */
    uint64_t seed;
    const rd_hosts *hosts; /* that plans are made for, or NULL: one */
} program;

/* A leg on one rank. */
typedef struct {
    rd_plan *plan;
    call_buffers buffers;
    uint8_t *token; /* a barrier's, in and out */
    rd_job job;
    rd_operation *operation;
} stage;

/* Random legs.  Plans are cut for tiny segments too, so that few bytes make many chunks.  exact:
 * floats that do not round. */
const rd_algorithm *some_algorithm(rng *r, ronda_kind kind);
/* In rank order, and rounded once: all that do so give the same bits. */
bool folds_in_one_pass(const rd_algorithm *a);
leg leg_draw(rng *r, const rd_algorithm *a, uint32_t size, uint64_t most_bytes, bool exact);
void program_draw(rng *r, program *p, uint32_t count, uint64_t most_bytes, bool exact);
void program_free(program *p);

/* Engines on p->links; closing closes both. */
bool engines_open(program *p);
void engines_close(program *p);

void stage_open(const program *p, uint32_t rank, uint64_t sequence, const leg *l, stage *s);
void stage_finish(const program *p, uint32_t rank, leg *l, stage *s); /* checks, and frees */
void stage_free(stage *s);

/* Opens links and engines, runs everything, closes; false if something was wrong. */
typedef bool links_fn(uint32_t size, rd_link *links[]);
bool program_run(program *p, links_fn *open);
bool program_run_on_links(program *p);   /* that are open already */
bool program_run_on_engines(program *p); /* the same, and leaves them open */

#endif
