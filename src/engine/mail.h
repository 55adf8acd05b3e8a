/* mail.h: messages between two ranks, with tags.
 *
 * Letters have a channel of their own between any two ranks, so collectives never stand in their way.  A
 * short one is sent at once, and is kept by the receiver until somebody asks for it, as long as there is
 * room; a long one is announced, and sent when it has been asked for:
 *
 *     sender                                  receiver
 *     SHORT tag, bytes  ------------------->  into the buffer, or into the store
 *     OFFER tag, size, number  ------------>  into the buffer's books, or into the store
 *            <-----------------------------   PLEASE number, when a buffer is there
 *     GOODS number, bytes  ---------------->  into the buffer
 *
 * The store is bounded.  When it is full, letters that nobody asks for stay where they are, and hold up
 * those behind them: their senders wait.  What has been asked for goes another way and is never held up. */
#ifndef RD_MAIL_H
#define RD_MAIL_H

#include "engine/engine.h"

typedef struct rd_letter rd_letter;
typedef struct rd_mail rd_mail;

typedef struct {
    bool sends;
    uint32_t peer, tag; /* RONDA_ANY: of a receive, any */
    ronda_type type;
    void *data; /* stays until the letter has been waited for */
    uint64_t count;
} rd_posting;

enum { RD_SHORT_LETTER = 16384, RD_STORE_BYTES = 1 << 20, RD_STORE_LETTERS = 4096 };

/* Begins to send or to receive.  RONDA_ENOMEM: nothing has happened. */
ronda_status rd_mail_post(rd_engine *e, const rd_posting *what, rd_letter **out);

/* As for flights: exactly one wait for each.  info: NULL, or what has come. */
bool rd_mail_test(rd_engine *e, rd_letter *l);
ronda_status rd_mail_wait(rd_engine *e, rd_letter *l, uint64_t timeout_ns, ronda_message *info,
                          rd_error *err);

/* For the engine. */
uint32_t rd_mail_move(rd_engine *e);      /* whatever can move; how much that was */
bool rd_mail_waiting(const rd_engine *e); /* something may be able to move */
/* Has a peer gone whose letter is awaited?  Then err says so. */
ronda_status rd_mail_look_around(rd_engine *e, rd_error *err);
/* Tells the others, from the next await() on, which message this rank waits for, NULL: none; and whether its
 * unexpected queue is full. */
void rd_mail_announce(rd_engine *e, const rd_letter *l);
bool rd_mail_busy(const rd_engine *e); /* letters are under way */
void rd_mail_lose(rd_engine *e);       /* the world has failed */
void rd_mail_free(rd_engine *e);

#endif
