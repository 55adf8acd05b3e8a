/* links.h: worlds of links, all of whose ends are in this process, whatever the transport. */
#ifndef RD_LINKS_H
#define RD_LINKS_H

#include "ronda.h"
#include "transport/control.h"

bool links_local(uint32_t size, rd_link *links[]);

/* Each link has a mapping of its own of the same memory, as if it were another process. */
bool links_shm(uint32_t size, rd_link *links[]);

/* Each link has sockets of its own, on this host. */
bool links_tcp(uint32_t size, rd_link *links[]);
bool links_tcp_checked(uint32_t size, rd_link *links[]); /* with checksums */

/* As if on hosts of two ranks each, and the last perhaps of one: both of the above. */
bool links_mixed(uint32_t size, rd_link *links[]);

/* Communicators over them, whose links they are from then on; said[r] becomes the last that rank r's log says of
 * a plan. */
enum { LINKS_LINE = 300 };
bool links_comms(uint32_t size, rd_link *links[], char said[][LINKS_LINE], ronda_comm *comms[]);

#endif
