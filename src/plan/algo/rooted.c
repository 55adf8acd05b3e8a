/* rooted.c: gather and scatter.
 *
 *     direct     each rank talks to the root; one round
 *     binomial   whole runs of blocks climb (gather) or descend (scatter) a tree; ranks are rotated so
 *                that the root is number 0, and number v is in charge of v .. v + 2^k - 1:
 *
 *     gather, n = 6      round 0:  1->0 [1]     3->2 [3]     5->4 [5]
 *                        round 1:  2->0 [2 3]
 *                        round 2:  4->0 [4 5]
 *
 * On their way blocks lie in scratch in the order of the numbers.  In the root's buffer they lie in rank
 * order, so a run that goes round the end of it there is two messages. */
#include "plan/algorithms.h"

/* One round; a block sent by each rank but the root. */
void rd_gather_direct(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size;

    if (s.rank != s.root) {
        rd_send(p, s.root, rd_whole(s, RD_IN));
        return;
    }
    rd_copy(p, rd_whole(s, RD_IN), rd_slot(s, RD_OUT, s.rank));
    for (uint32_t k = 1; k < n; k++)
        rd_recv(p, (s.root + k) % n, rd_slot(s, RD_OUT, (s.root + k) % n));
}

/* One round; n-1 blocks sent by the root. */
void rd_scatter_direct(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size;

    if (s.rank != s.root) {
        rd_recv(p, s.root, rd_whole(s, RD_OUT));
        return;
    }
    for (uint32_t k = 1; k < n; k++)
        rd_send(p, (s.root + k) % n, rd_slot(s, RD_IN, (s.root + k) % n));
    rd_copy(p, rd_slot(s, RD_IN, s.rank), rd_whole(s, RD_OUT));
}

/* How many numbers from v on are v's own charge. */
static uint32_t charge(uint32_t v, uint32_t n)
{
    const uint32_t low_bit = v & (0 - v);
    return v == 0 ? n : low_bit < n - v ? low_bit : n - v;
}

typedef void message(rd_plan *p, uint32_t peer, rd_range range);

/* The blocks of numbers v .. v + count - 1 as they lie at the root (in `buffer`) or on their way (in the
 * scratch of whoever is in charge of `from`), in one message or two. */
static void exchange(rd_plan *p, rd_shape s, message *say, uint32_t peer, int buffer, uint32_t from,
                     uint32_t v)
{
    const uint32_t count = charge(v, s.size), first = rd_numbered(s, v);
    const uint32_t before = first + (uint64_t)count > s.size ? s.size - first : count;
    const uint64_t c = s.count;
    if (from == 0) {
        say(p, peer, rd_slots(s, buffer, first, first + before));
        if (count > before)
            say(p, peer, rd_slots(s, buffer, 0, count - before));
        return;
    }
    const bool to_root = v == from; /* then it is the root who has it in two places */
    const uint32_t cut = to_root && (v & (v - 1)) == 0 ? before : count;
    say(p, peer, rd_scratch(p, (v - from) * c, cut * c));
    if (count > cut)
        say(p, peer, rd_scratch(p, (v - from + cut) * c, (count - cut) * c));
}

/* ceil(log2(n)) rounds; n-1 blocks in all reach the root. */
void rd_gather_binomial(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, v = rd_number(s);

    if (v == 0)
        rd_copy(p, rd_whole(s, RD_IN), rd_slot(s, RD_OUT, s.rank));
    else if (charge(v, n) > 1)
        rd_copy(p, rd_whole(s, RD_IN), rd_scratch(p, 0, s.count));
    for (uint32_t far = 1, round = 0; far < n; far *= 2, round++) {
        rd_round(p, round);
        if (v & far) {
            if (charge(v, n) > 1)
                exchange(p, s, rd_send, rd_numbered(s, v - far), RD_OUT, v, v);
            else
                rd_send(p, rd_numbered(s, v - far), rd_whole(s, RD_IN));
            return;
        }
        if (v + (uint64_t)far < n)
            exchange(p, s, rd_recv, rd_numbered(s, v + far), RD_OUT, v, v + far);
    }
}

/* ceil(log2(n)) rounds; n-1 blocks in all leave the root. */
void rd_scatter_binomial(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, v = rd_number(s);
    uint32_t top = 0, far = 1;

    while (n > 1u << top)
        top++;
    for (uint32_t k = 0; k < top; k++) {
        far = 1u << (top - 1 - k);
        rd_round(p, k);
        if (v % (2 * far) == far) {
            if (charge(v, n) > 1)
                exchange(p, s, rd_recv, rd_numbered(s, v - far), RD_IN, v, v);
            else
                rd_recv(p, rd_numbered(s, v - far), rd_whole(s, RD_OUT));
        } else if (v % (2 * far) == 0 && v + (uint64_t)far < n) {
            exchange(p, s, rd_send, rd_numbered(s, v + far), RD_IN, v, v + far);
        }
    }
    if (v == 0)
        rd_copy(p, rd_slot(s, RD_IN, s.rank), rd_whole(s, RD_OUT));
    else if (charge(v, n) > 1)
        rd_copy(p, rd_scratch(p, 0, s.count), rd_whole(s, RD_OUT));
}
