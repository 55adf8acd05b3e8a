/* mail.c: how letters travel.  Per peer a list of what is to be sent, in order, and what is being read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/mail_box.h"

enum { SHORT = 1, OFFER, PLEASE, GOODS };
/* What an offer and a please say is in their lines, and is read at once. */
enum { PLEASE_BYTES = 8, OFFER_BYTES = 16 };
_Static_assert(OFFER_BYTES == sizeof(((rd_parcel *)0)->words) && (int)OFFER_BYTES <= (int)RD_INLINE,
               "words fit into a line");
_Static_assert(RONDA_U64 <= UINT8_MAX, "a type is a byte of a mark");

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
    if (m)
        m->unread = true;
    return e->mail = m;
}

static rd_way *way_to(rd_engine *e, uint32_t peer, uint32_t which)
{
    assert(peer < e->link->size && which < RD_WAYS);
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
    rd_parcel *p =
        add_parcel(e, peer, mark, NULL, mark >> 56 == OFFER ? OFFER_BYTES : PLEASE_BYTES, NULL);
    if (!p)
        return false;
    p->words[0] = first;
    p->words[1] = second;
    p->data = (const char *)p->words;
    return true;
}

/* Its letter is done when the message sent last is home. */
static void lend(rd_way *w, const rd_parcel *p)
{
    rd_letter *l = p->letter;
    assert(l && !l->lent && !l->done && !l->behind);
    l->lent = true;
    l->message = rd_port_sent(w->port) - 1;
    *(w->lent_first ? &w->lent_last->behind : &w->lent_first) = l;
    w->lent_last = l;
}

/* As much of a parcel as there is room for; true: all of it.  Goods are lent where they lie, if they can be.
 * A short letter is done before it is read, so it is copied, in small pieces: the arena is for what will be
 * read soon. */
static bool push_one(rd_way *w, rd_parcel *p)
{
    const bool is_short = p->mark >> 56 == SHORT;
    if (p->mark >> 56 == GOODS && !p->taken && rd_port_lends(w->port, p->data, p->bytes)) {
        if (!rd_port_can_send(w->port))
            return false;
        rd_port_lend(w->port, &(rd_loan){.data = p->data, .bytes = p->bytes, .mark = p->mark});
        lend(w, p);
        return true;
    }
    do {
        uint64_t bytes = p->bytes - p->taken;
        if (is_short && bytes > RD_SHORT_PIECE)
            bytes = RD_SHORT_PIECE;
        void *slot = rd_port_reserve(w->port, p->bytes <= RD_INLINE ? bytes : 0, &bytes);
        if (!slot)
            return false;
        rd_put(slot, p->data + p->taken, bytes);
        rd_port_commit(w->port, bytes, p->bytes, p->mark);
        p->taken += bytes;
        assert(p->taken <= p->bytes);
    } while (p->taken < p->bytes);
    if (rd_data_of(w->port)->pushes && p->letter)
        lend(w, p);
    return true;
}

static uint32_t push(rd_engine *e, rd_way *w)
{
    uint32_t ran = 0;
    while (w->first && push_one(w, w->first)) {
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
    rd_mail *m = e->mail;
    if (w->peer == e->link->rank) {
        rd_book_enter(&m->here, &l->entry, w->peer, w->tag);
        return true;
    }
    if (l->bytes <= RD_SHORT_LETTER)
        return add_parcel(e, w->peer, mark_of(SHORT, w->type, w->tag), w->data, l->bytes, l);
    if (!add_words(e, w->peer, mark_of(OFFER, w->type, w->tag), l->bytes, ++m->numbers))
        return false;
    rd_book_enter(&m->offers, &l->entry, w->peer, m->numbers);
    return true;
}

/* --- asking --- */

/* Whether what is there can be taken; if not, the receive is over, and what is there stays. */
static bool fits(rd_engine *e, rd_letter *l, uint32_t peer, uint32_t tag, ronda_type type,
                 uint64_t bytes)
{
    const uint64_t width = ronda_type_size(l->what.type);
    if (type == l->what.type && bytes <= l->bytes) {
        l->got = (ronda_message){peer, tag, bytes / width};
        return true;
    }
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

static rd_entry *older(rd_entry *a, rd_entry *b)
{
    return !a || (b && b->order < a->order) ? b : a;
}

/* The receive that was posted first, of those that name peer and tag or take any. */
static rd_letter *first_of(const rd_book *asks, uint32_t peer, uint32_t tag)
{
    rd_entry *best = NULL;
    for (int i = 0; i < 4 && asks->first; i++)
        best = older(best, rd_book_find(asks, i & 1 ? RONDA_ANY : peer, i & 2 ? RONDA_ANY : tag));
    return (rd_letter *)best;
}

static rd_letter *who_asks(rd_engine *e, uint32_t peer, uint32_t tag, ronda_type type,
                           uint64_t bytes)
{
    rd_letter *l;
    while ((l = first_of(&e->mail->asks, peer, tag)) && !fits(e, l, peer, tag, type, bytes))
        ;
    return l;
}

static bool ask(rd_engine *e, rd_letter *l, uint32_t peer, uint32_t number)
{
    if (!add_words(e, peer, mark_of(PLEASE, 0, 0), number, 0))
        return false;
    rd_book_strike(&l->entry);
    rd_book_enter(&e->mail->asked, &l->entry, peer, number);
    return true;
}

/* --- the store --- */

/* What a rank has sent that has closed is a queueful at most, and nobody waits for room for it: it is taken in
 * all the same, or what is asked for might be behind it for ever. */
static bool has_room(rd_engine *e, uint32_t peer, uint64_t bytes)
{
    const rd_mail *m = e->mail;
    const bool full =
        m->store_letters >= RD_STORE_LETTERS || m->store_bytes + bytes > RD_STORE_BYTES;
    return !full || (peer != e->link->rank && m->store_letters < 2 * RD_STORE_LETTERS &&
                     m->store_bytes + bytes <= 2 * RD_STORE_BYTES &&
                     rd_control_presence(e->link, peer).closed);
}

static rd_stored *store_one(rd_engine *e, uint32_t peer, uint32_t tag, ronda_type type, bool offer,
                            uint64_t bytes)
{
    rd_mail *m = e->mail;
    const uint64_t keeps = offer ? 0 : bytes;
    if (!has_room(e, peer, keeps))
        return NULL;
    rd_stored *s = rd_alloc(sizeof *s);
    char *data = keeps ? rd_alloc(keeps) : NULL;
    if (!s || (keeps && !data)) {
        rd_free(s);
        rd_free(data);
        m->roomy = true; /* next time, perhaps */
        return NULL;
    }
    *s = (rd_stored){.peer = peer, .tag = tag, .type = type, .offer = offer, .bytes = bytes};
    s->data = data;
    m->store_letters++;
    m->store_bytes += keeps;
    return s;
}

static void keep(rd_mail *m, rd_stored *s)
{
    rd_book_enter(&m->store, &s->entry, s->peer, s->tag);
}

void rd_mail_discard(rd_mail *m, rd_stored *s)
{
    rd_book_strike(&s->entry);
    assert(m->store_letters && m->store_bytes >= (s->offer ? 0 : s->bytes));
    m->store_letters--;
    m->store_bytes -= s->offer ? 0 : s->bytes;
    m->roomy = true;
    rd_free(s->data);
    rd_free(s);
}

/* To a receive that it fits.  What a rank has offered to itself lies there to be copied. */
static bool hand_over(rd_engine *e, rd_letter *l, rd_stored *s)
{
    rd_letter *own = s->offer && s->peer == e->link->rank
                         ? (rd_letter *)rd_book_find(&e->mail->offers, s->peer, s->number)
                         : NULL;
    if (s->offer && !own && !ask(e, l, s->peer, s->number))
        return false;
    if (!s->offer || own) {
        if (s->bytes)
            memcpy(l->what.data, own ? own->what.data : s->data, s->bytes);
        rd_letter_done(e->mail, l);
    }
    if (own)
        rd_letter_done(e->mail, own);
    rd_mail_discard(e->mail, s);
    return true;
}

/* The oldest that a receive asks for.  Ranks are fewer than letters, as a rule. */
static rd_stored *find_stored(const rd_book *store, const rd_posting *what, uint32_t ranks)
{
    const bool any = what->peer == RONDA_ANY;
    rd_entry *best = NULL;
    if (what->tag != RONDA_ANY && (!any || ranks < store->count)) {
        for (uint32_t r = any ? 0 : what->peer; r < (any ? ranks : what->peer + 1); r++)
            best = older(best, rd_book_find(store, r, what->tag));
        return (rd_stored *)best;
    }
    for (best = store->first; best; best = best->next)
        if ((any || what->peer == best->peer) &&
            (what->tag == RONDA_ANY || what->tag == best->word))
            break;
    return (rd_stored *)best;
}

bool rd_mail_receive(rd_engine *e, rd_letter *l)
{
    rd_stored *s = find_stored(&e->mail->store, &l->what, e->link->size);
    if (!s)
        rd_book_enter(&e->mail->asks, &l->entry, l->what.peer, l->what.tag);
    return !s || !fits(e, l, s->peer, s->tag, s->type, s->bytes) || hand_over(e, l, s);
}

/* --- reading --- */

/* A message that says something about a letter: true if that made sense and was dealt with, or will be
 * later (*later). */
static bool heed(rd_engine *e, uint32_t peer, const rd_view *v, bool *later)
{
    uint64_t words[2] = {0};
    const uint64_t kind = v->mark >> 56;
    const uint32_t tag = (uint32_t)v->mark;
    const ronda_type type = (ronda_type)(v->mark >> 32 & 0xff);
    if (v->total != (kind == OFFER ? OFFER_BYTES : PLEASE_BYTES) || v->bytes != v->total)
        return false;
    memcpy(words, v->data, v->bytes);
    const uint32_t number = (uint32_t)(kind == OFFER ? words[1] : words[0]);
    if (kind == PLEASE) {
        rd_letter *l = (rd_letter *)rd_book_find(&e->mail->offers, peer, number);
        if (!l)
            return false;
        *later = !add_parcel(e, peer, mark_of(GOODS, 0, number), l->what.data, l->bytes, l);
        if (!*later)
            rd_book_strike(&l->entry);
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
        keep(e->mail, s);
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
        b->into = (rd_letter *)rd_book_find(&e->mail->asked, peer, tag);
        return b->into && v->total == b->into->got.count * ronda_type_size(b->into->what.type);
    }
    if (v->mark >> 56 != SHORT || !ronda_type_size(type) || v->total > RD_SHORT_LETTER)
        return false;
    b->into = who_asks(e, peer, tag, type, v->total);
    if (b->into)
        rd_book_strike(&b->into->entry); /* it is taken */
    else
        b->keep = store_one(e, peer, tag, type, false, v->total);
    *later = !b->into && !b->keep;
    return true;
}

static void finish_reading(rd_engine *e, rd_way *w)
{
    rd_stored *s = w->keep;
    assert(w->reading && !w->into != !w->keep); /* it goes to one of the two */
    w->reading = false;
    if (w->into)
        rd_letter_done(e->mail, w->into);
    w->into = NULL;
    w->keep = NULL;
    if (!s)
        return;
    rd_letter *l = who_asks(e, s->peer, s->tag, s->type, s->bytes); /* since it began to come */
    if (l && hand_over(e, l, s))
        rd_mail_deliver_here(e, l); /* there is room again */
    else
        keep(e->mail, s);
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

/* Sockets show a message when its head is there.  What is read in pieces goes on when some of it has come, what
 * is read at once begins when all of it has. */
static bool is_to_come(const rd_way *w, const rd_view *v)
{
    if (w->reading)
        return !v->bytes && w->read < w->total;
    return v->total <= OFFER_BYTES && v->bytes < v->total;
}

/* What has come from a peer; what makes no sense is for the engine to say. */
static uint32_t pull(rd_engine *e, uint32_t peer, uint32_t which)
{
    rd_way *w = way_to(e, peer, which);
    uint32_t ran = 0;
    rd_view v;
    for (; rd_port_peek(w->port, &v) && !is_to_come(w, &v); ran++) {
        bool later = false;
        if (!understand(e, w, peer, &v, &later)) {
            e->wrong = peer + 1;
            e->mad = true;
            e->wronged = (rd_record){.sequence = e->entered};
            return ran;
        }
        if (later) {
            e->mail->unread = e->mail->full = true;
            return ran;
        }
        if (w->reading && v.bytes)
            rd_move((w->into ? (char *)w->into->what.data : w->keep->data) + w->read, v.data,
                    v.bytes);
        w->read += v.bytes;
        assert(!w->reading || w->read <= w->total);
        rd_port_release(w->port, v.bytes);
        if (w->reading && w->read == w->total)
            finish_reading(e, w);
    }
    return ran;
}

/* --- moving --- */

static uint32_t come_home(rd_engine *e, rd_way *w)
{
    uint32_t ran = 0;
    for (; w->lent_first && rd_port_completed(w->port, w->lent_first->message); ran++) {
        rd_letter *l = w->lent_first;
        w->lent_first = l->behind;
        rd_letter_done(e->mail, l);
    }
    return ran;
}

bool rd_mail_waiting(const rd_engine *e)
{
    const uint32_t letters = rd_control_letters(e->link);
    const rd_mail *m = e->mail;
    return m ? !m->lost && (letters != m->seen || m->unread || m->active) : letters != 0;
}

uint32_t rd_mail_move(rd_engine *e)
{
    uint32_t ran = 0;
    if (!rd_mail_waiting(e) || !rd_mail_of(e))
        return 0;
    rd_mail *m = e->mail;
    const uint32_t letters = rd_control_letters(e->link), n = e->link->size;
    if (letters != m->seen || m->unread) {
        m->seen = letters;
        m->unread = m->full = false;
        for (uint32_t w = 0; w < n * RD_WAYS && !e->wrong; w++)
            if (w / RD_WAYS != e->link->rank)
                ran += pull(e, w / RD_WAYS, w % RD_WAYS);
    }
    for (uint32_t w = 0; w < n * RD_WAYS; w++) {
        if (m->ways[w].first)
            ran += push(e, &m->ways[w]);
        if (m->ways[w].lent_first)
            ran += come_home(e, &m->ways[w]);
    }
    return ran;
}

bool rd_mail_busy(const rd_engine *e)
{
    return e->mail && e->mail->active;
}

/* --- a rank that writes to itself --- */

/* A long letter has its turn in the store, and stays where it is. */
static void offer_here(rd_mail *m, rd_letter *l, rd_stored *kept)
{
    kept->number = ++m->numbers;
    rd_book_strike(&l->entry);
    rd_book_enter(&m->offers, &l->entry, l->what.peer, kept->number);
    keep(m, kept);
}

/* What is asked for is copied; else it is kept, or offered.  false: it has no turn yet. */
static bool deliver(rd_engine *e, rd_letter *l)
{
    const rd_posting *what = &l->what;
    const bool offer = l->bytes > RD_SHORT_LETTER;
    rd_letter *to = who_asks(e, what->peer, what->tag, what->type, l->bytes);
    rd_stored *kept = to ? NULL : store_one(e, what->peer, what->tag, what->type, offer, l->bytes);
    if (!to && !kept)
        return false;
    if (kept && offer) {
        offer_here(e->mail, l, kept);
        return true;
    }
    if (l->bytes)
        memcpy(to ? to->what.data : kept->data, what->data, l->bytes);
    if (to)
        rd_letter_done(e->mail, to);
    else
        keep(e->mail, kept);
    rd_letter_done(e->mail, l);
    return true;
}

/* Letters with the same tag keep their order. */
static void deliver_tag(rd_engine *e, uint32_t tag)
{
    rd_entry *first;
    while ((first = rd_book_find(&e->mail->here, e->link->rank, tag)) &&
           deliver(e, (rd_letter *)first))
        ;
}

/* Either it is one of them, or a receive that one of them may be for; or the store has room again. */
void rd_mail_deliver_here(rd_engine *e, const rd_letter *l)
{
    rd_mail *m = e->mail;
    if (!m->here.first)
        return;
    if (l->entry.book == &m->here || l->entry.book == &m->asks)
        deliver_tag(e, l->what.tag == RONDA_ANY ? m->here.first->word : l->what.tag);
    if (!m->roomy)
        return;
    m->roomy = false;
    for (rd_entry *at = m->here.first, *next; at && m->store_letters < RD_STORE_LETTERS;
         at = next) {
        next = at->next;
        if (rd_book_find(&m->here, at->peer, at->word) == at)
            deliver(e, (rd_letter *)at);
    }
}
