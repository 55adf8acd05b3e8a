/* mem.c: memory, in one place, so that tests can count it and make it fail. */
#include "base/mem.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Atomic long good_calls = -1; /* -1: all are */

bool rd_mem_refused(void)
{
    if (atomic_load_explicit(&good_calls, memory_order_relaxed) < 0)
        return false;
    return atomic_fetch_sub(&good_calls, 1) <= 0 && (atomic_store(&good_calls, 0), true);
}

void rd_mem_fail_after(long n)
{
    atomic_store(&good_calls, n);
}

void *rd_alloc(size_t bytes)
{
    if (rd_mem_refused() || bytes > SIZE_MAX - 128)
        return NULL;
    const size_t whole = (bytes + 64) & ~(size_t)63;
    void *p = aligned_alloc(64, whole);
    if (p)
        memset(p, 0, whole);
    return p;
}

void *rd_realloc(void *p, size_t bytes)
{
    return rd_mem_refused() ? NULL : realloc(p, bytes ? bytes : 1);
}

void rd_free(void *p)
{
    free(p);
}

static void *map_zeros(size_t bytes, int flags)
{
    if (rd_mem_refused())
        return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *rd_map(size_t bytes)
{
    return map_zeros(bytes, MAP_NORESERVE);
}

/* Pages that come at the first touch would be counted by nobody until then: the next who asks would be given them
 * again. */
void *rd_pages(size_t bytes)
{
    enum { SIZEABLE = 1 << 20, POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE, since Linux 5.14 */
    void *p = map_zeros(bytes, 0);
    if (!p || bytes < SIZEABLE || madvise(p, bytes, POPULATE_WRITE) == 0 || errno == EINVAL)
        return p;
    munmap(p, bytes);
    return NULL;
}

void *rd_map_file(int fd, size_t bytes)
{
    if (rd_mem_refused()) {
        errno = ENOMEM;
        return NULL;
    }
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *rd_map_wiped(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (madvise(p, bytes, MADV_WIPEONFORK) == 0)
        return p;
    munmap(p, bytes);
    return NULL;
}

void rd_unmap(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}
