/* comm.c: a call from the API to the engine and back. */
#include "comm/comm.h"

#include "base/mem.h"

ronda_status rd_comm_open(rd_link *link, const rd_settings *settings, ronda_comm **out,
                          rd_error *err)
{
    ronda_comm *c = rd_alloc(sizeof *c);
    if (!c || rd_engine_open(link, &c->engine)) {
        rd_free(c);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "no memory for a communicator");
    }
    c->rank = link->rank;
    c->size = link->size;
    c->link = link;
    c->timeout_ns = settings->timeout_ns;
    c->log = settings->log;
    c->facts = link->transport->copies ? rd_facts_shm(link->cpus) : rd_facts_local(link->cpus);
    for (int k = 0; k < RD_KINDS; k++)
        c->forced[k] = settings->forced[k];
    c->error = (rd_error){.rank = c->rank, .peer = RONDA_ANY};
    rd_log_say(&c->log, RD_LOG_INFO, "rank %u of %u: open over %s", c->rank, c->size,
               link->transport->name);
    *out = c;
    return RONDA_OK;
}

ronda_status rd_comm_close(ronda_comm *c)
{
    const ronda_status status = rd_engine_close(c->engine, c->timeout_ns, &c->error);
    rd_log_say(&c->log, RD_LOG_INFO, "rank %u of %u: closed after %llu calls%s%s", c->rank, c->size,
               (unsigned long long)c->sequence, status ? ": " : "", status ? c->error.message : "");
    rd_comm_free_all(c);
    c->link->transport->close(c->link);
    rd_prepared_free(&c->prepared);
    rd_free(c);
    return status;
}

ronda_status rd_no_comm(const char *function)
{
    return rd_fail(rd_thread_error(), RONDA_EINVAL, RONDA_ANY, "%s: comm is NULL", function);
}

/* The mark of a call covers all calls before it, so a disagreement that no message showed at the time
 * shows in the next one. */
static uint64_t next_mark(uint64_t mark, uint64_t call_hash)
{
    const uint64_t hash = (mark ^ call_hash) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static ronda_status fail_for_good(ronda_comm *c)
{
    c->failed = true;
    c->cause = c->error;
    rd_log_say(&c->log, RD_LOG_INFO, "rank %u: failed: %s", c->rank, c->error.message);
    return c->error.status;
}

ronda_status rd_comm_run(ronda_comm *c, const rd_call *call, const rd_prepared *p, const void *in,
                         void *out)
{
    if (rd_engine_must_leave(c->engine, c->sequence + 1)) {
        rd_engine_cause(c->engine, &c->error);
        return fail_for_good(c);
    }
    if (!p && !(p = rd_prepared_make(c, call)))
        return rd_fail(&c->error, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for the plan of %s",
                       c->rank, rd_kind_name(call->kind));
    const rd_job job = {.plan = p->plan,
                        .in = in,
                        .out = out,
                        .fold = p->fold,
                        .record = {.sequence = c->sequence + 1,
                                   .count = call->count,
                                   .mark = next_mark(c->mark, p->hash),
                                   .kind = call->kind,
                                   .type = call->type,
                                   .op = call->op,
                                   .root = call->root,
                                   .algorithm = p->algorithm}};
    const ronda_status status = rd_engine_run(c->engine, &job, c->timeout_ns, &c->error);
    if (status == RONDA_ENOMEM) /* found before anything was sent: the call was not made */
        return status;
    c->sequence++;
    c->mark = job.record.mark;
    return status ? fail_for_good(c) : RONDA_OK;
}
