/* door.h: where a rank of several hosts is called by others.
 *
 * Everybody who calls is heard at the same time: a stranger who says nothing, or rubbish, holds nobody up.
 * Up to RD_STRANGERS who have proved nothing are heard at once; the others wait in the system's queue,
 * and whoever takes too long is sent away for them. */
#ifndef RD_DOOR_H
#define RD_DOOR_H

#include <poll.h>

#include "comm/session.h"

enum { RD_STRANGERS = 32, RD_LISTENERS = 4 };

typedef struct {
    rd_session session; /* fd -1: a free place */
    bool greeted;       /* said hello */
    bool welcome;       /* proved the key: the owner hears what comes next */
    bool stays;         /* the owner's to set: others have to hurry */
    rd_note hello;
    uint64_t since_ns;
    nfds_t polled; /* 0: came after the last look */
} rd_visitor;

typedef struct rd_door rd_door;
struct rd_door {
    int listeners[RD_LISTENERS]; /* the owner's */
    uint32_t listener_count;
    const char *key;
    uint32_t rank, size; /* whose door it is */
    uint64_t job;
    rd_place place;
    rd_visitor *visitors;
    uint32_t capacity;
    struct pollfd *polled;
    uint8_t *table;      /* the owner's, for tables that welcome visitors bring, or NULL */
    uint32_t wrong_keys; /* how often somebody came with one */
    void *owner;
    /* A refusal, with why; or RONDA_OK.  Of who says hello, and again of who has proved the key. */
    ronda_status (*judge)(rd_door *door, const rd_note *hello, char why[RD_NOTE_BODY]);
    /* A note of a visitor who is welcome.  Not RONDA_OK: the door's owner fails with that */
    ronda_status (*hear)(rd_door *door, rd_visitor *from, const rd_note *note, rd_error *err);
    /* A welcome visitor has closed, or said what makes no sense; it is not closed yet */
    ronda_status (*lose)(rd_door *door, rd_visitor *from, const char *how, rd_error *err);
};

/* Room for RD_STRANGERS and for so many who stay. */
ronda_status rd_door_open(rd_door *door, uint32_t staying, rd_error *err);
void rd_door_close(rd_door *door); /* not the listeners */
/* Hears whoever has something to say, waiting until the deadline at most. */
ronda_status rd_door_step(rd_door *door, uint64_t until_ns, rd_error *err);

#endif
