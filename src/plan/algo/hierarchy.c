/* hierarchy.c: large counts in worlds of several hosts.  Ranks that share memory do together what they
 * can, and each carries a slice of its own from host to host, so that all of them fill the link.
 *
 *     allreduce, two hosts of two ranks: slices 0 and 1, each of pieces a and b
 *
 *                host 0              host 1
 *              rank 0   rank 1     rank 2   rank 3
 *     round 0    0 <--------> 1      0 <--------> 1      inside: rank i of a host folds slice i
 *     round 1    0a <---------------> 0b                 between: host k folds piece k of the slice
 *                      1a <----------------> 1b
 *     round 2    0a <---------------> 0b                 between: and all get it
 *     round 3    0 <--------> 1      0 <--------> 1      inside: everyone takes the slices
 *
 * Every fold is in the order of ranks, or of hosts: in rank order where a host's ranks follow each other.
 * There are as many slices as the smallest host has ranks, so that each has somebody to carry it on every
 * host.  With one host this is two-shot, and with one rank on each it is two-shot among them. */
#include "plan/hosts.h"

#include "plan/algorithms.h"

/* The i-th slice, and the pieces that it is cut into. */
typedef struct {
    rd_stand at;
    uint32_t slices, pieces;
} cut;

static rd_range slice(rd_shape s, const cut *c, int buffer, uint32_t i)
{
    return rd_pieces(s, buffer, c->slices * c->pieces, i * c->pieces, (i + 1) * c->pieces);
}

static rd_range piece(rd_shape s, const cut *c, int buffer, uint32_t i, uint32_t k)
{
    const uint32_t at = i * c->pieces + k;
    return rd_pieces(s, buffer, c->slices * c->pieces, at, at + 1);
}

/* Who looks after slice i on a host. */
static uint32_t carrier(rd_shape s, uint32_t host, uint32_t i)
{
    return rd_rank_on(s, host, i);
}

/* Those of all hosts, in their order. */
static uint32_t *carriers(rd_plan *p, rd_shape s, const cut *c)
{
    uint32_t *peers = rd_peers(p, c->at.hosts);
    for (uint32_t h = 0; peers && h < c->at.hosts; h++)
        peers[h] = carrier(s, h, c->at.number);
    return peers;
}

/* The part of a slice that this rank carries, where it keeps it: in out, or, if it has none, in scratch. */
static rd_range kept(rd_plan *p, rd_shape s, const cut *c, bool out, rd_range range)
{
    const uint64_t first = slice(s, c, RD_OUT, c->at.number).at;
    return out ? range : rd_scratch(p, range.at - first, range.count);
}

/* Inside: number i of the host folds slice i of all of them, into `sum`. */
static void fold_inside(rd_plan *p, rd_shape s, const cut *c, rd_range sum)
{
    const rd_stand *at = &c->at;
    for (uint32_t k = 0; k < c->slices; k++) {
        const uint32_t q = (at->number + 1 + k) % c->slices;
        if (q != at->number)
            rd_send(p, carrier(s, at->host, q), slice(s, c, RD_IN, q));
    }
    if (at->number >= c->slices)
        return;
    rd_fold_many(p, rd_host_peers(s, at->host), at->ranks, slice(s, c, RD_IN, at->number), sum);
    if (at->hosts == 1)
        rd_scale(p, sum);
}

/* Between: host k folds piece k of this slice of all hosts, in place. */
static void fold_between(rd_plan *p, rd_shape s, const cut *c, bool out)
{
    const rd_stand *at = &c->at;
    const uint32_t i = at->number;
    const rd_range mine = kept(p, s, c, out, piece(s, c, RD_OUT, i, at->host));
    for (uint32_t k = 1; k < at->hosts; k++) {
        const uint32_t h = (at->host + k) % at->hosts;
        rd_send(p, carrier(s, h, i), kept(p, s, c, out, piece(s, c, RD_OUT, i, h)));
    }
    rd_fold_many(p, carriers(p, s, c), at->hosts, mine, mine);
    rd_scale(p, mine);
}

/* Inside: everyone but `has` takes every slice from its carrier. */
static void share_inside(rd_plan *p, rd_shape s, const cut *c, uint32_t has)
{
    const rd_stand *at = &c->at;
    for (uint32_t k = 1; k < at->ranks && at->number < c->slices; k++) {
        const uint32_t q = rd_rank_on(s, at->host, at->number + k);
        if (q != has)
            rd_send(p, q, slice(s, c, RD_OUT, at->number));
    }
    for (uint32_t k = 0; k < c->slices && s.rank != has; k++) {
        const uint32_t q = (at->number + 1 + k) % c->slices;
        if (q != at->number)
            rd_recv(p, carrier(s, at->host, q), slice(s, c, RD_OUT, q));
    }
}

/* Up to four rounds, two inside and two between.  With h hosts of l ranks 2 * count * (l-1)/l elements sent
 * inside per rank, and 2 * count * (h-1)/h between, by all ranks of a host together. */
void rd_allreduce_hierarchical(rd_plan *p, rd_shape s)
{
    const rd_stand at = rd_stand_of(s, s.rank);
    const cut c = {at, at.smallest, at.hosts};
    const bool carries = at.number < c.slices && at.hosts > 1;
    uint32_t round = at.largest > 1;

    fold_inside(p, s, &c, slice(s, &c, RD_OUT, at.number % c.slices));
    if (carries) {
        rd_round(p, round);
        fold_between(p, s, &c, true);
        rd_round(p, round + 1);
        for (uint32_t k = 1; k < at.hosts; k++)
            rd_send(p, carrier(s, (at.host + k) % at.hosts, at.number),
                    piece(s, &c, RD_OUT, at.number, at.host));
        for (uint32_t k = 1; k < at.hosts; k++) {
            const uint32_t h = (at.host + at.hosts - k) % at.hosts;
            rd_recv(p, carrier(s, h, at.number), piece(s, &c, RD_OUT, at.number, h));
        }
    }
    round += at.hosts > 1 ? 2 : 0;
    if (at.largest == 1)
        return;
    rd_round(p, round);
    share_inside(p, s, &c, RD_NONE);
}

/* The same with the root's host, and at last the root alone, to be told.  Up to four rounds. */
void rd_reduce_hierarchical(rd_plan *p, rd_shape s)
{
    const rd_stand at = rd_stand_of(s, s.rank);
    const cut c = {at, at.smallest, at.hosts};
    const uint32_t root_host = rd_stand_of(s, s.root).host;
    const bool carries = at.number < c.slices, out = s.rank == s.root;
    const rd_range all = slice(s, &c, RD_OUT, at.number % c.slices);
    const rd_range sum = carries ? kept(p, s, &c, out, all) : all;
    uint32_t round = at.largest > 1;

    fold_inside(p, s, &c, sum);
    if (carries && at.hosts > 1) {
        rd_round(p, round);
        fold_between(p, s, &c, out);
        rd_round(p, round + 1);
        if (at.host != root_host)
            rd_send(p, carrier(s, root_host, at.number),
                    kept(p, s, &c, out, piece(s, &c, RD_OUT, at.number, at.host)));
        for (uint32_t k = 1; k < at.hosts && at.host == root_host; k++) {
            const uint32_t h = (root_host + k) % at.hosts;
            rd_recv(p, carrier(s, h, at.number),
                    kept(p, s, &c, out, piece(s, &c, RD_OUT, at.number, h)));
        }
    }
    round += at.hosts > 1 ? 2 : 0;
    rd_round(p, round);
    if (carries && at.host == root_host && !out)
        rd_send(p, s.root, sum);
    for (uint32_t i = 0; i < c.slices && out; i++)
        if (i != at.number)
            rd_recv(p, carrier(s, root_host, i), slice(s, &c, RD_OUT, i));
}

/* Number k of the other hosts, counted from the root's on, and back. */
static uint32_t other_host(uint32_t root_host, uint32_t k, uint32_t hosts)
{
    return (uint32_t)((root_host + (uint64_t)1 + k) % hosts);
}

/* Between: the root's host sends the k-th of the others piece k of the slice; then they exchange theirs. */
static void spread_between(rd_plan *p, rd_shape s, const cut *c, uint32_t root_host, uint32_t round)
{
    const rd_stand *at = &c->at;
    const uint32_t i = at->number, others = at->hosts - 1;
    const uint32_t me = (at->host + at->hosts - root_host - 1) % at->hosts;
    rd_round(p, round);
    for (uint32_t k = 0; k < others && at->host == root_host; k++)
        rd_send(p, carrier(s, other_host(root_host, k, at->hosts), i), piece(s, c, RD_OUT, i, k));
    if (at->host == root_host)
        return;
    rd_recv(p, carrier(s, root_host, i), piece(s, c, RD_OUT, i, me));
    rd_round(p, round + 1);
    for (uint32_t k = 1; k < others; k++)
        rd_send(p, carrier(s, other_host(root_host, (me + k) % others, at->hosts), i),
                piece(s, c, RD_OUT, i, me));
    for (uint32_t k = 1; k < others; k++) {
        const uint32_t q = (me + others - k) % others;
        rd_recv(p, carrier(s, other_host(root_host, q, at->hosts), i), piece(s, c, RD_OUT, i, q));
    }
}

/* The root hands out slices on its host; each goes to all other hosts in pieces, one to each, which they
 * exchange; then everyone takes the slices.  Up to four rounds; no host sends or receives more than count
 * elements between hosts. */
void rd_broadcast_hierarchical(rd_plan *p, rd_shape s)
{
    const rd_stand at = rd_stand_of(s, s.rank);
    const cut c = {at, at.smallest, at.hosts > 1 ? at.hosts - 1 : 1};
    const rd_stand root = rd_stand_of(s, s.root);
    uint32_t round = at.largest > 1;

    for (uint32_t k = 0; k < c.slices && s.rank == s.root; k++) {
        const uint32_t q = (at.number + 1 + k) % c.slices;
        if (q != at.number)
            rd_send(p, carrier(s, at.host, q), slice(s, &c, RD_OUT, q));
    }
    if (at.host == root.host && at.number < c.slices && s.rank != s.root)
        rd_recv(p, s.root, slice(s, &c, RD_OUT, at.number));
    if (at.number < c.slices && at.hosts > 1)
        spread_between(p, s, &c, root.host, round);
    round += at.hosts > 2 ? 2 : at.hosts - 1;
    if (at.largest == 1)
        return;
    rd_round(p, round);
    share_inside(p, s, &c, s.root);
}
