/* wire.h: bytes from a peer, and the only place that reads meaning into them.
 *
 * Everything that ranks say while they gather is one frame of RD_FRAME bytes, little-endian:
 *
 *     magic 8 | version 4 | kind 4 | rank 4 | size 4 | number 4 | zero 4 | nonce 32 | answer 32 | text 240
 */
#ifndef RD_WIRE_H
#define RD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/names.h"
#include "transport/place.h"

enum { RD_FRAME = 336, RD_FRAME_TEXT = 240, RD_WIRE_VERSION = 2 };

enum {
    RD_HELLO = 1, /* nonce; number: an rd_join_way() */
    RD_CHALLENGE, /* nonce of rank 0 */
    RD_PROOF,     /* rank and size of who comes, its answer to both nonces; with its doorbell */
    RD_WELCOME,   /* rank 0's answer to both */
    RD_REJECT,    /* text: why; number: status */
    RD_DOOR,      /* text: name of the socket where to say hello */
    RD_PEER,      /* rank, number: its pid; with its doorbell */
    RD_START,     /* with the memory */
    RD_READY,
    RD_GO,
    RD_LAST_KIND = RD_GO
};

typedef struct {
    uint32_t version, kind, rank, size;
    int32_t number;
    uint8_t nonce[32], answer[32]; /* answer: rd_join_answer() */
    char text[RD_FRAME_TEXT];      /* ends with a zero */
} rd_frame;

typedef enum { RD_FRAME_OK, RD_FRAME_FOREIGN, RD_FRAME_VERSION } rd_frame_verdict;

void rd_frame_pack(const rd_frame *frame, uint8_t bytes[RD_FRAME]);
/* FOREIGN: not ronda's; VERSION: of another version, only frame->version is set. */
rd_frame_verdict rd_frame_unpack(const uint8_t bytes[RD_FRAME], rd_frame *frame);

/* --- between ranks that are connected (tcp) --- */

/* Whoever connects says a hello, and whoever was called answers with another; little-endian:
 *
 *     magic 8 | version 4 | features 4 | job 8 | rank 4 | to 4 | size 4 | crc 4 | mac 32
 *
 * crc: CRC32C of all the rest. */
enum { RD_GREETING = 72 };
/* Bits of what the other side must know, besides the version; whoever sets one that is not here is refused. */
enum { RD_FEATURE_CHECKSUM = 1, RD_FEATURES = RD_FEATURE_CHECKSUM };
typedef struct {
    uint32_t version, features, rank, to, size;
    uint64_t job;
    uint8_t mac[32];
} rd_greeting;
void rd_greeting_pack(const rd_greeting *g, uint8_t bytes[RD_GREETING]);
rd_frame_verdict rd_greeting_unpack(const uint8_t bytes[RD_GREETING], rd_greeting *g);

/* After that there are parcels, each a head and so many bytes:
 *
 *     kind 1 | channel 1 | type 1 | call 1 | bytes 4 | world 8 | mark 8 | total 8 | sequence 8 | count 8 |
 *     op 4 | root 4 | algorithm 4 | taken 4 | freed 8 | body_crc 4 | head_crc 4
 *
 * body_crc, head_crc: CRC32C of the bytes, and of the head up to there, if the greetings say so; else zeros.
 * world: 0, or the number of a part of it.  What describes a call comes with every message, so that ranks
 * that disagree can say in what. */
enum { RD_HEAD = 80, RD_MOST_PARCEL = 256 << 10 };
enum {
    RD_MESSAGE = 1, /* the beginning of one, or its next bytes */
    RD_CREDIT,      /* taken, freed: messages and bytes of the channel that need no room any more */
    RD_NEWS, /* where ranks stand: RD_NEWS_ITEM bytes each; taken: ms since a late rank asked for it */
    RD_ALARM,  /* the world has failed: RD_CAUSE bytes */
    RD_BYE,    /* this rank has closed the world */
    RD_HANGUP, /* nothing will follow on this connection */
    RD_EXIT,   /* the same, since this process exits and has not closed the world */
    RD_LAST_PARCEL = RD_EXIT
};
typedef struct {
    uint8_t kind, channel;
    uint32_t bytes;
    uint64_t world, total;
    rd_record call; /* with the mark of a message that is of no call, too */
    uint32_t taken;
    uint64_t freed;
    uint32_t body_crc, head_crc;
} rd_head;
void rd_head_pack(const rd_head *h, uint8_t bytes[RD_HEAD]);
bool rd_head_unpack(const uint8_t bytes[RD_HEAD], rd_head *h); /* false: this cannot be one */
/* Of a packed head: writes its own checksum, and whether that is right. */
void rd_head_seal(uint8_t bytes[RD_HEAD]);
bool rd_head_is_whole(const uint8_t bytes[RD_HEAD]);

/* Where a rank stands, by hearsay. */
enum { RD_NEWS_ITEM = 64, RD_MOST_NEWS = RD_MOST_PARCEL / RD_NEWS_ITEM };
typedef struct {
    uint32_t rank, awaits, age_ms;
    bool inside, posted, full;
    rd_record call;     /* its last */
    rd_pending message; /* whose peer is `awaits` */
} rd_news;
void rd_news_pack(const rd_news *n, uint8_t bytes[RD_NEWS_ITEM]);
void rd_news_unpack(const uint8_t bytes[RD_NEWS_ITEM], rd_news *n);

enum { RD_CAUSE = 24 + sizeof((rd_error *)0)->message };
void rd_cause_pack(const rd_error *e, uint8_t bytes[RD_CAUSE]);
void rd_cause_unpack(const uint8_t bytes[RD_CAUSE], rd_error *e); /* always one to show to people */

/* --- ranks of several hosts, while they gather (comm/rendezvous.c) ---
 *
 * A note is a head of RD_NOTE_HEAD bytes and a body, little-endian:
 *
 *     magic 8 | version 4 | kind 4 | features 4 | rank 4 | peer 4 | size 4 | number 4 | bytes 4 |
 *     job 8 | mac 32 | body
 *
 * magic, version and kind stand where a frame has them, so each can tell the other by its kind.  A place
 * is RD_PLACE bytes and has one way to be written:
 *
 *     host 8 | pid 4 | cpus 4 | port 2 | count 1 | checksum 1 | quota 4 | cores 8 | name 64 |
 *     8 times family 1, zero 3, scope 4, bytes 16
 */
enum {
    RD_NOTE_HEAD = 80,
    RD_NOTE_BODY = 480, /* the longest, apart from tables */
    RD_PLACE = 96 + RD_ADDRESSES * 24
};

enum {
    RD_NOTE_HELLO =
        65, /* number: an rd_way; nonce of who calls; no rank, size or job before a proof */
    RD_NOTE_CHALLENGE, /* nonce of whom was called, which proves the key; nothing else */
    RD_NOTE_PROOF,     /* rank: who calls, peer: whom; size; job, or 0 */
    RD_NOTE_WELCOME,   /* the place of whom was called; job */
    RD_NOTE_PLACE,     /* the place of who calls */
    RD_NOTE_NOTED,     /* number: 1: stay, 0: hang up and wait to be called */
    RD_NOTE_TABLE,     /* all places */
    RD_NOTE_READY,
    RD_NOTE_GO,
    RD_NOTE_REJECT, /* text: why; number: status; peer: whom it is about.  Before a proof: an rd_refusal */
    RD_LAST_NOTE = RD_NOTE_REJECT
};

/* In a hello: how ranks know each other. */
typedef enum {
    RD_WAY_OPEN, /* not at all: whoever connects is let in */
    RD_WAY_KEY,  /* by the job's key */
    RD_WAY_USER  /* by a secret that only processes of the same user can fetch (comm/same_user.h) */
} rd_way;

/* The number of a rejection before the proof, which tells nothing else. */
typedef enum {
    RD_REFUSES_VERSION = 1, /* the caller's is another */
    RD_REFUSES_KEY,         /* so is its key */
    RD_REFUSES_NO_KEY,      /* the caller has no key, and needs one */
    RD_REFUSES_ANY_KEY,     /* the caller has a key, and whom it called has none */
    RD_REFUSES_CAUTION, /* the caller lets in its own user alone, and whom it called everybody */
    RD_REFUSES_FAILURE  /* whom it called has no random numbers */
} rd_refusal;

typedef struct {
    uint32_t version, kind, features, rank, peer, size;
    int32_t number;
    uint32_t bytes; /* of the body */
    uint64_t job;
    uint8_t mac[32];
} rd_note;

/* FOREIGN: not ronda's, or not of a world of `size`; VERSION: of another version; FRAME: of ranks that share
 * memory.  Only RD_NOTE_OK fills in more than the version. */
typedef enum { RD_NOTE_OK, RD_NOTE_FOREIGN, RD_NOTE_VERSION, RD_NOTE_FRAME } rd_note_verdict;

void rd_note_pack(const rd_note *note, uint8_t bytes[RD_NOTE_HEAD]);
rd_note_verdict rd_note_unpack(const uint8_t bytes[RD_NOTE_HEAD], uint32_t size, rd_note *note);
/* Can what begins so become a note, or a frame? */
bool rd_note_begins(const uint8_t *bytes, size_t have);
/* The text of a body, for people: ends with a zero, and is one line. */
void rd_note_text(const uint8_t *body, uint32_t bytes, char text[RD_NOTE_BODY + 1]);

void rd_place_pack(const rd_place *place, uint8_t bytes[RD_PLACE]);
bool rd_place_unpack(const uint8_t bytes[RD_PLACE], rd_place *place); /* false: it cannot be one */

#endif
