/* bytes.h: numbers as they are on the wire: little-endian. */
#ifndef RD_BYTES_H
#define RD_BYTES_H

#include <stdint.h>

static inline void rd_put32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static inline uint32_t rd_get32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

static inline void rd_put64(uint8_t *to, uint64_t value)
{
    rd_put32(to, (uint32_t)value);
    rd_put32(to + 4, (uint32_t)(value >> 32));
}

static inline uint64_t rd_get64(const uint8_t *from)
{
    return rd_get32(from) | (uint64_t)rd_get32(from + 4) << 32;
}

#endif
