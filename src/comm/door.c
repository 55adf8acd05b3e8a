#include "comm/door.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proof.h"
#include "comm/socket.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long one who has not proved the key may take: at all; and when others wait, with a hello and without. */
static const uint64_t PATIENCE_NS = 10000000000, SHORT_PATIENCE_NS = 5000000000,
                      SILENCE_NS = 1000000000;
static const uint64_t SAYING_NS = 100000000;

ronda_status rd_door_open(rd_door *d, uint32_t staying, rd_error *err)
{
    d->capacity = RD_STRANGERS + staying;
    d->visitors = rd_alloc(d->capacity * sizeof *d->visitors);
    d->polled = rd_alloc((d->capacity + RD_LISTENERS) * sizeof *d->polled);
    if (!d->visitors || !d->polled) {
        rd_free(d->visitors);
        rd_free(d->polled);
        d->visitors = NULL;
        d->polled = NULL;
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for %u ranks", d->rank,
                       d->size);
    }
    for (uint32_t i = 0; i < d->capacity; i++)
        d->visitors[i].session.fd = -1;
    return RONDA_OK;
}

void rd_door_close(rd_door *d)
{
    for (uint32_t i = 0; d->visitors && i < d->capacity; i++)
        rd_session_close(&d->visitors[i].session);
    rd_free(d->visitors);
    rd_free(d->polled);
    d->visitors = NULL;
    d->polled = NULL;
}

/* --- what a visitor says --- */

static void hear_hello(rd_door *d, rd_visitor *from, const rd_note *note)
{
    rd_session *s = &from->session;
    char why[RD_NOTE_BODY] = "";
    ronda_status status = d->judge(d, note, why);
    if (!status && (note->number != 0) != (d->key != NULL)) {
        status = RONDA_EINVAL;
        snprintf(why, sizeof why, "rank %u has %s RONDA_KEY, rank %u has %s", d->rank,
                 d->key ? "a" : "no", note->rank, d->key ? "none" : "one");
    }
    memcpy(s->nonces[0], s->body, 32);
    if (!status && !rd_random(s->nonces[1], 32)) {
        status = RONDA_ESYSTEM;
        snprintf(why, sizeof why, "rank %u: the system has no random numbers", d->rank);
    }
    if (status) {
        rd_session_reject(s, status, RONDA_ANY, why);
        return;
    }
    from->hello = *note;
    from->greeted = true;
    const rd_note challenge = {
        .kind = RD_NOTE_CHALLENGE, .rank = d->rank, .peer = note->rank, .bytes = 32};
    if (!rd_session_say(s, &challenge, s->nonces[1], rd_now_ns() + SAYING_NS))
        rd_session_close(s);
    s->keyed = true;
}

static void hear_proof(rd_door *d, rd_visitor *from)
{
    rd_session *s = &from->session;
    char why[RD_NOTE_BODY] = "";
    uint8_t place[RD_PLACE];
    const ronda_status status = d->judge(d, &from->hello, why); /* another may have been faster */
    if (status) {
        rd_session_reject(s, status, RONDA_ANY, why);
        return;
    }
    rd_place_pack(&d->place, place);
    from->welcome = true;
    s->table = d->table;
    const rd_note welcome = {.kind = RD_NOTE_WELCOME,
                             .rank = d->rank,
                             .peer = from->hello.rank,
                             .job = d->job,
                             .bytes = RD_PLACE};
    if (!rd_session_say(s, &welcome, place, rd_now_ns() + SAYING_NS))
        rd_session_close(s);
}

static void refuse(rd_door *d, rd_visitor *from, rd_heard heard, const rd_note *note)
{
    char why[RD_NOTE_BODY];
    if (heard == RD_HEARD_VERSION) {
        snprintf(why, sizeof why, "rank %u speaks version %d, this rank version %u", d->rank,
                 RD_WIRE_VERSION, note->version);
        rd_session_reject(&from->session, RONDA_EUNSUPPORTED, RONDA_ANY, why);
    } else if (heard == RD_HEARD_FORGED) {
        d->wrong_keys++;
        snprintf(why, sizeof why, "rank %u: its RONDA_KEY is not that of rank %u", from->hello.rank,
                 d->rank);
        rd_session_reject(&from->session, RONDA_EINVAL, RONDA_ANY, why);
    } else {
        rd_session_close(&from->session); /* rubbish is not answered */
    }
}

static ronda_status hear(rd_door *d, rd_visitor *from, rd_error *err)
{
    rd_note note;
    while (from->session.fd >= 0) {
        const rd_heard heard = rd_session_hear(&from->session, &note);
        if (heard == RD_HEARD_PART)
            return RONDA_OK;
        ronda_status status = RONDA_OK;
        if (heard != RD_HEARD_NOTE && from->welcome) {
            status =
                d->lose(d, from, heard == RD_HEARD_END ? "left" : "said what makes no sense", err);
            rd_session_close(&from->session);
        } else if (heard != RD_HEARD_NOTE) {
            refuse(d, from, heard, &note);
        } else if (from->welcome) {
            status = d->hear(d, from, &note, err);
        } else if (!from->greeted && note.kind == RD_NOTE_HELLO) {
            hear_hello(d, from, &note);
        } else if (from->greeted && note.kind == RD_NOTE_PROOF) {
            hear_proof(d, from);
        } else {
            rd_session_close(&from->session);
        }
        if (status)
            return status;
    }
    return RONDA_OK;
}

/* --- who comes, and who has to go --- */

static ronda_status let_in(rd_door *d, int listener, rd_visitor *place, rd_error *err)
{
    const int one = 1, fd = rd_socket_accept(listener);
    if (fd < 0 && rd_socket_scarce(errno))
        return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank %u cannot let other ranks in: %s",
                       d->rank, strerror(errno));
    if (fd < 0)
        return RONDA_OK;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *place = (rd_visitor){.session = rd_session_open(fd, false, d->key, d->size),
                          .since_ns = rd_now_ns()};
    return RONDA_OK;
}

/* When a stranger has to go, if others wait or not. */
static uint64_t end_of(const rd_visitor *v, bool others)
{
    return v->since_ns + (!others ? PATIENCE_NS : v->greeted ? SHORT_PATIENCE_NS : SILENCE_NS);
}

/* A free place for a stranger, if there is one; *next: the stranger who has to go next.  Who has proved the key
 * never has to. */
static rd_visitor *free_place(rd_door *d, rd_visitor **next)
{
    rd_visitor *found = NULL;
    uint32_t strangers = 0;
    *next = NULL;
    for (uint32_t i = 0; i < d->capacity; i++) {
        rd_visitor *v = &d->visitors[i];
        if (v->session.fd < 0) {
            found = v;
        } else if (!v->stays) {
            strangers++;
            if (!v->welcome && (!*next || end_of(v, true) < end_of(*next, true)))
                *next = v;
        }
    }
    return strangers < RD_STRANGERS ? found : NULL;
}

static ronda_status answer(rd_door *d, int listener, rd_error *err)
{
    rd_visitor *next;
    rd_visitor *place = free_place(d, &next);
    if (!place && next && rd_now_ns() > end_of(next, true)) {
        rd_session_close(&next->session);
        place = next;
    }
    return place ? let_in(d, listener, place, err) : RONDA_OK;
}

/* Who may be heard; the time to wait at most, since strangers have a time of their own. */
static nfds_t look(rd_door *d, uint64_t now, uint64_t *until_ns)
{
    rd_visitor *next;
    nfds_t n = 0;
    const bool room = free_place(d, &next) != NULL;
    const bool open = room || (next && now > end_of(next, true));
    const uint64_t end = next ? end_of(next, !open) : UINT64_MAX;
    *until_ns = end < *until_ns ? end : *until_ns;
    for (uint32_t i = 0; i < d->listener_count; i++)
        d->polled[n++] = (struct pollfd){.fd = open ? d->listeners[i] : -1, .events = POLLIN};
    for (uint32_t i = 0; i < d->capacity; i++) {
        rd_visitor *v = &d->visitors[i];
        v->polled = n;
        if (v->session.fd >= 0)
            d->polled[n++] = (struct pollfd){.fd = v->session.fd, .events = POLLIN};
    }
    return n;
}

ronda_status rd_door_step(rd_door *d, uint64_t until_ns, rd_error *err)
{
    uint64_t now = rd_now_ns();
    const nfds_t n = look(d, now, &until_ns);
    const uint64_t ms = until_ns > now ? (until_ns - now) / 1000000 + 1 : 0;
    const int ready = poll(d->polled, n, ms > INT_MAX ? INT_MAX : (int)ms);
    if (ready < 0 && errno != EINTR)
        return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank %u cannot wait for other ranks: %s",
                       d->rank, strerror(errno));
    now = rd_now_ns();
    for (uint32_t i = 0; i < d->capacity; i++) {
        rd_visitor *v = &d->visitors[i];
        if (v->session.fd < 0)
            continue;
        if (ready > 0 && d->polled[v->polled].revents) {
            const ronda_status status = hear(d, v, err);
            if (status)
                return status;
        } else if (!v->stays && !v->welcome && now > end_of(v, false)) {
            rd_session_close(&v->session);
        }
    }
    for (uint32_t i = 0; i < d->listener_count && ready > 0; i++)
        if (d->polled[i].revents) {
            const ronda_status status = answer(d, d->listeners[i], err);
            if (status)
                return status;
        }
    return RONDA_OK;
}
