/* bootstrap.c: joining a world, as a guest of rank 0.
 *
 *     guest                                      rank 0 (gather.c)
 *       | --- hello: nonce ------------------------> |
 *       | <-- challenge: nonce --------------------- |   or reject: the key
 *       | --- proof: answer, rank, size; doorbell -> |
 *       | <-- welcome: answer ---------------------- |   or reject: why
 *       |              ... until all have come ...   |
 *       | <-- peer: rank, pid; doorbell  (size times)|   or reject: who is missing
 *       | <-- start; memory ------------------------ |
 *       | --- ready -------------------------------> |
 *       | <-- go ----------------------------------- |
 *
 * Over a unix socket, where descriptors can travel and the system tells who is at the other end: only
 * the same user is let in, and must know the key if there is one.  An answer is a mac of the key over both nonces,
 * rank and size; where there is no libcrypto it is a plain hash, which is no proof, and the user has to do.  With
 * a TCP address, rank 0 first tells the name of its unix socket there. */
#include "comm/bootstrap.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/proof.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

int32_t rd_join_way(const char *key)
{
    return !key ? RD_KEYLESS : rd_mac_possible() ? RD_PROVES : RD_ONLY_TELLS;
}

static void hash_of(const char *key, const uint8_t *text, size_t bytes, uint8_t out[32])
{
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t hash = rd_hash(rd_hash(RD_HASH_START + i, key, strlen(key)), text, bytes);
        memcpy(out + 8 * i, &hash, 8);
    }
}

bool rd_join_answer(const char *key, const char *who, const uint8_t root[32],
                    const uint8_t guest[32], uint32_t rank, uint32_t size, uint8_t out[32])
{
    uint8_t text[96] = {0};
    memset(out, 0, 32);
    if (!key)
        return true;
    memcpy(text, who, strlen(who));
    memcpy(text + 8, root, 32);
    memcpy(text + 40, guest, 32);
    for (int i = 0; i < 4; i++) {
        text[72 + i] = (uint8_t)(rank >> 8 * i);
        text[76 + i] = (uint8_t)(size >> 8 * i);
    }
    if (rd_mac_possible())
        return rd_mac(key, text, sizeof text, out);
    hash_of(key, text, sizeof text, out);
    return true;
}

/* --- the guest --- */

enum { MOST_GRACE_NS = 500000000 };

typedef struct {
    const rd_joining *j;
    rd_address door; /* rank 0's unix socket */
    int fd;          /* -1: none */
    bool left;       /* rank 0 has closed it without a word */
    uint64_t until_ns;
    rd_error *err;
} guest;

static ronda_status connect_until(const guest *g, const rd_address *a, int *fd)
{
    char place[280];
    for (;;) {
        *fd = rd_socket_connect(a);
        if (*fd >= 0)
            return RONDA_OK;
        const int why = errno;
        if (rd_socket_scarce(why))
            return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY, "rank %u: no socket: %s",
                           rd_join_name(g->j, g->j->rank), strerror(why));
        if (rd_now_ns() >= g->until_ns) {
            const bool elsewhere =
                why == ECONNREFUSED && a->kind == RD_ADDRESS_FILE && a->path[0] != '@';
            rd_address_text(a, place, sizeof place);
            return rd_fail(g->err, RONDA_ETIMEOUT, 0,
                           "rank %u: no rank %u at %s within %.3g s: %s%s",
                           rd_join_name(g->j, g->j->rank), rd_join_name(g->j, 0), place,
                           (double)g->j->timeout_ns / 1e9, strerror(why),
                           elsewhere ? " (if it is on another host: RONDA_TRANSPORT=hosts)" : "");
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

ronda_status rd_rank_0_is_mute(const rd_joining *j, rd_error *err)
{
    char place[280];
    rd_address_text(&j->address, place, sizeof place);
    return rd_fail(err, RONDA_ETIMEOUT, 0, "rank %u: rank %u at %s did not answer within %.3g s",
                   rd_join_name(j, j->rank), rd_join_name(j, 0), place,
                   (double)j->timeout_ns / 1e9);
}

/* The next frame, which must be of this kind; a rejection is the error. */
static ronda_status expect(guest *g, uint32_t kind, rd_frame *frame, int *passed)
{
    rd_incoming in = {.passed = -1};
    const bool whole = rd_socket_await(g->fd, &in, g->until_ns);
    const rd_frame_verdict verdict = whole ? rd_frame_unpack(in.bytes, frame) : RD_FRAME_FOREIGN;
    if (passed)
        *passed = in.passed;
    else if (in.passed >= 0)
        close(in.passed);
    if (!whole && rd_now_ns() >= g->until_ns)
        return rd_rank_0_is_mute(g->j, g->err);
    g->left = !whole;
    if (!whole)
        return rd_fail(g->err, RONDA_EPEER, 0,
                       "rank %u: rank %u left while the ranks were gathering",
                       rd_join_name(g->j, g->j->rank), rd_join_name(g->j, 0));
    if (verdict == RD_FRAME_VERSION)
        return rd_fail(
            g->err, RONDA_EUNSUPPORTED, 0, "rank %u: rank %u speaks version %u, this is version %d",
            rd_join_name(g->j, g->j->rank), rd_join_name(g->j, 0), frame->version, RD_WIRE_VERSION);
    if (verdict == RD_FRAME_OK && frame->kind == RD_REJECT)
        return rd_fail(g->err,
                       frame->number < 0 && frame->number >= RONDA_EINTERNAL ? frame->number
                                                                             : RONDA_EPEER,
                       frame->rank < g->j->size ? frame->rank : RONDA_ANY, "rank %u: %s",
                       rd_join_name(g->j, g->j->rank), frame->text);
    if (passed && *passed < 0 && in.cut)
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY,
                       "rank %u cannot take the descriptors of %u ranks: %s",
                       rd_join_name(g->j, g->j->rank), g->j->size, strerror(EMFILE));
    if (verdict != RD_FRAME_OK || frame->kind != kind)
        return rd_fail(
            g->err, RONDA_EPEER, 0, "rank %u: what answers at rank %u's address is not rank %u",
            rd_join_name(g->j, g->j->rank), rd_join_name(g->j, 0), rd_join_name(g->j, 0));
    return RONDA_OK;
}

static ronda_status say(guest *g, const rd_frame *frame, int passed)
{
    if (rd_socket_send(g->fd, frame, passed, g->until_ns))
        return RONDA_OK;
    rd_frame last; /* it may have said why before it closed */
    const ronda_status status = expect(g, RD_REJECT, &last, NULL);
    return status ? status
                  : rd_fail(g->err, RONDA_EPEER, 0,
                            "rank %u: rank %u left while the ranks were gathering",
                            rd_join_name(g->j, g->j->rank), rd_join_name(g->j, 0));
}

static ronda_status greet(guest *g, int doorbell)
{
    const rd_joining *j = g->j;
    rd_frame hello = {.kind = RD_HELLO, .number = rd_join_way(j->key)};
    rd_frame challenge, welcome, proof = {.kind = RD_PROOF, .rank = j->rank, .size = j->size};
    uint8_t expected[32];
    uint32_t user;
    int32_t pid;
    if (!rd_socket_peer(g->fd, &user, &pid) || user != geteuid())
        return rd_fail(g->err, RONDA_EPEER, 0,
                       "rank %u: rank %u's socket belongs to another user (%u)",
                       rd_join_name(j, j->rank), rd_join_name(j, 0), user);
    if (!rd_random(hello.nonce, sizeof hello.nonce))
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY,
                       "rank %u: the system has no random numbers", rd_join_name(j, j->rank));
    ronda_status status = say(g, &hello, -1);
    if (!status)
        status = expect(g, RD_CHALLENGE, &challenge, NULL);
    if (status)
        return status;
    if (!rd_join_answer(j->key, "guest", challenge.nonce, hello.nonce, j->rank, j->size,
                        proof.answer))
        return rd_fail(g->err, RONDA_EUNSUPPORTED, RONDA_ANY,
                       "rank %u: libcrypto does not prove the job's key", rd_join_name(j, j->rank));
    status = say(g, &proof, doorbell);
    if (!status)
        status = expect(g, RD_WELCOME, &welcome, NULL);
    if (status)
        return status;
    rd_join_answer(j->key, "root", challenge.nonce, hello.nonce, j->rank, j->size, expected);
    if (!rd_mac_equal(expected, welcome.answer))
        return rd_fail(g->err, RONDA_EPEER, 0,
                       "rank %u: what answers at rank %u's address does not know the job's key",
                       rd_join_name(j, j->rank), rd_join_name(j, 0));
    return RONDA_OK;
}

/* Who has not proved the key may have to make way for others, and comes again, if rank 0 is still there. */
static ronda_status greet_until(guest *g, int doorbell)
{
    enum { MOST_TRIES = 20 };
    ronda_status status = greet(g, doorbell);
    for (int i = 1; i < MOST_TRIES && status && g->left; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        const int fd = rd_socket_connect(&g->door);
        if (fd < 0)
            return status;
        close(g->fd);
        g->fd = fd;
        g->left = false;
        status = greet(g, doorbell);
    }
    return status;
}

/* Everybody's doorbell and pid, then the memory. */
static ronda_status receive_world(guest *g, rd_shm_parts *parts)
{
    rd_frame frame;
    for (uint32_t r = 0; r < g->j->size; r++) {
        int bell;
        const ronda_status status = expect(g, RD_PEER, &frame, &bell);
        const bool good = !status && frame.rank == r && bell >= 0;
        if (good && parts->doorbells[r] < 0)
            parts->doorbells[r] = bell;
        else if (bell >= 0)
            close(bell); /* our own came back */
        if (status)
            return status;
        if (!good)
            return rd_fail(g->err, RONDA_EPEER, 0, "rank %u: rank %u described the world wrongly",
                           rd_join_name(g->j, g->j->rank), rd_join_name(g->j, 0));
        parts->pids[r] = frame.number;
    }
    const ronda_status status = expect(g, RD_START, &frame, &parts->memfd);
    if (!status && parts->memfd < 0)
        return rd_fail(g->err, RONDA_EPEER, 0, "rank %u: rank %u sent no memory",
                       rd_join_name(g->j, g->j->rank), rd_join_name(g->j, 0));
    return status;
}

/* Rank 0 knows who is missing, so who has been let in leaves the last word to it. */
static void wait_longer(guest *g)
{
    const uint64_t part = g->j->timeout_ns / RD_GRACE_PART;
    if (g->until_ns < UINT64_MAX / 2)
        g->until_ns += part < MOST_GRACE_NS ? part : MOST_GRACE_NS;
}

/* A rank is gone: perhaps because the start has failed, and then rank 0 has said why. */
static ronda_status ask_rank_0(guest *g)
{
    const rd_error own = *g->err;
    rd_frame last = {0};
    expect(g, RD_REJECT, &last, NULL);
    if (last.kind != RD_REJECT)
        *g->err = own;
    return g->err->status;
}

static ronda_status join(guest *g, rd_shm_parts *parts, rd_link **out)
{
    rd_frame go;
    parts->doorbells[g->j->rank] = rd_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (parts->doorbells[g->j->rank] < 0)
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY, "rank %u: no eventfd: %s",
                       rd_join_name(g->j, g->j->rank), strerror(errno));
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
    status = say(g, &(rd_frame){.kind = RD_READY, .rank = g->j->rank}, -1);
    if (!status)
        status = expect(g, RD_GO, &go, NULL);
    if (status)
        link->transport->close(link);
    else
        *out = link;
    return status;
}

/* The unix socket to say hello at: the address itself, or what rank 0 tells at it. */
static ronda_status find_door(guest *g)
{
    rd_address *door = &g->door;
    rd_frame frame;
    *door = g->j->address;
    if (door->kind == RD_ADDRESS_FILE)
        return RONDA_OK;
    for (;;) {
        ronda_status status = connect_until(g, &g->j->address, &g->fd);
        if (status)
            return status;
        status = expect(g, RD_DOOR, &frame, NULL);
        close(g->fd);
        if (!status && frame.text[0] == '@' && strlen(frame.text) < sizeof door->path) {
            *door = (rd_address){.kind = RD_ADDRESS_FILE};
            memcpy(door->path, frame.text, strlen(frame.text) + 1);
            return RONDA_OK;
        }
        if (status != RONDA_EPEER || rd_now_ns() >= g->until_ns)
            return status ? status
                          : rd_fail(g->err, RONDA_EPEER, 0,
                                    "rank %u: rank %u told no address of its unix socket",
                                    rd_join_name(g->j, g->j->rank), rd_join_name(g->j, 0));
        /* Refused: rank 0 is not there yet */
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

ronda_status rd_bootstrap(const rd_joining *j, rd_link **out, rd_error *err)
{
    if (j->rank == 0)
        return rd_gather(j, out, err);
    guest g = {.j = j, .fd = -1, .until_ns = rd_deadline_ns(j->timeout_ns), .err = err};
    rd_shm_parts parts;
    ronda_status status = rd_shm_gather_parts(j->rank, j->size, &parts, err);
    parts.names = j->names;
    if (!status)
        status = find_door(&g);
    if (!status)
        status = connect_until(&g, &g.door, &g.fd);
    if (!status) {
        status = join(&g, &parts, out);
        close(g.fd);
    }
    rd_shm_free_parts(&parts);
    return status;
}
