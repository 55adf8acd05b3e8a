#include "outcome.h"

rd_range outcome_block(const rd_shape *s, uint8_t buffer, uint32_t i)
{
    const uint64_t *starts = s->starts[buffer];
    return (rd_range){buffer, starts ? starts[i] : i * s->count,
                      starts ? starts[i + 1] - starts[i] : s->count};
}

value outcome(rd_plan *const plans[], uint32_t rank, uint64_t e)
{
    const rd_shape *s = &plans[rank]->shape;
    const rd_kind_facts *k = rd_kind(s->kind);
    const bool blocks = k->gives == RD_BLOCKS;
    uint32_t q = 0;
    if (k->gets == RD_BLOCKS) {
        while (e >= outcome_block(s, RD_OUT, q).at + outcome_block(s, RD_OUT, q).count)
            q++;
        const uint64_t at = blocks ? outcome_block(&plans[q]->shape, RD_IN, rank).at : 0;
        return value_leaf(q, at + e - outcome_block(s, RD_OUT, q).at);
    }
    const uint64_t brought = blocks ? outcome_block(s, RD_IN, rank).at + e : e;
    if (!k->reduces && s->kind != RONDA_BARRIER)
        return value_leaf(s->root, brought);
    const uint32_t ranks = s->kind == RONDA_SCAN     ? rank + 1
                           : s->kind == RONDA_EXSCAN ? rank
                                                     : s->size;
    value sum = value_leaf(0, brought);
    for (q = 1; q < ranks; q++)
        sum = value_fold(sum, value_leaf(q, brought));
    return s->mean ? value_scaled(sum) : sum;
}
