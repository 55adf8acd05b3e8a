/* test_memory.c: ronda_alloc and ronda_free, and the list of pages behind them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/mem_limit.h"
#include "calls.h"
#include "folders.h"
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

/* --- memory that a call under way has --- */

enum { LONG = 70000 }; /* elements: longer than a message that is taken in unasked */

/* false: the memory may be gone, so the scene is over, for all ranks. */
static bool refuses(ronda_comm *c, void *memory, const char *call)
{
    const ronda_status status = ronda_free(c, memory);
    if (CHECK(status == RONDA_EINVAL && strstr(ronda_last_error(c), call) &&
                  strstr(ronda_last_error(c), "wait for its request"),
              "%d: %s", status, ronda_last_error(c)))
        return true;
    ronda_abort(c, "memory in operation was freed");
    return false;
}

static uint32_t *take(ronda_comm *c)
{
    void *memory = NULL;
    CHECK(ronda_alloc(c, LONG * sizeof(uint32_t), &memory) == RONDA_OK, "%s", ronda_last_error(c));
    return memory;
}

static void fill(uint32_t *x, uint32_t rank)
{
    for (uint32_t i = 0; i < LONG; i++)
        x[i] = rank * 1000 + i;
}

static void check_sum(ronda_comm *c, const uint32_t *x)
{
    const uint32_t n = ronda_size(c);
    for (uint32_t i = 0; i < LONG; i++)
        if (!CHECK(x[i] == n * (n - 1) / 2 * 1000 + n * i, "element %u is %u", i, x[i]))
            return;
}

static void finish(ronda_comm *c, ronda_request *request)
{
    CHECK(ronda_wait(request) == RONDA_OK, "%s", ronda_last_error(c));
}

/* Both buffers of a collective, of a plan and of messages stay until they have been waited for. */
static bool free_too_early(ronda_comm *c, uint32_t rank)
{
    uint32_t *in = take(c), *out = take(c), *idle = take(c);
    const uint32_t n = ronda_size(c);
    const ronda_call call = {.struct_size = sizeof call,
                             .kind = RONDA_ALLREDUCE,
                             .type = RONDA_U32,
                             .op = RONDA_SUM,
                             .count = LONG};
    ronda_request *first = NULL, *second = NULL;
    ronda_plan *plan = NULL;
    fill(in, rank);
    CHECK(!ronda_iallreduce(c, in, out, LONG, RONDA_U32, RONDA_SUM, &first), "allreduce");
    if (!refuses(c, in, "allreduce #1 of 70000 u32, sum") ||
        !refuses(c, out, "allreduce #1 of 70000 u32, sum"))
        return false;
    CHECK(ronda_free(c, idle) == RONDA_OK, "nobody has it: %s", ronda_last_error(c));
    finish(c, first);
    check_sum(c, out);
    CHECK(!ronda_plan_create(c, &call, &plan) && !ronda_start(plan, out, out, &first), "plan");
    if (!refuses(c, out, "allreduce #2"))
        return false;
    finish(c, first);
    ronda_plan_free(plan);
    fill(in, rank);
    CHECK(!ronda_isend(c, in, LONG, RONDA_U32, (rank + 1) % n, 7, &first) &&
              !ronda_irecv(c, out, LONG, RONDA_U32, (rank + n - 1) % n, 7, NULL, &second),
          "%s", ronda_last_error(c));
    if (!refuses(c, in, "send of 70000 u32 with tag 7 to rank") ||
        !refuses(c, out, "recv of 70000 u32 with tag 7 from rank"))
        return false;
    finish(c, first);
    finish(c, second);
    for (uint32_t i = 0; i < LONG; i++)
        if (!CHECK(out[i] == (rank + n - 1) % n * 1000 + i, "element %u is %u", i, out[i]))
            break;
    return CHECK(!ronda_free(c, in) && !ronda_free(c, out), "%s", ronda_last_error(c));
}

/* What a buffer of no elements points to, or one that is not looked at, is nobody's. */
static void free_what_is_not_used(ronda_comm *c, uint32_t rank)
{
    uint32_t *x = take(c), word = rank, sum = 0;
    ronda_request *requests[2];
    CHECK(!ronda_ireduce(c, &word, rank ? x : &sum, 1, RONDA_U32, RONDA_SUM, 0, &requests[0]) &&
              !ronda_iallreduce(c, x, x, 0, RONDA_U32, RONDA_SUM, &requests[1]),
          "%s", ronda_last_error(c));
    CHECK(ronda_free(c, x) == RONDA_OK, "%s", ronda_last_error(c));
    CHECK(ronda_wait_all(requests, 2) == RONDA_OK, "%s", ronda_last_error(c));
}

/* Memory of one communicator in a call of another: neither free nor close takes it away. */
static void free_under_a_sibling(ronda_comm *c, uint32_t rank)
{
    ronda_comm *world = NULL, *part = NULL;
    ronda_request *request = NULL;
    if (!CHECK(!ronda_split(c, 0, (int)rank, &world) && !ronda_split(c, 0, -(int)rank, &part), "%s",
               ronda_last_error(c)))
        return;
    uint32_t *x = take(world), *y = take(world);
    fill(x, rank);
    CHECK(!ronda_iallreduce(part, x, y, LONG, RONDA_U32, RONDA_SUM, &request), "%s",
          ronda_last_error(part));
    if (!refuses(world, y, "allreduce #1 of 70000 u32, sum, of a communicator of")) {
        ronda_abort(part, "memory in operation was freed");
        return;
    }
    CHECK(ronda_close(world) == RONDA_EINVAL && strstr(ronda_last_error(world), "ronda_close: all"),
          "%s", ronda_last_error(world));
    finish(part, request);
    check_sum(part, y);
    CHECK(!ronda_free(world, x) && !ronda_close(world), "%s", ronda_last_error(NULL));
    CHECK(!ronda_close(part), "%s", ronda_last_error(NULL));
}

/* After a failure requests have nothing any more, waited for or not. */
static void free_after_a_failure(ronda_comm *c, uint32_t rank)
{
    ronda_comm *world = NULL, *part = NULL;
    ronda_request *request = NULL;
    if (!CHECK(!ronda_split(c, 0, (int)rank, &world) && !ronda_split(world, 0, 0, &part), "%s",
               ronda_last_error(c)))
        return;
    uint32_t *x = take(world);
    if (rank) /* rank 0 never comes */
        CHECK(!ronda_iallreduce(part, x, x, LONG, RONDA_U32, RONDA_SUM, &request), "start");
    CHECK(!ronda_barrier(world), "%s", ronda_last_error(world));
    ronda_abort(part, "enough");
    CHECK(ronda_close(world) == RONDA_OK, "%s", ronda_last_error(world));
    CHECK(ronda_close(part) == RONDA_OK, "%s", ronda_last_error(part));
}

static void free_in_use(ronda_comm *c, uint32_t rank)
{
    if (!free_too_early(c, rank))
        return;
    free_what_is_not_used(c, rank);
    free_under_a_sibling(c, rank);
    free_after_a_failure(c, rank);
}

TEST(memory_in_use_is_not_freed_by_threads)
{
    world_play(3, NULL, free_in_use);
}

TEST(memory_in_use_is_not_freed_by_processes)
{
    static const char *const ways[] = {"shm", "tcp"};
    for (int i = 0; i < 4; i++) {
        setenv("RONDA_TRANSPORT", ways[i % 2], 1);
        setenv("RONDA_PROGRESS", i < 2 ? "0" : "1", 1);
        job_play(3, free_in_use, 40);
    }
    unsetenv("RONDA_TRANSPORT");
    unsetenv("RONDA_PROGRESS");
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

/* --- limits of groups --- */

TEST(room_is_the_least_of_all_groups)
{
    char first[40], second[40];
    if (!folder_make(first) || !folder_make(second))
        return;
    folder_put(second, "a/memory.max", "1000000\n");
    folder_put(second, "a/memory.current", "900000\n");
    folder_put(second, "a/memory.stat",
               "anon 5\nfile 700000\ninactive_file 100000\nactive_file 50000\n");
    folder_put(second, "a/memory.swap.max", "7000\n");
    folder_put(second, "a/memory.swap.current", "3000\n");
    folder_put(second, "a/b/memory.max", "max\n");
    folder_put(second, "a/b/memory.current", "800000\n");
    CHECK(rd_memory_room("0::/a/b\n", second, 0) == 250000, "without swap");
    CHECK(rd_memory_room("0::/a/b\n", second, 1000) == 251000, "what the machine has of it");
    CHECK(rd_memory_room("0::/a/b\n", second, 1 << 30) == 254000, "what the group may have of it");
    CHECK(rd_memory_room("0::/\n", second, 0) == UINT64_MAX, "no limit at the top");
    CHECK(rd_memory_room("0::/elsewhere\n", second, 0) == UINT64_MAX, "a group that is not there");
    CHECK(rd_memory_room("", second, 0) == UINT64_MAX, "no group at all");
    folder_put(first, "memory/memory.limit_in_bytes", "9223372036854771712\n");
    folder_put(first, "memory/memory.usage_in_bytes", "5000000\n");
    folder_put(first, "memory/c/memory.limit_in_bytes", "3000000\n");
    folder_put(first, "memory/c/memory.usage_in_bytes", "2900000\n");
    folder_put(first, "memory/c/memory.stat", "inactive_file 9\ntotal_inactive_file 40000\n");
    CHECK(rd_memory_room("4:memory:/c\n1:cpu:/c\n0::/\n", first, 0) == 140000, "version 1");
    CHECK(rd_memory_room("4:memory:/\n0::/\n", first, 0) == UINT64_MAX, "a huge number is none");
    folder_put(first, "memory/c/memory.usage_in_bytes", "3900000\n");
    CHECK(rd_memory_room("4:memory:/c\n", first, 0) == 0, "more is used than may be");
    folder_remove(second);
    folder_remove(first);
}

enum { LIMIT = 64 << 20 };

static bool write_to(const char *folder, const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    const bool written = file && fputs(text, file) >= 0;
    return file && fclose(file) == 0 && written;
}

/* Piece after piece is given until there is no room, and what was given can be written. */
static void take_all(ronda_comm *c)
{
    enum { PIECE = LIMIT / 4, MOST = 8 };
    void *piece[MOST];
    int n = 0;
    while (n < MOST && ronda_alloc(c, PIECE, &piece[n]) == RONDA_OK)
        n++;
    CHECK(n > 0 && n < LIMIT / PIECE, "%d pieces of a quarter of the limit were given", n);
    for (int i = 0; i < n; i++)
        memset(piece[i], i, PIECE);
    for (int i = 0; i < n; i++)
        CHECK(ronda_free(c, piece[i]) == RONDA_OK, "%s", ronda_last_error(c));
}

/* In a group that may have 64 MiB: more is refused, less is there and can be written. */
static int take_too_much(job *j, uint32_t rank)
{
    void *memory = NULL;
    char pid[20];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    if (!CHECK(write_to(j->context, "cgroup.procs", pid), "cannot enter the group"))
        return 1;
    ronda_comm *c = job_join(j, rank);
    CHECK(ronda_alloc(c, 2 * (size_t)LIMIT, &memory) == RONDA_ENOMEM, "more than there is");
    CHECK(ronda_alloc(c, LIMIT / 16, &memory) == RONDA_OK, "%s", ronda_last_error(c));
    memset(memory, 1, LIMIT / 16);
    if (rank == 0)
        take_all(c);
    CHECK(ronda_barrier(c) == RONDA_OK, "%s", ronda_last_error(c));
    CHECK(ronda_close(c) == RONDA_OK, "%s", ronda_last_error(NULL));
    return 0;
}

TEST(more_than_a_group_may_have_is_refused)
{
    static const char *const ways[] = {"shm", "tcp"};
    char folder[100], limit[20];
    const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    bool made = false;
    snprintf(limit, sizeof limit, "%d", LIMIT);
    for (int i = 0; i < 2 && !made; i++) {
        snprintf(folder, sizeof folder, "%s/ronda-test-%d", roots[i], (int)getpid());
        if (mkdir(folder, 0700))
            continue;
        made = write_to(folder, i ? "memory.max" : "memory.limit_in_bytes", limit);
        if (!made)
            rmdir(folder);
    }
    if (!made) {
        test_skip("no group with a limit of memory can be made");
        return;
    }
    for (int i = 0; i < 2; i++) {
        setenv("RONDA_TRANSPORT", ways[i], 1);
        job_run(2, take_too_much, folder, 40);
    }
    unsetenv("RONDA_TRANSPORT");
    for (int i = 0; i < 100 && rmdir(folder); i++)
        sleep_ms(20);
    CHECK(access(folder, F_OK) != 0, "%s is left", folder);
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
