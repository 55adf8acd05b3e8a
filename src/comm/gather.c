/* gather.c: rank 0 lets the other ranks of its host in, and starts the world when all are there.
 *
 * Everybody who connects is heard at the same time (acceptor.h).  bootstrap.c draws the conversation. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/proof.h"
#include "comm/acceptor.h"
#include "comm/bootstrap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MOST_TOLD = 32 }; /* where the unix socket is, before others are heard again */

typedef struct {
    uint32_t slot; /* 1 + its place in acceptor.incoming, 0: not come */
    bool ready;
} arrival;

typedef struct {
    const rd_joining *j;
    rd_acceptor acceptor;
    rd_address at; /* the unix socket */
    uint64_t until_ns;
    arrival *of; /* [size] */
    uint32_t come, ready;
    rd_shm_parts parts;
    rd_error *err;
} gathering;

/* --- one rank after the other --- */

/* Who has proved the key is told what is wrong with its rank and size. */
static ronda_status judge(rd_acceptor *d, rd_incoming *from, char why[RD_FRAME_BODY])
{
    gathering *g = d->owner;
    const rd_joining *j = g->j;
    const uint32_t rank = from->proof.from, size = from->proof.size;
    if (size != j->size)
        snprintf(why, RD_FRAME_BODY, "this rank was told of %u ranks, but rank 0 of %u", size,
                 j->size);
    else if (rank == 0 || rank >= j->size)
        snprintf(why, RD_FRAME_BODY,
                 rank ? "there is no rank %u in a world of %u" : "there is a rank %u already", rank,
                 j->size);
    else if (g->of[rank].slot)
        snprintf(why, RD_FRAME_BODY, "there is a rank %u already: pid %" PRId32,
                 rd_join_name(j, rank), g->parts.pids[rank]);
    else if (from->session.passed < 0)
        snprintf(why, RD_FRAME_BODY, "the proof came without a doorbell");
    if (why[0])
        return RONDA_EINVAL;
    g->parts.doorbells[rank] = rd_session_take_fd(&from->session);
    g->parts.pids[rank] = from->pid;
    g->of[rank].slot = (uint32_t)(from - d->incoming) + 1;
    g->come++;
    from->stays = true;
    return RONDA_OK;
}

/* Rank 0 itself fails if somebody who had joined leaves or speaks out of turn: its place must not become that of one
 * who has proved nothing. */
static ronda_status lose(rd_acceptor *d, rd_incoming *from, const char *how, rd_error *err)
{
    const gathering *g = d->owner;
    return rd_fail(err, RONDA_EPEER, from->proof.from,
                   "rank %u (pid %" PRId32 ") %s while the ranks were gathering",
                   rd_join_name(g->j, from->proof.from), from->pid, how);
}

static ronda_status hear(rd_acceptor *d, rd_incoming *from, const rd_frame *frame, rd_error *err)
{
    gathering *g = d->owner;
    arrival *who = &g->of[from->proof.from];
    if (frame->kind != RD_FRAME_READY || who->ready)
        return lose(d, from, "said what makes no sense", err);
    who->ready = true;
    g->ready++;
    return RONDA_OK;
}

/* Tells those who have come to the TCP address where the unix socket is. */
static ronda_status tell_socket(rd_acceptor *d, int listener, rd_error *err)
{
    const gathering *g = d->owner;
    const rd_frame frame = {.kind = RD_FRAME_SOCKET, .bytes = (uint32_t)strlen(g->at.path)};
    for (int i = 0; i < MOST_TOLD; i++) {
        const int fd = rd_socket_accept(listener);
        if (fd < 0 && rd_socket_scarce(errno))
            return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank %u cannot let other ranks in: %s",
                           d->rank, strerror(errno));
        if (fd < 0)
            break;
        rd_session s = rd_session_open(fd, false, NULL, 0);
        rd_session_send(&s, &frame, g->at.path, rd_now_ns() + 100000000);
        rd_session_close(&s);
    }
    return RONDA_OK;
}

/* --- until all are there --- */

/* "1, 4, 7 and 3 more": those who have not come, or who have come and are not ready.  *first: the first of them. */
static uint32_t list_late(const gathering *g, bool ready, char *text, size_t capacity,
                          uint32_t *first)
{
    size_t at = 0;
    uint32_t left = 0, count = 0;
    for (uint32_t r = 1; r < g->j->size; r++) {
        if (ready ? g->of[r].ready : g->of[r].slot)
            continue;
        *first = count++ ? *first : r;
        if (at + 16 < capacity)
            at += (size_t)snprintf(text + at, capacity - at, "%s%u", at ? ", " : "",
                                   rd_join_name(g->j, r));
        else
            left++;
    }
    if (left)
        snprintf(text + at, capacity - at, " and %u more", left);
    return count;
}

static ronda_status not_ready(const gathering *g)
{
    char who[200] = "";
    uint32_t first = 0;
    const uint32_t count = list_late(g, true, who, sizeof who, &first);
    return rd_fail(g->err, RONDA_ETIMEOUT, count == 1 ? first : RONDA_ANY,
                   "after %.3g s %u of %u ranks were ready to start; not ready: rank%s %s",
                   (double)g->j->timeout_ns / 1e9, g->ready + 1, g->j->size, count > 1 ? "s" : "",
                   who);
}

static ronda_status missing(const gathering *g)
{
    char who[200] = "";
    uint32_t first = 0;
    list_late(g, false, who, sizeof who, &first);
    char keys[80] = "", refused[RD_FRAME_BODY + 60] = "";
    if (g->acceptor.wrong_keys)
        snprintf(keys, sizeof keys, "; %u came with another RONDA_KEY", g->acceptor.wrong_keys);
    if (g->acceptor.refused_pid)
        snprintf(refused, sizeof refused, "; pid %" PRId32 " was sent away with: %s",
                 g->acceptor.refused_pid, g->acceptor.refused);
    return rd_fail(g->err, RONDA_ETIMEOUT, RONDA_ANY,
                   "after %.3g s %u of %u ranks had come; missing: rank %s%s%s",
                   (double)g->j->timeout_ns / 1e9, g->come + 1, g->j->size, who, keys, refused);
}

/* Hears everybody until `*done` reaches all others. */
static ronda_status hear_all(gathering *g, const uint32_t *done)
{
    while (*done < g->j->size - 1) {
        if (rd_now_ns() >= g->until_ns)
            return g->come < g->j->size - 1 ? missing(g) : not_ready(g);
        const ronda_status status = rd_acceptor_step(&g->acceptor, g->until_ns, g->err);
        if (status)
            return status;
    }
    return RONDA_OK;
}

/* --- the start --- */

static ronda_status tell(gathering *g, uint32_t rank, const rd_frame *frame, int passed)
{
    rd_session *s = &g->acceptor.incoming[g->of[rank].slot - 1].session;
    if (s->fd >= 0 && rd_session_send_fd(s, frame, passed, g->until_ns))
        return RONDA_OK;
    return rd_fail(g->err, RONDA_EPEER, rank, "rank %u left while the ranks were gathering",
                   rd_join_name(g->j, rank));
}

static ronda_status describe_world(gathering *g)
{
    const rd_shm_parts *p = &g->parts;
    ronda_status status = RONDA_OK;
    for (uint32_t to = 1; to < g->j->size && !status; to++) {
        for (uint32_t r = 0; r < g->j->size && !status; r++)
            status =
                tell(g, to, &(rd_frame){.kind = RD_FRAME_PEER, .from = r, .number = p->pids[r]},
                     p->doorbells[r]);
        if (!status)
            status = tell(g, to, &(rd_frame){.kind = RD_FRAME_START}, p->memfd);
    }
    return status;
}

static ronda_status start_world(gathering *g, rd_link **out)
{
    ronda_status status = rd_shm_prepare(g->parts.memfd, g->parts.pids, g->j->size, g->err);
    if (!status)
        status = describe_world(g);
    if (status)
        return status;
    rd_link *link;
    status = rd_shm_open(&g->parts, &link, g->err);
    if (status)
        return status;
    status = hear_all(g, &g->ready);
    for (uint32_t r = 1; r < g->j->size && !status; r++)
        status = tell(g, r, &(rd_frame){.kind = RD_FRAME_GO}, -1);
    if (status)
        link->transport->close(link);
    else
        *out = link;
    return status;
}

/* --- where the others come --- */

static ronda_status listen_to_all(gathering *g)
{
    const rd_joining *j = g->j;
    rd_acceptor *d = &g->acceptor;
    g->at = j->address;
    if (j->address.kind == RD_ADDRESS_TCP) {
        uint8_t name[16];
        if (!rd_random(name, sizeof name))
            return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY,
                           "rank 0: the system has no random numbers");
        g->at = (rd_address){.kind = RD_ADDRESS_FILE, .path = "@ronda-"};
        for (size_t i = 0; i < sizeof name; i++)
            snprintf(g->at.path + 7 + 2 * i, 3, "%02x", name[i]);
        const int tcp = rd_socket_listen(&j->address, g->err);
        if (tcp < 0)
            return g->err->status;
        d->givers[d->giver_count++] = tcp;
    }
    const int listener = rd_socket_listen(&g->at, g->err);
    if (listener < 0)
        return g->err->status;
    d->listeners[d->listener_count++] = listener;
    return RONDA_OK;
}

static void end_gathering(gathering *g, ronda_status status)
{
    rd_acceptor *d = &g->acceptor;
    const bool own = g->err->peer == RONDA_ANY && status != RONDA_ETIMEOUT;
    for (uint32_t i = 0; status && d->incoming && i < d->capacity; i++)
        if (d->incoming[i].stays)
            rd_session_reject(&d->incoming[i].session, status, own ? 0 : g->err->peer,
                              g->err->message);
    rd_acceptor_close(d);
    if (d->listener_count) {
        if (g->at.path[0] != '@') /* while it is ours: the next job may be waiting for the name */
            unlink(g->at.path);
        close(d->listeners[0]);
    }
    if (d->giver_count)
        close(d->givers[0]);
    rd_free(g->of);
    rd_shm_free_parts(&g->parts);
}

ronda_status rd_gather(const rd_joining *j, rd_link **out, rd_error *err)
{
    gathering g = {.j = j,
                   .acceptor = {.local = true,
                                .way = rd_join_way(j->key),
                                .key = j->key,
                                .rank = rd_join_name(j, 0),
                                .size = j->size,
                                .judge = judge,
                                .hear = hear,
                                .lose = lose,
                                .give = tell_socket},
                   .until_ns = rd_deadline_ns(j->timeout_ns),
                   .err = err};
    g.acceptor.owner = &g;
    ronda_status status = rd_shm_gather_parts(0, j->size, &g.parts, err);
    g.parts.names = j->names;
    if (!status && !(g.of = rd_alloc(j->size * sizeof *g.of)))
        status = rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank 0: no memory for %u ranks", j->size);
    if (!status)
        status = rd_acceptor_open(&g.acceptor, j->size, err);
    if (!status) {
        g.parts.pids[0] = getpid();
        g.parts.doorbells[0] = rd_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
        if (g.parts.doorbells[0] < 0)
            status =
                rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank 0: no eventfd: %s", strerror(errno));
    }
    if (!status && (g.parts.memfd = rd_shm_create(j->size, err)) < 0)
        status = err->status;
    if (!status)
        status = listen_to_all(&g);
    if (!status)
        status = hear_all(&g, &g.come);
    if (!status)
        status = start_world(&g, out);
    end_gathering(&g, status);
    return status;
}
