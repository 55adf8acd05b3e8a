/* model_kinds.c: what a kind of collective is like, and how long its blocks are. */
#include "model.h"

static const model_facts kinds[] = {
    [RONDA_ALLREDUCE] =
        {.name = "allreduce", .gives = MODEL_BLOCK, .gets = MODEL_BLOCK, .reduces = 1, .placed = 1},
    [RONDA_REDUCE] = {.name = "reduce",
                      .gives = MODEL_BLOCK,
                      .gets = MODEL_BLOCK,
                      .reduces = 1,
                      .placed = 1,
                      .rooted = 1,
                      .root_gets = 1},
    [RONDA_BROADCAST] = {.name = "broadcast",
                         .gives = MODEL_NOTHING,
                         .gets = MODEL_BLOCK,
                         .rooted = 1},
    [RONDA_ALLGATHER] = {.name = "allgather",
                         .gives = MODEL_BLOCK,
                         .gets = MODEL_BLOCKS,
                         .placed = 1},
    [RONDA_ALLGATHERV] = {.name = "allgatherv",
                          .gives = MODEL_BLOCK,
                          .gets = MODEL_BLOCKS,
                          .placed = 1,
                          .counted = 1},
    [RONDA_REDUCE_SCATTER] = {.name = "reduce_scatter",
                              .gives = MODEL_BLOCKS,
                              .gets = MODEL_BLOCK,
                              .reduces = 1,
                              .placed = 1},
    [RONDA_REDUCE_SCATTERV] = {.name = "reduce_scatterv",
                               .gives = MODEL_BLOCKS,
                               .gets = MODEL_BLOCK,
                               .reduces = 1,
                               .placed = 1,
                               .counted = 1},
    [RONDA_GATHER] = {.name = "gather",
                      .gives = MODEL_BLOCK,
                      .gets = MODEL_BLOCKS,
                      .placed = 1,
                      .rooted = 1,
                      .root_gets = 1},
    [RONDA_GATHERV] = {.name = "gatherv",
                       .gives = MODEL_BLOCK,
                       .gets = MODEL_BLOCKS,
                       .placed = 1,
                       .rooted = 1,
                       .root_gets = 1,
                       .counted = 1},
    [RONDA_SCATTER] = {.name = "scatter",
                       .gives = MODEL_BLOCKS,
                       .gets = MODEL_BLOCK,
                       .placed = 1,
                       .rooted = 1,
                       .root_gives = 1},
    [RONDA_SCATTERV] = {.name = "scatterv",
                        .gives = MODEL_BLOCKS,
                        .gets = MODEL_BLOCK,
                        .placed = 1,
                        .rooted = 1,
                        .root_gives = 1,
                        .counted = 1},
    [RONDA_ALLTOALL] = {.name = "alltoall",
                        .gives = MODEL_BLOCKS,
                        .gets = MODEL_BLOCKS,
                        .placed = 1},
    [RONDA_ALLTOALLV] = {.name = "alltoallv",
                         .gives = MODEL_BLOCKS,
                         .gets = MODEL_BLOCKS,
                         .counted = 1},
    [RONDA_SCAN] =
        {.name = "scan", .gives = MODEL_BLOCK, .gets = MODEL_BLOCK, .reduces = 1, .placed = 1},
    [RONDA_EXSCAN] =
        {.name = "exscan", .gives = MODEL_BLOCK, .gets = MODEL_BLOCK, .reduces = 1, .placed = 1},
    [RONDA_BARRIER] = {.name = "barrier", .gives = MODEL_NOTHING, .gets = MODEL_NOTHING}};

const model_facts *model_facts_of(ronda_kind kind)
{
    return &kinds[kind];
}

model_amount model_gives(const model_call *c, uint32_t rank)
{
    return kinds[c->kind].root_gives && rank != c->root ? MODEL_NOTHING : kinds[c->kind].gives;
}

model_amount model_gets(const model_call *c, uint32_t rank)
{
    if (c->kind == RONDA_EXSCAN && rank == 0)
        return MODEL_NOTHING;
    return kinds[c->kind].root_gets && rank != c->root ? MODEL_NOTHING : kinds[c->kind].gets;
}

bool model_reduces(ronda_kind kind)
{
    return kinds[kind].reduces;
}

bool model_rooted(ronda_kind kind)
{
    return kinds[kind].rooted;
}

bool model_counted(ronda_kind kind)
{
    return kinds[kind].counted;
}

bool model_placed(const model_call *c, uint32_t rank)
{
    return kinds[c->kind].placed && model_gives(c, rank) && model_gets(c, rank);
}

static uint64_t scramble(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

uint64_t model_block(const model_call *c, uint32_t from, uint32_t to)
{
    if (!kinds[c->kind].counted)
        return c->count;
    const uint64_t h =
        scramble(c->seed + from * 77 + (c->kind == RONDA_ALLTOALLV ? to * 9999991 : 0));
    return h % 5 == 0 ? 0 : (h >> 8) % (c->count + 1);
}

uint64_t model_send_at(const model_call *c, uint32_t rank, uint32_t i)
{
    const bool all = c->kind == RONDA_ALLTOALLV;
    uint64_t at = 0;
    for (uint32_t k = 0; k < i; k++)
        at += all ? model_block(c, rank, k) : model_block(c, k, 0);
    return at;
}

uint64_t model_recv_at(const model_call *c, uint32_t rank, uint32_t i)
{
    uint64_t at = 0;
    for (uint32_t k = 0; k < i; k++)
        at += model_block(c, k, rank);
    return at;
}

size_t model_send_bytes(const model_call *c, uint32_t rank)
{
    const model_amount has = model_gives(c, rank);
    return model_width(c->type) * (has == MODEL_BLOCKS  ? model_send_at(c, rank, c->size)
                                   : has == MODEL_BLOCK ? model_block(c, rank, 0)
                                                        : 0);
}

size_t model_recv_bytes(const model_call *c, uint32_t rank)
{
    const model_amount has = model_gets(c, rank);
    return model_width(c->type) * (has == MODEL_BLOCKS  ? model_recv_at(c, rank, c->size)
                                   : has == MODEL_BLOCK ? model_block(c, rank, 0)
                                                        : 0);
}
