/* star.c: everything through rank 0.  Nobody would run it; it is so plain that it is right, and the
 * others are compared with it.
 *
 *     1 --\         /--> 1
 *     2 ---> rank 0 ---> 2
 *     3 --/         \--> 3
 */
#include "plan/algorithms.h"

static void to_all(rd_plan *p, rd_shape s, rd_range range)
{
    for (uint32_t q = 1; q < s.size; q++)
        rd_send(p, q, range);
}

/* Rank 0 sends count * (n-1) elements, the others count. */
void rd_allreduce_star(rd_plan *p, rd_shape s)
{
    const rd_range in = rd_whole(s, RD_IN), out = rd_whole(s, RD_OUT);

    if (s.rank == 0) {
        rd_fold_many(p, NULL, s.size, in, out);
        rd_scale(p, out);
        rd_round(p, 1);
        to_all(p, s, out);
    } else {
        rd_send(p, 0, in);
        rd_round(p, 1);
        rd_recv(p, 0, out);
    }
}

void rd_broadcast_star(rd_plan *p, rd_shape s)
{
    const rd_range all = rd_whole(s, RD_OUT);

    if (s.rank == s.root && s.root != 0)
        rd_send(p, 0, all);
    if (s.rank == 0) {
        if (s.root != 0)
            rd_recv(p, s.root, all);
        rd_round(p, 1);
        for (uint32_t q = 1; q < s.size; q++)
            if (q != s.root)
                rd_send(p, q, all);
    } else if (s.rank != s.root) {
        rd_round(p, 1);
        rd_recv(p, 0, all);
    }
}

void rd_allgather_star(rd_plan *p, rd_shape s)
{
    const rd_range all = {RD_OUT, 0, s.size * s.count};

    if (s.rank == 0) {
        rd_copy(p, rd_whole(s, RD_IN), rd_slot(s, RD_OUT, 0));
        for (uint32_t q = 1; q < s.size; q++)
            rd_recv(p, q, rd_slot(s, RD_OUT, q));
        rd_round(p, 1);
        to_all(p, s, all);
    } else {
        rd_send(p, 0, rd_whole(s, RD_IN));
        rd_round(p, 1);
        rd_recv(p, 0, all);
    }
}

void rd_reduce_scatter_star(rd_plan *p, rd_shape s)
{
    for (uint32_t q = 0; q < s.size; q++) {
        if (s.rank != 0) {
            rd_send(p, 0, rd_slot(s, RD_IN, q));
            continue;
        }
        const rd_range sum =
            q == 0 ? rd_whole(s, RD_OUT) : rd_scratch(p, (q - 1) * s.count, s.count);
        rd_fold_many(p, NULL, s.size, rd_slot(s, RD_IN, q), sum);
        rd_scale(p, sum);
    }
    rd_round(p, 1);
    for (uint32_t q = 1; q < s.size && s.rank == 0; q++)
        rd_send(p, q, rd_scratch(p, (q - 1) * s.count, s.count));
    if (s.rank != 0)
        rd_recv(p, 0, rd_whole(s, RD_OUT));
}

void rd_barrier_star(rd_plan *p, rd_shape s)
{
    if (s.rank == 0) {
        rd_fold_many(p, NULL, s.size, rd_whole(s, RD_IN), rd_whole(s, RD_OUT));
        rd_round(p, 1);
        to_all(p, s, rd_whole(s, RD_OUT));
    } else {
        rd_send(p, 0, rd_whole(s, RD_IN));
        rd_round(p, 1);
        rd_recv(p, 0, rd_whole(s, RD_OUT));
    }
}
