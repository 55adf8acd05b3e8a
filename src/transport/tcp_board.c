/* tcp_board.c: where ranks stand, as far as one hears of it; failure; and the end.
 *
 * A rank cannot look at its peers.  Each message says which call it is of, and as long as calls take as long as
 * they should that is all that is said.  A rank whose call is late asks: it tells its neighbours where it stands
 * and what it has heard of others, several times a second, and whoever hears that while it waits itself does the
 * same for a second, and thereby asks on.  So all who wait know of each other, and who is not heard of is silent.
 * What is said has the age of the question, so the ranks stop when nobody is late any more.
 *
 * A failure goes to all neighbours, and each that hears of it for the first time passes it on.  Ranks far from
 * it are called for the purpose, at distances 1, 2, 4 ...: one that is busy or dead does not stop the news. */
#include "transport/tcp_inside.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const uint64_t FRESH_NS = 3000000000u, LAST_WORDS_NS = 200000000u,
                      LATE_COMERS_NS = 20000000u, ASKED_NS = 1000000000u, CONNECT_NS = 100000000u;

tcp_link *rd_tcp_find(tcp_world *w, uint64_t id)
{
    tcp_link *l = w->links;
    while (l && l->id != id)
        l = l->next;
    return l && !l->closed ? l : NULL;
}

/* --- where ranks stand --- */

bool rd_tcp_has_closed(const tcp_link *l, uint32_t rank)
{
    return atomic_load(&l->link.boards[rank].board->closed);
}

bool rd_tcp_dead(rd_link *link, uint32_t peer)
{
    const tcp_link *l = rd_tcp_link(link);
    return l->world->peers[rd_tcp_in_whole(l, peer)].dead;
}

/* A rank of this host, whose memory this one sees. */
static bool is_beside(const tcp_link *l, uint32_t rank)
{
    return !l->link.boards[rank].copy && rank != l->link.rank;
}

/* --- news --- */

static uint32_t gather_news(const tcp_link *l, uint8_t *out, uint64_t now)
{
    const uint32_t size = l->link.size;
    uint32_t count = 0;
    for (uint32_t i = 0; i < size && count < RD_MOST_NEWS; i++) {
        const uint32_t r = (l->link.rank + i) % size; /* this one first: it must be in it */
        const rd_presence p = rd_control_board(&l->link, r);
        const bool me = r == l->link.rank;
        if (!me && (!p.heard_ns || p.heard_ns + FRESH_NS < now))
            continue;
        rd_news n = {.rank = r,
                     .awaits = p.awaits,
                     .age_ms =
                         me || p.heard_ns > now ? 0 : (uint32_t)((now - p.heard_ns) / 1000000),
                     .inside = p.inside,
                     .posted = p.posted,
                     .full = p.full,
                     .message = p.message};
        if (!rd_control_record(&l->link, r, p.sequence, &n.call))
            n.call = (rd_record){.sequence = p.sequence};
        rd_news_pack(&n, out + (size_t)count++ * RD_NEWS_ITEM);
    }
    assert(count && count <= size);
    return count;
}

static bool is_queried(const tcp_link *l, uint64_t now)
{
    return l->query_ns && now - l->query_ns < ASKED_NS;
}

/* Rounded up, so that a question grows older with every rank that passes it on. */
static void ask(tcp_link *l, uint32_t age_ms, uint64_t now)
{
    const uint64_t age = (uint64_t)age_ms * 1000000, at = age < now ? now - age : 1;
    const bool before = is_queried(l, now);
    l->query_ns = at > l->query_ns ? at : l->query_ns;
    if (!before && is_queried(l, now))
        atomic_fetch_add(l->world->goodbyes, 1); /* who waits looks now, and answers */
}

static void tell_news(tcp_link *l, uint64_t now)
{
    tcp_world *w = l->world;
    const size_t most = l->link.size < RD_MOST_NEWS ? l->link.size : RD_MOST_NEWS;
    uint8_t *items = rd_alloc(most * RD_NEWS_ITEM);
    if (!items)
        return;
    const rd_head head = {.kind = RD_NEWS,
                          .bytes = gather_news(l, items, now) * RD_NEWS_ITEM,
                          .world = l->id,
                          .taken = (uint32_t)((now - l->query_ns) / 1000000) + 1};
    pthread_mutex_lock(&w->lock);
    for (tcp_conn *c = w->conns, *next; c; c = next) {
        next = c->next;
        if (c->state == TCP_OPEN && c->stream->kind->silent(c->stream)) {
            rd_tcp_lost(w, c, ETIMEDOUT);
            break; /* others may have gone with it */
        }
        if (c->state != TCP_OPEN || l->index_of[c->rank] == UINT32_MAX ||
            w->peers[c->rank].out != c || c->next_control.length > RD_MOST_PARCEL)
            continue;
        rd_tcp_say(c, &head, items);
        rd_tcp_flush_conn(w, c);
    }
    pthread_mutex_unlock(&w->lock);
    rd_free(items);
}

void rd_tcp_gossip(rd_link *link, uint32_t peer, bool late)
{
    tcp_link *l = rd_tcp_link(link);
    tcp_world *w = l->world;
    const uint64_t now = rd_tcp_now(w);
    pthread_mutex_lock(&w->lock);
    if (peer < link->size && !is_beside(l, peer)) /* else nobody would notice its death */
        rd_tcp_want(w, rd_tcp_in_whole(l, peer), late ? 0 : CONNECT_NS);
    if (late)
        l->query_ns = now;
    pthread_mutex_unlock(&w->lock);
    if (is_queried(l, now))
        tell_news(l, now);
}

static void hear_news(tcp_link *l, const rd_head *h, const char *bytes)
{
    const uint64_t now = rd_tcp_now(l->world);
    ask(l, h->taken, now);
    for (uint32_t i = 0; i < h->bytes / RD_NEWS_ITEM; i++) {
        rd_news n;
        rd_news_unpack((const uint8_t *)bytes + (size_t)i * RD_NEWS_ITEM, &n);
        if (n.rank >= l->link.size || n.rank == l->link.rank)
            continue;
        const rd_presence known = rd_control_board(&l->link, n.rank);
        const uint64_t age = (uint64_t)n.age_ms * 1000000, at = age < now ? now - age : 1;
        if (at <= known.heard_ns || n.call.sequence < known.sequence)
            continue;
        if (n.call.kind)
            rd_control_note(&l->link, n.rank, &n.call);
        rd_control_hear(&l->link, n.rank,
                        &(rd_presence){.sequence = n.call.sequence,
                                       .inside = n.inside,
                                       .posted = n.posted,
                                       .awaits = n.awaits,
                                       .heard_ns = at,
                                       .message = n.message,
                                       .full = n.full});
    }
}

/* --- failure --- */

static bool is_finger(const tcp_link *l, uint32_t rank)
{
    enum { FEW = 32 };
    const uint32_t n = l->link.size, d = (rank + n - l->link.rank) % n;
    return n <= FEW || (d & (d - 1)) == 0 || ((n - d) & (n - d - 1)) == 0;
}

static void say_cause(tcp_conn *c, const tcp_link *l)
{
    uint8_t packed[RD_CAUSE];
    rd_error cause = {0};
    rd_control_cause(&l->link, &cause);
    rd_cause_pack(&cause, packed);
    rd_tcp_say(c, &(rd_head){.kind = RD_ALARM, .bytes = RD_CAUSE, .world = l->id}, packed);
}

/* With the last call that was made, so that peers can compare it with theirs. */
static void say_bye(tcp_conn *c, const tcp_link *l)
{
    rd_head head = {.kind = RD_BYE, .world = l->id};
    const uint64_t last = rd_control_board(&l->link, l->link.rank).sequence;
    if (!rd_control_record(&l->link, l->link.rank, last, &head.call))
        head.call = (rd_record){0};
    rd_tcp_say(c, &head, NULL);
}

/* To all that are connected, and to some that are not. */
static void tell_cause(tcp_link *l)
{
    tcp_world *w = l->world;
    l->told = true;
    for (uint32_t r = w->closing ? l->link.size : 0; r < l->link.size; r++) {
        const uint32_t rank = rd_tcp_in_whole(l, r);
        tcp_peer *peer = &w->peers[rank];
        if (r == l->link.rank || peer->dead || rd_tcp_has_closed(l, r))
            continue;
        if (peer->out) {
            say_cause(peer->out, l);
            rd_tcp_flush_conn(w, peer->out);
        } else if (is_finger(l, r) && !is_beside(l, r)) {
            rd_tcp_want(w, rank, 0); /* it is told when it is there */
        }
    }
}

void rd_tcp_fail(tcp_link *l, const rd_error *cause)
{
    if (!atomic_load(l->link.alarm) && l->beside)
        l->beside->transport->abort(l->beside, cause); /* wakes the others of this host */
    else if (!atomic_load(l->link.alarm))
        rd_control_raise(l->link.failure, cause);
    if (!l->told)
        tell_cause(l);
}

/* What others of this host have raised is told to other hosts by each of them. */
static void pass_on(tcp_world *w)
{
    for (tcp_link *l = w->links; l; l = l->next)
        if (l->beside && !l->told && atomic_load_explicit(l->link.alarm, memory_order_acquire)) {
            pthread_mutex_lock(&w->lock);
            tell_cause(l);
            pthread_mutex_unlock(&w->lock);
        }
}

void rd_tcp_opened(tcp_world *w, tcp_conn *c)
{
    for (tcp_link *l = w->links; l; l = l->next)
        if (atomic_load(l->link.alarm) && l->index_of[c->rank] != UINT32_MAX)
            say_cause(c, l);
    if (w->closing && w->peers[c->rank].out == c) /* else it follows the messages on another one */
        say_bye(c, w->links);
    if (w->closing)
        rd_tcp_say(c, &(rd_head){.kind = RD_HANGUP}, NULL);
}

/* What the peer was doing when it was last heard of. */
static void last_call(tcp_link *l, uint32_t rank, rd_error *cause, char *text, size_t capacity)
{
    const rd_presence k = rd_control_board(&l->link, rank),
                      me = rd_control_board(&l->link, l->link.rank);
    rd_record record;
    char call[100];
    snprintf(text, capacity, "before it was heard of");
    if (k.inside && k.message.direction) {
        rd_pending_text(&k.message, call, sizeof call);
        snprintf(text, capacity, "in or after %s", call);
        return;
    }
    if (!rd_control_record(&l->link, rank, k.sequence, &record))
        return;
    rd_record_text(&record, call, sizeof call);
    cause->sequence = record.sequence;
    const bool later = me.inside && me.sequence > k.sequence;
    snprintf(text, capacity, "%s %s", later ? "after" : "in or after", call);
}

void rd_tcp_peer_failed(tcp_world *w, uint32_t rank, const char *how)
{
    const rd_place *place = &w->its.places[rank];
    if (w->peers[rank].exited)
        how = "exited without closing its communicator,";
    for (tcp_link *l = w->links; l; l = l->next) {
        const uint32_t r = l->index_of[rank];
        rd_error cause = {.rank = l->link.rank};
        char where[48] = "", call[140];
        if (l->closed || r == UINT32_MAX || rd_tcp_has_closed(l, r) || atomic_load(l->link.alarm))
            continue;
        if (l->id)
            snprintf(where, sizeof where, "rank %u of the world, ", rank);
        last_call(l, r, &cause, call, sizeof call);
        rd_fail(&cause, RONDA_EPEER, r, "rank %u (%shost %s, pid %" PRId32 ") %s %s", r, where,
                place->name, place->pid, how, call);
        rd_tcp_fail(l, &cause);
    }
}

/* Whether all that is to be said is written, as far as that can be done without reading. */
static bool has_spoken(tcp_world *w)
{
    bool done = true;
    pthread_mutex_lock(&w->lock);
    for (tcp_conn *c = w->conns, *next; c; c = next) {
        next = c->next;
        if (c->state == TCP_CONNECTING && c->stream->kind->opened(c->stream) != EINPROGRESS) {
            rd_tcp_connected(w, c);
            done = false;
            break; /* others may have gone with it */
        }
        done &= rd_tcp_settled(c);
    }
    pthread_mutex_unlock(&w->lock);
    return done;
}

/* Little beside the timeout, and enough for a handshake. */
static uint64_t notice_ns(const rd_link *link)
{
    const uint64_t part = link->timeout_ns / 20, least = LAST_WORDS_NS / 2;
    return !link->timeout_ns || part > LAST_WORDS_NS ? LAST_WORDS_NS : part > least ? part : least;
}

/* Any thread may call it, and perhaps nobody of this rank will be in ronda again. */
void rd_tcp_abort(rd_link *link, const rd_error *cause)
{
    tcp_link *l = rd_tcp_link(link);
    pthread_mutex_lock(&l->world->lock);
    rd_tcp_fail(l, cause);
    pthread_mutex_unlock(&l->world->lock);
    link->transport->wake(link);
    const uint64_t until = rd_tcp_now(l->world) + notice_ns(link);
    while (!has_spoken(l->world) && rd_tcp_now(l->world) < until)
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

void rd_tcp_hear(tcp_world *w, tcp_conn *c, const rd_head *h, const char *bytes)
{
    tcp_link *l = rd_tcp_find(w, h->world);
    if (h->kind == RD_EXIT)
        w->peers[c->rank].exited = true;
    if (!l)
        return;
    const uint32_t rank = l->index_of[c->rank];
    if (h->kind == RD_NEWS) {
        hear_news(l, h, bytes);
    } else if (h->kind == RD_BYE) { /* a head alone: begin() has just found the rank */
        rd_control_note(&l->link, rank, &h->call);
        rd_control_closed(&l->link, rank);
        if (!l->id)
            rd_tcp_trust(w, c->rank);
        atomic_fetch_add(w->goodbyes, 1);
    } else if (h->kind == RD_ALARM) {
        rd_error cause;
        rd_cause_unpack((const uint8_t *)bytes, &cause);
        rd_tcp_fail(l, &cause);
    }
}

static bool all_settled(tcp_world *w)
{
    bool settled = true;
    pthread_mutex_lock(&w->lock);
    for (const tcp_conn *c = w->conns; c && settled; c = c->next)
        settled = rd_tcp_settled(c);
    pthread_mutex_unlock(&w->lock);
    return settled;
}

/* Nobody reads this rank's memory but this rank: it stops.  The cause should be on its way before the caller is
 * told of it, and perhaps ends the process. */
void rd_tcp_quiesce(rd_link *link, uint64_t until_ns, uint64_t soon_ns)
{
    tcp_link *l = rd_tcp_link(link);
    rd_error cause = {0};
    rd_control_cause(link, &cause);
    const bool all = cause.status != RONDA_EMISMATCH; /* else earlier calls go on */
    pass_on(l->world);
    pthread_mutex_lock(&l->world->lock);
    rd_tcp_drop_messages(l, all);
    l->left = all;
    pthread_mutex_unlock(&l->world->lock);
    uint64_t now = rd_tcp_now(l->world);
    uint64_t soon = soon_ns < until_ns ? soon_ns : until_ns;
    soon = now + LAST_WORDS_NS < soon ? now + LAST_WORDS_NS : soon;
    for (; now < soon && !all_settled(l->world); now = rd_tcp_now(l->world))
        rd_tcp_pump(l->world, soon);
}

/* --- what comes and goes --- */

static void serve(tcp_world *w, const rd_stream_event *event)
{
    tcp_conn *c = event->owner;
    if (!c) {
        rd_tcp_accept(w);
        return;
    }
    assert(!c->stream || c->state == TCP_UNPROVEN || c->rank < w->its.size);
    if (c->stream && c->state == TCP_CONNECTING) {
        rd_tcp_connected(w, c);
        return;
    }
    if (c->stream && event->writes)
        rd_tcp_flush_conn(w, c);
    if (c->stream && event->reads)
        rd_tcp_read(w, c);
}

/* What has come may have ended connections, or given credit. */
static void clear_up(tcp_world *w)
{
    while (w->ended) {
        tcp_conn *c = w->ended;
        w->ended = c->next;
        rd_free(c);
    }
    rd_tcp_flush_ready(w);
}

bool rd_tcp_poll(tcp_world *w, tcp_peer *peer)
{
    pthread_mutex_lock(&w->lock);
    const bool polled = peer->in && !w->full;
    if (polled) {
        rd_tcp_read(w, peer->in);
        clear_up(w);
    }
    pthread_mutex_unlock(&w->lock);
    return polled;
}

void rd_tcp_pump(tcp_world *w, uint64_t until_ns)
{
    enum { MOST_EVENTS = 32 };
    rd_network *network = w->its.network;
    rd_stream_event events[MOST_EVENTS];
    uint64_t now = 0, timer = UINT64_MAX;
    pass_on(w);
    if (until_ns || w->wanted || w->unproven) {
        now = rd_tcp_now(w);
        pthread_mutex_lock(&w->lock);
        timer = rd_tcp_timers(w, now);
        pthread_mutex_unlock(&w->lock);
    }
    const uint64_t until = until_ns < timer ? until_ns : timer;
    const int n = network->kind->wait(network, events, MOST_EVENTS, until > now ? until - now : 0);
    if (n <= 0)
        return;
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < n; i++)
        serve(w, &events[i]);
    clear_up(w);
    pthread_mutex_unlock(&w->lock);
}

/* --- the end --- */

/* All that peers who are still there should get. */
static bool has_written(const tcp_link *l)
{
    for (const rd_port *p = l->used; p; p = p->used) {
        if (p->queued != atomic_load(&p->written) && !p->to->dead && !rd_tcp_has_closed(l, p->rank))
            return false;
    }
    return true;
}

void rd_tcp_take_leave(tcp_link *l, uint64_t until_ns)
{
    tcp_world *w = l->world;
    while (!atomic_load(l->link.alarm) && !has_written(l) && rd_tcp_now(w) < until_ns)
        rd_tcp_pump(w, until_ns);
    pthread_mutex_lock(&w->lock);
    for (tcp_conn *c = w->conns; c; c = c->next)
        if (c->state == TCP_OPEN && w->peers[c->rank].out == c &&
            l->index_of[c->rank] != UINT32_MAX) {
            say_bye(c, l);
            rd_tcp_flush_conn(w, c);
        }
    pthread_mutex_unlock(&w->lock);
}

/* After a failure nobody is waited for but as long as last words take, and never beyond the timeout. */
static uint64_t close_by(const tcp_world *w, uint64_t until_ns)
{
    const uint64_t soon = rd_tcp_now(w) + LAST_WORDS_NS;
    for (const tcp_link *l = w->links; l; l = l->next)
        if (atomic_load(l->link.alarm))
            return soon < until_ns ? soon : until_ns;
    return until_ns;
}

/* Whether the peers' systems have all that was written, or the peers will write no more, or their hosts have gone
 * silent. */
static bool arrived(tcp_world *w)
{
    for (const tcp_conn *c = w->conns; c; c = c->next) {
        if (c->state == TCP_OPEN && !c->hung_up && !c->stream->kind->arrived(c->stream) &&
            !c->stream->kind->silent(c->stream))
            return false;
    }
    return true;
}

/* A socket that is closed while something unread is in it takes back what the peer has not got: so this waits
 * until it has, and reads on. */
void rd_tcp_close_world(tcp_world *w, uint64_t until_ns)
{
    enum { A_MOMENT_NS = 1000000 };
    const uint64_t until = close_by(w, until_ns);
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    for (tcp_conn *c = w->conns, *next; c; c = next) {
        next = c->next;
        if (c->state == TCP_CONNECTING)
            rd_tcp_end(w, c);
        else if (c->state == TCP_OPEN)
            rd_tcp_say(c, &(rd_head){.kind = RD_HANGUP}, NULL);
        if (c->state == TCP_OPEN)
            rd_tcp_flush_conn(w, c);
    }
    for (uint32_t r = 0; r < w->its.size; r++)
        w->peers[r].want_ns = w->peers[r].suspect_ns = 0;
    w->wanted = w->deaf_ns != 0;
    w->deaf_ns = w->deaf_ns != 0; /* now: who waits to be let in is told, too */
    pthread_mutex_unlock(&w->lock);
    const uint64_t soon = rd_tcp_now(w) + LATE_COMERS_NS;
    rd_tcp_pump(w, 0);
    while (w->unproven && rd_tcp_now(w) < soon) /* who has just connected is told, too */
        rd_tcp_pump(w, soon);
    while (!all_settled(w) && rd_tcp_now(w) < until)
        rd_tcp_pump(w, rd_tcp_now(w) + A_MOMENT_NS);
    for (const tcp_conn *c = w->conns; c; c = c->next)
        c->stream->kind->finish(c->stream);
    while (!arrived(w) && rd_tcp_now(w) < until)
        rd_tcp_pump(w, rd_tcp_now(w) + A_MOMENT_NS);
}
