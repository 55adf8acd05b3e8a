/* mutate.h: correct plans, and ways to spoil them, for test_mutants.c. */
#ifndef RD_MUTATE_H
#define RD_MUTATE_H

#include "harness.h"
#include "interpret.h"
#include "proof/check.h"

/* One collective, drawn at random; plans[] are raw until seal_subject(). */
typedef struct {
    const rd_algorithm *algorithm;
    rd_plan *plans[MOST_RANKS];
    rd_hosts *hosts; /* or NULL: one */
    uint32_t n;
    uint64_t segment;
    char text[400]; /* what it is and how it was spoiled */
} subject;

subject draw_subject(rng *random);
void seal_subject(subject *s);
void free_subject(subject *s);
void note(subject *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Spoils the subject in one place; false: there is nothing of the kind to spoil. */
typedef bool mutation(subject *s, rng *random);

typedef struct {
    const char *name;
    mutation
        *raw; /* before sealing, so that everything is derived from the spoiled steps; or NULL */
    mutation *sealed; /* after it; or NULL */
    bool wild;        /* may be no plan at all: fit to run only if the proof accepts it */
} mutant_kind;

extern const mutant_kind mutant_kinds[]; /* ends with name NULL */

/* mutate_sealed.c's */
mutation sealed_shift, sealed_shrink, sealed_peer, sealed_verb, sealed_side, sealed_order,
    sealed_scratch, sealed_dep_less, sealed_dep_more, sealed_back, sealed_forward, sealed_straight,
    sealed_anything;

#endif
