/* crc32c.c: the portable one, eight bytes a step by eight tables, and the choice among all. */
#include "base/crc32c.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

static uint32_t tables[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    enum { POLYNOMIAL = 0x82f63b78 }; /* bits reversed */
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? (uint32_t)POLYNOMIAL : 0);
        tables[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 255];
}

static uint64_t eight_bytes(const uint8_t *p)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)p[i] << 8 * i;
    return value;
}

uint32_t rd_crc32c_portable(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    pthread_once(&once, make_tables);
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        const uint64_t x = eight_bytes(p) ^ crc;
        crc = 0;
        for (int t = 0; t < 8; t++)
            crc ^= tables[7 - t][x >> 8 * t & 255];
    }
    for (; bytes; bytes--)
        crc = crc >> 8 ^ tables[0][(crc ^ *p++) & 255];
    return ~crc;
}

/* --- which --- */

static rd_crc32c_set sets[] = {
#if defined(__x86_64__)
    {"avx512", false, rd_crc32c_avx512},
    {"sse42", false, rd_crc32c_sse42},
#elif defined(__aarch64__)
    {"arm", false, rd_crc32c_arm},
#endif
    {"portable", true, rd_crc32c_portable},
    {NULL, false, NULL}};

static void look_at_processor(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    sets[1].usable = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
    sets[0].usable =
        sets[1].usable && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
#elif defined(__aarch64__)
    enum { HAS_CRC32 = 1 << 7 };
    sets[0].usable = getauxval(AT_HWCAP) & HAS_CRC32;
#endif
}

const rd_crc32c_set *rd_crc32c_sets(void)
{
    static pthread_once_t looked = PTHREAD_ONCE_INIT;
    pthread_once(&looked, look_at_processor);
    return sets;
}

static rd_crc32c_fn find;
static _Atomic(rd_crc32c_fn *) best = find;

static uint32_t find(uint32_t crc, const void *data, size_t bytes)
{
    const rd_crc32c_set *s = rd_crc32c_sets();
    while (!s->usable)
        s++;
    atomic_store_explicit(&best, s->run, memory_order_relaxed);
    return s->run(crc, data, bytes);
}

uint32_t rd_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return atomic_load_explicit(&best, memory_order_relaxed)(crc, data, bytes);
}
