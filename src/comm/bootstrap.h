/* bootstrap.h: how ranks of one host find each other and get their common memory. */
#ifndef RD_BOOTSTRAP_H
#define RD_BOOTSTRAP_H

#include "base/handshake.h"
#include "comm/socket.h"
#include "transport/transport.h"

typedef struct {
    uint32_t rank, size;
    rd_address address;
    const char *key; /* NULL: none */
    uint64_t timeout_ns;
    bool sockets_alone;     /* also between ranks of one host */
    bool hosts;             /* they meet as ranks of several hosts (rendezvous.c) */
    bool insecure;          /* anybody may come in when there is no key */
    uint8_t checksum;       /* an rd_checksum */
    const char *interfaces; /* RONDA_IFACE, or NULL */
    const uint32_t
        *names; /* [size] what ranks are called in sentences; NULL: as they are counted */
} rd_joining;

static inline uint32_t rd_join_name(const rd_joining *j, uint32_t rank)
{
    return j->names ? j->names[rank] : rank;
}

/* Who waits for rank 0's word waits for up to 2 of so many parts of the timeout longer, since rank 0 knows why it
 * takes so long. */
enum { RD_GRACE_PART = 12 };

/* Rank 0 was found, and said nothing until the deadline. */
ronda_status rd_rank_0_did_not_answer(const rd_joining *j, rd_error *err);

/* Joins the world.  One deadline for all of it; the error names the ranks that did not come. */
ronda_status rd_bootstrap(const rd_joining *joining, rd_link **out, rd_error *err);

/* How ranks of one host know each other: by their user, and by the key if there is one. */
rd_way rd_join_way(const char *key);

/* gather.c: rank 0 */
ronda_status rd_gather(const rd_joining *joining, rd_link **out, rd_error *err);

#endif
