/* simulated.c: see simulated.h. */
#include "simulated.h"

#include "base/clock.h"
#include "base/mem.h"
#include "transport/tcp.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_PORT = 100, CAPACITY = 300000, TICK_NS = 1000, STEP_NS = 20000 };

/* Bytes under way, or come and not read. */
typedef struct segment {
    struct segment *next;
    uint64_t due_ns, length, used;
    char bytes[];
} segment;

typedef struct network network;

typedef struct stream {
    rd_bytestream base;
    network *network;
    struct stream *next;  /* of the network's; or of those that were not accepted */
    struct stream *other; /* the other end; NULL: closed */
    segment *first, *last;
    uint64_t bytes;  /* in the segments */
    uint64_t due_ns; /* of the last one, or of the end */
    uint64_t was_read;
    uint64_t opens_ns; /* when it is open, or can be accepted */
    bool ended, cut, reads, writes, finished;
} stream;

struct network {
    rd_network base;
    simulated *world;
    uint32_t rank;
    bool listens, dead, woken;
    stream *streams, *waiting;
};

struct simulated {
    pthread_mutex_t lock;
    pthread_cond_t news;
    simulated_mood mood;
    rng random;
    uint64_t now_ns, trace;
    uint32_t size, users;
    network *networks[SIMULATED_RANKS];
};

static network *net(const rd_network *n)
{
    return (network *)(uintptr_t)n;
}

static simulated *lock_of(const rd_network *n)
{
    pthread_mutex_lock(&net(n)->world->lock);
    return net(n)->world;
}

static stream *of(const rd_bytestream *s)
{
    stream *t = (stream *)(uintptr_t)s;
    pthread_mutex_lock(&t->network->world->lock);
    return t;
}

static void unlock(simulated *w, uint64_t what, uint64_t number)
{
    w->trace = (w->trace ^ what) * 0x100000001b3 + number;
    if (w->mood.clock)
        pthread_cond_broadcast(&w->news);
    pthread_mutex_unlock(&w->lock);
}

static uint64_t now(const simulated *w)
{
    return w->mood.clock ? rd_now_ns() : w->now_ns;
}

static uint64_t delayed(simulated *w)
{
    return now(w) + rng_below(&w->random, w->mood.delay_ns + 1);
}

static bool refuses(simulated *w)
{
    return rng_below(&w->random, 256) < w->mood.refuse;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t sim_now(rd_network *n)
{
    simulated *w = lock_of(n);
    w->now_ns += TICK_NS;
    const uint64_t t = now(w);
    pthread_mutex_unlock(&w->lock);
    return t;
}

/* --- opening and closing --- */

static stream *new_stream(network *n, uint64_t opens_ns)
{
    stream *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (stream){.base.kind = n->base.kind, .network = n, .opens_ns = opens_ns};
    return s;
}

static rd_bytestream *sim_connect(rd_network *from, const rd_ip *to, uint16_t port, int *error)
{
    simulated *w = lock_of(from);
    network *at = (uint32_t)(port - FIRST_PORT) < w->size ? w->networks[port - FIRST_PORT] : NULL;
    stream *s = NULL;
    (void)to;
    *error = ECONNREFUSED;
    if (at && !at->dead) {
        s = new_stream(net(from), delayed(w));
        s->next = net(from)->streams;
        net(from)->streams = s;
        s->other = new_stream(at, delayed(w));
        s->other->other = s;
        s->other->next = at->waiting;
        at->waiting = s->other;
    }
    unlock(w, 1, port);
    return s ? &s->base : NULL;
}

static int sim_opened(rd_bytestream *stream_)
{
    const stream *s = of(stream_);
    simulated *w = s->network->world;
    const int status = now(w) < s->opens_ns ? EINPROGRESS : s->ended || s->cut ? ECONNRESET : 0;
    unlock(w, 2, (uint64_t)status);
    return status;
}

static rd_bytestream *sim_accept(rd_network *n, rd_ip *from, int *error)
{
    simulated *w = lock_of(n);
    stream **at = &net(n)->waiting;
    *error = 0;
    while (*at && (*at)->opens_ns > now(w))
        at = &(*at)->next;
    stream *s = *at;
    if (s) {
        *at = s->next;
        s->next = net(n)->streams;
        net(n)->streams = s;
        *from = (rd_ip){.family = 4, .bytes = {127, 0, 0, 1}};
    }
    unlock(w, 3, s != NULL);
    return s ? &s->base : NULL;
}

static bool sim_listen(rd_network *n, bool on)
{
    simulated *w = lock_of(n);
    net(n)->listens = on;
    unlock(w, 4, on);
    return true;
}

static bool sim_answers(rd_network *n, const rd_ip *at, uint16_t port)
{
    simulated *w = lock_of(n);
    const network *there =
        (uint32_t)(port - FIRST_PORT) < w->size ? w->networks[port - FIRST_PORT] : NULL;
    const bool answers = there && !there->dead;
    (void)at;
    unlock(w, 5, answers);
    return answers;
}

static void drop_segments(stream *s, bool all)
{
    segment **at = &s->first;
    s->last = NULL;
    while (*at) {
        segment *g = *at;
        if (!all && g->due_ns <= now(s->network->world)) {
            s->last = g;
            at = &g->next;
            continue;
        }
        *at = g->next;
        s->bytes -= g->length - g->used;
        free(g);
    }
}

/* The other end hears of it: by an end, or by a reset. */
static void part(stream *s, bool cut)
{
    stream *t = s->other;
    if (!t)
        return;
    t->due_ns = t->due_ns > delayed(s->network->world) ? t->due_ns : delayed(s->network->world);
    t->ended = true;
    t->cut |= cut;
    t->other = s->other = NULL;
}

static void free_stream(stream *s)
{
    part(s, s->bytes && rng_below(&s->network->world->random, 2));
    drop_segments(s, true);
    free(s);
}

static void sim_close(rd_bytestream *stream_)
{
    stream *s = of(stream_), **at = &s->network->streams;
    simulated *w = s->network->world;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free_stream(s);
    unlock(w, 6, 0);
}

static void free_waiting(network *n)
{
    while (n->waiting) {
        stream *s = n->waiting;
        n->waiting = s->next;
        free_stream(s);
    }
}

/* --- bytes --- */

static ssize_t fail(simulated *w, int error)
{
    unlock(w, 7, (uint64_t)error);
    errno = error;
    return -1;
}

static uint64_t take(stream *s, char *to, uint64_t most)
{
    uint64_t taken = 0;
    while (s->first && taken < most && s->first->due_ns <= now(s->network->world)) {
        segment *g = s->first;
        const uint64_t n = least(g->length - g->used, most - taken);
        memcpy(to + taken, g->bytes + g->used, n);
        g->used += n;
        taken += n;
        s->bytes -= n;
        if (g->used < g->length)
            break;
        s->first = g->next;
        if (!s->first)
            s->last = NULL;
        free(g);
    }
    return taken;
}

static ssize_t sim_read(rd_bytestream *stream_, const struct iovec *parts, int count)
{
    stream *s = of(stream_);
    simulated *w = s->network->world;
    uint64_t most = 1 + rng_below(&w->random, w->mood.piece), got = 0;
    if (refuses(w))
        return fail(w, EAGAIN);
    for (int i = 0; i < count && got < most; i++) {
        const uint64_t want = least(parts[i].iov_len, most - got);
        const uint64_t n = take(s, parts[i].iov_base, want);
        got += n;
        if (n < parts[i].iov_len)
            break;
    }
    if (!got && !s->first && s->ended && s->due_ns <= now(w)) {
        if (s->cut)
            return fail(w, ECONNRESET);
        unlock(w, 8, 0);
        return 0;
    }
    if (!got)
        return fail(w, EAGAIN);
    s->was_read += got;
    unlock(w, 9, got);
    return (ssize_t)got;
}

static ssize_t sim_write(rd_bytestream *stream_, const struct iovec *parts, int count)
{
    stream *s = of(stream_), *t = s->other;
    simulated *w = s->network->world;
    if (!t || s->finished)
        return fail(w, EPIPE);
    const uint64_t most = least(1 + rng_below(&w->random, w->mood.piece),
                                CAPACITY > t->bytes ? CAPACITY - t->bytes : 0);
    if (!most || refuses(w))
        return fail(w, EAGAIN);
    segment *g = malloc(sizeof *g + most);
    if (!g)
        abort();
    *g = (segment){.due_ns = delayed(w)};
    for (int i = 0; i < count && g->length < most; i++) {
        const uint64_t n = least(parts[i].iov_len, most - g->length);
        memcpy(g->bytes + g->length, parts[i].iov_base, n);
        g->length += n;
    }
    t->due_ns = g->due_ns = g->due_ns > t->due_ns ? g->due_ns : t->due_ns;
    *(t->last ? &t->last->next : &t->first) = g;
    t->last = g;
    t->bytes += g->length;
    const uint64_t taken = g->length;
    unlock(w, 10, taken);
    return (ssize_t)taken;
}

static bool sim_arrived(rd_bytestream *stream_)
{
    const stream *s = of(stream_);
    simulated *w = s->network->world;
    const bool all = !s->other || !s->other->last || s->other->last->due_ns <= now(w);
    unlock(w, 11, all);
    return all;
}

static bool sim_silent(rd_bytestream *stream_)
{
    (void)stream_;
    return false;
}

static void sim_finish(rd_bytestream *stream_)
{
    stream *s = of(stream_);
    simulated *w = s->network->world;
    s->finished = true;
    if (s->other) {
        const uint64_t due = delayed(w);
        s->other->due_ns = due > s->other->due_ns ? due : s->other->due_ns;
        s->other->ended = true;
    }
    unlock(w, 12, 0);
}

/* --- waiting --- */

static bool sim_watch(rd_bytestream *stream_, bool reads, bool writes)
{
    stream *s = of(stream_);
    s->reads = reads;
    s->writes = writes;
    unlock(s->network->world, 13, (uint64_t)(2 * reads + writes));
    return true;
}

static bool can_read(const stream *s)
{
    const uint64_t t = now(s->network->world);
    return s->reads && s->opens_ns <= t &&
           (s->first ? s->first->due_ns <= t : s->ended && s->due_ns <= t);
}

static bool can_write(const stream *s)
{
    const bool open = s->opens_ns <= now(s->network->world);
    return s->writes && open && (!s->other || s->other->bytes < CAPACITY);
}

/* Some of what there is, in any order. */
static int collect(network *n, rd_stream_event events[], int most, bool all)
{
    simulated *w = n->world;
    int told = 0;
    for (const stream *s = n->waiting; s && n->listens && told == 0; s = s->next)
        if (s->opens_ns <= now(w) && (all || !refuses(w)))
            events[told++] = (rd_stream_event){.owner = NULL};
    for (const stream *s = n->streams; s && told < most; s = s->next) {
        const rd_stream_event e = {s->base.owner, can_read(s), can_write(s)};
        if ((!e.reads && !e.writes) || (!all && refuses(w)))
            continue;
        const uint64_t at = rng_below(&w->random, (uint64_t)told + 1);
        events[told++] = events[at];
        events[at] = e;
    }
    return told;
}

static uint64_t next_due(const network *n, uint64_t until)
{
    const uint64_t t = now(n->world);
    for (const stream *s = n->waiting; s; s = s->next)
        until = s->opens_ns > t ? least(until, s->opens_ns) : until;
    for (const stream *s = n->streams; s; s = s->next) {
        const uint64_t due = s->first ? s->first->due_ns : s->ended ? s->due_ns : 0;
        until = due > t ? least(until, due) : until;
        until = s->opens_ns > t ? least(until, s->opens_ns) : until;
    }
    return until;
}

/* Threads look again every millisecond: what is delayed comes without anybody doing anything. */
static void sleep_until(simulated *w, uint64_t until)
{
    struct timespec t;
    const uint64_t soon = least(until > rd_now_ns() ? until - rd_now_ns() : 0, 1000000);
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += (long)soon;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&w->news, &w->lock, &t);
}

static int sim_wait(rd_network *network_, rd_stream_event events[], int most, uint64_t ns)
{
    simulated *w = lock_of(network_);
    network *n = net(network_);
    const uint64_t until = ns > UINT64_MAX - now(w) ? UINT64_MAX : now(w) + ns;
    int told = 0;
    if (!ns)
        w->now_ns += rng_below(&w->random, STEP_NS);
    while (!n->woken && !(told = collect(n, events, most, ns != 0)) && now(w) < until) {
        if (w->mood.clock)
            sleep_until(w, until);
        else
            w->now_ns = next_due(n, until);
    }
    n->woken = false;
    w->trace = (w->trace ^ 14) * 0x100000001b3 + (uint64_t)told;
    pthread_mutex_unlock(&w->lock);
    return told;
}

static void sim_wake(rd_network *n)
{
    simulated *w = lock_of(n);
    net(n)->woken = true;
    unlock(w, 15, 0);
}

static int sim_descriptor(const rd_network *n)
{
    (void)n;
    return -1;
}

static void sim_leave(rd_network *n)
{
    (void)n;
}

static void sim_shut(rd_network *network_)
{
    simulated *w = lock_of(network_);
    network *n = net(network_);
    free_waiting(n);
    w->networks[n->rank] = NULL;
    free(n);
    const bool last = --w->users == 0;
    unlock(w, 16, 0);
    if (!last)
        return;
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->news);
    free(w);
}

static const rd_stream_kind simulated_kind = {.name = "simulated",
                                              .now_ns = sim_now,
                                              .connect = sim_connect,
                                              .opened = sim_opened,
                                              .accept = sim_accept,
                                              .listen = sim_listen,
                                              .answers = sim_answers,
                                              .read = sim_read,
                                              .write = sim_write,
                                              .arrived = sim_arrived,
                                              .silent = sim_silent,
                                              .finish = sim_finish,
                                              .close = sim_close,
                                              .watch = sim_watch,
                                              .wait = sim_wait,
                                              .wake = sim_wake,
                                              .descriptor = sim_descriptor,
                                              .leave = sim_leave,
                                              .shut = sim_shut};

/* --- worlds --- */

simulated_mood simulated_draw(uint64_t seed)
{
    static const uint64_t pieces[] = {3, 100, 5000, 100000}, delays[] = {0, 1000, 100000, 3000000};
    static const uint32_t refusals[] = {0, 20, 120};
    rng r = {seed};
    return (simulated_mood){.seed = rng_next(&r),
                            .piece = pieces[rng_below(&r, 4)],
                            .delay_ns = delays[rng_below(&r, 4)],
                            .refuse = refusals[rng_below(&r, 3)],
                            .checksum = rng_below(&r, 2)};
}

static bool open_link(simulated *w, const rd_place places[], uint32_t rank, rd_link **out)
{
    static const char key[] = "a key";
    rd_error err = {0};
    network *n = calloc(1, sizeof *n);
    if (!n)
        abort();
    *n = (network){.base.kind = &simulated_kind, .world = w, .rank = rank, .listens = true};
    w->networks[rank] = n;
    w->users++;
    rd_tcp_parts parts = {.rank = rank,
                          .size = w->size,
                          .places = rd_alloc(w->size * sizeof *places),
                          .listener = -1,
                          .network = &n->base,
                          .key = rd_alloc(sizeof key),
                          .job = 77,
                          .timeout_ns = 10000000000u};
    memcpy(parts.places, places, w->size * sizeof *places);
    memcpy(parts.key, key, sizeof key);
    return CHECK(!rd_tcp_open(&parts, out, &err), "%s", err.message);
}

simulated *simulated_open(uint32_t size, simulated_mood mood, rd_link *links[])
{
    simulated *w = calloc(1, sizeof *w);
    rd_place places[SIMULATED_RANKS];
    if (!w || size > SIMULATED_RANKS)
        abort();
    w->mood = mood;
    w->random = (rng){mood.seed};
    w->now_ns = 1000000000;
    w->size = size;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->news, NULL);
    for (uint32_t r = 0; r < size; r++) {
        places[r] = (rd_place){
            .host = 1, .name = "nowhere", .pid = (int32_t)r + 1, .cpus = 16, .quota = 16};
        places[r].checksum = mood.checksum ? RD_CHECKSUM_ON : RD_CHECKSUM_OFF;
        places[r].port = (uint16_t)(FIRST_PORT + r);
        places[r].count = 1;
        places[r].at[0] = (rd_ip){.family = 4, .bytes = {127, 0, 0, 1}};
    }
    for (uint32_t r = 0; r < size; r++)
        if (!open_link(w, places, r, &links[r]))
            return NULL;
    return w;
}

uint64_t simulated_now(simulated *w)
{
    return now(w);
}

uint64_t simulated_trace(const simulated *w)
{
    return w->trace;
}

bool simulated_cut(simulated *w, uint32_t one, uint32_t other, uint64_t least_read)
{
    pthread_mutex_lock(&w->lock);
    stream *s = w->networks[one]->streams;
    while (s && (!s->other || s->other->network->rank != other || s->was_read < least_read ||
                 s->other->was_read < least_read))
        s = s->next;
    if (s) {
        stream *t = s->other;
        t->other = NULL;
        drop_segments(s, false);
        drop_segments(t, false);
        s->other = NULL;
        s->ended = s->cut = t->ended = t->cut = true;
        s->due_ns = t->due_ns = now(w);
    }
    unlock(w, 17, s != NULL);
    return s != NULL;
}

void simulated_kill(simulated *w, uint32_t rank)
{
    pthread_mutex_lock(&w->lock);
    network *n = w->networks[rank];
    n->dead = true;
    for (stream *s = n->streams; s; s = s->next)
        part(s, rng_below(&w->random, 2));
    free_waiting(n);
    unlock(w, 18, rank);
}
