/* wire.h: bytes from a peer, and the only place that reads meaning into them.
 *
 * Everything that ranks say while they gather is one frame of RD_FRAME bytes, little-endian:
 *
 *     magic 8 | version 4 | kind 4 | rank 4 | size 4 | number 4 | zero 4 | nonce 32 | mac 32 | text 240
 */
#ifndef RD_WIRE_H
#define RD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RD_FRAME = 336, RD_FRAME_TEXT = 240, RD_WIRE_VERSION = 1 };

enum {
    RD_HELLO = 1, /* rank and size of who comes, nonce; with its doorbell */
    RD_CHALLENGE, /* nonce of rank 0 */
    RD_PROOF,     /* mac over both nonces */
    RD_WELCOME,   /* mac of rank 0 over both */
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
    uint8_t nonce[32], mac[32];
    char text[RD_FRAME_TEXT]; /* ends with a zero */
} rd_frame;

typedef enum { RD_FRAME_OK, RD_FRAME_FOREIGN, RD_FRAME_VERSION } rd_frame_verdict;

void rd_frame_pack(const rd_frame *frame, uint8_t bytes[RD_FRAME]);
/* FOREIGN: not ronda's; VERSION: of another version, only frame->version is set. */
rd_frame_verdict rd_frame_unpack(const uint8_t bytes[RD_FRAME], rd_frame *frame);

#endif
