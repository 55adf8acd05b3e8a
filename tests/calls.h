/* calls.h: collectives of model.h through the public API, in buffers that show who wrote beside
 * them, and worlds to make them in. */
#ifndef RD_CALLS_H
#define RD_CALLS_H

#include "model.h"

/* One rank's buffers of one call.  send and recv are what the call gets. */
typedef struct {
    model_call call;
    uint32_t rank;
    bool in_place;
    char *send, *recv;
    char *sent; /* what was in send at first */
    char *memory[2];
    size_t bytes[2];  /* of both, guards included */
    ronda_comm *from; /* of what ronda_alloc gave: whose */
    uint32_t given;   /* bit m: memory[m] */
} call_buffers;

/* Fills send as the model says and recv with rubbish.  skew: bytes by which both are misplaced, up
 * to 63.  A broadcast is always in place, a barrier has no buffers. */
call_buffers call_open(const model_call *c, uint32_t rank, bool in_place, uint32_t skew);
/* The same; bit 0 of `given`: send, bit 1: recv is memory from ronda_alloc. */
call_buffers call_open_in(ronda_comm *comm, uint32_t given, const model_call *c, uint32_t rank,
                          bool in_place, uint32_t skew);
ronda_status call_run(ronda_comm *comm, const call_buffers *b);
/* Without blocking: by its i-form, or by ronda_post. */
ronda_status call_start(ronda_comm *comm, const call_buffers *b, bool post, ronda_request **out);
/* The call as ronda_post takes it; counts: room for 2 * size. */
ronda_call call_whole(const call_buffers *b, size_t counts[]);

/* The result is the model's bits (whole), or near it (NULL), and nothing else was written. */
bool call_right(const call_buffers *b, const void *whole);
bool call_clean(const call_buffers *b); /* what must not be written was not */
void call_close(call_buffers *b);       /* overwrites everything, and frees it */

/* A world of threads with these algorithms ("allreduce=ring"; NULL: by cost). */
bool world_open(uint32_t size, const char *algorithms, ronda_comm *comms[]);
void world_close(uint32_t size, ronda_comm *comms[]);
/* Opens one, runs the body in a thread for each rank, and closes it. */
typedef void rank_fn(ronda_comm *comm, uint32_t rank);
void world_play(uint32_t size, const char *algorithms, rank_fn *body);

/* A list of calls, made by all ranks of a world one after the other, without a pause. */
typedef struct {
    model_call call;
    void *whole;       /* the model's bits; NULL: near is enough */
    uint64_t in_place; /* bit (rank % 64) */
    uint32_t skew;
    bool urgent; /* its priority is above 0: only what under_way.c starts can be */
} planned_call;
planned_call call_plan(rng *r, const model_call *c, bool exact);
void world_run(uint32_t size, ronda_comm *comms[], planned_call calls[], uint32_t count);
void calls_free(planned_call calls[], uint32_t count);

void sleep_ms(unsigned ms);
double seconds_now(void);

#endif
