/* shm_parts.c: parts of a world of processes, in the heap of the rank that made them. */
#include "base/mem.h"
#include "transport/shm_inside.h"

#include <assert.h>

void rd_shm_reap_ends(shm_link *s)
{
    rd_arena_tidy(s->member.arena);
    for (shm_end **at = &s->ends, *end; (end = *at);) {
        if (end->member.staged) {
            at = &end->next;
            continue;
        }
        *at = end->next;
        assert(end->member.whole == &s->member);
        atomic_fetch_sub(&end->member.head->open, 1);
        rd_member_free(&end->member);
        rd_free(end);
    }
}

enum { PART_RING = RD_SHORT_PIECE };
_Static_assert(RD_IS_POWER_OF_TWO(PART_RING), "a place in a ring is the low bits of a count");

static size_t part_bytes(uint32_t size)
{
    return page(rd_share_bytes(size, RD_PART_CHANNELS)) +
           (size_t)size * size * rd_queues(RD_PART_CHANNELS) * PART_RING;
}

/* The part that a rank says it has made there; NULL: there is no room for one. */
static rd_share_head *part_at(const shm_link *s, uint64_t at, uint32_t size)
{
    const bool fits =
        at && at % RD_HEAP_PAGE == 0 && at < s->bytes && part_bytes(size) <= s->bytes - at;
    return fits ? (rd_share_head *)((char *)s->mapping + at) : NULL;
}

/* Those that all of their members have left. */
static void reap_parts(shm_link *s)
{
    for (shm_part **at = &s->parts, *part; (part = *at);) {
        if (atomic_load(&part->head->open)) {
            at = &part->next;
            continue;
        }
        *at = part->next;
        rd_shm_free(&s->member.link, part->head, part->bytes);
        rd_free(part);
    }
}

/* What ranks tell each other there is sure to be written.  Queues and rings, like those of the whole, take
 * no memory until they are used: most parts send no messages, and few send something from each to each. */
static rd_share_head *make_part(shm_link *s, uint32_t size)
{
    return rd_shm_take(s, part_bytes(size), rd_board_bytes(size, RD_PART_CHANNELS));
}

ronda_status rd_shm_split(rd_link *link, const uint32_t members[], uint32_t size, uint32_t rank,
                          rd_offer *out, rd_error *err)
{
    shm_link *s = whole_of(link);
    (void)members;
    if (rank)
        return RONDA_OK;
    rd_shm_reap_ends(s);
    reap_parts(s);
    shm_part *part = rd_alloc(sizeof *part);
    rd_share_head *head = part ? make_part(s, size) : NULL;
    if (!head) {
        rd_free(part);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY,
                       "rank %u: no shared memory for a part of %u ranks", link->rank, size);
    }
    atomic_store(&head->open, size);
    *part = (shm_part){s->parts, head, part_bytes(size)};
    s->parts = part;
    out->memory = (uint64_t)((char *)head - (char *)s->mapping);
    assert(part_at(s, out->memory, size) == head);
    return RONDA_OK;
}

void rd_shm_withdraw(rd_link *link, const rd_offer *offer, const uint32_t members[], uint32_t size)
{
    rd_share_head *head = part_at(whole_of(link), offer->memory, size);
    (void)members;
    if (head) /* another rank has made it, perhaps */
        atomic_fetch_sub(&head->open, size);
}

ronda_status rd_shm_join(rd_link *link, const rd_offer offers[], const uint32_t members[],
                         uint32_t size, uint32_t rank, rd_link **out, rd_error *err)
{
    shm_link *s = whole_of(link);
    const uint64_t at = offers->memory;
    rd_share_head *head = part_at(s, at, size);
    if (!head)
        return rd_fail(err, RONDA_EPEER, RONDA_ANY,
                       "rank %u: the memory of a part of %u ranks is not where it was said to be",
                       link->rank, size);
    shm_end *end = rd_alloc(sizeof *end);
    if (!end || !rd_member_join(&end->member, rd_member_of(link), head, rank, size, members)) {
        rd_free(end);
        atomic_fetch_sub(&head->open, 1);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of a part",
                       link->rank);
    }
    rd_member *m = &end->member;
    m->small_bytes = PART_RING;
    m->small_at = at + page(rd_share_bytes(size, RD_PART_CHANNELS)) +
                  (size_t)rank * size * rd_queues(RD_PART_CHANNELS) * PART_RING;
    *out = &m->link;
    return RONDA_OK;
}
