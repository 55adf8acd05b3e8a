/* test_silent.c: ranks that are not heard of.  What they were lent is not used again before they have left
 * their call, and who cannot be asked after is not dead. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"
#include "links.h"

enum { BYTES = 100000 };

static void fail_world(rd_link *link)
{
    rd_error cause = {.rank = link->rank};
    rd_fail(&cause, RONDA_ETIMEOUT, 1, "rank 1 is silent");
    link->transport->abort(link, &cause);
    link->transport->quiesce(link, rd_now_ns() + 1000000000, UINT64_MAX);
}

static void close_all(rd_link *links[], uint32_t size)
{
    for (uint32_t r = 0; r < size; r++)
        links[r]->transport->close(links[r]);
}

TEST(memory_is_held_back_until_the_silent_have_left)
{
    enum { SIZE = 3 };
    rd_link *links[SIZE], *me;
    const rd_record call = {.sequence = 7, .kind = RONDA_BARRIER};
    if (!CHECK(links_shm(SIZE, links), "no world"))
        return;
    me = links[0];
    char *first = me->transport->alloc(me, BYTES), *second = me->transport->alloc(me, BYTES);
    memset(first, 1, BYTES);
    rd_control_enter(links[1], &call);
    rd_control_enter(links[2], &call);
    fail_world(me);
    me->transport->free(me, first, BYTES);
    me->transport->free(me, second, BYTES);
    rd_control_leave(links[2], 7);
    char *other = me->transport->alloc(me, BYTES);
    CHECK(other && other != first && other != second,
          "it was given out, and rank 1 may write to it");
    rd_control_leave(links[1], 7);
    char *again = me->transport->alloc(me, BYTES);
    CHECK(again == first, "it is never given out again");
    CHECK(all_bytes_are(0, again, BYTES), "it is not zero");
    me->transport->free(me, again, BYTES);
    me->transport->free(me, other, BYTES);
    close_all(links, SIZE);
}

TEST(memory_is_used_again_if_all_have_left)
{
    rd_link *links[2];
    if (!CHECK(links_shm(2, links), "no world"))
        return;
    char *first = links[0]->transport->alloc(links[0], BYTES);
    fail_world(links[0]);
    links[0]->transport->free(links[0], first, BYTES);
    char *again = links[0]->transport->alloc(links[0], BYTES);
    CHECK(again == first, "it was held back");
    links[0]->transport->free(links[0], again, BYTES);
    close_all(links, 2);
}

/* Programs that make themselves daemons close whatever is open. */
TEST(a_rank_without_descriptors_does_not_take_others_for_dead)
{
    rd_link *links[2];
    int status = 0;
    if (!CHECK(links_shm(2, links), "no world"))
        return;
    const pid_t child = fork();
    if (child == 0) {
        syscall(SYS_close_range, 3, ~0u, 0);
        const bool dead = rd_control_presence(links[0], 1).dead;
        _exit(dead || *links[0]->alarm ? 1 : 0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "it said that rank 1 had died");
    close_all(links, 2);
}
