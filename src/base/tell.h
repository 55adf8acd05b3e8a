/* tell.h: what a rank tells whoever started it: whose failure it saw in the world, before it ends because of that.
 * So the launcher need not guess by the clock who failed first. */
#ifndef RD_TELL_H
#define RD_TELL_H

#include <stdint.h>

#define RD_TELL "RONDA_TELL" /* the launcher's socket, by its abstract name */

/* A datagram to it. */
typedef struct {
    uint32_t magic, rank, failed;
} rd_told;
enum { RD_TOLD_MAGIC = 0x72647401 };
#define RD_TOLD_UNCLOSED (UINT32_MAX - 1) /* it exits, and has not closed its communicator */
#define RD_TOLD_NOBODY UINT32_MAX /* what was said before is no more: it has joined a world anew */

/* Remembers what the environment says of it; the first call does. */
void rd_tell_prepare(void);
/* Of a world like the one that the launcher made, with the same number of this rank; nothing happens in others,
 * or if there is no such launcher. */
void rd_tell(uint32_t rank, uint32_t size, uint32_t failed);

#endif
