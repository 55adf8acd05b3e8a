/* session.h: two ranks of different hosts in conversation, while the world gathers.
 *
 *     caller                                       who was called
 *       | --- hello: nonce --------------------------> |
 *       | <-- challenge: nonce ----------------------- |   or reject: an rd_refusal
 *       | --- proof: rank, size, job ----------------> |
 *       | <-- welcome: its place --------------------- |   or reject: why
 *       |        ... what they have to say ...         |
 *
 * Each note carries a mac of the job's key over both nonces, its number and direction, and all of itself: notes
 * cannot be made, changed, repeated or left out by others.  In the hello's mac the other nonce is zero: who has
 * heard it could repeat it, so it only shows whom to hear first.  The challenge proves the key to the caller, and
 * the proof the caller's to whom it called; ranks, sizes, pids and names of hosts are told only after that.
 * Without a key (RD_WAY_OPEN) macs are zero. */
#ifndef RD_SESSION_H
#define RD_SESSION_H

#include "base/error.h"
#include "transport/wire.h"

typedef struct {
    int fd; /* -1: closed */
    bool caller;
    bool proven; /* the other side has shown that it knows the key, in this conversation */
    const char *key;
    uint32_t size; /* of the world */
    uint8_t nonces[2][32];
    uint64_t said, heard; /* notes */
    uint8_t head[RD_NOTE_HEAD], body[RD_NOTE_BODY];
    uint8_t *table; /* the owner's, where a table goes; NULL: none is awaited */
    size_t have;    /* bytes of the note that comes in */
} rd_session;

/* PART: not all of it is there yet; NOTE: *note is, its body in session->body or ->table; the others: the
 * session is over. */
typedef enum {
    RD_HEARD_PART,
    RD_HEARD_NOTE,
    RD_HEARD_END,
    RD_HEARD_FOREIGN,
    RD_HEARD_VERSION,
    RD_HEARD_FRAME, /* of ranks that share memory */
    RD_HEARD_FORGED /* its mac is wrong */
} rd_heard;

rd_session rd_session_open(int fd, bool caller, const char *key, uint32_t size);
void rd_session_close(rd_session *session);
rd_heard rd_session_hear(rd_session *session, rd_note *note); /* does not wait */
/* Waits for a whole note; PART: the deadline has come. */
rd_heard rd_session_await(rd_session *session, uint64_t until_ns, rd_note *note);
bool rd_session_say(rd_session *session, const rd_note *note, const void *body, uint64_t until_ns);
/* Says why not, without waiting for long, and closes.  To who has proved nothing: rd_session_refuse(). */
void rd_session_reject(rd_session *session, ronda_status status, uint32_t peer, const char *text);
void rd_session_refuse(rd_session *session, rd_refusal why);
/* What a rejection of one who has proved the key said, as this rank's own error. */
ronda_status rd_session_rejected(const rd_session *session, const rd_note *note, rd_error *err);

#endif
