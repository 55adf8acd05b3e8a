/* memory.c: what ronda_alloc() gave out, so that ronda_free() knows it again and closing frees the
 * rest. */
#include "base/mem.h"
#include "base/mem_limit.h"
#include "comm/comm.h"

void *rd_comm_alloc(ronda_comm *c, size_t bytes)
{
    rd_block *b = rd_memory_allows(bytes) ? rd_alloc(sizeof *b) : NULL;
    void *memory = b ? c->link->transport->alloc(c->link, bytes) : NULL;
    if (!memory) {
        rd_free(b);
        return NULL;
    }
    *b = (rd_block){c->blocks, memory, bytes};
    c->blocks = b;
    return memory;
}

static void free_block(ronda_comm *c, rd_block **at)
{
    rd_block *b = *at;
    *at = b->next;
    c->link->transport->free(c->link, b->memory, b->bytes);
    rd_free(b);
}

static ronda_status in_use(ronda_comm *c, const char *function, const rd_block *b, const char *call)
{
    return rd_comm_fail(c, RONDA_EINVAL,
                        "%s: %s has the %zu bytes at %p that ronda_alloc gave; wait for its "
                        "request first",
                        function, call, b->bytes, b->memory);
}

ronda_status rd_comm_free(ronda_comm *c, void *memory)
{
    char call[RD_USE_TEXT];
    rd_block **at = &c->blocks;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    if (!*at)
        return rd_comm_fail(c, RONDA_EINVAL, "ronda_free: %p is not what ronda_alloc gave", memory);
    if (rd_engine_uses(c->engine, false, memory, (*at)->bytes, call, sizeof call))
        return in_use(c, "ronda_free", *at, call);
    free_block(c, at);
    return RONDA_OK;
}

/* Calls of other communicators that have failed give up what they have first. */
ronda_status rd_comm_keeps_memory(ronda_comm *c)
{
    char call[RD_USE_TEXT];
    if (c->blocks)
        rd_engine_progress_all(c->engine);
    for (const rd_block *b = c->blocks; b; b = b->next)
        if (rd_engine_uses(c->engine, true, b->memory, b->bytes, call, sizeof call))
            return in_use(c, "ronda_close", b, call);
    return RONDA_OK;
}

void rd_comm_free_all(ronda_comm *c)
{
    while (c->blocks)
        free_block(c, &c->blocks);
}
