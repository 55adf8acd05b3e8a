/* scan.c: rank r gets the fold of ranks 0 .. r (scan) or 0 .. r-1 (exscan), in rank order.
 *
 *     linear     each rank adds its own to what comes from the rank before and passes it on; n-1
 *                rounds, chunks follow each other
 *     doubling   in round k rank r hears from rank r - 2^k what that one has of the 2^k ranks up to it:
 *
 *                         0     1     2     3     4
 *                round 0  0     01    12    23    34
 *                round 1  0     01    012   0123  1234
 *                round 2  0     01    012   0123  01234 */
#include "plan/algorithms.h"

/* n-1 rounds; count elements sent by each rank but the last. */
void rd_scan_linear(rd_plan *p, rd_shape s)
{
    const rd_range in = rd_whole(s, RD_IN), out = rd_whole(s, RD_OUT);

    if (s.rank == 0) {
        rd_copy(p, in, out);
    } else {
        rd_round(p, s.rank - 1);
        rd_fold(p, s.rank - 1, in, out, RD_HERE_RIGHT);
    }
    rd_round(p, s.rank);
    if (s.rank + 1 < s.size)
        rd_send(p, s.rank + 1, out);
}

/* ceil(log2(n)) rounds; count elements sent in each.  Results of a round are written where nobody still
 * reads those of the round before. */
void rd_scan_doubling(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    const rd_range out = rd_whole(s, RD_OUT);
    rd_range have = rd_whole(s, RD_IN);

    if (r == 0)
        rd_copy(p, have, out);
    for (uint32_t far = 1, round = 0; far < n; far *= 2, round++) {
        rd_round(p, round);
        if (r + (uint64_t)far < n)
            rd_send(p, r + far, have);
        if (r < far)
            continue;
        const bool last = r < 2 * (uint64_t)far;
        const rd_range next = last ? out : rd_scratch(p, round % 2 * s.count, s.count);
        rd_fold(p, r - far, have, next, RD_HERE_RIGHT);
        have = next;
    }
}

/* n-1 rounds; count elements sent by each rank but the last. */
void rd_exscan_linear(rd_plan *p, rd_shape s)
{
    const uint32_t r = s.rank;
    const rd_range in = rd_whole(s, RD_IN), out = rd_whole(s, RD_OUT);
    const bool passes_on = r + 1 < s.size;

    if (r == 0) {
        if (passes_on)
            rd_send(p, 1, in);
        return;
    }
    const rd_range sum = rd_scratch(p, 0, passes_on ? s.count : 0);
    if (passes_on)
        rd_copy(p, in, sum);
    rd_round(p, r - 1);
    rd_recv(p, r - 1, out);
    if (!passes_on)
        return;
    rd_merge(p, out, sum, RD_HERE_RIGHT);
    rd_round(p, r);
    rd_send(p, r + 1, sum);
}

/* ceil(log2(n)) rounds; count elements sent in each.  What arrives is folded into the result and, if there
 * is somebody further on to tell, into what this rank and those before it have. */
void rd_exscan_doubling(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    const uint64_t c = s.count;
    const rd_range out = rd_whole(s, RD_OUT);
    rd_range have = rd_whole(s, RD_IN);

    if (r && r + 1 < n) { /* in place the first arrival overwrites it */
        const rd_range copy = rd_scratch(p, 0, c);
        rd_copy(p, have, copy);
        have = copy;
    }
    for (uint32_t far = 1, round = 0; far < n; far *= 2, round++) {
        rd_round(p, round);
        if (r + (uint64_t)far < n)
            rd_send(p, r + far, have);
        if (r < far)
            continue;
        const rd_range arrives = far == 1 ? out : rd_scratch(p, (2 + round) * c, c);
        rd_recv(p, r - far, arrives);
        if (r + 2 * (uint64_t)far < n) {
            const rd_range next = rd_scratch(p, (1 + round % 2) * c, c);
            rd_copy(p, have, next);
            rd_merge(p, arrives, next, RD_HERE_RIGHT);
            have = next;
        }
        if (far > 1)
            rd_merge(p, arrives, out, RD_HERE_RIGHT);
    }
}
