/* test_split_scarce.c: a rank that has no memory for a split, at every place where it asks for some.
 *
 * Before it has told anybody, it alone gets RONDA_ENOMEM, and the others wait until it tries again.  If it
 * is its end of the part that there is no memory for, all ranks get RONDA_ENOMEM, and all may try again.
 * In between the communicator fails, for all of them.  Whatever happens, nothing is left behind. */
#include "base/mem.h"
#include "processes.h"

#include <string.h>

typedef struct {
    uint32_t victim;
    long blocks;  /* that it gets for its first attempt */
    bool warm;    /* they have split before */
    bool without; /* the victim is to be in no part */
} scene;

enum { FIRST = 20, TRIES = 40 }; /* in job.shared, behind what came of it for each rank */

static ronda_status split_once(ronda_comm *world, uint32_t rank, const scene *s, long blocks)
{
    ronda_comm *part = NULL;
    uint32_t word = 1;
    const int color = s->without && rank == s->victim ? -1 : (int)(rank / 2);
    rd_mem_fail_after(blocks);
    const ronda_status status = ronda_split(world, color, -(int)rank, &part);
    rd_mem_fail_after(-1);
    CHECK(!status || (!part && strstr(ronda_last_error(world), "memory")), "%d: %s", status,
          ronda_last_error(world));
    if (part)
        CHECK(ronda_allreduce(part, &word, &word, 1, RONDA_U32, RONDA_SUM) == RONDA_OK &&
                  word == ronda_size(part),
              "%s", ronda_last_error(part));
    CHECK(ronda_close(part) == RONDA_OK, "close");
    return status;
}

/* Where the next memory that ranks share would be: further on, if some has not come back.  That of a part
 * comes back when the next one is made, if all have left it by then. */
static void *next_memory(ronda_comm *world, uint32_t rank, const scene *s)
{
    void *memory = NULL;
    CHECK(ronda_barrier(world) == RONDA_OK && split_once(world, rank, s, -1) == RONDA_OK &&
              ronda_barrier(world) == RONDA_OK && ronda_alloc(world, 1, &memory) == RONDA_OK &&
              ronda_free(world, memory) == RONDA_OK,
          "%s", ronda_last_error(world));
    return memory;
}

static void split_starved(job *j, uint32_t rank)
{
    const scene *s = j->context;
    ronda_comm *world = NULL;
    const ronda_config config = {
        .struct_size = sizeof config, .rank = rank, .size = j->size, .addr = j->address};
    ronda_status status = RONDA_ENOMEM;
    if (!CHECK(ronda_init(&config, &world) == RONDA_OK, "%s", ronda_last_error(NULL)))
        return;
    ronda_set_timeout(world, 20000000000);
    void *before = NULL;
    for (int i = 0; s->warm && i < 5; i++) /* each channel takes some, once */
        before = next_memory(world, rank, s);
    for (uint32_t i = 0; i < 3 && status == RONDA_ENOMEM; i++) {
        status = split_once(world, rank, s, i == 0 && rank == s->victim ? s->blocks : -1);
        j->shared->number[TRIES + rank]++;
        if (i == 0)
            j->shared->number[FIRST + rank] = (uint64_t)-status;
    }
    j->shared->number[rank] = (uint64_t)-status;
    CHECK(ronda_barrier(world) == status, "%d, but then: %s", status, ronda_last_error(world));
    if (s->warm && !status && j->size > 1) /* a rank alone has what the system maps, anywhere */
        CHECK(next_memory(world, rank, s) == before, "rank %u: memory has not come back", rank);
    CHECK(ronda_close(world) == RONDA_OK, "close");
}

static int be_a_rank(job *j, uint32_t rank)
{
    return leave_nothing(j, rank, split_starved);
}

/* True if the victim had enough at once. */
static bool play(uint32_t size, const scene *s)
{
    job j = job_open(size, be_a_rank, s);
    job_start(&j);
    job_wait(&j, 50);
    const uint64_t end = j.shared->number[s->victim], first = j.shared->number[FIRST + s->victim];
    CHECK(end == -RONDA_OK || end == -RONDA_ESYSTEM, "it came to -%d", (int)end);
    for (uint32_t r = 0; r < size; r++) {
        const uint64_t theirs = j.shared->number[FIRST + r];
        CHECK(j.status[r] == 0, "rank %u ended with 0x%x", r, (unsigned)j.status[r]);
        CHECK(j.shared->number[r] == end, "rank %u: -%d, and rank %u: -%d", r,
              (int)j.shared->number[r], s->victim, (int)end);
        CHECK(theirs == first || (first == -RONDA_ENOMEM && theirs == end),
              "rank %u: -%d at first, and rank %u: -%d", r, (int)theirs, s->victim, (int)first);
    }
    job_close(&j);
    CHECK(!test_failed(), "%u ranks, victim %u, %ld blocks%s%s", size, s->victim, s->blocks,
          s->warm ? ", not the first split" : "", s->without ? ", the victim in no part" : "");
    return first == -RONDA_OK;
}

/* The first split chooses algorithms, which takes hundreds of blocks: not every one of them is refused. */
static void starve(uint32_t size, uint32_t victim, bool warm, bool without)
{
    scene s = {.victim = victim, .warm = warm, .without = without};
    while (!play(size, &s) && !test_failed()) {
        s.blocks += warm ? 1 : s.blocks < 4 ? 1 : 1 + s.blocks / 20;
        CHECK(s.blocks < 5000, "it never gets enough");
    }
}

TEST(no_memory_for_a_split)
{
    test_deadline(200);
    for (uint32_t size = 1; size <= 3; size++)
        for (uint32_t victim = 0; victim < size && !test_failed(); victim++)
            starve(size, victim, true, false);
    starve(3, 1, true, true);
}

TEST(no_memory_for_the_first_split)
{
    test_deadline(200);
    starve(1, 0, false, false);
    starve(3, 0, false, false);
    starve(3, 1, false, false);
}
