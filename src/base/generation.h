/* generation.h: is this the process that made a communicator, or one that was forked from it?
 *
 * A forked process has a copy of everything, and must not act as the rank that it was copied from.  So every
 * process that makes communicators has a number, in a page that the kernel wipes in a child: a communicator
 * remembers the number, and a call compares them, which takes two loads and no system call.  Where the kernel
 * cannot wipe, a handler of fork() does; a raw clone() is then not noticed. */
#ifndef RD_GENERATION_H
#define RD_GENERATION_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t *rd_generation_word;

/* 0: it has made no communicator so far. */
static inline uint32_t rd_generation(void)
{
    return atomic_load_explicit(rd_generation_word, memory_order_relaxed);
}

/* From now on it has a number, which no process has that it was forked from; never 0. */
uint32_t rd_generation_enter(void);

/* Tests: as if the kernel could not wipe pages. */
void rd_generation_use_handler_alone(void);

#endif
