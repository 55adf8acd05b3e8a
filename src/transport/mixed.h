/* mixed.h: worlds over several hosts whose ranks share memory inside a host, and have sockets between. */
#ifndef RD_MIXED_H
#define RD_MIXED_H

#include "transport/transports.h"

/* tcp: to all ranks, and it knows of which hosts they are; shm: to those of this host, in the order of their
 * ranks.  Both are the new link's, whatever it returns. */
ronda_status rd_mixed_open(rd_link *tcp, rd_link *shm, rd_link **out, rd_error *err);

#endif
