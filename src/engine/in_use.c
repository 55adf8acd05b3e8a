/* in_use.c: which call under way has some of the caller's memory.
 *
 * Until a request has been waited for its buffers are ronda's: a peer may still read them, or store into them.
 * So memory that is about to be freed is looked for in all calls of this rank that nobody has waited for, also
 * in those of other communicators: memory of one may be used in calls of all that were split off the same world.
 * What has failed has no memory any more: nobody reads or writes it, or the transport keeps it until then. */
#include <stdio.h>

#include "engine/messages_inside.h"

typedef struct {
    uintptr_t at;
    uint64_t bytes;
} extent;

static bool overlaps(extent a, const void *memory, uint64_t bytes)
{
    const uintptr_t b = (uintptr_t)memory;
    return a.bytes && bytes && (a.at < b ? b - a.at < a.bytes : a.at - b < bytes);
}

static bool operation_uses(const rd_operation *f, extent e)
{
    const rd_shape *s = &f->plan->shape;
    return overlaps(e, f->job.in, rd_in_count(s) * f->width) ||
           overlaps(e, f->job.out, rd_out_count(s) * f->width);
}

static const rd_operation *find_operation(const rd_engine *e, extent memory)
{
    const rd_operation *f = e->first;
    while (f && (f->lost || !operation_uses(f, memory)))
        f = f->next;
    return f;
}

static const rd_message *find_message(const rd_engine *e, extent memory)
{
    for (int i = 0; e->messages && i < 2; i++)
        for (const rd_message *l = i ? e->messages->sends.first : e->messages->receives.first; l;
             l = l->next)
            if (!l->lost && overlaps(memory, l->what.data, l->bytes))
                return l;
    return NULL;
}

static bool uses(const rd_engine *e, extent memory, char *text, size_t capacity)
{
    const rd_operation *f = find_operation(e, memory);
    const rd_message *l = f ? NULL : find_message(e, memory);
    if (f)
        rd_record_text(&f->job.record, text, capacity);
    if (l) {
        const rd_pending message = rd_message_pending(l);
        rd_pending_text(&message, text, capacity);
    }
    return f || l;
}

bool rd_engine_uses(const rd_engine *e, bool others_only, const void *memory, size_t bytes,
                    char *text, size_t capacity)
{
    const extent whole = {(uintptr_t)memory, bytes};
    char call[RD_USE_TEXT - 60];
    if (!others_only && uses(e, whole, text, capacity))
        return true;
    for (const rd_engine *k = e->sibling; k != e; k = k->sibling)
        if (uses(k, whole, call, sizeof call)) {
            snprintf(text, capacity, "%s, of a communicator of %u ranks,", call, k->link->size);
            return true;
        }
    return false;
}
