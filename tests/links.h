/* links.h: worlds of links, all of whose ends are in this process, whatever the transport. */
#ifndef RD_LINKS_H
#define RD_LINKS_H

#include "transport/transport.h"

bool links_local(uint32_t size, rd_link *links[]);

/* Each link has a mapping of its own of the same memory, as if it were another process. */
bool links_shm(uint32_t size, rd_link *links[]);

/* Each link has sockets of its own, on this host. */
bool links_tcp(uint32_t size, rd_link *links[]);

/* As if on hosts of two ranks each, and the last perhaps of one: both of the above. */
bool links_mixed(uint32_t size, rd_link *links[]);

#endif
