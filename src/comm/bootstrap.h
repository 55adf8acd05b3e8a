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
ronda_status rd_rank_0_is_mute(const rd_joining *j, rd_error *err);

/* Joins the world.  One deadline for all of it; the error names the ranks that did not come. */
ronda_status rd_bootstrap(const rd_joining *joining, rd_link **out, rd_error *err);

/* In a hello: has the guest a key, and libcrypto for a mac that proves it? */
enum { RD_KEYLESS, RD_PROVES, RD_ONLY_TELLS };
int32_t rd_join_way(const char *key);

/* What both sides answer to the two nonces, rank and size.  RD_PROVES: a mac of the key, HMAC-SHA-256.  RD_ONLY_TELLS:
 * a plain hash, which is no mac and proves nothing: both sides are the same user's, which the system vouches for,
 * and a key that is another by mistake is seen.  Without a key: zeros.  false: libcrypto fails */
bool rd_join_answer(const char *key, const char *who, const uint8_t root[32],
                    const uint8_t guest[32], uint32_t rank, uint32_t size, uint8_t out[32]);

/* gather.c: rank 0 */
ronda_status rd_gather(const rd_joining *joining, rd_link **out, rd_error *err);

#endif
