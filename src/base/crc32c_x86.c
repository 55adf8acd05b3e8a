/* crc32c_x86.c: with the instructions of x86-64.
 *
 * Short ranges go through the crc32 instruction, which takes 8 bytes in 3 cycles.  Long ones are folded: a vector V
 * that stands D bits before the next one, N, is as good as V * x^D + N there, modulo the polynomial, and a product
 * without carries of each half of V with a constant gives just that.  Several vectors at once keep the multiplier
 * busy.  What they have become in the end takes the place of all that came before, and is short. */
#include "base/crc32c.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

/* x^(D + 32) and x^(D - 32) modulo the polynomial, bits reversed and shifted by one: for the half that comes first,
 * and for the other. */
enum { VECTORS = 8 };
static const uint64_t BY_128_BYTES[2] = {0x6992cea2, 0x0d3b6092},
                      BY_256_BYTES[2] = {0xdcb17aa4, 0xb9e02b86};

__attribute__((target("sse4.2"))) static uint32_t plain(uint32_t crc, const uint8_t *p,
                                                        size_t bytes)
{
    uint64_t c = crc, word;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        memcpy(&word, p, 8);
        c = _mm_crc32_u64(c, word);
    }
    for (; bytes; bytes--)
        c = _mm_crc32_u8((uint32_t)c, *p++);
    return (uint32_t)c;
}

__attribute__((target("sse4.2,pclmul"))) static __m128i fold16(__m128i v, __m128i k, __m128i next)
{
    return _mm_xor_si128(
        next, _mm_xor_si128(_mm_clmulepi64_si128(v, k, 0x00), _mm_clmulepi64_si128(v, k, 0x11)));
}

__attribute__((target("sse4.2,pclmul"))) uint32_t rd_crc32c_sse42(uint32_t crc, const void *data,
                                                                  size_t bytes)
{
    enum { BLOCK = VECTORS * 16 };
    const uint8_t *p = data;
    crc = ~crc;
    if (bytes >= 4 * BLOCK) {
        const __m128i k = _mm_loadu_si128((const __m128i *)BY_128_BYTES);
        __m128i v[VECTORS];
        for (int i = 0; i < VECTORS; i++)
            v[i] = _mm_loadu_si128((const __m128i *)(p + 16 * i));
        v[0] = _mm_xor_si128(v[0], _mm_cvtsi32_si128((int)crc));
        for (p += BLOCK, bytes -= BLOCK; bytes >= BLOCK; p += BLOCK, bytes -= BLOCK)
            for (int i = 0; i < VECTORS; i++)
                v[i] = fold16(v[i], k, _mm_loadu_si128((const __m128i *)(p + 16 * i)));
        crc = plain(0, (const uint8_t *)v, sizeof v);
    }
    return ~plain(crc, p, bytes);
}

__attribute__((target("sse4.2,avx512f,vpclmulqdq"))) static __m512i fold64(__m512i v, __m512i k,
                                                                           const uint8_t *next)
{
    return _mm512_ternarylogic_epi64(_mm512_loadu_si512(next), _mm512_clmulepi64_epi128(v, k, 0x00),
                                     _mm512_clmulepi64_epi128(v, k, 0x11), 0x96);
}

/* Not checked by the address sanitizer: gcc before 13.3 aligns `folded` for vectors, but not where the sanitizer
 * puts it to find uses after return. */
__attribute__((target("sse4.2,avx512f,vpclmulqdq"), no_sanitize("address"))) uint32_t
rd_crc32c_avx512(uint32_t crc, const void *data, size_t bytes)
{
    enum { BLOCK = 256 };
    if (bytes < 4 * BLOCK)
        return rd_crc32c_sse42(crc, data, bytes);
    const uint8_t *p = data;
    const __m512i k = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)BY_256_BYTES));
    uint8_t folded[BLOCK];
    __m512i a = _mm512_loadu_si512(p), b = _mm512_loadu_si512(p + 64),
            c = _mm512_loadu_si512(p + 128), d = _mm512_loadu_si512(p + 192);
    a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    for (p += BLOCK, bytes -= BLOCK; bytes >= BLOCK; p += BLOCK, bytes -= BLOCK) {
        a = fold64(a, k, p);
        b = fold64(b, k, p + 64);
        c = fold64(c, k, p + 128);
        d = fold64(d, k, p + 192);
    }
    _mm512_storeu_si512(folded, a);
    _mm512_storeu_si512(folded + 64, b);
    _mm512_storeu_si512(folded + 128, c);
    _mm512_storeu_si512(folded + 192, d);
    return ~plain(plain(0, folded, sizeof folded), p, bytes);
}

#endif
