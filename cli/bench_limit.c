/* bench_limit.c: the ping-pong of a cache line between two ranks: no message can be quicker.
 *
 * The line is in a page that rank 0 makes; rank 1 finds it in /proc, as a process of the same user may.  With
 * more ranks than cores the two may share a core, so who waits yields it. */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/proof.h"
#include "bench.h"

enum { PAGE = 4096, TRIPS = 64, SETS = 3 };
static const uint64_t MOST_WAIT_NS = 5000000000u;

struct bench_pingpong {
    struct {
        _Alignas(128) _Atomic uint64_t count;
    } * sides;           /* [2], in the page */
    uint64_t trips;      /* so far */
    bool oversubscribed; /* more ranks than cores: the two may share one */
};

/* On another host that name is some other file's, if anything's: it is this page only if it has rank 0's token. */
static int open_page(ronda_comm *comm)
{
    enum { TOKEN_AT = PAGE - 8 };
    int64_t where[3] = {getpid(), -1, 0}, token = 0;
    const bool first = ronda_rank(comm) == 0;
    int fd = first ? rd_fd(memfd_create("ronda bench", MFD_CLOEXEC)) : -1;
    if (fd >= 0 && ftruncate(fd, PAGE) == 0 && rd_random(&where[2], 8) &&
        pwrite(fd, &where[2], 8, TOKEN_AT) == 8)
        where[1] = fd;
    if (ronda_broadcast(comm, where, 3, RONDA_I64, 0) || where[1] < 0 || first)
        return fd;
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)where[0], (long long)where[1]);
    fd = rd_fd(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd >= 0 && (pread(fd, &token, 8, TOKEN_AT) != 8 || token != where[2])) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bench_pingpong *bench_pingpong_open(ronda_comm *comm, bool oversubscribed)
{
    const int fd = open_page(comm);
    bench_pingpong *l = calloc(1, sizeof *l);
    int32_t all = l && fd >= 0;
    if (all)
        all = (l->sides = rd_map_file(fd, PAGE)) != NULL;
    /* Everybody has it, or nobody */
    if (ronda_allreduce(comm, &all, &all, 1, RONDA_I32, RONDA_MIN))
        all = 0;
    if (fd >= 0)
        close(fd);
    if (all) {
        l->oversubscribed = oversubscribed;
        return l;
    }
    bench_pingpong_close(l);
    return NULL;
}

void bench_pingpong_close(bench_pingpong *l)
{
    if (l)
        rd_unmap(l->sides, PAGE);
    free(l);
}

/* A peer that has died does not answer; the next call says who it was. */
static void await_count(const bench_pingpong *l, _Atomic uint64_t *theirs, uint64_t count,
                        uint64_t until_ns)
{
    for (uint32_t k = 1; atomic_load_explicit(theirs, memory_order_acquire) < count; k++) {
        if (k % 4096 == 0 && rd_now_ns() > until_ns)
            return;
        if (l->oversubscribed)
            sched_yield();
        else
            rd_relax();
    }
}

static double one_set(bench_pingpong *l, uint32_t rank, uint64_t until_ns)
{
    _Atomic uint64_t *mine = &l->sides[rank].count, *theirs = &l->sides[1 - rank].count;
    const uint64_t from = rd_now_ns();
    for (int i = 0; i < TRIPS; i++) {
        const uint64_t count = ++l->trips;
        if (rank == 0)
            atomic_store_explicit(mine, count, memory_order_release);
        await_count(l, theirs, count, until_ns);
        if (rank == 1)
            atomic_store_explicit(mine, count, memory_order_release);
    }
    return (double)(rd_now_ns() - from) / TRIPS / 1e3;
}

/* The least of a few, since the first one waits for the other rank to come. */
double bench_round_trip_us(bench_pingpong *l, uint32_t rank)
{
    const uint64_t until = rd_now_ns() + MOST_WAIT_NS;
    double least = 0;
    for (int k = 0; k < SETS; k++) {
        const double us = one_set(l, rank, until);
        least = k == 0 || us < least ? us : least;
    }
    return least;
}
