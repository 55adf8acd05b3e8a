/* reduce.c: the result goes to the root alone.
 *
 *     direct     everyone sends everything to the root, which folds all in one pass, in rank order
 *     two-shot   rank r folds part r of all ranks in one pass, and sends it to the root
 *     binomial   partial sums climb a tree; ranks are rotated so that the root is number 0:
 *
 *                round 0:  1->0  3->2  5->4  7->6
 *                round 1:  2->0        6->4
 *                round 2:  4->0 */
#include "plan/algorithms.h"

/* One round; count elements sent by each rank but the root. */
void rd_reduce_direct(rd_plan *p, rd_shape s)
{
    const rd_range in = rd_whole(s, RD_IN);

    if (s.rank != s.root) {
        rd_send(p, s.root, in);
        return;
    }
    rd_fold_many(p, NULL, s.size, in, rd_whole(s, RD_OUT));
    rd_scale(p, rd_whole(s, RD_OUT));
}

/* Two rounds; count elements sent by each rank but the root, which sends count * (n-1)/n. */
void rd_reduce_two_shot(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    const rd_range mine = rd_part(s, RD_IN, r);
    const rd_range sum = r == s.root ? rd_part(s, RD_OUT, r) : rd_scratch(p, 0, mine.count);

    for (uint32_t k = 1; k < n; k++)
        rd_send(p, (r + k) % n, rd_part(s, RD_IN, (r + k) % n));
    rd_fold_many(p, NULL, n, mine, sum);
    rd_scale(p, sum);
    rd_round(p, 1);
    if (r != s.root)
        rd_send(p, s.root, sum);
    for (uint32_t k = 1; k < n && r == s.root; k++)
        rd_recv(p, (r + k) % n, rd_part(s, RD_OUT, (r + k) % n));
}

/* ceil(log2(n)) rounds; count elements sent by each rank but the root. */
void rd_reduce_binomial(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, v = rd_number(s);
    const bool inner = v % 2 == 0 && v + 1 < n;
    rd_range have = rd_whole(s, RD_IN);
    const rd_range sum = v == 0 ? rd_whole(s, RD_OUT) : rd_scratch(p, 0, inner ? s.count : 0);

    if (n == 1)
        rd_copy(p, have, sum);
    for (uint32_t far = 1, round = 0; far < n; far *= 2, round++) {
        rd_round(p, round);
        if (v & far) {
            rd_send(p, rd_numbered(s, v - far), have);
            return;
        }
        if (v + (uint64_t)far >= n)
            continue;
        rd_fold(p, rd_numbered(s, (uint64_t)v + far), have, sum, RD_HERE_LEFT);
        have = sum;
    }
    rd_scale(p, rd_whole(s, RD_OUT));
}
