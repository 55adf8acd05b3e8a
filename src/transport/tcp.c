/* tcp.c: messages over sockets, as transport.h wants them.  tcp_inside.h says how it works. */
#include "transport/tcp_inside.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SPINS = 300 };

/* --- ports --- */

rd_port *rd_tcp_port(rd_link *link, uint32_t peer, uint32_t channel)
{
    tcp_link *l = rd_tcp_link(link);
    rd_port *p = &l->ports[(size_t)channel * link->size + peer];
    if (p->link)
        return p;
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

static uint32_t message_lines(const rd_link *link)
{
    return atomic_load_explicit(&rd_tcp_link(link)->message_lines, memory_order_relaxed);
}

/* --- sending --- */

static bool has_line(const rd_port *p)
{
    return p->queued - atomic_load_explicit(&p->written, memory_order_acquire) < RD_QUEUE;
}

static bool can_send(rd_port *p)
{
    const uint32_t acked = atomic_load_explicit(&p->acked, memory_order_relaxed);
    return has_line(p) && (p->pushed || p->messages - acked < RD_QUEUE);
}

static void *reserve(rd_port *p, uint64_t least, uint64_t *bytes)
{
    tcp_line *line = &p->out[p->queued % RD_QUEUE];
    if (!can_send(p))
        return NULL;
    if (*bytes <= RD_INLINE && !p->pushed)
        return line->small;
    if (least > RD_SHORT_PIECE)
        return NULL;
    if (*bytes > RD_SHORT_PIECE)
        *bytes = RD_SHORT_PIECE;
    if (!line->staged)
        line->staged = rd_alloc(RD_SHORT_PIECE); /* none: not now */
    return line->staged;
}

/* A line is complete: it goes out now as far as the system takes it. */
static void publish(rd_port *p, bool ends)
{
    tcp_world *w = p->link->world;
    if (ends) {
        p->last_line[p->messages % RD_QUEUE] = p->queued;
        p->messages++;
    }
    pthread_mutex_lock(&w->lock);
    p->queued++;
    rd_tcp_make_ready(p);
    rd_tcp_flush(w, p->to);
    pthread_mutex_unlock(&w->lock);
}

static void commit(rd_port *p, uint64_t bytes, uint64_t total, uint64_t mark)
{
    tcp_line *line = &p->out[p->queued % RD_QUEUE];
    line->data = total <= RD_INLINE ? (const char *)line->small : line->staged;
    line->bytes = bytes;
    line->total = total;
    line->mark = mark;
    p->pushed += bytes;
    const bool ends = p->pushed == total;
    if (ends)
        p->pushed = 0;
    publish(p, ends);
}

static bool share(rd_port *p, const rd_port *committed, uint64_t bytes, uint64_t total,
                  uint64_t mark)
{
    (void)p;
    (void)committed;
    (void)bytes;
    (void)total;
    (void)mark;
    return false;
}

static bool lends(const rd_port *p, const void *data, uint64_t bytes)
{
    (void)p;
    (void)data;
    (void)bytes;
    return true;
}

static void lend(rd_port *p, const rd_loan *loan)
{
    tcp_line *line = &p->out[p->queued % RD_QUEUE];
    line->data = loan->data;
    line->bytes = line->total = loan->bytes;
    line->mark = loan->mark;
    publish(p, true);
}

/* Nobody names a place to a peer that cannot reach it. */
static void give_back(rd_port *p, uint64_t bytes, uint64_t mark)
{
    (void)p;
    (void)bytes;
    (void)mark;
}

static uint32_t sent(const rd_port *p)
{
    return p->messages;
}

static bool completed(rd_port *p, uint32_t message)
{
    if (p->messages - message > RD_QUEUE)
        return true;
    const uint32_t line = p->last_line[message % RD_QUEUE];
    return (int32_t)(atomic_load_explicit(&p->written, memory_order_acquire) - line) > 0;
}

/* --- receiving --- */

static bool peek(rd_port *p, rd_view *view)
{
    if (p->came == p->taken)
        return false;
    const tcp_slot *s = &p->in[p->taken % RD_QUEUE];
    if (s->start == s->end && s->total)
        return false; /* no more than its head has come */
    *view = (rd_view){
        .data = s->data + s->start, .bytes = s->end - s->start, .total = s->total, .mark = s->mark};
    return true;
}

static void release(rd_port *p, uint64_t bytes)
{
    tcp_slot *s = &p->in[p->taken % RD_QUEUE];
    tcp_world *w = p->link->world;
    pthread_mutex_lock(&w->lock);
    s->start += bytes;
    s->released += bytes;
    p->freed += bytes;
    if (s->start == s->end && !s->unchecked)
        s->start = s->end = 0; /* where it is warm */
    if (s->released == s->total) {
        if (s->data != (char *)s->small)
            rd_pool_give(w, s->data, s->capacity);
        s->data = NULL;
        p->taken++;
    }
    if (rd_tcp_owes_credit(p)) {
        rd_tcp_make_ready(p);
        rd_tcp_flush(w, p->to);
    }
    pthread_mutex_unlock(&w->lock);
}

/* --- waiting --- */

static void wait(rd_link *link, rd_port *p, uint32_t idle, uint64_t until_ns)
{
    tcp_world *w = rd_tcp_link(link)->world;
    (void)p;
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
    rd_tcp_pump(w, 0);
}

static void pump(rd_link *link)
{
    rd_tcp_pump(rd_tcp_link(link)->world, 0);
}

static void wake(rd_link *link)
{
    const uint64_t one = 1;
    if (write(rd_tcp_link(link)->world->bell, &one, sizeof one) < 0)
        return; /* full: it is ringing already */
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
        for (; p->taken != p->came; p->taken++) {
            tcp_slot *s = &p->in[p->taken % RD_QUEUE];
            if (s->data != (char *)s->small)
                rd_pool_give(l->world, s->data, s->capacity);
        }
    }
    rd_unmap(l->ports, l->ports_bytes);
    rd_unmap(l->known, l->known_bytes);
    rd_free(l->members);
    rd_free(l->index_of);
    rd_free(l->host_of);
    rd_free(l);
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
                        .goodbyes = &w->goodbyes,
                        .alarm = &l->alarm};
    l->world = w;
    l->awaits = RONDA_ANY;
    l->ports_bytes = (size_t)size * rd_queues(RD_CHANNELS) * sizeof *l->ports;
    l->known_bytes = size * sizeof *l->known;
    l->ports = rd_map(l->ports_bytes);
    l->known = rd_map(l->known_bytes);
    l->index_of = rd_alloc(w->its.size * sizeof *l->index_of);
    if (!l->ports || !l->known || !l->index_of) {
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
        rd_tcp_forsake(l, true); /* what came after the goodbye, too */
    l->closed = true;
    tcp_link **at = &w->links;
    while (*at != l)
        at = &(*at)->next;
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
    if (w->epoll >= 0)
        close(w->epoll);
    if (w->bell >= 0)
        close(w->bell);
    if (w->its.listener >= 0)
        close(w->its.listener);
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
        link->close_by_ns ? link->close_by_ns : rd_deadline_ns(w->its.timeout_ns);
    rd_tcp_take_leave(l, until);
    pthread_mutex_lock(&w->lock);
    rd_tcp_forsake(l, true);
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
    if (--w->users == 0)
        free_world(w);
}

static bool watch_all(tcp_world *w)
{
    struct epoll_event door = {.events = EPOLLIN, .data.ptr = &w->its.listener};
    struct epoll_event bell = {.events = EPOLLIN, .data.ptr = &w->bell};
    w->epoll = rd_fd(epoll_create1(EPOLL_CLOEXEC));
    w->bell = rd_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    return w->epoll >= 0 && w->bell >= 0 &&
           epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->its.listener, &door) == 0 &&
           epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->bell, &bell) == 0;
}

ronda_status rd_tcp_open(const rd_tcp_parts *parts, rd_link **out, rd_error *err)
{
    tcp_world *w = rd_alloc(sizeof *w);
    if (!w) {
        close(parts->listener);
        rd_free(parts->places);
        rd_free(parts->key);
        rd_free(parts->host_of);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for its end of %u ranks",
                       parts->rank, parts->size);
    }
    pthread_mutex_init(&w->lock, NULL);
    w->its = *parts;
    w->epoll = w->bell = -1;
    w->peers = rd_alloc(parts->size * sizeof *w->peers);
    tcp_link *l = w->peers ? new_link(w, parts->rank, parts->size) : NULL;
    const bool counted =
        l && rd_places_cpus(parts->places, parts->size, parts->rank, &l->link.cpus, &w->crowded);
    if (!counted || !watch_all(w)) {
        const int why = errno;
        if (l)
            free_link(l);
        free_world(w);
        return rd_fail(err, counted ? RONDA_ESYSTEM : RONDA_ENOMEM, RONDA_ANY,
                       "rank %u: no memory or descriptors for its end of %u ranks%s%s", parts->rank,
                       parts->size, counted ? ": " : "", counted ? strerror(why) : "");
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
    return rd_tcp_link(link)->world->epoll;
}

bool rd_tcp_is_connecting(const rd_link *link)
{
    return rd_tcp_link(link)->world->wanted || rd_tcp_link(link)->world->strangers;
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
    tcp_world *w = rd_tcp_link(link)->world;
    (void)members;
    (void)size;
    (void)err;
    if (!rank)
        out->number = (uint64_t)(w->its.rank + 1) << 40 | ++w->parts;
    return RONDA_OK;
}

static void forgo(rd_link *link, const rd_offer *offer, const uint32_t members[], uint32_t size)
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

const rd_transport rd_tcp = {.name = "tcp",
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
                             .gone = completed,
                             .peek = peek,
                             .release = release,
                             .alloc = alloc,
                             .free = free_pages,
                             .wait = wait,
                             .pump = pump,
                             .wake = wake,
                             .enter = rd_tcp_enter,
                             .leave = rd_tcp_leave,
                             .pause = rd_tcp_pause,
                             .resume = rd_tcp_resume,
                             .await = rd_tcp_await,
                             .announce = rd_tcp_announce,
                             .reach = reach,
                             .record = rd_tcp_record,
                             .presence = rd_tcp_presence,
                             .abort = rd_tcp_abort,
                             .cause = rd_tcp_cause,
                             .quiesce = rd_tcp_quiesce,
                             .goodbye = goodbye,
                             .close = close_link,
                             .split = split,
                             .join = join,
                             .forgo = forgo};
