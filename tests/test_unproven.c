/* test_unproven.c: connections that have not proved the key, or whose process is another user's.
 *
 * They do not get in, learn nothing of the world, and hold up nobody: neither while ranks gather nor in a call. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "calls.h"
#include "comm/same_user.h"
#include "duet.h"
#include "gather.h"
#include "processes.h"

/* --- another user --- */

enum { NOBODY = 65534 };

typedef struct {
    const char *transport;
    uint32_t flags;
    int other; /* the rank that is another user's, 2: both are */
    bool joins;
} users;

static int join_as(job *j, uint32_t rank)
{
    const users *u = j->context;
    const ronda_config config = {.struct_size = sizeof config,
                                 .rank = rank,
                                 .size = 2,
                                 .addr = j->address,
                                 .transport = u->transport,
                                 .flags = u->flags,
                                 .timeout_ns = 5000000000,
                                 .start_timeout_ns = u->joins ? 20000000000 : 500000000};
    ronda_comm *comm = NULL;
    if ((u->other == (int)rank || u->other == 2) && (setgid(NOBODY) || setuid(NOBODY)))
        return CHECK(false, "cannot become another user: %s", strerror(errno)), 1;
    const ronda_status status = ronda_init(&config, &comm);
    const char *text = status ? ronda_last_error(NULL) : "joined";
    CHECK((status == RONDA_OK) == u->joins, "%s, rank %u: %d: %s", u->transport, rank, status,
          text);
    if (!u->joins && rank)
        CHECK(strstr(text, "another user"), "%s, rank %u: %d: %s", u->transport, rank, status,
              text);
    if (!status) {
        int32_t sum = (int32_t)rank + 1;
        CHECK(ronda_allreduce(comm, &sum, &sum, 1, RONDA_I32, RONDA_SUM) == RONDA_OK && sum == 3,
              "%s", ronda_last_error(comm));
        ronda_close(comm);
    }
    return 0;
}

static void check_users(const users *u)
{
    job j = job_open(2, join_as, u);
    snprintf(j.address, sizeof j.address, "127.0.0.1:%u", gather_port());
    job_start(&j);
    job_wait(&j, 30);
    for (uint32_t r = 0; r < 2; r++)
        CHECK(j.status[r] == 0, "%s: rank %u has failed", u->transport, r);
    job_close(&j);
}

TEST(without_a_key_only_the_same_user_joins)
{
    static const char *const transports[] = {"tcp", "hosts", "shm"};
    for (int i = 0; i < 3; i++)
        check_users(&(users){.transport = transports[i], .other = -1, .joins = true});
    if (geteuid() != 0) {
        test_skip("only root can become another user");
        return;
    }
    for (int i = 0; i < 3; i++) {
        check_users(&(users){.transport = transports[i], .other = 2, .joins = true});
        for (int other = 0; other < 2; other++)
            check_users(&(users){.transport = transports[i], .other = other});
    }
    check_users(&(users){.transport = "tcp", .flags = RONDA_INSECURE, .other = 1, .joins = true});
}

/* What a process of this user gets from rank 0's socket for its user's ranks: how many bytes. */
static ssize_t fetch_by_hand(const char *address)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = 10};
    char secret[2 * RD_SECRET];
    const int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "ronda-user-%.*s-%s",
                                (int)strcspn(address, ":"), address, strchr(address, ':') + 1);
    const double end = seconds_now() + 10;
    int fd = -1, error;
    do { /* rank 0 may not listen yet */
        if (fd >= 0)
            close(fd);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        error = connect(fd, (struct sockaddr *)&name,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length));
        if (error)
            sleep_ms(2);
    } while (error && seconds_now() < end);
    if (!CHECK(!error, "nobody listens at @%s: %s", name.sun_path + 1, strerror(errno)))
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const ssize_t n = recv(fd, secret, sizeof secret, 0);
    close(fd);
    return n;
}

/* Rank 1 joins when the third process, which is no rank, has asked for the secret. */
static int ask_for_the_secret(job *j, uint32_t who)
{
    const double end = seconds_now() + 20;
    if (who < 2) {
        while (who == 1 && !j->shared->number[0] && seconds_now() < end)
            sleep_ms(2);
        return join_as(j, who);
    }
    const ssize_t own = fetch_by_hand(j->address);
    CHECK(own == RD_SECRET, "a process of the same user gets %zd bytes", own);
    if (CHECK(!setgid(NOBODY) && !setuid(NOBODY), "cannot become another user")) {
        const ssize_t others = fetch_by_hand(j->address);
        CHECK(others == 0, "a process of another user gets %zd bytes", others);
    }
    j->shared->number[0] = 1;
    return 0;
}

TEST(the_secret_is_given_to_the_same_user_only)
{
    const users same = {.transport = "tcp", .other = -1, .joins = true};
    if (geteuid() != 0) {
        test_skip("only root can become another user");
        return;
    }
    job j = job_open(3, ask_for_the_secret, &same);
    snprintf(j.address, sizeof j.address, "127.0.0.1:%u", gather_port());
    job_start(&j);
    job_wait(&j, 30);
    for (uint32_t r = 0; r < 3; r++)
        CHECK(j.status[r] == 0, "process %u has failed", r);
    job_close(&j);
}

/* --- what others learn --- */

static int dial(const char *text)
{
    rd_address a;
    rd_error err = {0};
    struct sockaddr_storage name;
    rd_ip ip;
    rd_address_read(text, &a, &err);
    rd_ip_read(a.host, &ip);
    const socklen_t length = rd_ip_sockaddr(&ip, a.port, &name);
    const int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&name, length) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int dial_until(const char *text)
{
    int fd = -1;
    for (int i = 0; i < 1000 && (fd = dial(text)) < 0; i++)
        sleep_ms(2);
    return fd;
}

typedef struct {
    gathered w;
    void (*body)(const gathered *w);
} beside;

static _Atomic uint32_t ended; /* ranks */

static bool goes_on(const gathered *w, double until)
{
    return ended + 1 < w->size && seconds_now() < until;
}

static void gather_beside(void *context, uint32_t at)
{
    beside *b = context;
    gathered_rank *me = &b->w.of[at];
    if (at + 1 == b->w.size) {
        b->body(&b->w);
        me->status = 1;
        return;
    }
    me->status = 1;
    sleep_ms(me->late_ms);
    const double start = seconds_now();
    if (!me->absent)
        me->status = rd_rendezvous(&me->j, &me->parts, &me->err);
    me->seconds = seconds_now() - start;
    ended++;
}

/* A world of size ranks, and beside them one thread more that does this. */
static beside open_beside(uint32_t size, uint32_t ms, void (*body)(const gathered *w))
{
    beside b = {.w = gather_open(size + 1, NULL), .body = body};
    ended = 0;
    for (uint32_t r = 0; r < size; r++) {
        b.w.of[r].j.size = size;
        b.w.of[r].j.timeout_ns = ms * 1000000ull;
    }
    return b;
}

/* All that rank 0 answers until it closes, or for a second. */
static size_t hear_all(int fd, uint8_t *bytes, size_t capacity)
{
    const struct timeval patience = {.tv_sec = 1};
    size_t have = 0;
    ssize_t n = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (have < capacity && (n = recv(fd, bytes + have, capacity - have, 0)) > 0)
        have += (size_t)n;
    return have;
}

static void ask_for_everything(const gathered *w)
{
    static const rd_frame asks[] = {
        {.kind = RD_FRAME_HELLO, .from = 1, .size = 3, .number = 1, .bytes = RD_NONCE},
        {.kind = RD_FRAME_HELLO, .from = 1, .size = 7, .number = 1, .bytes = RD_NONCE},
        {.kind = RD_FRAME_HELLO, .from = 9, .size = 3, .number = 1, .bytes = RD_NONCE},
        {.kind = RD_FRAME_HELLO, .from = 1, .size = 3, .number = 0, .bytes = RD_NONCE},
        {.kind = RD_FRAME_HELLO, .from = 1, .to = 2, .size = 3, .number = 2, .bytes = RD_NONCE},
        {.kind = RD_FRAME_PROOF, .from = 1, .size = 3},
        {.kind = RD_FRAME_GO, .from = 1, .size = 3}};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        uint8_t bytes[RD_FRAME_HEAD + RD_NONCE] = {0}, heard[4096];
        const int fd = dial_until(w->address);
        if (i == 0)
            sleep_ms(200); /* now rank 1 has come */
        rd_frame_pack(&asks[i], bytes);
        send(fd, bytes, RD_FRAME_HEAD + asks[i].bytes, MSG_NOSIGNAL);
        const size_t have = hear_all(fd, heard, sizeof heard);
        close(fd);
        rd_frame n = {0};
        if (!have)
            continue;
        CHECK(have == RD_FRAME_HEAD && rd_frame_unpack(heard, &n) == RD_FRAME_OK &&
                  n.kind == RD_FRAME_REJECT,
              "hello %zu: %zu bytes of kind %u", i, have, n.kind);
        CHECK(!n.size && !n.from && !n.to && !n.job && !n.bytes,
              "hello %zu: size %u, rank %u, peer %u, %u bytes", i, n.size, n.from, n.to, n.bytes);
    }
}

TEST(before_the_proof_rank_0_tells_nothing)
{
    beside b = open_beside(3, 3000, ask_for_everything);
    b.w.of[2].absent = true;
    run_ranks(4, gather_beside, &b);
    CHECK(b.w.of[0].status == RONDA_ETIMEOUT && strstr(b.w.of[0].err.message, "missing: rank 2"),
          "%s", b.w.of[0].err.message);
    gather_close(&b.w);
}

/* In rank 0's place: what comes before the challenge. */
static void listen_and_hear(const gathered *w)
{
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons(w->of[0].j.address.port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!CHECK(bind(fd, (struct sockaddr *)&name, sizeof name) == 0 && listen(fd, 5) == 0,
               "cannot listen"))
        return;
    uint8_t heard[1000];
    rd_frame n = {0};
    struct pollfd comes = {.fd = fd, .events = POLLIN};
    const int from = poll(&comes, 1, 10000) == 1 ? accept(fd, NULL, NULL) : -1;
    if (!CHECK(from >= 0, "nobody comes")) {
        close(fd);
        return;
    }
    const size_t have = hear_all(from, heard, sizeof heard);
    CHECK(have == RD_FRAME_HEAD + RD_NONCE && rd_frame_unpack(heard, &n) == RD_FRAME_OK &&
              n.kind == RD_FRAME_HELLO,
          "%zu bytes of kind %u", have, n.kind);
    CHECK(!n.size && !n.from && !n.to && !n.job, "size %u, rank %u", n.size, n.from);
    close(from);
    close(fd);
}

TEST(before_the_challenge_a_rank_tells_nothing)
{
    beside b = open_beside(3, 1500, listen_and_hear);
    b.w.of[0].absent = b.w.of[1].absent = true;
    run_ranks(4, gather_beside, &b);
    CHECK(b.w.of[2].status < 0, "it joined nobody");
    gather_close(&b.w);
}

/* --- who would hold up the start --- */

/* Many connections that say nothing, or little; whichever rank 0 closes is opened again. */
static void renew(const gathered *w, const char *says, size_t bytes)
{
    enum { CROWD = 300 };
    int fds[CROWD];
    char byte;
    const double end = seconds_now() + 12;
    memset(fds, -1, sizeof fds);
    for (uint32_t i = 0; goes_on(w, end); i = (i + 1) % CROWD) {
        const ssize_t n = fds[i] >= 0 ? recv(fds[i], &byte, 1, MSG_DONTWAIT) : 0;
        if (n < 0 && errno == EAGAIN)
            continue;
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = dial(w->address);
        if (fds[i] < 0)
            sleep_ms(1);
        else if (bytes)
            send(fds[i], says, bytes, MSG_NOSIGNAL);
    }
    for (uint32_t i = 0; i < CROWD; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void renew_silent(const gathered *w)
{
    renew(w, "", 0);
}

static void renew_begun(const gathered *w)
{
    renew(w, "RONDA", 5);
}

static void check_starts_beside(void (*body)(const gathered *w), const char *what)
{
    beside b = open_beside(3, 10000, body);
    b.w.of[1].late_ms = b.w.of[2].late_ms = 500;
    run_ranks(4, gather_beside, &b);
    for (uint32_t r = 0; r < 3; r++)
        CHECK(b.w.of[r].status == RONDA_OK && b.w.of[r].seconds < 5, "%s: rank %u in %.1f s: %s",
              what, r, b.w.of[r].seconds, b.w.of[r].err.message);
    gather_close(&b.w);
}

TEST(connections_that_are_renewed_do_not_hold_up_the_start)
{
    check_starts_beside(renew_silent, "silent");
    check_starts_beside(renew_begun, "begun");
}

/* A hello that is refused, and bytes without end behind it. */
static void *pour(void *context)
{
    static const uint8_t zeros[1 << 18];
    while (send(*(int *)context, zeros, sizeof zeros, MSG_NOSIGNAL) > 0)
        ;
    return NULL;
}

static void flood(const gathered *w)
{
    enum { POURS = 3 };
    static uint8_t bytes[1 << 19];
    const double end = seconds_now() + 12;
    rd_frame_pack(
        &(rd_frame){.kind = RD_FRAME_HELLO, .from = 99, .size = 2, .number = 1, .bytes = RD_NONCE},
        bytes);
    while (goes_on(w, end)) {
        const struct timeval patience = {.tv_sec = 1};
        pthread_t threads[POURS];
        uint32_t count = 0;
        int fd = dial(w->address);
        if (fd < 0) {
            sleep_ms(2);
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        while (count < POURS && pthread_create(&threads[count], NULL, pour, &fd) == 0)
            count++;
        while (count)
            pthread_join(threads[--count], NULL);
        close(fd);
    }
}

TEST(bytes_without_end_do_not_hold_up_the_start)
{
    beside b = open_beside(2, 1500, flood);
    b.w.of[1].absent = true;
    run_ranks(3, gather_beside, &b);
    CHECK(b.w.of[0].status == RONDA_ETIMEOUT && b.w.of[0].seconds < 3, "in %.1f s: %s",
          b.w.of[0].seconds, b.w.of[0].err.message);
    gather_close(&b.w);
    b = open_beside(2, 10000, flood);
    b.w.of[1].late_ms = 500;
    run_ranks(3, gather_beside, &b);
    for (uint32_t r = 0; r < 2; r++)
        CHECK(b.w.of[r].status == RONDA_OK && b.w.of[r].seconds < 5, "rank %u in %.1f s: %s", r,
              b.w.of[r].seconds, b.w.of[r].err.message);
    gather_close(&b.w);
}

/* The same without a race: of what lies in the socket, only so much is read. */
TEST(who_is_rejected_is_not_read_to_the_end)
{
    static const char zeros[4096];
    int pair[2];
    if (!CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "no sockets"))
        return;
    const int same = dup(pair[0]);
    size_t sent = 0, left = 0;
    char rest[4096];
    while (send(pair[1], zeros, sizeof zeros, MSG_NOSIGNAL) == (ssize_t)sizeof zeros)
        sent += sizeof zeros;
    rd_session s = rd_session_open(pair[0], false, NULL, 2);
    rd_session_reject(&s, RONDA_EINVAL, RONDA_ANY, "no");
    for (ssize_t n; (n = recv(same, rest, sizeof rest, MSG_DONTWAIT)) > 0;)
        left += (size_t)n;
    CHECK(sent > 64 << 10 && left > sent / 2, "%zu of %zu bytes are left", left, sent);
    close(same);
    close(pair[1]);
}

/* --- who would hold up a call --- */

TEST(idle_connections_do_not_hold_up_a_call)
{
    enum { CROWD = 1000 };
    static int idle[CROWD];
    struct rlimit before, more;
    duet s;
    getrlimit(RLIMIT_NOFILE, &before);
    more = (struct rlimit){.rlim_cur = 2 * CROWD + 200, .rlim_max = before.rlim_max};
    if (before.rlim_max < more.rlim_cur) {
        test_skip("%u open files are not allowed", (unsigned)more.rlim_cur);
        return;
    }
    setrlimit(RLIMIT_NOFILE, &more);
    if (!duet_open(&s))
        return;
    const double start = seconds_now();
    for (int i = 0; i < CROWD; i++)
        idle[i] = duet_dial(&s);
    s.peer = duet_dial(&s);
    duet_greet(s.peer, 1);
    const rd_head h = duet_message(0, 8, 8);
    uint8_t bytes[8];
    for (uint64_t i = 0; i < 8; i++)
        bytes[i] = duet_element(0, 0, i);
    duet_tell(&s, &h, bytes, true);
    duet_await(&s, 0, 1);
    CHECK(s.taken[0] == 1 && !duet_alarmed(&s), "the message did not come");
    CHECK(seconds_now() - start < 5, "it took %.1f s", seconds_now() - start);
    for (int i = 0; i < CROWD; i++)
        close(idle[i]);
    duet_close(&s, false);
    setrlimit(RLIMIT_NOFILE, &before);
}

/* A peer that makes way for others closes a connection before this rank has said anything on it. */
TEST(a_connection_that_is_closed_before_the_greeting_is_opened_again)
{
    duet s;
    uint64_t bytes = 8;
    uint8_t heard[RD_GREETING + RD_HEAD + 8];
    if (!duet_open(&s))
        return;
    rd_port *p = s.link->transport->port(s.link, 1, 0);
    memset(rd_port_reserve(p, bytes, &bytes), 5, bytes);
    rd_port_commit(p, bytes, bytes, 9);
    int fd = -1;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3000 && (fd = accept(s.listeners[1], NULL, NULL)) < 0; i++) {
            if (round)
                s.link->transport->pump(s.link);
            sleep_ms(1);
        }
        if (!CHECK(fd >= 0, "round %d: nobody connects", round) || round == 1)
            break;
        close(fd);
        sleep_ms(5);
    }
    size_t have = 0;
    for (int i = 0; fd >= 0 && i < 3000 && have < sizeof heard; i++) {
        s.link->transport->pump(s.link);
        const ssize_t n = recv(fd, heard + have, sizeof heard - have, MSG_DONTWAIT);
        have += n > 0 ? (size_t)n : 0;
        if (n <= 0)
            sleep_ms(1);
    }
    CHECK(have == sizeof heard && heard[sizeof heard - 1] == 5 && !duet_alarmed(&s),
          "%zu bytes came", have);
    close(fd);
    duet_close(&s, true);
}
