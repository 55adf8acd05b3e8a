/* swap.c: bytes that go to a peer and come back in the same cache lines.
 *
 * Ranks that reduce private memory write what a peer is to fold to a place that both see, and the result
 * comes back.  If it came in a place of the peer's, each of the two places would change hands twice: when it
 * is read, and when it is written again the next time; and all ranks would read that one place at once.
 * Instead the peer folds into the lines that it has just read.  Every line changes hands once each way.
 *
 *     here                   memory that both see                       the peer
 *     out[part 1] --copy-->  slot   --fold with its part 1, in place--> out[part 1]
 *     out[part 1] <--copy--  slot   <--"returned"
 *
 * That is a loan of the slot which names the slot itself as the place for what comes back: to the peer it
 * is a loan like any other.
 *
 * The memory is the engine's, not the channel's, so that one call after the other uses the same lines while
 * they are warm.  One flight has it at a time; others go the usual way. */
#include "engine/flight.h"

enum {
    MOST_RANKS = 16,
    MOST_BYTES = 8 << 20, /* for all peers, of which there are up to FEW */
    FEW = 7,
    MOST_OF_MANY = 2 << 20,
    LINES = 128,    /* processors fetch lines in pairs */
    PATIENCE = 500, /* rounds: over before a rank goes to sleep */
    /* Who folds reads the same slot of all its peers: they begin at different places of a page, or
     * their lines would be in each other's way in the cache */
    SHIFT = 256,
    SHIFTS = 16
};

/* What the last user sent has been read by all. */
static bool is_home(rd_engine *e)
{
    for (uint32_t i = 0; i < e->link->size * RD_SLOTS; i++) {
        rd_swap_slot *s = &e->swap.of[i];
        if (s->port && !e->transport->home(s->port, s->message))
            return false;
        *s = (rd_swap_slot){0};
    }
    return true;
}

/* So many slots for each peer as there are chunks to fill them, and room. */
static uint32_t cut(const rd_flight *f, size_t stride)
{
    const uint32_t peers = f->plan->shape.size - 1;
    const uint64_t most = (uint64_t)(peers > FEW ? MOST_OF_MANY : MOST_BYTES) / (peers * stride);
    const uint32_t slots = f->plan->chunks < RD_SLOTS ? f->plan->chunks : RD_SLOTS;
    return most < slots ? (uint32_t)most : slots;
}

/* Is the memory this flight's, or can it be? */
static bool claim(rd_engine *e, const rd_flight *f)
{
    rd_swap *w = &e->swap;
    const uint32_t size = f->plan->shape.size;
    if (w->user)
        return w->user == f;
    const size_t stride =
        ((f->plan->returned * f->width + LINES - 1) & ~(size_t)(LINES - 1)) + LINES;
    const uint32_t slots = cut(f, stride);
    const size_t bytes = (size_t)(size - 1) * slots * stride + SHIFT * SHIFTS;
    if (size > MOST_RANKS || (size - 1 > FEW && f->plan->chunks == 1) || !slots ||
        !e->transport->lends_alloc || !is_home(e))
        return false;
    if (bytes > w->bytes) {
        e->transport->free(e->link, w->memory, w->bytes);
        w->memory = e->transport->alloc(e->link, bytes);
        w->bytes = w->memory ? bytes : 0;
    }
    if (!w->memory)
        return false;
    w->user = f;
    w->slots = slots;
    w->stride = stride;
    return true;
}

static char *place(const rd_engine *e, uint32_t peer, uint32_t slot)
{
    const rd_swap *w = &e->swap;
    const uint32_t rank = e->link->rank, before = peer < rank ? peer : peer - 1;
    return w->memory + rank % SHIFTS * SHIFT + ((size_t)before * w->slots + slot) * w->stride;
}

bool rd_swap_send(rd_engine *e, rd_flight *f, rd_lane_state *lane, const rd_step *s,
                  const char *from, uint32_t *ran)
{
    const rd_swap *w = &e->swap;
    *ran = 0;
    if (!claim(e, f))
        return false;
    /* Of those that are empty the first is the warmest.  Even if the peer has sent what is awaited, it may
     * not have read what was sent. */
    rd_swap_slot *slot = &w->of[s->peer * RD_SLOTS];
    uint32_t i = 0;
    while (i < w->slots && (slot[i].awaited ||
                            (slot[i].port && !e->transport->home(slot[i].port, slot[i].message))))
        i++;
    if (i == w->slots) /* what comes back may wait for what is behind this send: not for ever */
        return lane->held++ < PATIENCE;
    if (!e->transport->can_send(lane->port))
        return true;
    const uint64_t bytes = s->count * f->width;
    char *to = place(e, s->peer, i);
    rd_stage(&e->distances[s->peer], to, from, bytes);
    e->transport->lend(lane->port, &(rd_loan){.data = to,
                                              .bytes = bytes,
                                              .mark = f->job.record.mark,
                                              .back = to,
                                              .back_ordinal = f->plan->steps[s->back].ordinal});
    slot[i] = (rd_swap_slot){lane->port, lane->base + lane->next, s->back + 1};
    lane->held = 0;
    lane->lent = ++lane->next;
    *ran = 1;
    return true;
}

const char *rd_swap_take(rd_engine *e, const rd_flight *f, const rd_step *s)
{
    const rd_swap *w = &e->swap;
    rd_swap_slot *slot = &w->of[s->peer * RD_SLOTS];
    const uint32_t receive = (uint32_t)(s - f->plan->steps) + 1;
    for (uint32_t i = 0; w->user == f && i < w->slots; i++)
        if (slot[i].awaited == receive) {
            slot[i].awaited = 0;
            return place(e, s->peer, i);
        }
    return NULL;
}

void rd_swap_end(rd_engine *e, const rd_flight *f)
{
    if (e->swap.user == f)
        e->swap.user = NULL;
}
