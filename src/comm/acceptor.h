/* acceptor.h: how a rank accepts connections of others, over TCP or a unix socket.
 *
 * Everybody who calls is heard at the same time, those first who have proved the key.  Connections that have not
 * have RD_UNPROVEN slots, and never keep others waiting: the oldest of which no hello with a right mac has come is
 * closed for the next that comes.  A rank says its hello as soon as it is connected, and the hello is read when its
 * connection is accepted, so a rank is closed only by a rare chance, and calls again.  One whose hello is right
 * keeps its slot for a second.  A unix socket takes processes of this user alone, so there any free slot will do.
 * In each step so many connections are accepted and so many bytes are read, whatever others send. */
#ifndef RD_ACCEPTOR_H
#define RD_ACCEPTOR_H

#include <poll.h>

#include "comm/session.h"
#include "transport/place.h"

enum { RD_UNPROVEN = 64, RD_LISTENERS = 4 };

typedef struct {
    rd_session session; /* fd -1: a free place */
    bool greeted;       /* said a hello with a right mac, which others may have recorded */
    bool welcome;       /* proved the key: the owner hears what comes next */
    bool stays;         /* the owner's to set: others have to hurry */
    rd_frame proof;     /* who it is */
    int32_t pid;        /* over a unix socket; else 0 */
    uint64_t since_ns;
    nfds_t polled; /* 0: came after the last look */
} rd_incoming;

typedef struct rd_acceptor rd_acceptor;
struct rd_acceptor {
    int listeners[RD_LISTENERS]; /* the owner's */
    uint32_t listener_count;
    bool local; /* unix sockets: processes of this user alone */
    rd_way way;
    const char *key;     /* NULL: none is proved */
    uint32_t rank, size; /* whose listeners they are */
    uint64_t job;
    const rd_place *place; /* told to who is welcome; NULL: none */
    rd_incoming *incoming;
    uint32_t capacity;
    struct pollfd *polled;
    uint8_t *table; /* the owner's, for tables of those who are welcome, or NULL */
    size_t table_bytes;
    uint32_t wrong_keys; /* how often somebody came with one */
    int32_t refused_pid; /* who was last sent away for another reason, and the reason; 0: nobody */
    char refused[RD_FRAME_BODY];
    int givers
        [RD_LISTENERS]; /* the owner's: who connects there is given something, and proves nothing */
    uint32_t giver_count;
    void *owner;
    ronda_status (*give)(rd_acceptor *acceptor, int giver, rd_error *err);
    /* A refusal, with why; or RONDA_OK.  Of who has proved the key. */
    ronda_status (*judge)(rd_acceptor *acceptor, rd_incoming *from, char why[RD_FRAME_BODY]);
    /* A frame of one who has proved the key.  Not RONDA_OK: the owner fails with that */
    ronda_status (*hear)(rd_acceptor *acceptor, rd_incoming *from, const rd_frame *frame,
                         rd_error *err);
    /* One who has proved the key has closed, or said what makes no sense; it is not closed yet */
    ronda_status (*lose)(rd_acceptor *acceptor, rd_incoming *from, const char *how, rd_error *err);
};

/* Room for RD_UNPROVEN and for so many who stay. */
ronda_status rd_acceptor_open(rd_acceptor *acceptor, uint32_t staying, rd_error *err);
void rd_acceptor_close(rd_acceptor *acceptor); /* not the listeners */
/* Hears whoever has something to say, waiting until the deadline at most. */
ronda_status rd_acceptor_step(rd_acceptor *acceptor, uint64_t until_ns, rd_error *err);

#endif
