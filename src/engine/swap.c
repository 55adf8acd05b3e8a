/* swap.c: bytes that go to a peer and come back in the same cache lines.
 *
 * Two ranks that reduce private memory write what the other is to fold to a place that both see, and the
 * result comes back.  If it came in a place of the peer's, each of the two places would change hands twice:
 * when it is read, and when it is written again the next time.  Instead the peer folds into the lines that
 * it has just read and lends them back as they are.  Every line changes hands once each way.
 *
 *     here                   memory that both see                       the peer
 *     out[part 1] --copy-->  slot   --fold with its part 1, in place--> out[part 1]
 *     out[part 1] <--copy--  slot   <--"returned"
 *
 * That is a loan of the slot which names the slot itself as the place for what comes back: to the peer it
 * is a loan like any other.  With more ranks the result would have to be written into a slot of each, where
 * one place that all of them read is cheaper.
 *
 * The memory is the engine's, not the channel's, so that one call after the other uses the same lines while
 * they are warm.  One flight has it at a time; others go the usual way. */
#include "engine/flight.h"

enum {
    MOST_BYTES = 2 << 20, /* of a message: a longer one is cold before it comes back */
    PATIENCE = 500,       /* rounds: over before a rank goes to sleep */
    PAGE = 4096
};

/* Is the memory this flight's, or can it be? */
static bool claim(rd_engine *e, rd_flight *f)
{
    rd_swap *w = &e->swap;
    const rd_plan *p = f->plan;
    if (w->user == f)
        return true;
    if (w->user || p->shape.size != 2 || !e->transport->lends_alloc ||
        p->returned > MOST_BYTES / f->width ||
        (w->port && !e->transport->home(w->port, w->message)))
        return false;
    const uint32_t slots = p->chunks < RD_SLOTS ? p->chunks : RD_SLOTS;
    const size_t slot = (p->returned * f->width + PAGE - 1) & ~(size_t)(PAGE - 1);
    if (slots * slot > w->bytes) {
        e->transport->free(e->link, w->memory, w->bytes);
        w->memory = e->transport->alloc(e->link, slots * slot);
        w->bytes = w->memory ? slots * slot : 0;
    }
    if (!w->memory)
        return false;
    w->user = f;
    w->slot = slot;
    w->slots = slots;
    return true;
}

/* Of those that are empty the first is the warmest.  The peer may have sent what is awaited before it reads
 * what was sent. */
static uint32_t empty_slot(rd_engine *e, rd_port *port)
{
    const rd_swap *w = &e->swap;
    uint32_t i = 0;
    while (i < w->slots &&
           (w->of[i].awaited || (w->used >> i & 1 && !e->transport->home(port, w->of[i].message))))
        i++;
    return i;
}

bool rd_swap_send(rd_engine *e, rd_flight *f, rd_lane_state *lane, const rd_step *s,
                  const char *from, uint32_t *ran)
{
    rd_swap *w = &e->swap;
    *ran = 0;
    if (!claim(e, f))
        return false;
    const uint32_t i = empty_slot(e, lane->port);
    if (i == w->slots) /* what comes back may wait for what is behind this send: not for ever */
        return lane->held++ < PATIENCE;
    if (!e->transport->can_send(lane->port))
        return true;
    const uint64_t bytes = s->count * f->width;
    char *slot = w->memory + i * w->slot;
    rd_stage(&e->distances[s->peer], slot, from, bytes);
    e->transport->lend(lane->port, &(rd_loan){.data = slot,
                                              .bytes = bytes,
                                              .mark = f->job.record.mark,
                                              .back = slot,
                                              .back_ordinal = f->plan->steps[s->back].ordinal});
    w->of[i].awaited = s->back + 1;
    w->of[i].message = w->message = lane->base + lane->next;
    w->port = lane->port;
    w->used |= 1u << i;
    lane->held = 0;
    lane->lent = ++lane->next;
    *ran = 1;
    return true;
}

const char *rd_swap_take(rd_engine *e, const rd_flight *f, const rd_step *s)
{
    rd_swap *w = &e->swap;
    const uint32_t receive = (uint32_t)(s - f->plan->steps) + 1;
    for (uint32_t i = 0; w->user == f && i < w->slots; i++)
        if (w->of[i].awaited == receive) {
            w->of[i].awaited = 0;
            return w->memory + i * w->slot;
        }
    return NULL;
}

void rd_swap_end(rd_engine *e, const rd_flight *f)
{
    rd_swap *w = &e->swap;
    if (w->user == f)
        *w = (rd_swap){
            .memory = w->memory, .bytes = w->bytes, .port = w->port, .message = w->message};
}
