/* messages.c: how messages travel.  Per peer a list of what is to be sent, in order, and what is being read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/messages_inside.h"

enum { EAGER = 1, RTS, CTS, DATA };
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

rd_messages *rd_messages_of(rd_engine *e)
{
    const uint32_t ways = e->link->size * RD_WAYS;
    if (e->messages)
        return e->messages;
    rd_messages *m = rd_alloc(sizeof *m + ways * sizeof *m->ways);
    for (uint32_t w = 0; m && w < ways; w++)
        m->ways[w].last = &m->ways[w].first;
    if (m)
        m->unread = true;
    return e->messages = m;
}

static rd_way *way_to(rd_engine *e, uint32_t peer, uint32_t which)
{
    assert(peer < e->link->size && which < RD_WAYS);
    rd_way *w = &e->messages->ways[peer * RD_WAYS + which];
    if (!w->port)
        w->port = rd_port_to(e, peer, e->link->channels + which);
    return w;
}

static uint32_t way_of(uint64_t mark)
{
    return mark >> 56 == EAGER || mark >> 56 == RTS ? RD_UNEXPECTED : RD_EXPECTED;
}

/* --- sending --- */

static rd_parcel *add_parcel(rd_engine *e, uint32_t peer, uint64_t mark, const char *data,
                             uint64_t bytes, rd_message *message)
{
    rd_way *w = way_to(e, peer, way_of(mark));
    rd_parcel *p = rd_alloc(sizeof *p);
    if (!p)
        return NULL;
    *p = (rd_parcel){.mark = mark, .bytes = bytes, .data = data, .message = message};
    *w->last = p;
    w->last = &p->next;
    return p;
}

/* What the parcel itself carries. */
static bool add_words(rd_engine *e, uint32_t peer, uint64_t mark, uint64_t first, uint64_t second)
{
    rd_parcel *p =
        add_parcel(e, peer, mark, NULL, mark >> 56 == RTS ? OFFER_BYTES : PLEASE_BYTES, NULL);
    if (!p)
        return false;
    p->words[0] = first;
    p->words[1] = second;
    p->data = (const char *)p->words;
    return true;
}

/* Its message is done when the message sent last is released. */
static void lend(rd_way *w, const rd_parcel *p)
{
    rd_message *l = p->message;
    assert(l && !l->lent && !l->done && !l->behind);
    l->lent = true;
    l->message = rd_port_sent(w->port) - 1;
    *(w->lent_first ? &w->lent_last->behind : &w->lent_first) = l;
    w->lent_last = l;
}

/* As much of a parcel as there is room for; true: all of it.  DATA is lent where it lies, if it can be.
 * A short message is done before it is read, so it is copied, in small pieces: the arena is for what will be
 * read soon. */
static bool push_one(rd_way *w, rd_parcel *p)
{
    const bool is_eager = p->mark >> 56 == EAGER;
    if (p->mark >> 56 == DATA && !p->taken && rd_port_lends(w->port, p->data, p->bytes)) {
        if (!rd_port_can_send(w->port))
            return false;
        rd_port_lend(w->port, &(rd_loan){.data = p->data, .bytes = p->bytes, .mark = p->mark});
        lend(w, p);
        return true;
    }
    do {
        uint64_t bytes = p->bytes - p->taken;
        if (is_eager && bytes > RD_SHORT_PIECE)
            bytes = RD_SHORT_PIECE;
        void *slot = rd_port_reserve(w->port, p->bytes <= RD_INLINE ? bytes : 0, &bytes);
        if (!slot)
            return false;
        rd_put(slot, p->data + p->taken, bytes);
        rd_port_commit(w->port, bytes, p->bytes, p->mark);
        p->taken += bytes;
        assert(p->taken <= p->bytes);
    } while (p->taken < p->bytes);
    if (rd_data_of(w->port)->pushes && p->message)
        lend(w, p);
    return true;
}

static uint32_t push(rd_engine *e, rd_way *w)
{
    uint32_t ran = 0;
    while (w->first && push_one(w, w->first)) {
        rd_parcel *p = w->first;
        if (p->message && !p->message->lent)
            rd_message_done(e->messages, p->message);
        w->first = p->next;
        if (!w->first)
            w->last = &w->first;
        rd_free(p);
        ran++;
    }
    return ran;
}

bool rd_messages_send(rd_engine *e, rd_message *l)
{
    const rd_posting *w = &l->what;
    rd_messages *m = e->messages;
    if (w->peer == e->link->rank) {
        rd_book_enter(&m->here, &l->entry, w->peer, w->tag);
        return true;
    }
    if (l->bytes <= RD_EAGER_BYTES)
        return add_parcel(e, w->peer, mark_of(EAGER, w->type, w->tag), w->data, l->bytes, l);
    if (!add_words(e, w->peer, mark_of(RTS, w->type, w->tag), l->bytes, ++m->numbers))
        return false;
    rd_book_enter(&m->announced, &l->entry, w->peer, m->numbers);
    return true;
}

/* --- asking --- */

/* Whether what is there can be taken; if not, the receive is over, and what is there stays. */
static bool fits(rd_engine *e, rd_message *l, uint32_t peer, uint32_t tag, ronda_type type,
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
    rd_message_done(e->messages, l);
    return false;
}

static rd_entry *older(rd_entry *a, rd_entry *b)
{
    return !a || (b && b->order < a->order) ? b : a;
}

/* The receive that was posted first, of those that name peer and tag or take any. */
static rd_message *first_of(const rd_book *posted, uint32_t peer, uint32_t tag)
{
    rd_entry *best = NULL;
    for (int i = 0; i < 4 && posted->first; i++)
        best = older(best, rd_book_find(posted, i & 1 ? RONDA_ANY : peer, i & 2 ? RONDA_ANY : tag));
    return (rd_message *)best;
}

static rd_message *posted_for(rd_engine *e, uint32_t peer, uint32_t tag, ronda_type type,
                              uint64_t bytes)
{
    rd_message *l;
    while ((l = first_of(&e->messages->posted, peer, tag)) && !fits(e, l, peer, tag, type, bytes))
        ;
    return l;
}

static bool send_cts(rd_engine *e, rd_message *l, uint32_t peer, uint32_t number)
{
    if (!add_words(e, peer, mark_of(CTS, 0, 0), number, 0))
        return false;
    rd_book_strike(&l->entry);
    rd_book_enter(&e->messages->granted, &l->entry, peer, number);
    return true;
}

/* --- the unexpected queue --- */

/* What a rank has sent that has closed is a queueful at most, and nobody waits for room for it: it is taken in
 * all the same, or what is asked for might be behind it for ever. */
static bool has_room(rd_engine *e, uint32_t peer, uint64_t bytes)
{
    const rd_messages *m = e->messages;
    const bool full = m->unexpected_count >= RD_UNEXPECTED_MESSAGES ||
                      m->unexpected_bytes + bytes > RD_UNEXPECTED_BYTES;
    return !full || (peer != e->link->rank && m->unexpected_count < 2 * RD_UNEXPECTED_MESSAGES &&
                     m->unexpected_bytes + bytes <= 2 * RD_UNEXPECTED_BYTES &&
                     rd_control_presence(e->link, peer).closed);
}

static rd_unexpected *add_unexpected(rd_engine *e, uint32_t peer, uint32_t tag, ronda_type type,
                                     bool rts, uint64_t bytes)
{
    rd_messages *m = e->messages;
    const uint64_t keeps = rts ? 0 : bytes;
    if (!has_room(e, peer, keeps))
        return NULL;
    rd_unexpected *s = rd_alloc(sizeof *s);
    char *data = keeps ? rd_alloc(keeps) : NULL;
    if (!s || (keeps && !data)) {
        rd_free(s);
        rd_free(data);
        m->roomy = true; /* next time, perhaps */
        return NULL;
    }
    *s = (rd_unexpected){.peer = peer, .tag = tag, .type = type, .rts = rts, .bytes = bytes};
    s->data = data;
    m->unexpected_count++;
    m->unexpected_bytes += keeps;
    return s;
}

static void keep(rd_messages *m, rd_unexpected *s)
{
    rd_book_enter(&m->unexpected, &s->entry, s->peer, s->tag);
}

void rd_messages_discard(rd_messages *m, rd_unexpected *s)
{
    rd_book_strike(&s->entry);
    assert(m->unexpected_count && m->unexpected_bytes >= (s->rts ? 0 : s->bytes));
    m->unexpected_count--;
    m->unexpected_bytes -= s->rts ? 0 : s->bytes;
    m->roomy = true;
    rd_free(s->data);
    rd_free(s);
}

/* To a receive that it fits.  What a rank has offered to itself lies there to be copied. */
static bool hand_over(rd_engine *e, rd_message *l, rd_unexpected *s)
{
    rd_message *own = s->rts && s->peer == e->link->rank
                          ? (rd_message *)rd_book_find(&e->messages->announced, s->peer, s->number)
                          : NULL;
    if (s->rts && !own && !send_cts(e, l, s->peer, s->number))
        return false;
    if (!s->rts || own) {
        if (s->bytes)
            memcpy(l->what.data, own ? own->what.data : s->data, s->bytes);
        rd_message_done(e->messages, l);
    }
    if (own)
        rd_message_done(e->messages, own);
    rd_messages_discard(e->messages, s);
    return true;
}

/* The oldest that a receive asks for.  Ranks are fewer than messages, as a rule. */
static rd_unexpected *find_unexpected(const rd_book *unexpected, const rd_posting *what,
                                      uint32_t ranks)
{
    const bool any = what->peer == RONDA_ANY;
    rd_entry *best = NULL;
    if (what->tag != RONDA_ANY && (!any || ranks < unexpected->count)) {
        for (uint32_t r = any ? 0 : what->peer; r < (any ? ranks : what->peer + 1); r++)
            best = older(best, rd_book_find(unexpected, r, what->tag));
        return (rd_unexpected *)best;
    }
    for (best = unexpected->first; best; best = best->next)
        if ((any || what->peer == best->peer) &&
            (what->tag == RONDA_ANY || what->tag == best->word))
            break;
    return (rd_unexpected *)best;
}

bool rd_messages_receive(rd_engine *e, rd_message *l)
{
    rd_unexpected *s = find_unexpected(&e->messages->unexpected, &l->what, e->link->size);
    if (!s)
        rd_book_enter(&e->messages->posted, &l->entry, l->what.peer, l->what.tag);
    return !s || !fits(e, l, s->peer, s->tag, s->type, s->bytes) || hand_over(e, l, s);
}

/* --- reading --- */

/* A message that says something about a message: true if that made sense and was dealt with, or will be
 * later (*later). */
static bool take_control(rd_engine *e, uint32_t peer, const rd_view *v, bool *later)
{
    uint64_t words[2] = {0};
    const uint64_t kind = v->mark >> 56;
    const uint32_t tag = (uint32_t)v->mark;
    const ronda_type type = (ronda_type)(v->mark >> 32 & 0xff);
    if (v->total != (kind == RTS ? OFFER_BYTES : PLEASE_BYTES) || v->bytes != v->total)
        return false;
    memcpy(words, v->data, v->bytes);
    const uint32_t number = (uint32_t)(kind == RTS ? words[1] : words[0]);
    if (kind == CTS) {
        rd_message *l = (rd_message *)rd_book_find(&e->messages->announced, peer, number);
        if (!l)
            return false;
        *later = !add_parcel(e, peer, mark_of(DATA, 0, number), l->what.data, l->bytes, l);
        if (!*later)
            rd_book_strike(&l->entry);
        return true;
    }
    if (!ronda_type_size(type))
        return false;
    rd_message *l = posted_for(e, peer, tag, type, words[0]);
    if (l) {
        *later = !send_cts(e, l, peer, number);
        return true;
    }
    rd_unexpected *s = add_unexpected(e, peer, tag, type, true, words[0]);
    *later = !s;
    if (s) {
        s->number = number;
        keep(e->messages, s);
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
    if (v->mark >> 56 == DATA) {
        b->into = (rd_message *)rd_book_find(&e->messages->granted, peer, tag);
        return b->into && v->total == b->into->got.count * ronda_type_size(b->into->what.type);
    }
    if (v->mark >> 56 != EAGER || !ronda_type_size(type) || v->total > RD_EAGER_BYTES)
        return false;
    b->into = posted_for(e, peer, tag, type, v->total);
    if (b->into)
        rd_book_strike(&b->into->entry); /* it is taken */
    else
        b->keep = add_unexpected(e, peer, tag, type, false, v->total);
    *later = !b->into && !b->keep;
    return true;
}

static void finish_reading(rd_engine *e, rd_way *w)
{
    rd_unexpected *s = w->keep;
    assert(w->reading && !w->into != !w->keep); /* it goes to one of the two */
    w->reading = false;
    if (w->into)
        rd_message_done(e->messages, w->into);
    w->into = NULL;
    w->keep = NULL;
    if (!s)
        return;
    rd_message *l = posted_for(e, s->peer, s->tag, s->type, s->bytes); /* since it began to come */
    if (l && hand_over(e, l, s))
        rd_messages_deliver_here(e, l); /* there is room again */
    else
        keep(e->messages, s);
}

/* Begins with a message, or goes on with one that says the same as before. */
static bool understand(rd_engine *e, rd_way *w, uint32_t peer, const rd_view *v, bool *later)
{
    const uint64_t kind = v->mark >> 56;
    if (v->total == UINT64_MAX || !v->data)
        return false;
    if (w->reading)
        return v->mark == w->mark && v->total == w->total && v->bytes <= w->total - w->read;
    if (w != &e->messages->ways[peer * RD_WAYS + way_of(v->mark)])
        return false;
    if (kind == RTS || kind == CTS)
        return take_control(e, peer, v, later);
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
            e->invalid = true;
            e->wronged = (rd_record){.sequence = e->entered};
            return ran;
        }
        if (later) {
            e->messages->unread = e->messages->full = true;
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
        rd_message *l = w->lent_first;
        w->lent_first = l->behind;
        rd_message_done(e->messages, l);
    }
    return ran;
}

bool rd_messages_waiting(const rd_engine *e)
{
    const uint32_t messages = rd_control_message_lines(e->link);
    const rd_messages *m = e->messages;
    return m ? !m->lost && (messages != m->seen || m->unread || m->active) : messages != 0;
}

uint32_t rd_messages_move(rd_engine *e)
{
    uint32_t ran = 0;
    if (!rd_messages_waiting(e) || !rd_messages_of(e))
        return 0;
    rd_messages *m = e->messages;
    const uint32_t messages = rd_control_message_lines(e->link), n = e->link->size;
    if (messages != m->seen || m->unread) {
        m->seen = messages;
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

bool rd_messages_busy(const rd_engine *e)
{
    return e->messages && e->messages->active;
}

/* --- a rank that writes to itself --- */

/* A long message has its turn in the unexpected queue, and stays where it is. */
static void offer_here(rd_messages *m, rd_message *l, rd_unexpected *kept)
{
    kept->number = ++m->numbers;
    rd_book_strike(&l->entry);
    rd_book_enter(&m->announced, &l->entry, l->what.peer, kept->number);
    keep(m, kept);
}

/* What is asked for is copied; else it is kept, or offered.  false: it has no turn yet. */
static bool deliver(rd_engine *e, rd_message *l)
{
    const rd_posting *what = &l->what;
    const bool offer = l->bytes > RD_EAGER_BYTES;
    rd_message *to = posted_for(e, what->peer, what->tag, what->type, l->bytes);
    rd_unexpected *kept =
        to ? NULL : add_unexpected(e, what->peer, what->tag, what->type, offer, l->bytes);
    if (!to && !kept)
        return false;
    if (kept && offer) {
        offer_here(e->messages, l, kept);
        return true;
    }
    if (l->bytes)
        memcpy(to ? to->what.data : kept->data, what->data, l->bytes);
    if (to)
        rd_message_done(e->messages, to);
    else
        keep(e->messages, kept);
    rd_message_done(e->messages, l);
    return true;
}

/* Messages with the same tag keep their order. */
static void deliver_tag(rd_engine *e, uint32_t tag)
{
    rd_entry *first;
    while ((first = rd_book_find(&e->messages->here, e->link->rank, tag)) &&
           deliver(e, (rd_message *)first))
        ;
}

/* Either it is one of them, or a receive that one of them may be for; or the unexpected queue has room again. */
void rd_messages_deliver_here(rd_engine *e, const rd_message *l)
{
    rd_messages *m = e->messages;
    if (!m->here.first)
        return;
    if (l->entry.book == &m->here || l->entry.book == &m->posted)
        deliver_tag(e, l->what.tag == RONDA_ANY ? m->here.first->word : l->what.tag);
    if (!m->roomy)
        return;
    m->roomy = false;
    for (rd_entry *at = m->here.first, *next; at && m->unexpected_count < RD_UNEXPECTED_MESSAGES;
         at = next) {
        next = at->next;
        if (rd_book_find(&m->here, at->peer, at->word) == at)
            deliver(e, (rd_message *)at);
    }
}
