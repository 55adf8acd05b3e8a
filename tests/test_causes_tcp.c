/* test_causes_tcp.c: a rank that was told of a failure leaves before others have heard of it.  What they are told
 * then is the failure; but if nobody tells them anything, it is that they cannot find that rank. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "calls.h"
#include "comm/comm.h"
#include "duet.h"
#include "links.h"
#include "transport/stream_tcp.h"
#include "transport/tcp_inside.h"

static void send_to(duet *s, uint32_t rank)
{
    const rd_transport *t = s->link->transport;
    uint64_t bytes = 8;
    rd_port *p = t->port(s->link, rank, 0);
    memset(rd_port_reserve(p, bytes, &bytes), 5, bytes);
    rd_port_commit(p, bytes, bytes, 9);
}

/* Rank 0 calls rank 1, which is there, but leaves without a look at who has called. */
static void leave_unseen(duet *s)
{
    send_to(s, 1);
    duet_go_on(s, 20000000);
    close(s->listeners[1]);
    s->listeners[1] = -1;
}

static void tell_cause(duet *s, uint32_t as)
{
    rd_error e = {.status = RONDA_EPEER, .rank = as, .peer = 4711, .message = "the first cause"};
    uint8_t packed[RD_CAUSE];
    s->peer = duet_dial(s);
    duet_greet(s->peer, as);
    rd_cause_pack(&e, packed);
    duet_tell(s, &(rd_head){.kind = RD_ALARM, .bytes = RD_CAUSE}, packed, true);
}

static void check_told(duet *s, const char *text)
{
    rd_error cause = {0};
    duet_go_on(s, 10000000000u);
    if (CHECK(duet_alarmed(s), "no alarm"))
        rd_control_cause(s->link, &cause);
    CHECK(strstr(cause.message, text), "\"%s\" instead of \"%s\"", cause.message, text);
    duet_close(s, true);
}

TEST(who_left_unseen_is_not_the_cause)
{
    duet s;
    if (!duet_open(&s))
        return;
    leave_unseen(&s);
    duet_go_on(&s, 1000000);
    tell_cause(&s, 2);
    check_told(&s, "the first cause");
}

TEST(who_cannot_be_reached_is_not_the_cause)
{
    duet s;
    if (!duet_open(&s))
        return;
    send_to(&s, 2);
    duet_go_on(&s, 1000000);
    tell_cause(&s, 1);
    check_told(&s, "the first cause");
}

TEST(who_left_unseen_and_nobody_says_why)
{
    duet s;
    if (!duet_open(&s))
        return;
    leave_unseen(&s);
    check_told(&s, "rank 1 (host here");
}

TEST(who_cannot_be_reached_and_nobody_says_why)
{
    duet s;
    if (!duet_open(&s))
        return;
    send_to(&s, 2);
    check_told(
        &s, "cannot be reached by rank 0 (host here) at port 1 of 127.0.0.1 (Connection refused)");
}

/* It has left, but it says itself why. */
TEST(who_left_unseen_comes_back_with_the_cause)
{
    duet s;
    if (!duet_open(&s))
        return;
    leave_unseen(&s);
    duet_go_on(&s, 1000000);
    tell_cause(&s, 1);
    check_told(&s, "the first cause");
}

/* --- a connection, or its peer --- */

/* What is said when rank 1's connection ends, and its listener with it or not. */
static void check_end(bool listens, const char *text)
{
    duet s;
    if (!duet_open_and_greet(&s))
        return;
    duet_go_on(&s, 20000000);
    if (!listens) {
        close(s.listeners[1]);
        s.listeners[1] = -1;
    }
    duet_hang_up(&s);
    check_told(&s, text);
}

TEST(a_connection_that_is_lost_between_living_ranks)
{
    check_end(true, "and rank 0 of the world (host here, pid ");
}

TEST(a_connection_whose_peer_listens_no_more)
{
    check_end(false, ") died");
}

/* --- one of three connections is cut --- */

enum { CUT_RANKS = 3, CUT_ROUNDS = 5 };

typedef struct {
    ronda_comm *comms[CUT_RANKS];
    uint32_t one, other; /* whose connection is cut, by the first of them */
    ronda_status status[CUT_RANKS];
    ronda_error errors[CUT_RANKS];
} cut;

static void cut_connection(ronda_comm *c, uint32_t to)
{
    tcp_world *w = rd_tcp_link(c->link)->world;
    pthread_mutex_lock(&w->lock);
    if (CHECK(w->peers[to].out, "there is no connection"))
        shutdown(rd_stream_tcp_socket(w->peers[to].out->stream), SHUT_RDWR);
    pthread_mutex_unlock(&w->lock);
}

static void call_until_cut(void *context, uint32_t rank)
{
    cut *t = context;
    ronda_comm *c = t->comms[rank];
    uint32_t in[CUT_RANKS], out[CUT_RANKS];
    const double end = seconds_now() + 30;
    t->errors[rank].struct_size = sizeof t->errors[rank];
    for (uint32_t round = 0; !t->status[rank] && seconds_now() < end; round++) {
        if (round == CUT_ROUNDS && rank == t->one)
            cut_connection(c, t->other);
        for (uint32_t i = 0; i < CUT_RANKS; i++)
            in[i] = 100 * round + 10 * rank + i;
        t->status[rank] = ronda_alltoall(c, in, out, 1, RONDA_U32);
        for (uint32_t i = 0; i < CUT_RANKS && !t->status[rank]; i++)
            CHECK(out[i] == 100 * round + 10 * i + rank, "round %u, from rank %u: %u", round, i,
                  out[i]);
    }
    ronda_get_error(c, &t->errors[rank]);
    ronda_close(c);
}

/* All three say that these two have lost their connection; nobody has died. */
TEST(all_ranks_say_the_same_of_a_connection_that_was_cut)
{
    static char said[CUT_RANKS][LINKS_LINE];
    for (uint32_t one = 0; one < CUT_RANKS && !test_failed(); one++) {
        cut t = {.one = one, .other = (one + 1) % CUT_RANKS};
        rd_link *links[CUT_RANKS];
        char names[2][20];
        snprintf(names[0], sizeof names[0], "rank %u", t.one);
        snprintf(names[1], sizeof names[1], "rank %u", t.other);
        if (!CHECK(links_tcp(CUT_RANKS, links) && links_comms(CUT_RANKS, links, said, t.comms),
                   "no world"))
            return;
        run_ranks(CUT_RANKS, call_until_cut, &t);
        for (uint32_t r = 0; r < CUT_RANKS; r++) {
            const char *text = t.errors[r].message;
            CHECK(t.status[r] == RONDA_EPEER && strstr(text, "have lost their connection") &&
                      strstr(text, names[0]) && strstr(text, names[1]) && !strstr(text, "died") &&
                      (t.errors[r].peer == t.one || t.errors[r].peer == t.other),
                  "between ranks %u and %u, rank %u is told %d, about rank %u: %s", t.one, t.other,
                  r, t.status[r], t.errors[r].peer, text);
        }
    }
}

/* --- goodbyes --- */

/* Which parcels came on a connection, as letters, after the greeting. */
static void read_parcels(int fd, char *kinds, size_t most)
{
    static const char letters[] = {
        [RD_MESSAGE] = 'm', [RD_CREDIT] = 'c', [RD_BYE] = 'b', [RD_HANGUP] = 'h'};
    uint8_t bytes[4096];
    size_t have = 0, at = RD_GREETING, count = 0;
    for (ssize_t n; have < sizeof bytes && (n = read(fd, bytes + have, sizeof bytes - have)) > 0;)
        have += (size_t)n;
    for (rd_head h; at + RD_HEAD <= have && count + 1 < most; at += RD_HEAD + h.bytes) {
        rd_head_unpack(bytes + at, &h);
        kinds[count++] = h.kind < sizeof letters && letters[h.kind] ? letters[h.kind] : '?';
    }
    kinds[count] = 0;
}

/* Rank 0 has sent something on the connection that it opened, and closes when rank 1 has just opened one too: its
 * goodbye must not overtake what it has sent. */
TEST(a_goodbye_follows_the_messages)
{
    duet s;
    char kinds[16];
    int called = -1;
    if (!duet_open(&s))
        return;
    send_to(&s, 1);
    for (int i = 0; i < 10000 && called < 0; i++) {
        duet_go_on(&s, 1000000);
        called = accept(s.listeners[1], NULL, NULL);
    }
    duet_go_on(&s, 1000000);
    const int late = duet_dial(&s);
    duet_greet(late, 1);
    s.link->transport->close(s.link);
    read_parcels(called, kinds, sizeof kinds);
    CHECK(strcmp(kinds, "mbh") == 0, "where the messages go: %s", kinds);
    read_parcels(late, kinds, sizeof kinds);
    CHECK(strcmp(kinds, "h") == 0, "and on the other one: %s", kinds);
    close(late);
    close(called);
    close(s.listeners[1]);
    close(s.listeners[2]);
}

/* --- no descriptors --- */

/* The process can open no more from now on; what it could before. */
static struct rlimit open_no_more(void)
{
    struct rlimit before;
    const int next = dup(0);
    close(next);
    getrlimit(RLIMIT_NOFILE, &before);
    const struct rlimit now = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &now);
    return before;
}

static int knock(duet *s)
{
    const int fd = duet_dial(s);
    duet_greet(fd, 1);
    return fd;
}

TEST(who_comes_while_there_are_no_descriptors)
{
    duet s;
    if (!duet_open(&s))
        return;
    s.true_so_far = false;
    s.peer = knock(&s);
    const struct rlimit before = open_no_more();
    for (int i = 0; i < 3; i++)
        s.link->transport->pump(s.link);
    setrlimit(RLIMIT_NOFILE, &before);
    const rd_head h = duet_message(0, 8, 8);
    duet_tell(&s, &h, "abcdefg", true);
    duet_await(&s, 0, 1);
    CHECK(s.taken[0] == 1 && !duet_alarmed(&s), "it was never let in");
    duet_close(&s, false);
}

TEST(there_are_no_descriptors_for_long)
{
    duet s;
    if (!duet_open(&s))
        return;
    s.peer = knock(&s);
    const struct rlimit before = open_no_more();
    duet_go_on(&s, 10000000000u);
    setrlimit(RLIMIT_NOFILE, &before);
    check_told(&s, ") cannot let other ranks in: Too many open files");
}

/* --- a crowd --- */

TEST(strangers_make_room)
{
    enum { CROWD = 100 };
    int strangers[CROWD];
    duet s;
    if (!duet_open(&s))
        return;
    s.true_so_far = false;
    for (int i = 0; i < CROWD; i++)
        strangers[i] = duet_dial(&s);
    s.peer = knock(&s);
    const rd_head h = duet_message(0, 8, 8);
    duet_tell(&s, &h, "abcdefg", true);
    duet_await(&s, 0, 1);
    CHECK(s.taken[0] == 1 && !duet_alarmed(&s), "rank 1 does not come in");
    for (int i = 0; i < CROWD; i++)
        close(strangers[i]);
    duet_close(&s, false);
}
