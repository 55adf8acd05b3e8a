/* reach.h: calling another rank at whichever of its addresses works. */
#ifndef RD_REACH_H
#define RD_REACH_H

#include "comm/same_user.h"
#include "comm/session.h"
#include "comm/socket.h"
#include "transport/ip.h"

enum { RD_TARGETS = 16 };

typedef struct {
    rd_ip ip;
    uint16_t port;
    bool out;                   /* somebody else is there */
    bool refused;               /* nobody was, the last time */
    char why[64];               /* what came of the last attempt */
    rd_way way;                 /* of this attempt */
    char secret[RD_SECRET + 1]; /* RD_WAY_USER: that was fetched here; empty: none was */
} rd_target;

typedef struct {
    rd_way way;
    const char *key; /* NULL: none, or: */
    bool
        fetches; /* the secret is fetched from rank 0, at each attempt; RD_WAY_OPEN: if there is one */
    char secret[RD_SECRET + 1]; /* with which rank 0 was reached, and way; empty: without one */
    uint32_t rank, peer, size;
    uint64_t job; /* 0: not known yet */
    uint64_t until_ns;
    rd_target at[RD_TARGETS];
    uint32_t count;
} rd_reaching;

/* Once through all addresses, one a little after the other, so that those that do not answer hold nobody up.
 * RONDA_OK: *session is one with the right rank, which has proved the key, at *place, of job
 * reaching->job.  RONDA_ETIMEOUT: not this time, and nothing is said in err.  Else it is no use to go on. */
ronda_status rd_reach_once(rd_reaching *reaching, rd_session *session, rd_place *place,
                           rd_error *err);
/* The same until the deadline, for `whom`, who is known to have listened: if nobody does at any of its
 * addresses, or somebody else, it is gone. */
ronda_status rd_reach(rd_reaching *reaching, const char *whom, rd_session *session, rd_place *place,
                      rd_error *err);
bool rd_reach_hopeless(const rd_reaching *reaching); /* somebody else is at every address */
/* "10.0.0.1:4242: Connection refused, ..." */
void rd_reach_text(const rd_reaching *reaching, char *text, size_t capacity);

void rd_reach_place(rd_reaching *reaching, const rd_place *place); /* at these addresses */
/* At those that a host's name means, if it is known by reaching->until_ns; false: *why, none. */
bool rd_reach_name(rd_reaching *reaching, const rd_address *address, const char **why);

/* A pause that grows from round to round, and ends at the deadline. */
void rd_reach_pause(uint32_t round, uint64_t until_ns);

#endif
