/* crc32c_arm.c: with the instruction that most 64-bit ARM processors have. */
#include "base/crc32c.h"

#if defined(__aarch64__)

#include <string.h>

/* Compilers disagree about the name of the intrinsic, and assemblers do not. */
uint32_t rd_crc32c_arm(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    uint64_t word;
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        memcpy(&word, p, 8);
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    }
    for (; bytes; bytes--, p++)
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)*p));
    return ~crc;
}

#endif
