/* submit.c: checks what the caller gave, before anything has been sent, and hands it on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"

/* What this rank gives and gets, in elements; blocks that are its own begin at `own`. */
typedef struct {
    uint64_t gives, gets, own;
} amounts;

ronda_status rd_invalid(ronda_comm *c, ronda_kind kind, const char *what)
{
    return rd_comm_fail(c, RONDA_EINVAL, "%s: %s", rd_kind_name(kind), what);
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
    if (!rd_is_op(call->op))
        rd_not_text(call->op, "an op", text, sizeof text);
    else if (!rd_op_allows(call->op, call->type))
        snprintf(text, sizeof text, "%s is not defined for %s", rd_op_name(call->op),
                 rd_type_name(call->type));
    else if (call->op == RONDA_MEAN && !rd_kind_means(call->kind))
        snprintf(text, sizeof text, "mean is not defined for it");
    else
        return RONDA_OK;
    return rd_invalid(c, call->kind, text);
}

static ronda_status check_call(ronda_comm *c, const rd_call *call)
{
    char text[160];
    const size_t width = ronda_type_size(call->type);
    if (width == 0) {
        rd_not_text(call->type, "a type", text, sizeof text);
        return rd_invalid(c, call->kind, text);
    }
    const ronda_status status = check_op(c, call);
    if (status)
        return status;
    if (call->root >= c->size) {
        snprintf(text, sizeof text, "root %u is not a rank of a world of %u", call->root, c->size);
        return rd_invalid(c, call->kind, text);
    }
    const uint64_t times = rd_kind(call->kind)->counted ? 1 : c->size;
    if (call->count > (uint64_t)PTRDIFF_MAX / width / times) {
        snprintf(text, sizeof text,
                 "%" PRIu64 " elements of %s%s are more bytes than memory can have", call->count,
                 rd_type_name(call->type), times > 1 ? ", times the ranks," : "");
        return rd_invalid(c, call->kind, text);
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
            return rd_invalid(c, call->kind, "the counts are NULL");
        if (!add_up(c, call->counts, &gives, &a->own) ||
            !add_up(c, two ? call->recv_counts : call->counts, &gets, NULL))
            return rd_invalid(c, call->kind, "the counts add up to more than memory can have");
        if (two && call->counts[c->rank] != call->recv_counts[c->rank])
            return rd_invalid(c, call->kind,
                              "what this rank sends to itself is not what it expects of itself");
        const size_t width = ronda_type_size(call->type);
        if (width &&
            (gives > (uint64_t)PTRDIFF_MAX / width || gets > (uint64_t)PTRDIFF_MAX / width))
            return rd_invalid(c, call->kind, "the counts add up to more than memory can have");
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
        return rd_invalid(c, call->kind,
                          call->kind == RONDA_BROADCAST ? "the buffer is NULL" : "recv is NULL");
    if (a->gives && !send)
        return rd_invalid(c, call->kind, "send is NULL");
    if (call->in_place || !overlap(send, a->gives * width, recv, a->gets * width))
        return RONDA_OK;
    return rd_invalid(c, call->kind, wrong[rd_kind(call->kind)->place]);
}

static ronda_status check_algorithm(ronda_comm *c, const rd_call *call)
{
    char text[160];
    const rd_user_op *op = rd_user_op_of(call->op);
    if (!op || op->commutes || !call->algorithm || call->algorithm->flags & RD_ORDERED)
        return RONDA_OK;
    snprintf(text, sizeof text, "%s does not keep the order of ranks, and %s does not commute",
             call->algorithm->name, op->name);
    return rd_invalid(c, call->kind, text);
}

static ronda_status submit(ronda_comm *c, rd_call *call, const void *send, void *recv,
                           ronda_request **out)
{
    static char nothing; /* stands for a buffer of no elements */
    amounts a = {0};
    ronda_status status = rd_comm_over(c);
    if (!status)
        status = count_blocks(c, call, &a);
    if (status)
        return status;
    const size_t width = ronda_type_size(call->type);
    call->in_place = in_place(call, &a, send, recv, width);
    /* What was prepared before was found right then: of a repeated call only the buffers are looked at */
    rd_prepared *p = call->known ? call->known[call->in_place] : NULL;
    if (!p)
        p = rd_prepared_find(c, &c->prepared, call);
    if (!p)
        status = check_call(c, call);
    if (!status && !p)
        status = check_algorithm(c, call);
    if (!status)
        status = check_buffers(c, call, &a, send, recv, width);
    if (status)
        return status;
    const void *in = send ? send : &nothing;
    void *to = recv ? recv : &nothing;
    return out ? rd_comm_start(c, call, p, in, to, out) : rd_comm_run(c, call, p, in, to);
}

/* A barrier passes tokens that are folded like data: that is how it can be proved. */
ronda_status rd_submit(ronda_comm *c, rd_call *call, const void *send, void *recv,
                       ronda_request **out)
{
    static const uint8_t here = 1;
    if (!c)
        return rd_no_comm(rd_kind_name(call->kind));
    if (rd_comm_inherited(c))
        return rd_comm_refuse(c, rd_kind_name(call->kind));
    if (call->kind == RONDA_BARRIER) {
        send = &here;
        recv = &c->everyone; /* a request has one of its own */
    } else if (call->kind == RONDA_BROADCAST) {
        send = NULL;
    }
    rd_comm_lock(c);
    rd_engine_heed(c->engine, NULL);
    const ronda_status status = submit(c, call, send, recv, out);
    rd_comm_unlock(c);
    return status;
}

ronda_status rd_check_shape(ronda_comm *c, rd_call *call)
{
    amounts a = {0};
    ronda_status status = count_blocks(c, call, &a);
    if (!status)
        status = check_call(c, call);
    return status ? status : check_algorithm(c, call);
}
