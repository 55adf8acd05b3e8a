/* host_blocks.c: blocks of all ranks in worlds of several hosts.  No block crosses between two hosts more
 * than once, and ranks of the same number on their hosts do the crossing.
 *
 *     allgather        round 0   a rank sends its block to its host, and to one rank of each other host
 *                      round 1   who got a block from elsewhere passes it on inside its host
 *     reduce-scatter   round 0   inside, a rank folds the blocks of the ranks of its number, of every host
 *                      round 1   it sends each to its owner, who folds those of all hosts
 *
 * Hosts may differ in size: number j is then number j mod l on a host of l ranks. */
#include "plan/hosts.h"

#include "plan/algorithms.h"

/* One round between hosts and one inside.  count * (h-1) elements sent between hosts per rank, h hosts;
 * l times as much by a host of l ranks. */
void rd_allgather_hierarchical(rd_plan *p, rd_shape s)
{
    const rd_stand at = rd_stand_of(s, s.rank);
    const rd_range in = rd_whole(s, RD_IN);

    for (uint32_t k = 1; k < at.hosts; k++)
        rd_send(p, rd_rank_on(s, (at.host + k) % at.hosts, at.number), in);
    for (uint32_t k = 1; k < at.ranks; k++)
        rd_send(p, rd_rank_on(s, at.host, at.number + k), in);
    rd_copy(p, in, rd_slot(s, RD_OUT, s.rank));
    for (uint32_t k = 1; k < at.ranks; k++) {
        const uint32_t peer = rd_rank_on(s, at.host, at.number + at.ranks - k);
        rd_recv(p, peer, rd_slot(s, RD_OUT, peer));
    }
    for (uint32_t k = 1; k < at.hosts; k++) {
        const uint32_t h = (at.host + at.hosts - k) % at.hosts;
        for (uint32_t j = at.number; j < rd_ranks_on(s, h); j += at.ranks)
            rd_recv(p, rd_rank_on(s, h, j), rd_slot(s, RD_OUT, rd_rank_on(s, h, j)));
    }
    if (at.hosts == 1 || at.largest == 1)
        return;
    rd_round(p, 1);
    for (uint32_t k = 1; k < at.hosts; k++) {
        const uint32_t h = (at.host + at.hosts - k) % at.hosts;
        for (uint32_t j = 0; j < rd_ranks_on(s, h); j++) {
            const uint32_t carrier = j % at.ranks, block = rd_rank_on(s, h, j);
            for (uint32_t q = 1; q < at.ranks && carrier == at.number; q++)
                rd_send(p, rd_rank_on(s, at.host, at.number + q), rd_slot(s, RD_OUT, block));
            if (carrier != at.number)
                rd_recv(p, rd_rank_on(s, at.host, carrier), rd_slot(s, RD_OUT, block));
        }
    }
}

/* Inside: number i of the host folds, host after host, the blocks of numbers i: its own into out, others,
 * which it will send on, into scratch. */
static void fold_blocks(rd_plan *p, rd_shape s, const rd_stand *at)
{
    uint64_t next = 0;
    for (uint32_t q = 1; q < at->ranks; q++) {
        const uint32_t carrier = (at->number + q) % at->ranks;
        for (uint32_t k = 0; k < at->hosts; k++) {
            const uint32_t h = (at->host + k) % at->hosts;
            for (uint32_t j = carrier; j < rd_ranks_on(s, h); j += at->ranks)
                rd_send(p, rd_rank_on(s, at->host, carrier),
                        rd_slot(s, RD_IN, rd_rank_on(s, h, j)));
        }
    }
    for (uint32_t k = 0; k < at->hosts; k++) {
        const uint32_t h = (at->host + k) % at->hosts;
        for (uint32_t j = at->number; j < rd_ranks_on(s, h); j += at->ranks) {
            const rd_range in = rd_slot(s, RD_IN, rd_rank_on(s, h, j));
            const rd_range sum = k ? rd_scratch(p, next, in.count) : rd_whole(s, RD_OUT);
            rd_fold_many(p, rd_host_peers(s, at->host), at->ranks, in, sum);
            next += k ? in.count : 0;
        }
    }
}

/* One round inside and one between hosts.  count * (h-1) elements sent between hosts per rank, h hosts. */
void rd_reduce_scatter_hierarchical(rd_plan *p, rd_shape s)
{
    const rd_stand at = rd_stand_of(s, s.rank);
    const rd_range out = rd_whole(s, RD_OUT);
    uint64_t next = 0;

    fold_blocks(p, s, &at);
    if (at.hosts > 1) {
        rd_round(p, at.largest > 1);
        for (uint32_t k = 1; k < at.hosts; k++) {
            const uint32_t h = (at.host + k) % at.hosts;
            for (uint32_t j = at.number; j < rd_ranks_on(s, h); j += at.ranks) {
                const uint32_t block = rd_rank_on(s, h, j);
                const uint64_t count = rd_slot(s, RD_IN, block).count;
                rd_send(p, block, rd_scratch(p, next, count));
                next += count;
            }
        }
        uint32_t *peers = rd_peers(p, at.hosts);
        for (uint32_t h = 0; peers && h < at.hosts; h++)
            peers[h] = rd_rank_on(s, h, at.number);
        rd_fold_many(p, peers, at.hosts, out, out);
    }
    rd_scale(p, out);
}
