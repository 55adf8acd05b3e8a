/* handshake.h: how the two ends of a connection prove to each other that they know the job's key.
 *
 * One construction for unix sockets, the rendezvous and data connections.  A frame is a head of RD_FRAME_HEAD bytes
 * and a body, little-endian:
 *
 *     magic 8 | version 4 | kind 4 | features 4 | from 4 | to 4 | size 4 | number 4 | bytes 4 |
 *     job 8 | counter 8 | mac 32 | body
 *
 *     mac = HMAC-SHA-256(key, nonce of the sender | nonce of the receiver | head, its mac zero | body)
 *
 * Without the key nobody can make or change a frame.  The order of the nonces says who speaks, so a frame cannot be
 * sent back; nonces are drawn for one conversation or one job, so it cannot be moved to another; and a counter is
 * accepted once, so it cannot be repeated.
 *
 * Ranks that meet (comm/session.h) exchange nonces first; the counter is the number of the frame, in each direction:
 *
 *     caller                                        called
 *       | --- hello: nonce ------------------------> |   0
 *       | <-- challenge: nonce --------------------- |   0   or reject: an rd_refusal
 *       | --- proof: from, to, size, job ----------> |   1
 *       | <-- welcome ------------------------------ |   1   or reject: why
 *       |        ... what they have to say ...       |   2 ...
 *
 * When the hello is sealed the receiver's nonce is not known and counts as zero, so who has recorded a hello can
 * repeat it: it only shows whom to hear first.  The challenge proves the key to the caller and the proof proves it
 * to the called; ranks, sizes, pids and names of hosts are sent only after that.
 *
 * Data connections (transport/tcp_connect.c) have the nonces of both ranks from the table of ranks, which came by
 * such a conversation.  So one frame is enough, and data follows it at once:
 *
 *     rank r                                        rank s
 *       | --- greeting c: from r, to s; data ... --> |   c is greater than any that s has accepted from r
 *       | <-- answer c: from s, to r; data ... ----- |   when s looks at its sockets
 *
 * Where there is no key, or no libcrypto, a plain hash stands in place of the mac.  It is no mac and proves nothing:
 * bytes that were changed by mistake are seen, and so is another key. */
#ifndef RD_HANDSHAKE_H
#define RD_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/proof.h"

enum {
    RD_WIRE_VERSION = 3,
    RD_FRAME_HEAD = 88,
    RD_FRAME_BODY = 480 /* the longest, apart from tables */
};

/* Bits of what the other side must know, besides the version; whoever sets one that is not here is refused. */
enum { RD_FEATURE_CHECKSUM = 1, RD_FEATURES = RD_FEATURE_CHECKSUM };

enum {
    RD_FRAME_HELLO = 1, /* number: an rd_way; the caller's nonce */
    RD_FRAME_CHALLENGE, /* the nonce of whom was called, which proves the key */
    RD_FRAME_PROOF, /* from: who calls, to: whom; size; job, or 0.  Unix sockets: with its doorbell */
    RD_FRAME_WELCOME, /* job; between hosts: the place of whom was called */
    RD_FRAME_REJECT, /* text: why; number: status; to: whom it is about.  Before a proof: number is an rd_refusal */
    RD_FRAME_SOCKET, /* text: the unix socket where to say hello; proves nothing */
    RD_FRAME_PLACE,  /* the place of who calls */
    RD_FRAME_NOTED,  /* number: 1: stay, 0: hang up and wait to be called */
    RD_FRAME_TABLE,  /* all places */
    RD_FRAME_PEER,   /* from: a rank, number: its pid; with its doorbell */
    RD_FRAME_START,  /* with the memory */
    RD_FRAME_READY,
    RD_FRAME_GO,
    RD_FRAME_GREETING, /* of a data connection, from who connects */
    RD_FRAME_ANSWER,   /* and from who accepts */
    RD_LAST_FRAME = RD_FRAME_ANSWER
};

/* In a hello: how ranks know each other. */
typedef enum {
    RD_WAY_OPEN, /* not at all: whoever connects is let in */
    RD_WAY_KEY,  /* by the job's key */
    RD_WAY_USER, /* by their user: the system vouches for it, or for who fetches a secret (comm/same_user.h) */
    RD_WAY_HASH /* unix sockets, no libcrypto: by their user; another key is seen */
} rd_way;

/* The number of a rejection before the proof, which tells nothing else. */
typedef enum {
    RD_REFUSES_VERSION = 1, /* the caller's is another */
    RD_REFUSES_KEY,         /* so is its key */
    RD_REFUSES_NO_KEY,      /* the caller has no key, and needs one */
    RD_REFUSES_ANY_KEY,     /* the caller has a key, and whom it called has none */
    RD_REFUSES_CAUTION, /* the caller lets in its own user alone, and whom it called everybody */
    RD_REFUSES_FAILURE, /* whom it called has no random numbers */
    RD_REFUSES_HASH,    /* the caller has no libcrypto, and whom it called has one */
    RD_REFUSES_MAC,     /* the other way round */
    RD_REFUSES_USER     /* the caller is another user's */
} rd_refusal;

typedef struct {
    uint32_t version, kind, features, from, to, size;
    int32_t number;
    uint32_t bytes; /* of the body */
    uint64_t job, counter;
    uint8_t mac[RD_MAC];
} rd_frame;

/* FOREIGN: not ronda's; VERSION: of another version, only the version is filled in */
typedef enum { RD_FRAME_OK, RD_FRAME_FOREIGN, RD_FRAME_VERSION } rd_frame_verdict;

void rd_frame_pack(const rd_frame *frame, uint8_t head[RD_FRAME_HEAD]);
/* A body of more than RD_FRAME_BODY bytes is a table's, whose length the caller has to check. */
rd_frame_verdict rd_frame_unpack(const uint8_t head[RD_FRAME_HEAD], rd_frame *frame);
/* The same of the first bytes of a head; OK: it can become one */
rd_frame_verdict rd_frame_begins(const uint8_t *head, size_t have, rd_frame *frame);
/* The text of a body, for people: ends with a zero, and is one line. */
void rd_frame_text(const uint8_t *body, uint32_t bytes, char text[RD_FRAME_BODY + 1]);

typedef struct {
    const char *key;                  /* NULL: a hash instead of a mac */
    const uint8_t *sender, *receiver; /* nonces: RD_NONCE bytes each */
} rd_seal;

/* Sets the mac and packs the head.  false: no memory, or libcrypto fails */
bool rd_frame_seal(const rd_seal *seal, rd_frame *frame, const void *body,
                   uint8_t head[RD_FRAME_HEAD]);
/* Whether a head, as it came, and its body were sealed so.  In a time that tells nothing of the mac */
bool rd_frame_is_sealed(const rd_seal *seal, const uint8_t head[RD_FRAME_HEAD], const void *body);

#endif
