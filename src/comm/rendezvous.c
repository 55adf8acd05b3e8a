/* rendezvous.c: joining a world over several hosts, which rank 0 gathers.
 *
 *     rank r                                         rank 0 (rendezvous_root.c)
 *       | == hello, challenge, proof, welcome =======> |   base/handshake.h (without a key: same_user.h first)
 *       | --- place: where r listens ----------------> |
 *       | <-- noted ---------------------------------- |   or reject: why
 *       |               ... until all have come ...    |
 *       | <-- table, from whom the tree says --------- |   or reject: who is missing
 *       | --- ready ---------------------------------> |   spread.c
 *       | <-- go ------------------------------------- |
 *
 * Up to RD_HELD_RANKS ranks stay on the line, so that one who dies is missed at once.  In larger worlds
 * the rank hangs up and is called back at its own listener, by the rank above it in the tree or by
 * rank 0 with bad news, so that no rank holds more than a few sockets. */
#include "comm/rendezvous.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/proof.h"
#include "comm/acceptor.h"
#include "comm/address_file.h"
#include "comm/interfaces.h"
#include "comm/reach.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_GRACE_NS = 2000000000 };
static const uint64_t UNKNOWN_NAME_NS = 5000000000; /* how long a name may be unknown */

/* --- what all ranks do first --- */

ronda_status rd_gathering_allows(const rd_gathering *g, const rd_ip *ip)
{
    char text[280];
    if (g->j->key || g->j->insecure || rd_ip_is_loopback(ip))
        return RONDA_OK;
    rd_address_text(&g->j->address, text, sizeof text);
    return rd_fail(
        g->err, RONDA_EINVAL, RONDA_ANY,
        "rank %u: others than this host can reach %.260s: set RONDA_KEY to a secret of the "
        "job's, or RONDA_INSECURE=1 to let in whoever comes",
        g->j->rank, text);
}

uint64_t rd_gathering_later(const rd_gathering *g, uint32_t times)
{
    const uint64_t part = g->j->timeout_ns / RD_GRACE_PART;
    const uint64_t grace = times * (part < MOST_GRACE_NS ? part : MOST_GRACE_NS);
    return g->until_ns > UINT64_MAX - grace ? UINT64_MAX : g->until_ns + grace;
}

static int listen_at(const rd_ip *ip, bool both)
{
    struct sockaddr_storage name;
    const socklen_t length = rd_ip_sockaddr(ip, 0, &name);
    const int one = 1, off = !both,
              fd = rd_fd(socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* ports of jobs that are over */
    rd_listen_for_bytes(fd);
    if ((ip->family == 4 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
        bind(fd, (const struct sockaddr *)&name, length) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Both kinds of addresses if the host has both; other hosts cannot reach the loopback. */
static bool open_listener(rd_gathering *g)
{
    const rd_ip loopback = {.family = 4, .bytes = {127, 0, 0, 1}};
    const rd_ip loopback6 = {.family = 6, .bytes = {[15] = 1}};
    const rd_ip any = {.family = 4}, any6 = {.family = 6};
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    rd_ip ip;
    g->family = g->loopback_alone ? 4 : 0;
    g->listener = g->loopback_alone ? listen_at(&loopback, false) : listen_at(&any6, true);
    if (g->listener < 0) {
        g->family = g->loopback_alone ? 6 : 4;
        g->listener = listen_at(g->loopback_alone ? &loopback6 : &any, false);
    }
    return g->listener >= 0 && getsockname(g->listener, (struct sockaddr *)&name, &length) == 0 &&
           rd_ip_of((const struct sockaddr *)&name, &ip, &g->own.port);
}

ronda_status rd_gathering_settle(rd_gathering *g, const rd_ip *rank_0)
{
    rd_interface all[RD_INTERFACES];
    rd_ip route;
    if (!open_listener(g))
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY, "rank %u cannot listen: %s", g->j->rank,
                       strerror(errno));
    /* A host may know its own name as a loopback address; others cannot use that. */
    const bool routed = rank_0 && rd_interfaces_route(rank_0, &route) &&
                        (g->loopback_alone || !rd_ip_is_loopback(&route));
    const rd_wish wish = {.filter = g->j->interfaces,
                          .route = routed ? &route : NULL,
                          .loopback_alone = g->loopback_alone};
    uint32_t count = 0;
    const uint32_t found = rd_interfaces_list(all);
    if (!found && errno)
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY, "rank %u cannot list its interfaces: %s",
                       g->j->rank, strerror(errno));
    for (uint32_t i = 0; i < found; i++)
        if (!g->family || all[i].ip.family == g->family)
            all[count++] = all[i];
    rd_host_name(g->own.name);
    g->own.host = rd_host_number();
    g->own.pid = getpid();
    g->own.cpus = rd_usable_cpus();
    g->own.quota = rd_cpu_quota();
    g->own.cores = rd_cpu_mark();
    if (!rd_random(g->own.nonce, sizeof g->own.nonce))
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY,
                       "rank %u: the system has no random numbers", g->j->rank);
    return rd_interfaces_choose(all, count, &wish, &g->own, g->err);
}

/* --- finding rank 0 --- */

static ronda_status unreachable(const rd_gathering *g, const rd_reaching *r, const char *why)
{
    char at[280], text[300] = "";
    rd_address_text(&g->j->address, at, sizeof at);
    if (!why)
        rd_reach_text(r, text, sizeof text);
    return rd_fail(g->err, rd_reach_hopeless(r) && !why ? RONDA_EPEER : RONDA_ETIMEOUT, 0,
                   "rank %u (on %s) found no rank 0 at %.200s within %.3g s: %s", g->j->rank,
                   g->own.name, at, (double)g->j->timeout_ns / 1e9, why ? why : text);
}

/* What rank 0 has written, if it is new; *known: what was read before. */
static ronda_status look_into_file(rd_gathering *g, rd_reaching *r, rd_address_file *known,
                                   const char **why)
{
    rd_address_file m;
    const ronda_status status = rd_address_file_read(g->j->address.path, &m, why, g->err);
    if (status)
        return status;
    *why = NULL;
    if (m.job == known->job)
        return RONDA_OK;
    *known = m;
    r->count = m.count;
    r->job = m.job;
    bool far = m.host != rd_host_number();
    for (uint32_t i = 0; i < m.count; i++) {
        r->at[i] = (rd_target){.ip = m.at[i], .port = m.port};
        far = far && rd_ip_is_loopback(&m.at[i]);
    }
    if (far && !g->j->key)
        return rd_fail(
            g->err, RONDA_EINVAL, 0,
            "rank %u (on %s): rank 0 is on another host, and has no RONDA_KEY: set one on "
            "all ranks, or RONDA_INSECURE=1 to let in whoever comes",
            g->j->rank, g->own.name);
    return RONDA_OK;
}

/* The addresses of rank 0, as far as they are known by now. */
static ronda_status look_up(rd_gathering *g, rd_reaching *r, rd_address_file *known,
                            const char **why)
{
    if (g->j->address.kind == RD_ADDRESS_FILE)
        return look_into_file(g, r, known, why);
    if (r->count)
        return RONDA_OK;
    if (!rd_reach_name(r, &g->j->address, why))
        return RONDA_ETIMEOUT;
    *why = NULL;
    for (uint32_t i = 0; i < r->count; i++) {
        const ronda_status status = rd_gathering_allows(g, &r->at[i].ip);
        if (status)
            return status;
    }
    return RONDA_OK;
}

static ronda_status find_rank_0(rd_gathering *g, rd_reaching *r, rd_session *session)
{
    const bool file = g->j->address.kind == RD_ADDRESS_FILE;
    const uint64_t patience = rd_deadline_ns(UNKNOWN_NAME_NS);
    const char *why = NULL;
    rd_address_file known = {0};
    for (uint32_t round = 0;; round++) {
        ronda_status status = look_up(g, r, &known, &why);
        if (!status && g->listener < 0)
            status = rd_gathering_settle(g, &r->at[0].ip);
        if (!status) {
            status = rd_reach_once(r, session, &g->places[0], g->err);
        }
        if (status != RONDA_ETIMEOUT || g->err->status == RONDA_ETIMEOUT)
            return status;
        const uint64_t now = rd_now_ns();
        if (now >= g->until_ns || (!file && (why ? now >= patience : rd_reach_hopeless(r))))
            return unreachable(g, r, why);
        rd_reach_pause(round, g->until_ns);
    }
}

/* --- joining --- */

static ronda_status give_place(rd_gathering *g, rd_session *s, bool *stay)
{
    uint8_t place[RD_PLACE];
    rd_frame frame = {.kind = RD_FRAME_PLACE, .from = g->j->rank, .job = g->job, .bytes = RD_PLACE};
    rd_place_pack(&g->own, place);
    rd_session_send(s, &frame, place, g->until_ns); /* if not: the reason is received next */
    const rd_received received = rd_session_await(s, g->until_ns, &frame);
    if (received == RD_RECEIVED_FRAME && frame.kind == RD_FRAME_REJECT)
        return rd_session_rejected(s, &frame, g->err);
    if (received == RD_RECEIVED_PART)
        return rd_rank_0_did_not_answer(g->j, g->err);
    char who[128];
    rd_spread_name(g, 0, who, sizeof who);
    if (received != RD_RECEIVED_FRAME || frame.kind != RD_FRAME_NOTED)
        return rd_fail(g->err, RONDA_EPEER, 0, "%s %s while the ranks were gathering", who,
                       received == RD_RECEIVED_END ? "left" : "said what makes no sense");
    *stay = frame.number != 0;
    return RONDA_OK;
}

/* The table, as it was sent: the places in it, and this rank where it should be. */
static ronda_status read_table(rd_gathering *g, const uint8_t *table)
{
    bool good = true;
    for (uint32_t r = 0; r < g->j->size && good; r++)
        good = rd_place_unpack(table + (size_t)r * RD_PLACE, &g->places[r]);
    const rd_place *me = &g->places[g->j->rank];
    if (good && me->pid == g->own.pid && me->port == g->own.port && me->host == g->own.host)
        return RONDA_OK;
    return rd_fail(g->err, RONDA_EPEER, 0, "rank %u: rank 0 described the world wrongly",
                   g->j->rank);
}

static ronda_status await_on_line(rd_gathering *g, rd_session *up)
{
    rd_frame frame;
    char who[128];
    const rd_received received = rd_session_await(up, rd_gathering_later(g, 2), &frame);
    rd_spread_name(g, 0, who, sizeof who);
    if (received == RD_RECEIVED_PART)
        return rd_fail(g->err, RONDA_ETIMEOUT, 0, "rank %u: %s did not start within %.3g s",
                       g->j->rank, who, (double)g->j->timeout_ns / 1e9);
    if (received == RD_RECEIVED_FRAME && frame.kind == RD_FRAME_REJECT)
        return rd_session_rejected(up, &frame, g->err);
    if (received == RD_RECEIVED_FRAME && frame.kind == RD_FRAME_TABLE)
        return RONDA_OK;
    return rd_fail(g->err, RONDA_EPEER, 0, "%s %s while the ranks were gathering", who,
                   received == RD_RECEIVED_END ? "left" : "said what makes no sense");
}

/* --- being called back --- */

typedef struct {
    rd_gathering *g;
    rd_session *up;
    bool done;
} waiting;

static ronda_status judge_caller(rd_acceptor *d, rd_incoming *from, char why[RD_FRAME_BODY])
{
    const rd_frame *proof = &from->proof;
    if (proof->job == d->job && proof->size == d->size && proof->to == d->rank &&
        (proof->from == 0 || proof->from == rd_spread_parent(d->rank)))
        return RONDA_OK;
    snprintf(why, RD_FRAME_BODY, "this is rank %u of %u of another job", d->rank, d->size);
    return RONDA_EPEER;
}

static ronda_status hear_caller(rd_acceptor *d, rd_incoming *from, const rd_frame *frame,
                                rd_error *err)
{
    waiting *w = d->owner;
    if (frame->kind == RD_FRAME_REJECT)
        return rd_session_rejected(&from->session, frame, err);
    if (frame->kind == RD_FRAME_TABLE && from->proof.from == rd_spread_parent(d->rank)) {
        *w->up = from->session;
        from->session.fd = -1;
        w->done = true;
        return RONDA_OK;
    }
    rd_session_close(&from->session);
    return RONDA_OK;
}

static ronda_status lose_caller(rd_acceptor *d, rd_incoming *from, const char *how, rd_error *err)
{
    (void)d, (void)from, (void)how, (void)err;
    return RONDA_OK; /* it may call again, and rank 0 will hear of it if not */
}

static ronda_status await_call(rd_gathering *g, uint8_t *table, rd_session *up)
{
    const uint64_t until_ns = rd_gathering_later(g, 2);
    waiting w = {.g = g, .up = up};
    rd_acceptor d = {.listeners = {g->listener},
                     .listener_count = 1,
                     .way = g->way,
                     .key = g->key,
                     .rank = g->j->rank,
                     .size = g->j->size,
                     .job = g->job,
                     .place = &g->own,
                     .table = table,
                     .table_bytes = (size_t)g->j->size * RD_PLACE,
                     .owner = &w,
                     .judge = judge_caller,
                     .hear = hear_caller,
                     .lose = lose_caller};
    ronda_status status = rd_acceptor_open(&d, 0, g->err);
    while (!status && !w.done) {
        if (rd_now_ns() >= until_ns)
            status = rd_fail(g->err, RONDA_ETIMEOUT, rd_spread_parent(g->j->rank),
                             "rank %u (on %s): neither rank 0 nor rank %u called within %.3g s",
                             g->j->rank, g->own.name, rd_spread_parent(g->j->rank),
                             (double)g->j->timeout_ns / 1e9);
        else
            status = rd_acceptor_step(&d, until_ns, g->err);
    }
    rd_acceptor_close(&d);
    return status;
}

static ronda_status join(rd_gathering *g, rd_session *line, uint8_t *table)
{
    rd_branch branches[RD_BRANCHES];
    uint32_t count = 0;
    bool stay = false;
    ronda_status status = give_place(g, line, &stay);
    if (status)
        return status;
    line->table = table;
    line->table_bytes = (size_t)g->j->size * RD_PLACE;
    if (stay) {
        status = await_on_line(g, line);
    } else {
        rd_session_close(line);
        status = await_call(g, table, line);
    }
    if (!status)
        status = read_table(g, table);
    if (!status && !stay)
        status = rd_spread_call(g, branches, &count);
    if (!status)
        return rd_spread(g, line, branches, count);
    for (uint32_t i = 0; i < count; i++)
        rd_session_reject(&branches[i].session, status, g->err->peer, g->err->message);
    rd_session_reject(line, status, g->err->peer, g->err->message);
    return status;
}

static ronda_status join_rank_0(rd_gathering *g)
{
    rd_reaching r = {.way = g->way,
                     .key = g->key,
                     .fetches = !g->key,
                     .rank = g->j->rank,
                     .size = g->j->size,
                     .until_ns = g->until_ns};
    rd_session line = {.fd = -1, .passed = -1};
    uint8_t *table = rd_alloc((size_t)g->j->size * RD_PLACE);
    ronda_status status = table
                              ? find_rank_0(g, &r, &line)
                              : rd_fail(g->err, RONDA_ENOMEM, RONDA_ANY,
                                        "rank %u: no memory for %u ranks", g->j->rank, g->j->size);
    g->job = r.job;
    g->way = r.way;
    if (r.secret[0]) {
        memcpy(g->secret, r.secret, sizeof g->secret);
        g->key = g->secret;
    }
    if (!status)
        status = join(g, &line, table);
    rd_session_close(&line);
    rd_free(table);
    return status;
}

/* --- all of it --- */

/* All ranks have the same table, and find the same. */
static ronda_status check_settings(const rd_gathering *g)
{
    const uint32_t other = rd_places_disagree(g->places, g->j->size);
    char first[100], second[100];
    if (other == g->j->size)
        return RONDA_OK;
    rd_spread_name(g, 0, first, sizeof first);
    rd_spread_name(g, other, second, sizeof second);
    return rd_fail(
        g->err, RONDA_EINVAL, other,
        "%s has RONDA_CHECKSUM=%s, but %s has RONDA_CHECKSUM=%s: set it alike for all ranks", first,
        rd_checksum_name(g->places[0].checksum), second,
        rd_checksum_name(g->places[other].checksum));
}

static ronda_status take_parts(rd_gathering *g, rd_tcp_parts *out)
{
    char *key = NULL;
    if (g->key) {
        key = rd_alloc(strlen(g->key) + 1);
        if (!key)
            return rd_fail(g->err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory", g->j->rank);
        memcpy(key, g->key, strlen(g->key) + 1);
    }
    *out = (rd_tcp_parts){.rank = g->j->rank,
                          .size = g->j->size,
                          .places = g->places,
                          .listener = g->listener,
                          .key = key,
                          .job = g->job,
                          .timeout_ns = g->j->timeout_ns};
    return RONDA_OK;
}

ronda_status rd_rendezvous(const rd_joining *j, rd_tcp_parts *out, rd_error *err)
{
    rd_gathering g = {.j = j,
                      .until_ns = rd_deadline_ns(j->timeout_ns),
                      .listener = -1,
                      .key = j->key,
                      .way = j->key        ? RD_WAY_KEY
                             : j->insecure ? RD_WAY_OPEN
                                           : RD_WAY_USER,
                      .loopback_alone =
                          (!j->key && !j->insecure) || rd_address_is_loopback(&j->address),
                      .err = err};
    err->status = RONDA_OK;
    if (g.way != RD_WAY_OPEN && !rd_mac_possible()) {
        char why[200];
        rd_mac_lacks(why, sizeof why);
        return rd_fail(err, RONDA_EUNSUPPORTED, RONDA_ANY,
                       "rank %u: no libcrypto to prove %s with: %s", j->rank,
                       j->key ? "the job's key" : "that ranks are of one user", why);
    }
    if (j->address.kind == RD_ADDRESS_FILE && j->address.path[0] == '@')
        return rd_fail(
            err, RONDA_EINVAL, RONDA_ANY,
            "RONDA_ADDR=file:%s is a name within one host, for RONDA_TRANSPORT=shm; between "
            "hosts write HOST:PORT or file:PATH",
            j->address.path);
    rd_host_name(g.own.name);
    g.own.checksum = j->checksum;
    g.places = rd_alloc((size_t)j->size * sizeof *g.places);
    ronda_status status = g.places ? RONDA_OK
                                   : rd_fail(err, RONDA_ENOMEM, RONDA_ANY,
                                             "rank %u: no memory for %u ranks", j->rank, j->size);
    if (!status)
        status = j->rank == 0 ? rd_rendezvous_root(&g) : join_rank_0(&g);
    if (!status)
        status = check_settings(&g);
    if (!status)
        status = take_parts(&g, out);
    if (!status)
        return RONDA_OK;
    if (g.listener >= 0)
        close(g.listener);
    rd_free(g.places);
    return status;
}
