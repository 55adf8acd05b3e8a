/* dump_signal.h: SIGUSR1 asks this process what it is doing.
 *
 * The handler does nothing but count; whoever is inside a call, or makes the next one, sees that the
 * count has changed and answers. */
#ifndef RD_DUMP_SIGNAL_H
#define RD_DUMP_SIGNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How often it was asked, modulo 2^32; 0: never, which is all that a quick path looks at. */
extern _Atomic uint32_t rd_dump_signals;

static inline uint32_t rd_dump_requests(void)
{
    return atomic_load_explicit(&rd_dump_signals, memory_order_relaxed);
}

/* From now on the signal asks, if nobody else has a use for it; to be called in pairs.  The last close
 * gives the signal back. */
void rd_dump_signal_open(void);
void rd_dump_signal_close(void);
/* In a forked process: a thread of the parent's may have had the lock, and nobody gives it back. */
void rd_dump_signal_close_inherited(void);

#endif
