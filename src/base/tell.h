/* tell.h: a rank tells `ronda run` whose failure it saw, before it ends because of that.  The launcher follows this
 * from rank to rank to the one that failed first. */
#ifndef RD_TELL_H
#define RD_TELL_H

#include <stdint.h>

#define RD_TELL "RONDA_TELL" /* the variable with the abstract name of the launcher's socket */

/* A datagram to it; failed: a rank of the world, or one of the two below. */
typedef struct {
    uint32_t magic, rank, failed;
} rd_told;
enum { RD_TOLD_MAGIC = 0x72647401 };
#define RD_TOLD_UNCLOSED (UINT32_MAX - 1) /* this rank exits without closing its communicator */
#define RD_TOLD_NOBODY                                                                             \
    UINT32_MAX /* this rank has joined a world anew: forget what it told before */

/* Reads RONDA_TELL, RONDA_RANK and RONDA_SIZE; only the first call does, so that a program may change them later. */
void rd_tell_prepare(void);
/* Does nothing without such a launcher, or if rank and size are not those that the launcher has set: the
 * communicator is another one then. */
void rd_tell(uint32_t rank, uint32_t size, uint32_t failed);

#endif
