/* under_way.c: see under_way.h. */
#include "under_way.h"

#include <string.h>

static bool good(ronda_comm *comm, ronda_status status, const model_call *c, const char *what)
{
    return CHECK(status == RONDA_OK, "%s: rank %u: %s: %s", model_text(c), ronda_rank(comm), what,
                 ronda_last_error(comm));
}

/* Some of a rank's buffers lie in memory that ranks share. */
static call_buffers open_buffers(rng *r, ronda_comm *comm, const planned_call *c, uint32_t rank)
{
    const uint32_t given = rng_below(r, 4) ? 0 : (uint32_t)rng_below(r, 4);
    return call_open_in(comm, given, &c->call, rank, c->in_place >> rank % 64 & 1, c->skew);
}

bool under_way_start(rng *r, ronda_comm *comm, const planned_call *c, uint32_t rank, under_way *u)
{
    size_t counts[2 * 64];
    *u = (under_way){.whole = c->whole, .comm = comm};
    u->buffers = open_buffers(r, comm, c, rank);
    if (!c->urgent && rng_below(r, 3))
        return good(comm, call_start(comm, &u->buffers, rng_below(r, 2), &u->request), &c->call,
                    "start");
    ronda_call whole = call_whole(&u->buffers, counts);
    whole.priority = (int32_t)rng_below(r, 2) - !c->urgent + c->urgent;
    if (!good(comm, ronda_plan_create(comm, &whole, &u->plan), &c->call, "plan"))
        return false;
    memset(counts, 0xff, sizeof counts); /* nobody needs them any more */
    const bool ok = good(comm, ronda_start(u->plan, whole.send, whole.recv, &u->request), &c->call,
                         "start of a plan");
    if (rng_below(r, 2)) {
        ronda_plan_free(u->plan);
        u->plan = NULL;
    }
    return ok;
}

bool under_way_finish(rng *r, under_way *u)
{
    const model_call *c = &u->buffers.call;
    bool done = false;
    for (uint32_t k = (uint32_t)rng_below(r, 3) * 20; k && !done; k--)
        if (!good(u->comm, ronda_test(u->request, &done), c, "test"))
            return false;
    if (!good(u->comm, ronda_wait(u->request), c, "wait") || !call_right(&u->buffers, u->whole))
        return false;
    ronda_plan_free(u->plan);
    call_close(&u->buffers);
    return true;
}

bool under_way_run(rng *r, ronda_comm *comm, const planned_call *c, uint32_t rank)
{
    under_way urgent;
    if (c->urgent) /* blocking calls are not */
        return under_way_start(r, comm, c, rank, &urgent) && under_way_finish(r, &urgent);
    call_buffers b = open_buffers(r, comm, c, rank);
    const bool ok = good(comm, call_run(comm, &b), &c->call, "run") && call_right(&b, c->whole);
    call_close(&b);
    return ok;
}
