/* test_waiting.c: a call that times out says who is in which send or receive instead, over every transport, in the
 * world and in a subcommunicator.
 *
 * Rank 0 has the shortest timeout, so that it is the one to tell; over hosts rank 2 is on another one. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "links.h"
#include "processes.h"

enum { RANKS = 3, WAYS = 4, LONG = 50000 };
static const uint64_t SOON_NS = 2000000000u, LATE_NS = 30000000000u;
static const double ABSURD_SECONDS = 15;

static const struct {
    const char *name;
    bool (*open)(uint32_t size, rd_link *links[]);
} ways[WAYS] = {
    {"threads", links_local}, {"shm", links_shm}, {"tcp", links_tcp}, {"mixed", links_mixed}};

typedef struct deed deed;

typedef struct {
    const deed *deed;
    uint32_t way;
    bool part;
    ronda_comm *worlds[RANKS];
    char said[RANKS][LINKS_LINE];
    _Atomic uint32_t ready, over; /* over: rank 0 has been told */
} scene;

typedef void act(ronda_comm *c, scene *s);
struct deed {
    const char *name;
    act *first, *other, *last; /* of ranks 0, 1 and 2 */
    const char *says[3];       /* what rank 0 is told, all of it */
    bool unheard;              /* but over sockets it cannot know */
};

/* --- what ranks do --- */

static void check_failed(ronda_comm *c, ronda_status status)
{
    CHECK(status == RONDA_ETIMEOUT, "rank %u: %s", ronda_rank(c), ronda_strerror(status));
}

static void sit_in_barrier(ronda_comm *c, scene *s)
{
    (void)s;
    check_failed(c, ronda_barrier(c));
}

static void receive(ronda_comm *c, uint32_t peer, uint32_t tag)
{
    uint32_t word;
    check_failed(c, ronda_recv(c, &word, 1, RONDA_U32, peer, tag, NULL));
}

static void receive_from_first(ronda_comm *c, scene *s)
{
    (void)s;
    receive(c, 0, 5);
}

static void receive_from_last(ronda_comm *c, scene *s)
{
    (void)s;
    receive(c, 2, 6);
}

static void receive_from_any(ronda_comm *c, scene *s)
{
    (void)s;
    receive(c, RONDA_ANY, 7);
}

/* From rank 0 to rank 2, or the other way round.  Under a sanitizer few long messages fill the queue in time. */
static void flood(ronda_comm *c, scene *s)
{
    static const uint32_t data[4096];
    const size_t count = test_sanitized() ? 4096 : 1;
    (void)s;
    for (uint32_t i = 0; i < 20000; i++)
        if (ronda_send(c, data, count, RONDA_U32, 2 - ronda_rank(c), 3))
            return;
}

static void send_long(ronda_comm *c, scene *s)
{
    static const uint32_t data[LONG];
    (void)s;
    check_failed(c, ronda_send(c, data, LONG, RONDA_U32, 2 - ronda_rank(c), 4));
}

/* In no call, until rank 0 has been told. */
static void do_nothing(ronda_comm *c, scene *s)
{
    (void)c;
    while (!atomic_load(&s->over))
        sleep_ms(5);
}

static const deed deeds[] = {
    {"a flood into a barrier",
     sit_in_barrier,
     sit_in_barrier,
     flood,
     {"which has not called it (it is in send of ", " u32 with tag 3 to rank 0)",
      "the unexpected queue of rank 0 is full"},
     false},
    {"a flood that gets stuck",
     flood,
     sit_in_barrier,
     sit_in_barrier,
     {" u32 with tag 3 to rank 2 timed out", "; rank 2 is in barrier #",
      "the unexpected queue of rank 2 is full"},
     false},
    {"a receive against a barrier",
     sit_in_barrier,
     sit_in_barrier,
     receive_from_first,
     {"waiting for rank 2, which has not called it (it is in recv of 1 u32 with tag 5 from rank 0)"},
     false},
    {"a barrier against a receive",
     receive_from_last,
     sit_in_barrier,
     sit_in_barrier,
     {"rank 0: recv of 1 u32 with tag 6 from rank 2 timed out after", "; rank 2 is in barrier #"},
     false},
    {"two long sends",
     send_long,
     do_nothing,
     send_long,
     {"rank 0: send of 50000 u32 with tag 4 to rank 2 timed out",
      "rank 2 is in send of 50000 u32 with tag 4 to rank 0: both send, and neither receives"},
     false},
    {"two receives",
     receive_from_last,
     do_nothing,
     receive_from_first,
     {"rank 2 is in recv of 1 u32 with tag 5 from rank 0: both receive, and neither sends"},
     false},
    {"a receive from any rank",
     receive_from_any,
     sit_in_barrier,
     receive_from_first,
     {"recv of 1 u32 with tag 7 from any rank timed out", "; rank 1 is in barrier #",
      "; rank 2 is in recv of 1 u32 with tag 5 from rank 0"},
     true},
    {"a third one",
     sit_in_barrier,
     receive_from_last,
     do_nothing,
     {"waiting for rank 2", "; rank 1 is in recv with tag 6 from rank 2"},
     false},
};
enum { FLOODS = 2, DEEDS = sizeof deeds / sizeof *deeds };

/* --- a scene --- */

static void run_scene(void *context, uint32_t rank)
{
    scene *s = context;
    const deed *d = s->deed;
    ronda_comm *world = s->worlds[rank], *c = world;
    ronda_set_timeout(world, LATE_NS);
    if (s->part)
        CHECK(!ronda_split(world, 0, (int)rank, &c), "%s", ronda_last_error(world));
    CHECK(!ronda_barrier(c), "%s", ronda_last_error(c));
    atomic_fetch_add(&s->ready, 1);
    while (atomic_load(&s->ready) < RANKS)
        sched_yield();
    ronda_set_timeout(c, rank ? LATE_NS : SOON_NS);
    (rank == 0 ? d->first : rank == 1 ? d->other : d->last)(c, s);
    for (int i = 0; i < 3 && d->says[i] && rank == 0; i++)
        CHECK(strstr(ronda_last_error(c), d->says[i]) || (d->unheard && s->way >= 2),
              "%s over %s%s: '%s' is not in: %s", d->name, ways[s->way].name,
              s->part ? ", in a part" : "", d->says[i], ronda_last_error(c));
    if (rank == 0)
        atomic_store(&s->over, 1);
    if (s->part)
        ronda_close(c);
    ronda_close(world);
}

typedef struct {
    const deed *deeds;
    bool part;
} scenes;

static void play(void *context, uint32_t number)
{
    const scenes *of = context;
    scene *s = calloc(1, sizeof *s);
    rd_link *links[RANKS];
    const double start = seconds_now();
    s->deed = &of->deeds[number / WAYS];
    s->way = number % WAYS;
    s->part = of->part;
    if (CHECK(ways[s->way].open(RANKS, links) && links_comms(RANKS, links, s->said, s->worlds),
              "no world over %s", ways[s->way].name))
        run_ranks(RANKS, run_scene, s);
    CHECK(seconds_now() - start < ABSURD_SECONDS, "%s over %s took %.1f s", s->deed->name,
          ways[s->way].name, seconds_now() - start);
    free(s);
}

/* All at once, and all transports: most of the time ranks only wait. */
TEST(who_is_in_which_message)
{
    scenes s = {deeds + FLOODS, false};
    run_ranks((DEEDS - FLOODS) * WAYS, play, &s);
}

TEST(who_floods_whom)
{
    scenes s = {deeds, false};
    run_ranks(FLOODS * WAYS, play, &s);
}

TEST(who_is_in_which_message_of_a_part)
{
    scenes s = {deeds + 1, true};
    run_ranks(2 * WAYS, play, &s);
}

/* --- death --- */

static int die_in_receive(job *j, uint32_t rank)
{
    ronda_comm *c = job_join(j, rank);
    if (!c)
        return 1;
    if (rank) {
        j->shared->number[0] = (uint64_t)getpid();
        receive(c, 0, 5);
        return 1; /* it is killed there */
    }
    while (!j->shared->number[0])
        sleep_ms(1);
    sleep_ms(300); /* it has waited for so long that it has said so */
    kill((pid_t)j->shared->number[0], SIGKILL);
    const ronda_status status = ronda_barrier(c);
    CHECK(status == RONDA_EPEER, "%s", ronda_strerror(status));
    CHECK(strstr(ronda_last_error(c), "died in recv of 1 u32 with tag 5 from rank 0") || j->hosts,
          "%s", ronda_last_error(c));
    ronda_close(c);
    return 0;
}

TEST(who_died_in_a_receive)
{
    job j = job_open(2, die_in_receive, NULL);
    job_start(&j);
    job_wait(&j, 30);
    CHECK(j.status[0] == 0, "rank 0 ended with 0x%x", (unsigned)j.status[0]);
    job_close(&j);
}
