/* algorithms.h: THE table.  One line makes an algorithm: its prototype, its command-line name, its
 * proof in the tests and its line in the bench all come from here.
 *
 *   X(kind, name, generator, flags, about) */
#ifndef RD_ALGORITHMS_H
#define RD_ALGORITHMS_H

#include "plan/plan.h"

#define RD_ALGORITHM_TABLE(X)                                                                       \
    X(ALLREDUCE, one_shot, rd_allreduce_one_shot, RD_ORDERED | RD_WHOLE | RD_COPIES,                \
      "everyone sends everything to everyone and folds in rank order; one round, for small counts") \
    X(ALLREDUCE, two_shot, rd_allreduce_two_shot, RD_ORDERED | RD_PARTED,                           \
      "rank r folds part r of everyone in one pass, then everyone takes the parts; two rounds")     \
    X(ALLREDUCE, few_shot, rd_allreduce_few_shot, RD_ORDERED | RD_PARTED,                           \
      "two-shot with parts of 16 KiB or more, folded by as few ranks; for ranks that share cores")  \
    X(ALLREDUCE, halving, rd_allreduce_halving, RD_PARTED,                                          \
      "recursive halving, then doubling; 2 log2(n) rounds, two more if n is no power of two")       \
    X(ALLREDUCE, doubling, rd_allreduce_doubling, RD_ORDERED | RD_WHOLE,                            \
      "recursive doubling; log2(n) rounds, two more if n is no power of two, for small counts")     \
    X(ALLREDUCE, ring, rd_allreduce_ring, RD_PARTED,                                                \
      "ring reduce-scatter, then ring all-gather; 2(n-1) rounds, the fewest bytes, two neighbours") \
    X(ALLREDUCE, double_tree, rd_allreduce_double_tree, 0,                                          \
      "up and down two binary trees, half of the elements each; 2 log2(n) rounds")                  \
    X(ALLREDUCE, hierarchical, rd_allreduce_hierarchical, RD_ORDERED | RD_PARTED | RD_BY_HOST,      \
      "two-shot inside each host, and in between among the ranks that carry the same slice")        \
    X(ALLREDUCE, leaders, rd_allreduce_leaders, RD_ORDERED | RD_BY_HOST,                            \
      "to one rank of each host, once between those, and back; for small counts")                   \
    X(ALLREDUCE, star, rd_allreduce_star, RD_ORDERED | RD_REFERENCE, "everything through rank 0")   \
    X(REDUCE, direct, rd_reduce_direct, RD_ORDERED | RD_STAR,                                       \
      "everyone sends to the root, which folds in rank order; one round")                           \
    X(REDUCE, two_shot, rd_reduce_two_shot, RD_ORDERED | RD_PARTED,                                 \
      "rank r folds part r of everyone in one pass and sends it to the root; two rounds")           \
    X(REDUCE, binomial, rd_reduce_binomial, 0,                                                      \
      "partial sums climb a binomial tree; log2(n) rounds")                                         \
    X(REDUCE, hierarchical, rd_reduce_hierarchical, RD_ORDERED | RD_PARTED | RD_BY_HOST,            \
      "slices summed inside each host, then piece by piece between them, then to the root")         \
    X(REDUCE, leaders, rd_reduce_leaders, RD_ORDERED | RD_BY_HOST,                                  \
      "to one rank of each host, and from those to the root; for small counts")                     \
    X(BROADCAST, direct, rd_broadcast_direct, RD_STAR, "the root sends to everyone; one round")     \
    X(BROADCAST, binomial, rd_broadcast_binomial, 0, "binomial tree; log2(n) rounds")               \
    X(BROADCAST, tree, rd_broadcast_tree, 0,                                                        \
      "binary tree, ranks rotated to the root; a rank sends twice at most, chunks stream down")     \
    X(BROADCAST, scatter, rd_broadcast_scatter, RD_PARTED,                                          \
      "binomial scatter of the parts, then ring all-gather; for large counts")                      \
    X(BROADCAST, double_tree, rd_broadcast_double_tree, 0,                                          \
      "down two binary trees, half of the elements each; for large counts and many ranks")          \
    X(BROADCAST, hierarchical, rd_broadcast_hierarchical, RD_PARTED | RD_BY_HOST,                   \
      "slices cross in pieces, one to each host, which exchange them; then everyone takes all")     \
    X(BROADCAST, leaders, rd_broadcast_leaders, RD_BY_HOST,                                         \
      "binomial tree to one rank of each host, which tells the others; for small counts")           \
    X(BROADCAST, star, rd_broadcast_star, RD_REFERENCE, "everything through rank 0")                \
    X(ALLGATHER, direct, rd_allgather_direct, 0,                                                    \
      "everyone sends its block to everyone; one round")                                            \
    X(ALLGATHER, bruck, rd_allgather_bruck, RD_WHOLE,                                               \
      "Bruck: blocks double every round; log2(n) rounds, one rotation at the end")                  \
    X(ALLGATHER, ring, rd_allgather_ring, 0,                                                        \
      "blocks go round the ring; n-1 rounds, two neighbours")                                       \
    X(ALLGATHER, hierarchical, rd_allgather_hierarchical, RD_BY_HOST,                               \
      "blocks go to one rank of each other host, which passes them on; two rounds")                 \
    X(ALLGATHER, star, rd_allgather_star, RD_WHOLE | RD_REFERENCE, "everything through rank 0")     \
    X(ALLGATHERV, direct, rd_allgather_direct, 0,                                                   \
      "everyone sends its block to everyone; one round")                                            \
    X(ALLGATHERV, ring, rd_allgather_ring, 0,                                                       \
      "blocks go round the ring; n-1 rounds, two neighbours")                                       \
    X(ALLGATHERV, hierarchical, rd_allgather_hierarchical, RD_BY_HOST,                              \
      "blocks go to one rank of each other host, which passes them on; two rounds")                 \
    X(REDUCE_SCATTER, direct, rd_reduce_scatter_direct, RD_ORDERED,                                 \
      "rank r folds block r of everyone in one pass; one round")                                    \
    X(REDUCE_SCATTER, ring, rd_reduce_scatter_ring, 0,                                              \
      "partial sums go round the ring; n-1 rounds, two neighbours")                                 \
    X(REDUCE_SCATTER, halving, rd_reduce_scatter_halving, RD_WHOLE,                                 \
      "recursive halving; log2(n) rounds, two more if n is no power of two")                        \
    X(REDUCE_SCATTER, hierarchical, rd_reduce_scatter_hierarchical, RD_ORDERED | RD_BY_HOST,        \
      "blocks are summed inside each host, and sent to their owners; two rounds")                   \
    X(REDUCE_SCATTER, star, rd_reduce_scatter_star, RD_ORDERED | RD_WHOLE | RD_REFERENCE,           \
      "everything through rank 0")                                                                  \
    X(REDUCE_SCATTERV, direct, rd_reduce_scatter_direct, RD_ORDERED,                                \
      "rank r folds block r of everyone in one pass; one round")                                    \
    X(REDUCE_SCATTERV, ring, rd_reduce_scatter_ring, 0,                                             \
      "partial sums go round the ring; n-1 rounds, two neighbours")                                 \
    X(REDUCE_SCATTERV, halving, rd_reduce_scatter_halving, RD_WHOLE,                                \
      "recursive halving; log2(n) rounds, two more if n is no power of two")                        \
    X(REDUCE_SCATTERV, hierarchical, rd_reduce_scatter_hierarchical, RD_ORDERED | RD_BY_HOST,       \
      "blocks are summed inside each host, and sent to their owners; two rounds")                   \
    X(GATHER, direct, rd_gather_direct, 0, "everyone sends its block to the root; one round")       \
    X(GATHER, binomial, rd_gather_binomial, RD_WHOLE,                                               \
      "runs of blocks climb a binomial tree; log2(n) rounds")                                       \
    X(GATHERV, direct, rd_gather_direct, 0, "everyone sends its block to the root; one round")      \
    X(SCATTER, direct, rd_scatter_direct, 0, "the root sends everyone its block; one round")        \
    X(SCATTER, binomial, rd_scatter_binomial, RD_WHOLE,                                             \
      "runs of blocks go down a binomial tree; log2(n) rounds")                                     \
    X(SCATTERV, direct, rd_scatter_direct, 0, "the root sends everyone its block; one round")       \
    X(ALLTOALL, pairwise, rd_alltoall_pairwise, 0,                                                  \
      "everybody sends each rank its block, in an order that pairs ranks; 1 round")                 \
    X(ALLTOALL, bruck, rd_alltoall_bruck, RD_WHOLE,                                                 \
      "Bruck: blocks travel together, 2^k ranks in round k; log2(n) rounds, for small counts")      \
    X(ALLTOALLV, pairwise, rd_alltoall_pairwise, RD_WHOLE,                                          \
      "everybody sends each rank its block, in an order that pairs ranks; 1 round")                 \
    X(SCAN, linear, rd_scan_linear, RD_ORDERED,                                                     \
      "from rank to rank, chunk after chunk; n-1 rounds")                                           \
    X(SCAN, doubling, rd_scan_doubling, RD_ORDERED | RD_WHOLE,                                      \
      "recursive doubling; log2(n) rounds, for small counts")                                       \
    X(EXSCAN, linear, rd_exscan_linear, RD_ORDERED,                                                 \
      "from rank to rank, chunk after chunk; n-1 rounds")                                           \
    X(EXSCAN, doubling, rd_exscan_doubling, RD_ORDERED | RD_WHOLE,                                  \
      "recursive doubling; log2(n) rounds, for small counts")                                       \
    X(BARRIER, dissemination, rd_barrier_dissemination, RD_WHOLE,                                   \
      "in round k rank r tells rank r + 2^k; log2(n) rounds")                                       \
    X(BARRIER, ring, rd_barrier_ring, RD_WHOLE,                                                     \
      "a token goes round twice: all have come, all may go; 2n-1 messages one after another")       \
    X(BARRIER, leaders, rd_barrier_leaders, RD_WHOLE | RD_BY_HOST,                                  \
      "one rank of each host asks the others, then those among themselves, then all may go")        \
    X(BARRIER, star, rd_barrier_star, RD_WHOLE | RD_REFERENCE, "everything through rank 0")

#define X(kind, name, generator, flags, about) rd_generator generator;
RD_ALGORITHM_TABLE(X)
#undef X

#endif
