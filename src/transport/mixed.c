/* mixed.c: shared memory inside a host, sockets between hosts.
 *
 * A mixed link has two others, and each of its ports is one of theirs.  What concerns a peer is asked of the link
 * that leads to it; what this rank says of itself is said to both.  Two alarms are one: who sees one raises the
 * other.  A rank sleeps as its shared memory wants it, and sockets wake it too.
 *
 * A part whose ranks are all of one host is a part of the shared memory; any other is one of sockets alone. */
#include "transport/mixed.h"

#include "base/clock.h"
#include "base/mem.h"
#include "transport/tcp.h"

struct rd_port {
    const rd_transport *way; /* NULL: not used yet */
    rd_port *port;
};

typedef struct {
    rd_link link;
    rd_link *tcp, *shm;
    uint32_t *local;  /* rank of a rank in the shared memory; UINT32_MAX: it is of another host */
    uint32_t *global; /* and the other way round */
    rd_port *ports;   /* [channel][peer] */
    _Atomic uint32_t goodbyes;
} mixed_link;

static mixed_link *mixed(const rd_link *link)
{
    return (mixed_link *)(uintptr_t)link;
}

static bool is_local(const mixed_link *m, uint32_t peer)
{
    return m->local[peer] != UINT32_MAX;
}

/* Whoever has failed has failed here and there. */
static void agree(mixed_link *m)
{
    rd_error cause = {0};
    const bool here = atomic_load(m->shm->alarm), there = atomic_load(m->tcp->alarm);
    if (here != there) {
        rd_link *knows = here ? m->shm : m->tcp, *learns = here ? m->tcp : m->shm;
        knows->transport->cause(knows, &cause);
        learns->transport->abort(learns, &cause);
    }
    atomic_store_explicit(&m->goodbyes,
                          atomic_load(m->shm->goodbyes) + atomic_load(m->tcp->goodbyes),
                          memory_order_relaxed);
}

/* --- ports --- */

static rd_port *port(rd_link *link, uint32_t peer, uint32_t channel)
{
    mixed_link *m = mixed(link);
    rd_port *p = &m->ports[(size_t)channel * link->size + peer];
    rd_link *way = is_local(m, peer) ? m->shm : m->tcp;
    if (!p->way) {
        p->port = way->transport->port(way, is_local(m, peer) ? m->local[peer] : peer, channel);
        p->way = way->transport;
    }
    return p;
}

static uint32_t letters(const rd_link *link)
{
    const mixed_link *m = mixed(link);
    return m->shm->transport->letters(m->shm) + m->tcp->transport->letters(m->tcp);
}

static bool can_send(rd_port *p)
{
    return p->way->can_send(p->port);
}

static void *reserve(rd_port *p, uint64_t least, uint64_t *bytes)
{
    return p->way->reserve(p->port, least, bytes);
}

static void commit(rd_port *p, uint64_t bytes, uint64_t total, uint64_t mark)
{
    p->way->commit(p->port, bytes, total, mark);
}

static bool share(rd_port *p, const rd_port *committed, uint64_t bytes, uint64_t total,
                  uint64_t mark)
{
    return p->way == committed->way && p->way->share(p->port, committed->port, bytes, total, mark);
}

static bool lends(const rd_port *p, const void *data, uint64_t bytes)
{
    return p->way->lends(p->port, data, bytes);
}

static void lend(rd_port *p, const rd_loan *loan)
{
    p->way->lend(p->port, loan);
}

static void give_back(rd_port *p, uint64_t bytes, uint64_t mark)
{
    p->way->give_back(p->port, bytes, mark);
}

static uint32_t sent(const rd_port *p)
{
    return p->way->sent(p->port);
}

static bool home(rd_port *p, uint32_t message)
{
    return p->way->home(p->port, message);
}

static bool gone(rd_port *p, uint32_t message)
{
    return !p->way->pushes || p->way->gone(p->port, message);
}

static bool peek(rd_port *p, rd_view *view)
{
    return p->way->peek(p->port, view);
}

static void release(rd_port *p, uint64_t bytes)
{
    p->way->release(p->port, bytes);
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
    mixed_link *m = mixed(link);
    m->tcp->transport->pump(m->tcp);
    agree(m);
}

/* Sockets are looked at now and then while this rank does not sleep; then they wake it.  Between hosts all takes
 * so long that it is hardly worth while to be awake: it yields a few times only. */
static void wait(rd_link *link, rd_port *p, uint32_t idle, uint64_t until_ns)
{
    enum { OFTEN = 8, SPINS = 200, LESS_YIELDS = 1900, SOON_NS = 2000000 };
    mixed_link *m = mixed(link);
    const uint64_t soon = rd_now_ns() + SOON_NS;
    if (until_ns > soon && rd_tcp_is_connecting(m->tcp))
        until_ns = soon;
    if (idle >= SPINS || idle % OFTEN == 0 || (p && p->way == m->tcp->transport))
        m->tcp->transport->pump(m->tcp);
    m->shm->transport->wait(m->shm, p && p->way == m->shm->transport ? p->port : NULL,
                            idle < SPINS ? idle : idle + LESS_YIELDS, until_ns);
    agree(m);
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

static void nudge(rd_link *link)
{
    mixed_link *m = mixed(link);
    m->shm->transport->nudge(m->shm);
    m->tcp->transport->nudge(m->tcp);
}

/* --- where ranks stand --- */

static void enter(rd_link *link, const rd_record *record)
{
    mixed_link *m = mixed(link);
    m->shm->transport->enter(m->shm, record);
    m->tcp->transport->enter(m->tcp, record);
    agree(m);
}

static void resume(rd_link *link, uint64_t sequence)
{
    mixed_link *m = mixed(link);
    m->shm->transport->resume(m->shm, sequence);
    m->tcp->transport->resume(m->tcp, sequence);
    agree(m);
}

static void leave(rd_link *link, uint64_t sequence)
{
    mixed_link *m = mixed(link);
    m->shm->transport->leave(m->shm, sequence);
    m->tcp->transport->leave(m->tcp, sequence);
}

static void pause(rd_link *link, uint64_t sequence)
{
    mixed_link *m = mixed(link);
    m->shm->transport->pause(m->shm, sequence);
    m->tcp->transport->pause(m->tcp, sequence);
}

/* As all ranks are counted, also where those of the host read it: nobody there looks at the number. */
static void await(rd_link *link, uint32_t peer)
{
    mixed_link *m = mixed(link);
    m->shm->transport->await(m->shm, peer);
    for (uint32_t r = 0; r < link->size; r++) /* other hosts hear of them from this rank */
        if (is_local(m, r) && r != link->rank) {
            const rd_presence p = m->shm->transport->presence(m->shm, m->local[r]);
            rd_record call = {0};
            m->shm->transport->record(m->shm, m->local[r], p.sequence, &call);
            rd_tcp_know(m->tcp, r, &p, &call);
        }
    m->tcp->transport->await(m->tcp, peer);
}

static void reach(rd_link *link, uint32_t peer)
{
    mixed_link *m = mixed(link);
    if (!is_local(m, peer))
        m->tcp->transport->reach(m->tcp, peer);
}

static bool record(rd_link *link, uint32_t peer, uint64_t sequence, rd_record *out)
{
    mixed_link *m = mixed(link);
    return is_local(m, peer) ? m->shm->transport->record(m->shm, m->local[peer], sequence, out)
                             : m->tcp->transport->record(m->tcp, peer, sequence, out);
}

static rd_presence presence(rd_link *link, uint32_t peer)
{
    mixed_link *m = mixed(link);
    const rd_presence p = is_local(m, peer) ? m->shm->transport->presence(m->shm, m->local[peer])
                                            : m->tcp->transport->presence(m->tcp, peer);
    agree(m);
    return p;
}

/* --- failure --- */

static void abort_both(rd_link *link, const rd_error *cause)
{
    mixed_link *m = mixed(link);
    m->shm->transport->abort(m->shm, cause);
    m->tcp->transport->abort(m->tcp, cause);
}

static void cause(rd_link *link, rd_error *out)
{
    mixed(link)->tcp->transport->cause(mixed(link)->tcp, out);
}

static void quiesce(rd_link *link, uint64_t until_ns)
{
    mixed_link *m = mixed(link);
    agree(m);
    m->shm->transport->quiesce(m->shm, until_ns);
    m->tcp->transport->quiesce(m->tcp, until_ns);
}

/* --- opening and closing --- */

static void close_both(rd_link *link)
{
    if (!link)
        return;
    mixed_link *m = mixed(link);
    rd_shm_wake_also(m->shm, -1, NULL, NULL);
    rd_shm_call_ranks(m->shm, NULL);
    rd_tcp_wait_with(m->tcp, NULL, NULL);
    m->tcp->transport->close(m->tcp);
    m->shm->transport->close(m->shm);
    rd_free(m->local);
    rd_free(m->global);
    rd_free(m->ports);
    rd_free(m);
}

static void count_ranks(mixed_link *m)
{
    uint32_t next = 0;
    for (uint32_t r = 0; r < m->link.size; r++) {
        const bool local = m->link.host_of[r] == m->link.host_of[m->link.rank];
        m->local[r] = local ? next : UINT32_MAX;
        if (local)
            m->global[next++] = r;
    }
}

ronda_status rd_mixed_open(rd_link *tcp, rd_link *shm, rd_link **out, rd_error *err)
{
    const uint32_t n = tcp->size;
    mixed_link *m = rd_alloc(sizeof *m);
    uint32_t *local = rd_alloc(n * sizeof *local), *global = rd_alloc(n * sizeof *global);
    rd_port *ports = rd_alloc((size_t)n * (RD_CHANNELS + 2) * sizeof *ports);
    if (!m || !local || !global || !ports) {
        rd_free(m);
        rd_free(local);
        rd_free(global);
        rd_free(ports);
        const uint32_t rank = tcp->rank;
        tcp->transport->close(tcp);
        shm->transport->close(shm);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of %u ranks",
                       rank, n);
    }
    *m = (mixed_link){.link = {.transport = &rd_mixed,
                               .rank = tcp->rank,
                               .size = n,
                               .channels = RD_CHANNELS,
                               .cpus = tcp->cpus,
                               .goodbyes = &m->goodbyes,
                               .alarm = tcp->alarm,
                               .host_of = tcp->host_of},
                      .tcp = tcp,
                      .shm = shm,
                      .local = local,
                      .global = global,
                      .ports = ports};
    count_ranks(m);
    rd_shm_call_ranks(shm, m->global);
    rd_shm_wake_also(shm, rd_tcp_descriptor(tcp), pump_of_part, m);
    rd_tcp_wait_with(tcp, wait_of_part, m);
    *out = &m->link;
    return RONDA_OK;
}

/* --- parts --- */

static const uint64_t OF_ONE_HOST = (uint64_t)1 << 63;

static bool all_local(const mixed_link *m, const uint32_t members[], uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        if (!is_local(m, members[i]))
            return false;
    return true;
}

static ronda_status split(rd_link *link, const uint32_t members[], uint32_t size, uint64_t *handle,
                          rd_error *err)
{
    mixed_link *m = mixed(link);
    if (!all_local(m, members, size))
        return m->tcp->transport->split(m->tcp, members, size, handle, err);
    const ronda_status status = m->shm->transport->split(m->shm, NULL, size, handle, err);
    *handle |= OF_ONE_HOST;
    return status;
}

static ronda_status join(rd_link *link, uint64_t handle, const uint32_t members[], uint32_t size,
                         uint32_t rank, rd_link **out, rd_error *err)
{
    mixed_link *m = mixed(link);
    if (!all_local(m, members, size))
        return m->tcp->transport->join(m->tcp, handle, members, size, rank, out, err);
    uint32_t *local = rd_alloc(size * sizeof *local);
    if (!local)
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of a part",
                       link->rank);
    for (uint32_t i = 0; i < size; i++)
        local[i] = m->local[members[i]];
    const ronda_status status =
        m->shm->transport->join(m->shm, handle & ~OF_ONE_HOST, local, size, rank, out, err);
    rd_free(local);
    return status;
}

static void forgo(rd_link *link, uint64_t handle, uint32_t size)
{
    if (handle & OF_ONE_HOST)
        mixed(link)->shm->transport->forgo(mixed(link)->shm, handle & ~OF_ONE_HOST, size);
}

const rd_transport rd_mixed = {.name = "shm+tcp",
                               .copies = true,
                               .pushes = true,
                               .lends_alloc = true,
                               .port = port,
                               .letters = letters,
                               .can_send = can_send,
                               .reserve = reserve,
                               .commit = commit,
                               .share = share,
                               .lends = lends,
                               .lend = lend,
                               .give_back = give_back,
                               .sent = sent,
                               .home = home,
                               .gone = gone,
                               .peek = peek,
                               .release = release,
                               .alloc = alloc,
                               .free = free_memory,
                               .wait = wait,
                               .pump = pump,
                               .nudge = nudge,
                               .enter = enter,
                               .leave = leave,
                               .pause = pause,
                               .resume = resume,
                               .await = await,
                               .reach = reach,
                               .record = record,
                               .presence = presence,
                               .abort = abort_both,
                               .cause = cause,
                               .quiesce = quiesce,
                               .close = close_both,
                               .split = split,
                               .join = join,
                               .forgo = forgo};
