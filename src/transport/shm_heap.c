/* shm_heap.c: memory of a rank's heap, and when it may be used again.
 *
 * Peers store into what they were lent.  When a world fails they stop at their next step; but one that is
 * stopped itself, or has no core, may be in the middle of a step and go on with it much later, when this rank
 * has long given up and freed the memory.  Others must not get it before that rank has left its call or is
 * dead. */
#include "base/mem.h"
#include "transport/shm_inside.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

/* --- who may still store into what was lent --- */

static bool is_noted(const shm_link *s, const rd_board *board)
{
    const shm_silent *q = s->silent;
    while (q && q->board != board)
        q = q->next;
    return q != NULL;
}

void rd_shm_note_silent(rd_link *link)
{
    shm_link *s = whole_of(link);
    const rd_member *m = rd_member_of(link);
    for (uint32_t r = 0; r < link->size; r++) {
        const rd_board *board = &m->boards[r];
        const uint32_t rank = rd_rank_in_whole(m, r);
        const uint64_t entered = atomic_load_explicit(&board->entered, memory_order_acquire);
        if (r == link->rank || !(entered & RD_INSIDE) || rd_shm_is_dead(s, rank) ||
            is_noted(s, board))
            continue;
        shm_silent *q = rd_alloc(sizeof *q);
        if (q) {
            *q = (shm_silent){s->silent, board, entered, rank};
            s->silent = q;
        }
        s->distrusts |= !q;
    }
}

static bool is_quiet(shm_link *s)
{
    for (shm_silent **at = &s->silent, *q; (q = *at);) {
        if (atomic_load_explicit(&q->board->entered, memory_order_acquire) == q->entered &&
            !rd_shm_is_dead(s, q->rank)) {
            at = &q->next;
            continue;
        }
        *at = q->next;
        rd_free(q);
    }
    return !s->silent && !s->distrusts;
}

/* --- taking and giving --- */

static void give(shm_link *s, uint64_t at)
{
    char *memory = (char *)s->mapping + s->heap_at + at;
    const uint64_t whole = rd_heap_give(&s->heap, at);
    assert(whole && whole <= s->heap.bytes - at); /* it was taken, and not given back since */
    madvise(memory, whole, MADV_DONTDUMP);
    if (fallocate(s->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(s->heap_at + at),
                  (off_t)whole))
        memset(memory, 0, whole); /* the next one to get it expects zeros */
}

static void give_held(shm_link *s)
{
    while (s->held && is_quiet(s)) {
        shm_held *h = s->held;
        s->held = h->next;
        give(s, h->at);
        rd_free(h);
    }
}

/* Without memory to note it, it is never used again. */
static void hold(shm_link *s, uint64_t at)
{
    shm_held *h = rd_alloc(sizeof *h);
    if (!h)
        return;
    *h = (shm_held){s->held, at};
    s->held = h;
}

/* Pages of the first `now` bytes are fetched now: a machine that has none left says so here, not by a signal
 * at the first use. */
void *rd_shm_take(shm_link *s, size_t bytes, size_t now)
{
    uint64_t at;
    give_held(s);
    if (rd_mem_refused() || !rd_heap_take(&s->heap, bytes, &at))
        return NULL;
    char *memory = (char *)s->mapping + s->heap_at + at;
    const size_t fetched = page(now ? now : 1);
    assert(now <= bytes && fetched <= s->heap.bytes - at);
    madvise(memory, page(bytes ? bytes : 1), MADV_DODUMP);
    if (fetched >= 2 << 20)
        madvise(memory, fetched, MADV_HUGEPAGE);
    if (fallocate(s->memfd, 0, (off_t)(s->heap_at + at), (off_t)fetched) == 0)
        return memory;
    rd_heap_give(&s->heap, at);
    return NULL;
}

void *rd_shm_alloc(rd_link *link, size_t bytes)
{
    return rd_shm_take(whole_of(link), bytes, bytes);
}

void rd_shm_free(rd_link *link, void *memory, size_t bytes)
{
    shm_link *s = whole_of(link);
    (void)bytes;
    if (!memory || rd_link_inherited(link)) /* its pages are the rank's, and its peers' */
        return;
    const uint64_t at = (uint64_t)((char *)memory - (char *)s->mapping) - s->heap_at;
    assert(at < s->heap.bytes && at % RD_HEAP_PAGE == 0);
    give_held(s);
    if (is_quiet(s))
        give(s, at);
    else
        hold(s, at);
}

void rd_shm_free_heap(shm_link *s)
{
    while (s->silent) {
        shm_silent *q = s->silent;
        s->silent = q->next;
        rd_free(q);
    }
    while (s->held) {
        shm_held *h = s->held;
        s->held = h->next;
        rd_free(h);
    }
    rd_heap_free(&s->heap);
}
