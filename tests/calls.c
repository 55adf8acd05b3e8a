/* calls.c: see calls.h. */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GUARD = 64 };

static unsigned char guard_byte(uint32_t rank, size_t at)
{
    return (unsigned char)(0xa5 ^ at * 7 ^ rank * 31);
}

/* All bytes are rubbish that depends on the rank. */
static char *rubbish(char *p, uint32_t rank, size_t bytes)
{
    if (!p)
        abort();
    for (size_t i = 0; i < bytes; i++)
        p[i] = (char)guard_byte(rank, i);
    return p;
}

static void fetch(call_buffers *b, int m)
{
    void *memory = NULL;
    if (b->given >> m & 1)
        CHECK(ronda_alloc(b->from, b->bytes[m], &memory) == RONDA_OK, "%s",
              ronda_last_error(b->from));
    else
        memory = malloc(b->bytes[m]);
    b->memory[m] = rubbish(memory, b->rank, b->bytes[m]);
}

call_buffers call_open(const model_call *c, uint32_t rank, bool in_place, uint32_t skew)
{
    return call_open_in(NULL, 0, c, rank, in_place, skew);
}

call_buffers call_open_in(ronda_comm *comm, uint32_t given, const model_call *c, uint32_t rank,
                          bool in_place, uint32_t skew)
{
    const size_t send = model_send_bytes(c, rank), recv = model_recv_bytes(c, rank);
    const size_t width = model_width(c->type);
    const size_t front = GUARD + skew;
    call_buffers b = {.call = *c, .rank = rank, .in_place = in_place, .from = comm, .given = given};

    b.in_place &= model_placed(c, rank) && send && recv;
    if (c->kind == RONDA_BROADCAST || c->kind == RONDA_BARRIER)
        b.in_place = true;
    b.bytes[0] = front + (b.in_place && recv > send ? recv : send) + GUARD;
    fetch(&b, 0);
    b.send = b.recv = b.memory[0] + front;
    if (!b.in_place) {
        b.bytes[1] = front + recv + GUARD;
        fetch(&b, 1);
        b.recv = b.memory[1] + front;
    } else if (model_gives(c, rank) == MODEL_BLOCK && model_gets(c, rank) == MODEL_BLOCKS) {
        b.send += model_recv_at(c, rank, rank) * width;
    } else if (model_gives(c, rank) == MODEL_BLOCKS && model_gets(c, rank) == MODEL_BLOCK) {
        b.recv += model_send_at(c, rank, rank) * width;
    }
    model_fill(c, rank, c->kind == RONDA_BROADCAST ? b.recv : b.send);
    b.sent = rubbish(malloc(send + 1), rank, send + 1);
    memcpy(b.sent, b.send, send);
    return b;
}

static void fill_counts(const model_call *c, uint32_t rank, size_t counts[], size_t recv_counts[])
{
    for (uint32_t r = 0; r < c->size; r++) {
        counts[r] = c->kind == RONDA_ALLTOALLV ? model_block(c, rank, r) : model_block(c, r, 0);
        recv_counts[r] = model_block(c, r, rank);
    }
}

static ronda_status run_counted(ronda_comm *comm, const call_buffers *b)
{
    const model_call *c = &b->call;
    size_t counts[1024], recv_counts[1024];
    fill_counts(c, b->rank, counts, recv_counts);
    switch (c->kind) {
    case RONDA_ALLGATHERV:
        return ronda_allgatherv(comm, b->send, b->recv, counts, c->type);
    case RONDA_REDUCE_SCATTERV:
        return ronda_reduce_scatterv(comm, b->send, b->recv, counts, c->type, c->op);
    case RONDA_GATHERV:
        return ronda_gatherv(comm, b->send, b->recv, counts, c->type, c->root);
    case RONDA_SCATTERV:
        return ronda_scatterv(comm, b->send, b->recv, counts, c->type, c->root);
    default:
        return ronda_alltoallv(comm, b->send, counts, b->recv, recv_counts, c->type);
    }
}

ronda_status call_run(ronda_comm *comm, const call_buffers *b)
{
    const model_call *c = &b->call;
    switch (c->kind) {
    case RONDA_ALLREDUCE:
        return ronda_allreduce(comm, b->send, b->recv, c->count, c->type, c->op);
    case RONDA_REDUCE:
        return ronda_reduce(comm, b->send, b->recv, c->count, c->type, c->op, c->root);
    case RONDA_BROADCAST:
        return ronda_broadcast(comm, b->recv, c->count, c->type, c->root);
    case RONDA_ALLGATHER:
        return ronda_allgather(comm, b->send, b->recv, c->count, c->type);
    case RONDA_REDUCE_SCATTER:
        return ronda_reduce_scatter(comm, b->send, b->recv, c->count, c->type, c->op);
    case RONDA_GATHER:
        return ronda_gather(comm, b->send, b->recv, c->count, c->type, c->root);
    case RONDA_SCATTER:
        return ronda_scatter(comm, b->send, b->recv, c->count, c->type, c->root);
    case RONDA_ALLTOALL:
        return ronda_alltoall(comm, b->send, b->recv, c->count, c->type);
    case RONDA_SCAN:
        return ronda_scan(comm, b->send, b->recv, c->count, c->type, c->op);
    case RONDA_EXSCAN:
        return ronda_exscan(comm, b->send, b->recv, c->count, c->type, c->op);
    case RONDA_BARRIER:
        return ronda_barrier(comm);
    default:
        return run_counted(comm, b);
    }
}

ronda_call call_whole(const call_buffers *b, size_t counts[])
{
    const model_call *c = &b->call;
    fill_counts(c, b->rank, counts, counts + c->size);
    return (ronda_call){.struct_size = sizeof(ronda_call),
                        .kind = c->kind,
                        .type = c->type,
                        .op = c->op,
                        .root = c->root,
                        .send = b->send,
                        .recv = b->recv,
                        .count = c->count,
                        .counts = counts,
                        .recv_counts = counts + c->size};
}

static ronda_status start_counted(ronda_comm *comm, const call_buffers *b, const ronda_call *w,
                                  ronda_request **out)
{
    const model_call *c = &b->call;
    switch (c->kind) {
    case RONDA_ALLGATHERV:
        return ronda_iallgatherv(comm, b->send, b->recv, w->counts, c->type, out);
    case RONDA_REDUCE_SCATTERV:
        return ronda_ireduce_scatterv(comm, b->send, b->recv, w->counts, c->type, c->op, out);
    case RONDA_GATHERV:
        return ronda_igatherv(comm, b->send, b->recv, w->counts, c->type, c->root, out);
    case RONDA_SCATTERV:
        return ronda_iscatterv(comm, b->send, b->recv, w->counts, c->type, c->root, out);
    default:
        return ronda_ialltoallv(comm, b->send, w->counts, b->recv, w->recv_counts, c->type, out);
    }
}

ronda_status call_start(ronda_comm *comm, const call_buffers *b, bool post, ronda_request **out)
{
    const model_call *c = &b->call;
    size_t counts[2048];
    const ronda_call whole = call_whole(b, counts);
    if (post)
        return ronda_post(comm, &whole, out);
    switch (c->kind) {
    case RONDA_ALLREDUCE:
        return ronda_iallreduce(comm, b->send, b->recv, c->count, c->type, c->op, out);
    case RONDA_REDUCE:
        return ronda_ireduce(comm, b->send, b->recv, c->count, c->type, c->op, c->root, out);
    case RONDA_BROADCAST:
        return ronda_ibroadcast(comm, b->recv, c->count, c->type, c->root, out);
    case RONDA_ALLGATHER:
        return ronda_iallgather(comm, b->send, b->recv, c->count, c->type, out);
    case RONDA_REDUCE_SCATTER:
        return ronda_ireduce_scatter(comm, b->send, b->recv, c->count, c->type, c->op, out);
    case RONDA_GATHER:
        return ronda_igather(comm, b->send, b->recv, c->count, c->type, c->root, out);
    case RONDA_SCATTER:
        return ronda_iscatter(comm, b->send, b->recv, c->count, c->type, c->root, out);
    case RONDA_ALLTOALL:
        return ronda_ialltoall(comm, b->send, b->recv, c->count, c->type, out);
    case RONDA_SCAN:
        return ronda_iscan(comm, b->send, b->recv, c->count, c->type, c->op, out);
    case RONDA_EXSCAN:
        return ronda_iexscan(comm, b->send, b->recv, c->count, c->type, c->op, out);
    case RONDA_BARRIER:
        return ronda_ibarrier(comm, out);
    default:
        return start_counted(comm, b, &whole, out);
    }
}

/* The first byte of from .. to that is not rubbish any more; to: all is as it was. */
static const char *touched(const call_buffers *b, int m, const char *from, const char *to)
{
    while (from < to && (unsigned char)*from == guard_byte(b->rank, (size_t)(from - b->memory[m])))
        from++;
    return from;
}

static const char *least(const char *a, const char *b)
{
    return a < b ? a : b;
}

/* Every byte of a memory but what the call may write: rubbish as before, or what was sent. */
static bool memory_clean(const call_buffers *b, int m)
{
    const char *const end = b->memory[m] + b->bytes[m];
    const char *const sent_end = b->send + model_send_bytes(&b->call, b->rank);
    const char *const recv_end = b->recv + model_recv_bytes(&b->call, b->rank);
    for (const char *at = b->memory[m]; at < end;) {
        const char *next = end;
        bool clean;
        if (at >= b->recv && at < recv_end) {
            at = least(recv_end, end);
            continue;
        }
        if (at < b->recv)
            next = least(next, b->recv);
        if (at < b->send)
            next = least(next, b->send);
        if (at >= b->send && at < sent_end) {
            next = least(next, sent_end);
            clean = memcmp(at, b->sent + (at - b->send), (size_t)(next - at)) == 0;
        } else {
            clean = touched(b, m, at, next) == next;
        }
        if (!CHECK(clean, "%s: rank %u: send (or what is beside it) was written",
                   model_text(&b->call), b->rank))
            return false;
        at = next;
    }
    return true;
}

bool call_clean(const call_buffers *b)
{
    bool clean = true;
    for (int m = 0; m < 2 && b->memory[m]; m++)
        clean &= memory_clean(b, m);
    return clean;
}

bool call_right(const call_buffers *b, const void *whole)
{
    char why[512] = "";
    const bool right = whole ? model_same(&b->call, b->rank, b->recv, whole, why, sizeof why)
                             : model_near(&b->call, b->rank, b->recv, why, sizeof why);
    CHECK(right, "%s%s", why, b->in_place ? " (in place)" : "");
    return call_clean(b) && right;
}

void call_close(call_buffers *b)
{
    for (int m = 0; m < 2 && b->memory[m]; m++) {
        memset(b->memory[m], 0x5a, b->bytes[m]);
        if (b->given >> m & 1)
            CHECK(ronda_free(b->from, b->memory[m]) == RONDA_OK, "%s", ronda_last_error(b->from));
        else
            free(b->memory[m]);
    }
    free(b->sent);
}

/* --- worlds --- */

bool world_open(uint32_t size, const char *algorithms, ronda_comm *comms[])
{
    if (algorithms)
        setenv("RONDA_ALGO", algorithms, 1);
    else
        unsetenv("RONDA_ALGO");
    const ronda_status status = ronda_init_local(size, comms);
    unsetenv("RONDA_ALGO");
    return CHECK(status == RONDA_OK, "%u ranks, %s: %s", size, algorithms ? algorithms : "",
                 ronda_last_error(NULL));
}

void world_close(uint32_t size, ronda_comm *comms[])
{
    for (uint32_t r = 0; r < size; r++) {
        const ronda_status status = ronda_close(comms[r]);
        CHECK(status == RONDA_OK, "closing rank %u of %u: %s", r, size, ronda_strerror(status));
    }
}

typedef struct {
    ronda_comm **comms;
    rank_fn *body;
} play;

static void play_rank(void *context, uint32_t rank)
{
    const play *p = context;
    p->body(p->comms[rank], rank);
}

void world_play(uint32_t size, const char *algorithms, rank_fn *body)
{
    ronda_comm *comms[1024];
    if (!world_open(size, algorithms, comms))
        return;
    run_ranks(size, play_rank, &(play){comms, body});
    world_close(size, comms);
}

planned_call call_plan(rng *r, const model_call *c, bool exact)
{
    return (planned_call){.call = *c,
                          .whole = exact ? model_whole(c) : NULL,
                          .in_place = rng_next(r),
                          .skew = rng_below(r, 2) ? 0 : (uint32_t)rng_below(r, 64),
                          .urgent = rng_below(r, 5) == 0};
}

typedef struct {
    ronda_comm **comms;
    planned_call *calls;
    uint32_t count;
} program;

static void run_program(void *context, uint32_t rank)
{
    const program *p = context;
    for (uint32_t i = 0; i < p->count; i++) {
        const planned_call *c = &p->calls[i];
        call_buffers b = call_open(&c->call, rank, c->in_place >> rank % 64 & 1, c->skew);
        const ronda_status status = call_run(p->comms[rank], &b);
        const bool ok = CHECK(status == RONDA_OK, "call %u, %s: rank %u: %s", i,
                              model_text(&c->call), rank, ronda_last_error(p->comms[rank])) &&
                        call_right(&b, c->whole);
        call_close(&b);
        if (!ok) {
            ronda_abort(p->comms[rank], "a result was wrong");
            return;
        }
    }
}

void world_run(uint32_t size, ronda_comm *comms[], planned_call calls[], uint32_t count)
{
    program p = {comms, calls, count};
    run_ranks(size, run_program, &p);
}

void calls_free(planned_call calls[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        free(calls[i].whole);
}

/* --- time --- */

void sleep_ms(unsigned ms)
{
    const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
