/* model.h: what a collective should give, computed the slow and obvious way.
 *
 * A call is data.  Element `index` of a rank's input is a function of (seed, rank, index), so any
 * rank can say what any other has sent, and a wrong chunk, a swapped rank or a stale buffer shows.
 * Nothing here is taken from the library but ronda.h. */
#ifndef RD_MODEL_H
#define RD_MODEL_H

#include "harness.h"
#include "ronda.h"

/* What the floats are like; integers are always all of their bits. */
typedef enum {
    MODEL_EXACT, /* small whole numbers, and powers of two for PROD: no order of folding rounds */
    MODEL_ANY,   /* ordinary numbers, which round */
    MODEL_WILD   /* with NaN, infinities, zeros of both signs and denormals among them */
} model_data;

typedef struct {
    ronda_kind kind;
    ronda_type type;
    ronda_op op; /* SUM where the kind has none */
    uint32_t root, size;
    uint64_t count; /* as the API counts it, or the longest block; 0 for a barrier */
    model_data data;
    uint64_t seed;
} model_call;

/* What a kind is like. */
typedef enum { MODEL_NOTHING, MODEL_BLOCK, MODEL_BLOCKS } model_amount;
typedef struct {
    const char *name;
    model_amount gives, gets;
    bool root_gives, root_gets, reduces, rooted, counted, placed;
} model_facts;
const model_facts *model_facts_of(ronda_kind kind);
model_amount model_gives(const model_call *c, uint32_t rank); /* broadcast, barrier: nothing */
model_amount model_gets(const model_call *c, uint32_t rank);
bool model_reduces(ronda_kind kind);
bool model_rooted(ronda_kind kind);
bool model_counted(ronda_kind kind);                   /* blocks differ in length: up to c->count */
bool model_placed(const model_call *c, uint32_t rank); /* can it work in place? */

/* Elements that go from one rank to another, or of rank r's block (to: not looked at, but by alltoallv). */
uint64_t model_block(const model_call *c, uint32_t from, uint32_t to);
/* Where block i of a rank's send or recv begins, in elements. */
uint64_t model_send_at(const model_call *c, uint32_t rank, uint32_t i);
uint64_t model_recv_at(const model_call *c, uint32_t rank, uint32_t i);

/* Bytes of a rank's send and recv buffers. */
size_t model_send_bytes(const model_call *c, uint32_t rank); /* broadcast, barrier: 0 */
size_t model_recv_bytes(const model_call *c, uint32_t rank);

/* What a rank gives: model_send_bytes() of it; for a broadcast what is in its buffer at first. */
void model_fill(const model_call *c, uint32_t rank, void *to);

/* The results of all ranks: one rank's after the other's, or the one that all have.  Floats are folded in rank order, in f32 or f64, and rounded once: bits that "direct"
 * algorithms promise, and that every algorithm has with MODEL_EXACT.  To be freed. */
void *model_whole(const model_call *c);

/* Whether a rank's result is the model's bits.  If not, `why` tells of the first that is wrong. */
bool model_same(const model_call *c, uint32_t rank, const void *recv, const void *whole, char *why,
                size_t capacity);

/* Whether it is right as far as any order of folding may round it. */
bool model_near(const model_call *c, uint32_t rank, const void *recv, char *why, size_t capacity);

/* "allreduce of 10 f32, sum, 4 ranks (seed 77)"; good until this thread's next call of it. */
const char *model_text(const model_call *c);

/* Random calls. */
ronda_kind model_kind(rng *r);
model_call model_draw(rng *r, ronda_kind kind, uint32_t size, uint64_t most_bytes);
ronda_op model_op(rng *r, ronda_type type); /* one that the type allows */
size_t model_width(ronda_type type);        /* bytes of an element */
bool model_is_float(ronda_type type);

#endif
