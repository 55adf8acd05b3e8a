/* crc32c.h: the checksum of frames between hosts.
 *
 * CRC32C (Castagnoli) finds every error of up to 3 bits in a frame, every run of wrong bits up to 32 long, and any
 * other but one in 2^32.  It is for accidents: whoever wants to change a frame can change its checksum too. */
#ifndef RD_CRC32C_H
#define RD_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* crc: of the bytes before these; 0: there are none.  All instruction sets give the same. */
typedef uint32_t rd_crc32c_fn(uint32_t crc, const void *data, size_t bytes);
rd_crc32c_fn rd_crc32c;

typedef struct {
    const char *name;
    bool usable; /* by this processor */
    rd_crc32c_fn *run;
} rd_crc32c_set;
const rd_crc32c_set *rd_crc32c_sets(void); /* best first; the last has no name */

/* crc32c.c's own, each for processors that have its instructions (crc32c_x86.c, crc32c_arm.c) */
rd_crc32c_fn rd_crc32c_avx512, rd_crc32c_sse42, rd_crc32c_arm, rd_crc32c_portable;

#endif
