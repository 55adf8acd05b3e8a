/* sample.h: the ranks that stand for all.  They are fixed by the shape, never by the rank that asks: all ranks
 * come to the same sample. */
#ifndef RD_SAMPLE_H
#define RD_SAMPLE_H

#include "plan/plan.h"

enum { RD_SAMPLE_OF_HOST = 64, RD_SAMPLE_MOST = 256 };

typedef struct {
    uint32_t count, ranks[RD_SAMPLE_MOST];
    double weight[RD_SAMPLE_MOST], all; /* how many ranks each stands for, and all of them */
} rd_sample;

/* With several hosts: the root's host and as many more as there is room for, each with its ranks. */
void rd_sample_many(const rd_shape *s, rd_sample *of);
/* For plans of many steps, with several hosts: a few ranks of two of them.  The first is like most, neither the
 * root nor the first of its host (where there are others): its steps tell whether the plan is one of those. */
void rd_sample_few(const rd_shape *s, rd_sample *of);

#endif
