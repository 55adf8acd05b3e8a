/* atomic.h: what <stdatomic.h> lacks. */
#ifndef RD_ATOMIC_H
#define RD_ATOMIC_H

#include <stdatomic.h>
#include <stddef.h>

/* A full fence.  The thread sanitizer knows no fences, but does know read-modify-writes. */
static inline void rd_fence(void)
{
#if defined(__SANITIZE_THREAD__)
    static _Atomic int word;
    atomic_fetch_add(&word, 1);
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
    static _Atomic int word;
    atomic_fetch_add(&word, 1);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* "I am polling": lets a sibling core work and saves power. */
static inline void rd_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Fetches a cache line that will be written soon, so that the store need not wait for it. */
static inline void rd_own(const void *line)
{
#if defined(__x86_64__) || defined(__i386__)
    /* By name: without -mprfchw compilers ask for the line to read.  Older machines ignore it. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* All lines of a range, which begins with one. */
static inline void rd_own_range(const void *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        rd_own((const char *)at + i);
}

#endif
