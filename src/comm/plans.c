/* plans.c: a collective planned once and run often.  A plan object holds what its calls need, so that it
 * is never planned again, however many other shapes are used in between. */
#include "base/mem.h"
#include "comm/comm.h"

static rd_prepared *prepare(ronda_comm *c, const rd_call *call)
{
    rd_prepared *p = rd_prepared_find(c, &c->prepared, call);
    if (!p)
        p = rd_prepared_make(c, call);
    if (p)
        rd_prepared_hold(p);
    return p;
}

ronda_status rd_plan_object(ronda_comm *c, rd_call *call, ronda_plan **out)
{
    ronda_status status = rd_check_shape(c, call);
    if (status)
        return status;
    ronda_plan *p = rd_alloc(sizeof *p);
    if (!p || !(p->prepared[0] = prepare(c, call))) {
        rd_free(p);
        return rd_comm_fail(c, RONDA_ENOMEM, "no memory for the plan of %s",
                            rd_kind_name(call->kind));
    }
    p->call = p->prepared[0]->call; /* whose counts last */
    p->call.timeout_ns = call->timeout_ns;
    p->call.priority = call->priority;
    p->comm = c;
    p->next = c->plans;
    c->plans = p;
    *out = p;
    return RONDA_OK;
}

ronda_status rd_plan_object_start(ronda_plan *p, const void *send, void *recv, ronda_request **out)
{
    rd_call call = p->call;
    call.known = p->prepared;
    const ronda_status status = rd_submit(p->comm, &call, send, recv, out);
    if (!status && call.in_place && !p->prepared[1])
        rd_prepared_hold(p->prepared[1] = (*out)->prepared);
    return status;
}

static void release(ronda_plan *p)
{
    rd_prepared_drop(p->prepared[0]);
    rd_prepared_drop(p->prepared[1]);
    p->prepared[0] = p->prepared[1] = NULL;
}

void rd_plan_object_free(ronda_plan *p)
{
    if (!p)
        return;
    for (ronda_plan **at = p->comm ? &p->comm->plans : NULL; at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    release(p);
    rd_free(p);
}

void rd_plans_orphan(ronda_comm *c)
{
    for (ronda_plan *p = c->plans; p; p = p->next) {
        release(p);
        p->comm = NULL;
    }
    c->plans = NULL;
}
