/* terms.h: values of the abstract machine: who contributed what, folded in which order.
 *
 * A term is a number, and equal terms have equal numbers (hash-consing), so that "all ranks hold the
 * same" is a comparison of integers.
 *
 *     0                  garbage: memory that nobody wrote, and everything made of it
 *     1 .. brought       leaf(rank, element): what a rank brought
 *     .. leaves          state(rank, element): what its state was before the run
 *     above              fold(left, right), many(operands, rounded once), scale(term), and
 *                        made(tag, operands): whatever else a verb makes, of which nothing is known but
 *                        that the same operands give the same
 *
 * Garbage needs no names of its own: one drop of it in a result is refused, wherever it came from. */
#ifndef RD_TERMS_H
#define RD_TERMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RD_GARBAGE 0u
#define RD_MOST_TERMS (1u << 31) /* the bit above tells a list's length from a term */

typedef uint32_t rd_term;

typedef struct {
    /* fold: terms; scale: term, 0; many, made: place in lists, length with one or two high bits */
    uint32_t left, right;
} rd_term_node;

typedef struct {
    uint32_t per_rank; /* elements that each rank brings */
    uint32_t states;   /* elements of state that each has */
    uint32_t brought, leaves;
    rd_term_node *nodes; /* node i is term 1 + leaves + i */
    uint32_t count, capacity;
    uint32_t *table;     /* open addressing: 1 + node, 0: free */
    uint32_t table_size; /* a power of two */
    uint32_t *lists;
    size_t list_count, list_capacity;
    bool failed; /* no memory, or more terms than numbers */
} rd_terms;

/* false: too many elements */
bool rd_terms_start(rd_terms *t, uint32_t ranks, uint64_t per_rank, uint64_t states);
void rd_terms_free(rd_terms *t);

rd_term rd_term_leaf(const rd_terms *t, uint32_t rank, uint64_t element);
rd_term rd_term_state(const rd_terms *t, uint32_t rank, uint64_t element);
rd_term rd_term_fold(rd_terms *t, rd_term left, rd_term right);
rd_term rd_term_many(rd_terms *t, const rd_term operands[], uint32_t count);
rd_term rd_term_scale(rd_terms *t, rd_term term);
/* tag: any number that tells it from what else is made of them */
rd_term rd_term_made(rd_terms *t, uint32_t tag, const rd_term operands[], uint32_t count);

enum {
    RD_TERM_GARBAGE,
    RD_TERM_LEAF,
    RD_TERM_STATE,
    RD_TERM_FOLD,
    RD_TERM_MANY,
    RD_TERM_SCALE,
    RD_TERM_MADE
};
int rd_term_kind(const rd_terms *t, rd_term term);
/* Of a leaf or a state */
uint32_t rd_term_rank(const rd_terms *t, rd_term leaf);
uint32_t rd_term_element(const rd_terms *t, rd_term leaf);
uint32_t rd_term_tag(const rd_terms *t, rd_term made);
/* What any other is made of, from left to right; `pair` is room for two. */
const rd_term *rd_term_operands(const rd_terms *t, rd_term term, rd_term pair[2], uint32_t *count);

#endif
