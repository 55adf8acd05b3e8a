#include "comm/acceptor.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proof.h"
#include "comm/socket.h"
#include "transport/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long one who has not proved the key may take: without a hello, with one, and with one while others wait. */
static const uint64_t SILENCE_NS = 2000000000, PATIENCE_NS = 5000000000,
                      SHORT_PATIENCE_NS = 1000000000;
static const uint64_t SAYING_NS = 100000000;
enum { MOST_ACCEPTS = 32 }; /* in one step */

ronda_status rd_acceptor_open(rd_acceptor *d, uint32_t staying, rd_error *err)
{
    d->capacity = RD_UNPROVEN + staying;
    d->incoming = rd_alloc(d->capacity * sizeof *d->incoming);
    d->polled = rd_alloc((d->capacity + 2 * RD_LISTENERS) * sizeof *d->polled);
    if (!d->incoming || !d->polled) {
        rd_free(d->incoming);
        rd_free(d->polled);
        d->incoming = NULL;
        d->polled = NULL;
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for %u ranks", d->rank,
                       d->size);
    }
    for (uint32_t i = 0; i < d->capacity; i++)
        d->incoming[i].session.fd = -1;
    return RONDA_OK;
}

void rd_acceptor_close(rd_acceptor *d)
{
    for (uint32_t i = 0; d->incoming && i < d->capacity; i++)
        rd_session_close(&d->incoming[i].session);
    rd_free(d->incoming);
    rd_free(d->polled);
    d->incoming = NULL;
    d->polled = NULL;
}

/* --- what a connection brings --- */

/* Answers one who has proved nothing: not in words, and of this world it learns nothing. */
static void refuse(rd_acceptor *d, rd_incoming *from, rd_refusal why)
{
    char caller[32];
    if (why == RD_REFUSES_KEY) {
        d->wrong_keys++;
    } else if (from->pid) {
        snprintf(caller, sizeof caller, "pid %" PRId32, from->pid);
        rd_refusal_text((int32_t)why, d->rank, caller, d->refused);
        d->refused_pid = from->pid;
    }
    rd_session_refuse(&from->session, why);
}

static void refuse_way(rd_acceptor *d, rd_incoming *from, int32_t way)
{
    const bool has_key = d->way == RD_WAY_KEY || d->way == RD_WAY_HASH;
    const bool key = way == RD_WAY_KEY || way == RD_WAY_HASH;
    if (!key && d->way == RD_WAY_USER)
        rd_session_close(&from->session); /* it has another secret, or none yet: let it try again */
    else if (!key)
        refuse(d, from, has_key ? RD_REFUSES_NO_KEY : RD_REFUSES_CAUTION);
    else if (!has_key)
        refuse(d, from, RD_REFUSES_ANY_KEY);
    else if (way == (int32_t)d->way)
        refuse(d, from, RD_REFUSES_KEY);
    else
        refuse(d, from, way == RD_WAY_HASH ? RD_REFUSES_HASH : RD_REFUSES_MAC);
}

static void hear_hello(rd_acceptor *d, rd_incoming *from, const rd_frame *frame)
{
    rd_session *s = &from->session;
    if (frame->number != (int32_t)d->way) {
        refuse_way(d, from, frame->number);
        return;
    }
    if (!rd_random(s->nonces[1], RD_NONCE)) {
        refuse(d, from, RD_REFUSES_FAILURE);
        return;
    }
    from->greeted = true;
    const rd_frame challenge = {.kind = RD_FRAME_CHALLENGE, .bytes = RD_NONCE};
    if (!rd_session_send(s, &challenge, s->nonces[1], rd_now_ns() + SAYING_NS))
        rd_session_close(s);
}

static ronda_status lose(rd_acceptor *d, rd_incoming *from, const char *how, rd_error *err)
{
    const ronda_status status = d->lose(d, from, how, err);
    rd_session_close(&from->session);
    return status;
}

static ronda_status hear_proof(rd_acceptor *d, rd_incoming *from, const rd_frame *frame,
                               rd_error *err)
{
    rd_session *s = &from->session;
    char why[RD_FRAME_BODY] = "";
    uint8_t place[RD_PLACE];
    from->proof = *frame;
    const ronda_status status = d->judge(d, from, why);
    if (status) {
        d->refused_pid = from->pid;
        memcpy(d->refused, why, sizeof why);
        rd_session_reject(s, status, RONDA_ANY, why);
        return RONDA_OK;
    }
    from->welcome = true;
    s->table = d->table;
    s->table_bytes = d->table_bytes;
    rd_frame welcome = {
        .kind = RD_FRAME_WELCOME, .from = d->rank, .to = frame->from, .job = d->job};
    if (d->place) {
        rd_place_pack(d->place, place);
        welcome.bytes = RD_PLACE;
    }
    return rd_session_send(s, &welcome, place, rd_now_ns() + SAYING_NS)
               ? RONDA_OK
               : lose(d, from, "left", err);
}

/* Rubbish is not answered. */
static void turn_away(rd_acceptor *d, rd_incoming *from, rd_received received,
                      const rd_frame *frame)
{
    if (received == RD_RECEIVED_VERSION)
        refuse(d, from, RD_REFUSES_VERSION);
    else if (received == RD_RECEIVED_FORGED && frame->kind == RD_FRAME_HELLO)
        refuse_way(d, from, frame->number);
    else
        rd_session_close(&from->session);
}

static ronda_status hear(rd_acceptor *d, rd_incoming *from, rd_error *err)
{
    rd_frame frame;
    while (from->session.fd >= 0) {
        const rd_received received = rd_session_receive(&from->session, &frame);
        ronda_status status = RONDA_OK;
        if (from->session.cut && from->session.passed < 0)
            return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY,
                           "rank %u cannot take the doorbells of %u ranks: %s", d->rank, d->size,
                           strerror(EMFILE));
        if (received == RD_RECEIVED_PART)
            return RONDA_OK;
        if (received != RD_RECEIVED_FRAME && from->welcome)
            status = lose(d, from,
                          received == RD_RECEIVED_END ? "left" : "said what makes no sense", err);
        else if (received != RD_RECEIVED_FRAME)
            turn_away(d, from, received, &frame);
        else if (from->welcome)
            status = d->hear(d, from, &frame, err);
        else if (!from->greeted && frame.kind == RD_FRAME_HELLO)
            hear_hello(d, from, &frame);
        else if (from->greeted && frame.kind == RD_FRAME_PROOF)
            status = hear_proof(d, from, &frame, err);
        else
            rd_session_close(&from->session);
        if (status)
            return status;
    }
    return RONDA_OK;
}

/* --- who comes, and who has to go --- */

/* When one who has not proved the key has to go, if others wait or not. */
static uint64_t end_of(const rd_incoming *v, bool others)
{
    if (!v->greeted)
        return others ? v->since_ns : v->since_ns + SILENCE_NS;
    return v->since_ns + (others ? SHORT_PATIENCE_NS : PATIENCE_NS);
}

/* A free slot for one who has proved nothing, if there is one; *next: who has to go next.  Who has proved the key
 * never has to. */
static rd_incoming *free_place(rd_acceptor *d, rd_incoming **next)
{
    rd_incoming *found = NULL;
    uint32_t unproven = 0;
    *next = NULL;
    for (uint32_t i = 0; i < d->capacity; i++) {
        rd_incoming *v = &d->incoming[i];
        if (v->session.fd < 0) {
            found = v;
        } else if (!v->stays) {
            unproven++;
            if (!v->welcome && (!*next || end_of(v, true) < end_of(*next, true)))
                *next = v;
        }
    }
    return d->local || unproven < RD_UNPROVEN ? found : NULL;
}

/* Accepts one and hears what it has said already.  *more: perhaps others wait. */
static ronda_status let_in(rd_acceptor *d, int listener, bool *more, rd_error *err)
{
    rd_incoming *next;
    rd_incoming *place = free_place(d, &next);
    *more = place || (next && rd_now_ns() >= end_of(next, true));
    if (!*more)
        return RONDA_OK;
    const int one = 1, fd = rd_socket_accept(listener);
    *more = fd >= 0;
    if (fd < 0 && rd_socket_scarce(errno))
        return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank %u cannot let other ranks in: %s",
                       d->rank, strerror(errno));
    if (fd < 0)
        return RONDA_OK;
    rd_incoming comes = {.session = rd_session_open(fd, false, d->key, d->size),
                         .since_ns = rd_now_ns()};
    uint32_t user;
    if (d->local && (!rd_socket_peer(fd, &user, &comes.pid) || user != geteuid())) {
        rd_session_refuse(&comes.session, RD_REFUSES_USER); /* and takes no slot */
        return RONDA_OK;
    }
    if (!place) {
        rd_session_close(&next->session);
        place = next;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *place = comes;
    return hear(d, place, err);
}

static ronda_status answer(rd_acceptor *d, int listener, rd_error *err)
{
    bool more = true;
    ronda_status status = RONDA_OK;
    for (int i = 0; i < MOST_ACCEPTS && more && !status; i++)
        status = let_in(d, listener, &more, err);
    return status;
}

/* What is polled; the time to wait at most, since those who have proved nothing have a time of their own. */
static nfds_t look(rd_acceptor *d, uint64_t now, uint64_t *until_ns)
{
    rd_incoming *next;
    nfds_t n = 0;
    const bool room = free_place(d, &next) != NULL;
    const bool open = room || (next && now >= end_of(next, true));
    const uint64_t end = next ? end_of(next, !open) : UINT64_MAX;
    *until_ns = end < *until_ns ? end : *until_ns;
    for (uint32_t i = 0; i < d->listener_count; i++)
        d->polled[n++] = (struct pollfd){.fd = open ? d->listeners[i] : -1, .events = POLLIN};
    for (uint32_t i = 0; i < d->giver_count; i++)
        d->polled[n++] = (struct pollfd){.fd = d->givers[i], .events = POLLIN};
    for (uint32_t i = 0; i < d->capacity; i++) {
        rd_incoming *v = &d->incoming[i];
        v->polled = n;
        if (v->session.fd >= 0)
            d->polled[n++] = (struct pollfd){.fd = v->session.fd, .events = POLLIN};
    }
    return n;
}

/* Hears those who have proved the key, or the others, and closes whose time is over. */
static ronda_status hear_some(rd_acceptor *d, bool welcome, bool ready, rd_error *err)
{
    const uint64_t now = rd_now_ns();
    for (uint32_t i = 0; i < d->capacity; i++) {
        rd_incoming *v = &d->incoming[i];
        if (v->session.fd < 0 || v->welcome != welcome || !v->polled)
            continue;
        if (ready && d->polled[v->polled].revents) {
            d->polled[v->polled].revents = 0; /* it may have become welcome: once is enough */
            const ronda_status status = hear(d, v, err);
            if (status)
                return status;
        } else if (!v->stays && !welcome && now > end_of(v, false)) {
            rd_session_close(&v->session);
        }
    }
    return RONDA_OK;
}

ronda_status rd_acceptor_step(rd_acceptor *d, uint64_t until_ns, rd_error *err)
{
    const uint64_t now = rd_now_ns();
    const nfds_t n = look(d, now, &until_ns);
    const uint64_t ms = until_ns > now ? (until_ns - now) / 1000000 + 1 : 0;
    const int ready = poll(d->polled, n, ms > INT_MAX ? INT_MAX : (int)ms);
    if (ready < 0 && errno != EINTR)
        return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank %u cannot wait for other ranks: %s",
                       d->rank, strerror(errno));
    ronda_status status = hear_some(d, true, ready > 0, err);
    if (!status)
        status = hear_some(d, false, ready > 0, err);
    for (uint32_t i = 0; i < d->listener_count && ready > 0 && !status; i++)
        if (d->polled[i].revents)
            status = answer(d, d->listeners[i], err);
    for (uint32_t i = 0; i < d->giver_count && ready > 0 && !status; i++)
        if (d->polled[d->listener_count + i].revents)
            status = d->give(d, d->givers[i], err);
    return status;
}
