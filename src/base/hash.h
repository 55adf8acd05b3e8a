/* hash.h: FNV-1a. */
#ifndef RD_HASH_H
#define RD_HASH_H

#include <stddef.h>
#include <stdint.h>

#define RD_HASH_START UINT64_C(0xcbf29ce484222325) /* or a little more, for another hash */

/* Goes on from what was hashed before. */
static inline uint64_t rd_hash(uint64_t hash, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
