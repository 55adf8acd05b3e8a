/* test_invariants.c: an invariant of ronda's own that is broken ends the process, before it does more harm.
 *
 * Each case is run twice in a child: as it should be, which must end well, and broken, which must abort. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/comm.h"
#include "engine/book.h"
#include "engine/engine.h"
#include "harness.h"
#include "transport/heap.h"
#include "transport/transport.h"

/* How a child ends that runs this. */
static int ending(void (*body)(bool broken), bool broken)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        body(broken);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "no child");
    return status;
}

static void check_both(void (*body)(bool broken))
{
#ifdef NDEBUG
    (void)body;
    (void)ending;
    test_skip("built without assertions");
#else
    const int whole = ending(body, false), broken = ending(body, true);
    CHECK(whole == 0, "what is whole ended with 0x%x", whole);
    CHECK(WIFSIGNALED(broken) && WTERMSIG(broken) == SIGABRT, "what is broken ended with 0x%x",
          broken);
#endif
}

/* --- held --- */

static void drop_prepared(bool broken)
{
    rd_prepared p = {.users = broken ? 0 : 2};
    rd_prepared_drop(&p);
}

TEST(a_plan_is_dropped_as_often_as_it_was_held)
{
    check_both(drop_prepared);
}

/* --- lists --- */

static void take_from_heap(bool broken)
{
    rd_heap h = {.bytes = 16 * RD_HEAP_PAGE};
    uint64_t at;
    rd_heap_take(&h, 2 * RD_HEAP_PAGE, &at);
    rd_heap_take(&h, 2 * RD_HEAP_PAGE, &at);
    if (broken)
        h.extents[1].at -= RD_HEAP_PAGE; /* it overlaps the first */
    rd_heap_take(&h, RD_HEAP_PAGE, &at);
    rd_heap_free(&h);
}

TEST(what_a_heap_gave_is_sorted_and_apart)
{
    check_both(take_from_heap);
}

static void enter_book(bool broken)
{
    rd_book b = {0};
    rd_entry entries[2] = {0};
    rd_book_enter(&b, &entries[0], 1, 2);
    rd_book_enter(&b, &entries[broken ? 0 : 1], 3, 4);
    rd_book_strike(&entries[0]);
    rd_book_strike(&entries[1]);
    rd_book_free(&b);
}

TEST(an_entry_is_in_one_book)
{
    check_both(enter_book);
}

/* --- messages --- */

static void send_one(rd_port *port, uint32_t i)
{
    uint64_t bytes = sizeof i;
    void *slot = rd_port_reserve(port, bytes, &bytes);
    if (slot)
        memcpy(slot, &i, sizeof i);
    rd_port_commit(port, bytes, bytes, i);
}

static void fill_queue(bool broken)
{
    rd_link *links[2];
    rd_error err;
    if (rd_local_open(2, links, &err))
        _exit(1);
    rd_port *port = links[0]->transport->port(links[0], 1, 0);
    for (uint32_t i = 0; i < RD_QUEUE + (uint32_t)broken; i++)
        send_one(port, i);
}

TEST(nothing_is_sent_to_a_queue_that_is_full)
{
    check_both(fill_queue);
}

static void release_one(bool broken)
{
    rd_link *links[2];
    rd_error err;
    rd_view view;
    if (rd_local_open(2, links, &err))
        _exit(1);
    const rd_transport *t = links[0]->transport;
    rd_port *to = t->port(links[0], 1, 0), *from = t->port(links[1], 0, 0);
    send_one(to, 7);
    if (!rd_port_peek(from, &view))
        _exit(1);
    rd_port_release(from, view.bytes + broken);
}

TEST(no_more_is_released_than_was_shown)
{
    check_both(release_one);
}

/* --- calls --- */

static void broadcast_twice(bool broken)
{
    rd_link *links[2];
    rd_engine *e;
    rd_error err;
    char data[4] = {0};
    const rd_shape shape = {
        .kind = RONDA_BROADCAST, .size = 2, .width = 1, .count = 4, .in_place = true};
    rd_plan *plan = rd_plan_build(rd_algorithm_named(RONDA_BROADCAST, "direct"), &shape, 0);
    if (!plan || rd_local_open(2, links, &err) || rd_engine_open(links[0], NULL, &e))
        _exit(1);
    for (uint64_t q = 1; q <= 2; q++) {
        const rd_job job = {.plan = plan,
                            .in = data,
                            .out = data,
                            .record = {.sequence = broken ? 1 : q, .kind = RONDA_BROADCAST}};
        if (rd_engine_run(e, &job, 1000000000, &err))
            _exit(1);
    }
}

TEST(calls_are_numbered_one_by_one)
{
    check_both(broadcast_twice);
}
