/* messages.h: messages between two ranks, with tags.
 *
 * Messages have a channel of their own between any two ranks, so collectives never stand in their way.  A
 * short one is sent at once, and is kept by the receiver until somebody asks for it, as long as there is
 * room; a long one is announced, and sent when it has been asked for:
 *
 *     sender                                  receiver
 *     EAGER tag, bytes  ------------------->  into the buffer, or into the unexpected queue
 *     RTS tag, size, number  ------------>  into the buffer's books, or into the unexpected queue
 *            <-----------------------------   CTS number, when a buffer is there
 *     DATA number, bytes  ---------------->  into the buffer
 *
 * The unexpected queue is bounded.  When it is full, messages that nobody asks for stay where they are, and hold up
 * those behind them: their senders wait.  What has been asked for goes another way and is never held up. */
#ifndef RD_MESSAGES_H
#define RD_MESSAGES_H

#include "engine/engine.h"

typedef struct rd_message rd_message;
typedef struct rd_messages rd_messages;

typedef struct {
    bool sends;
    uint32_t peer, tag; /* RONDA_ANY: of a receive, any */
    ronda_type type;
    void *data; /* stays until the message has been waited for */
    uint64_t count;
} rd_posting;

enum { RD_EAGER_BYTES = 16384, RD_UNEXPECTED_BYTES = 1 << 20, RD_UNEXPECTED_MESSAGES = 4096 };

/* Begins to send or to receive.  RONDA_ENOMEM: nothing has happened. */
ronda_status rd_messages_post(rd_engine *e, const rd_posting *what, rd_message **out);

/* As for operations: exactly one wait for each.  info: NULL, or what has come. */
bool rd_messages_test(rd_engine *e, rd_message *l);
ronda_status rd_messages_wait(rd_engine *e, rd_message *l, uint64_t timeout_ns, ronda_message *info,
                              rd_error *err);

/* For the engine. */
uint32_t rd_messages_move(rd_engine *e);      /* whatever can move; how much that was */
bool rd_messages_waiting(const rd_engine *e); /* something may be able to move */
/* Has a peer gone whose message is awaited?  Then err says so. */
ronda_status rd_messages_look_around(rd_engine *e, rd_error *err);
/* Tells the others, from the next await() on, which message this rank waits for, NULL: none; and whether its
 * unexpected queue is full. */
void rd_messages_announce(rd_engine *e, const rd_message *l);
bool rd_messages_busy(const rd_engine *e); /* messages are under way */
void rd_messages_lose(rd_engine *e);       /* the world has failed */
void rd_messages_free(rd_engine *e);

#endif
