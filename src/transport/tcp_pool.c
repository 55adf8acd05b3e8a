/* tcp_pool.c: buffers for messages that come, which are used again. */
#include "base/mem.h"
#include "transport/tcp_inside.h"

#include <assert.h>

enum { LEAST_BUFFER = 256 };
_Static_assert((uint64_t)LEAST_BUFFER << (RD_POOLS - 1) >= 2 * (uint64_t)RD_WINDOW,
               "what comes of a message has a buffer");
_Static_assert(sizeof(tcp_unused) <= LEAST_BUFFER, "a buffer that nobody uses is in a list");

static uint32_t pool_of(uint64_t bytes)
{
    uint32_t i = 0;
    while ((uint64_t)LEAST_BUFFER << i < bytes)
        i++;
    assert(i < RD_POOLS);
    return i;
}

char *rd_pool_take(tcp_world *w, uint64_t bytes, uint64_t *capacity)
{
    const uint32_t i = pool_of(bytes);
    tcp_unused *unused = w->pool[i];
    *capacity = (uint64_t)LEAST_BUFFER << i;
    if (unused)
        w->pool[i] = unused->next;
    return unused ? (char *)unused : rd_alloc(*capacity);
}

void rd_pool_give(tcp_world *w, char *data, uint64_t capacity)
{
    const uint32_t i = pool_of(capacity);
    assert(data && capacity == (uint64_t)LEAST_BUFFER << i);
    tcp_unused *unused = (tcp_unused *)(void *)data;
    unused->next = w->pool[i];
    w->pool[i] = unused;
}

void rd_pool_free(tcp_world *w)
{
    for (uint32_t i = 0; i < RD_POOLS; i++)
        while (w->pool[i]) {
            uint64_t capacity;
            rd_free(rd_pool_take(w, (uint64_t)LEAST_BUFFER << i, &capacity));
        }
}
