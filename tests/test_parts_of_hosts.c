/* test_parts_of_hosts.c: parts of a world over several hosts: how their messages go, and what is chosen for them.
 *
 * Ranks are threads, which are told that they are on hosts: {0, 1}, {2, 3} and {4}. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/comm.h"
#include "engine/operation.h"
#include "harness.h"
#include "links.h"

enum { RANKS = 5, COUNT = 50000 };

typedef struct {
    ronda_comm *comms[RANKS];
    char said[RANKS][LINKS_LINE]; /* the last plan */
} world;

static bool open_world(world *w)
{
    rd_link *links[RANKS];
    *w = (world){.comms = {NULL}};
    return CHECK(links_mixed(RANKS, links) && links_comms(RANKS, links, w->said, w->comms),
                 "no world");
}

/* An allreduce whose operands are known by color, a ring of messages; where each rank stands in it. */
static bool use(ronda_comm *part, uint32_t salt)
{
    static _Thread_local uint32_t data[COUNT];
    const uint32_t n = ronda_size(part), me = ronda_rank(part);
    uint32_t got = 0, mine = me * 3 + salt;
    ronda_request *asked = NULL;
    for (uint32_t i = 0; i < COUNT; i++)
        data[i] = me * 1000 + i + salt;
    if (!CHECK(!ronda_allreduce(part, data, data, COUNT, RONDA_U32, RONDA_SUM), "%s",
               ronda_last_error(part)))
        return false;
    for (uint32_t i = 0; i < COUNT; i++)
        if (!CHECK(data[i] == n * (n - 1) / 2 * 1000 + n * (i + salt), "element %u is %u", i,
                   data[i]))
            return false;
    CHECK(!ronda_isend(part, &mine, 1, RONDA_U32, (me + 1) % n, 7, &asked) &&
              !ronda_recv(part, &got, 1, RONDA_U32, (me + n - 1) % n, 7, NULL) &&
              !ronda_wait(asked),
          "%s", ronda_last_error(part));
    return CHECK(got == (me + n - 1) % n * 3 + salt, "rank %u got %u", me, got);
}

static const char *way(const ronda_comm *part)
{
    return part->link->transport->name;
}

/* --- one part of each kind --- */

static void split_each_way(void *context, uint32_t rank)
{
    world *w = context;
    ronda_comm *all = NULL, *across = NULL, *inside = NULL, *some = NULL;
    ronda_comm *of = w->comms[rank];
    /* Turned round, so that ranks of a part are others than those of the world */
    if (!CHECK(!ronda_split(of, 0, -(int)rank, &all), "%s", ronda_last_error(of)) ||
        !CHECK(!ronda_split(all, (int)(rank % 2), 0, &across), "%s", ronda_last_error(all)) ||
        !CHECK(!ronda_split(all, (int)(rank / 2), 0, &inside), "%s", ronda_last_error(all)) ||
        !CHECK(!ronda_split(all, rank == 4 ? -1 : 0, (int)(rank % 2), &some), "%s",
               ronda_last_error(all)))
        return;
    CHECK(ronda_rank(all) == RANKS - 1 - rank, "rank %u is %u", rank, ronda_rank(all));
    CHECK(!strcmp(way(all), rank == 4 ? "tcp" : "shm+tcp"), "all: %s", way(all));
    CHECK(all->link->channels == 2 && all->hosts && all->hosts->count == 3 && !all->hosts->of[0],
          "the part does not know its hosts");
    CHECK(use(all, 1), "all");
    CHECK(strstr(w->said[rank], "by hierarchical") || strstr(w->said[rank], "by leaders"), "%s",
          w->said[rank]);
    CHECK(!strcmp(way(across), "tcp") && !across->hosts, "across: %s", way(across));
    CHECK(use(across, 2), "across");
    CHECK(!strcmp(way(inside), rank == 4 ? "tcp" : "shm"), "inside: %s", way(inside));
    CHECK(use(inside, 3), "inside");
    CHECK(rank == 4 ? !some : !strcmp(way(some), "shm+tcp") && some->hosts->count == 2, "some");
    if (some)
        CHECK(use(some, 4), "some");
    CHECK(use(of, 5), "world");
    ronda_close(all); /* before its own parts, and before what it is of: any order will do */
    CHECK(use(across, 6) && use(inside, 7) && (!some || use(some, 8)), "after one was closed");
    ronda_close(of);
    CHECK(use(across, 9) && use(inside, 10) && (!some || use(some, 11)), "after the world");
    ronda_close(inside);
    ronda_close(across);
    CHECK(!some || use(some, 12), "the last one");
    ronda_close(some);
}

TEST(parts_of_each_kind)
{
    static world w;
    if (open_world(&w))
        run_ranks(RANKS, split_each_way, &w);
}

/* --- failure --- */

typedef struct {
    world w;
    ronda_comm *parts[RANKS];
    bool whole; /* the world is aborted, not the part */
    _Atomic uint32_t ready;
} failing;

static void fail_together(void *context, uint32_t rank)
{
    failing *f = context;
    ronda_comm *of = f->w.comms[rank];
    uint32_t word = 0;
    ronda_error e = {.struct_size = sizeof e};
    if (!CHECK(!ronda_split(of, 0, -(int)rank, &f->parts[rank]), "%s", ronda_last_error(of)))
        return;
    ronda_comm *part = f->parts[rank];
    CHECK(use(part, 1), "at first");
    f->ready++;
    while (rank == 3 && f->ready < RANKS)
        usleep(1000);
    if (rank == 3)
        ronda_abort(f->whole ? of : part, "enough");
    const ronda_status status = ronda_allreduce(part, &word, &word, 1, RONDA_U32, RONDA_SUM);
    ronda_get_error(part, &e);
    CHECK(status == RONDA_EABORTED && strstr(e.message, "enough"), "rank %u: %d, %s", rank, status,
          e.message);
    if (!f->whole)
        CHECK(use(of, 2), "the world goes on");
    ronda_close(part);
    ronda_close(of);
}

static void abort_one(bool whole)
{
    static failing f;
    f.whole = whole;
    f.ready = 0;
    if (open_world(&f.w))
        run_ranks(RANKS, fail_together, &f);
}

TEST(a_part_is_aborted)
{
    abort_one(false);
}

TEST(a_part_of_a_world_that_is_aborted)
{
    abort_one(true);
}

/* --- memory that goes with its link --- */

typedef struct {
    world w;
    ronda_comm *across[RANKS];
    char *at[RANKS]; /* where the memory was by which private bytes went to a peer and came back */
    size_t bytes[RANKS];
} mapped;

/* All that can see the memory of the rank's host is closed; what leads to other hosts is left. */
static void leave_host(void *context, uint32_t rank)
{
    mapped *m = context;
    ronda_comm *inside = NULL, *of = m->w.comms[rank];
    if (!CHECK(!ronda_split(of, (int)(rank / 2), 0, &inside), "%s", ronda_last_error(of)) ||
        !CHECK(!ronda_split(of, (int)(rank % 2), 0, &m->across[rank]), "%s", ronda_last_error(of)))
        return;
    inside->link->cpus = 2; /* a core for each */
    CHECK(use(of, 1) && use(inside, 2) && use(m->across[rank], 3) && use(inside, 4), "calls");
    m->at[rank] = inside->engine->swap->memory;
    m->bytes[rank] = inside->engine->swap->bytes;
    CHECK(!ronda_close(of) && !ronda_close(inside), "%s", ronda_last_error(NULL));
}

static void close_across(void *context, uint32_t rank)
{
    const mapped *m = context;
    CHECK(use(m->across[rank], 5), "the last one");
    CHECK(!ronda_close(m->across[rank]), "%s", ronda_last_error(NULL));
}

/* What the program maps where ronda's memory was is the program's. */
TEST(the_last_part_to_close_unmaps_nothing_of_the_programs)
{
    enum { PAGE = 4096 };
    static mapped m;
    char *own[RANKS] = {NULL};
    uint32_t mapped_again = 0;
    unsigned char resident[1];
    if (!open_world(&m.w))
        return;
    run_ranks(RANKS, leave_host, &m);
    for (uint32_t r = 0; r < 4 && !test_failed(); r++) {
        if (!CHECK(m.bytes[r] > PAGE, "rank %u has no memory to return bytes in", r))
            return;
        own[r] = mmap(m.at[r], m.bytes[r], PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        own[r] = own[r] == MAP_FAILED ? NULL : own[r]; /* something of this process is there */
        mapped_again += own[r] != NULL;
    }
    CHECK(mapped_again > 0, "nothing could be mapped where ronda's memory was");
    run_ranks(RANKS, close_across, &m);
    for (uint32_t r = 0; r < 4; r++)
        for (size_t at = 0; own[r] && at < m.bytes[r]; at += PAGE)
            if (!CHECK(mincore(own[r] + at, PAGE, resident) == 0,
                       "rank %u: byte %zu of what the program mapped is gone", r, at))
                break;
    for (uint32_t r = 0; r < 4; r++)
        if (own[r])
            munmap(own[r], m.bytes[r]);
}
