/* heap.h: which parts of a range are taken, by whole pages. */
#ifndef RD_HEAP_H
#define RD_HEAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t at, bytes;
} rd_extent;

typedef struct {
    uint64_t bytes;     /* of the whole range, which begins at 0 */
    rd_extent *extents; /* taken, by address; whole pages */
    uint32_t count, capacity;
} rd_heap;

enum { RD_HEAP_PAGE = 4096 };

static inline uint64_t rd_heap_pages(uint64_t bytes)
{
    return (bytes + RD_HEAP_PAGE - 1) & ~(uint64_t)(RD_HEAP_PAGE - 1);
}

/* The first gap that fits.  false: there is none, or no memory to note it. */
bool rd_heap_take(rd_heap *h, uint64_t bytes, uint64_t *at);
/* What was taken at `at` is free again; how many bytes that were, 0: nothing begins there. */
uint64_t rd_heap_give(rd_heap *h, uint64_t at);
void rd_heap_free(rd_heap *h);

#endif
