/* collectives.c: the public collectives.  They check what the caller gave and hand it on; whatever is
 * wrong is said here, before anything has been sent. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "comm/comm.h"

/* What this rank gives and gets, in elements; blocks that are its own begin at `own`. */
typedef struct {
    uint64_t gives, gets, own;
} amounts;

static ronda_status invalid(ronda_comm *c, ronda_kind kind, const char *what)
{
    c->error = (rd_error){.rank = c->rank};
    return rd_fail(&c->error, RONDA_EINVAL, RONDA_ANY, "rank %u: %s: %s", c->rank,
                   rd_kind_name(kind), what);
}

static bool overlap(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes && b_bytes && (x < y ? y - x < a_bytes : x - y < b_bytes);
}

static ronda_status check_op(ronda_comm *c, const rd_call *call)
{
    char text[160];
    if (!rd_kind_reduces(call->kind))
        return RONDA_OK;
    if (strcmp(rd_op_name(call->op), "?") == 0)
        snprintf(text, sizeof text, "%" PRId32 " is not an op", call->op);
    else if (!rd_op_allows(call->op, call->type))
        snprintf(text, sizeof text, "%s is not defined for %s", rd_op_name(call->op),
                 rd_type_name(call->type));
    else if (call->op == RONDA_MEAN && !rd_kind_means(call->kind))
        snprintf(text, sizeof text, "mean is not defined for it");
    else
        return RONDA_OK;
    return invalid(c, call->kind, text);
}

static ronda_status check_call(ronda_comm *c, const rd_call *call)
{
    char text[160];
    const size_t width = ronda_type_size(call->type);
    if (width == 0) {
        snprintf(text, sizeof text, "%" PRId32 " is not a type", call->type);
        return invalid(c, call->kind, text);
    }
    const ronda_status status = check_op(c, call);
    if (status)
        return status;
    if (call->root >= c->size) {
        snprintf(text, sizeof text, "root %u is not a rank of a world of %u", call->root, c->size);
        return invalid(c, call->kind, text);
    }
    const uint64_t times = rd_kind(call->kind)->counted ? 1 : c->size;
    if (call->count > (uint64_t)PTRDIFF_MAX / width / times) {
        snprintf(text, sizeof text,
                 "%" PRIu64 " elements of %s%s are more bytes than memory can have", call->count,
                 rd_type_name(call->type), times > 1 ? ", times the ranks," : "");
        return invalid(c, call->kind, text);
    }
    return RONDA_OK;
}

/* The sum of all counts and of those before this rank's; false: no memory can have so many. */
static bool add_up(const ronda_comm *c, const size_t counts[], uint64_t *all, uint64_t *before)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < c->size; r++) {
        if (r == c->rank && before)
            *before = sum;
        if (counts[r] > (uint64_t)PTRDIFF_MAX - sum)
            return false;
        sum += counts[r];
    }
    *all = sum;
    return true;
}

static uint64_t amount(const ronda_comm *c, const rd_call *call, int has, uint64_t all)
{
    if (has == RD_NOTHING)
        return 0;
    if (rd_kind(call->kind)->counted)
        return has == RD_BLOCKS ? all : call->counts[c->rank];
    return has == RD_BLOCKS ? call->count * c->size : call->count;
}

/* Kinds that are counted: what the counts come to.  call->count is then the same on all ranks. */
static ronda_status count_blocks(ronda_comm *c, rd_call *call, amounts *a)
{
    const rd_kind_facts *k = rd_kind(call->kind);
    uint64_t gives = call->count * c->size, gets = gives;
    a->own = c->rank * call->count;
    if (k->counted) {
        const bool two = call->kind == RONDA_ALLTOALLV;
        if (!call->counts || (two && !call->recv_counts))
            return invalid(c, call->kind, "the counts are NULL");
        if (!add_up(c, call->counts, &gives, &a->own) ||
            !add_up(c, two ? call->recv_counts : call->counts, &gets, NULL))
            return invalid(c, call->kind, "the counts add up to more than memory can have");
        call->count = two ? 0 : gives;
    }
    a->gives = amount(c, call, rd_kind_gives(call->kind, c->rank, call->root), gives);
    a->gets = amount(c, call, rd_kind_gets(call->kind, c->rank, call->root), gets);
    return RONDA_OK;
}

/* Is the one overlap there that the collective allows? */
static bool in_place(const rd_call *call, const amounts *a, const char *send, const char *recv,
                     size_t width)
{
    if (a->gives == 0 || a->gets == 0)
        return false;
    switch (rd_kind(call->kind)->place) {
    case RD_SAME:
        return send == recv;
    case RD_SEND_IN_RECV:
        return (uintptr_t)send == (uintptr_t)recv + a->own * width;
    case RD_RECV_IN_SEND:
        return (uintptr_t)recv == (uintptr_t)send + a->own * width;
    default:
        return false;
    }
}

static ronda_status check_buffers(ronda_comm *c, const rd_call *call, const amounts *a,
                                  const char *send, const char *recv, size_t width)
{
    static const char *const wrong[] = {
        [RD_APART] = "send and recv overlap",
        [RD_SAME] = "send and recv overlap without being equal",
        [RD_SEND_IN_RECV] = "send overlaps recv and is not this rank's block of it",
        [RD_RECV_IN_SEND] = "recv overlaps send and is not this rank's block of it"};
    if (a->gets && !recv)
        return invalid(c, call->kind,
                       call->kind == RONDA_BROADCAST ? "the buffer is NULL" : "recv is NULL");
    if (a->gives && !send)
        return invalid(c, call->kind, "send is NULL");
    if (call->in_place || !overlap(send, a->gives * width, recv, a->gets * width))
        return RONDA_OK;
    return invalid(c, call->kind, wrong[rd_kind(call->kind)->place]);
}

/* What was prepared before was found right then: of a repeated call only the buffers are looked at. */
static ronda_status run(ronda_comm *c, rd_call *call, const void *send, void *recv)
{
    static char nothing; /* stands for a buffer of no elements */
    amounts a = {0};
    if (!c)
        return rd_no_comm(rd_kind_name(call->kind));
    if (c->failed) {
        c->error = c->cause;
        return c->cause.status;
    }
    ronda_status status = count_blocks(c, call, &a);
    if (status)
        return status;
    const size_t width = ronda_type_size(call->type);
    call->in_place = in_place(call, &a, send, recv, width);
    const rd_prepared *p = rd_prepared_find(c, &c->prepared, call);
    if (!p)
        status = check_call(c, call);
    if (!status)
        status = check_buffers(c, call, &a, send, recv, width);
    return status ? status
                  : rd_comm_run(c, call, p, send ? send : &nothing, recv ? recv : &nothing);
}

ronda_status ronda_allreduce(ronda_comm *comm, const void *send, void *recv, size_t count,
                             ronda_type type, ronda_op op)
{
    rd_call call = {.kind = RONDA_ALLREDUCE, .type = type, .op = op, .count = count};
    return run(comm, &call, send, recv);
}

ronda_status ronda_reduce(ronda_comm *comm, const void *send, void *recv, size_t count,
                          ronda_type type, ronda_op op, uint32_t root)
{
    rd_call call = {.kind = RONDA_REDUCE, .type = type, .op = op, .root = root, .count = count};
    return run(comm, &call, send, recv);
}

ronda_status ronda_broadcast(ronda_comm *comm, void *buf, size_t count, ronda_type type,
                             uint32_t root)
{
    rd_call call = {.kind = RONDA_BROADCAST, .type = type, .root = root, .count = count};
    return run(comm, &call, NULL, buf);
}

ronda_status ronda_allgather(ronda_comm *comm, const void *send, void *recv, size_t count,
                             ronda_type type)
{
    rd_call call = {.kind = RONDA_ALLGATHER, .type = type, .count = count};
    return run(comm, &call, send, recv);
}

ronda_status ronda_allgatherv(ronda_comm *comm, const void *send, void *recv, const size_t counts[],
                              ronda_type type)
{
    rd_call call = {.kind = RONDA_ALLGATHERV, .type = type, .counts = counts};
    return run(comm, &call, send, recv);
}

ronda_status ronda_reduce_scatter(ronda_comm *comm, const void *send, void *recv, size_t count,
                                  ronda_type type, ronda_op op)
{
    rd_call call = {.kind = RONDA_REDUCE_SCATTER, .type = type, .op = op, .count = count};
    return run(comm, &call, send, recv);
}

ronda_status ronda_reduce_scatterv(ronda_comm *comm, const void *send, void *recv,
                                   const size_t counts[], ronda_type type, ronda_op op)
{
    rd_call call = {.kind = RONDA_REDUCE_SCATTERV, .type = type, .op = op, .counts = counts};
    return run(comm, &call, send, recv);
}

ronda_status ronda_gather(ronda_comm *comm, const void *send, void *recv, size_t count,
                          ronda_type type, uint32_t root)
{
    rd_call call = {.kind = RONDA_GATHER, .type = type, .root = root, .count = count};
    return run(comm, &call, send, recv);
}

ronda_status ronda_gatherv(ronda_comm *comm, const void *send, void *recv, const size_t counts[],
                           ronda_type type, uint32_t root)
{
    rd_call call = {.kind = RONDA_GATHERV, .type = type, .root = root, .counts = counts};
    return run(comm, &call, send, recv);
}

ronda_status ronda_scatter(ronda_comm *comm, const void *send, void *recv, size_t count,
                           ronda_type type, uint32_t root)
{
    rd_call call = {.kind = RONDA_SCATTER, .type = type, .root = root, .count = count};
    return run(comm, &call, send, recv);
}

ronda_status ronda_scatterv(ronda_comm *comm, const void *send, void *recv, const size_t counts[],
                            ronda_type type, uint32_t root)
{
    rd_call call = {.kind = RONDA_SCATTERV, .type = type, .root = root, .counts = counts};
    return run(comm, &call, send, recv);
}

ronda_status ronda_alltoall(ronda_comm *comm, const void *send, void *recv, size_t count,
                            ronda_type type)
{
    rd_call call = {.kind = RONDA_ALLTOALL, .type = type, .count = count};
    return run(comm, &call, send, recv);
}

ronda_status ronda_alltoallv(ronda_comm *comm, const void *send, const size_t send_counts[],
                             void *recv, const size_t recv_counts[], ronda_type type)
{
    rd_call call = {
        .kind = RONDA_ALLTOALLV, .type = type, .counts = send_counts, .recv_counts = recv_counts};
    return run(comm, &call, send, recv);
}

ronda_status ronda_scan(ronda_comm *comm, const void *send, void *recv, size_t count,
                        ronda_type type, ronda_op op)
{
    rd_call call = {.kind = RONDA_SCAN, .type = type, .op = op, .count = count};
    return run(comm, &call, send, recv);
}

ronda_status ronda_exscan(ronda_comm *comm, const void *send, void *recv, size_t count,
                          ronda_type type, ronda_op op)
{
    rd_call call = {.kind = RONDA_EXSCAN, .type = type, .op = op, .count = count};
    return run(comm, &call, send, recv);
}

/* A barrier passes tokens that are folded like data: that is how it can be proved. */
ronda_status ronda_barrier(ronda_comm *comm)
{
    const uint8_t here = 1;
    uint8_t everyone;
    rd_call call = {.kind = RONDA_BARRIER, .type = RONDA_U8, .op = RONDA_BOR, .count = 1};
    return run(comm, &call, &here, &everyone);
}
