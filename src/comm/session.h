/* session.h: two ranks in conversation while the world gathers, over TCP or a unix socket (base/handshake.h draws it).
 *
 * Over a unix socket descriptors can come along, and the system carries what is said between the two processes
 * alone: from the welcome on frames have a hash there. */
#ifndef RD_SESSION_H
#define RD_SESSION_H

#include "base/error.h"
#include "base/handshake.h"

typedef struct {
    int fd; /* -1: closed */
    bool caller;
    bool local;  /* a unix socket */
    bool proven; /* the other side has shown that it knows the key, in this conversation */
    const char *key;
    uint32_t size;               /* of the world */
    uint8_t nonces[2][RD_NONCE]; /* the caller's, and that of whom was called */
    uint64_t sent, received;     /* frames */
    uint8_t head[RD_FRAME_HEAD], body[RD_FRAME_BODY];
    uint8_t *table;     /* the owner's, where a table goes; NULL: none is awaited */
    size_t table_bytes; /* as long as a table must be */
    size_t have;        /* bytes of the frame that comes in */
    int passed; /* a descriptor that came with the last frame, or -1: the session's until it is taken */
    bool cut; /* there were more descriptors, or one for which this process has no place */
} rd_session;

/* PART: not all of it is there yet; FRAME: *frame is, its body in session->body or ->table; the others: the
 * session is over. */
typedef enum {
    RD_RECEIVED_PART,
    RD_RECEIVED_FRAME,
    RD_RECEIVED_END,
    RD_RECEIVED_FOREIGN,
    RD_RECEIVED_VERSION,
    RD_RECEIVED_FORGED, /* its mac or its counter is wrong */
    RD_RECEIVED_UNABLE /* this process has no random numbers, or libcrypto makes no mac: nothing was said */
} rd_received;

rd_session rd_session_open(int fd, bool caller, const char *key, uint32_t size);
void rd_session_close(rd_session *session);
int rd_session_take_fd(rd_session *session);                          /* what was passed, or -1 */
rd_received rd_session_receive(rd_session *session, rd_frame *frame); /* does not wait */
/* Waits for a whole frame; PART: the deadline has come. */
rd_received rd_session_await(rd_session *session, uint64_t until_ns, rd_frame *frame);
bool rd_session_send(rd_session *session, const rd_frame *frame, const void *body,
                     uint64_t until_ns);
/* The same with a descriptor, over a unix socket; -1: none */
bool rd_session_send_fd(rd_session *session, const rd_frame *frame, int passed, uint64_t until_ns);
/* The caller's part of the handshake.  FRAME: the other side has said *frame, which is a welcome if all is well. */
rd_received rd_session_greet(rd_session *session, rd_way way, const rd_frame *proof, int passed,
                             uint64_t until_ns, rd_frame *frame);
/* Says why not, without waiting for long, and closes.  To who has proved nothing: rd_session_refuse(). */
void rd_session_reject(rd_session *session, ronda_status status, uint32_t peer, const char *text);
void rd_session_refuse(rd_session *session, rd_refusal why);
/* What a rejection of one who has proved the key said, as this rank's own error. */
ronda_status rd_session_rejected(const rd_session *session, const rd_frame *frame, rd_error *err);
/* A refusal in words; called: the rank that refuses, caller: "rank 3" */
enum { RD_REFUSAL_TEXT = 200 };
ronda_status rd_refusal_text(int32_t why, uint32_t called, const char *caller,
                             char text[RD_REFUSAL_TEXT]);

#endif
