/* same_user.h: how ranks of one host know each other without a key: by their user.
 *
 * The system does not say whose process is at the other end of a TCP connection, but it does for unix sockets.
 * Rank 0 makes a secret and gives it, at an abstract unix socket named after its TCP address, to processes of its
 * own user alone; and these take it from a process of their own user alone.  From then on the secret is the job's
 * key, for the rendezvous and for every connection between ranks.  Abstract names belong to a network namespace,
 * as the loopback does, so whoever can reach the one can reach the other. */
#ifndef RD_SAME_USER_H
#define RD_SAME_USER_H

#include "base/error.h"
#include "transport/ip.h"

enum { RD_SECRET = 64 }; /* characters: 256 bits in hexadecimal */

bool rd_secret_make(char secret[RD_SECRET + 1]);      /* false: the system has no random numbers */
int rd_secret_listen(const rd_ip *ip, uint16_t port); /* -1: errno says why */
/* Gives it to those who have come, and are of this user; never waits. */
void rd_secret_give(int listener, const char secret[RD_SECRET + 1]);

typedef enum {
    RD_SECRET_FETCHED,
    RD_SECRET_NOBODY, /* gives one at this address */
    RD_SECRET_OTHER,  /* a process of another user would */
    RD_SECRET_SILENCE /* no answer before the deadline */
} rd_secret_result;
rd_secret_result rd_secret_fetch(const rd_ip *ip, uint16_t port, uint64_t until_ns,
                                 char secret[RD_SECRET + 1]);

#endif
