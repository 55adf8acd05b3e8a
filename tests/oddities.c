/* oddities.c: see oddities.h. */
#include "oddities.h"

/* A sum goes up the chain of ranks, merged in two halves at each; the result comes down. */
static void chain(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    const rd_range out = rd_whole(s, RD_OUT), below = rd_scratch(p, 0, s.count);
    const uint64_t half = s.count / 2;

    rd_copy(p, rd_whole(s, RD_IN), out);
    if (r > 0) {
        rd_round(p, r - 1);
        rd_recv(p, r - 1, below);
        rd_merge(p, (rd_range){below.buffer, below.at, half}, (rd_range){out.buffer, out.at, half},
                 RD_HERE_RIGHT);
        rd_merge(p, (rd_range){below.buffer, below.at + half, s.count - half},
                 (rd_range){out.buffer, out.at + half, s.count - half}, RD_HERE_RIGHT);
    }
    rd_round(p, r);
    if (r + 1 < n) {
        rd_send(p, r + 1, out);
        rd_round(p, 2 * n - r - 2);
        rd_recv(p, r + 1, out);
    } else if (n > 1) {
        rd_scale(p, out);
    }
    rd_round(p, 2 * n - r - 1);
    if (r > 0)
        rd_send(p, r - 1, out);
}

/* Ranks 0 and 1 both fold everything; rank 0 tells the others.  In place, the others lend one range to
 * two peers, and only one of them returns it. */
static void witness(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    const rd_range in = rd_whole(s, RD_IN), out = rd_whole(s, RD_OUT);

    if (r > 1) {
        rd_send(p, 0, in);
        rd_send(p, 1, in);
        rd_round(p, 1);
        rd_recv(p, 0, out);
        return;
    }
    if (n > 1) {
        const rd_range copy = rd_scratch(p, 0, s.count);
        rd_copy(p, in, copy);
        rd_send(p, 1 - r, copy);
    }
    rd_fold_many(p, NULL, n, in, out);
    if (n > 1)
        rd_scale(p, out);
    rd_round(p, 1);
    for (uint32_t q = 2; q < n && r == 0; q++)
        rd_send(p, q, out);
}

const rd_algorithm oddities[] = {
    {RONDA_ALLREDUCE, "chain", chain, RD_ORDERED, "a sum up the chain, the result down"},
    {RONDA_ALLREDUCE, "witness", witness, RD_ORDERED,
     "two ranks fold everything, one of them tells"},
    {0, NULL, NULL, 0, NULL},
};
