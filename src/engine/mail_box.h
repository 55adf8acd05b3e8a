/* mail_box.h: letters under way, as mail.c and letters.c see them. */
#ifndef RD_MAIL_BOX_H
#define RD_MAIL_BOX_H

#include "engine/flight.h"
#include "engine/mail.h"

struct rd_letter {
    rd_letter *next, *before;
    rd_posting what;
    uint64_t bytes;  /* that there are, or room for */
    uint32_t number; /* of a long one */
    uint32_t from;   /* receive: who was asked for the goods; RONDA_ANY: nobody yet */
    bool done, lost;
    bool asked; /* sent: the peer has asked for the goods */
    bool lent;  /* sent: its bytes are with the peer, and come home with this message: */
    uint32_t message, way;
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
typedef struct rd_stored {
    struct rd_stored *next;
    uint32_t peer, tag, number;
    ronda_type type;
    bool offer, whole; /* whole: all of it has come */
    uint64_t bytes;
    char *data;
} rd_stored;

/* To and from another rank there are two ways: one for what nobody has asked for, which may get stuck when
 * the receiver's store is full, and one for what has been asked for, which never does. */
enum { RD_UNASKED, RD_ASKED, RD_WAYS };
typedef struct {
    rd_port *port;
    rd_parcel *first, **last; /* to be sent */
    bool reading;             /* the first message is partly read: */
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
    rd_stored *store, **stored; /* oldest first */
    uint64_t store_bytes;
    uint32_t store_letters, numbers;
    uint32_t seen; /* what letters() said when all was last read */
    bool unread;   /* something was left unread all the same */
    rd_way ways[]; /* [size][RD_WAYS] */
};

static inline void rd_letter_done(rd_mail *m, rd_letter *l)
{
    m->active -= !l->done && !l->lost;
    l->done = true;
}

/* letters.c: "send of 10 f32 with tag 3 to rank 1" */
void rd_letter_text(const rd_letter *l, char *text, size_t capacity);

/* mail.c */
rd_mail *rd_mail_of(rd_engine *e);             /* makes it if need be; NULL: no memory */
bool rd_mail_send(rd_engine *e, rd_letter *l); /* on its way, or to be; false: no memory */
void rd_mail_look_in_store(rd_engine *e,
                           rd_letter *l); /* gives a new receive what has come before */
void rd_mail_deliver_here(rd_engine *e);  /* what this rank has written to itself */
void rd_mail_clear_store(rd_mail *m);

#endif
