/* bruck.c: rounds that double.  The fewest rounds for small messages, for any number of ranks.
 *
 * Bruck's all-gather keeps blocks in the order r, r+1, ... of the rank: in round k it sends the first
 * 2^k blocks it has to rank r - 2^k and receives as many from r + 2^k behind them.
 *
 *     n = 5, rank 0      blocks 0 | 1 | 2 3 | 4        rounds 0, 1, 2; the last brings what is missing
 *
 * In dissemination round k rank r tells rank r + 2^k all that it has heard. */
#include "plan/algorithms.h"

/* ceil(log2(n)) rounds; count * (n-1) elements sent per rank. */
void rd_allgather_bruck(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    const uint64_t c = s.count;

    if (n == 1) {
        rd_copy(p, rd_whole(s, RD_IN), rd_slot(s, RD_OUT, 0));
        return;
    }
    rd_copy(p, rd_whole(s, RD_IN), rd_scratch(p, 0, c));
    for (uint32_t have = 1, round = 0; have < n; have *= 2, round++) {
        const uint32_t more = have < n - have ? have : n - have;
        rd_round(p, round);
        rd_send(p, (r + n - have) % n, rd_scratch(p, 0, more * c));
        rd_recv(p, (uint32_t)(((uint64_t)r + have) % n), rd_scratch(p, have * c, more * c));
    }
    rd_copy(p, rd_scratch(p, 0, (n - r) * c), (rd_range){RD_OUT, r * c, (n - r) * c});
    rd_copy(p, rd_scratch(p, (n - r) * c, r * c), (rd_range){RD_OUT, 0, r * c});
}

/* ceil(log2(n)) rounds; one token sent in each.  Every round has a token of its own, so that none is
 * overwritten while it is on its way. */
void rd_barrier_dissemination(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    rd_range token = rd_whole(s, RD_IN);

    if (n == 1)
        rd_copy(p, token, rd_whole(s, RD_OUT));
    for (uint32_t far = 1, round = 0; far < n; far *= 2, round++) {
        const rd_range next = 2 * (uint64_t)far < n ? rd_scratch(p, round, 1) : rd_whole(s, RD_OUT);
        rd_round(p, round);
        rd_send(p, (uint32_t)(((uint64_t)r + far) % n), token);
        rd_fold(p, (r + n - far) % n, token, next, RD_HERE_RIGHT);
        token = next;
    }
}
