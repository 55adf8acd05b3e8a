/* test_memory.c: ronda_alloc and ronda_free, and the list of pages behind them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "calls.h"
#include "processes.h"
#include "transport/heap.h"

/* --- the list --- */

TEST(taken_pages_never_overlap)
{
    enum { BLOCKS = 40, PAGES = 64 };
    rng r = rng_start();
    rd_heap h = {.bytes = PAGES * RD_HEAP_PAGE};
    uint64_t at[BLOCKS], bytes[BLOCKS];
    bool used[BLOCKS] = {false}, owned[PAGES] = {false};
    for (uint32_t step = 0; step < 20000 && !test_failed(); step++) {
        const uint32_t i = (uint32_t)rng_below(&r, BLOCKS);
        if (used[i]) {
            const uint64_t pages = (bytes[i] + RD_HEAP_PAGE - 1) / RD_HEAP_PAGE;
            const uint64_t whole = (pages ? pages : 1) * RD_HEAP_PAGE;
            CHECK(rd_heap_give(&h, at[i]) == whole, "other bytes came back");
            memset(owned + at[i] / RD_HEAP_PAGE, 0, whole / RD_HEAP_PAGE);
            used[i] = false;
            continue;
        }
        bytes[i] = rng_below(&r, 6) ? rng_below(&r, 5 * RD_HEAP_PAGE) : rng_below(&r, h.bytes * 2);
        if (!rd_heap_take(&h, bytes[i], &at[i]))
            continue;
        used[i] = true;
        CHECK(at[i] % RD_HEAP_PAGE == 0 && at[i] <= h.bytes && bytes[i] <= h.bytes - at[i],
              "a place outside");
        for (uint64_t p = at[i]; p < at[i] + bytes[i]; p += RD_HEAP_PAGE) {
            CHECK(!owned[p / RD_HEAP_PAGE], "page %" PRIu64 " was given twice", p / RD_HEAP_PAGE);
            owned[p / RD_HEAP_PAGE] = true;
        }
        if (!bytes[i])
            owned[at[i] / RD_HEAP_PAGE] = true;
    }
    CHECK(rd_heap_give(&h, 17) == 0, "something began at 17");
    rd_heap_free(&h);
}

TEST(the_whole_range_can_be_taken)
{
    rd_heap h = {.bytes = 10 * RD_HEAP_PAGE};
    uint64_t at;
    CHECK(!rd_heap_take(&h, h.bytes + 1, &at) && !rd_heap_take(&h, UINT64_MAX, &at), "too much");
    CHECK(rd_heap_take(&h, h.bytes, &at) && at == 0, "not all of it");
    CHECK(!rd_heap_take(&h, 1, &at), "more than all");
    CHECK(rd_heap_give(&h, 0) == h.bytes, "not all came back");
    rd_mem_fail_after(0);
    rd_heap empty = {.bytes = h.bytes};
    CHECK(!rd_heap_take(&empty, 1, &at), "without memory");
    rd_mem_fail_after(-1);
    rd_heap_free(&h);
}

/* --- the calls --- */

/* Everything that one rank can do right and wrong, the same for threads and processes. */
static void use(ronda_comm *c)
{
    enum { BYTES = 3 << 20 };
    char *a = NULL, *b = NULL, *none = NULL;
    void *never = &a;
    CHECK(ronda_alloc(c, BYTES, (void **)&a) == RONDA_OK, "%s", ronda_last_error(c));
    CHECK(ronda_alloc(c, 100, (void **)&b) == RONDA_OK, "%s", ronda_last_error(c));
    CHECK(ronda_alloc(c, 0, (void **)&none) == RONDA_OK && none, "%s", ronda_last_error(c));
    if (test_failed())
        return;
    CHECK((uintptr_t)a % 4096 == 0 && (uintptr_t)b % 4096 == 0, "not on a page");
    CHECK(all_bytes_are(0, a, BYTES) && all_bytes_are(0, b, 100), "not zero");
    memset(a, 1, BYTES);
    memset(b, 2, 100);
    CHECK(a[0] == 1 && a[BYTES - 1] == 1 && b[99] == 2, "they overlap");
    CHECK(ronda_free(c, a + 1) == RONDA_EINVAL && strstr(ronda_last_error(c), "ronda_alloc"),
          "freed from the middle: %s", ronda_last_error(c));
    CHECK(ronda_free(c, a) == RONDA_OK && ronda_free(c, a) == RONDA_EINVAL, "freed twice");
    CHECK(ronda_free(c, &never) == RONDA_EINVAL, "freed what is not its own");
    CHECK(ronda_free(c, NULL) == RONDA_OK, "NULL is nothing to free");
    CHECK(ronda_alloc(c, BYTES, (void **)&a) == RONDA_OK && all_bytes_are(0, a, BYTES),
          "not zero again");
    CHECK(ronda_alloc(c, SIZE_MAX, &never) == RONDA_ENOMEM && never == &a, "all there is");
    CHECK(ronda_alloc(c, (size_t)1 << 60, &never) == RONDA_ENOMEM && never == &a &&
              strstr(ronda_last_error(c), "1152921504606846976"),
          "an exabyte: %s", ronda_last_error(c));
    CHECK(ronda_alloc(c, 1, NULL) == RONDA_EINVAL, "nowhere to put it");
    CHECK(ronda_free(c, none) == RONDA_OK, "%s", ronda_last_error(c));
    CHECK(ronda_alloc(c, 1, (void **)&none) == RONDA_OK &&
              strstr(ronda_last_error(c), "out is NULL"),
          "what works changes the last failure: '%s'", ronda_last_error(c));
    /* b and a are left to ronda_close */
}

TEST(without_a_communicator)
{
    void *out;
    CHECK(ronda_alloc(NULL, 1, &out) == RONDA_EINVAL && ronda_free(NULL, NULL) == RONDA_EINVAL,
          "there is none");
}

static void use_in_thread(ronda_comm *comm, uint32_t rank)
{
    (void)rank;
    use(comm);
}

TEST(threads)
{
    world_play(3, NULL, use_in_thread);
}

/* Each rank's memory is its own, and all of it works in one call. */
static int use_in_process(job *j, uint32_t rank)
{
    enum { COUNT = 300000 };
    ronda_comm *c = job_join(j, rank);
    void *memory;
    use(c);
    CHECK(ronda_alloc(c, COUNT * sizeof(float), &memory) == RONDA_OK, "%s", ronda_last_error(c));
    float *x = memory;
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < COUNT; i++)
            x[i] = (float)((rank + 1) * (i % 61 + round));
        CHECK(ronda_allreduce(c, x, x, COUNT, RONDA_F32, RONDA_SUM) == RONDA_OK, "%s",
              ronda_last_error(c));
        for (uint32_t i = 0; i < COUNT; i++)
            if (!CHECK(x[i] == (float)(j->size * (j->size + 1) / 2 * (i % 61 + round)),
                       "rank %u: element %u is %g", rank, i, (double)x[i]))
                return 1;
    }
    ronda_close(c);
    return 0;
}

/* --- what a large world takes --- */

enum { CROWD = 64, MOST_EACH = 4 << 20 };

/* Bytes of the job's memfd that are there, as far as this process can see one. */
static uint64_t shared_bytes(void)
{
    for (int fd = 0; fd < 4096; fd++) {
        char path[64], name[64] = "";
        struct stat file;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, name, sizeof name - 1) > 0 && strstr(name, "memfd:ronda") &&
            fstat(fd, &file) == 0)
            return (uint64_t)file.st_blocks * 512;
    }
    return UINT64_MAX;
}

static int call_everything(job *j, uint32_t rank)
{
    static const uint32_t counts[] = {2, 300, 20000, 200000};
    ronda_comm *c = job_join(j, rank);
    float *x = calloc(300000, sizeof *x), *y = calloc(300000, sizeof *y);
    for (uint32_t i = 0; c && i < 4; i++) {
        const uint32_t n = counts[i], each = n / CROWD + 1;
        CHECK(ronda_allreduce(c, x, x, n, RONDA_F32, RONDA_SUM) == RONDA_OK &&
                  ronda_broadcast(c, x, n, RONDA_F32, i) == RONDA_OK &&
                  ronda_allgather(c, x, y, each, RONDA_F32) == RONDA_OK &&
                  ronda_reduce_scatter(c, x, y, each, RONDA_F32, RONDA_SUM) == RONDA_OK &&
                  ronda_barrier(c) == RONDA_OK,
              "%s", ronda_last_error(c));
    }
    if (rank == 0)
        CHECK(shared_bytes() < (uint64_t)CROWD * MOST_EACH, "%" PRIu64 " bytes are shared",
              shared_bytes());
    ronda_close(c);
    free(x);
    free(y);
    return 0;
}

TEST(sixty_four_ranks_take_less_than_4_MiB_each)
{
    test_deadline(120);
    job_run(CROWD, call_everything, NULL, 100);
}

TEST(processes)
{
    test_deadline(120);
    for (uint32_t size = 2; size <= 5 && !test_failed(); size++)
        job_run(size, use_in_process, NULL, 60);
}
