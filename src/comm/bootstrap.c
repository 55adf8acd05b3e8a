/* bootstrap.c: joining a world of one host, as one of rank 0's peers.
 *
 *     rank r                                     rank 0 (gather.c)
 *       | == hello, challenge, proof, welcome ===> |   base/handshake.h; the proof brings r's doorbell
 *       |              ... until all have come ... |
 *       | <-- peer: rank, pid; doorbell  (size times)   or reject: who is missing
 *       | <-- start; memory ---------------------- |
 *       | --- ready -----------------------------> |
 *       | <-- go --------------------------------- |
 *
 * Over a unix socket, where descriptors can travel and the system tells who is at the other end: only the same user
 * is let in, and must know the key if there is one.  With a TCP address, rank 0 first tells the name of its unix
 * socket there. */
#include "comm/bootstrap.h"

#include "base/clock.h"
#include "base/fd.h"
#include "comm/session.h"
#include "transport/transports.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

rd_way rd_join_way(const char *key)
{
    return !key ? RD_WAY_USER : rd_mac_possible() ? RD_WAY_KEY : RD_WAY_HASH;
}

enum { MOST_GRACE_NS = 500000000 };

typedef struct {
    const rd_joining *j;
    rd_address at; /* rank 0's unix socket */
    rd_session session;
    bool left; /* rank 0 has closed it without a word */
    uint64_t until_ns;
    rd_error *err;
} joining;

static uint32_t own_name(const joining *g)
{
    return rd_join_name(g->j, g->j->rank);
}

static ronda_status connect_until(const joining *g, const rd_address *a, int *fd)
{
    char place[280];
    for (;;) {
        *fd = rd_socket_connect(a);
        if (*fd >= 0)
            return RONDA_OK;
        const int why = errno;
        if (rd_socket_scarce(why))
            return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY, "rank %u: no socket: %s", own_name(g),
                           strerror(why));
        if (rd_now_ns() >= g->until_ns) {
            const bool elsewhere =
                why == ECONNREFUSED && a->kind == RD_ADDRESS_FILE && a->path[0] != '@';
            rd_address_text(a, place, sizeof place);
            return rd_fail(g->err, RONDA_ETIMEOUT, 0,
                           "rank %u: no rank %u at %s within %.3g s: %s%s", own_name(g),
                           rd_join_name(g->j, 0), place, (double)g->j->timeout_ns / 1e9,
                           strerror(why),
                           elsewhere ? " (if it is on another host: RONDA_TRANSPORT=hosts)" : "");
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

ronda_status rd_rank_0_did_not_answer(const rd_joining *j, rd_error *err)
{
    char place[280];
    rd_address_text(&j->address, place, sizeof place);
    return rd_fail(err, RONDA_ETIMEOUT, 0, "rank %u: rank %u at %s did not answer within %.3g s",
                   rd_join_name(j, j->rank), rd_join_name(j, 0), place,
                   (double)j->timeout_ns / 1e9);
}

static ronda_status left(joining *g)
{
    g->left = true;
    return rd_fail(g->err, RONDA_EPEER, 0, "rank %u: rank %u left while the ranks were gathering",
                   own_name(g), rd_join_name(g->j, 0));
}

static ronda_status refused(const joining *g, const rd_frame *frame)
{
    char text[RD_FRAME_BODY + 1], caller[32];
    snprintf(caller, sizeof caller, "rank %u", own_name(g));
    const ronda_status status =
        g->session.proven ? RONDA_OK
                          : rd_refusal_text(frame->number, rd_join_name(g->j, 0), caller, text);
    if (status)
        return rd_fail(g->err, status, 0, "%s", text);
    rd_session_rejected(&g->session, frame, g->err);
    snprintf(text, sizeof text, "%s", g->err->message);
    return rd_fail(g->err, g->err->status, g->err->peer, "%s: %s", caller, text);
}

/* What was heard, which must be a frame of this kind; a rejection is the error. */
static ronda_status judge(joining *g, rd_received received, uint32_t kind, const rd_frame *frame)
{
    if (received == RD_RECEIVED_FRAME && frame->kind == kind)
        return RONDA_OK;
    if (received == RD_RECEIVED_FRAME && frame->kind == RD_FRAME_REJECT)
        return refused(g, frame);
    switch (received) {
    case RD_RECEIVED_PART:
        return rd_rank_0_did_not_answer(g->j, g->err);
    case RD_RECEIVED_END:
        return left(g);
    case RD_RECEIVED_VERSION:
        return rd_fail(g->err, RONDA_EUNSUPPORTED, 0,
                       "rank %u: rank %u speaks version %u, this is version %d", own_name(g),
                       rd_join_name(g->j, 0), frame->version, RD_WIRE_VERSION);
    case RD_RECEIVED_FORGED:
        return rd_fail(g->err, RONDA_EPEER, 0,
                       "rank %u: what answers at rank %u's address does not know the job's key",
                       own_name(g), rd_join_name(g->j, 0));
    case RD_RECEIVED_UNABLE:
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY,
                       "rank %u: no random numbers, or libcrypto does not prove the job's key",
                       own_name(g));
    default:
        return rd_fail(g->err, RONDA_EPEER, 0,
                       "rank %u: what answers at rank %u's address is not rank %u", own_name(g),
                       rd_join_name(g->j, 0), rd_join_name(g->j, 0));
    }
}

static ronda_status expect(joining *g, uint32_t kind, rd_frame *frame)
{
    const rd_received received = rd_session_await(&g->session, g->until_ns, frame);
    if (g->session.cut && g->session.passed < 0)
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY,
                       "rank %u cannot take the descriptors of %u ranks: %s", own_name(g),
                       g->j->size, strerror(EMFILE));
    return judge(g, received, kind, frame);
}

static ronda_status greet(joining *g, int doorbell)
{
    const rd_frame proof = {.kind = RD_FRAME_PROOF, .from = g->j->rank};
    rd_frame welcome;
    uint32_t user;
    int32_t pid;
    if (!rd_socket_peer(g->session.fd, &user, &pid) || user != geteuid())
        return rd_fail(g->err, RONDA_EPEER, 0,
                       "rank %u: rank %u's socket belongs to another user (%u)", own_name(g),
                       rd_join_name(g->j, 0), user);
    const rd_received received = rd_session_greet(&g->session, rd_join_way(g->j->key), &proof,
                                                  doorbell, g->until_ns, &welcome);
    return judge(g, received, RD_FRAME_WELCOME, &welcome);
}

static void open_session(joining *g, int fd)
{
    rd_session_close(&g->session);
    g->session = rd_session_open(fd, true, g->j->key, g->j->size);
    g->left = false;
}

/* Who has not proved the key may have to make way for others, and comes again, if rank 0 is still there. */
static ronda_status greet_until(joining *g, int doorbell)
{
    enum { MOST_TRIES = 20 };
    ronda_status status = greet(g, doorbell);
    for (int i = 1; i < MOST_TRIES && status && g->left; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        const int fd = rd_socket_connect(&g->at);
        if (fd < 0)
            return status;
        open_session(g, fd);
        status = greet(g, doorbell);
    }
    return status;
}

/* Everybody's doorbell and pid, then the memory. */
static ronda_status receive_world(joining *g, rd_shm_parts *parts)
{
    rd_frame frame;
    for (uint32_t r = 0; r < g->j->size; r++) {
        const ronda_status status = expect(g, RD_FRAME_PEER, &frame);
        const int bell = status ? -1 : rd_session_take_fd(&g->session);
        if (status)
            return status;
        const bool good = frame.from == r && bell >= 0;
        if (good && parts->doorbells[r] < 0)
            parts->doorbells[r] = bell;
        else if (bell >= 0)
            close(bell); /* our own came back */
        if (!good)
            return rd_fail(g->err, RONDA_EPEER, 0, "rank %u: rank %u described the world wrongly",
                           own_name(g), rd_join_name(g->j, 0));
        parts->pids[r] = frame.number;
    }
    const ronda_status status = expect(g, RD_FRAME_START, &frame);
    parts->memfd = status ? -1 : rd_session_take_fd(&g->session);
    if (!status && parts->memfd < 0)
        return rd_fail(g->err, RONDA_EPEER, 0, "rank %u: rank %u sent no memory", own_name(g),
                       rd_join_name(g->j, 0));
    return status;
}

/* Rank 0 knows who is missing, so who has been let in leaves the last word to it. */
static void wait_longer(joining *g)
{
    const uint64_t part = g->j->timeout_ns / RD_GRACE_PART;
    if (g->until_ns < UINT64_MAX / 2)
        g->until_ns += part < MOST_GRACE_NS ? part : MOST_GRACE_NS;
}

/* A rank is gone: perhaps because the start has failed, and then rank 0 has said why. */
static ronda_status ask_rank_0(joining *g)
{
    const rd_error own = *g->err;
    rd_frame last = {0};
    expect(g, RD_FRAME_REJECT, &last);
    if (last.kind == RD_FRAME_REJECT)
        return refused(g, &last);
    *g->err = own;
    return own.status;
}

static ronda_status join(joining *g, rd_shm_parts *parts, rd_link **out)
{
    rd_frame go;
    parts->doorbells[g->j->rank] = rd_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (parts->doorbells[g->j->rank] < 0)
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY, "rank %u: no eventfd: %s", own_name(g),
                       strerror(errno));
    ronda_status status = greet_until(g, parts->doorbells[g->j->rank]);
    wait_longer(g);
    if (!status)
        status = receive_world(g, parts);
    if (status)
        return status;
    rd_link *link;
    status = rd_shm_open(parts, &link, g->err);
    if (status)
        return status == RONDA_EPEER ? ask_rank_0(g) : status;
    const rd_frame ready = {.kind = RD_FRAME_READY, .from = g->j->rank};
    rd_session_send(&g->session, &ready, NULL,
                    g->until_ns); /* if not: the reason is received next */
    status = expect(g, RD_FRAME_GO, &go);
    if (status)
        link->transport->close(link);
    else
        *out = link;
    return status;
}

/* The unix socket to say hello at: the address itself, or what rank 0 tells at it. */
static ronda_status find_socket(joining *g)
{
    char text[RD_FRAME_BODY + 1];
    rd_frame frame;
    int fd;
    g->at = g->j->address;
    if (g->at.kind == RD_ADDRESS_FILE)
        return RONDA_OK;
    for (;;) {
        ronda_status status = connect_until(g, &g->j->address, &fd);
        if (status)
            return status;
        open_session(g, fd);
        status = expect(g, RD_FRAME_SOCKET, &frame);
        if (!status)
            rd_frame_text(g->session.body, frame.bytes, text);
        if (!status && text[0] == '@' && strlen(text) < sizeof g->at.path) {
            g->at = (rd_address){.kind = RD_ADDRESS_FILE};
            memcpy(g->at.path, text, strlen(text) + 1);
            return RONDA_OK;
        }
        if (status != RONDA_EPEER || rd_now_ns() >= g->until_ns)
            return status ? status
                          : rd_fail(g->err, RONDA_EPEER, 0,
                                    "rank %u: rank %u told no address of its unix socket",
                                    own_name(g), rd_join_name(g->j, 0));
        /* Refused: rank 0 is not there yet */
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

ronda_status rd_bootstrap(const rd_joining *j, rd_link **out, rd_error *err)
{
    if (j->rank == 0)
        return rd_gather(j, out, err);
    joining g = {
        .j = j, .session = {.fd = -1}, .until_ns = rd_deadline_ns(j->timeout_ns), .err = err};
    rd_shm_parts parts;
    int fd;
    ronda_status status = rd_shm_gather_parts(j->rank, j->size, &parts, err);
    parts.names = j->names;
    if (!status)
        status = find_socket(&g);
    if (!status)
        status = connect_until(&g, &g.at, &fd);
    if (!status) {
        open_session(&g, fd);
        status = join(&g, &parts, out);
    }
    rd_session_close(&g.session);
    rd_shm_free_parts(&parts);
    return status;
}
