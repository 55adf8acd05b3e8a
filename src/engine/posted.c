/* posted.c: posting a message, and waiting for it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/messages_inside.h"

static void append(rd_message_list *list, rd_message *l)
{
    l->before = list->last;
    *(list->last ? &list->last->next : &list->first) = l;
    list->last = l;
}

static void remove_message(rd_message_list *list, rd_message *l)
{
    *(l->before ? &l->before->next : &list->first) = l->next;
    *(l->next ? &l->next->before : &list->last) = l->before;
}

ronda_status rd_messages_post(rd_engine *e, const rd_posting *what, rd_message **out)
{
    rd_message *l = rd_messages_of(e) ? rd_alloc(sizeof *l) : NULL;
    if (!l)
        return RONDA_ENOMEM;
    *l = (rd_message){.what = *what};
    l->bytes = what->count * ronda_type_size(what->type);
    e->messages->active++;
    if (!(what->sends ? rd_messages_send : rd_messages_receive)(e, l)) {
        e->messages->active--;
        rd_free(l);
        return RONDA_ENOMEM;
    }
    append(what->sends ? &e->messages->sends : &e->messages->receives, l);
    rd_messages_deliver_here(e, l);
    e->messages->unread = true; /* what nobody wanted before may be wanted now */
    rd_engine_step_in(e);
    if (!rd_engine_must_leave(e, UINT64_MAX))
        rd_engine_progress(e);
    rd_engine_step_out(e);
    *out = l;
    return RONDA_OK;
}

/* Nobody reads or writes messages any more: their buffers are the caller's. */
void rd_messages_lose(rd_engine *e)
{
    rd_messages *m = e->messages;
    if (!m)
        return;
    for (int i = 0; i < 2; i++)
        for (rd_message *l = i ? m->sends.first : m->receives.first; l; l = l->next) {
            l->lost = !l->done;
            rd_book_strike(&l->entry);
        }
    m->lost = true;
    m->active = 0;
    for (uint32_t k = 0; k < e->link->size * RD_WAYS; k++) {
        rd_way *w = &m->ways[k];
        while (w->first) {
            rd_parcel *p = w->first;
            w->first = p->next;
            rd_free(p);
        }
        w->last = &w->first;
        w->lent_first = NULL;
        w->reading = false;
        if (w->keep)
            rd_messages_discard(m, w->keep);
        w->keep = NULL;
    }
}

bool rd_messages_test(rd_engine *e, rd_message *l)
{
    if (l->done || l->lost)
        return true;
    rd_engine_step_in(e);
    if (rd_engine_must_leave(e, UINT64_MAX) || e->wrong)
        rd_engine_lose(e);
    else if (rd_engine_pump(e), !rd_engine_progress(e))
        rd_engine_look_after(e);
    rd_engine_step_out(e);
    return l->done || l->lost;
}

rd_pending rd_message_pending(const rd_message *l)
{
    return (rd_pending){.direction = l->what.sends ? RD_SENDING : RD_RECEIVING,
                        .type = l->what.type,
                        .peer = l->what.peer,
                        .tag = l->what.tag,
                        .count = l->what.count};
}

void rd_messages_announce(rd_engine *e, const rd_message *l)
{
    const bool full = e->messages && e->messages->full;
    if (!l && !full && !e->announced)
        return;
    const rd_pending message = l ? rd_message_pending(l) : (rd_pending){0};
    e->transport->announce(e->link, l ? &message : NULL, full);
    e->announced = l || full;
}

/* Whether whoever should write or read it has closed; of any rank: all others have. */
static bool is_forsaken(rd_engine *e, const rd_message *l)
{
    const uint32_t n = e->link->size, me = e->link->rank;
    const bool any = l->what.peer == RONDA_ANY;
    uint32_t gone = 0;
    for (uint32_t r = any ? 0 : l->what.peer; r < (any ? n : l->what.peer + 1); r++) {
        if (e->transport->reach && r != me)
            e->transport->reach(e->link, r);
        gone += r != me && e->transport->presence(e->link, r).closed;
    }
    return gone && gone == (any ? n - 1 : 1);
}

static bool somebody_closed(rd_engine *e)
{
    bool closed = false;
    for (uint32_t r = 0; r < e->link->size; r++)
        closed |= r != e->link->rank && e->transport->presence(e->link, r).closed;
    return closed;
}

/* It may have been sent just before its writer closed, so that is looked at once more. */
static ronda_status look(rd_engine *e, const rd_message *l, rd_error *err)
{
    char text[160];
    if (!is_forsaken(e, l))
        return RONDA_OK;
    rd_engine_progress(e);
    if (l->done || l->lost)
        return RONDA_OK;
    err->rank = e->link->rank;
    const rd_pending message = rd_message_pending(l);
    rd_pending_text(&message, text, sizeof text);
    return rd_fail(err, RONDA_EPEER, l->what.peer, "rank %u: %s: %s closed", e->link->rank, text,
                   l->what.peer == RONDA_ANY ? "all others have" : "it has");
}

/* What any rank may write this one may still write itself, as long as it does not wait for it: that all others
 * have closed is no error then, but asking after them finds out who has died. */
static ronda_status look_unless_over(rd_engine *e, const rd_message *l, rd_error *err)
{
    if (l->done || l->lost || (is_forsaken(e, l) && l->what.peer == RONDA_ANY))
        return RONDA_OK;
    return look(e, l, err);
}

ronda_status rd_messages_look_around(rd_engine *e, rd_error *err)
{
    ronda_status status = RONDA_OK;
    if (rd_messages_busy(e) && e->messages->active > e->link->size && !somebody_closed(e))
        return RONDA_OK; /* without asking for each message */
    for (int i = 0; i < 2 && rd_messages_busy(e); i++)
        for (rd_message *l = i ? e->messages->sends.first : e->messages->receives.first;
             l && !status; l = l->next)
            status = look_unless_over(e, l, err);
    return status;
}

static void idle(rd_engine *e, const rd_message *l, rd_patience *p, rd_error *err)
{
    enum { QUICK = 64, TICK_NS = 10000000 };
    rd_engine_heed(e, NULL);
    if (e->wrong || rd_engine_must_leave(e, UINT64_MAX)) {
        rd_engine_lose(e);
        return;
    }
    const uint64_t now = p->idle++ < QUICK && !rd_is_late(p) ? 0 : rd_now_ns();
    if (now && !p->deadline_ns) {
        rd_patience_begin(p, now);
        e->timeout_ns = p->timeout_ns;
    }
    const uint32_t goodbyes = atomic_load(e->link->goodbyes);
    if (now && (now >= p->look_ns || goodbyes != p->goodbyes)) {
        p->goodbyes = goodbyes;
        p->look_ns = now + TICK_NS;
        rd_messages_announce(e, l);
        const rd_pending message = rd_message_pending(l);
        if (look(e, l, err) || (now >= p->deadline_ns && !l->done && !l->lost &&
                                rd_trouble_message(e->link, &message, p->timeout_ns, err)))
            rd_engine_give_up(e, err);
        e->transport->await(e->link, l->what.peer, now >= p->late_ns);
    }
    e->transport->wait(e->link, NULL, p->idle,
                       p->look_ns < p->deadline_ns ? p->look_ns : p->deadline_ns);
}

ronda_status rd_messages_wait(rd_engine *e, rd_message *l, uint64_t timeout_ns, ronda_message *info,
                              rd_error *err)
{
    rd_patience patience = {.timeout_ns = timeout_ns};
    rd_engine_step_in(e);
    while (!l->done && !l->lost) {
        if (rd_engine_progress(e))
            patience.idle = 0;
        else
            idle(e, l, &patience, err);
    }
    if (e->announced)
        rd_messages_announce(e, NULL);
    const ronda_status status = l->lost ? e->cause.status : l->refused;
    if (l->lost) {
        *err = e->cause;
    } else if (l->refused) {
        *err = (rd_error){.rank = e->link->rank};
        rd_fail(err, l->refused, l->got.peer, "%s", l->why);
    } else if (info) {
        *info = l->got;
    }
    remove_message(l->what.sends ? &e->messages->sends : &e->messages->receives, l);
    rd_free(l);
    rd_engine_step_out(e);
    return status;
}

void rd_messages_free(rd_engine *e)
{
    rd_messages *m = e->messages;
    if (!m)
        return;
    rd_messages_lose(e);
    while (m->unexpected.first)
        rd_messages_discard(m, (rd_unexpected *)m->unexpected.first);
    for (int i = 0; i < 2; i++)
        for (rd_message *l = i ? m->sends.first : m->receives.first, *next; l; l = next) {
            next = l->next;
            rd_free(l);
        }
    rd_book *const books[] = {&m->posted, &m->granted, &m->announced, &m->here, &m->unexpected};
    for (size_t b = 0; b < sizeof books / sizeof *books; b++)
        rd_book_free(books[b]);
    rd_free(m);
}
