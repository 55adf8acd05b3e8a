/* wire.h: bytes from a peer, and the only place that reads meaning into them, but for the frames of the handshake
 * (base/handshake.h). */
#ifndef RD_WIRE_H
#define RD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/handshake.h"
#include "base/names.h"
#include "transport/place.h"

/* --- between ranks that are connected (tcp) --- */

/* Whoever connects sends a greeting, and whoever was called an answer (base/handshake.h): heads without a body. */
enum { RD_GREETING = RD_FRAME_HEAD };

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

/* Where a rank stands, by remote. */
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

/* --- the table of ranks (comm/rendezvous.c) ---
 *
 * A place is RD_PLACE bytes and has one way to be written:
 *
 *     host 8 | pid 4 | cpus 4 | port 2 | count 1 | checksum 1 | quota 4 | cores 8 | nonce 16 | name 64 |
 *     8 times family 1, zero 3, scope 4, bytes 16
 */
enum { RD_PLACE = 112 + RD_ADDRESSES * 24 };

void rd_place_pack(const rd_place *place, uint8_t bytes[RD_PLACE]);
bool rd_place_unpack(const uint8_t bytes[RD_PLACE], rd_place *place); /* false: it cannot be one */

#endif
