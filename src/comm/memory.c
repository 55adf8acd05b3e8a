/* memory.c: what ronda_alloc() gave out, so that ronda_free() knows it again and closing frees the
 * rest. */
#include "base/mem.h"
#include "comm/comm.h"

static bool grow(rd_blocks *b)
{
    if (b->count < b->capacity)
        return true;
    const uint32_t more = b->capacity ? 2 * b->capacity : 8;
    rd_block *at = rd_realloc(b->at, more * sizeof *at);
    if (!at)
        return false;
    b->at = at;
    b->capacity = more;
    return true;
}

void *rd_comm_alloc(ronda_comm *c, size_t bytes)
{
    void *memory = grow(&c->blocks) ? c->link->transport->alloc(c->link, bytes) : NULL;
    if (memory)
        c->blocks.at[c->blocks.count++] = (rd_block){memory, bytes};
    return memory;
}

bool rd_comm_free(ronda_comm *c, void *memory)
{
    rd_blocks *b = &c->blocks;
    for (uint32_t i = b->count; i-- > 0;)
        if (b->at[i].memory == memory) {
            c->link->transport->free(c->link, memory, b->at[i].bytes);
            b->at[i] = b->at[--b->count];
            return true;
        }
    return false;
}

void rd_comm_free_all(ronda_comm *c)
{
    while (c->blocks.count)
        rd_comm_free(c, c->blocks.at[c->blocks.count - 1].memory);
    rd_free(c->blocks.at);
    c->blocks = (rd_blocks){0};
}
