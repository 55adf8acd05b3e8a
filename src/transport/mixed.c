/* mixed.c: shared memory inside a host, sockets between hosts.
 *
 * A mixed link has two others, and its ports are theirs.  What concerns a peer is asked of the link
 * that leads to it; what this rank says of itself is on its board in the shared memory, from where the sockets'
 * gossip has it, too.  There is one alarm.  A rank sleeps as its shared memory wants it, and sockets wake it too.
 *
 * A part whose ranks are all of one host is a part of the shared memory; one with a rank of each host is a part
 * of the sockets; any other is mixed too. */
#include "transport/mixed.h"

#include "base/clock.h"
#include "base/mem.h"
#include "transport/share.h"
#include "transport/tcp.h"

#include <assert.h>

typedef struct mixed_link {
    rd_link link;
    struct mixed_link *whole; /* of a part; else itself */
    uint32_t users;           /* of the whole: itself and its parts that are mixed too */
    rd_link *tcp, *shm;
    uint32_t *local;  /* rank of a rank in the shared memory; UINT32_MAX: it is of another host */
    uint32_t *global; /* and the other way round */
} mixed_link;
_Static_assert(offsetof(mixed_link, link) == 0, "a link is the beginning of a mixed one");

static mixed_link *mixed(const rd_link *link)
{
    return (mixed_link *)(uintptr_t)link;
}

static bool is_local(const mixed_link *m, uint32_t peer)
{
    return m->local[peer] != UINT32_MAX;
}

/* --- ports --- */

static rd_port *port(rd_link *link, uint32_t peer, uint32_t channel)
{
    mixed_link *m = mixed(link);
    assert(peer < link->size && channel < link->channels + RD_MESSAGE_CHANNELS);
    return is_local(m, peer) ? m->shm->transport->port(m->shm, m->local[peer], channel)
                             : m->tcp->transport->port(m->tcp, peer, channel);
}

static void *alloc(rd_link *link, size_t bytes)
{
    return mixed(link)->shm->transport->alloc(mixed(link)->shm, bytes);
}

static void free_memory(rd_link *link, void *memory, size_t bytes)
{
    mixed(link)->shm->transport->free(mixed(link)->shm, memory, bytes);
}

/* --- waiting --- */

static void pump(rd_link *link)
{
    mixed(link)->tcp->transport->pump(mixed(link)->tcp);
}

/* Sockets are looked at now and then while this rank does not sleep; then they wake it.  Between hosts all takes
 * so long that it is hardly worth while to be awake: it yields a few times only. */
static void wait(rd_link *link, rd_port *p, uint32_t idle, uint64_t until_ns)
{
    enum { OFTEN = 8, FEW_YIELDS = 100, SOON_NS = 2000000 };
    mixed_link *m = mixed(link);
    const uint64_t soon = rd_tcp_is_connecting(m->tcp) ? rd_now_ns() + SOON_NS : UINT64_MAX;
    until_ns = soon < until_ns ? soon : until_ns;
    if (idle >= RD_SPINS || idle % OFTEN == 0 || (p && rd_data_of(p)->pushes))
        m->tcp->transport->pump(m->tcp);
    m->shm->transport->wait(m->shm, p && !rd_data_of(p)->pushes ? p : NULL,
                            idle < RD_SPINS ? idle : idle + RD_YIELDS - FEW_YIELDS, until_ns);
}

static void wait_of_part(void *context, uint32_t idle, uint64_t until_ns)
{
    wait(context, NULL, idle, until_ns);
}

static void pump_of_part(void *context)
{
    mixed_link *m = context;
    m->tcp->transport->pump(m->tcp);
}

static void wake(rd_link *link)
{
    mixed_link *m = mixed(link);
    m->shm->transport->wake(m->shm);
    m->tcp->transport->wake(m->tcp);
}

/* --- where ranks stand --- */

static bool dead(rd_link *link, uint32_t peer)
{
    mixed_link *m = mixed(link);
    return is_local(m, peer) ? m->shm->transport->dead(m->shm, m->local[peer])
                             : m->tcp->transport->dead(m->tcp, peer);
}

static void gossip(rd_link *link, uint32_t peer, bool late)
{
    mixed(link)->tcp->transport->gossip(mixed(link)->tcp, peer, late);
}

static void reach(rd_link *link, uint32_t peer)
{
    mixed_link *m = mixed(link);
    if (!is_local(m, peer))
        m->tcp->transport->reach(m->tcp, peer);
}

/* --- failure --- */

static void abort_all(rd_link *link, const rd_error *cause)
{
    mixed_link *m = mixed(link);
    m->tcp->timeout_ns = link->timeout_ns;
    m->tcp->transport->abort(m->tcp, cause);
}

static void quiesce(rd_link *link, uint64_t until_ns, uint64_t soon_ns)
{
    mixed_link *m = mixed(link);
    m->shm->transport->quiesce(m->shm, until_ns, soon_ns);
    m->tcp->transport->quiesce(m->tcp, until_ns, soon_ns);
}

static void goodbye(rd_link *link)
{
    mixed_link *m = mixed(link);
    m->tcp->close_by_ns = link->close_by_ns;
    m->tcp->transport->goodbye(m->tcp);
}

/* --- opening and closing --- */

static void free_link(mixed_link *m)
{
    if (m) {
        rd_free(m->local);
        rd_free(m->global);
    }
    rd_free(m);
}

/* Parts that are mixed wait as the whole does, so that it is there as long as they are. */
static void close_both(rd_link *link)
{
    if (!link)
        return;
    mixed_link *m = mixed(link), *whole = m->whole;
    assert(whole->users);
    const bool last = --whole->users == 0;
    if (last && !rd_link_inherited(link)) { /* what wakes a forked process wakes its parent, too */
        rd_shm_wake_also(whole->shm, -1, NULL, NULL);
        rd_shm_call_ranks(whole->shm, NULL, NULL);
        rd_tcp_wait_with(whole->tcp, NULL, NULL);
    }
    if (m != whole)
        rd_shm_call_ranks(m->shm, NULL, NULL);
    rd_tcp_leave_host(m->tcp, last);
    m->tcp->close_by_ns = m->shm->close_by_ns = link->close_by_ns;
    m->tcp->transport->close(m->tcp);
    m->shm->transport->close(m->shm);
    if (m != whole)
        free_link(m);
    if (last)
        free_link(whole);
}

static void abandon(rd_link *link)
{
    mixed(link)->shm->transport->abandon(mixed(link)->shm);
}

static void count_ranks(mixed_link *m)
{
    const uint32_t *host_of = m->link.host_of;
    uint32_t next = 0;
    for (uint32_t r = 0; r < m->link.size; r++) {
        const bool local = host_of[r] == host_of[m->link.rank];
        m->local[r] = local ? next : UINT32_MAX;
        if (local)
            m->global[next++] = r;
    }
    assert(next == m->shm->size && m->local[m->link.rank] == m->shm->rank);
}

/* Without its two others.  NULL: no memory */
static mixed_link *new_link(uint32_t rank, uint32_t size, uint32_t channels)
{
    mixed_link *m = rd_alloc(sizeof *m);
    if (!m)
        return NULL;
    m->link = (rd_link){.transport = &rd_mixed,
                        .rank = rank,
                        .size = size,
                        .channels = channels,
                        .generation = rd_generation_enter()};
    m->whole = m;
    m->local = rd_alloc(size * sizeof *m->local);
    m->global = rd_alloc(size * sizeof *m->global);
    if (m->local && m->global)
        return m;
    free_link(m);
    return NULL;
}

static void tie(mixed_link *m, rd_link *tcp, rd_link *shm)
{
    /* Ports are asked for by the same number here and there */
    assert(tcp->rank == m->link.rank && tcp->size == m->link.size);
    assert(tcp->channels == m->link.channels && shm->channels == m->link.channels);
    m->tcp = tcp;
    m->shm = shm;
    m->link.cpus = tcp->cpus;
    m->link.host_of = tcp->host_of;
    m->link.heap = shm->heap;
    count_ranks(m);
    rd_tcp_share_host(tcp, shm, m->global);
    m->link.boards = tcp->boards;
    m->link.failure = shm->failure;
    m->link.alarm = shm->alarm;
    m->link.goodbyes = shm->goodbyes;
    m->link.fences = shm->fences;
    m->link.running = shm->running;
    rd_shm_call_ranks(shm, m->global, rd_tcp_host(tcp));
    m->whole->users++;
}

ronda_status rd_mixed_open(rd_link *tcp, rd_link *shm, rd_link **out, rd_error *err)
{
    const uint32_t rank = tcp->rank, size = tcp->size;
    mixed_link *m = new_link(rank, size, RD_CHANNELS);
    if (!m) {
        tcp->transport->close(tcp);
        shm->transport->close(shm);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of %u ranks",
                       rank, size);
    }
    tie(m, tcp, shm);
    rd_shm_wake_also(shm, rd_tcp_descriptor(tcp), pump_of_part, m);
    rd_tcp_wait_with(tcp, wait_of_part, m);
    *out = &m->link;
    return RONDA_OK;
}

/* --- parts --- */

/* Of a part: who of it is of this rank's host. */
typedef struct {
    uint32_t count;
    uint32_t first; /* of them, as the part counts them */
    uint32_t rank;  /* this rank's number among them */
} locals;

/* ranks: room for all of them, which it gets; or NULL. */
static locals find_locals(const mixed_link *m, const uint32_t members[], uint32_t size,
                          uint32_t *ranks)
{
    locals here = {0};
    for (uint32_t i = 0; i < size; i++) {
        if (!is_local(m, members[i]))
            continue;
        if (!here.count)
            here.first = i;
        if (members[i] == m->link.rank)
            here.rank = here.count;
        if (ranks)
            ranks[here.count] = m->local[members[i]];
        here.count++;
    }
    return here;
}

static ronda_status split(rd_link *link, const uint32_t members[], uint32_t size, uint32_t rank,
                          rd_offer *out, rd_error *err)
{
    mixed_link *m = mixed(link);
    const locals here = find_locals(m, members, size, NULL);
    ronda_status status = RONDA_OK;
    if (here.count < size)
        status = m->tcp->transport->split(m->tcp, members, size, rank, out, err);
    if (!status && (here.count == size || rd_tcp_splits_hosts(m->tcp, members, size)))
        status = m->shm->transport->split(m->shm, NULL, here.count, here.rank, out, err);
    return status;
}

static void withdraw(rd_link *link, const rd_offer *offer, const uint32_t members[], uint32_t size)
{
    mixed_link *m = mixed(link);
    if (offer->memory)
        m->shm->transport->withdraw(m->shm, offer, NULL, find_locals(m, members, size, NULL).count);
}

static ronda_status join_shm(mixed_link *m, const rd_offer offers[], const uint32_t members[],
                             uint32_t size, rd_link **out, rd_error *err)
{
    uint32_t *ranks = rd_alloc(size * sizeof *ranks);
    const locals here = find_locals(m, members, size, ranks);
    const rd_offer *offer = &offers[here.first];
    ronda_status status;
    if (ranks && offer->memory)
        status = m->shm->transport->join(m->shm, offer, ranks, here.count, here.rank, out, err);
    else
        status = rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of a part",
                         m->link.rank);
    if (!ranks && offer->memory) /* the others of this host may well come */
        m->shm->transport->withdraw(m->shm, offer, NULL, 1);
    rd_free(ranks);
    return status;
}

static ronda_status join_both(mixed_link *m, const rd_offer offers[], const uint32_t members[],
                              uint32_t size, uint32_t rank, rd_link **out, rd_error *err)
{
    rd_link *shm = NULL, *tcp = NULL;
    ronda_status status = join_shm(m, offers, members, size, &shm, err);
    if (status)
        return status;
    status = m->tcp->transport->join(m->tcp, offers, members, size, rank, &tcp, err);
    mixed_link *made = status ? NULL : new_link(rank, size, tcp->channels);
    if (!made) {
        m->shm->transport->close(shm);
        if (status)
            return status;
        m->tcp->transport->close(tcp);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of a part",
                       m->link.rank);
    }
    made->whole = m->whole;
    made->link.whole = &m->whole->link;
    tie(made, tcp, shm);
    *out = &made->link;
    return RONDA_OK;
}

static ronda_status join(rd_link *link, const rd_offer offers[], const uint32_t members[],
                         uint32_t size, uint32_t rank, rd_link **out, rd_error *err)
{
    mixed_link *m = mixed(link);
    if (rd_tcp_splits_hosts(m->tcp, members, size))
        return join_both(m, offers, members, size, rank, out, err);
    if (find_locals(m, members, size, NULL).count == size)
        return join_shm(m, offers, members, size, out, err);
    return m->tcp->transport->join(m->tcp, offers, members, size, rank, out, err);
}

/* Wires of 10 Gb/s. */
static const rd_facts between_hosts = {RD_SOCKET_COSTS, .latency_ns = 15000, .send_ns = 4500,
                                       .receive_ns = 4000};
static const rd_facts costs = {RD_SHM_COSTS, .segment_bytes = 1 << 18, .far = &between_hosts,
                               .wire_ns = 0.8};

const rd_transport rd_mixed = {.name = "shm+tcp",
                               .setting = "hosts",
                               .costs = &costs,
                               .copies = true,
                               .pushes = true,
                               .lends_alloc = true,
                               .port = port,
                               .alloc = alloc,
                               .free = free_memory,
                               .wait = wait,
                               .pump = pump,
                               .wake = wake,
                               .dead = dead,
                               .gossip = gossip,
                               .reach = reach,
                               .abort = abort_all,
                               .quiesce = quiesce,
                               .goodbye = goodbye,
                               .close = close_both,
                               .abandon = abandon,
                               .split = split,
                               .join = join,
                               .withdraw = withdraw};
