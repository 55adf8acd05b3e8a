/* gather.c: rank 0 lets the others in, and starts the world when all are there.
 *
 * Everybody who connects is heard at the same time: who says nothing, or rubbish, holds nobody up and is sent
 * away; when there are many who have not proved the key, whoever of them came first makes room.  bootstrap.c
 * draws the conversation. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/proof.h"
#include "comm/bootstrap.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    STRANGERS = 64,   /* connections beyond one per rank that are heard at a time */
    MOST_ACCEPTS = 32 /* that are accepted before others are heard again */
};

typedef struct {
    int fd; /* -1: free */
    enum { SAYS_HELLO, SHOWS_PROOF, WAITS, IS_READY } state;
    uint32_t rank;
    int doorbell;
    int32_t pid;
    uint64_t came;                /* its knock */
    uint8_t mine[32], theirs[32]; /* nonces */
    nfds_t polled;                /* its place in polled[] */
    rd_incoming in;
} guest;

typedef struct {
    const rd_joining *j;
    rd_address door;
    int listener, tcp; /* -1: none */
    uint64_t until_ns;
    guest *guests;
    uint32_t capacity;
    uint32_t *guest_of; /* per rank: 1 + its place in guests[], 0: not come */
    uint32_t come, ready;
    uint64_t knocks;
    uint32_t wrong_keys; /* how often somebody came with one */
    int32_t refused_pid; /* who was last sent away for another reason, and the reason; 0: nobody */
    char refused[RD_FRAME_TEXT];
    struct pollfd *polled;
    rd_error *err;
} gathering;

static void forget(guest *from)
{
    if (from->fd >= 0)
        close(from->fd);
    if (from->doorbell >= 0)
        close(from->doorbell);
    if (from->in.passed >= 0)
        close(from->in.passed);
    *from = (guest){.fd = -1, .doorbell = -1, .in.passed = -1};
}

/* peer: whom it is about, or RONDA_ANY. */
static void reject(guest *from, ronda_status status, uint32_t peer, const char *text)
{
    rd_frame no = {.kind = RD_REJECT, .number = status, .rank = peer};
    snprintf(no.text, sizeof no.text, "%s", text);
    rd_socket_send(from->fd, &no, -1, rd_now_ns() + 100000000);
    forget(from);
}

/* Rank 0 remembers it: if a rank is missing in the end, that may be why. */
static void refuse(gathering *g, guest *from, ronda_status status, const char *why)
{
    g->refused_pid = from->pid;
    snprintf(g->refused, sizeof g->refused, "%s", why);
    reject(from, status, 0, why);
}

/* --- one guest after the other --- */

static void hear_hello(gathering *g, guest *from, const rd_frame *f)
{
    const rd_joining *j = g->j;
    char why[RD_FRAME_TEXT];
    why[0] = 0;
    if ((f->number != RD_KEYLESS) != (j->key != NULL))
        snprintf(why, sizeof why, "rank 0 has %s RONDA_KEY", j->key ? "a" : "no");
    else if (f->number != rd_join_way(j->key))
        snprintf(
            why, sizeof why,
            "%s has no libcrypto to prove its RONDA_KEY with, but %s has, and asks for a proof",
            rd_mac_possible() ? "this rank" : "rank 0", rd_mac_possible() ? "rank 0" : "this rank");
    else if (!rd_random(from->mine, sizeof from->mine))
        snprintf(why, sizeof why, "rank 0: the system has no random numbers");
    if (why[0]) {
        refuse(g, from, RONDA_EINVAL, why);
        return;
    }
    memcpy(from->theirs, f->nonce, sizeof from->theirs);
    rd_frame challenge = {.kind = RD_CHALLENGE};
    memcpy(challenge.nonce, from->mine, sizeof challenge.nonce);
    from->state = SHOWS_PROOF;
    if (!rd_socket_send(from->fd, &challenge, -1, rd_now_ns() + 100000000))
        forget(from);
}

/* Who has proved the key is told what is wrong with its rank and size. */
static void judge(const gathering *g, const guest *from, const rd_frame *f, char why[RD_FRAME_TEXT])
{
    const rd_joining *j = g->j;
    why[0] = 0;
    if (f->size != j->size)
        snprintf(why, RD_FRAME_TEXT, "this rank was told of %u ranks, but rank 0 of %u", f->size,
                 j->size);
    else if (f->rank == 0 || f->rank >= j->size)
        snprintf(why, RD_FRAME_TEXT,
                 f->rank ? "there is no rank %u in a world of %u" : "there is a rank %u already",
                 f->rank, j->size);
    else if (g->guest_of[f->rank])
        snprintf(why, RD_FRAME_TEXT, "there is a rank %u already: pid %" PRId32,
                 rd_join_name(j, f->rank), g->guests[g->guest_of[f->rank] - 1].pid);
    else if (from->in.passed < 0)
        snprintf(why, RD_FRAME_TEXT, "the proof came without a doorbell");
}

static void hear_proof(gathering *g, guest *from, const rd_frame *f)
{
    const rd_joining *j = g->j;
    uint8_t expected[32];
    char why[RD_FRAME_TEXT];
    rd_frame welcome = {.kind = RD_WELCOME};
    if (!rd_join_answer(j->key, "guest", from->mine, from->theirs, f->rank, f->size, expected) ||
        !rd_mac_equal(expected, f->answer)) {
        g->wrong_keys++;
        reject(from, RONDA_EINVAL, 0, "its RONDA_KEY is not rank 0's");
        return;
    }
    judge(g, from, f, why);
    if (why[0]) {
        refuse(g, from, RONDA_EINVAL, why);
        return;
    }
    from->rank = f->rank;
    from->doorbell = from->in.passed;
    from->in.passed = -1;
    rd_join_answer(j->key, "root", from->mine, from->theirs, from->rank, j->size, welcome.answer);
    if (!rd_socket_send(from->fd, &welcome, -1, rd_now_ns() + 1000000000)) {
        forget(from);
        return;
    }
    from->state = WAITS;
    g->guest_of[from->rank] = (uint32_t)(from - g->guests) + 1;
    g->come++;
}

/* Rank 0 itself fails if somebody who had joined leaves or speaks out of turn: its place must not
 * become a stranger's. */
static ronda_status lose(gathering *g, guest *from, const char *how)
{
    const guest was = *from;
    forget(from);
    if (was.state < WAITS)
        return RONDA_OK;
    return rd_fail(g->err, RONDA_EPEER, was.rank,
                   "rank %u (pid %" PRId32 ") %s while the ranks were gathering",
                   rd_join_name(g->j, was.rank), was.pid, how);
}

static ronda_status hear(gathering *g, guest *from)
{
    rd_frame f;
    if (!rd_socket_receive(from->fd, &from->in))
        return lose(g, from, "left");
    if (from->in.cut && from->in.passed < 0)
        return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY,
                       "rank %u cannot take the doorbells of %u ranks: %s", rd_join_name(g->j, 0),
                       g->j->size, strerror(EMFILE));
    if (from->in.have < RD_FRAME)
        return RONDA_OK;
    from->in.have = 0;
    const rd_frame_verdict verdict = rd_frame_unpack(from->in.bytes, &f);
    if (verdict == RD_FRAME_VERSION && from->state < WAITS) {
        char why[RD_FRAME_TEXT];
        snprintf(why, sizeof why, "rank 0 speaks version %d, this rank version %u", RD_WIRE_VERSION,
                 f.version);
        refuse(g, from, RONDA_EUNSUPPORTED, why);
    } else if (verdict == RD_FRAME_OK && from->state == SAYS_HELLO && f.kind == RD_HELLO) {
        hear_hello(g, from, &f);
    } else if (verdict == RD_FRAME_OK && from->state == SHOWS_PROOF && f.kind == RD_PROOF) {
        hear_proof(g, from, &f);
    } else if (verdict == RD_FRAME_OK && from->state == WAITS && f.kind == RD_READY) {
        from->state = IS_READY;
        g->ready++;
    } else {
        return lose(g, from, "said what makes no sense"); /* or a stranger did */
    }
    return RONDA_OK;
}

/* Whoever knocked may be gone again; but if rank 0 can open no socket, nobody can come in. */
static ronda_status open_to(gathering *g, int listener, int *fd)
{
    *fd = rd_socket_accept(listener);
    if (*fd >= 0 || !rd_socket_scarce(errno))
        return RONDA_OK;
    return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY, "rank %u cannot let the other ranks in: %s",
                   rd_join_name(g->j, 0), strerror(errno));
}

/* A free place, or that of the first who came of those that have not proved the key: there are more places than
 * ranks, so there is one. */
static guest *place_for_guest(gathering *g)
{
    guest *oldest = NULL;
    for (uint32_t i = 0; i < g->capacity; i++) {
        guest *at = &g->guests[i];
        if (at->fd < 0)
            return at;
        if (at->state < WAITS && (!oldest || at->came < oldest->came))
            oldest = at;
    }
    if (oldest)
        forget(oldest);
    return oldest;
}

/* Another user's are sent away before they take a place.  *more: perhaps others wait. */
static ronda_status let_in(gathering *g, bool *more)
{
    guest knocks = {.doorbell = -1, .in.passed = -1, .came = ++g->knocks};
    uint32_t user;
    const ronda_status status = open_to(g, g->listener, &knocks.fd);
    *more = knocks.fd >= 0;
    if (knocks.fd < 0)
        return status;
    if (!rd_socket_peer(knocks.fd, &user, &knocks.pid) || user != geteuid()) {
        reject(&knocks, RONDA_EPEER, 0, "rank 0 belongs to another user");
        return RONDA_OK;
    }
    guest *at = place_for_guest(g);
    if (at)
        *at = knocks;
    else
        close(knocks.fd); /* too many strangers at once: let it try again */
    return RONDA_OK;
}

static ronda_status show_door(gathering *g, bool *more)
{
    rd_frame door = {.kind = RD_DOOR};
    int fd;
    const ronda_status status = open_to(g, g->tcp, &fd);
    *more = fd >= 0;
    if (fd < 0)
        return status;
    snprintf(door.text, sizeof door.text, "%s", g->door.path);
    rd_socket_send(fd, &door, -1, rd_now_ns() + 100000000);
    close(fd);
    return RONDA_OK;
}

static ronda_status accept_some(gathering *g, ronda_status (*accept_one)(gathering *, bool *))
{
    ronda_status status = RONDA_OK;
    bool more = true;
    for (int i = 0; i < MOST_ACCEPTS && more && !status; i++)
        status = accept_one(g, &more);
    return status;
}

/* --- until all are there --- */

/* "1, 4, 7 and 3 more": those who have not come, or who have come and are not ready.  *first: the first of them. */
static uint32_t list_late(const gathering *g, bool ready, char *text, size_t capacity,
                          uint32_t *first)
{
    size_t at = 0;
    uint32_t left = 0, count = 0;
    for (uint32_t r = g->j->size - 1; r > 0; r--)
        if (!g->guest_of[r] || (ready && g->guests[g->guest_of[r] - 1].state != IS_READY)) {
            *first = r;
            count++;
        }
    for (uint32_t r = 1; r < g->j->size; r++) {
        if (g->guest_of[r] && (!ready || g->guests[g->guest_of[r] - 1].state == IS_READY))
            continue;
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
    char keys[80] = "", refused[RD_FRAME_TEXT + 60] = "";
    if (g->wrong_keys)
        snprintf(keys, sizeof keys, "; %u came with another RONDA_KEY", g->wrong_keys);
    if (g->refused_pid)
        snprintf(refused, sizeof refused, "; pid %" PRId32 " was sent away with: %s",
                 g->refused_pid, g->refused);
    return rd_fail(g->err, RONDA_ETIMEOUT, RONDA_ANY,
                   "after %.3g s %u of %u ranks had come; missing: rank %s%s%s",
                   (double)g->j->timeout_ns / 1e9, g->come + 1, g->j->size, who, keys, refused);
}

/* Until somebody says something or knocks; polled[0] is the door, polled[1] that of TCP.  No more than
 * there is: poll() takes no longer list than this process may open files. */
static ronda_status await_anybody(gathering *g, uint64_t now)
{
    nfds_t n = 0;
    g->polled[n++] = (struct pollfd){.fd = g->listener, .events = POLLIN};
    g->polled[n++] = (struct pollfd){.fd = g->tcp, .events = POLLIN};
    for (uint32_t i = 0; i < g->capacity; i++)
        if (g->guests[i].fd >= 0) {
            g->guests[i].polled = n;
            g->polled[n++] = (struct pollfd){.fd = g->guests[i].fd, .events = POLLIN};
        }
    const uint64_t ms = (g->until_ns - now) / 1000000 + 1;
    const int ready = poll(g->polled, n, ms > INT_MAX ? INT_MAX : (int)ms);
    for (nfds_t i = 0; i < n && ready <= 0; i++)
        g->polled[i].revents = 0;
    if (ready >= 0 || errno == EINTR)
        return RONDA_OK;
    return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY, "rank %u cannot wait for the other ranks: %s",
                   rd_join_name(g->j, 0), strerror(errno));
}

/* Hears everybody until `*done` reaches all guests. */
static ronda_status hear_all(gathering *g, const uint32_t *done)
{
    while (*done < g->j->size - 1) {
        const uint64_t now = rd_now_ns();
        if (now >= g->until_ns)
            return g->come < g->j->size - 1 ? missing(g) : not_ready(g);
        ronda_status status = await_anybody(g, now);
        for (uint32_t i = 0; i < g->capacity && !status; i++)
            if (g->guests[i].fd >= 0 && g->polled[g->guests[i].polled].revents)
                status = hear(g, &g->guests[i]);
        if (!status && g->polled[0].revents)
            status = accept_some(g, let_in);
        if (!status && g->polled[1].revents)
            status = accept_some(g, show_door);
        if (status)
            return status;
    }
    return RONDA_OK;
}

static guest *guest_at(gathering *g, uint32_t rank)
{
    return g->guest_of[rank] ? &g->guests[g->guest_of[rank] - 1] : NULL;
}

static bool tell(gathering *g, uint32_t rank, const rd_frame *frame, int passed)
{
    const guest *to = guest_at(g, rank);
    return to && to->fd >= 0 && rd_socket_send(to->fd, frame, passed, g->until_ns);
}

static ronda_status describe_world(gathering *g, const rd_shm_parts *parts)
{
    for (uint32_t to = 1; to < g->j->size; to++) {
        bool sent = true;
        for (uint32_t r = 0; r < g->j->size && sent; r++)
            sent = tell(g, to, &(rd_frame){.kind = RD_PEER, .rank = r, .number = parts->pids[r]},
                        parts->doorbells[r]);
        if (!sent || !tell(g, to, &(rd_frame){.kind = RD_START}, parts->memfd))
            return rd_fail(g->err, RONDA_EPEER, to, "rank %u left while the ranks were gathering",
                           rd_join_name(g->j, to));
    }
    return RONDA_OK;
}

static ronda_status start_world(gathering *g, rd_shm_parts *parts, rd_link **out)
{
    for (uint32_t r = 1; r < g->j->size; r++) {
        parts->doorbells[r] = guest_at(g, r)->doorbell;
        guest_at(g, r)->doorbell = -1;
        parts->pids[r] = guest_at(g, r)->pid;
    }
    ronda_status status = rd_shm_prepare(parts->memfd, parts->pids, g->j->size, g->err);
    if (!status)
        status = describe_world(g, parts);
    if (status)
        return status;
    rd_link *link;
    status = rd_shm_open(parts, &link, g->err);
    if (status)
        return status;
    status = hear_all(g, &g->ready);
    for (uint32_t r = 1; r < g->j->size && !status; r++)
        if (!tell(g, r, &(rd_frame){.kind = RD_GO}, -1))
            status = rd_fail(g->err, RONDA_EPEER, r, "rank %u left while the ranks were gathering",
                             rd_join_name(g->j, r));
    if (status)
        link->transport->close(link);
    else
        *out = link;
    return status;
}

/* --- opening and closing the door --- */

static ronda_status open_door(gathering *g)
{
    const rd_joining *j = g->j;
    g->door = j->address;
    if (j->address.kind == RD_ADDRESS_TCP) {
        uint8_t name[16];
        if (!rd_random(name, sizeof name))
            return rd_fail(g->err, RONDA_ESYSTEM, RONDA_ANY,
                           "rank 0: the system has no random numbers");
        g->door = (rd_address){.kind = RD_ADDRESS_FILE, .path = "@ronda-"};
        for (size_t i = 0; i < sizeof name; i++)
            snprintf(g->door.path + 7 + 2 * i, 3, "%02x", name[i]);
        g->tcp = rd_socket_listen(&j->address, g->err);
        if (g->tcp < 0)
            return g->err->status;
    }
    g->listener = rd_socket_listen(&g->door, g->err);
    return g->listener < 0 ? g->err->status : RONDA_OK;
}

static void end_gathering(gathering *g, ronda_status status)
{
    const bool own = g->err->peer == RONDA_ANY && status != RONDA_ETIMEOUT;
    for (uint32_t i = 0; g->guests && i < g->capacity; i++) {
        if (status && g->guests[i].fd >= 0 && g->guests[i].state >= WAITS)
            reject(&g->guests[i], status, own ? 0 : g->err->peer, g->err->message);
        forget(&g->guests[i]);
    }
    if (g->listener >= 0) {
        if (g->door.path[0] != '@') /* while it is ours: the next job may be waiting for the name */
            unlink(g->door.path);
        close(g->listener);
    }
    if (g->tcp >= 0)
        close(g->tcp);
    rd_free(g->guests);
    rd_free(g->guest_of);
    rd_free(g->polled);
}

static bool make_room(gathering *g)
{
    g->capacity = g->j->size + STRANGERS;
    g->guests = rd_alloc(g->capacity * sizeof *g->guests);
    g->guest_of = rd_alloc(g->j->size * sizeof *g->guest_of);
    g->polled = rd_alloc((g->capacity + 2) * sizeof *g->polled);
    for (uint32_t i = 0; g->guests && i < g->capacity; i++)
        g->guests[i] = (guest){.fd = -1, .doorbell = -1, .in.passed = -1};
    return g->guests && g->guest_of && g->polled;
}

ronda_status rd_gather(const rd_joining *j, rd_link **out, rd_error *err)
{
    gathering g = {
        .j = j, .listener = -1, .tcp = -1, .until_ns = rd_deadline_ns(j->timeout_ns), .err = err};
    rd_shm_parts parts;
    ronda_status status = rd_shm_gather_parts(0, j->size, &parts, err);
    parts.names = j->names;
    if (!status && !make_room(&g))
        status = rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank 0: no memory for %u ranks", j->size);
    if (!status) {
        parts.pids[0] = getpid();
        parts.doorbells[0] = rd_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
        if (parts.doorbells[0] < 0)
            status =
                rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank 0: no eventfd: %s", strerror(errno));
    }
    if (!status && (parts.memfd = rd_shm_create(j->size, err)) < 0)
        status = err->status;
    if (!status)
        status = open_door(&g);
    if (!status)
        status = hear_all(&g, &g.come);
    if (!status)
        status = start_world(&g, &parts, out);
    end_gathering(&g, status);
    rd_shm_free_parts(&parts);
    return status;
}
