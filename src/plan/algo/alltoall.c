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

/* Where a block that has `far` ranks to go lies once the rounds below `bits` are done: where it was, or
 * among the arrivals of the last of them that moved it, which lie in the order of their distances. */
static rd_range whereabouts(rd_plan *p, rd_shape s, const arrivals *a, uint32_t far, uint32_t bits)
{
    const uint32_t moved = far & (bits - 1);

    if (!moved)
        return rd_slot(s, RD_IN, (uint32_t)(((uint64_t)s.rank + far) % s.size));
    const uint32_t bit = 31 - (uint32_t)__builtin_clz(moved);
    /* How many distances below it have that bit */
    const uint32_t before = (far >> (bit + 1) << bit) + (far & ((1u << bit) - 1));
    return rd_scratch(p, a->at[bit] + before * s.count, s.count);
}

/* ceil(log2(n)) rounds; about n/2 blocks sent in each.  Blocks that travel together are copied together;
 * where a block lies meanwhile is known when the plan is written, so none is put back in order. */
void rd_alltoall_bruck(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;
    const uint64_t c = s.count;
    arrivals a;
    uint64_t end = 0;
    uint32_t far = 1;

    rd_copy(p, rd_slot(s, RD_IN, r), rd_slot(s, RD_OUT, r));
    for (uint32_t round = 0; far < n; far *= 2, round++) {
        uint64_t count = 0;
        rd_round(p, round);
        for (uint32_t j = far; j < n; j++)
            if (j & far)
                rd_copy(p, whereabouts(p, s, &a, j, far), rd_scratch(p, end + count++ * c, c));
        rd_send(p, (uint32_t)(((uint64_t)r + far) % n), rd_scratch(p, end, count * c));
        a.at[round] = end + count * c;
        rd_recv(p, (r + n - far) % n, rd_scratch(p, a.at[round], count * c));
        end = a.at[round] + count * c;
    }
    for (uint32_t j = 1; j < n; j++)
        rd_copy(p, whereabouts(p, s, &a, j, far), rd_slot(s, RD_OUT, (r + n - j) % n));
}
