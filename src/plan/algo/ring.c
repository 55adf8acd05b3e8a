/* ring.c: rank r sends to r+1 and receives from r-1.  The fewest bytes, only two neighbours.
 *
 * Reduce-scatter round k (from 1): rank r sends block r-k to the right and folds block r-k-1,
 * arriving from the left, with its own.  What one round folds the next one sends, so block r ends
 * complete on rank r.  All-gather round k (from 0): rank r sends block r-k, receives block r-k-1.
 * For n = 3:
 *
 *              reduce-scatter                      all-gather
 *              k = 1            k = 2              k = 0            k = 1
 *     rank 0   send 2, fold 1   send 1, fold 0     send 0, recv 2   send 2, recv 1
 *     rank 1   send 0, fold 2   send 2, fold 1     send 1, recv 0   send 0, recv 2
 *     rank 2   send 1, fold 0   send 0, fold 2     send 2, recv 1   send 1, recv 0
 */
#include "plan/algorithms.h"

static uint32_t left_of(rd_shape s)
{
    return (s.rank + s.size - 1) % s.size;
}

static uint32_t right_of(rd_shape s)
{
    return (s.rank + 1) % s.size;
}

/* The block k places before this rank's own. */
static uint32_t behind(rd_shape s, uint32_t k)
{
    return (s.rank + s.size - k % s.size) % s.size;
}

/* 2(n-1) rounds; 2 * count * (n-1)/n elements sent per rank. */
void rd_allreduce_ring(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size;
    rd_range part = rd_part(s, RD_IN, behind(s, 1)); /* what came last goes next */

    if (n == 1)
        rd_copy(p, rd_whole(s, RD_IN), rd_whole(s, RD_OUT));
    for (uint32_t k = 1; k < n; k++) {
        rd_round(p, k - 1);
        rd_send(p, right_of(s), part);
        part = rd_part(s, RD_OUT, behind(s, k + 1));
        rd_fold(p, left_of(s), (rd_range){RD_IN, part.at, part.count}, part, RD_HERE_RIGHT);
    }
    rd_scale(p, rd_part(s, RD_OUT, s.rank));
    for (uint32_t k = 0; k + 1 < n; k++) {
        rd_round(p, n - 1 + k);
        rd_send(p, right_of(s), part);
        part = rd_part(s, RD_OUT, behind(s, k + 1));
        rd_recv(p, left_of(s), part);
    }
}

/* n-1 rounds; count * (n-1) elements sent per rank.  The caller's input stays as it is, so partial
 * sums live in two blocks of scratch, used in turn: while one is being sent the next is folded. */
void rd_reduce_scatter_ring(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size;
    const uint64_t second = n > 3 ? rd_widest(s, RD_IN) : 0;

    if (n == 1)
        rd_copy(p, rd_slot(s, RD_IN, 0), rd_whole(s, RD_OUT));
    for (uint32_t k = 1; k < n; k++) {
        const rd_range sent = rd_slot(s, RD_IN, behind(s, k)),
                       mine = rd_slot(s, RD_IN, behind(s, k + 1));
        rd_round(p, k - 1);
        rd_send(p, right_of(s), k == 1 ? sent : rd_scratch(p, k % 2 * second, sent.count));
        rd_fold(p, left_of(s), mine,
                k == n - 1 ? rd_whole(s, RD_OUT) : rd_scratch(p, (k + 1) % 2 * second, mine.count),
                RD_HERE_RIGHT);
    }
    rd_scale(p, rd_whole(s, RD_OUT));
}

/* n-1 rounds; count * (n-1) elements sent per rank. */
void rd_allgather_ring(rd_plan *p, rd_shape s)
{
    rd_copy(p, rd_whole(s, RD_IN), rd_slot(s, RD_OUT, s.rank));
    for (uint32_t k = 0; k + 1 < s.size; k++) {
        rd_round(p, k);
        rd_send(p, right_of(s), k == 0 ? rd_whole(s, RD_IN) : rd_slot(s, RD_OUT, behind(s, k)));
        rd_recv(p, left_of(s), rd_slot(s, RD_OUT, behind(s, k + 1)));
    }
}

/* A token goes round and gathers every rank; then it goes round once more to tell them.
 * 2n-1 messages, one after another. */
void rd_barrier_ring(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    const rd_range in = rd_whole(s, RD_IN), out = rd_whole(s, RD_OUT);

    if (n == 1) {
        rd_copy(p, in, out);
        return;
    }
    if (r == 0) {
        rd_send(p, right_of(s), in);
        rd_round(p, n - 1);
        rd_fold(p, left_of(s), in, out, RD_HERE_LEFT);
    } else {
        const rd_range token = rd_scratch(p, 0, 1);
        rd_round(p, r - 1);
        rd_fold(p, left_of(s), in, token, RD_HERE_RIGHT);
        rd_round(p, r);
        rd_send(p, right_of(s), token);
        rd_round(p, n + r - 1);
        rd_recv(p, left_of(s), out);
    }
    rd_round(p, n + r);
    if (r != n - 1)
        rd_send(p, right_of(s), out);
}
