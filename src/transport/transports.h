/* transports.h: THE table of transports.
 *
 * A transport is a file (or several) and a row: a constant rd_transport with its name, the name by which settings ask
 * for it, its costs and its functions.  The conformance suite runs on every row, settings and prices follow from it. */
#ifndef RD_TRANSPORTS_H
#define RD_TRANSPORTS_H

#include "transport/transport.h"

#define RD_TRANSPORTS(X)                                                                           \
    X(local) /* ranks as threads of a process */                                                   \
    X(shm)   /* as processes of a host, over shared memory */                                      \
    X(tcp)   /* anywhere, over sockets */                                                          \
    X(mixed) /* shared memory inside a host, sockets between hosts */

#define RD_TRANSPORT_ROW(name) extern const rd_transport rd_##name;
RD_TRANSPORTS(RD_TRANSPORT_ROW)
#undef RD_TRANSPORT_ROW

extern const rd_transport *const rd_transports[]; /* ends with NULL */

/* By what settings call it; NULL: none is called so. */
const rd_transport *rd_transport_named(const char *setting);

/* What messages cost by it, with so many cores. */
static inline rd_facts rd_facts_of(const rd_transport *t, uint32_t cpus)
{
    rd_facts facts = *t->costs;
    facts.cpus = cpus;
    return facts;
}

#endif
