/* nonblocking.c: calls that do not block: the i-forms, ronda_post, waiting, and plans as objects. */
#include <stdio.h>

#include "comm/comm.h"

static ronda_status start(ronda_comm *comm, rd_call *call, const void *send, void *recv,
                          ronda_request **out)
{
    if (comm && !out && !rd_comm_inherited(comm))
        return rd_invalid(comm, call->kind, "out is NULL");
    return rd_submit(comm, call, send, recv, out);
}

ronda_status ronda_iallreduce(ronda_comm *comm, const void *send, void *recv, size_t count,
                              ronda_type type, ronda_op op, ronda_request **out)
{
    rd_call call = {.kind = RONDA_ALLREDUCE, .type = type, .op = op, .count = count};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_ireduce(ronda_comm *comm, const void *send, void *recv, size_t count,
                           ronda_type type, ronda_op op, uint32_t root, ronda_request **out)
{
    rd_call call = {.kind = RONDA_REDUCE, .type = type, .op = op, .root = root, .count = count};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_ibroadcast(ronda_comm *comm, void *buf, size_t count, ronda_type type,
                              uint32_t root, ronda_request **out)
{
    rd_call call = {.kind = RONDA_BROADCAST, .type = type, .root = root, .count = count};
    return start(comm, &call, NULL, buf, out);
}

ronda_status ronda_iallgather(ronda_comm *comm, const void *send, void *recv, size_t count,
                              ronda_type type, ronda_request **out)
{
    rd_call call = {.kind = RONDA_ALLGATHER, .type = type, .count = count};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_iallgatherv(ronda_comm *comm, const void *send, void *recv,
                               const size_t counts[], ronda_type type, ronda_request **out)
{
    rd_call call = {.kind = RONDA_ALLGATHERV, .type = type, .counts = counts};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_ireduce_scatter(ronda_comm *comm, const void *send, void *recv, size_t count,
                                   ronda_type type, ronda_op op, ronda_request **out)
{
    rd_call call = {.kind = RONDA_REDUCE_SCATTER, .type = type, .op = op, .count = count};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_ireduce_scatterv(ronda_comm *comm, const void *send, void *recv,
                                    const size_t counts[], ronda_type type, ronda_op op,
                                    ronda_request **out)
{
    rd_call call = {.kind = RONDA_REDUCE_SCATTERV, .type = type, .op = op, .counts = counts};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_igather(ronda_comm *comm, const void *send, void *recv, size_t count,
                           ronda_type type, uint32_t root, ronda_request **out)
{
    rd_call call = {.kind = RONDA_GATHER, .type = type, .root = root, .count = count};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_igatherv(ronda_comm *comm, const void *send, void *recv, const size_t counts[],
                            ronda_type type, uint32_t root, ronda_request **out)
{
    rd_call call = {.kind = RONDA_GATHERV, .type = type, .root = root, .counts = counts};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_iscatter(ronda_comm *comm, const void *send, void *recv, size_t count,
                            ronda_type type, uint32_t root, ronda_request **out)
{
    rd_call call = {.kind = RONDA_SCATTER, .type = type, .root = root, .count = count};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_iscatterv(ronda_comm *comm, const void *send, void *recv, const size_t counts[],
                             ronda_type type, uint32_t root, ronda_request **out)
{
    rd_call call = {.kind = RONDA_SCATTERV, .type = type, .root = root, .counts = counts};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_ialltoall(ronda_comm *comm, const void *send, void *recv, size_t count,
                             ronda_type type, ronda_request **out)
{
    rd_call call = {.kind = RONDA_ALLTOALL, .type = type, .count = count};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_ialltoallv(ronda_comm *comm, const void *send, const size_t send_counts[],
                              void *recv, const size_t recv_counts[], ronda_type type,
                              ronda_request **out)
{
    rd_call call = {
        .kind = RONDA_ALLTOALLV, .type = type, .counts = send_counts, .recv_counts = recv_counts};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_iscan(ronda_comm *comm, const void *send, void *recv, size_t count,
                         ronda_type type, ronda_op op, ronda_request **out)
{
    rd_call call = {.kind = RONDA_SCAN, .type = type, .op = op, .count = count};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_iexscan(ronda_comm *comm, const void *send, void *recv, size_t count,
                           ronda_type type, ronda_op op, ronda_request **out)
{
    rd_call call = {.kind = RONDA_EXSCAN, .type = type, .op = op, .count = count};
    return start(comm, &call, send, recv, out);
}

ronda_status ronda_ibarrier(ronda_comm *comm, ronda_request **out)
{
    rd_call call = {.kind = RONDA_BARRIER, .type = RONDA_U8, .op = RONDA_BOR, .count = 1};
    return start(comm, &call, NULL, NULL, out);
}

/* --- any call, with every option --- */

static ronda_status read_call(ronda_comm *comm, const ronda_call *from, rd_call *to)
{
    char text[160];
    const ronda_kind kind = from ? from->kind : 0;
    if (!from)
        return rd_invalid(comm, kind, "the call is NULL");
    if (from->struct_size != sizeof *from) {
        snprintf(text, sizeof text, "struct_size is %zu; set it to sizeof(ronda_call), %zu",
                 from->struct_size, sizeof *from);
        return rd_invalid(comm, kind, text);
    }
    if (!rd_kind(kind)->name) {
        rd_not_text(kind, "a collective", text, sizeof text);
        return rd_invalid(comm, kind, text);
    }
    if (from->compressor || from->stream)
        return rd_comm_fail(comm, RONDA_EUNSUPPORTED, "%s: this version has no %s",
                            rd_kind_name(kind), from->compressor ? "compressors" : "streams");
    *to = (rd_call){.kind = kind,
                    .type = from->type,
                    .op = rd_kind_reduces(kind) ? from->op : 0,
                    .root = rd_kind_rooted(kind) ? from->root : 0,
                    .count = from->count,
                    .counts = rd_kind(kind)->counted ? from->counts : NULL,
                    .recv_counts = kind == RONDA_ALLTOALLV ? from->recv_counts : NULL,
                    .timeout_ns = from->timeout_ns,
                    .priority = from->priority};
    if (kind == RONDA_BARRIER) {
        to->type = RONDA_U8;
        to->op = RONDA_BOR;
        to->count = 1;
    }
    if (from->algorithm && !(to->algorithm = rd_algorithm_named(kind, from->algorithm))) {
        snprintf(text, sizeof text, "there is no algorithm '%.60s'", from->algorithm);
        return rd_invalid(comm, kind, text);
    }
    return RONDA_OK;
}

ronda_status ronda_post(ronda_comm *comm, const ronda_call *call, ronda_request **out)
{
    rd_call read;
    if (!comm)
        return rd_no_comm("ronda_post");
    if (rd_comm_inherited(comm))
        return rd_comm_refuse(comm, "ronda_post");
    const ronda_status status = read_call(comm, call, &read);
    return status ? status : start(comm, &read, call->send, call->recv, out);
}

/* --- waiting --- */

static ronda_status over_already(ronda_comm *comm, const char *function)
{
    return rd_comm_fail(comm, RONDA_EINVAL, "%s: this request was waited for already", function);
}

ronda_status ronda_test(ronda_request *request, bool *done)
{
    if (!done)
        return rd_fail(rd_thread_error(), RONDA_EINVAL, RONDA_ANY, "ronda_test: done is NULL");
    *done = true;
    if (!request)
        return RONDA_OK;
    if (rd_comm_inherited(request->comm))
        return rd_comm_refuse(request->comm, "ronda_test");
    if (!request->open)
        return over_already(request->comm, "ronda_test");
    *done = rd_comm_test(request);
    return RONDA_OK;
}

ronda_status ronda_wait(ronda_request *request)
{
    if (!request)
        return RONDA_OK;
    if (rd_comm_inherited(request->comm))
        return rd_comm_refuse(request->comm, "ronda_wait");
    return request->open ? rd_comm_wait(request) : over_already(request->comm, "ronda_wait");
}

ronda_status ronda_wait_all(ronda_request *requests[], size_t count)
{
    ronda_status first = RONDA_OK;
    if (!requests && count)
        return rd_fail(rd_thread_error(), RONDA_EINVAL, RONDA_ANY,
                       "ronda_wait_all: requests is NULL");
    for (size_t i = 0; i < count; i++) {
        const ronda_status status = ronda_wait(requests[i]);
        if (!first)
            first = status;
    }
    return first;
}

/* --- plans as objects --- */

ronda_status ronda_plan_create(ronda_comm *comm, const ronda_call *call, ronda_plan **out)
{
    rd_call read;
    if (!comm)
        return rd_no_comm("ronda_plan_create");
    if (rd_comm_inherited(comm))
        return rd_comm_refuse(comm, "ronda_plan_create");
    ronda_status status = rd_comm_over(comm);
    if (!status)
        status = read_call(comm, call, &read);
    if (status)
        return status;
    if (!out)
        return rd_invalid(comm, read.kind, "out is NULL");
    rd_comm_lock(comm);
    status = rd_plan_object(comm, &read, out);
    rd_comm_unlock(comm);
    return status;
}

ronda_status ronda_start(ronda_plan *plan, const void *send, void *recv, ronda_request **out)
{
    if (!plan || !plan->comm)
        return rd_fail(rd_thread_error(), RONDA_EINVAL, RONDA_ANY, "ronda_start: %s",
                       plan ? "the plan's communicator is closed" : "the plan is NULL");
    if (rd_comm_inherited(plan->comm))
        return rd_comm_refuse(plan->comm, "ronda_start");
    return out ? rd_plan_object_start(plan, send, recv, out)
               : rd_invalid(plan->comm, plan->call.kind, "out is NULL");
}

ronda_status ronda_plan_print(const ronda_plan *plan, char *text, size_t capacity, size_t *needed)
{
    if (!plan || !plan->prepared[0] || (!text && capacity))
        return rd_fail(rd_thread_error(), RONDA_EINVAL, RONDA_ANY, "ronda_plan_print: %s",
                       !plan                ? "the plan is NULL"
                       : !plan->prepared[0] ? "the plan's communicator is closed"
                                            : "text is NULL");
    if (plan->comm && rd_comm_inherited(plan->comm))
        return rd_comm_refuse(plan->comm, "ronda_plan_print");
    const size_t length =
        rd_plan_print(plan->prepared[0]->plan, plan->call.type, plan->call.op, text, capacity);
    if (needed)
        *needed = length + 1;
    return RONDA_OK;
}

void ronda_plan_free(ronda_plan *plan)
{
    rd_plan_object_free(plan);
}

/* --- ops of the user's --- */

ronda_status ronda_op_create(const char *name, ronda_op_fn *function, void *context, bool commutes,
                             ronda_op *out)
{
    return rd_op_add(name, function, context, commutes, out, rd_thread_error());
}
