/* bench_call.c: a point of `ronda bench` as a call: what each rank gives and gets, by the kind's facts alone.
 *
 * Blocks with lengths of their own are ragged around the count given: of each two that follow one
 * another the first is half as long again and the second half as long; the last of an odd number is as
 * asked.  Together they are as long as even ones, so that times compare.  alltoallv turns this row by a
 * place from rank to rank: what is sent to a rank differs from what comes from it, and still every rank
 * gives and gets as much as any other.  For count 4:
 *
 *     4 ranks   6 2 6 2          alltoallv, 3 ranks   0 gives  6 2 4
 *     3 ranks   6 2 4                                 1 gives  4 6 2
 *                                                     2 gives  2 4 6 */
#include <stdlib.h>

#include "base/names.h"
#include "bench.h"

bool bench_in_blocks(ronda_kind kind)
{
    const rd_kind_facts *k = rd_kind(kind);
    return k->gives == RD_BLOCKS || k->gets == RD_BLOCKS;
}

/* Broadcast always, since it has one buffer; folds of what send holds too, unless told otherwise. */
bool bench_in_place(ronda_kind kind, bool out_of_place)
{
    const rd_kind_facts *k = rd_kind(kind);
    return k->gives == RD_NOTHING || (k->reduces && k->place == RD_SAME && !out_of_place);
}

static uint64_t ragged(uint64_t count, uint32_t size, uint32_t i)
{
    if (i % 2)
        return count - count / 2;
    return i + 1 < size ? count + count / 2 : count;
}

/* Elements of what goes from one rank to another; for a kind with a block for each rank: of that block. */
static uint64_t block(const bench_point *p, uint32_t size, uint32_t from, uint32_t to)
{
    const rd_kind_facts *k = rd_kind(p->kind);
    if (!k->counted)
        return p->count;
    if (k->gives == RD_BLOCKS && k->gets == RD_BLOCKS)
        return ragged(p->count, size, (to + size - from) % size);
    return ragged(p->count, size, k->gives == RD_BLOCKS ? to : from);
}

static uint64_t total(const size_t *counts, int has, uint32_t rank, uint32_t size)
{
    uint64_t sum = 0;
    if (has == RD_BLOCK)
        return counts[rank];
    for (uint32_t r = 0; r < size && has == RD_BLOCKS; r++)
        sum += counts[r];
    return sum;
}

bool bench_job_open(const bench_point *p, uint32_t rank, uint32_t size, bench_job *out)
{
    const rd_kind_facts *k = rd_kind(p->kind);
    size_t *all = calloc(3 * (size_t)size, sizeof *all);
    if (!all)
        return false;
    *out = (bench_job){.rank = rank,
                       .size = size,
                       .counts = all,
                       .recv_counts = all + size,
                       .begins = all + 2 * (size_t)size};
    for (uint32_t r = 0; r < size; r++) {
        /* Where every rank has the same row of blocks, block r is rank r's, whoever asks */
        const bool own_rows = k->gives == RD_BLOCKS && k->gets == RD_BLOCKS;
        out->counts[r] = own_rows ? block(p, size, rank, r) : block(p, size, r, r);
        out->recv_counts[r] = own_rows ? block(p, size, r, rank) : out->counts[r];
        for (uint32_t to = 0; to < rank && k->gives == RD_BLOCKS; to++)
            out->begins[r] += block(p, size, r, to);
    }
    if (p->kind == RONDA_BARRIER)
        return true;
    out->gives = total(out->counts, rd_kind_gives(p->kind, rank, p->root), rank, size);
    out->gets = total(out->recv_counts, rd_kind_gets(p->kind, rank, p->root), rank, size);
    return true;
}

void bench_job_close(bench_job *j)
{
    free(j->counts);
    *j = (bench_job){0};
}

/* What the public functions do, each for its kind. */
ronda_status bench_call(ronda_comm *comm, const bench_job *j, const bench_point *p,
                        const void *send, void *recv)
{
    const rd_kind_facts *k = rd_kind(p->kind);
    if (p->kind == RONDA_BARRIER)
        return ronda_barrier(comm);
    rd_call call = {.kind = p->kind,
                    .type = p->type,
                    .op = k->reduces ? p->op : 0,
                    .root = k->rooted ? p->root : 0,
                    .count = k->counted ? 0 : p->count,
                    .counts = k->counted ? j->counts : NULL,
                    .recv_counts = p->kind == RONDA_ALLTOALLV ? j->recv_counts : NULL};
    return rd_submit(comm, &call, k->gives == RD_NOTHING ? NULL : send, recv, NULL);
}
