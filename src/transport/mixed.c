/* mixed.c: shared memory inside a host, sockets between hosts.
 *
 * A mixed link has two others, and each of its ports is one of theirs.  What concerns a peer is asked of the link
 * that leads to it; what this rank says of itself is said to both.  Two alarms are one: who sees one raises the
 * other.  A rank sleeps as its shared memory wants it, and sockets wake it too.
 *
 * A part whose ranks are all of one host is a part of the shared memory; one with a rank of each host is a part
 * of the sockets; any other is mixed too. */
#include "transport/mixed.h"

#include "base/clock.h"
#include "base/mem.h"
#include "transport/tcp.h"

struct rd_port {
    const rd_transport *way; /* NULL: not used yet */
    rd_port *port;
};

typedef struct mixed_link {
    rd_link link;
    struct mixed_link *whole; /* of a part; else itself */
    uint32_t users;           /* of the whole: itself and its parts that are mixed too */
    bool closed;              /* but used */
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
    if (here != there && !m->closed) {
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

static uint32_t message_lines(const rd_link *link)
{
    const mixed_link *m = mixed(link);
    return m->shm->transport->message_lines(m->shm) + m->tcp->transport->message_lines(m->tcp);
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

static bool completed(rd_port *p, uint32_t message)
{
    return p->way->completed(p->port, message);
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
    const uint64_t soon = rd_tcp_is_connecting(m->tcp) ? rd_now_ns() + SOON_NS : UINT64_MAX;
    until_ns = soon < until_ns ? soon : until_ns;
    if (idle >= SPINS || idle % OFTEN == 0 || (p && p->way == m->tcp->transport))
        m->tcp->transport->pump(m->tcp);
    m->shm->transport->wait(m->shm, p && p->way == m->shm->transport ? p->port : NULL,
                            idle < SPINS ? idle : idle + LESS_YIELDS, until_ns);
    agree(m);
    if (m->whole != m)
        agree(m->whole);
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
static void await(rd_link *link, uint32_t peer, bool late)
{
    mixed_link *m = mixed(link);
    m->shm->transport->await(m->shm, peer, late);
    const bool tells = late || rd_tcp_is_asked(m->tcp);
    for (uint32_t r = 0; r < link->size && tells; r++) /* other hosts hear of them from this rank */
        if (is_local(m, r) && r != link->rank) {
            const rd_presence p = m->shm->transport->presence(m->shm, m->local[r]);
            rd_record call = {0};
            m->shm->transport->record(m->shm, m->local[r], p.sequence, &call);
            rd_tcp_know(m->tcp, r, &p, &call);
        }
    m->tcp->transport->await(m->tcp, peer, late);
}

static void announce(rd_link *link, const rd_pending *message, bool full)
{
    mixed_link *m = mixed(link);
    m->shm->transport->announce(m->shm, message, full);
    m->tcp->transport->announce(m->tcp, message, full);
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
    m->tcp->timeout_ns = link->timeout_ns;
    m->shm->transport->abort(m->shm, cause);
    m->tcp->transport->abort(m->tcp, cause);
}

static void cause(rd_link *link, rd_error *out)
{
    mixed(link)->tcp->transport->cause(mixed(link)->tcp, out);
}

static void quiesce(rd_link *link, uint64_t until_ns, uint64_t soon_ns)
{
    mixed_link *m = mixed(link);
    agree(m);
    m->shm->transport->quiesce(m->shm, until_ns, soon_ns);
    m->tcp->transport->quiesce(m->tcp, until_ns, soon_ns);
}

static void goodbye(rd_link *link)
{
    mixed_link *m = mixed(link);
    m->tcp->close_by_ns = link->close_by_ns;
    m->tcp->transport->goodbye(m->tcp);
    agree(m);
}

/* --- opening and closing --- */

static void free_link(mixed_link *m)
{
    if (m) {
        rd_free(m->local);
        rd_free(m->global);
        rd_free(m->ports);
    }
    rd_free(m);
}

/* Parts that are mixed wait as the whole does, so that it is there as long as they are. */
static void close_both(rd_link *link)
{
    if (!link)
        return;
    mixed_link *m = mixed(link), *whole = m->whole;
    const bool last = --whole->users == 0;
    if (last && !rd_link_inherited(link)) { /* what wakes a forked process wakes its parent, too */
        rd_shm_wake_also(whole->shm, -1, NULL, NULL);
        rd_shm_call_ranks(whole->shm, NULL, NULL);
        rd_tcp_wait_with(whole->tcp, NULL, NULL);
    }
    if (m != whole)
        rd_shm_call_ranks(m->shm, NULL, NULL);
    m->tcp->close_by_ns = m->shm->close_by_ns = link->close_by_ns;
    m->tcp->transport->close(m->tcp);
    m->shm->transport->close(m->shm);
    m->closed = true;
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
                        .generation = rd_generation_enter(),
                        .goodbyes = &m->goodbyes};
    m->whole = m;
    m->local = rd_alloc(size * sizeof *m->local);
    m->global = rd_alloc(size * sizeof *m->global);
    m->ports = rd_alloc((size_t)size * (channels + 2) * sizeof *m->ports);
    if (m->local && m->global && m->ports)
        return m;
    free_link(m);
    return NULL;
}

static void tie(mixed_link *m, rd_link *tcp, rd_link *shm)
{
    m->tcp = tcp;
    m->shm = shm;
    m->link.alarm = tcp->alarm;
    m->link.cpus = tcp->cpus;
    m->link.host_of = tcp->host_of;
    m->link.heap = shm->heap;
    count_ranks(m);
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

static void forgo(rd_link *link, const rd_offer *offer, const uint32_t members[], uint32_t size)
{
    mixed_link *m = mixed(link);
    if (offer->memory)
        m->shm->transport->forgo(m->shm, offer, NULL, find_locals(m, members, size, NULL).count);
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
        m->shm->transport->forgo(m->shm, offer, NULL, 1);
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

const rd_transport rd_mixed = {.name = "shm+tcp",
                               .copies = true,
                               .pushes = true,
                               .lends_alloc = true,
                               .port = port,
                               .message_lines = message_lines,
                               .can_send = can_send,
                               .reserve = reserve,
                               .commit = commit,
                               .share = share,
                               .lends = lends,
                               .lend = lend,
                               .give_back = give_back,
                               .sent = sent,
                               .completed = completed,
                               .gone = gone,
                               .peek = peek,
                               .release = release,
                               .alloc = alloc,
                               .free = free_memory,
                               .wait = wait,
                               .pump = pump,
                               .wake = wake,
                               .enter = enter,
                               .leave = leave,
                               .pause = pause,
                               .resume = resume,
                               .await = await,
                               .announce = announce,
                               .reach = reach,
                               .record = record,
                               .presence = presence,
                               .abort = abort_both,
                               .cause = cause,
                               .quiesce = quiesce,
                               .goodbye = goodbye,
                               .close = close_both,
                               .abandon = abandon,
                               .split = split,
                               .join = join,
                               .forgo = forgo};
