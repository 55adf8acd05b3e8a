/* tell.h: what a rank tells whoever started it: whose failure it saw, before it ends because of that.  So the
 * launcher need not guess by the clock who failed first. */
#ifndef RD_TELL_H
#define RD_TELL_H

#include <stdint.h>

#define RD_TELL "RONDA_TELL" /* the launcher's socket, by its abstract name */

/* A datagram to it. */
typedef struct {
    uint32_t magic, rank, failed;
} rd_told;
enum { RD_TOLD_MAGIC = 0x72647401 };

/* Remembers what the environment says of it; the first call does. */
void rd_tell_prepare(void);
/* Of the world that the launcher made, and no other; nothing happens if there is no such launcher. */
void rd_tell(uint32_t rank, uint32_t size, uint32_t failed);

#endif
