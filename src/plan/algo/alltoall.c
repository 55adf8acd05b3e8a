/* alltoall.c: block j of rank i becomes block i of rank j.
 *
 *     pairwise   the k-th that rank r exchanges blocks with is (k - r) mod n, whose k-th is r (and once a
 *                rank meets itself); each block moves once and waits for none, so this is one round
 *     Bruck      log2(n) rounds.  Blocks are numbered by how far they have to go; in round k all whose
 *                distance has bit k set travel 2^k ranks further, together:
 *
 *                n = 5     round 0: those with 1 3 to go    round 1: 2 3    round 2: 4 */
#include "plan/algorithms.h"

/* n-1 messages of one block, all on their way before the first is waited for.
 *
 * In place what arrives belongs where what leaves still lies, and of two that exchange blocks neither could
 * begin: so the lower one sends a copy. */
void rd_alltoall_pairwise(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    uint64_t copied = 0;

    for (uint32_t k = 0; k < n; k++) {
        const uint32_t q = (k + n - r) % n;
        rd_range leaves = rd_slot(s, RD_IN, q);
        if (s.in_place && r < q) {
            const rd_range copy = rd_scratch(p, copied, leaves.count);
            rd_copy(p, leaves, copy);
            leaves = copy;
            copied += copy.count;
        }
        if (q != r)
            rd_send(p, q, leaves);
    }
    rd_copy(p, rd_slot(s, RD_IN, r), rd_slot(s, RD_OUT, r));
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t q = (k + n - r) % n;
        if (q != r)
            rd_recv(p, q, rd_slot(s, RD_OUT, q));
    }
}

/* Where the arrivals of each round begin in scratch. */
typedef struct {
    uint64_t at[32];
} arrivals;

/* How many of the numbers below n have a bit. */
static uint32_t with_bit(uint32_t n, uint32_t bit)
{
    const uint32_t rest = n & ((2u << bit) - 1), half = 1u << bit;
    return (n >> (bit + 1) << bit) + (rest > half ? rest - half : 0);
}

/* Where the block that has `far` ranks to go lies once the rounds below `bits` are done: where it was, or
 * among the arrivals of the last of them that moved it, which lie in the order of their distances, the
 * farthest first.  So *blocks, those that have one rank less to go each, lie one behind the other. */
static rd_range whereabouts(rd_plan *p, rd_shape s, const arrivals *a, uint32_t far, uint32_t bits,
                            uint32_t *blocks)
{
    const uint32_t moved = far & (bits - 1);
    *blocks = 1;
    if (!moved)
        return rd_slot(s, RD_IN, (uint32_t)(((uint64_t)s.rank + far) % s.size));
    const uint32_t bit = 31 - (uint32_t)__builtin_clz(moved);
    const uint32_t farther = with_bit(s.size, bit) - with_bit(far, bit) - 1;
    *blocks = moved - (1u << bit) + 1;
    return rd_scratch(p, a->at[bit] + farther * s.count, s.count);
}

/* All whose distance has this bit travel together, the farthest first; how many. */
static uint32_t pack(rd_plan *p, rd_shape s, const arrivals *a, uint32_t bit, uint64_t to)
{
    uint32_t packed = 0, blocks;
    for (uint32_t end = s.size; end > bit;) { /* all but those below it are packed */
        const uint32_t far = end - 1;
        if (!(far & bit)) {
            end = far & ~(bit - 1);
            continue;
        }
        rd_range from = whereabouts(p, s, a, far, bit, &blocks);
        from.count *= blocks;
        rd_copy(p, from, rd_scratch(p, to + packed * s.count, from.count));
        packed += blocks;
        end -= blocks;
    }
    return packed;
}

/* ceil(log2(n)) rounds; about n/2 blocks sent in each.  Where a block lies meanwhile is known when the plan is
 * written, so none is put back in order. */
void rd_alltoall_bruck(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    arrivals a;
    uint64_t end = 0;
    uint32_t bit = 1, blocks;

    rd_copy(p, rd_slot(s, RD_IN, r), rd_slot(s, RD_OUT, r));
    for (uint32_t round = 0; bit < n; bit *= 2, round++) {
        rd_round(p, round);
        const uint64_t count = pack(p, s, &a, bit, end) * s.count;
        rd_send(p, (uint32_t)(((uint64_t)r + bit) % n), rd_scratch(p, end, count));
        a.at[round] = end + count;
        rd_recv(p, (r + n - bit) % n, rd_scratch(p, a.at[round], count));
        end = a.at[round] + count;
    }
    for (uint32_t far = n - 1; far > 0; far -= blocks) { /* in out they end with rank n-1's */
        const uint32_t to = (r + n - far) % n;
        rd_range from = whereabouts(p, s, &a, far, bit, &blocks);
        blocks = blocks < n - to ? blocks : n - to;
        from.count *= blocks;
        rd_copy(p, from, rd_slots(s, RD_OUT, to, to + blocks));
    }
}
