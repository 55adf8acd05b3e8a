/* value.c: see value.h. */
#include "value.h"

uint64_t value_hash(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9E3779B97F4A7C15u + b;
    x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9u;
    return x ^ x >> 29;
}

value value_leaf(uint32_t rank, uint64_t element)
{
    const uint64_t weight = value_hash(rank + 1000, element + 1);
    return (value){weight, weight, 0xD6E8FEB86659FD93u, value_hash(weight, 1), 1ull << rank};
}

value value_fold(value a, value b)
{
    return (value){a.sum + b.sum, a.chain * b.power + b.chain, a.power * b.power,
                   value_hash(a.id, b.id), a.ranks | b.ranks};
}

value value_scaled(value a)
{
    const uint64_t factor = 0xA0761D6478BD642Fu;
    return (value){a.sum * factor, a.chain * factor, a.power, value_hash(a.id, factor), a.ranks};
}
