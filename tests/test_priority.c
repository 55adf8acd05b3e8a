/* test_priority.c: a small call of higher priority waits for at most a few pieces of large ones, over every transport,
 * with and without a progress thread; and a rank that has stopped in a call of the world does not hold up the others'
 * subcommunicator.
 *
 * The large calls fold by an op of the test's, which counts.  The last rank gives a small broadcast to all, straight
 * from it, and says so when it is sent; what rank 0 folds from then on until it has it is what it was held up for.
 * No clock is looked at. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "links.h"
#include "processes.h"

enum { RANKS = 3, WAYS = 4, MOST_CALLS = 6, PIECE = 256 << 10 };

static const struct {
    const char *name;
    uint32_t ranks;
    bool (*open)(uint32_t size, rd_link *links[]);
    uint64_t
        most_bytes; /* folded meanwhile: over sockets what was sent before has to be read first */
} ways[WAYS] = {{"threads", 2, links_local, 4 * PIECE},
                {"shm", 2, links_shm, 4 * PIECE},
                {"tcp", 2, links_tcp, 32 * PIECE},
                {"mixed", 3, links_mixed, 32 * PIECE}};

typedef struct {
    uint32_t way, calls;
    size_t count; /* elements of all large calls of a rank */
    ronda_comm *comms[RANKS];
    char said[RANKS][LINKS_LINE];
    uint32_t *data[RANKS];
    ronda_op op;
    _Atomic uint32_t posted, sent;
    _Atomic uint64_t folded; /* bytes, by rank 0, since it was sent */
    uint64_t meanwhile;      /* of them, those before rank 0 had it */
} scene;

static _Thread_local uint32_t rank_here =
    RONDA_ANY; /* of this thread; progress threads do not know theirs */

static bool is_of_rank_0(const scene *s, const void *operand)
{
    const uintptr_t at = (uintptr_t)operand, first = (uintptr_t)s->data[0];
    return at >= first && at < first + s->count * sizeof **s->data;
}

/* In whatever thread rank 0's calls are moved: it folds its own elements with others'. */
static void add_and_count(void *context, const void *left, const void *right, void *out,
                          size_t count, ronda_type type)
{
    scene *s = *(scene **)context;
    const uint32_t *a = left, *b = right;
    uint32_t *c = out;
    (void)type;
    if ((rank_here == 0 || rank_here == RONDA_ANY) && atomic_load(&s->sent) &&
        (is_of_rank_0(s, left) || is_of_rank_0(s, right)))
        atomic_fetch_add(&s->folded, count * sizeof *c);
    for (size_t i = 0; i < count; i++)
        c[i] = a[i] + b[i];
}

static void check(ronda_comm *c, ronda_status status)
{
    CHECK(status == RONDA_OK, "rank %u: %s", ronda_rank(c), ronda_last_error(c));
}

static uint32_t value(const scene *s, uint32_t rank, size_t i)
{
    return rank * 1000003u + (uint32_t)i * 7u + s->way;
}

static ronda_request *post(ronda_comm *c, ronda_call call)
{
    ronda_request *r = NULL;
    call.struct_size = sizeof call;
    call.type = RONDA_U32;
    check(c, ronda_post(c, &call, &r));
    return r;
}

static void run_scene(void *context, uint32_t rank)
{
    scene *s = context;
    ronda_comm *c = s->comms[rank];
    const uint32_t ranks = ways[s->way].ranks, last = ranks - 1;
    const size_t count = s->count / s->calls;
    ronda_request *large[MOST_CALLS] = {NULL};
    uint32_t *x = s->data[rank], word = rank == last ? 4711 + s->way : 0;
    bool done;
    rank_here = rank;
    for (size_t i = 0; i < s->count; i++)
        x[i] = value(s, rank, i);
    check(c, ronda_barrier(c));
    for (uint32_t k = 0; k < s->calls; k++)
        large[k] = post(c, (ronda_call){.kind = RONDA_ALLREDUCE,
                                        .op = s->op,
                                        .send = x + k * count,
                                        .recv = x + k * count,
                                        .count = count});
    check(c, ronda_test(large[0], &done));
    atomic_fetch_add(&s->posted, 1);
    while (atomic_load(&s->posted) < ranks)
        sched_yield();
    check(c, ronda_wait(post(c, (ronda_call){.kind = RONDA_BROADCAST,
                                             .algorithm = "direct",
                                             .root = last,
                                             .recv = &word,
                                             .count = 1,
                                             .priority = 10})));
    const uint64_t meanwhile = atomic_load(&s->folded);
    if (rank == last)
        atomic_store(&s->sent, 1);
    CHECK(word == 4711 + s->way, "rank %u has %u", rank, word);
    if (rank == 0)
        s->meanwhile = meanwhile;
    check(c, ronda_wait_all(large, MOST_CALLS));
    for (size_t i = 0; i < s->count && !test_failed(); i += 997) {
        uint32_t sum = 0;
        for (uint32_t r = 0; r < ranks; r++)
            sum += value(s, r, i);
        CHECK(x[i] == sum, "rank %u: element %zu is %u, not %u", rank, i, x[i], sum);
    }
    check(c, ronda_close(c));
}

/* What rank 0 has folded meanwhile. */
static uint64_t play(uint32_t way, uint32_t calls)
{
    static scene *current;
    static ronda_op op;
    rd_link *links[RANKS];
    scene *s = current = calloc(1, sizeof *s);
    s->way = way;
    s->calls = calls;
    s->count = (size_t)calls * (calls == 1 ? 12 << 20 : 4 << 20);
    for (uint32_t r = 0; r < ways[way].ranks; r++)
        s->data[r] = malloc(s->count * sizeof *s->data[r]);
    if (!op)
        CHECK(!ronda_op_create("add_and_count", add_and_count, &current, true, &op), "no op");
    s->op = op;
    if (CHECK(ways[way].open(ways[way].ranks, links) &&
                  links_comms(ways[way].ranks, links, s->said, s->comms),
              "no world over %s", ways[way].name))
        run_ranks(ways[way].ranks, run_scene, s);
    CHECK(atomic_load(&s->folded) > 0, "over %s nothing was left to fold", ways[way].name);
    for (uint32_t r = 0; r < ways[way].ranks; r++)
        free(s->data[r]);
    const uint64_t meanwhile = s->meanwhile;
    free(s);
    return meanwhile;
}

/* A system that lets a thread wait while others work makes it look held up, now and then: the least of some tries is
 * what counts. */
static void play_some(uint32_t way, uint32_t calls)
{
    enum { TRIES = 10 };
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIES && least > ways[way].most_bytes && !test_failed(); i++) {
        const uint64_t meanwhile = play(way, calls);
        least = meanwhile < least ? meanwhile : least;
    }
    CHECK(least <= ways[way].most_bytes,
          "%u calls over %s: %llu bytes were folded before a call of higher priority was done",
          calls, ways[way].name, (unsigned long long)least);
}

TEST(a_call_of_higher_priority_waits_for_a_few_pieces)
{
    test_deadline(200);
    for (uint32_t way = 0; way < WAYS && !test_failed(); way++) {
        play_some(way, 1);
        play_some(way, MOST_CALLS);
    }
}

/* Not over threads, where both ranks fold the very same operands. */
TEST(the_same_with_a_progress_thread)
{
    test_deadline(200);
    setenv("RONDA_PROGRESS", "1", 1);
    for (uint32_t way = 1; way < WAYS && !test_failed(); way++) {
        play_some(way, 1);
        play_some(way, MOST_CALLS);
    }
    unsetenv("RONDA_PROGRESS");
}

/* --- ranks that disagree --- */

static void disagree(ronda_comm *c, uint32_t rank)
{
    uint32_t word = rank;
    ronda_request *r = post(c, (ronda_call){.kind = RONDA_ALLREDUCE,
                                            .op = RONDA_SUM,
                                            .send = &word,
                                            .recv = &word,
                                            .count = 1,
                                            .priority = rank ? 1 : 0});
    CHECK(ronda_wait(r) == RONDA_EMISMATCH, "rank %u: %s", rank, ronda_last_error(c));
    CHECK(strstr(ronda_last_error(c), "whether their priority is above 0"), "%s",
          ronda_last_error(c));
}

TEST(ranks_that_disagree_are_told)
{
    world_play(2, NULL, disagree);
}

/* --- a rank that has stopped --- */

enum { STOPPED_COUNT = 1 << 20 };

static int stop_in_call(job *j, uint32_t rank)
{
    ronda_comm *world = job_join(j, rank), *part = NULL;
    uint32_t *x = calloc(STOPPED_COUNT, sizeof *x), word = rank;
    if (!world || !x)
        return 1;
    check(world, ronda_split(world, rank == 2 ? 1 : 0, (int)rank, &part));
    ronda_request *r = post(world, (ronda_call){.kind = RONDA_ALLREDUCE,
                                                .op = RONDA_SUM,
                                                .send = x,
                                                .recv = x,
                                                .count = STOPPED_COUNT});
    if (rank == 2)
        raise(SIGSTOP); /* until the others are through */
    for (int i = 0; i < 100 && rank != 2; i++)
        check(part, ronda_allreduce(part, &word, &word, 1, RONDA_U32, RONDA_SUM));
    if (rank != 2)
        atomic_store(&j->shared->number[rank], 1);
    check(world, ronda_wait(r));
    check(part, ronda_close(part));
    check(world, ronda_close(world));
    free(x);
    return 0;
}

TEST(a_stopped_rank_holds_up_no_subcommunicator_of_others)
{
    job j = job_open(3, stop_in_call, NULL);
    job_start(&j);
    for (int i = 0; i < 30000 && !(j.shared->number[0] && j.shared->number[1]); i++)
        sleep_ms(1);
    CHECK(j.shared->number[0] && j.shared->number[1], "the others are held up");
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)j.pids[2], &info, WSTOPPED | WNOWAIT) == 0, "it has not stopped");
    kill(j.pids[2], SIGCONT);
    job_wait(&j, 60);
    for (uint32_t r = 0; r < 3; r++)
        CHECK(j.status[r] == 0, "rank %u ended with %d", r, j.status[r]);
    job_close(&j);
}
