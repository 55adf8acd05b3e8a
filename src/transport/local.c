/* local.c: ranks as threads of one process.
 *
 * All memory is everybody's, so nothing is staged: a message is one cache line, with up to 48 bytes in
 * it or the address where the sender's bytes lie, and the receiver uses them there.  share.c has the
 * protocol. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "transport/share.h"
#include "transport/transports.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The mapping of a world; the last rank to close it frees it. */
typedef struct {
    rd_member member;
    void *mapping;
    size_t bytes;
} local_link;
_Static_assert(offsetof(local_link, member) == 0, "a member is the beginning of its link");

/* What cannot be lent, because the sender does not wait until it is read. */
enum { MESSAGE_RING = RD_SHORT_PIECE };
_Static_assert(RD_IS_POWER_OF_TWO(MESSAGE_RING), "a place in a ring is the low bits of a count");

static size_t mapping_bytes(uint32_t size, uint32_t channels)
{
    return rd_share_bytes(size, channels) + (size_t)size * size * MESSAGE_RING;
}

static void find_rings(rd_member *m, uint32_t channels)
{
    const rd_link *link = &m->link;
    assert(link->channels == channels);
    m->messages_alone = true;
    m->small_bytes = MESSAGE_RING;
    m->small_at = (uintptr_t)m->head + rd_share_bytes(link->size, channels) +
                  (uint64_t)link->rank * link->size * MESSAGE_RING;
}

static void sleep_here(rd_member *m, uint64_t until_ns)
{
    const uint64_t now = rd_now_ns(), ns = until_ns > now ? until_ns - now : 0;
    const struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000u),
                                   .tv_nsec = (long)(ns % 1000000000u)};
    syscall(SYS_futex, &m->boards[m->link.rank].asleep, FUTEX_WAIT_PRIVATE, 1, &limit, NULL, 0);
}

static void ring(rd_member *m, uint32_t rank)
{
    if (atomic_exchange(&m->boards[rank].asleep, 0))
        syscall(SYS_futex, &m->boards[rank].asleep, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool local_lends(const rd_port *port, const void *data, uint64_t bytes)
{
    (void)port;
    (void)data;
    (void)bytes;
    return true;
}

static const rd_data local_data = {RD_SHARE_DATA, .lends = local_lends};

static void *local_alloc(rd_link *link, size_t bytes)
{
    (void)link;
    return rd_pages(bytes ? bytes : 1);
}

/* After a failure: does a rank still run an op of the program's, on whatever it was lent? */
static bool is_used(rd_link *link)
{
    bool used = false;
    for (uint32_t r = 0; r < link->size && atomic_load(link->alarm); r++)
        used |= r != link->rank && rd_control_board(link, r).running;
    return used;
}

/* What is used is left alone: to unmap it would end the process when the op goes on. */
static void local_free(rd_link *link, void *memory, size_t bytes)
{
    if (memory && !is_used(link))
        rd_unmap(memory, bytes ? bytes : 1);
}

static void leave_mapping(rd_share_head *head, void *mapping, size_t bytes)
{
    const uint32_t open = atomic_fetch_sub(&head->open, 1);
    assert(open);
    if (open == 1)
        rd_unmap(mapping, bytes);
}

/* A link is needed as long as there are parts of its world. */
static void drop(local_link *l)
{
    assert(l->member.users);
    if (--l->member.users)
        return;
    rd_member_free(&l->member);
    leave_mapping(l->member.head, l->mapping, l->bytes);
    rd_free(l);
}

static void local_close(rd_link *link)
{
    local_link *l = (local_link *)link;
    if (!l)
        return;
    if (!rd_link_inherited(link))
        rd_member_close(&l->member);
    if (l->member.whole == &l->member) {
        drop(l);
        return;
    }
    local_link *whole = (local_link *)l->member.whole;
    rd_member_free(&l->member);
    leave_mapping(l->member.head, l->mapping, l->bytes);
    rd_free(l);
    drop(whole);
}

static local_link *open_one(void *mapping, size_t bytes, uint32_t rank, uint32_t size)
{
    local_link *l = rd_alloc(sizeof *l);
    if (!l)
        return NULL;
    l->mapping = mapping;
    l->bytes = bytes;
    l->member.limit = UINT64_MAX;
    l->member.membarrier = MEMBARRIER_CMD_PRIVATE_EXPEDITED;
    l->member.link.fences =
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
    l->member.data = &local_data;
    l->member.sleep = sleep_here;
    l->member.ring = ring;
    if (!rd_member_open(&l->member, &rd_local, mapping, rank, size)) {
        rd_free(l);
        return NULL;
    }
    find_rings(&l->member, RD_CHANNELS);
    atomic_fetch_add(&l->member.head->open, 1);
    return l;
}

ronda_status rd_local_open(uint32_t size, rd_link *links[], rd_error *err)
{
    const size_t bytes = mapping_bytes(size, RD_CHANNELS);
    void *mapping = rd_map(bytes);
    uint32_t made = 0;
    if (mapping)
        ((rd_share_head *)mapping)->cpus = rd_usable_cpus();
    for (local_link *l; mapping && made < size && (l = open_one(mapping, bytes, made, size));
         made++)
        links[made] = &l->member.link;
    if (made == size)
        return RONDA_OK;
    if (made == 0)
        rd_unmap(mapping, bytes);
    while (made-- > 0) {
        local_close(links[made]);
        links[made] = NULL;
    }
    return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "no memory for a world of %u ranks", size);
}

/* --- parts of a world --- */

static ronda_status local_split(rd_link *link, const uint32_t members[], uint32_t size,
                                uint32_t rank, rd_offer *out, rd_error *err)
{
    (void)members;
    if (rank)
        return RONDA_OK;
    rd_share_head *head = rd_map(mapping_bytes(size, RD_PART_CHANNELS));
    out->memory = (uintptr_t)head;
    if (!head)
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for a part of %u ranks",
                       link->rank, size);
    atomic_store(&head->open, size);
    return RONDA_OK;
}

static void local_withdraw(rd_link *link, const rd_offer *offer, const uint32_t members[],
                           uint32_t size)
{
    rd_share_head *head = (void *)(uintptr_t)offer->memory;
    (void)link;
    (void)members;
    for (uint32_t i = 0; i < size; i++)
        leave_mapping(head, head, mapping_bytes(size, RD_PART_CHANNELS));
}

static ronda_status local_join(rd_link *link, const rd_offer offers[], const uint32_t members[],
                               uint32_t size, uint32_t rank, rd_link **out, rd_error *err)
{
    const size_t bytes = mapping_bytes(size, RD_PART_CHANNELS);
    rd_share_head *head = (void *)(uintptr_t)offers->memory;
    local_link *l = rd_alloc(sizeof *l);
    if (!l || !rd_member_join(&l->member, rd_member_of(link), head, rank, size, members)) {
        rd_free(l);
        leave_mapping(head, head, bytes);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of a part",
                       link->rank);
    }
    l->mapping = head;
    l->bytes = bytes;
    find_rings(&l->member, RD_PART_CHANNELS);
    *out = &l->member.link;
    return RONDA_OK;
}

/* Measured on two machines of 2 and 16 cores, with bench/bench_algorithms.c. */
static const rd_facts costs = {.latency_ns = 120,
                               .switch_ns = 1200,
                               .send_ns = 70,
                               .receive_ns = 120,
                               .lend_ns = 300,
                               .stage_ns = 300,
                               .stage_byte_ns = 0.2,
                               .copy_ns = 0.07,
                               .fold_ns = 0.05,
                               .segment_bytes = 1 << 20};

const rd_transport rd_local = {.name = "local",
                               .costs = &costs,
                               .lends_alloc = true,
                               RD_SHARE_SLOTS,
                               .quiesce = rd_share_quiesce,
                               .alloc = local_alloc,
                               .free = local_free,
                               .close = local_close,
                               .split = local_split,
                               .join = local_join,
                               .withdraw = local_withdraw};
