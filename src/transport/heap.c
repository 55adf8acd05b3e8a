/* heap.c: first fit over a sorted list.  Blocks are few and large, so a list is all it takes. */
#include "transport/heap.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

static bool grow(rd_heap *h)
{
    if (h->count < h->capacity)
        return true;
    const uint32_t more = h->capacity ? 2 * h->capacity : 16;
    rd_extent *extents = rd_realloc(h->extents, more * sizeof *extents);
    if (!extents)
        return false;
    h->extents = extents;
    h->capacity = more;
    return true;
}

bool rd_heap_take(rd_heap *h, uint64_t bytes, uint64_t *at)
{
    if (bytes > h->bytes || !grow(h))
        return false;
    const uint64_t pages = rd_heap_pages(bytes ? bytes : 1);
    uint64_t from = 0;
    uint32_t i = 0;
    while (i < h->count && h->extents[i].at - from < pages) {
        assert(h->extents[i].at >= from && h->extents[i].bytes); /* sorted and apart */
        from = h->extents[i].at + h->extents[i].bytes;
        i++;
    }
    assert(i == h->count || h->extents[i].at >= from);
    if (h->bytes < from || h->bytes - from < pages)
        return false;
    assert(h->count < h->capacity && from % RD_HEAP_PAGE == 0);
    memmove(&h->extents[i + 1], &h->extents[i], (h->count - i) * sizeof *h->extents);
    h->extents[i] = (rd_extent){from, pages};
    h->count++;
    *at = from;
    return true;
}

uint64_t rd_heap_give(rd_heap *h, uint64_t at)
{
    for (uint32_t i = 0; i < h->count; i++)
        if (h->extents[i].at == at) {
            const uint64_t bytes = h->extents[i].bytes;
            h->count--;
            memmove(&h->extents[i], &h->extents[i + 1], (h->count - i) * sizeof *h->extents);
            return bytes;
        }
    return 0;
}

void rd_heap_free(rd_heap *h)
{
    rd_free(h->extents);
    *h = (rd_heap){0};
}
