/* shm.c: ranks as processes of one host, over one memfd that all of them map.
 *
 *     | share.h: head, boards, queues | small rings [from][channel][to] | arenas [rank] | heaps [rank] |
 *
 * A memfd has no name: nothing is left in /dev/shm whatever dies, and a container's limit on /dev/shm
 * does not matter.  It is sealed against shrinking, so that no peer can make a page vanish under a
 * reader.  Pages cost nothing until they are used, so each rank has a heap as large as the machine's
 * memory.  What is in it can be lent: collectives on it copy nothing.
 *
 * A rank sleeps in epoll, on its doorbell (an eventfd that its peers ring) and on its peers' lives
 * (pidfds): the death of a peer wakes it at once. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/process.h"
#include "transport/events.h"
#include "transport/shm_inside.h"
#include "transport/transports.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static const uint32_t NOBODY = UINT32_MAX; /* the event of a descriptor that is no rank's */
enum {
    SMALL_RING = 4096,
    ARENA = 2 << 20,
    LARGE_ARENA = 8 << 20,
    FEW_RANKS = 8,
    LEAST_PIECE = 16 << 10
};
_Static_assert(RD_IS_POWER_OF_TWO(SMALL_RING) && RD_IS_POWER_OF_TWO(ARENA) &&
                   RD_IS_POWER_OF_TWO(LARGE_ARENA),
               "a place in a ring is the low bits of a count");
_Static_assert((int)RD_SHORT_PIECE <= (int)SMALL_RING && (int)RD_SHORT_PIECE < (int)LEAST_PIECE &&
                   (int)LEAST_PIECE <= (int)RD_PIECE && (int)RD_PIECE <= (int)ARENA &&
                   ARENA <= LARGE_ARENA,
               "a piece fits into its ring");
_Static_assert(SMALL_RING % RD_HEAP_PAGE == 0 && ARENA % RD_HEAP_PAGE == 0,
               "rings, arenas and heaps begin with a page");
/* The thread sanitizer leaves little room for addresses. */
#if defined(__SANITIZE_THREAD__)
#define MOST_HEAPS ((uint64_t)1 << 36)
#else
#define MOST_HEAPS ((uint64_t)1 << 43)
#endif

static size_t small_at(uint32_t size)
{
    return page(rd_share_bytes(size, RD_CHANNELS));
}

static size_t arenas_at(uint32_t size)
{
    return small_at(size) + (size_t)size * size * rd_queues(RD_CHANNELS) * SMALL_RING;
}

static size_t arena_bytes(uint32_t size)
{
    return size <= FEW_RANKS ? LARGE_ARENA : ARENA;
}

size_t rd_shm_bytes(uint32_t size)
{
    return arenas_at(size) + size * arena_bytes(size);
}

static uint64_t limit_of(int resource)
{
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)resource, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

/* Of each rank: all the memory that the machine has, as far as addresses go. */
static uint64_t heap_bytes(uint32_t size)
{
    struct sysinfo machine;
    uint64_t all = MOST_HEAPS;
    all = limit_of(RLIMIT_AS) / 4 < all ? limit_of(RLIMIT_AS) / 4 : all;
    all = limit_of(RLIMIT_FSIZE) / 4 < all ? limit_of(RLIMIT_FSIZE) / 4 : all;
    uint64_t each = all / size;
    if (sysinfo(&machine) == 0 && (uint64_t)machine.totalram * machine.mem_unit < each)
        each = (uint64_t)machine.totalram * machine.mem_unit;
    return each & ~(uint64_t)((2 << 20) - 1);
}

/* --- death --- */

/* What the peer was doing when it was last heard of, in a world or a part of it. */
static void peer_failed(rd_link *link, uint32_t rank)
{
    const uint32_t in_whole = rd_rank_in_whole(rd_member_of(link), rank);
    const uint32_t *names = whole_of(link)->names,
                   *here = link->whole ? ((shm_end *)rd_member_of(link))->names : names;
    const uint32_t called = here ? here[rank] : rank;
    rd_error cause = {.rank = here ? here[link->rank] : link->rank};
    rd_record record;
    char call[160], where[48] = "";

    const rd_presence p = rd_control_board(link, rank);
    char text[100];
    snprintf(call, sizeof call, "%s",
             p.inside || p.posted ? "with messages under way" : "before its first call");
    if (p.closed || atomic_load(link->alarm))
        return; /* it had said goodbye, or that is known */
    if (p.message.direction) {
        rd_pending_text(&p.message, text, sizeof text);
        snprintf(call, sizeof call, "in %s", text);
    } else if (rd_control_record(link, rank, p.sequence, &record)) {
        rd_record_text(&record, text, sizeof text);
        snprintf(call, sizeof call, "%s %s",
                 p.inside   ? "in"
                 : p.posted ? "with calls under way up to"
                            : "after",
                 text);
        cause.sequence = record.sequence;
    }
    if (link->whole)
        snprintf(where, sizeof where, "rank %u of the world, ", names ? names[in_whole] : in_whole);
    const char *host = whole_of(link)->host;
    const bool exited = atomic_load(&whole_of(link)->member.boards[in_whole].exited);
    rd_fail(&cause, RONDA_EPEER, called, "rank %u (%s%s%s%spid %" PRId32 ") %s %s", called, where,
            host ? "host " : "", host ? host : "", host ? ", " : "",
            whole_of(link)->peers[in_whole].pid,
            exited ? "exited without closing its communicator," : "died", call);
    rd_share_abort(link, &cause);
}

/* Parts of the world look who is missing when they see that somebody has gone. */
static void died(shm_link *s, uint32_t rank)
{
    assert(rank < s->member.link.size && rank != s->member.link.rank);
    s->peers[rank].dead = true;
    if (s->peers[rank].life >= 0)
        epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->peers[rank].life, NULL);
    atomic_fetch_add(&s->member.head->goodbyes, 1);
    peer_failed(&s->member.link, rank);
}

/* Without pidfds.  Of many ranks each takes its time. */
static uint64_t look_every_ns(const shm_link *s)
{
    return 50000000 + s->member.link.size * 100000u;
}

static void look_after_peers(shm_link *s)
{
    const uint64_t now = s->unwatched ? rd_now_ns() : 0;
    if (!s->unwatched || now - s->looked_ns < look_every_ns(s))
        return;
    s->looked_ns = now;
    for (uint32_t r = 0; r < s->member.link.size; r++)
        if (r != s->member.link.rank && !s->peers[r].dead &&
            rd_process_gone(s->peers[r].pid, s->peers[r].start))
            died(s, r);
}

/* (poll also returns if the program has closed the descriptor: that is no death.) */
bool rd_shm_is_dead(shm_link *s, uint32_t rank)
{
    struct pollfd life = {.fd = s->peers[rank].life, .events = POLLIN};
    look_after_peers(s);
    if (!s->peers[rank].dead && life.fd >= 0 && poll(&life, 1, 0) == 1 && life.revents & POLLIN)
        died(s, rank);
    return s->peers[rank].dead;
}

static bool shm_dead(rd_link *link, uint32_t peer)
{
    shm_link *s = whole_of(link);
    const uint32_t rank = rd_rank_in_whole(rd_member_of(link), peer);
    if (rd_shm_is_dead(s, rank))
        peer_failed(link, peer);
    return s->peers[rank].dead;
}

/* Peers reach only what is in the mapping, which stays: one that has stopped need not be awaited long.  But what
 * it was lent is not used again before it has gone. */
static void shm_quiesce(rd_link *link, uint64_t until_ns, uint64_t soon_ns)
{
    const uint64_t most = rd_now_ns() + 200000000, soon = most < soon_ns ? most : soon_ns,
                   end = soon < until_ns ? soon : until_ns;
    rd_share_quiesce(link, end, end);
    rd_shm_note_silent(link);
}

/* --- sleeping --- */

static void sleep_here(rd_member *m, uint64_t until_ns)
{
    shm_link *s = (shm_link *)m;
    struct epoll_event events[16];
    const uint64_t now = rd_now_ns();
    const uint64_t left_ns = until_ns > now ? until_ns - now : 0;
    const bool briefly = s->unwatched && left_ns > look_every_ns(s);
    const int n = rd_wait_events(s->epoll, events, 16, briefly ? look_every_ns(s) : left_ns);
    for (int i = 0; i < n; i++) {
        const uint32_t rank = events[i].data.u32;
        uint64_t rings;
        assert(rank == NOBODY ? s->then != NULL : rank < m->link.size);
        if (rank == NOBODY)
            s->then(s->then_context);
        else if (rank != m->link.rank)
            died(s, rank);
        else if (read(s->peers[rank].doorbell, &rings, sizeof rings) < 0 && errno != EAGAIN)
            return; /* nothing was lost: the engine looks at its queues anyway */
    }
    look_after_peers(s);
}

static void ring(rd_member *m, uint32_t rank)
{
    const uint64_t one = 1;
    if (atomic_exchange(&m->boards[rank].asleep, 0) &&
        write(((shm_link *)m)->peers[rank].doorbell, &one, sizeof one) < 0)
        return; /* full: it is ringing already */
}

void rd_shm_wake_also(rd_link *link, int fd, void (*then)(void *context), void *context)
{
    shm_link *s = (shm_link *)link;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = NOBODY};
    if (s->also >= 0)
        epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->also, NULL);
    s->also = fd;
    s->then = then;
    s->then_context = context;
    if (fd >= 0)
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event);
}

void rd_shm_call_ranks(rd_link *link, const uint32_t *names, const char *host)
{
    if (link->whole) {
        ((shm_end *)link)->names = names;
        return;
    }
    ((shm_link *)link)->names = names;
    ((shm_link *)link)->host = host;
}

/* --- closing --- */

static void say_exit(void *context)
{
    const rd_member *m = context;
    atomic_store(&m->boards[m->link.rank].exited, 1);
}

static void close_files(const shm_link *s)
{
    for (uint32_t r = 0; s->peers && r < s->member.link.size; r++) {
        if (s->peers[r].life >= 0)
            close(s->peers[r].life);
        if (s->peers[r].doorbell >= 0)
            close(s->peers[r].doorbell);
    }
    if (s->epoll >= 0)
        close(s->epoll);
    if (s->memfd >= 0)
        close(s->memfd);
}

static void free_link(shm_link *s)
{
    rd_exit_drop(&s->exits);
    close_files(s);
    while (s->ends) {
        shm_end *end = s->ends;
        s->ends = end->next;
        rd_member_free(&end->member);
        rd_free(end);
    }
    if (s->member.ports)
        rd_member_free(&s->member);
    while (s->parts) {
        shm_part *part = s->parts;
        s->parts = part->next;
        rd_free(part);
    }
    rd_shm_free_heap(s);
    rd_unmap(s->mapping, s->bytes);
    rd_free(s->member.ring_of_all.pieces);
    rd_free(s->peers);
    rd_free(s);
}

/* The link to the whole is needed as long as there are links to parts of it. */
static void shm_close(rd_link *link)
{
    if (!link)
        return;
    rd_member *m = rd_member_of(link);
    shm_link *whole = m->whole ? whole_of(link) : (shm_link *)link;
    const bool inherited = rd_link_inherited(link);
    if (m->ports && !inherited)
        rd_member_close(m);
    if (link->whole) {
        ((shm_end *)m)->next = whole->ends;
        whole->ends = (shm_end *)m;
        if (!inherited)
            rd_shm_reap_ends(whole);
    }
    if (whole->member.users <= 1)
        free_link(whole);
    else
        whole->member.users--;
}

/* Descriptors and the mapping do not change while the link is open. */
static void shm_abandon(rd_link *link)
{
    shm_link *whole = whole_of(link);
    assert(whole->member.users);
    if (--whole->member.users)
        return;
    close_files(whole);
    rd_unmap(whole->mapping, whole->bytes);
}

/* --- opening --- */

static const rd_data shm_data = {RD_SHARE_DATA, .lends = rd_share_lends};

int rd_shm_create(uint32_t size, rd_error *err)
{
    const int fd = rd_fd(memfd_create("ronda", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const uint64_t bytes = rd_shm_bytes(size) + size * heap_bytes(size);
    if (fd >= 0 && rd_file_fits(bytes) && ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        return fd;
    rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "no shared memory of %zu bytes for %u ranks: %s",
            rd_shm_bytes(size), size, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

ronda_status rd_shm_prepare(int memfd, const int32_t pids[], uint32_t size, rd_error *err)
{
    const uint32_t cpus = rd_usable_cpus_of(pids, size);
    if (pwrite(memfd, &cpus, sizeof cpus, offsetof(rd_share_head, cpus)) == sizeof cpus)
        return RONDA_OK;
    return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "cannot write to the shared memory: %s",
                   strerror(errno));
}

static void close_doorbells(const rd_shm_parts *parts)
{
    for (uint32_t r = 0; r < parts->size && parts->doorbells; r++) {
        if (parts->doorbells[r] >= 0)
            close(parts->doorbells[r]);
        parts->doorbells[r] = -1;
    }
}

ronda_status rd_shm_gather_parts(uint32_t rank, uint32_t size, rd_shm_parts *out, rd_error *err)
{
    *out = (rd_shm_parts){.rank = rank, .size = size, .memfd = -1};
    out->doorbells = rd_alloc(size * sizeof *out->doorbells);
    out->pids = rd_alloc(size * sizeof *out->pids);
    for (uint32_t r = 0; r < size && out->doorbells; r++)
        out->doorbells[r] = -1;
    if (out->doorbells && out->pids)
        return RONDA_OK;
    return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for %u ranks", rank, size);
}

void rd_shm_free_parts(rd_shm_parts *parts)
{
    close_doorbells(parts);
    if (parts->memfd >= 0)
        close(parts->memfd);
    rd_free(parts->doorbells);
    rd_free(parts->pids);
}

static uint32_t name_of(const rd_shm_parts *parts, uint32_t rank)
{
    return parts->names ? parts->names[rank] : rank;
}

static bool watch(shm_link *s, int fd, uint32_t rank)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = rank};
    return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static ronda_status open_peers(shm_link *s, const rd_shm_parts *parts, rd_error *err)
{
    for (uint32_t r = 0; r < parts->size; r++) {
        s->peers[r] =
            (struct peer){.doorbell = parts->doorbells[r], .life = -1, .pid = parts->pids[r]};
        parts->doorbells[r] = -1;
    }
    s->epoll = rd_fd(epoll_create1(EPOLL_CLOEXEC));
    if (s->epoll < 0 || !watch(s, s->peers[parts->rank].doorbell, parts->rank))
        return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank %u: no epoll: %s",
                       name_of(parts, parts->rank), strerror(errno));
    for (uint32_t r = 0; r < parts->size; r++) {
        if (r == parts->rank)
            continue;
        s->peers[r].life = rd_fd_process(parts->pids[r]);
        if (s->peers[r].life < 0 && rd_process_unwatched(errno)) {
            s->unwatched = true;
            s->peers[r].start = rd_process_start(parts->pids[r]);
            errno = ESRCH;
            if (!rd_process_gone(parts->pids[r], s->peers[r].start))
                continue;
        }
        if (s->peers[r].life < 0 || !watch(s, s->peers[r].life, r)) {
            const bool gone = errno == ESRCH;
            return rd_fail(err, gone ? RONDA_EPEER : RONDA_ESYSTEM, gone ? r : RONDA_ANY,
                           "rank %u: cannot watch rank %u (pid %" PRId32 "): %s",
                           name_of(parts, parts->rank), name_of(parts, r), parts->pids[r],
                           strerror(errno));
        }
    }
    return RONDA_OK;
}

/* As large as it must be, and for good: a page that is not there would be a signal for its reader. */
static bool is_whole(int memfd, uint32_t size, struct stat *file)
{
    const int seals = fcntl(memfd, F_GET_SEALS);
    return seals >= 0 && seals & F_SEAL_SHRINK && fstat(memfd, file) == 0 &&
           (uint64_t)file->st_size >= rd_shm_bytes(size);
}

static ronda_status open_memory(shm_link *s, const rd_shm_parts *parts, rd_error *err)
{
    rd_member *m = &s->member;
    struct stat file;
    s->memfd = rd_fd_again(parts->memfd);
    if (s->memfd < 0 || !is_whole(s->memfd, parts->size, &file))
        return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank %u: no shared memory for %u ranks: %s",
                       name_of(parts, parts->rank), parts->size,
                       s->memfd < 0 ? strerror(errno)
                                    : "what was sent is too small, or may shrink");
    s->bytes = (size_t)file.st_size;
    void *mapping = rd_map_file(s->memfd, s->bytes);
    if (!mapping)
        return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY,
                       "rank %u: cannot map %zu bytes of shared memory: %s",
                       name_of(parts, parts->rank), s->bytes, strerror(errno));
    s->mapping = mapping;
    s->heap.bytes =
        (s->bytes - rd_shm_bytes(parts->size)) / parts->size & ~(uint64_t)(RD_HEAP_PAGE - 1);
    s->heap_at = rd_shm_bytes(parts->size) + parts->rank * s->heap.bytes;
    assert(parts->rank < parts->size && s->heap_at + s->heap.bytes <= s->bytes);
    madvise((char *)mapping + rd_shm_bytes(parts->size), parts->size * s->heap.bytes,
            MADV_DONTDUMP); /* a core file need not look for pages in so many addresses */
    m->origin = (uintptr_t)mapping;
    m->limit = s->bytes;
    m->membarrier = MEMBARRIER_CMD_GLOBAL_EXPEDITED;
    m->link.fences = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0;
    m->data = &shm_data;
    m->sleep = sleep_here;
    m->ring = ring;
    m->small_bytes = SMALL_RING;
    m->small_at = small_at(parts->size) +
                  (size_t)parts->rank * parts->size * rd_queues(RD_CHANNELS) * SMALL_RING;
    m->ring_of_all.bytes = arena_bytes(parts->size);
    m->ring_of_all.at = arenas_at(parts->size) + parts->rank * m->ring_of_all.bytes;
    /* Two ranks are quicker if they do not write where the peer has just read */
    m->ring_of_all.around = parts->size == 2 ? ARENA : 0;
    assert(m->ring_of_all.at + m->ring_of_all.bytes <= rd_shm_bytes(parts->size));
    m->share = m->ring_of_all.bytes / 8 * 7 / (parts->size > 1 ? parts->size - 1 : 1);
    /* Now rather than at the first calls; where it cannot be done, they take a little longer */
    madvise((char *)mapping + m->ring_of_all.at, ARENA, MADV_POPULATE_WRITE);
    for (m->piece = RD_PIECE; m->piece > LEAST_PIECE && 2 * m->piece > m->share;)
        m->piece /= 2;
    m->ring_of_all.pieces = rd_alloc(RD_STAGED * sizeof *m->ring_of_all.pieces);
    m->arena = &m->ring_of_all;
    if (!m->ring_of_all.pieces || !rd_member_open(m, &rd_shm, mapping, parts->rank, parts->size))
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of %u ranks",
                       name_of(parts, parts->rank), parts->size);
    return RONDA_OK;
}

ronda_status rd_shm_open(const rd_shm_parts *parts, rd_link **out, rd_error *err)
{
    shm_link *s = rd_alloc(sizeof *s);
    struct peer *peers = rd_alloc(parts->size * sizeof *peers);
    if (!s || !peers) {
        close_doorbells(parts);
        rd_free(s);
        rd_free(peers);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of %u ranks",
                       name_of(parts, parts->rank), parts->size);
    }
    s->peers = peers;
    s->epoll = s->memfd = s->also = -1;
    s->member.link.size = parts->size;
    ronda_status status = open_peers(s, parts, err);
    if (!status)
        status = open_memory(s, parts, err);
    if (status) {
        shm_close(&s->member.link);
        return status;
    }
    rd_exit_add(&s->exits, say_exit, &s->member);
    *out = &s->member.link;
    return RONDA_OK;
}

static const rd_facts costs = {RD_SHM_COSTS, .segment_bytes = 1 << 20, .part_bytes = 64 << 10};

const rd_transport rd_shm = {.name = "shm",
                             .setting = "shm",
                             .costs = &costs,
                             .copies = true,
                             .lends_alloc = true,
                             RD_SHARE_SLOTS,
                             .dead = shm_dead,
                             .quiesce = shm_quiesce,
                             .alloc = rd_shm_alloc,
                             .free = rd_shm_free,
                             .close = shm_close,
                             .abandon = shm_abandon,
                             .split = rd_shm_split,
                             .join = rd_shm_join,
                             .withdraw = rd_shm_withdraw};
