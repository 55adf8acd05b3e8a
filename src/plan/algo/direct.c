/* direct.c: everyone talks to everyone.  Few rounds, many peers: for ranks that share memory.
 *
 *     one-shot   every rank sends all of its elements to all others and folds all ranks in order
 *     two-shot   rank r folds part r of all ranks, then sends the result to all others:
 *
 *                    rank 0   rank 1   rank 2           rank 0   rank 1   rank 2
 *         part 0       o <----- o <----- o                 o -----> o -----> o
 *         part 1       o -----> o <----- o      then       o <----- o -----> o
 *         part 2       o -----> o -----> o                 o <----- o <----- o
 *
 * Every fold is one fold_many in rank order: all ranks get the same bits, 16-bit floats are summed
 * in f32 and rounded once, and one-shot and two-shot give the same bits. */
#include "plan/algorithms.h"

/* One round; count * (n-1) elements sent per rank.
 *
 * In place everybody overwrites what everybody else has still to read, so what is sent is a copy.
 * Out of place it is one too: the caller then need not wait until the others have read it. */
void rd_allreduce_one_shot(rd_plan *p, rd_shape s)
{
    const rd_range in = rd_whole(s, RD_IN), out = rd_whole(s, RD_OUT);

    if (s.size > 1) {
        const rd_range copy = rd_scratch(p, 0, s.count);
        rd_copy(p, in, copy);
        for (uint32_t k = 1; k < s.size; k++)
            rd_send(p, (s.rank + k) % s.size, copy);
    }
    rd_fold_many(p, NULL, s.size, in, out);
    rd_scale(p, out);
}

/* Two rounds; 2 * count * (n-1)/n elements sent per rank. */
void rd_allreduce_two_shot(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;

    for (uint32_t k = 1; k < n; k++)
        rd_send(p, (r + k) % n, rd_part(s, RD_IN, (r + k) % n));
    rd_fold_many(p, NULL, n, rd_part(s, RD_IN, r), rd_part(s, RD_OUT, r));
    rd_scale(p, rd_part(s, RD_OUT, r));
    if (n == 1)
        return;
    rd_round(p, 1);
    for (uint32_t k = 1; k < n; k++)
        rd_send(p, (r + k) % n, rd_part(s, RD_OUT, r));
    for (uint32_t k = 1; k < n; k++)
        rd_recv(p, (r + n - k) % n, rd_part(s, RD_OUT, (r + n - k) % n));
}

/* Two-shot by few: with parts of FEW_BYTES or more there are fewer of them than ranks, and only the
 * first ranks fold.  Two rounds; 2 * parts * (n-1) messages in all, where two-shot has 2 * n * (n-1):
 * what ranks that share a core want, for each message is paid for in turn. */
void rd_allreduce_few_shot(rd_plan *p, rd_shape s)
{
    enum { FEW_BYTES = 16384 };
    const uint32_t n = s.size, r = s.rank;
    const uint64_t most = s.count * s.width / FEW_BYTES;
    const uint32_t parts = most >= n ? n : most > 1 ? (uint32_t)most : 1;
    const bool folds = r < parts;
    const rd_range in = rd_pieces(s, RD_IN, parts, r, r + 1);
    const rd_range out = rd_pieces(s, RD_OUT, parts, r, r + 1);

    for (uint32_t k = 0; k < parts; k++) {
        const uint32_t q = (r + 1 + k) % parts;
        if (q != r)
            rd_send(p, q, rd_pieces(s, RD_IN, parts, q, q + 1));
    }
    if (folds) {
        rd_fold_many(p, NULL, n, in, out);
        rd_scale(p, out);
    }
    if (n == 1)
        return;
    rd_round(p, 1);
    for (uint32_t k = 1; k < n && folds; k++)
        rd_send(p, (r + k) % n, out);
    for (uint32_t k = 0; k < parts; k++) {
        const uint32_t q = (r + 1 + k) % parts;
        if (q != r)
            rd_recv(p, q, rd_pieces(s, RD_OUT, parts, q, q + 1));
    }
}

/* One round; count * (n-1) elements sent per rank. */
void rd_reduce_scatter_direct(rd_plan *p, rd_shape s)
{
    for (uint32_t k = 1; k < s.size; k++)
        rd_send(p, (s.rank + k) % s.size, rd_slot(s, RD_IN, (s.rank + k) % s.size));
    rd_fold_many(p, NULL, s.size, rd_slot(s, RD_IN, s.rank), rd_whole(s, RD_OUT));
    rd_scale(p, rd_whole(s, RD_OUT));
}

/* One round; count * (n-1) elements sent per rank. */
void rd_allgather_direct(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, r = s.rank;

    for (uint32_t k = 1; k < n; k++)
        rd_send(p, (r + k) % n, rd_whole(s, RD_IN));
    rd_copy(p, rd_whole(s, RD_IN), rd_slot(s, RD_OUT, r));
    for (uint32_t k = 1; k < n; k++)
        rd_recv(p, (r + n - k) % n, rd_slot(s, RD_OUT, (r + n - k) % n));
}

/* One round; count * (n-1) elements sent by the root.  Where memory is shared the root only tells where
 * its data lies, and all others copy it at the same time. */
void rd_broadcast_direct(rd_plan *p, rd_shape s)
{
    for (uint32_t k = 1; k < s.size && s.rank == s.root; k++)
        rd_send(p, (s.root + k) % s.size, rd_whole(s, RD_OUT));
    if (s.rank != s.root)
        rd_recv(p, s.root, rd_whole(s, RD_OUT));
}
