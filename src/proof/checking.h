/* checking.h: what the parts of the proof share.  See check.c for how they fit together. */
#ifndef RD_CHECKING_H
#define RD_CHECKING_H

#include "proof/check.h"
#include "proof/terms.h"

/* Where a rank's buffers lie in the machine's memory, one behind the other. */
typedef struct {
    uint64_t at[RD_BUFFERS], length[RD_BUFFERS];
} rd_check_memory;

typedef struct {
    rd_plan *const *plans;
    uint32_t n;
    rd_proof *proof;
    uint32_t *lane_base;     /* per rank, and the total: lanes of all ranks, numbered through */
    uint32_t *step_base;     /* the same for steps */
    uint32_t *group_base;    /* the same for groups */
    uint32_t *lane_rank;     /* per lane: its rank */
    uint32_t *match;         /* per lane: the lane at the other end; RD_NONE: here */
    rd_check_memory *memory; /* per rank */
    uint64_t cells;          /* elements of all buffers of all ranks */
    rd_terms terms;
    rd_term *values; /* what the buffers hold after the first run */
    uint32_t
        *order; /* per rank, from step_base on: the order in which the first run did its steps */
    uint32_t *ordered; /* per rank: how many (of a group the leader alone) */
} rd_checking;

/* Writes down why, unless there is a reason already; returns false. */
bool rd_refuse(rd_checking *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool rd_refuse_memory(rd_checking *c);

enum { RD_STEP_TEXT = 64 };
/* "fold #2 from rank 1": for sentences.  The step must exist; returns text. */
const char *rd_step_text(const rd_plan *p, uint32_t step, char text[RD_STEP_TEXT]);
const char *rd_buffer_text(uint8_t buffer);

/* The parts, in the order in which they run; false: refused. */
bool rd_check_structure(rd_checking *c); /* indices, ranges, lanes, groups, marks */
bool rd_check_matches(rd_checking *c);   /* each send has its receive, of the same size */
bool rd_check_runs(rd_checking *c);      /* nothing waits for ever; fills values and order */
bool rd_check_races(rd_checking *c);
bool rd_check_results(rd_checking *c);

#endif
