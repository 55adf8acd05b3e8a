/* rendezvous_root.c: rank 0 of a world over several hosts lets the others in, and starts it when all are
 * there.  rendezvous.c draws the conversation. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/proof.h"
#include "comm/acceptor.h"
#include "comm/address_file.h"
#include "comm/reach.h"
#include "comm/rendezvous.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* For telling those who have hung up that nothing comes of it: each, and all. */
static const uint64_t NEWS_NS = 300000000, ALL_NEWS_NS = 3000000000;
static const uint64_t SAYING_NS = 1000000000;

typedef struct {
    rd_gathering *g;
    rd_acceptor acceptor;
    bool held; /* everybody stays on the line */
    uint32_t come;
    rd_written file;
} hosting;

/* --- one rank after the other --- */

static ronda_status judge(rd_acceptor *d, rd_incoming *from, char why[RD_FRAME_BODY])
{
    const hosting *h = d->owner;
    const rd_frame *proof = &from->proof;
    const rd_place *places = h->g->places;
    if ((proof->job && proof->job != d->job) || proof->to != 0) {
        snprintf(why, RD_FRAME_BODY, "this is rank 0 of another job");
        return RONDA_EPEER;
    }
    if (proof->size != d->size)
        snprintf(why, RD_FRAME_BODY, "rank %u was told of %u ranks, but rank 0 of %u", proof->from,
                 proof->size, d->size);
    else if (proof->from >= d->size)
        snprintf(why, RD_FRAME_BODY, "there is no rank %u in a world of %u", proof->from, d->size);
    else if (places[proof->from].pid)
        snprintf(why, RD_FRAME_BODY, "there is a rank %u already: pid %" PRId32 " on %s",
                 proof->from, places[proof->from].pid, places[proof->from].name);
    else
        return RONDA_OK;
    return RONDA_EINVAL;
}

static ronda_status hear(rd_acceptor *d, rd_incoming *from, const rd_frame *frame, rd_error *err)
{
    hosting *h = d->owner;
    const uint32_t rank = from->proof.from;
    char why[RD_FRAME_BODY];
    rd_place place;
    if (from->stays && frame->kind == RD_FRAME_REJECT)
        return rd_session_rejected(&from->session, frame, err);
    if (from->stays) {
        rd_spread_name(h->g, rank, why, 128);
        return rd_fail(err, RONDA_EPEER, rank,
                       "%.120s said what makes no sense while the ranks were gathering", why);
    }
    if (frame->kind != RD_FRAME_PLACE || frame->bytes != RD_PLACE ||
        !rd_place_unpack(from->session.body, &place)) {
        rd_session_close(&from->session);
        return RONDA_OK;
    }
    const ronda_status status = judge(d, from, why); /* another may have been faster */
    if (status) {
        rd_session_reject(&from->session, status, RONDA_ANY, why);
        return RONDA_OK;
    }
    const rd_frame noted = {.kind = RD_FRAME_NOTED, .to = rank, .number = h->held, .job = d->job};
    if (!rd_session_send(&from->session, &noted, NULL, rd_now_ns() + SAYING_NS)) {
        rd_session_close(&from->session);
        return RONDA_OK;
    }
    h->g->places[rank] = place;
    h->come++;
    from->stays = h->held;
    if (!h->held)
        rd_session_close(&from->session);
    return RONDA_OK;
}

static ronda_status lose(rd_acceptor *d, rd_incoming *from, const char *how, rd_error *err)
{
    const hosting *h = d->owner;
    char who[128];
    if (!from->stays)
        return RONDA_OK;
    rd_spread_name(h->g, from->proof.from, who, sizeof who);
    return rd_fail(err, RONDA_EPEER, from->proof.from, "%s %s while the ranks were gathering", who,
                   how);
}

static ronda_status give(rd_acceptor *d, int giver, rd_error *err)
{
    (void)err;
    rd_secret_give(giver, d->key);
    return RONDA_OK;
}

/* --- who is missing --- */

static void list_missing(const hosting *h, char *text, size_t capacity)
{
    size_t at = 0;
    uint32_t left = 0;
    for (uint32_t r = 1; r < h->g->j->size; r++) {
        if (h->g->places[r].pid)
            continue;
        if (at + 32 < capacity)
            at += (size_t)snprintf(text + at, capacity - at, "%s%u", at ? ", " : "", r);
        else
            left++;
    }
    if (left)
        snprintf(text + at, capacity - at, " and %u more", left);
}

static void list_hosts(const hosting *h, char *text, size_t capacity)
{
    const rd_place *p = h->g->places;
    size_t at = 0;
    uint32_t left = 0;
    for (uint32_t r = 0; r < h->g->j->size; r++) {
        bool known = !p[r].pid;
        for (uint32_t k = 0; k < r && !known; k++)
            known = p[k].pid && strcmp(p[k].name, p[r].name) == 0;
        if (known)
            continue;
        if (at + strlen(p[r].name) + 24 < capacity)
            at += (size_t)snprintf(text + at, capacity - at, "%s%s", at ? ", " : "", p[r].name);
        else
            left++;
    }
    if (left)
        snprintf(text + at, capacity - at, " and %u more", left);
}

static ronda_status missing(const hosting *h)
{
    char who[140] = "", hosts[140] = "", keys[80] = "";
    list_missing(h, who, sizeof who);
    list_hosts(h, hosts, sizeof hosts);
    if (h->acceptor.wrong_keys)
        snprintf(keys, sizeof keys, "; %u came with another RONDA_KEY", h->acceptor.wrong_keys);
    else if (!h->g->j->key && !h->g->j->insecure && !rd_address_is_loopback(&h->g->j->address))
        snprintf(keys, sizeof keys,
                 "; without RONDA_KEY only ranks of this host and user can come");
    return rd_fail(h->g->err, RONDA_ETIMEOUT, RONDA_ANY,
                   "after %.3g s %u of %u ranks had come (from %s); missing: rank %s%s",
                   (double)h->g->j->timeout_ns / 1e9, h->come + 1, h->g->j->size, hosts, who, keys);
}

/* Is the rank below another in the tree, or that one itself? */
static bool is_below(uint32_t rank, uint32_t top)
{
    while (rank > top)
        rank = rd_spread_parent(rank);
    return rank == top;
}

/* Calls those who have hung up, all who are below `top`, to tell them that it has failed. */
static void tell_the_rest(const hosting *h, uint32_t top)
{
    const rd_gathering *g = h->g;
    const uint64_t late = rd_gathering_later(g, 2), soon = rd_deadline_ns(ALL_NEWS_NS);
    const uint64_t end = soon < late ? soon : late;
    for (uint32_t r = 1; r < g->j->size && rd_now_ns() < end; r++) {
        if (!g->places[r].pid || !is_below(r, top))
            continue;
        rd_reaching reaching = {.way = g->way,
                                .key = g->key,
                                .peer = r,
                                .size = g->j->size,
                                .job = g->job,
                                .until_ns = rd_deadline_ns(NEWS_NS)};
        rd_session session;
        rd_place place;
        rd_error ignored;
        rd_reach_place(&reaching, &g->places[r]);
        if (rd_reach_once(&reaching, &session, &place, &ignored) == RONDA_OK)
            rd_session_reject(&session, g->err->status, g->err->peer, g->err->message);
    }
}

/* --- listeners --- */

static int listen_at(const rd_target *t)
{
    struct sockaddr_storage name;
    const socklen_t length = rd_ip_sockaddr(&t->ip, t->port, &name);
    const int one = 1,
              fd = rd_fd(socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    rd_listen_for_bytes(fd);
    if (t->ip.family == 6) /* or it would be in the way of one for the same port of IPv4 */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, (const struct sockaddr *)&name, length) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static ronda_status cannot_listen(const rd_gathering *g, const char *why, const char *hint)
{
    char at[280];
    rd_address_text(&g->j->address, at, sizeof at);
    return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY, "rank 0 (on %s) cannot listen at %.200s: %s%s",
                   g->own.name, at, why, hint);
}

/* A host may know its own name as a loopback address, at which nobody else would find it: then everywhere. */
static void widen(const rd_gathering *g, rd_reaching *here)
{
    for (uint32_t i = 0; i < here->count; i++)
        if (!rd_ip_is_loopback(&here->at[i].ip))
            return;
    if (g->loopback_alone)
        return;
    here->count = 2;
    for (uint32_t i = 0; i < 2; i++)
        here->at[i] = (rd_target){.ip.family = i ? 6 : 4, .port = g->j->address.port};
}

/* Without a key, ranks of the same user fetch a secret beside each address at which they are let in. */
static ronda_status open_giver(hosting *h, const rd_ip *ip, uint16_t port)
{
    if (h->g->way != RD_WAY_USER || h->acceptor.giver_count == RD_LISTENERS)
        return RONDA_OK;
    const int fd = rd_secret_listen(ip, port);
    if (fd < 0)
        return rd_fail(h->g->err, RONDA_ESYSTEM, RONDA_ANY,
                       "rank 0 (on %s) cannot make the socket by which ranks of its user know each "
                       "other: %s; set RONDA_KEY to a secret of the job's",
                       h->g->own.name, strerror(errno));
    h->acceptor.givers[h->acceptor.giver_count++] = fd;
    return RONDA_OK;
}

/* At every address of the name that is this host's. */
static ronda_status listen_at_name(hosting *h)
{
    rd_gathering *g = h->g;
    rd_reaching here = {.until_ns = g->until_ns};
    char text[240];
    const char *why;
    bool elsewhere = true, taken = false;
    if (!rd_reach_name(&here, &g->j->address, &why))
        return cannot_listen(g, why, "");
    const rd_ip first = here.at[0].ip;
    widen(g, &here);
    for (uint32_t i = 0; i < here.count && h->acceptor.listener_count < RD_LISTENERS; i++) {
        ronda_status status = rd_gathering_allows(g, &here.at[i].ip);
        if (status)
            return status;
        const int fd = listen_at(&here.at[i]);
        if (fd >= 0) {
            h->acceptor.listeners[h->acceptor.listener_count++] = fd;
            status = open_giver(h, &here.at[i].ip, here.at[i].port);
            if (status)
                return status;
        } else {
            snprintf(here.at[i].why, sizeof here.at[i].why, "%s", strerror(errno));
            elsewhere &= errno == EADDRNOTAVAIL;
            taken |= errno == EADDRINUSE;
        }
    }
    if (h->acceptor.listener_count)
        return rd_gathering_settle(g, &first);
    rd_reach_text(&here, text, sizeof text);
    return cannot_listen(
        g, text,
        elsewhere ? "; rank 0 must run on that host, or RONDA_ADDR name the one that it runs on"
        : taken ? "; set RONDA_ADDR (ronda run: --addr) to HOST:PORT with a port that is free there"
                : "");
}

/* Where a file says the address, the listener that peers use later is used for the rendezvous too. */
static ronda_status open_file(hosting *h)
{
    rd_gathering *g = h->g;
    ronda_status status = rd_gathering_settle(g, NULL);
    for (uint32_t i = 0; i < g->own.count && !status; i++)
        status = open_giver(h, &g->own.at[i], g->own.port);
    if (status)
        return status;
    rd_address_file m = {
        .job = g->job, .host = g->own.host, .port = g->own.port, .count = g->own.count};
    memcpy(m.at, g->own.at, sizeof m.at);
    h->acceptor.listeners[h->acceptor.listener_count++] = g->listener;
    return rd_address_file_write(g->j->address.path, &m, &h->file, g->err);
}

static ronda_status hear_all(hosting *h)
{
    while (h->come < h->g->j->size - 1) {
        if (rd_now_ns() >= h->g->until_ns)
            return missing(h);
        const ronda_status status = rd_acceptor_step(&h->acceptor, h->g->until_ns, h->g->err);
        if (status)
            return status;
    }
    return RONDA_OK;
}

/* --- the start --- */

static void stop_listening(hosting *h)
{
    rd_address_file_remove(&h->file);
    for (uint32_t i = 0; i < h->acceptor.listener_count; i++)
        if (h->acceptor.listeners[i] != h->g->listener)
            close(h->acceptor.listeners[i]);
    for (uint32_t i = 0; i < h->acceptor.giver_count; i++)
        close(h->acceptor.givers[i]);
    h->acceptor.listener_count = h->acceptor.giver_count = 0;
}

static ronda_status start_held(hosting *h)
{
    const uint32_t n = h->g->j->size - 1;
    rd_branch *branches = rd_alloc(n * sizeof *branches);
    uint32_t count = 0;
    if (!branches)
        return rd_fail(h->g->err, RONDA_ENOMEM, RONDA_ANY, "rank 0: no memory for %u ranks",
                       h->g->j->size);
    for (uint32_t i = 0; i < h->acceptor.capacity && count < n; i++) {
        rd_incoming *v = &h->acceptor.incoming[i];
        if (v->session.fd < 0 || !v->stays)
            continue;
        branches[count++] = (rd_branch){.rank = v->proof.from, .session = v->session};
        v->session.fd = -1;
    }
    const ronda_status status = rd_spread(h->g, NULL, branches, count);
    rd_free(branches);
    return status;
}

static ronda_status start_tree(hosting *h)
{
    rd_branch branches[RD_BRANCHES];
    uint32_t count = 0;
    const ronda_status status = rd_spread_call(h->g, branches, &count);
    if (!status)
        return rd_spread(h->g, NULL, branches, count);
    for (uint32_t i = 0; i < count; i++)
        rd_session_reject(&branches[i].session, status, h->g->err->peer, h->g->err->message);
    return status;
}

static ronda_status host(hosting *h)
{
    rd_gathering *g = h->g;
    const uint32_t n = g->j->size;
    ronda_status status = g->j->address.kind == RD_ADDRESS_FILE ? open_file(h) : listen_at_name(h);
    h->acceptor.place = &g->own;
    g->places[0] = g->own;
    if (!status)
        status = rd_acceptor_open(&h->acceptor, h->held ? n : 0, g->err);
    if (!status)
        status = hear_all(h);
    const bool all = !status;
    stop_listening(h);
    if (!status)
        status = h->held ? start_held(h) : start_tree(h);
    for (uint32_t i = 0; status && h->acceptor.incoming && i < h->acceptor.capacity; i++)
        if (h->acceptor.incoming[i].stays)
            rd_session_reject(&h->acceptor.incoming[i].session, status, g->err->peer,
                              g->err->message);
    const uint32_t about = g->err->peer;
    if (status && !h->held)
        tell_the_rest(h, all && about && about < n ? rd_spread_parent(about) : 0);
    return status;
}

ronda_status rd_rendezvous_root(rd_gathering *g)
{
    hosting h = {
        .g = g,
        .held = g->j->size <= RD_HELD_RANKS,
        .acceptor = {.size = g->j->size, .judge = judge, .hear = hear, .lose = lose, .give = give}};
    if (!rd_random(&g->job, sizeof g->job) || !rd_secret_make(g->secret))
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY,
                       "rank 0: the system has no random numbers");
    g->job |= !g->job;
    if (g->way == RD_WAY_USER)
        g->key = g->secret;
    h.acceptor.way = g->way;
    h.acceptor.key = g->key;
    h.acceptor.job = g->job;
    h.acceptor.owner = &h;
    const ronda_status status = host(&h);
    rd_acceptor_close(&h.acceptor);
    return status;
}
