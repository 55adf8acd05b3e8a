/* tcp.c: messages over sockets, as transport.h wants them.  tcp_inside.h says how it works. */
#include "transport/tcp_inside.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "transport/stream_tcp.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

enum { SPINS = 300 };

/* --- ports --- */

rd_port *rd_tcp_port(rd_link *link, uint32_t peer, uint32_t channel)
{
    tcp_link *l = rd_tcp_link(link);
    assert(peer < link->size && channel < link->channels + RD_MESSAGE_CHANNELS);
    rd_port *p = &l->ports[(size_t)channel * link->size + peer];
    if (p->link)
        return p;
    p->data = &rd_tcp_data;
    p->to = &l->world->peers[rd_tcp_in_whole(l, peer)];
    p->rank = peer;
    p->channel = channel;
    p->link = l;
    p->used = l->used;
    l->used = p;
    return p;
}

/* A peer that may be waited for: it has time to connect by itself. */
static void reach(rd_link *link, uint32_t peer)
{
    enum { PATIENCE_NS = 100000000 };
    tcp_link *l = rd_tcp_link(link);
    pthread_mutex_lock(&l->world->lock);
    rd_tcp_want(l->world, rd_tcp_in_whole(l, peer), PATIENCE_NS);
    pthread_mutex_unlock(&l->world->lock);
}

/* Messages with tags come from whoever writes them; who waits for them will say so. */
static rd_port *port(rd_link *link, uint32_t peer, uint32_t channel)
{
    if (channel < link->channels)
        reach(link, peer);
    return rd_tcp_port(link, peer, channel);
}

/* --- waiting --- */

/* While a message is expected of one peer its stream is read without asking first which streams have something: that is
 * a system call less.  All are asked now and then, for others may wait for this rank, or it may have failed; and
 * always if something waits for room. */
static void wait(rd_link *link, rd_port *p, uint32_t idle, uint64_t until_ns)
{
    enum { ALL_EVERY = 8 };
    tcp_world *w = rd_tcp_link(link)->world;
    if (w->wait) {
        w->wait(w->wait_context, idle, until_ns);
        return;
    }
    if (idle >= SPINS) {
        rd_tcp_pump(w, until_ns);
        return;
    }
    if (w->crowded)
        sched_yield();
    if (!p || idle % ALL_EVERY == 0 || !rd_tcp_poll(w, p->to))
        rd_tcp_pump(w, 0);
}

static void pump(rd_link *link)
{
    rd_tcp_pump(rd_tcp_link(link)->world, 0);
}

static void wake(rd_link *link)
{
    rd_network *network = rd_tcp_link(link)->world->its.network;
    network->kind->wake(network);
}

/* --- memory --- */

static void *alloc(rd_link *link, size_t bytes)
{
    (void)link;
    return rd_pages(bytes ? bytes : 1);
}

static void free_pages(rd_link *link, void *memory, size_t bytes)
{
    (void)link;
    rd_unmap(memory, bytes ? bytes : 1);
}

/* --- opening and closing --- */

static void free_link(tcp_link *l)
{
    for (rd_port *p = l->used; p; p = p->used) {
        for (uint32_t k = 0; k < RD_QUEUE; k++)
            rd_free(p->out[k].staged);
        for (; p->taken != p->came; p->taken++)
            rd_tcp_free_slot(l->world, &p->in[p->taken % RD_QUEUE]);
    }
    rd_unmap(l->ports, l->ports_bytes);
    rd_unmap(l->copies, l->copies_bytes);
    rd_unmap(l->copied_calls, l->calls_bytes);
    rd_free(l->link.boards);
    rd_free(l->members);
    rd_free(l->index_of);
    rd_free(l->host_of);
    rd_free(l);
}

/* Where news of each rank goes, and what this one says of itself. */
static void set_boards(tcp_link *l)
{
    const uint32_t size = l->link.size;
    for (uint32_t r = 0; r < size; r++)
        l->link.boards[r] = (rd_known){.board = &l->copies[r],
                                       .calls = &l->copied_calls[(size_t)r * RD_KEPT_RECORDS],
                                       .records = RD_KEPT_RECORDS,
                                       .copy = true};
    l->link.boards[l->link.rank] =
        (rd_known){.board = &l->copies[l->link.rank],
                   .calls = &l->copied_calls[(size_t)size * RD_KEPT_RECORDS],
                   .records = RD_RECORDS};
}

/* Pages of ranks that nothing is heard of are never touched.  false: no memory */
static bool make_boards(tcp_link *l)
{
    const uint32_t size = l->link.size;
    l->copies_bytes = size * sizeof *l->copies;
    l->calls_bytes = ((size_t)size * RD_KEPT_RECORDS + RD_RECORDS) * sizeof *l->copied_calls;
    l->copies = rd_map(l->copies_bytes);
    l->copied_calls = rd_map(l->calls_bytes);
    l->link.boards = rd_alloc(size * sizeof *l->link.boards);
    if (!l->copies || !l->copied_calls || !l->link.boards)
        return false;
    set_boards(l);
    return true;
}

static void count_goodbyes(tcp_world *w, _Atomic uint32_t *goodbyes)
{
    w->goodbyes = goodbyes;
    for (tcp_link *l = w->links; l; l = l->next)
        l->link.goodbyes = goodbyes;
}

static tcp_link *new_link(tcp_world *w, uint32_t rank, uint32_t size)
{
    tcp_link *l = rd_alloc(sizeof *l);
    if (!l)
        return NULL;
    l->link = (rd_link){.transport = &rd_tcp,
                        .rank = rank,
                        .size = size,
                        .channels = RD_CHANNELS,
                        .cpus = size,
                        .heap = w,
                        .generation = rd_generation_enter(),
                        .goodbyes = w->goodbyes,
                        .failure = &l->own_failure,
                        .alarm = &l->own_failure.alarm};
    l->world = w;
    l->ports_bytes = (size_t)size * rd_queues(RD_CHANNELS) * sizeof *l->ports;
    l->ports = rd_map(l->ports_bytes);
    l->index_of = rd_alloc(w->its.size * sizeof *l->index_of);
    if (!make_boards(l) || !l->ports || !l->index_of) {
        free_link(l);
        return NULL;
    }
    for (uint32_t r = 0; r < w->its.size; r++)
        l->index_of[r] = r;
    return l;
}

static void add_link(tcp_world *w, tcp_link *l)
{
    pthread_mutex_lock(&w->lock);
    tcp_link **last = &w->links;
    while (*last)
        last = &(*last)->next;
    *last = l;
    w->users++;
    pthread_mutex_unlock(&w->lock);
}

/* Parts look at the whole's alarm as long as there are any. */
static void drop_link(tcp_world *w, tcp_link *l)
{
    pthread_mutex_lock(&w->lock);
    if (!rd_link_inherited(&l->link))
        rd_tcp_drop_messages(l, true); /* what came after the goodbye, too */
    l->closed = true;
    tcp_link **at = &w->links;
    while (*at && *at != l)
        at = &(*at)->next;
    assert(*at);
    if (l->id)
        *at = l->next;
    pthread_mutex_unlock(&w->lock);
    if (l->id)
        free_link(l);
}

static void free_world(tcp_world *w)
{
    rd_tcp_strike_off(w);
    while (w->links) {
        tcp_link *l = w->links;
        w->links = l->next;
        free_link(l);
    }
    while (w->conns)
        rd_tcp_end(w, w->conns);
    while (w->ended) {
        tcp_conn *c = w->ended;
        w->ended = c->next;
        rd_free(c);
    }
    rd_pool_free(w);
    if (w->its.network)
        w->its.network->kind->shut(w->its.network);
    rd_free(w->its.places);
    rd_free(w->its.key);
    rd_free(w->its.host_of);
    rd_free(w->peers);
    pthread_mutex_destroy(&w->lock);
    rd_free(w);
}

static void goodbye(rd_link *link)
{
    tcp_link *l = rd_tcp_link(link);
    tcp_world *w = l->world;
    if (l->left_for_good)
        return;
    l->left_for_good = true;
    const uint64_t until =
        link->close_by_ns ? link->close_by_ns : rd_tcp_now(w) + w->its.timeout_ns;
    rd_tcp_take_leave(l, until);
    pthread_mutex_lock(&w->lock);
    rd_tcp_drop_messages(l, true);
    pthread_mutex_unlock(&w->lock);
    if (w->users == 1)
        rd_tcp_close_world(w, until);
}

static void close_link(rd_link *link)
{
    if (!link)
        return;
    tcp_link *l = rd_tcp_link(link);
    tcp_world *w = l->world;
    rd_link_inherited(link) ? rd_tcp_leave_files(w) : goodbye(link);
    drop_link(w, l);
    assert(w->users);
    if (--w->users == 0)
        free_world(w);
}

static ronda_status cannot_open(const rd_tcp_parts *parts, ronda_status status, int why,
                                rd_error *err)
{
    return rd_fail(err, status, RONDA_ANY,
                   "rank %u: no memory or descriptors for its end of %u ranks%s%s", parts->rank,
                   parts->size, why ? ": " : "", why ? strerror(why) : "");
}

ronda_status rd_tcp_open(const rd_tcp_parts *parts, rd_link **out, rd_error *err)
{
    tcp_world *w = rd_alloc(sizeof *w);
    rd_network *network = parts->network ? parts->network : rd_stream_tcp_open(parts->listener);
    const int why = network ? 0 : errno;
    if (!w || !network) {
        if (network)
            network->kind->shut(network);
        rd_free(w);
        rd_free(parts->places);
        rd_free(parts->key);
        rd_free(parts->host_of);
        return cannot_open(parts, why && why != ENOMEM ? RONDA_ESYSTEM : RONDA_ENOMEM, why, err);
    }
    pthread_mutex_init(&w->lock, NULL);
    w->its = *parts;
    w->its.network = network;
    w->goodbyes = &w->own_goodbyes;
    w->peers = rd_alloc(parts->size * sizeof *w->peers);
    tcp_link *l = w->peers ? new_link(w, parts->rank, parts->size) : NULL;
    if (!l ||
        !rd_places_cpus(parts->places, parts->size, parts->rank, &l->link.cpus, &w->crowded)) {
        if (l)
            free_link(l);
        free_world(w);
        return cannot_open(parts, RONDA_ENOMEM, 0, err);
    }
    l->link.host_of = parts->host_of;
    add_link(w, l);
    rd_tcp_enlist(w);
    *out = &l->link;
    return RONDA_OK;
}

const char *rd_tcp_host(const rd_link *link)
{
    const tcp_world *w = rd_tcp_link(link)->world;
    return w->its.places[w->its.rank].name;
}

int rd_tcp_descriptor(const rd_link *link)
{
    const rd_network *network = rd_tcp_link(link)->world->its.network;
    return network->kind->descriptor(network);
}

void rd_tcp_share_host(rd_link *link, rd_link *shm, const uint32_t ranks[])
{
    tcp_link *l = rd_tcp_link(link);
    if (atomic_load(link->alarm))
        shm->transport->abort(shm, &l->own_failure.cause);
    for (uint32_t r = 0; r < shm->size; r++)
        link->boards[ranks[r]] = shm->boards[r];
    link->failure = shm->failure;
    link->alarm = shm->alarm;
    link->fences = shm->fences;
    l->beside = shm;
    if (!link->whole)
        count_goodbyes(l->world, (_Atomic uint32_t *)(uintptr_t)shm->goodbyes);
}

void rd_tcp_leave_host(rd_link *link, bool last)
{
    tcp_link *l = rd_tcp_link(link);
    const uint64_t sequence = rd_control_board(link, link->rank).sequence;
    rd_record call = {0};
    rd_error cause = {0};
    rd_control_cause(link, &cause);
    rd_control_record(link, link->rank, sequence, &call);
    link->failure = &l->own_failure;
    link->alarm = &l->own_failure.alarm;
    if (cause.status)
        rd_control_raise(link->failure, &cause);
    l->beside = NULL;
    set_boards(l);
    if (call.sequence)
        rd_control_enter(link, &call);
    rd_control_leave(link, sequence);
    if (last)
        count_goodbyes(l->world, &l->world->own_goodbyes);
}

bool rd_tcp_is_connecting(const rd_link *link)
{
    return rd_tcp_link(link)->world->wanted || rd_tcp_link(link)->world->unproven;
}

void rd_tcp_wait_with(rd_link *link,
                      void (*wait_with)(void *context, uint32_t idle, uint64_t until_ns),
                      void *context)
{
    rd_tcp_link(link)->world->wait = wait_with;
    rd_tcp_link(link)->world->wait_context = context;
}

/* --- parts of a world --- */

/* A number that no other part has or had. */
static ronda_status split(rd_link *link, const uint32_t members[], uint32_t size, uint32_t rank,
                          rd_offer *out, rd_error *err)
{
    enum { PART_BITS = 40 };
    tcp_world *w = rd_tcp_link(link)->world;
    (void)members;
    (void)size;
    (void)err;
    if (!rank)
        out->number = (uint64_t)(w->its.rank + 1) << PART_BITS | ++w->parts;
    assert(w->parts >> PART_BITS == 0);
    return RONDA_OK;
}

static void withdraw(rd_link *link, const rd_offer *offer, const uint32_t members[], uint32_t size)
{
    (void)link;
    (void)offer;
    (void)members;
    (void)size;
}

bool rd_tcp_splits_hosts(const rd_link *link, const uint32_t members[], uint32_t size)
{
    const uint32_t *host_of = link->host_of;
    bool one = true, shared = false;
    for (uint32_t i = 0; i < size && host_of; i++) {
        one &= host_of[members[i]] == host_of[members[0]];
        for (uint32_t k = 0; k < i && !shared; k++)
            shared = host_of[members[i]] == host_of[members[k]];
    }
    return host_of && shared && !one;
}

/* Of a part some of whose ranks share memory: others see it as a mixed one.  false: no memory */
static bool find_hosts(tcp_link *l, const tcp_link *of, const uint32_t members[])
{
    if (!rd_tcp_splits_hosts(&of->link, members, l->link.size))
        return true;
    l->link.channels = RD_PART_CHANNELS;
    l->link.host_of = l->host_of = rd_alloc(l->link.size * sizeof *l->host_of);
    for (uint32_t r = 0; l->host_of && r < l->link.size; r++)
        l->host_of[r] = of->link.host_of[members[r]];
    return l->host_of;
}

static ronda_status join(rd_link *link, const rd_offer offers[], const uint32_t members[],
                         uint32_t size, uint32_t rank, rd_link **out, rd_error *err)
{
    tcp_link *of = rd_tcp_link(link);
    tcp_world *w = of->world;
    tcp_link *l = new_link(w, rank, size);
    uint32_t *in_whole = rd_alloc(size * sizeof *in_whole);
    if (!l || !in_whole || !find_hosts(l, of, members)) {
        if (l)
            free_link(l);
        rd_free(in_whole);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of a part",
                       link->rank);
    }
    for (uint32_t r = 0; r < w->its.size; r++)
        l->index_of[r] = UINT32_MAX;
    for (uint32_t r = 0; r < size; r++) {
        in_whole[r] = rd_tcp_in_whole(of, members[r]);
        l->index_of[in_whole[r]] = r;
    }
    l->members = in_whole;
    l->id = offers->number;
    l->link.whole = link->whole ? link->whole : link;
    l->link.cpus = rd_cpus_of_part(&of->link, size);
    add_link(w, l);
    *out = &l->link;
    return RONDA_OK;
}

static const rd_facts costs = {RD_SOCKET_COSTS, .latency_ns = 500, .send_ns = 9000,
                               .receive_ns = 2500};

const rd_transport rd_tcp = {.name = "tcp",
                             .setting = "tcp",
                             .costs = &costs,
                             .pushes = true,
                             .lends_alloc = true,
                             .port = port,
                             .alloc = alloc,
                             .free = free_pages,
                             .wait = wait,
                             .pump = pump,
                             .wake = wake,
                             .dead = rd_tcp_dead,
                             .gossip = rd_tcp_gossip,
                             .reach = reach,
                             .abort = rd_tcp_abort,
                             .quiesce = rd_tcp_quiesce,
                             .goodbye = goodbye,
                             .close = close_link,
                             .split = split,
                             .join = join,
                             .withdraw = withdraw};
