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
 * The memory is not a channel's, so that one call after the other uses the same lines while they are warm, and
 * all communicators of a rank whose links take memory from the same heap have one.  One operation has it at a time;
 * others go the usual way.  The last of these communicators to close frees it.  A communicator whose links take
 * memory from elsewhere has no part in it: its transport could neither lend nor free what is not its own. */
#include "base/mem.h"
#include "engine/operation.h"

enum {
    FEW_RANKS = 8,          /* more of them: so much is written that only long calls gain */
    MOST_BYTES = 4 << 20,   /* for all peers of few ranks */
    MOST_OF_MANY = 2 << 20, /* and of more */
    LINES = 128,            /* processors fetch lines in pairs */
    /* Who folds reads the same slot of all its peers: they begin at different places of a page, or
     * their lines would be in each other's way in the cache */
    SHIFT = 256,
    SHIFTS = 16
};

/* What the last user sent has been read by all. */
static bool is_completed(const rd_engine *e)
{
    rd_swap *w = e->swap;
    for (uint32_t i = 0; w->owner && i < w->owner->link->size * RD_SLOTS; i++) {
        rd_swap_slot *s = &w->of[i];
        if (s->port && !w->owner->transport->completed(s->port, s->message))
            return false;
        *s = (rd_swap_slot){0};
    }
    return true;
}

/* Is there anything to gain?  Ranks that take turns on a core read each other's bytes where they are. */
static bool is_of_use(const rd_engine *e, const rd_plan *p)
{
    const uint32_t size = p->shape.size;
    return size <= RD_SWAP_RANKS && size <= 2 * e->link->cpus && e->transport->lends_alloc &&
           (size <= FEW_RANKS || p->chunks > 1);
}

static bool fetch(const rd_engine *e, size_t bytes)
{
    rd_swap *w = e->swap;
    if (bytes <= w->bytes)
        return true;
    if (w->refused && bytes >= w->refused)
        return false;
    char *memory = e->transport->alloc(e->link, bytes);
    if (!memory) {
        w->refused = bytes;
        return false;
    }
    e->transport->free(e->link, w->memory, w->bytes);
    w->memory = memory;
    w->bytes = bytes;
    return true;
}

/* Is the memory this operation's, or can it be?  With fewer slots than there are chunks under way sends would
 * wait for each other. */
static bool claim(rd_engine *e, const rd_operation *f)
{
    rd_swap *w = e->swap;
    const rd_plan *p = f->plan;
    if (w->user || !is_of_use(e, p))
        return w->user == f;
    const uint32_t peers = p->shape.size - 1, slots = p->chunks < RD_SLOTS ? p->chunks : RD_SLOTS;
    const size_t stride = ((p->returned * f->width + LINES - 1) & ~(size_t)(LINES - 1)) + LINES;
    const size_t bytes = peers * slots * stride;
    if (bytes > (p->shape.size > FEW_RANKS ? MOST_OF_MANY : MOST_BYTES) || !is_completed(e) ||
        !fetch(e, bytes + SHIFT * SHIFTS))
        return false;
    w->user = f;
    w->owner = e;
    w->slots = slots;
    w->stride = stride;
    return true;
}

static char *place(const rd_engine *e, uint32_t peer, uint32_t slot)
{
    const rd_swap *w = e->swap;
    const uint32_t rank = e->link->rank, before = peer < rank ? peer : peer - 1;
    return w->memory + rank % SHIFTS * SHIFT + ((size_t)before * w->slots + slot) * w->stride;
}

/* Of those that are empty the first is the warmest.  Even if the peer has sent what is awaited, it may not
 * have read what was sent. */
static uint32_t empty_slot(const rd_engine *e, const rd_swap_slot slot[])
{
    uint32_t i = 0;
    while (i < e->swap->slots &&
           (slot[i].awaited ||
            (slot[i].port && !e->transport->completed(slot[i].port, slot[i].message))))
        i++;
    return i;
}

bool rd_swap_send(rd_engine *e, rd_operation *f, rd_lane_state *lane, const rd_step *s,
                  const char *from, uint32_t *ran)
{
    const uint64_t bytes = s->count * f->width;
    const rd_step *back = &f->plan->steps[s->back];
    const bool late = f->lanes[back->lane].next > s->back; /* it has come already, from elsewhere */
    *ran = 0;
    if (back->round != s->round + 1 || late || f->staged || !claim(e, f))
        return false;
    rd_swap_slot *slot = &e->swap->of[s->peer * RD_SLOTS];
    const uint32_t i = empty_slot(e, slot);
    if (i == e->swap->slots) { /* what comes back may wait for what is behind this send */
        f->staged = lane->held++ >= RD_PATIENCE;
        return !f->staged;
    }
    char *to = place(e, s->peer, i);
    if (!e->transport->lends(lane->port, to, bytes))
        return false;
    if (!e->transport->can_send(lane->port))
        return true;
    rd_stage(&e->distances[s->peer], to, from, bytes);
    e->transport->lend(lane->port, &(rd_loan){.data = to,
                                              .bytes = bytes,
                                              .mark = f->job.record.mark,
                                              .back = to,
                                              .back_ordinal = back->ordinal});
    slot[i] = (rd_swap_slot){lane->port, lane->base + lane->next, s->back + 1};
    lane->held = 0;
    lane->refused = false;
    lane->swapped = ++lane->next;
    *ran = 1;
    return true;
}

const char *rd_swap_take(rd_engine *e, const rd_operation *f, const rd_step *s)
{
    rd_swap *w = e->swap;
    if (w->user != f)
        return NULL;
    rd_swap_slot *slot = &w->of[s->peer * RD_SLOTS];
    const uint32_t receive = (uint32_t)(s - f->plan->steps) + 1;
    for (uint32_t i = 0; i < w->slots; i++)
        if (slot[i].awaited == receive) {
            slot[i].awaited = 0;
            return place(e, s->peer, i);
        }
    return NULL;
}

void rd_swap_end(rd_engine *e, const rd_operation *f)
{
    if (e->swap->user == f)
        e->swap->user = NULL;
}

/* A peer that does not know yet that its world has failed may still fold into a slot: other communicators take
 * other memory. */
static void drop(const rd_engine *e)
{
    rd_swap *w = e->swap;
    e->transport->free(e->link, w->memory, w->bytes);
    w->memory = NULL;
    w->bytes = 0;
}

/* Of the engines that share this rank's thread, one whose memory comes from the same heap; NULL: none does. */
static const rd_engine *of_same_heap(const rd_engine *e, const rd_engine *sibling)
{
    const rd_engine *at = sibling;
    do {
        if (at && at->link->heap == e->link->heap)
            return at;
        at = at ? at->sibling : NULL;
    } while (at != sibling);
    return NULL;
}

bool rd_swap_open(rd_engine *e, const rd_engine *sibling)
{
    const rd_engine *other = of_same_heap(e, sibling);
    e->swap = other ? other->swap : rd_alloc(sizeof *e->swap);
    if (e->swap)
        e->swap->engines++;
    return e->swap != NULL;
}

void rd_swap_close(rd_engine *e)
{
    rd_swap *w = e->swap;
    if (!w)
        return;
    if (w->owner == e) {
        if (!is_completed(e))
            drop(e);
        for (uint32_t i = 0; i < e->link->size * RD_SLOTS; i++)
            w->of[i] = (rd_swap_slot){0};
        w->user = NULL;
        w->owner = NULL;
    }
    if (--w->engines)
        return;
    drop(e);
    rd_free(w);
}
