/* lookup.h: the addresses that a host's name means. */
#ifndef RD_LOOKUP_H
#define RD_LOOKUP_H

#include "transport/ip.h"

/* At most so many, by the deadline, which the system's own lookup does not know.  0: *why, none. */
uint32_t rd_lookup(const char *host, rd_ip out[], uint32_t most, uint64_t until_ns,
                   const char **why);

#endif
