/* tcp_checksum.c: frames whose checksum does not match.
 *
 * Both ends of a connection know from the table of ranks whether its frames have checksums, and say so in their
 * greetings.  A head is checked before it is read, and the bytes of a message before they are shown to the engine.
 * What was changed cannot be had again, and nobody knows what the frames behind it are: the world fails, and all
 * ranks are told between which two it was.  The connection stays, so that the sender hears of it, too. */
#include "transport/tcp_inside.h"

#include <assert.h>
#include <stdio.h>

bool rd_tcp_checks(const tcp_world *w, uint32_t rank)
{
    return rd_places_check(&w->its.places[w->its.rank], &w->its.places[rank]);
}

/* " in allreduce #3 of 10 f32, sum": the frame's own call if it says so, else this rank's. */
static void call_text(tcp_link *l, const rd_head *head, rd_error *cause, char *text,
                      size_t capacity)
{
    const rd_presence me = rd_control_board(&l->link, l->link.rank);
    rd_record call = {0};
    char name[100];
    *text = 0;
    if (head && head->kind == RD_MESSAGE && head->world == l->id && head->call.kind)
        call = head->call;
    else if (!me.inside || !rd_control_record(&l->link, l->link.rank, me.sequence, &call))
        return;
    cause->sequence = call.sequence;
    rd_record_text(&call, name, sizeof name);
    snprintf(text, capacity, " in %s", name);
}

void rd_tcp_corrupt(tcp_world *w, tcp_conn *c, const rd_head *head)
{
    const rd_place *from = &w->its.places[c->rank], *to = &w->its.places[w->its.rank];
    assert(c->checked && !c->corrupt);
    c->corrupt = true;
    c->have = c->used = 0;
    c->left = 0;
    c->into = NULL;
    for (tcp_link *l = w->links; l; l = l->next) {
        const uint32_t sender = l->index_of[c->rank];
        rd_error cause = {.rank = l->link.rank};
        char call[120];
        if (l->closed || sender == UINT32_MAX || rd_tcp_has_closed(l, sender))
            continue;
        call_text(l, head, &cause, call, sizeof call);
        rd_fail(
            &cause, RONDA_ESYSTEM, sender,
            "the connection from rank %u (host %s) to rank %u (host %s) corrupts data: the checksum of a "
            "frame does not match%s",
            sender, from->name, l->link.rank, to->name, call);
        rd_tcp_fail(l, &cause);
    }
}
