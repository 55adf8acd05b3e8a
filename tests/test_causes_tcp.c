/* test_causes_tcp.c: a rank that was told of a failure leaves before others have heard of it.  What they are told
 * then is the failure; but if nobody tells them anything, it is that they cannot find that rank. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "duet.h"

static void send_to(duet *s, uint32_t rank)
{
    const rd_transport *t = s->link->transport;
    uint64_t bytes = 8;
    rd_port *p = t->port(s->link, rank, 0);
    memset(t->reserve(p, bytes, &bytes), 5, bytes);
    t->commit(p, bytes, bytes, 9);
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
        s->link->transport->cause(s->link, &cause);
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
