/* tcp_connect.c: connections are opened when there is something to send, or to wait for.
 *
 * base/handshake.h draws how a connection begins: whoever connects sends a greeting, and its messages at once, so
 * they arrive even if the peer is busy for long; but it reads nothing before the peer's answer has shown that the
 * peer knows the key too.  Each greeting of a rank to another has the next counter, and none is accepted twice.  If both connect at once, both
 * connections stay: each writes to its own.  A peer has several addresses, which are tried one after the other,
 * the next when the last has failed or taken long, and the first that answers is taken. */
#include "transport/tcp_inside.h"

#include "base/mem.h"
#include "transport/ip.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_UNPROVEN = 64, MOST_ACCEPTS = 32, NEXT_ADDRESS_NS = 250000000 };
static const uint64_t TRY_NS = 10000000000u, UNPROVEN_NS = 3000000000u, SUSPECT_NS = 1000000000u,
                      UNKNOWN_NS = 50000000u, DEAF_NS = 2000000000u, NO_MEMORY_NS = 200000000u,
                      DEAF_PAUSE_NS = 10000000u, PROBES_NS = 600000000u;

/* --- greetings --- */

static rd_seal seal_of(const tcp_world *w, uint32_t from, uint32_t to)
{
    return (rd_seal){.key = w->its.key,
                     .sender = w->its.places[from].nonce,
                     .receiver = w->its.places[to].nonce};
}

static bool greet(tcp_world *w, tcp_conn *c, uint32_t kind)
{
    uint8_t packed[RD_GREETING];
    const rd_seal seal = seal_of(w, w->its.rank, c->rank);
    rd_frame g = {.kind = kind,
                  .features = c->checked ? RD_FEATURE_CHECKSUM : 0,
                  .from = w->its.rank,
                  .to = c->rank,
                  .size = w->its.size,
                  .job = w->its.job,
                  .counter = c->counter};
    return rd_frame_seal(&seal, &g, NULL, packed) && rd_tcp_say(c, NULL, packed);
}

/* What costs nothing is looked at first: a mac is made only for what may be a greeting. */
static bool is_greeting(const tcp_world *w, const tcp_conn *c, const rd_frame *g,
                        const uint8_t bytes[RD_GREETING])
{
    const bool unproven = c->state == TCP_UNPROVEN;
    if (g->kind != (unproven ? RD_FRAME_GREETING : RD_FRAME_ANSWER) || g->job != w->its.job ||
        g->size != w->its.size || g->to != w->its.rank || g->from >= g->size || g->from == g->to ||
        g->features != (rd_tcp_checks(w, g->from) ? RD_FEATURE_CHECKSUM : 0))
        return false;
    if (unproven ? g->counter <= w->peers[g->from].accepted || w->peers[g->from].dead
                 : g->from != c->rank || g->counter != c->counter)
        return false;
    const rd_seal seal = seal_of(w, g->from, g->to);
    return rd_frame_is_sealed(&seal, bytes, NULL);
}

void rd_tcp_trust(tcp_world *w, uint32_t rank)
{
    assert(!w->peers[rank].suspect_ns || w->wanted);
    w->wanted -= w->peers[rank].suspect_ns != 0;
    w->peers[rank].suspect_ns = 0;
}

/* No connection to it needs to be opened. */
static void cancel(tcp_world *w, uint32_t rank)
{
    tcp_peer *peer = &w->peers[rank];
    assert(!peer->want_ns || w->wanted);
    w->wanted -= peer->want_ns != 0;
    peer->want_ns = 0;
    for (tcp_conn *c = w->conns, *next; c; c = next) {
        next = c->next;
        if (c->rank == rank && c->state == TCP_CONNECTING)
            rd_tcp_end(w, c);
    }
}

bool rd_tcp_greeted(tcp_world *w, tcp_conn *c, const uint8_t bytes[RD_GREETING])
{
    rd_frame g;
    const bool unproven = c->state == TCP_UNPROVEN;
    const bool good = rd_frame_unpack(bytes, &g) == RD_FRAME_OK && is_greeting(w, c, &g, bytes);
    if (!good && unproven) {
        rd_tcp_end(w, c);
        return false;
    }
    if (!good) {
        rd_tcp_lost(w, c, EPROTO);
        return false;
    }
    c->greeted = true;
    if (!unproven)
        return true;
    tcp_peer *peer = &w->peers[g.from];
    assert(w->unproven);
    w->unproven--;
    c->rank = g.from;
    c->state = TCP_OPEN;
    c->checked = rd_tcp_checks(w, g.from);
    c->counter = peer->accepted = g.counter;
    greet(w, c, RD_FRAME_ANSWER);
    if (!peer->out) {
        peer->out = c;
        cancel(w, g.from);
    }
    if (peer->suspicion ==
        TCP_UNREACHABLE) /* else what was sent to it is lost, whatever it says now */
        rd_tcp_trust(w, g.from);
    rd_tcp_opened(w, c);
    rd_tcp_flush_conn(w, c);
    return true;
}

static bool listen_to(tcp_world *w, bool on)
{
    return w->its.network->kind->listen(w->its.network, on);
}

static void cannot_let_in(tcp_world *w, int error)
{
    const rd_place *place = &w->its.places[w->its.rank];
    for (tcp_link *l = w->links; l; l = l->next) {
        rd_error cause = {.rank = l->link.rank};
        rd_fail(&cause, RONDA_ESYSTEM, l->link.rank,
                "rank %u (host %s, pid %" PRId32 ") cannot let other ranks in: %s", l->link.rank,
                place->name, place->pid, strerror(error));
        rd_tcp_fail(l, &cause);
    }
}

/* Who knocks is left to the system for a moment. */
static void go_deaf(tcp_world *w, uint64_t now)
{
    if (!w->deaf_ns && listen_to(w, false)) {
        w->deaf_ns = now + DEAF_PAUSE_NS;
        w->wanted++;
    }
}

/* There was none of what a connection takes: for a moment, or for too long. */
static void lack(tcp_world *w, uint64_t now, int error)
{
    if (!w->deaf_since_ns)
        w->deaf_since_ns = now;
    else if (now - w->deaf_since_ns > (error == ENOMEM ? NO_MEMORY_NS : DEAF_NS))
        cannot_let_in(w, error);
    go_deaf(w, now);
}

static void hear_again(tcp_world *w)
{
    listen_to(w, true);
    assert(w->deaf_ns && w->wanted);
    w->deaf_ns = 0;
    w->wanted--;
}

/* Connections that have not proved the key have few slots and keep nobody waiting: the oldest is closed for the
 * next one, unless its greeting has come by now.  A rank's greeting is there when its connection is accepted (the
 * listener waits for it) and is read at once, so that it is others who are closed. */
static void make_way(tcp_world *w)
{
    tcp_conn *oldest = NULL;
    if (w->unproven < MOST_UNPROVEN)
        return;
    for (tcp_conn *c = w->conns; c; c = c->next) /* the newest is the first */
        oldest = c->state == TCP_UNPROVEN ? c : oldest;
    assert(oldest);
    rd_tcp_read(w, oldest);
    if (oldest->stream && oldest->state == TCP_UNPROVEN)
        rd_tcp_end(w, oldest);
}

/* So many at a time: calls go on, however many others connect. */
void rd_tcp_accept(tcp_world *w)
{
    rd_network *network = w->its.network;
    for (int i = 0; i < MOST_ACCEPTS; i++) {
        const uint64_t now = rd_tcp_now(w);
        tcp_conn *c = rd_tcp_new_conn();
        if (!c) { /* whoever connects waits with the system, and loses nothing */
            lack(w, now, ENOMEM);
            return;
        }
        rd_ip from = {0};
        int error = 0;
        rd_bytestream *stream = network->kind->accept(network, &from, &error);
        if (!stream) {
            rd_tcp_discard(c);
            if (rd_socket_scarce(error))
                lack(w, now, error);
            return;
        }
        w->deaf_since_ns = 0;
        make_way(w);
        c = rd_tcp_add(w, c, stream, false);
        if (!c) { /* and what its caller has sent is lost */
            cannot_let_in(w, ENOMEM);
            return;
        }
        c->from = from;
        c->state = TCP_UNPROVEN;
        w->unproven++;
        rd_tcp_read(w, c);
    }
}

/* --- connecting --- */

/* "10.0.0.2, 192.168.1.2 (Connection refused), fd00::2 (No route to host)" */
static void addresses_text(const tcp_world *w, uint32_t rank, char *text, size_t capacity)
{
    const rd_place *place = &w->its.places[rank];
    const int *errors = w->peers[rank].errors;
    size_t at = 0;
    *text = 0;
    for (uint32_t i = 0; i < place->count && at < capacity; i++) {
        char ip[RD_IP_TEXT];
        rd_ip_text(&place->at[i], ip);
        const bool said = i + 1 < place->count && errors[i + 1] == errors[i];
        at += (size_t)snprintf(text + at, capacity - at, said ? "%s%s" : "%s%s (%s)",
                               at ? ", " : "", ip, strerror(errors[i]));
    }
}

static tcp_conn *other_of(const tcp_world *w, uint32_t rank)
{
    tcp_conn *c = w->conns;
    while (c && (c->rank != rank || c->state != TCP_OPEN))
        c = c->next;
    return c;
}

static void fail_peer(tcp_world *w, uint32_t rank, const char *how)
{
    w->peers[rank].dead = true;
    cancel(w, rank);
    rd_tcp_trust(w, rank);
    atomic_fetch_add(w->goodbyes, 1);
    rd_tcp_peer_failed(w, rank, how);
}

static void suspect(tcp_world *w, uint32_t rank, tcp_suspicion of_what, uint64_t within_ns)
{
    tcp_peer *peer = &w->peers[rank];
    w->wanted += !peer->suspect_ns;
    peer->suspect_ns = rd_tcp_now(w) + within_ns;
    peer->suspicion = of_what;
    peer->looked = false;
}

/* A rank that has never answered may have heard of a failure, told others and left: then this rank is about to
 * hear of it too, and that is what it should say. */
static void doubt(tcp_world *w, uint32_t rank, tcp_suspicion of_what)
{
    cancel(w, rank);
    suspect(w, rank, of_what, UNKNOWN_NS);
}

/* It was there when the world began. */
static void fail_unreachable(tcp_world *w, uint32_t rank)
{
    char how[400], where[220];
    addresses_text(w, rank, where, sizeof where);
    snprintf(how, sizeof how, "cannot be reached by rank %u (host %s) at port %u of %s",
             w->its.rank, w->its.places[w->its.rank].name, w->its.places[rank].port, where);
    fail_peer(w, rank, how);
}

/* A link-local address says by which interface it is reached, as its own host counts them: this one takes that of
 * its own first one. */
static rd_ip seen_from_here(const tcp_world *w, const rd_place *place, const rd_ip *at)
{
    const rd_place *own = &w->its.places[w->its.rank];
    rd_ip ip = *at;
    for (uint32_t i = own->count; i-- > 0 && rd_ip_is_link_local(at) && place->host != own->host;)
        if (rd_ip_is_link_local(&own->at[i]) && own->at[i].family == 6)
            ip.scope = own->at[i].scope;
    return ip;
}

static void try_address(tcp_world *w, uint32_t rank, uint64_t now)
{
    tcp_peer *peer = &w->peers[rank];
    const rd_place *place = &w->its.places[rank];
    const uint32_t i = peer->tried++;
    assert(i < place->count && place->count <= RD_ADDRESSES);
    rd_network *network = w->its.network;
    if (rd_ip_is_loopback(&place->at[i]) && place->host != w->its.places[w->its.rank].host &&
        place->count > 1) {
        peer->errors[i] = EHOSTUNREACH; /* whoever answers there is of this host */
        peer->next_try_ns = now;
        return;
    }
    const rd_ip ip = seen_from_here(w, place, &place->at[i]);
    int error;
    rd_bytestream *stream = network->kind->connect(network, &ip, place->port, &error);
    peer->next_try_ns = now + NEXT_ADDRESS_NS;
    peer->errors[i] = ETIMEDOUT;
    if (!stream) {
        peer->errors[i] = error;
        peer->next_try_ns = now;
        return;
    }
    tcp_conn *c = rd_tcp_add(w, rd_tcp_new_conn(), stream, true);
    if (!c) {
        peer->errors[i] = ENOMEM;
        return;
    }
    c->state = TCP_CONNECTING;
    c->rank = rank;
    c->address = i;
    peer->trying++;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool has_no_port(const tcp_peer *peer, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (peer->errors[i] == EADDRNOTAVAIL || peer->errors[i] == EAGAIN ||
            rd_socket_scarce(peer->errors[i]))
            return true;
    return false;
}

/* The next address, or the end of it; when to look again. */
static uint64_t go_on(tcp_world *w, uint32_t rank, uint64_t now)
{
    tcp_peer *peer = &w->peers[rank];
    const rd_place *place = &w->its.places[rank];
    if (peer->want_ns > now)
        return peer->want_ns;
    while (peer->tried < place->count &&
           (peer->next_try_ns <= now || (!peer->trying && peer->tried)))
        try_address(w, rank, now);
    if (!peer->trying && peer->tried == place->count) {
        if (now < peer->want_ns + TRY_NS && has_no_port(peer, place->count)) {
            peer->tried = 0; /* this host has no port left for now, or this process no descriptor */
            peer->next_try_ns = now + NEXT_ADDRESS_NS;
            return peer->next_try_ns;
        }
        doubt(w, rank, TCP_UNREACHABLE);
        return peer->suspect_ns;
    }
    return peer->tried < place->count ? peer->next_try_ns : UINT64_MAX;
}

void rd_tcp_want(tcp_world *w, uint32_t rank, uint64_t delay_ns)
{
    tcp_peer *peer = &w->peers[rank];
    if (peer->out || peer->dead || peer->suspect_ns || rank == w->its.rank)
        return;
    const uint64_t now = rd_tcp_now(w), at = now + delay_ns;
    w->wanted += peer->want_ns == 0;
    if (!peer->want_ns || at < peer->want_ns)
        peer->want_ns = at;
    if (!delay_ns)
        go_on(w, rank, now);
}

void rd_tcp_connected(tcp_world *w, tcp_conn *c)
{
    enum { MOST_RETRIES = 40, RETRY_NS = 50000000 };
    tcp_peer *peer = &w->peers[c->rank];
    const uint32_t rank = c->rank;
    const uint64_t now = rd_tcp_now(w);
    int error = c->stream->kind->opened(c->stream);
    if (error == EINPROGRESS)
        return;
    /* It was closed by a peer that makes way for others, and whoever tries too often hears of it when it reads */
    const bool again = error == ECONNRESET && peer->retries++ < MOST_RETRIES;
    error = error == ECONNRESET && !again ? 0 : error;
    if (error) {
        peer->errors[c->address] = error;
        rd_tcp_end(w, c);
        if (again) { /* nothing was said on it, so nothing is lost */
            peer->tried = 0;
            peer->next_try_ns = now + RETRY_NS;
        }
        go_on(w, rank, now);
        return;
    }
    assert(c->state == TCP_CONNECTING && peer->trying);
    peer->trying--;
    c->state = TCP_OPEN;
    c->checked = rd_tcp_checks(w, rank);
    peer->out = c;
    cancel(w, rank);
    c->stream->kind->watch(c->stream, true, false);
    c->counter = ++peer->greetings;
    greet(w, c, RD_FRAME_GREETING);
    rd_tcp_opened(w, c);
    rd_tcp_flush_conn(w, c);
}

static void fail_suspect(tcp_world *w, uint32_t rank)
{
    if (!w->peers[rank].looked)
        w->peers[rank].looked = true;
    else if (w->peers[rank].suspicion == TCP_UNREACHABLE)
        fail_unreachable(w, rank);
    else
        fail_peer(w, rank,
                  w->peers[rank].suspicion == TCP_DIED ? "died" : "left without a goodbye");
}

uint64_t rd_tcp_timers(tcp_world *w, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    if (!w->wanted && !w->unproven)
        return next;
    for (tcp_conn *c = w->conns, *after; c; c = after) {
        after = c->next;
        const uint64_t limit = c->since_ns + (c->state == TCP_UNPROVEN ? UNPROVEN_NS : TRY_NS);
        if (c->state == TCP_OPEN || now < limit) {
            next = c->state == TCP_OPEN ? next : earlier(next, limit);
            continue;
        }
        const uint32_t rank = c->rank;
        const bool unproven = c->state == TCP_UNPROVEN;
        if (!unproven && c->stream->kind->opened(c->stream) !=
                             EINPROGRESS) { /* it was this rank that did not look */
            rd_tcp_connected(w, c);
            after = w->conns;
            continue;
        }
        rd_tcp_end(w, c);
        if (!unproven)
            go_on(w, rank, now);
        after = w->conns; /* others may have gone with it */
    }
    if (w->deaf_ns && w->deaf_ns <= now)
        hear_again(w);
    else if (w->deaf_ns)
        next = earlier(next, w->deaf_ns);
    for (uint32_t r = 0; r < w->its.size && w->wanted; r++) {
        if (w->peers[r].suspect_ns && w->peers[r].suspect_ns <= now) {
            fail_suspect(w, r);
            next = now; /* somebody may wait for just that */
        }
        if (w->peers[r].suspect_ns)
            next = earlier(next, w->peers[r].suspect_ns);
        if (w->peers[r].want_ns)
            next = earlier(next, go_on(w, r, now));
    }
    return next;
}

/* --- the end of one --- */

/* Both ends say the same of a connection that was lost between them, and of nobody that it has died. */
static void report_lost(tcp_world *w, uint32_t rank, int error)
{
    const rd_place *own = &w->its.places[w->its.rank];
    char how[260];
    snprintf(how, sizeof how,
             "and rank %u of the world (host %s, pid %" PRId32 ") have lost their connection: %s,",
             w->its.rank, own->name, own->pid, error ? strerror(error) : "it was ended");
    fail_peer(w, rank, how);
}

/* Does the rank's process still listen there?  Many may end at once: the time for all such questions is limited. */
static bool answers(tcp_world *w, uint32_t rank, const rd_ip *at)
{
    rd_network *network = w->its.network;
    const uint64_t start = rd_tcp_now(w);
    if (w->probed_ns > PROBES_NS)
        return false;
    const bool there = network->kind->answers(network, at, w->its.places[rank].port);
    w->probed_ns += rd_tcp_now(w) - start;
    return there;
}

void rd_tcp_lost(tcp_world *w, tcp_conn *c, int error)
{
    const uint32_t rank = c->rank;
    const rd_ip at =
        c->from.family || rank >= w->its.size
            ? c->from
            : seen_from_here(w, &w->its.places[rank], &w->its.places[rank].at[c->address]);
    const bool expected = c->state != TCP_OPEN || w->closing || w->peers[rank].dead,
               hung_up = c->hung_up, greeted = c->greeted;
    if (c->state == TCP_OPEN && w->peers[rank].out == c)
        w->peers[rank].gap = true;
    rd_tcp_end(w, c);
    if (expected || (hung_up && rd_tcp_has_closed(w->links, rank)))
        return;
    const bool ended = !error || error == ECONNRESET || error == EPIPE;
    tcp_conn *other = error == EBADMSG ? NULL : other_of(w, rank);
    if (other && !hung_up && ended && answers(w, rank, &at)) {
        report_lost(w, rank, error); /* also if another one is left: what it has carried is gone */
        return;
    }
    if (other ||
        hung_up) { /* it may still say goodbye, also on a connection that was not accepted yet */
        tcp_peer *peer = &w->peers[rank];
        peer->out = peer->out ? peer->out : other;
        suspect(w, rank, TCP_LEFT, SUSPECT_NS);
        return;
    }
    if (ended && !greeted) {
        doubt(w, rank, TCP_DIED);
        return;
    }
    if ((ended && !w->peers[rank].exited && answers(w, rank, &at)) ||
        (!ended && error != EBADMSG && error != EPROTO)) {
        report_lost(w, rank, error);
        return;
    }
    fail_peer(w, rank,
              ended              ? "died"
              : error == EBADMSG ? "has sent what cannot be a message"
                                 : "is not what answers at its address");
}
