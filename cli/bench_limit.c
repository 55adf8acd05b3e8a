/* bench_limit.c: a cache line that two ranks throw to each other: nothing between them can be quicker.
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

struct bench_line {
    struct {
        _Alignas(128) _Atomic uint64_t ball;
    } * sides; /* [2], in the page */
    uint64_t thrown;
    bool crowded; /* more ranks than cores: the two may share one */
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

bench_line *bench_line_open(ronda_comm *comm, bool crowded)
{
    const int fd = open_page(comm);
    bench_line *l = calloc(1, sizeof *l);
    int32_t all = l && fd >= 0;
    if (all)
        all = (l->sides = rd_map_file(fd, PAGE)) != NULL;
    /* Everybody has it, or nobody */
    if (ronda_allreduce(comm, &all, &all, 1, RONDA_I32, RONDA_MIN))
        all = 0;
    if (fd >= 0)
        close(fd);
    if (all) {
        l->crowded = crowded;
        return l;
    }
    bench_line_close(l);
    return NULL;
}

void bench_line_close(bench_line *l)
{
    if (l)
        rd_unmap(l->sides, PAGE);
    free(l);
}

/* A peer that has died throws nothing back; the next call says who it was. */
static void await_ball(const bench_line *l, _Atomic uint64_t *theirs, uint64_t ball,
                       uint64_t until_ns)
{
    for (uint32_t k = 1; atomic_load_explicit(theirs, memory_order_acquire) < ball; k++) {
        if (k % 4096 == 0 && rd_now_ns() > until_ns)
            return;
        if (l->crowded)
            sched_yield();
        else
            rd_relax();
    }
}

static double one_set(bench_line *l, uint32_t rank, uint64_t until_ns)
{
    _Atomic uint64_t *mine = &l->sides[rank].ball, *theirs = &l->sides[1 - rank].ball;
    const uint64_t from = rd_now_ns();
    for (int i = 0; i < TRIPS; i++) {
        const uint64_t ball = ++l->thrown;
        if (rank == 0)
            atomic_store_explicit(mine, ball, memory_order_release);
        await_ball(l, theirs, ball, until_ns);
        if (rank == 1)
            atomic_store_explicit(mine, ball, memory_order_release);
    }
    return (double)(rd_now_ns() - from) / TRIPS / 1e3;
}

/* The least of a few, since the first one waits for the other rank to come. */
double bench_round_trip_us(bench_line *l, uint32_t rank)
{
    const uint64_t until = rd_now_ns() + MOST_WAIT_NS;
    double least = 0;
    for (int k = 0; k < SETS; k++) {
        const double us = one_set(l, rank, until);
        least = k == 0 || us < least ? us : least;
    }
    return least;
}
