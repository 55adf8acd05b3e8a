/* control.h: what ranks know of each other beside messages: who is in which call, who waits for whom, who has
 * closed, and why the world has failed.  One implementation for all transports.
 *
 * Every rank has a board, and every link has one for each of its ranks:
 *
 *     link->boards[r] ---> of a rank whose memory this one sees: the board itself, in the mapping
 *                     ---> of any other: a copy in private memory, written as news of it comes over sockets
 *
 * A rank writes its own board only, by plain stores; nobody is told.  Who waits for long looks at the boards of
 * those it waits for.  A carrier that cannot look (tcp) fills the copies from what messages say, and by gossip when
 * a call is late.
 *
 * A failure is a cause and an alarm, written once: the first cause wins. */
#ifndef RD_CONTROL_H
#define RD_CONTROL_H

#include "transport/transport.h"

struct rd_board {
    _Alignas(128) _Atomic uint64_t entered; /* sequence * RD_STATES, RD_POSTED, RD_INSIDE */
    _Atomic uint32_t awaits;                /* 1 + peer, or 0: nobody */
    _Atomic uint32_t closed;
    _Atomic uint32_t exited;   /* of the whole: its process exits, and has not closed everything */
    _Atomic uint64_t heard_ns; /* when it last said whom it awaits; 0: never */
    /* What it waits for if that is a message: direction, whether its unexpected queue is full, type and tag; count */
    _Atomic uint64_t message[2];
    _Atomic uint32_t running; /* an op of the program's */
    /* Apart from what changes with every call: these are read by whoever sends or waits */
    _Alignas(128) _Atomic uint32_t asleep;
    /* Of the whole: 1 + the core that it was on when it last looked, which it does now and then; 0: never */
    _Atomic uint32_t core;
    _Atomic uint32_t message_lines; /* lines of messages with tags that were sent to it */
};

enum { RD_INSIDE = 1, RD_POSTED = 2, RD_STATES = 4 };

/* A call that a rank has announced; the last ones stay, RD_CHANNEL_RECORDS for each channel. */
enum { RD_RECORD_WORDS = 6 };
struct rd_announced {
    _Alignas(64) _Atomic uint64_t words[RD_RECORD_WORDS];
};

typedef struct rd_failure {
    _Alignas(128) _Atomic uint32_t alarm; /* not 0: the world has failed */
    _Atomic uint32_t deciding;            /* 1: somebody is writing the cause */
    rd_error cause;
} rd_failure;

/* What this rank says of itself.  Only inside it touches peers' memory: it leaves while calls are under way
 * (pause), and comes back to them (resume). */
void rd_control_enter(rd_link *link, const rd_record *record);
void rd_control_leave(rd_link *link, uint64_t sequence);
void rd_control_pause(rd_link *link, uint64_t sequence);
void rd_control_resume(rd_link *link, uint64_t sequence);
/* Whom it waits for.  late: the call takes far longer than it should, so a carrier whose ranks cannot look at each
 * other may now send and allocate what it takes to find out why; before that, nothing. */
void rd_control_await(rd_link *link, uint32_t peer, bool late);
/* What the others should know beside whom it awaits, from the next await on, which names the peer of the
 * message: see rd_presence.  message: NULL, none */
void rd_control_announce(rd_link *link, const rd_pending *message, bool full);

/* Says on which core this rank is: 1 + its number, which is returned */
uint32_t rd_control_say_core(rd_link *link);

/* What is known of others.  record: false, it is not there (yet, or any more). */
rd_presence rd_control_presence(rd_link *link, uint32_t peer);
bool rd_control_record(const rd_link *link, uint32_t peer, uint64_t sequence, rd_record *out);
/* The same without asking whether it lives */
rd_presence rd_control_board(const rd_link *link, uint32_t peer);
/* How many lines all peers have put into the channels for messages with tags, modulo 2^32 */
uint32_t rd_control_message_lines(const rd_link *link);

/* For carriers: what came over a socket of a rank that this one does not see. */
void rd_control_note(rd_link *link, uint32_t rank,
                     const rd_record *call); /* its last call so far */
void rd_control_hear(rd_link *link, uint32_t rank, const rd_presence *heard);
void rd_control_closed(rd_link *link, uint32_t rank);

/* Writes the cause and raises the alarm, unless another was first; returns when it is raised. */
void rd_control_raise(rd_failure *failure, const rd_error *cause);
/* Why the world has failed; out is left alone if it has not. */
void rd_control_cause(const rd_link *link, rd_error *out);

#endif
