/* traffic.c: see traffic.h. */
#include "traffic.h"

/* Most are short, some are too long to be sent before they are asked for. */
message message_draw(rng *r, uint32_t size, size_t longest)
{
    return (message){.from = (uint32_t)rng_below(r, size),
                     .to = (uint32_t)rng_below(r, size),
                     .tag = (uint32_t)rng_below(r, 3) * 1000003,
                     .count = rng_below(r, 4)   ? rng_below(r, 30)
                              : rng_below(r, 3) ? rng_below(r, 6000)
                                                : rng_below(r, longest)};
}

/* Element k of message i: the first one tells which message it is. */
static uint32_t word(const traffic *t, uint32_t i, size_t k)
{
    return k == 0 ? i : (uint32_t)((t->seed + i * 7919) * (2 * k + 1) >> 13);
}

void traffic_fill(const traffic *t, uint32_t i, uint32_t *to)
{
    for (size_t k = 0; k < t->messages[i].count; k++)
        to[k] = word(t, i, k);
}

bool traffic_check(const traffic *t, uint32_t rank, const ronda_message *info, const uint32_t *got,
                   bool received[])
{
    uint32_t i = 0;
    while (i < t->count && (received[i] || t->messages[i].to != rank ||
                            t->messages[i].from != info->peer || t->messages[i].tag != info->tag))
        i++;
    if (!CHECK(i < t->count, "rank %u: a message of rank %u, tag %u, that nobody sent", rank,
               info->peer, info->tag))
        return false;
    received[i] = true;
    if (!CHECK(info->count == t->messages[i].count, "message %u has %zu elements, not %zu", i,
               info->count, t->messages[i].count))
        return false;
    for (size_t k = 0; k < info->count; k++)
        if (!CHECK(got[k] == word(t, i, k), "message %u, element %zu of %zu", i, k, info->count))
            return false;
    return true;
}
