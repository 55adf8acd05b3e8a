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

/* --- this rank --- */

void rd_tcp_enter(rd_link *link, const rd_record *record)
{
    tcp_link *l = rd_tcp_link(link);
    pthread_mutex_lock(&l->world->lock);
    l->records[record->sequence % RD_RECORDS] = *record;
    pthread_mutex_unlock(&l->world->lock);
    l->awaits = RONDA_ANY;
    rd_tcp_resume(link, record->sequence);
}

void rd_tcp_resume(rd_link *link, uint64_t sequence)
{
    tcp_link *l = rd_tcp_link(link);
    l->sequence = sequence;
    l->inside = true;
    l->posted = false;
}

void rd_tcp_leave(rd_link *link, uint64_t sequence)
{
    tcp_link *l = rd_tcp_link(link);
    l->sequence = sequence;
    l->inside = l->posted = false;
}

void rd_tcp_pause(rd_link *link, uint64_t sequence)
{
    rd_tcp_leave(link, sequence);
    rd_tcp_link(link)->posted = true;
}

/* --- the others --- */

static bool own_record(const tcp_link *l, uint64_t sequence, rd_record *out)
{
    *out = l->records[sequence % RD_RECORDS];
    return sequence && out->sequence == sequence;
}

bool rd_tcp_record(rd_link *link, uint32_t peer, uint64_t sequence, rd_record *out)
{
    const tcp_link *l = rd_tcp_link(link);
    if (peer == link->rank)
        return own_record(l, sequence, out);
    *out = l->known[peer].records[sequence % RD_KEPT_RECORDS];
    return sequence && out->sequence == sequence;
}

void rd_tcp_note(tcp_link *l, uint32_t rank, const rd_record *call)
{
    tcp_known *k = &l->known[rank];
    if (!call->sequence)
        return;
    k->records[call->sequence % RD_KEPT_RECORDS] = *call;
    if (call->sequence > k->sequence) {
        k->sequence = call->sequence;
        k->inside = k->posted = false; /* or it will say so */
    }
}

void rd_tcp_know(rd_link *link, uint32_t rank, const rd_presence *p, const rd_record *call)
{
    tcp_link *l = rd_tcp_link(link);
    tcp_known *k = &l->known[rank];
    pthread_mutex_lock(&l->world->lock);
    rd_tcp_note(l, rank, call);
    k->sequence = p->sequence;
    k->inside = p->inside;
    k->posted = p->posted;
    k->awaits = p->awaits + 1;
    k->heard_ns = p->heard_ns;
    k->message = p->message;
    k->full = p->full;
    pthread_mutex_unlock(&l->world->lock);
}

rd_presence rd_tcp_presence(rd_link *link, uint32_t peer)
{
    const tcp_link *l = rd_tcp_link(link);
    const tcp_known *k = &l->known[peer];
    if (peer == link->rank)
        return (rd_presence){.sequence = l->sequence,
                             .inside = l->inside,
                             .posted = l->posted,
                             .awaits = l->awaits,
                             .heard_ns = rd_tcp_now(l->world),
                             .message = l->message,
                             .full = l->full};
    return (rd_presence){.sequence = k->sequence,
                         .inside = k->inside,
                         .posted = k->posted,
                         .closed = k->closed,
                         .dead = l->world->peers[rd_tcp_in_whole(l, peer)].dead,
                         .hearsay = true,
                         .awaits = k->awaits - 1,
                         .heard_ns = k->heard_ns,
                         .message = k->inside ? k->message : (rd_pending){0},
                         .full = k->full};
}

/* --- news --- */

static uint32_t gather_news(const tcp_link *l, uint8_t *out, uint64_t now)
{
    const uint32_t size = l->link.size;
    uint32_t count = 0;
    for (uint32_t i = 0; i < size && count < RD_MOST_NEWS; i++) {
        const uint32_t r = (l->link.rank + i) % size; /* this one first: it must be in it */
        const tcp_known *k = &l->known[r];
        const bool me = r == l->link.rank;
        if (!me && (!k->heard_ns || k->heard_ns + FRESH_NS < now))
            continue;
        rd_news n = {.rank = r,
                     .awaits = me ? l->awaits : k->awaits - 1,
                     .age_ms = me ? 0 : (uint32_t)((now - k->heard_ns) / 1000000),
                     .inside = me ? l->inside : k->inside,
                     .posted = me ? l->posted : k->posted,
                     .full = me ? l->full : k->full,
                     .message = me ? l->message : k->message};
        const uint64_t sequence = me ? l->sequence : k->sequence;
        if (!rd_tcp_record((rd_link *)(uintptr_t)&l->link, r, sequence, &n.call))
            n.call = (rd_record){.sequence = sequence};
        rd_news_pack(&n, out + (size_t)count++ * RD_NEWS_ITEM);
    }
    return count;
}

static bool is_asked(const tcp_link *l, uint64_t now)
{
    return l->asked_ns && now - l->asked_ns < ASKED_NS;
}

bool rd_tcp_is_asked(const rd_link *link)
{
    return is_asked(rd_tcp_link(link), rd_tcp_now(rd_tcp_link(link)->world));
}

/* Rounded up, so that a question grows older with every rank that passes it on. */
static void ask(tcp_link *l, uint32_t age_ms, uint64_t now)
{
    const uint64_t age = (uint64_t)age_ms * 1000000, at = age < now ? now - age : 1;
    const bool before = is_asked(l, now);
    l->asked_ns = at > l->asked_ns ? at : l->asked_ns;
    if (!before && is_asked(l, now))
        atomic_fetch_add(&l->world->goodbyes, 1); /* who waits looks now, and answers */
}

void rd_tcp_announce(rd_link *link, const rd_pending *message, bool full)
{
    tcp_link *l = rd_tcp_link(link);
    l->message = message ? *message : (rd_pending){0};
    l->full = full;
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
                          .taken = (uint32_t)((now - l->asked_ns) / 1000000) + 1};
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

void rd_tcp_await(rd_link *link, uint32_t peer, bool late)
{
    tcp_link *l = rd_tcp_link(link);
    tcp_world *w = l->world;
    const uint64_t now = rd_tcp_now(w);
    l->awaits = peer;
    pthread_mutex_lock(&w->lock);
    if (peer < link->size && !rd_tcp_is_beside(l, peer)) /* else nobody would notice its death */
        rd_tcp_want(w, rd_tcp_in_whole(l, peer), late ? 0 : CONNECT_NS);
    if (late)
        l->asked_ns = now;
    pthread_mutex_unlock(&w->lock);
    if (is_asked(l, now))
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
        tcp_known *k = &l->known[n.rank];
        const uint64_t age = (uint64_t)n.age_ms * 1000000, at = age < now ? now - age : 1;
        if (at <= k->heard_ns || n.call.sequence < k->sequence)
            continue;
        if (n.call.kind)
            rd_tcp_note(l, n.rank, &n.call);
        k->sequence = n.call.sequence;
        k->inside = n.inside;
        k->posted = n.posted;
        k->awaits = n.awaits + 1;
        k->heard_ns = at;
        k->message = n.message;
        k->full = n.full;
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
    rd_cause_pack(&l->cause, packed);
    rd_tcp_say(c, &(rd_head){.kind = RD_ALARM, .bytes = RD_CAUSE, .world = l->id}, packed);
}

/* With the last call that was made, so that peers can compare it with theirs. */
static void say_bye(tcp_conn *c, const tcp_link *l)
{
    rd_head head = {.kind = RD_BYE, .world = l->id};
    if (!own_record(l, l->sequence, &head.call))
        head.call = (rd_record){0};
    rd_tcp_say(c, &head, NULL);
}

void rd_tcp_fail(tcp_link *l, const rd_error *cause)
{
    tcp_world *w = l->world;
    if (atomic_load(&l->alarm))
        return;
    l->cause = *cause;
    atomic_store(&l->alarm, 1);
    for (uint32_t r = w->closing ? l->link.size : 0; r < l->link.size; r++) {
        const uint32_t rank = rd_tcp_in_whole(l, r);
        tcp_peer *peer = &w->peers[rank];
        if (r == l->link.rank || peer->dead || l->known[r].closed)
            continue;
        if (peer->out) {
            say_cause(peer->out, l);
            rd_tcp_flush_conn(w, peer->out);
        } else if (is_finger(l, r) && !rd_tcp_is_beside(l, r)) {
            rd_tcp_want(w, rank, 0); /* it is told when it is there */
        }
    }
}

void rd_tcp_opened(tcp_world *w, tcp_conn *c)
{
    for (tcp_link *l = w->links; l; l = l->next)
        if (atomic_load(&l->alarm) && l->index_of[c->rank] != UINT32_MAX)
            say_cause(c, l);
    if (w->closing && w->peers[c->rank].out == c) /* else it follows the messages on another one */
        say_bye(c, w->links);
    if (w->closing)
        rd_tcp_say(c, &(rd_head){.kind = RD_HANGUP}, NULL);
}

/* What the peer was doing when it was last heard of. */
static void last_call(tcp_link *l, uint32_t rank, rd_error *cause, char *text, size_t capacity)
{
    const tcp_known *k = &l->known[rank];
    rd_record record;
    char call[100];
    snprintf(text, capacity, "before it was heard of");
    if (k->inside && k->message.direction) {
        rd_pending_text(&k->message, call, sizeof call);
        snprintf(text, capacity, "in or after %s", call);
        return;
    }
    if (!rd_tcp_record(&l->link, rank, k->sequence, &record))
        return;
    rd_record_text(&record, call, sizeof call);
    cause->sequence = record.sequence;
    const bool later = l->inside && l->sequence > k->sequence;
    snprintf(text, capacity, "%s %s", later ? "after" : "in or after", call);
}

void rd_tcp_mourn(tcp_world *w, uint32_t rank, const char *how)
{
    const rd_place *place = &w->its.places[rank];
    if (w->peers[rank].exited)
        how = "exited without closing its communicator,";
    for (tcp_link *l = w->links; l; l = l->next) {
        const uint32_t r = l->index_of[rank];
        rd_error cause = {.rank = l->link.rank};
        char where[48] = "", call[140];
        if (l->closed || r == UINT32_MAX || l->known[r].closed || atomic_load(&l->alarm))
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
    link->transport->nudge(link);
    const uint64_t until = rd_tcp_now(l->world) + notice_ns(link);
    while (!has_spoken(l->world) && rd_tcp_now(l->world) < until)
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

void rd_tcp_cause(rd_link *link, rd_error *out)
{
    const tcp_link *l = rd_tcp_link(link);
    if (atomic_load(&l->alarm))
        *out = l->cause;
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
    } else if (h->kind == RD_BYE) {
        rd_tcp_note(l, rank, &h->call);
        l->known[rank].closed = true;
        l->known[rank].inside = false;
        if (!l->id)
            rd_tcp_trust(w, c->rank);
        atomic_fetch_add(&w->goodbyes, 1);
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
    const bool all = l->cause.status != RONDA_EMISMATCH; /* else earlier calls go on */
    pthread_mutex_lock(&l->world->lock);
    rd_tcp_forsake(l, all);
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
    if (until_ns || w->wanted || w->strangers) {
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
        if (p->queued != atomic_load(&p->written) && !p->to->dead && !l->known[p->rank].closed)
            return false;
    }
    return true;
}

void rd_tcp_take_leave(tcp_link *l, uint64_t until_ns)
{
    tcp_world *w = l->world;
    while (!atomic_load(&l->alarm) && !has_written(l) && rd_tcp_now(w) < until_ns)
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
        if (atomic_load(&l->alarm))
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
    while (w->strangers && rd_tcp_now(w) < soon) /* who has just connected is told, too */
        rd_tcp_pump(w, soon);
    while (!all_settled(w) && rd_tcp_now(w) < until)
        rd_tcp_pump(w, rd_tcp_now(w) + A_MOMENT_NS);
    for (const tcp_conn *c = w->conns; c; c = c->next)
        c->stream->kind->finish(c->stream);
    while (!arrived(w) && rd_tcp_now(w) < until)
        rd_tcp_pump(w, rd_tcp_now(w) + A_MOMENT_NS);
}
