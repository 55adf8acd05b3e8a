/* tree.c: broadcast down a tree.  Ranks are rotated so that the root is number 0.
 *
 *     binomial, n = 8                    binary, n = 7
 *
 *           0                                  0
 *       +---+---+                          +---+---+
 *       4   2   1    round 0: 0->4         1       2     a rank sends twice at most,
 *     +-+   |        round 1: 0->2 4->6   +-+     +-+    so chunks stream down one
 *     6 5   3        round 2: 0->1 2->3   3 4     5 6    behind the other
 *     |                       4->5 6->7
 *     7
 */
#include "plan/algorithms.h"

/* Rounds of a binomial tree: ceil(log2(n)). */
static uint32_t levels(uint32_t n)
{
    uint32_t k = 0;
    while (n > 1u << k)
        k++;
    return k;
}

/* ceil(log2(n)) rounds; the root sends count elements in each. */
void rd_broadcast_binomial(rd_plan *p, rd_shape s)
{
    const uint32_t v = rd_number(s), top = levels(s.size);
    const rd_range all = rd_whole(s, RD_OUT);

    for (uint32_t k = 0; k < top; k++) {
        /* In round k a rank tells the one this far on */
        const uint32_t far = 1u << (top - 1 - k);
        rd_round(p, k);
        if (v % (2 * far) == far)
            rd_recv(p, rd_numbered(s, v - far), all);
        else if (v % (2 * far) == 0 && v + far < s.size)
            rd_send(p, rd_numbered(s, v + far), all);
    }
}

/* floor(log2(n)) rounds; a rank sends 2 * count elements at most. */
void rd_broadcast_tree(rd_plan *p, rd_shape s)
{
    const uint32_t v = rd_number(s);
    const rd_range all = rd_whole(s, RD_OUT);
    uint32_t depth = 0;

    while ((v + 1) >> (depth + 1))
        depth++;
    if (v) {
        rd_round(p, depth - 1);
        rd_recv(p, rd_numbered(s, (v - 1) / 2), all);
    }
    rd_round(p, depth);
    for (uint64_t child = 2 * (uint64_t)v + 1; child <= 2 * (uint64_t)v + 2 && child < s.size;
         child++)
        rd_send(p, rd_numbered(s, child), all);
}

/* After the scatter number v holds parts v .. v + held - 1. */
static uint32_t held(uint32_t v, uint32_t n)
{
    const uint32_t low_bit = v & (0 - v);
    return v == 0 ? n : low_bit < n - v ? low_bit : n - v;
}

static bool holds(uint32_t v, uint32_t part, uint32_t n)
{
    return part >= v && part < v + held(v, n);
}

/* A binomial tree hands each rank its part, then the parts go round a ring; a rank is not sent a part
 * that the scatter has brought it.  ceil(log2(n)) + n-1 rounds; no rank but the root sends more than
 * about 2 * count elements, the root about 2 * count. */
void rd_broadcast_scatter(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, v = rd_number(s), top = levels(n);
    const uint32_t right = (v + 1) % n, left = (v + n - 1) % n;

    for (uint32_t k = 0; k < top; k++) {
        const uint32_t far = 1u << (top - 1 - k);
        rd_round(p, k);
        if (v % (2 * far) == far)
            rd_recv(p, rd_numbered(s, v - far), rd_pieces(s, RD_OUT, n, v, v + held(v, n)));
        else if (v % (2 * far) == 0 && v + far < n)
            rd_send(p, rd_numbered(s, v + far),
                    rd_pieces(s, RD_OUT, n, v + far, v + far + held(v + far, n)));
    }
    for (uint32_t k = 0; k + 1 < n; k++) {
        const uint32_t gives = (v + n - k) % n, takes = (v + n - k - 1) % n;
        rd_round(p, top + k);
        if (!holds(right, gives, n))
            rd_send(p, rd_numbered(s, right), rd_part(s, RD_OUT, gives));
        if (!holds(v, takes, n))
            rd_recv(p, rd_numbered(s, left), rd_part(s, RD_OUT, takes));
    }
}
