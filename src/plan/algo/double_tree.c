/* double_tree.c: two binary trees, each for one half of the elements.
 *
 * In a binary tree half of the ranks are leaves, which send nothing down and so leave half of their
 * links idle.  With a second tree, whose leaves are the first one's inner ranks, everybody sends as
 * much as everybody else, in 2 log2(n) rounds that chunks stream through.
 *
 *     first, n = 8       0                    second: the same with ranks counted from the end
 *                        |                    (n even), or one further on (n odd)
 *                    +---4---+
 *                  +-2-+   +-6-+              odd nodes are leaves; an inner node v with lowest bit
 *                  1   3   5   7              2^k is between v - 2^(k-1) and v + 2^(k-1) */
#include "plan/algorithms.h"

typedef struct {
    uint32_t depth, parent;
    uint32_t child[2], children;
} node;

static uint32_t power_below(uint32_t n)
{
    uint32_t power = 1;
    while (2 * (uint64_t)power < n)
        power *= 2;
    return power;
}

static uint32_t depth_of_all(uint32_t n)
{
    uint32_t depth = 0;
    for (uint32_t power = n > 1 ? power_below(n) : 0; power; power /= 2)
        depth++;
    return depth;
}

/* Down from the root, as in any search tree.  `step` is half of what a node has on either side. */
static node find(uint32_t v, uint32_t n)
{
    node at = {.parent = RD_NONE};
    uint32_t here = 0, step = n > 1 ? power_below(n) : 0;
    while (here != v) {
        at.parent = here;
        at.depth++;
        here = v > here ? here + step : here - step;
        for (step /= 2; here + (uint64_t)step >= n && v > here; step /= 2)
            ;
    }
    if (v && step)
        at.child[at.children++] = v - step;
    while (step && v + (uint64_t)step >= n)
        step /= 2;
    if (step)
        at.child[at.children++] = v + step;
    return at;
}

/* The second tree's name for node v of the first, and back. */
static uint32_t other_name(uint32_t v, uint32_t n, bool back)
{
    return n % 2 == 0 ? n - 1 - v : (v + (back ? 1 : n - 1)) % n;
}

/* Node v of tree 0 or 1 of n. */
static node node_of(uint32_t v, uint32_t n, int tree)
{
    if (tree == 0)
        return find(v, n);
    node at = find(other_name(v, n, false), n);
    at.parent = at.parent == RD_NONE ? RD_NONE : other_name(at.parent, n, true);
    for (uint32_t i = 0; i < at.children; i++)
        at.child[i] = other_name(at.child[i], n, true);
    return at;
}

static rd_range half(rd_shape s, int buffer, int tree)
{
    return rd_pieces(s, buffer, 2, (uint32_t)tree, (uint32_t)tree + 1);
}

/* The half of the elements that climbs this tree, in the round in which depth `from` tells the one above. */
static void climb(rd_plan *p, rd_shape s, const node *at, int tree, uint32_t from, bool sends)
{
    uint32_t peers[3];
    if (sends && at->depth == from)
        rd_send(p, at->parent, half(s, at->children ? RD_OUT : RD_IN, tree));
    if (sends || !at->children || at->depth + 1 != from)
        return;
    for (uint32_t i = 0; i <= at->children; i++)
        peers[i] = i == 1 ? s.rank : at->child[i / 2];
    if (at->children == 1 && s.rank < at->child[0]) {
        peers[0] = s.rank;
        peers[1] = at->child[0];
    }
    rd_fold_many(p, peers, at->children + 1, half(s, RD_IN, tree), half(s, RD_OUT, tree));
    if (at->depth == 0)
        rd_scale(p, half(s, RD_OUT, tree));
}

/* 2 * ceil(log2(n)) rounds; no rank sends more than 2 * count elements, in four messages. */
void rd_allreduce_double_tree(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, deepest = depth_of_all(n);
    const node at[2] = {node_of(s.rank, n, 0), node_of(s.rank, n, 1)};

    if (n == 1)
        rd_copy(p, rd_whole(s, RD_IN), rd_whole(s, RD_OUT));
    for (uint32_t from = deepest; from; from--) {
        rd_round(p, deepest - from);
        for (int i = 0; i < 4; i++)
            climb(p, s, &at[i % 2], i % 2, from, i < 2);
    }
    for (uint32_t depth = 0; depth < deepest; depth++) {
        rd_round(p, deepest + depth);
        for (int tree = 0; tree < 2; tree++)
            for (uint32_t i = 0; i < at[tree].children && at[tree].depth == depth; i++)
                rd_send(p, at[tree].child[i], half(s, RD_OUT, tree));
        for (int tree = 0; tree < 2; tree++)
            if (at[tree].depth == depth + 1)
                rd_recv(p, at[tree].parent, half(s, RD_OUT, tree));
    }
}

/* The root tells both trees, which are of the others.  1 + ceil(log2(n-1)) rounds; no rank sends more than
 * count elements. */
void rd_broadcast_double_tree(rd_plan *p, rd_shape s)
{
    const uint32_t n = s.size, v = rd_number(s), deepest = n > 1 ? depth_of_all(n - 1) : 0;
    node at[2] = {{0}, {0}};

    for (int tree = 0; tree < 2 && n > 1; tree++) {
        const uint32_t top = tree == 0 ? 0 : other_name(0, n - 1, true);
        if (v == 0)
            rd_send(p, rd_numbered(s, 1 + (uint64_t)top), half(s, RD_OUT, tree));
        else
            at[tree] = node_of(v - 1, n - 1, tree);
    }
    for (uint32_t depth = 0; depth <= deepest && v; depth++) {
        rd_round(p, depth);
        for (int tree = 0; tree < 2; tree++)
            for (uint32_t i = 0; i < at[tree].children && at[tree].depth + 1 == depth; i++)
                rd_send(p, rd_numbered(s, 1 + (uint64_t)at[tree].child[i]), half(s, RD_OUT, tree));
        for (int tree = 0; tree < 2; tree++)
            if (at[tree].depth == depth)
                rd_recv(p, depth ? rd_numbered(s, 1 + (uint64_t)at[tree].parent) : s.root,
                        half(s, RD_OUT, tree));
    }
}
