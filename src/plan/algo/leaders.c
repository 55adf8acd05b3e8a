/* leaders.c: small counts in worlds of several hosts.  One rank of each host, its leader, speaks for the
 * others: few messages between hosts, and one round of them where the collective needs no more.
 *
 *     host 0             host 1                  round 0   to the leader
 *     rank 1   rank 2    rank 4   rank 5         round 1   leaders among themselves
 *          \   /              \   /              round 2   from the leader
 *         rank 0  <------->  rank 3
 *
 * The leader is the first rank of a host; on the root's host it is the root. */
#include "plan/hosts.h"

#include "plan/algorithms.h"

static uint32_t leader_of(rd_shape s, uint32_t host)
{
    const bool rooted = rd_kind_rooted(s.kind) && rd_stand_of(s, s.root).host == host;
    return rooted ? s.root : rd_rank_on(s, host, 0);
}

/* All leaders, in the order of hosts. */
static uint32_t *leaders(rd_plan *p, rd_shape s, uint32_t hosts)
{
    uint32_t *peers = rd_peers(p, hosts);
    for (uint32_t h = 0; peers && h < hosts; h++)
        peers[h] = leader_of(s, h);
    return peers;
}

/* Everyone sends to the leader, who folds the host's ranks in their order. */
static void fold_inside(rd_plan *p, rd_shape s, const rd_stand *at, rd_range sum)
{
    const uint32_t leader = leader_of(s, at->host);
    if (s.rank != leader)
        rd_send(p, leader, rd_whole(s, RD_IN));
    else
        rd_fold_many(p, rd_host_peers(s, at->host), at->ranks, rd_whole(s, RD_IN), sum);
}

/* The leader tells the others of its host. */
static void tell_inside(rd_plan *p, rd_shape s, const rd_stand *at)
{
    const uint32_t leader = leader_of(s, at->host);
    const rd_range out = rd_whole(s, RD_OUT);
    for (uint32_t k = 1; k < at->ranks && s.rank == leader; k++)
        rd_send(p, rd_rank_on(s, at->host, at->number + k), out);
    if (s.rank != leader)
        rd_recv(p, leader, out);
}

/* Up to three rounds, one of them between hosts, of h; a leader sends count * (h-1) elements there.  What
 * leaders send is in scratch, so that they can fold all hosts into out. */
void rd_allreduce_leaders(rd_plan *p, rd_shape s)
{
    const rd_stand at = rd_stand_of(s, s.rank);
    const bool leads = s.rank == leader_of(s, at.host);
    const rd_range out = rd_whole(s, RD_OUT);
    uint32_t round = at.largest > 1;

    if (at.hosts == 1) {
        fold_inside(p, s, &at, out);
    } else {
        const rd_range sum = leads ? rd_scratch(p, 0, s.count) : out;
        fold_inside(p, s, &at, sum);
        rd_round(p, round++);
        for (uint32_t k = 1; k < at.hosts && leads; k++)
            rd_send(p, leader_of(s, (at.host + k) % at.hosts), sum);
        if (leads)
            rd_fold_many(p, leaders(p, s, at.hosts), at.hosts, sum, out);
    }
    if (leads)
        rd_scale(p, out);
    rd_round(p, round);
    tell_inside(p, s, &at);
}

/* Up to two rounds, one of them between hosts; count elements sent by each rank but the root. */
void rd_reduce_leaders(rd_plan *p, rd_shape s)
{
    const rd_stand at = rd_stand_of(s, s.rank);
    const bool leads = s.rank == leader_of(s, at.host);
    const rd_range out = rd_whole(s, RD_OUT);
    const bool folds = leads && at.ranks > 1;
    const rd_range sum = s.rank == s.root ? out
                         : folds          ? rd_scratch(p, 0, s.count)
                                          : rd_whole(s, RD_IN);

    fold_inside(p, s, &at, sum);
    rd_round(p, at.largest > 1);
    if (leads && s.rank != s.root)
        rd_send(p, s.root, sum);
    if (s.rank != s.root)
        return;
    if (at.hosts > 1)
        rd_fold_many(p, leaders(p, s, at.hosts), at.hosts, out, out);
    rd_scale(p, out);
}

/* Rounds of a binomial tree: ceil(log2(n)). */
static uint32_t levels(uint32_t n)
{
    uint32_t k = 0;
    while (n > 1u << k)
        k++;
    return k;
}

/* A binomial tree of the hosts, then one round inside: ceil(log2(h)) + 1 rounds. */
void rd_broadcast_leaders(rd_plan *p, rd_shape s)
{
    const rd_stand at = rd_stand_of(s, s.rank);
    const uint32_t root_host = rd_stand_of(s, s.root).host, top = levels(at.hosts);
    const uint32_t v = (at.host + at.hosts - root_host) % at.hosts;
    const rd_range out = rd_whole(s, RD_OUT);

    for (uint32_t k = 0; k < top && s.rank == leader_of(s, at.host); k++) {
        const uint32_t far = 1u << (top - 1 - k);
        rd_round(p, k);
        if (v % (2 * far) == far)
            rd_recv(p, leader_of(s, (at.host + at.hosts - far) % at.hosts), out);
        else if (v % (2 * far) == 0 && v + far < at.hosts)
            rd_send(p, leader_of(s, (at.host + far) % at.hosts), out);
    }
    rd_round(p, top);
    tell_inside(p, s, &at);
}

/* Dissemination among leaders: ceil(log2(h)) rounds, and up to two inside.  Every round has a token of its
 * own, so that none is overwritten while it is on its way. */
void rd_barrier_leaders(rd_plan *p, rd_shape s)
{
    const rd_stand at = rd_stand_of(s, s.rank);
    const bool leads = s.rank == leader_of(s, at.host);
    const uint32_t first = at.largest > 1, top = levels(at.hosts);
    rd_range token = top && leads ? rd_scratch(p, 0, 1) : rd_whole(s, RD_OUT);

    fold_inside(p, s, &at, token);
    for (uint32_t k = 0; k < top && leads; k++) {
        const uint32_t far = 1u << k;
        const rd_range next = k + 1 < top ? rd_scratch(p, k + 1, 1) : rd_whole(s, RD_OUT);
        rd_round(p, first + k);
        rd_send(p, leader_of(s, (at.host + far) % at.hosts), token);
        rd_fold(p, leader_of(s, (at.host + at.hosts - far) % at.hosts), token, next, RD_HERE_RIGHT);
        token = next;
    }
    rd_round(p, first + top);
    tell_inside(p, s, &at);
}
