/* clock.h: the only reader of time. */
#ifndef RD_CLOCK_H
#define RD_CLOCK_H

#include <stdint.h>

uint64_t rd_now_ns(void); /* monotonic */

/* When so much time will have passed; never, if that is more than the clock can say. */
static inline uint64_t rd_deadline_ns(uint64_t timeout_ns)
{
    const uint64_t now = rd_now_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

#endif
