/* halving.c: recursive halving, and doubling.  Few rounds, and few bytes or few messages, for any number of ranks.
 *
 * With n = 2^m ranks: in round k partners 2^(m-1-k) apart split what both still own: each sends the
 * half that it gives up and folds the half that it keeps; after m rounds each owns one piece,
 * complete.  Then the same pairs in reverse send what they own and receive the other half.
 *
 *     n = 4, pieces 0123       round 0            round 1          doubling
 *     rank 0                   keep 01, send 23   keep 0, send 1   0 -> 01 -> 0123
 *     rank 1                   keep 01, send 23   keep 1, send 0   1 -> 01 -> 0123
 *     rank 2                   keep 23, send 01   keep 2, send 3   2 -> 23 -> 0123
 *     rank 3                   keep 23, send 01   keep 3, send 2   3 -> 23 -> 0123
 *
 * Otherwise n = 2^m + rest: first every odd rank below 2*rest hands all it has to the even rank
 * before it, the other 2^m ranks do the above, and at the end the odd ones get the result.
 *
 * Doubling alone, for small counts: partners 1, 2, 4 ... apart send each other all they have summed so far.
 *
 * Reduce-scatter is the first half of halving, with blocks for pieces: the even rank of a pair looks after
 * the odd one's block too, and hands it over at the end. */
#include "plan/algorithms.h"

typedef struct {
    uint32_t ranks;        /* 2^m */
    uint32_t rest, rounds; /* rounds: m */
} shape_of_two;

static shape_of_two split(uint32_t n)
{
    shape_of_two t = {1, 0, 0};
    for (; t.ranks * 2 <= n; t.rounds++)
        t.ranks *= 2;
    t.rest = n - t.ranks;
    return t;
}

static uint32_t rank_of(shape_of_two t, uint32_t virtual_rank)
{
    return virtual_rank < t.rest ? 2 * virtual_rank : virtual_rank + t.rest;
}

/* Rounds of one rank of the 2^m, the first of them number `round`; `have` is where its data is. */
static void halve_and_double(rd_plan *p, rd_shape s, shape_of_two t, uint32_t me, uint32_t round,
                             int have)
{
    uint32_t lo = 0, hi = t.ranks;

    for (uint32_t apart = t.ranks / 2; apart; apart /= 2, round++) {
        const uint32_t mid = lo + (hi - lo) / 2, peer = rank_of(t, me ^ apart);
        const bool low = !(me & apart);
        rd_round(p, round);
        rd_send(p, peer,
                low ? rd_pieces(s, have, t.ranks, mid, hi) : rd_pieces(s, have, t.ranks, lo, mid));
        if (low)
            hi = mid;
        else
            lo = mid;
        rd_fold(p, peer, rd_pieces(s, have, t.ranks, lo, hi), rd_pieces(s, RD_OUT, t.ranks, lo, hi),
                low ? RD_HERE_LEFT : RD_HERE_RIGHT);
        have = RD_OUT;
    }
    rd_scale(p, rd_pieces(s, RD_OUT, t.ranks, lo, hi));
    for (uint32_t apart = 1; apart < t.ranks; apart *= 2, round++) {
        const uint32_t peer = rank_of(t, me ^ apart);
        const bool low = !(me & apart);
        rd_round(p, round);
        rd_send(p, peer, rd_pieces(s, RD_OUT, t.ranks, lo, hi));
        rd_recv(p, peer,
                low ? rd_pieces(s, RD_OUT, t.ranks, hi, hi + apart)
                    : rd_pieces(s, RD_OUT, t.ranks, lo - apart, lo));
        lo = low ? lo : lo - apart;
        hi = low ? hi + apart : hi;
    }
}

/* 2m rounds and 2 * count * (1 - 1/2^m) elements sent per rank; two rounds more if n is not 2^m,
 * in which `rest` ranks send all of their elements and `rest` ranks send all of the result. */
void rd_allreduce_halving(rd_plan *p, rd_shape s)
{
    const shape_of_two t = split(s.size);
    const bool paired = s.rank < 2 * t.rest;
    const uint32_t first = t.rest ? 1 : 0, last = first + 2 * t.rounds;
    const rd_range in = rd_whole(s, RD_IN), out = rd_whole(s, RD_OUT);

    if (s.size == 1) {
        rd_copy(p, in, out);
        return;
    }
    if (paired && s.rank % 2) {
        rd_send(p, s.rank - 1, in);
        rd_round(p, last);
        rd_recv(p, s.rank - 1, out);
        return;
    }
    if (paired)
        rd_fold(p, s.rank + 1, in, out, RD_HERE_LEFT);
    halve_and_double(p, s, t, paired ? s.rank / 2 : s.rank - t.rest, first,
                     paired ? RD_OUT : RD_IN);
    if (paired) {
        rd_round(p, last);
        rd_send(p, s.rank + 1, out);
    }
}

/* m rounds, in each of which all of the elements are sent; two rounds more if n is not 2^m. */
void rd_allreduce_doubling(rd_plan *p, rd_shape s)
{
    const shape_of_two t = split(s.size);
    const bool paired = s.rank < 2 * t.rest;
    const uint32_t me = paired ? s.rank / 2 : s.rank - t.rest, last = t.rounds + (t.rest ? 1 : 0);
    const rd_range out = rd_whole(s, RD_OUT);
    rd_range have = rd_whole(s, RD_IN);
    uint32_t round = t.rest ? 1 : 0;

    if (s.size == 1)
        rd_copy(p, have, out);
    if (paired && s.rank % 2) {
        rd_send(p, s.rank - 1, have);
        rd_round(p, last);
        rd_recv(p, s.rank - 1, out);
        return;
    }
    if (paired ||
        t.ranks == 2) { /* two who write at once over what the other reads would wait for ever */
        const rd_range own = rd_scratch(p, 0, s.count);
        if (paired)
            rd_fold(p, s.rank + 1, have, own, RD_HERE_LEFT);
        else
            rd_copy(p, have, own);
        have = own;
    }
    for (uint32_t apart = 1; apart < t.ranks; apart *= 2, round++) {
        const uint32_t peer = rank_of(t, me ^ apart);
        const rd_range next =
            2 * apart == t.ranks ? out : rd_scratch(p, round % 2 * s.count, s.count);
        rd_round(p, round);
        rd_send(p, peer, have);
        rd_fold(p, peer, have, next, me & apart ? RD_HERE_RIGHT : RD_HERE_LEFT);
        have = next;
    }
    rd_scale(p, out);
    if (paired) {
        rd_round(p, last);
        rd_send(p, s.rank + 1, out);
    }
}

/* The blocks that virtual ranks lo .. hi-1 look after, summed so far: in the caller's buffer at first, then in
 * scratch, which begins with block `base`. */
static rd_range sums(rd_plan *p, rd_shape s, shape_of_two t, bool summed, uint32_t base,
                     uint32_t lo, uint32_t hi)
{
    const rd_range in = rd_slots(s, RD_IN, rank_of(t, lo), rank_of(t, hi));
    return summed ? rd_scratch(p, in.at - rd_block_at(&s, RD_IN, base), in.count) : in;
}

/* m rounds and about n * count elements sent per rank; two rounds more if n is not 2^m, in which `rest`
 * ranks send all of their elements and `rest` ranks send a block. */
void rd_reduce_scatter_halving(rd_plan *p, rd_shape s)
{
    const shape_of_two t = split(s.size);
    const bool paired = s.rank < 2 * t.rest;
    const uint32_t me = paired ? s.rank / 2 : s.rank - t.rest;
    const rd_range out = rd_whole(s, RD_OUT);
    uint32_t round = t.rest ? 1 : 0, lo = 0, hi = t.ranks;

    if (s.size == 1)
        rd_copy(p, rd_slot(s, RD_IN, 0), out);
    if (paired && s.rank % 2) {
        rd_send(p, s.rank - 1, rd_slots(s, RD_IN, 0, s.size));
        rd_round(p, round + t.rounds);
        rd_recv(p, s.rank - 1, out);
        return;
    }
    bool summed = paired;
    const uint32_t base = paired || !(me & t.ranks / 2) ? 0 : rank_of(t, t.ranks / 2);
    if (paired)
        rd_fold(p, s.rank + 1, sums(p, s, t, false, 0, lo, hi), sums(p, s, t, true, 0, lo, hi),
                RD_HERE_LEFT);
    for (uint32_t apart = t.ranks / 2; apart; apart /= 2, round++, summed = true) {
        const uint32_t mid = lo + (hi - lo) / 2, peer = rank_of(t, me ^ apart);
        const bool low = !(me & apart), last = apart == 1 && !paired;
        rd_round(p, round);
        rd_send(p, peer,
                low ? sums(p, s, t, summed, base, mid, hi) : sums(p, s, t, summed, base, lo, mid));
        if (low)
            hi = mid;
        else
            lo = mid;
        rd_fold(p, peer, sums(p, s, t, summed, base, lo, hi),
                last ? out : sums(p, s, t, true, base, lo, hi), low ? RD_HERE_LEFT : RD_HERE_RIGHT);
    }
    if (!paired) {
        rd_scale(p, out);
        return;
    }
    const rd_range both = sums(p, s, t, true, base, lo, hi);
    rd_scale(p, both);
    rd_copy(p, (rd_range){both.buffer, both.at, out.count}, out);
    rd_round(p, round);
    rd_send(p, s.rank + 1, (rd_range){both.buffer, both.at + out.count, both.count - out.count});
}
