/* tcp.h: ranks that reach each other by sockets, wherever they are. */
#ifndef RD_TCP_H
#define RD_TCP_H

#include "transport/place.h"
#include "transport/stream.h"
#include "transport/transports.h"

/* With 2 to 16 ranks on one machine of 16 cores: what is sent goes through the system twice.  Inside a machine the
 * sender's call delivers it: seven sends in a row take 76 us, and three hops in turn 32.  Between hosts a wire adds
 * its latency, and receiving costs as much as sending. */
#define RD_SOCKET_COSTS                                                                            \
    .switch_ns = 3000, .lend_ns = 1000, .carry_ns = 0.15, .copy_ns = 0.08, .fold_ns = 0.09,        \
    .segment_bytes = 1 << 18

typedef struct {
    uint32_t rank, size;
    rd_place *places;    /* [size], from rd_alloc */
    int listener;        /* where this rank's peers connect: its place says the port */
    rd_network *network; /* instead of sockets and the listener; or NULL */
    char *key;           /* from rd_alloc, or NULL: none to be proved */
    uint32_t *host_of;   /* [size], from rd_alloc: see rd_link; or NULL */
    uint64_t job;        /* the same for all ranks, and for no other job */
    uint64_t timeout_ns; /* for what close() owes, if no communicator has set another */
} rd_tcp_parts;

/* places, listener or network, key and host_of are the link's from now on, whatever it returns. */
ronda_status rd_tcp_open(const rd_tcp_parts *parts, rd_link **out, rd_error *err);

/* --- for a link that has this one for some of its ranks (mixed.c) --- */

/* Whether a part is one of several hosts, and ranks of it share one */
bool rd_tcp_splits_hosts(const rd_link *link, const uint32_t members[], uint32_t size);
const char *rd_tcp_host(const rd_link *link); /* the name of this rank's */
int rd_tcp_descriptor(const rd_link *link);   /* readable when something may have come */
bool rd_tcp_is_connecting(const rd_link *link);
/* How ranks of this world and its parts wait from now on; NULL: as before */
void rd_tcp_wait_with(rd_link *link, void (*wait)(void *context, uint32_t idle, uint64_t until_ns),
                      void *context);
/* What ranks of this host say is said once: their boards in shared memory, their failure and their count of
 * goodbyes are this link's, too.  ranks: of the ranks of shm, as this link counts them. */
void rd_tcp_share_host(rd_link *link, rd_link *shm, const uint32_t ranks[]);
/* Before that memory goes: what it says is kept.  last: nobody of this world and its parts uses it any more */
void rd_tcp_leave_host(rd_link *link, bool last);

#endif
