/* mail.c: how letters travel.  Per peer a list of what is to be sent, in order, and what is being read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/mail_box.h"

enum { SHORT = 1, OFFER, PLEASE, GOODS };

/* A mark is the kind, the type, and a tag or a number. */
static uint64_t mark_of(uint64_t kind, ronda_type type, uint32_t tag)
{
    return kind << 56 | (uint64_t)type << 32 | tag;
}

rd_mail *rd_mail_of(rd_engine *e)
{
    const uint32_t ways = e->link->size * RD_WAYS;
    if (e->mail)
        return e->mail;
    rd_mail *m = rd_alloc(sizeof *m + ways * sizeof *m->ways);
    for (uint32_t w = 0; m && w < ways; w++)
        m->ways[w].last = &m->ways[w].first;
    if (m) {
        m->stored = &m->store;
        m->unread = true;
    }
    return e->mail = m;
}

static rd_way *way_to(rd_engine *e, uint32_t peer, uint32_t which)
{
    rd_way *w = &e->mail->ways[peer * RD_WAYS + which];
    if (!w->port)
        w->port = rd_port_to(e, peer, e->link->channels + which);
    return w;
}

static uint32_t way_of(uint64_t mark)
{
    return mark >> 56 == SHORT || mark >> 56 == OFFER ? RD_UNASKED : RD_ASKED;
}

/* --- sending --- */

static rd_parcel *add_parcel(rd_engine *e, uint32_t peer, uint64_t mark, const char *data,
                             uint64_t bytes, rd_letter *letter)
{
    rd_way *w = way_to(e, peer, way_of(mark));
    rd_parcel *p = rd_alloc(sizeof *p);
    if (!p)
        return NULL;
    *p = (rd_parcel){.mark = mark, .bytes = bytes, .data = data, .letter = letter};
    *w->last = p;
    w->last = &p->next;
    return p;
}

/* What the parcel itself carries. */
static bool add_words(rd_engine *e, uint32_t peer, uint64_t mark, uint64_t first, uint64_t second)
{
    rd_parcel *p = add_parcel(e, peer, mark, NULL, mark >> 56 == OFFER ? 16 : 8, NULL);
    if (!p)
        return false;
    p->words[0] = first;
    p->words[1] = second;
    p->data = (const char *)p->words;
    return true;
}

/* Its letter is done when the message sent last is home. */
static void lent(const rd_engine *e, const rd_way *w, const rd_parcel *p)
{
    p->letter->lent = true;
    p->letter->way = way_of(p->mark);
    p->letter->message = e->transport->sent(w->port) - 1;
}

/* As much of a parcel as there is room for; true: all of it.  Goods are lent where they lie, if they can be.
 * A short letter is done before it is read, so it is copied, in small pieces: the arena is for what will be
 * read soon. */
static bool push_one(rd_engine *e, rd_way *w, rd_parcel *p)
{
    const rd_transport *t = e->transport;
    const bool is_short = p->mark >> 56 == SHORT;
    if (p->mark >> 56 == GOODS && !p->taken && t->lends(e->link, p->data, p->bytes)) {
        if (!t->can_send(w->port))
            return false;
        t->lend(w->port, &(rd_loan){.data = p->data, .bytes = p->bytes, .mark = p->mark});
        lent(e, w, p);
        return true;
    }
    do {
        uint64_t bytes = p->bytes - p->taken;
        if (is_short && bytes > RD_SHORT_PIECE)
            bytes = RD_SHORT_PIECE;
        void *slot = t->reserve(w->port, p->bytes <= RD_INLINE ? bytes : 0, &bytes);
        if (!slot)
            return false;
        rd_put(slot, p->data + p->taken, bytes);
        t->commit(w->port, bytes, p->bytes, p->mark);
        p->taken += bytes;
    } while (p->taken < p->bytes);
    if (t->pushes && p->letter)
        lent(e, w, p);
    return true;
}

static uint32_t push(rd_engine *e, rd_way *w)
{
    uint32_t ran = 0;
    while (w->first && push_one(e, w, w->first)) {
        rd_parcel *p = w->first;
        if (p->letter && !p->letter->lent)
            rd_letter_done(e->mail, p->letter);
        w->first = p->next;
        if (!w->first)
            w->last = &w->first;
        rd_free(p);
        ran++;
    }
    return ran;
}

bool rd_mail_send(rd_engine *e, rd_letter *l)
{
    const rd_posting *w = &l->what;
    if (w->peer == e->link->rank)
        return true;
    if (l->bytes <= RD_SHORT_LETTER)
        return add_parcel(e, w->peer, mark_of(SHORT, w->type, w->tag), w->data, l->bytes, l);
    l->number = ++e->mail->numbers;
    return add_words(e, w->peer, mark_of(OFFER, w->type, w->tag), l->bytes, l->number);
}

/* --- asking --- */

static bool asks_for(const rd_letter *l, uint32_t peer, uint32_t tag)
{
    return !l->done && !l->lost && l->from == RONDA_ANY &&
           (l->what.peer == RONDA_ANY || l->what.peer == peer) &&
           (l->what.tag == RONDA_ANY || l->what.tag == tag);
}

/* Whether what is there can be taken; if not, the receive is over, and what is there stays. */
static bool fits(rd_engine *e, rd_letter *l, uint32_t peer, uint32_t tag, ronda_type type,
                 uint64_t bytes)
{
    const uint64_t width = ronda_type_size(l->what.type);
    if (type == l->what.type && bytes <= l->bytes)
        return true;
    l->refused = RONDA_EINVAL;
    if (type != l->what.type)
        snprintf(l->why, sizeof l->why,
                 "rank %u: recv: rank %u's message with tag %u is of %s, not of %s", e->link->rank,
                 peer, tag, rd_type_name(type), rd_type_name(l->what.type));
    else
        snprintf(l->why, sizeof l->why,
                 "rank %u: recv: rank %u's message with tag %u has %" PRIu64
                 " elements, and there is room for %" PRIu64,
                 e->link->rank, peer, tag, bytes / width, l->what.count);
    rd_letter_done(e->mail, l);
    return false;
}

static rd_letter *who_asks(rd_engine *e, uint32_t peer, uint32_t tag, ronda_type type,
                           uint64_t bytes)
{
    for (rd_letter *l = e->mail->receives.first; l; l = l->next)
        if (asks_for(l, peer, tag) && fits(e, l, peer, tag, type, bytes)) {
            l->got = (ronda_message){peer, tag, bytes / ronda_type_size(l->what.type)};
            return l;
        }
    return NULL;
}

static bool ask(rd_engine *e, rd_letter *l, uint32_t peer, uint32_t number)
{
    if (!add_words(e, peer, mark_of(PLEASE, 0, 0), number, 0))
        return false;
    l->from = peer;
    l->number = number;
    return true;
}

/* --- the store --- */

static rd_stored *store_one(rd_engine *e, uint32_t peer, uint32_t tag, ronda_type type, bool offer,
                            uint64_t bytes)
{
    rd_mail *m = e->mail;
    const uint64_t keeps = offer ? 0 : bytes;
    if (m->store_letters == RD_STORE_LETTERS || keeps > RD_STORE_BYTES - m->store_bytes)
        return NULL;
    rd_stored *s = rd_alloc(sizeof *s);
    char *data = keeps ? rd_alloc(keeps) : NULL;
    if (!s || (keeps && !data)) {
        rd_free(s);
        rd_free(data);
        return NULL;
    }
    *s = (rd_stored){.peer = peer, .tag = tag, .type = type, .offer = offer, .bytes = bytes};
    s->data = data;
    m->store_letters++;
    m->store_bytes += keeps;
    *m->stored = s;
    m->stored = &s->next;
    return s;
}

static void discard(rd_mail *m, rd_stored **at)
{
    rd_stored *s = *at;
    *at = s->next;
    if (!*at)
        m->stored = at;
    m->store_letters--;
    m->store_bytes -= s->offer ? 0 : s->bytes;
    rd_free(s->data);
    rd_free(s);
}

void rd_mail_look_in_store(rd_engine *e, rd_letter *l)
{
    for (rd_stored **at = &e->mail->store, *s; (s = *at) && !l->done; at = &s->next) {
        if (!asks_for(l, s->peer, s->tag) || !s->whole ||
            !fits(e, l, s->peer, s->tag, s->type, s->bytes))
            continue;
        l->got = (ronda_message){s->peer, s->tag, s->bytes / ronda_type_size(s->type)};
        if (s->offer && !ask(e, l, s->peer, s->number))
            return; /* later, when there is memory */
        if (!s->offer && s->bytes)
            memcpy(l->what.data, s->data, s->bytes);
        if (!s->offer)
            rd_letter_done(e->mail, l);
        discard(e->mail, at);
        return;
    }
}

void rd_mail_clear_store(rd_mail *m)
{
    while (m->store)
        discard(m, &m->store);
}

/* --- reading --- */

static rd_letter *with_number(const rd_letters *list, uint32_t number, uint32_t peer, bool sends)
{
    for (rd_letter *l = list->first; l; l = l->next)
        if (number && l->number == number && !l->done && !l->lost &&
            (sends ? l->what.peer == peer : l->from == peer))
            return l;
    return NULL;
}

/* A message that says something about a letter: true if that made sense and was dealt with, or will be
 * later (*later). */
static bool heed(rd_engine *e, uint32_t peer, const rd_view *v, bool *later)
{
    uint64_t words[2] = {0};
    const uint64_t kind = v->mark >> 56;
    const uint32_t tag = (uint32_t)v->mark;
    const ronda_type type = (ronda_type)(v->mark >> 32 & 0xff);
    if (v->total != (kind == OFFER ? 16 : 8) || v->bytes != v->total)
        return false;
    memcpy(words, v->data, v->bytes);
    const uint32_t number = (uint32_t)(kind == OFFER ? words[1] : words[0]);
    if (kind == PLEASE) {
        rd_letter *l = with_number(&e->mail->sends, number, peer, true);
        if (!l || l->asked)
            return false;
        l->asked = add_parcel(e, peer, mark_of(GOODS, 0, number), l->what.data, l->bytes, l);
        *later = !l->asked;
        return true;
    }
    if (!ronda_type_size(type))
        return false;
    rd_letter *l = who_asks(e, peer, tag, type, words[0]);
    if (l) {
        *later = !ask(e, l, peer, number);
        return true;
    }
    rd_stored *s = store_one(e, peer, tag, type, true, words[0]);
    *later = !s;
    if (s) {
        s->number = number;
        s->whole = true;
    }
    return true;
}

/* Finds a place for a message with bytes. */
static bool find_place(rd_engine *e, rd_way *b, uint32_t peer, const rd_view *v, bool *later)
{
    const uint32_t tag = (uint32_t)v->mark;
    const ronda_type type = (ronda_type)(v->mark >> 32 & 0xff);
    b->into = NULL;
    b->keep = NULL;
    b->read = 0;
    b->total = v->total;
    b->mark = v->mark;
    if (v->mark >> 56 == GOODS) {
        b->into = with_number(&e->mail->receives, tag, peer, false);
        return b->into && v->total == b->into->got.count * ronda_type_size(b->into->what.type);
    }
    if (v->mark >> 56 != SHORT || !ronda_type_size(type) || v->total > RD_SHORT_LETTER)
        return false;
    b->into = who_asks(e, peer, tag, type, v->total);
    if (b->into)
        b->into->from = peer; /* it is taken */
    else
        b->keep = store_one(e, peer, tag, type, false, v->total);
    *later = !b->into && !b->keep;
    return true;
}

static void finish_reading(rd_engine *e, rd_way *w)
{
    w->reading = false;
    if (w->into)
        rd_letter_done(e->mail, w->into);
    w->into = NULL;
    if (!w->keep)
        return;
    w->keep->whole = true; /* somebody may have asked for it meanwhile */
    w->keep = NULL;
    for (rd_letter *l = e->mail->receives.first; l; l = l->next)
        if (!l->done && !l->lost && l->from == RONDA_ANY)
            rd_mail_look_in_store(e, l);
}

/* Begins with a message, or goes on with one that says the same as before. */
static bool understand(rd_engine *e, rd_way *w, uint32_t peer, const rd_view *v, bool *later)
{
    const uint64_t kind = v->mark >> 56;
    if (v->total == UINT64_MAX || !v->data)
        return false;
    if (w->reading)
        return v->mark == w->mark && v->total == w->total && v->bytes <= w->total - w->read;
    if (w != &e->mail->ways[peer * RD_WAYS + way_of(v->mark)])
        return false;
    if (kind == OFFER || kind == PLEASE)
        return heed(e, peer, v, later);
    if (!find_place(e, w, peer, v, later) || v->bytes > v->total)
        return false;
    w->reading = !*later;
    return true;
}

/* What has come from a peer; what makes no sense is for the engine to say. */
static uint32_t pull(rd_engine *e, uint32_t peer, uint32_t which)
{
    rd_way *w = way_to(e, peer, which);
    uint32_t ran = 0;
    rd_view v;
    for (; e->transport->peek(w->port, &v); ran++) {
        bool later = false;
        if (!understand(e, w, peer, &v, &later)) {
            e->wrong = peer + 1;
            e->mad = true;
            e->wronged = (rd_record){.sequence = e->entered};
            return ran;
        }
        if (later) {
            e->mail->unread = true;
            return ran;
        }
        if (w->reading && v.bytes)
            rd_move((w->into ? (char *)w->into->what.data : w->keep->data) + w->read, v.data,
                    v.bytes);
        w->read += v.bytes;
        e->transport->release(w->port, v.bytes);
        if (w->reading && w->read == w->total)
            finish_reading(e, w);
    }
    return ran;
}

/* --- moving --- */

static uint32_t come_home(rd_engine *e)
{
    uint32_t ran = 0;
    for (rd_letter *l = e->mail->sends.first; l; l = l->next)
        if (l->lent && !l->done && !l->lost &&
            e->transport->home(way_to(e, l->what.peer, l->way)->port, l->message)) {
            rd_letter_done(e->mail, l);
            ran++;
        }
    return ran;
}

bool rd_mail_waiting(const rd_engine *e)
{
    const uint32_t letters = e->transport->letters(e->link);
    const rd_mail *m = e->mail;
    return m ? !m->lost && (letters != m->seen || m->unread || m->active) : letters != 0;
}

uint32_t rd_mail_move(rd_engine *e)
{
    uint32_t ran = 0;
    if (!rd_mail_waiting(e) || !rd_mail_of(e))
        return 0;
    rd_mail *m = e->mail;
    const uint32_t letters = e->transport->letters(e->link), n = e->link->size;
    if (letters != m->seen || m->unread) {
        m->seen = letters;
        m->unread = false;
        for (uint32_t w = 0; w < n * RD_WAYS && !e->wrong; w++)
            if (w / RD_WAYS != e->link->rank)
                ran += pull(e, w / RD_WAYS, w % RD_WAYS);
    }
    for (uint32_t w = 0; w < n * RD_WAYS; w++)
        if (m->ways[w].first)
            ran += push(e, &m->ways[w]);
    return ran + come_home(e);
}

bool rd_mail_busy(const rd_engine *e)
{
    return e->mail && e->mail->active;
}

/* --- a rank that writes to itself --- */

/* What is asked for is copied; else it is kept, if it is short. */
static void deliver_here(rd_engine *e, rd_letter *l)
{
    rd_letter *to = who_asks(e, l->what.peer, l->what.tag, l->what.type, l->bytes);
    rd_stored *keep = to || l->bytes > RD_SHORT_LETTER
                          ? NULL
                          : store_one(e, l->what.peer, l->what.tag, l->what.type, false, l->bytes);
    if (!to && !keep)
        return;
    if (l->bytes)
        memcpy(to ? to->what.data : keep->data, l->what.data, l->bytes);
    if (to)
        rd_letter_done(e->mail, to);
    else
        keep->whole = true;
    rd_letter_done(e->mail, l);
}

/* Letters with the same tag keep their order. */
static bool overtakes(const rd_engine *e, const rd_letter *l)
{
    for (const rd_letter *o = e->mail->sends.first; o != l; o = o->next)
        if (o->what.peer == e->link->rank && o->what.tag == l->what.tag && !o->done && !o->lost)
            return true;
    return false;
}

void rd_mail_deliver_here(rd_engine *e)
{
    for (rd_letter *l = e->mail->sends.first; l; l = l->next)
        if (l->what.peer == e->link->rank && !l->done && !l->lost && !overtakes(e, l))
            deliver_here(e, l);
}
