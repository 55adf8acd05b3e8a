#include "plan/sort.h"

#include <string.h>

enum { DIGIT_BITS = 8, DIGITS = 64 / DIGIT_BITS, VALUES = 1 << DIGIT_BITS, FEW = 32 };

static void insert_each(rd_sortable items[], uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const rd_sortable item = items[i];
        uint32_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

/* One pass per digit in which keys differ, the lowest first. */
void rd_sort(rd_sortable items[], rd_sortable spare[], uint32_t count)
{
    uint64_t differ = 0;
    bool sorted = true;
    for (uint32_t i = 1; i < count; i++) {
        differ |= items[i].key ^ items[0].key;
        sorted &= items[i].key >= items[i - 1].key;
    }
    if (sorted)
        return;
    if (count <= FEW) {
        insert_each(items, count);
        return;
    }
    rd_sortable *from = items, *to = spare;
    for (int digit = 0; digit < DIGITS; digit++) {
        const int shift = digit * DIGIT_BITS;
        uint32_t start[VALUES] = {0}, sum = 0;
        if ((differ >> shift & (VALUES - 1)) == 0)
            continue;
        for (uint32_t i = 0; i < count; i++)
            start[from[i].key >> shift & (VALUES - 1)]++;
        for (int v = 0; v < VALUES; v++) {
            const uint32_t here = start[v];
            start[v] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++)
            to[start[from[i].key >> shift & (VALUES - 1)]++] = from[i];
        rd_sortable *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
}
