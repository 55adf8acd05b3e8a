/* mail_box.h: letters under way, as mail.c and letters.c see them. */
#ifndef RD_MAIL_BOX_H
#define RD_MAIL_BOX_H

#include "engine/book.h"
#include "engine/flight.h"
#include "engine/mail.h"

struct rd_letter {
    rd_entry entry; /* in one of the books, as long as it waits for somebody to ask, or to send */
    rd_letter *next, *before;
    rd_posting what;
    uint64_t bytes; /* that there are, or room for */
    bool done, lost;
    bool lent; /* sent: its bytes are with the peer, and come home with this message: */
    uint32_t message;
    rd_letter *behind; /* lent after it, the same way */
    ronda_message got;
    ronda_status refused; /* receive: what came does not fit */
    char why[200];
};

/* Something to be sent. */
typedef struct rd_parcel {
    struct rd_parcel *next;
    uint64_t mark, bytes, taken;
    const char *data;
    rd_letter *letter; /* that is done with it, or NULL */
    uint64_t words[2]; /* what an offer or a please says */
} rd_parcel;

/* A letter that nobody has asked for. */
typedef struct {
    rd_entry entry; /* in the store, when all of it has come */
    uint32_t peer, tag, number;
    ronda_type type;
    bool offer;
    uint64_t bytes;
    char *data;
} rd_stored;

/* To and from another rank there are two ways: one for what nobody has asked for, which may get stuck when
 * the receiver's store is full, and one for what has been asked for, which never does. */
enum { RD_UNASKED, RD_ASKED, RD_WAYS };
_Static_assert((int)RD_WAYS == (int)RD_MESSAGE_CHANNELS, "each way has a channel");
typedef struct {
    rd_port *port;
    rd_parcel *first, **last;          /* to be sent */
    rd_letter *lent_first, *lent_last; /* not home yet, oldest first */
    bool reading;                      /* the first message is partly read: */
    uint64_t mark, read, total;
    rd_letter *into; /* where to, or */
    rd_stored *keep;
} rd_way;

typedef struct {
    rd_letter *first, *last; /* oldest first */
} rd_letters;

struct rd_mail {
    rd_letters sends, receives; /* that nobody has waited for */
    uint32_t active;            /* of them, those that are neither done nor lost */
    bool lost;                  /* the world has failed: nothing moves any more */
    rd_book asks;   /* receives that nothing has come for, by peer and tag, RONDA_ANY too */
    rd_book asked;  /* receives that have asked for their goods, by peer and its number */
    rd_book offers; /* sent, by peer and number, that nobody has asked for */
    rd_book here;   /* sent to this rank itself, by tag, and not delivered */
    rd_book store;  /* what has come and nobody has asked for, by peer and tag */
    bool roomy;     /* the store may have room for what is sent here */
    uint64_t store_bytes;
    uint32_t store_letters, numbers;
    uint32_t seen; /* what letters() said when all was last read */
    bool unread;   /* something was left unread all the same */
    bool full;     /* because there was no room for it */
    rd_way ways[]; /* [size][RD_WAYS] */
};

_Static_assert(offsetof(rd_letter, entry) == 0 && offsetof(rd_stored, entry) == 0,
               "what a book finds is the beginning of what it stands for");

static inline void rd_letter_done(rd_mail *m, rd_letter *l)
{
    assert(l->done || l->lost || m->active);
    m->active -= !l->done && !l->lost;
    l->done = true;
    rd_book_strike(&l->entry);
}

/* letters.c */
rd_pending rd_letter_pending(const rd_letter *l);

/* mail.c */
rd_mail *rd_mail_of(rd_engine *e);             /* makes it if need be; NULL: no memory */
bool rd_mail_send(rd_engine *e, rd_letter *l); /* on its way, or to be; false: no memory */
/* Gives a new receive what has come before, or notes that it waits; false: no memory */
bool rd_mail_receive(rd_engine *e, rd_letter *l);
/* What this rank has written to itself, as far as a new letter helps */
void rd_mail_deliver_here(rd_engine *e, const rd_letter *l);
void rd_mail_discard(rd_mail *m, rd_stored *s);

#endif
