/* bootstrap.h: how ranks of one host find each other and get their common memory. */
#ifndef RD_BOOTSTRAP_H
#define RD_BOOTSTRAP_H

#include "comm/socket.h"
#include "transport/transport.h"

typedef struct {
    uint32_t rank, size;
    rd_address address;
    const char *key; /* NULL: none */
    uint64_t timeout_ns;
    bool sockets_alone;     /* also between ranks of one host */
    bool hosts;             /* they meet as ranks of several hosts (rendezvous.c) */
    bool insecure;          /* strangers may come in when there is no key */
    const char *interfaces; /* RONDA_IFACE, or NULL */
} rd_joining;

/* Rank 0 was found, and said nothing until the deadline. */
ronda_status rd_rank_0_is_mute(const rd_joining *j, rd_error *err);

/* Joins the world.  One deadline for all of it; the error names the ranks that did not come. */
ronda_status rd_bootstrap(const rd_joining *joining, rd_link **out, rd_error *err);

/* In a hello: has the guest a key, and libcrypto to prove it with? */
enum { RD_KEYLESS, RD_PROVES, RD_ONLY_TELLS };
int32_t rd_join_way(const char *key);

/* What both sides do: the mac of `who` over the two nonces, rank and size.  Without libcrypto it is a hash: both
 * sides are the same user's, which the system vouches for, and a key that is another by mistake is seen. */
bool rd_join_mac(const char *key, const char *who, const uint8_t root[32], const uint8_t guest[32],
                 uint32_t rank, uint32_t size, uint8_t out[32]);

/* gather.c: rank 0 */
ronda_status rd_gather(const rd_joining *joining, rd_link **out, rd_error *err);

#endif
