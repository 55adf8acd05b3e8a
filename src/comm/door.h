/* door.h: where a rank is called by others, over TCP or a unix socket.
 *
 * Everybody who calls is heard at the same time, those first who have proved the key.  Connections that have not
 * have RD_UNPROVEN slots, and never keep others waiting: the oldest of which no hello with a right mac has come is
 * closed for the next that comes.  A rank says its hello as soon as it is connected, and the hello is read when its
 * connection is accepted, so a rank is closed only by a rare chance, and calls again.  One whose hello is right
 * keeps its slot for a second.  A unix socket takes processes of this user alone, so there any free slot will do.
 * In each step so many connections are accepted and so many bytes are read, whatever others send. */
#ifndef RD_DOOR_H
#define RD_DOOR_H

#include <poll.h>

#include "comm/session.h"
#include "transport/place.h"

enum { RD_UNPROVEN = 64, RD_LISTENERS = 4 };

typedef struct {
    rd_session session; /* fd -1: a free place */
    bool greeted;       /* said a hello with a right mac, which others may have recorded */
    bool welcome;       /* proved the key: the owner hears what comes next */
    bool stays;         /* the owner's to set: others have to hurry */
    rd_note proof;      /* who it is */
    int32_t pid;        /* over a unix socket; else 0 */
    uint64_t since_ns;
    nfds_t polled; /* 0: came after the last look */
} rd_visitor;

typedef struct rd_door rd_door;
struct rd_door {
    int listeners[RD_LISTENERS]; /* the owner's */
    uint32_t listener_count;
    bool local; /* unix sockets: processes of this user alone */
    rd_way way;
    const char *key;     /* NULL: none is proved */
    uint32_t rank, size; /* whose door it is */
    uint64_t job;
    const rd_place *place; /* told to who is welcome; NULL: none */
    rd_visitor *visitors;
    uint32_t capacity;
    struct pollfd *polled;
    uint8_t *table; /* the owner's, for tables that welcome visitors bring, or NULL */
    size_t table_bytes;
    uint32_t wrong_keys; /* how often somebody came with one */
    int32_t refused_pid; /* who was last sent away for another reason, and the reason; 0: nobody */
    char refused[RD_NOTE_BODY];
    int givers
        [RD_LISTENERS]; /* the owner's: who connects there is given something, and proves nothing */
    uint32_t giver_count;
    void *owner;
    ronda_status (*give)(rd_door *door, int giver, rd_error *err);
    /* A refusal, with why; or RONDA_OK.  Of who has proved the key. */
    ronda_status (*judge)(rd_door *door, rd_visitor *from, char why[RD_NOTE_BODY]);
    /* A note of a visitor who is welcome.  Not RONDA_OK: the door's owner fails with that */
    ronda_status (*hear)(rd_door *door, rd_visitor *from, const rd_note *note, rd_error *err);
    /* A welcome visitor has closed, or said what makes no sense; it is not closed yet */
    ronda_status (*lose)(rd_door *door, rd_visitor *from, const char *how, rd_error *err);
};

/* Room for RD_UNPROVEN and for so many who stay. */
ronda_status rd_door_open(rd_door *door, uint32_t staying, rd_error *err);
void rd_door_close(rd_door *door); /* not the listeners */
/* Hears whoever has something to say, waiting until the deadline at most. */
ronda_status rd_door_step(rd_door *door, uint64_t until_ns, rd_error *err);

#endif
