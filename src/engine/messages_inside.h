/* messages_inside.h: messages under way, as messages.c and posted.c see them. */
#ifndef RD_MESSAGES_INSIDE_H
#define RD_MESSAGES_INSIDE_H

#include "engine/book.h"
#include "engine/messages.h"
#include "engine/operation.h"

struct rd_message {
    rd_entry entry; /* in one of the books, as long as it waits for somebody to ask, or to send */
    rd_message *next, *before;
    rd_posting what;
    uint64_t bytes; /* that there are, or room for */
    bool done, lost;
    bool lent; /* sent: its bytes are with the peer, and are released with this message: */
    uint32_t message;
    rd_message *behind; /* lent after it, the same way */
    ronda_message got;
    ronda_status refused; /* receive: what came does not fit */
    char why[200];
};

/* Something to be sent. */
typedef struct rd_parcel {
    struct rd_parcel *next;
    uint64_t mark, bytes, taken;
    const char *data;
    rd_message *message; /* that is done with it, or NULL */
    uint64_t words[2];   /* what an RTS or a CTS says */
} rd_parcel;

/* A message that nobody has asked for. */
typedef struct {
    rd_entry entry; /* in the unexpected queue, when all of it has come */
    uint32_t peer, tag, number;
    ronda_type type;
    bool rts;
    uint64_t bytes;
    char *data;
} rd_unexpected;

/* To and from another rank there are two ways: one for what nobody has asked for, which may get stuck when
 * the receiver's unexpected queue is full, and one for what has been asked for, which never does. */
enum { RD_UNEXPECTED, RD_EXPECTED, RD_WAYS };
typedef struct {
    rd_port *port;
    rd_parcel *first, **last;           /* to be sent */
    rd_message *lent_first, *lent_last; /* not released yet, oldest first */
    bool reading;                       /* the first message is partly read: */
    uint64_t mark, read, total;
    rd_message *into; /* where to, or */
    rd_unexpected *keep;
} rd_way;

typedef struct {
    rd_message *first, *last; /* oldest first */
} rd_message_list;

struct rd_messages {
    rd_message_list sends, receives; /* that nobody has waited for */
    uint32_t active;                 /* of them, those that are neither done nor lost */
    bool lost;                       /* the world has failed: nothing moves any more */
    rd_book posted;     /* receives that nothing has come for, by peer and tag, RONDA_ANY too */
    rd_book granted;    /* receives that have been granted by a CTS, by peer and its number */
    rd_book announced;  /* sent, by peer and number, that nobody has asked for */
    rd_book here;       /* sent to this rank itself, by tag, and not delivered */
    rd_book unexpected; /* what has come and nobody has asked for, by peer and tag */
    bool roomy;         /* the unexpected queue may have room for what is sent here */
    uint64_t unexpected_bytes;
    uint32_t unexpected_count, numbers;
    uint32_t seen; /* what messages() said when all was last read */
    bool unread;   /* something was left unread all the same */
    bool full;     /* because there was no room for it */
    rd_way ways[]; /* [size][RD_WAYS] */
};

static inline void rd_message_done(rd_messages *m, rd_message *l)
{
    m->active -= !l->done && !l->lost;
    l->done = true;
    rd_book_strike(&l->entry);
}

/* posted.c */
rd_pending rd_message_pending(const rd_message *l);

/* messages.c */
rd_messages *rd_messages_of(rd_engine *e);          /* makes it if need be; NULL: no memory */
bool rd_messages_send(rd_engine *e, rd_message *l); /* on its way, or to be; false: no memory */
/* Gives a new receive what has come before, or notes that it waits; false: no memory */
bool rd_messages_receive(rd_engine *e, rd_message *l);
/* What this rank has written to itself, as far as a new message helps */
void rd_messages_deliver_here(rd_engine *e, const rd_message *l);
void rd_messages_discard(rd_messages *m, rd_unexpected *s);

#endif
