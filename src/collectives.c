/* collectives.c: the public collectives, one call each.  comm/submit.c checks and runs them. */
#include "comm/comm.h"

static ronda_status run(ronda_comm *comm, rd_call *call, const void *send, void *recv)
{
    return rd_submit(comm, call, send, recv, NULL);
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

ronda_status ronda_barrier(ronda_comm *comm)
{
    rd_call call = {.kind = RONDA_BARRIER, .type = RONDA_U8, .op = RONDA_BOR, .count = 1};
    return run(comm, &call, NULL, NULL);
}
