/* rendezvous.h: how ranks of several hosts find each other. */
#ifndef RD_RENDEZVOUS_H
#define RD_RENDEZVOUS_H

#include "comm/bootstrap.h"
#include "comm/same_user.h"
#include "comm/session.h"
#include "transport/tcp.h"
#include "transport/wire.h"

/* All ranks start, or none does.  One deadline for all of it; out: what rd_tcp_open() takes. */
ronda_status rd_rendezvous(const rd_joining *joining, rd_tcp_parts *out, rd_error *err);

/* hosts.c: the same, and then the link. */
ronda_status rd_open_hosts(const rd_joining *joining, rd_link **out, rd_error *err);

/* --- what its parts share --- */

enum {
    RD_HELD_RANKS = 64, /* up to so many all stay connected to rank 0 until the start */
    RD_BRANCHES = 8     /* else each rank tells so many others */
};

typedef struct {
    const rd_joining *j;
    uint64_t until_ns;
    uint64_t job;
    rd_way way;
    const char *key;            /* the job's: RONDA_KEY, or the secret; NULL: RD_WAY_OPEN */
    char secret[RD_SECRET + 1]; /* RD_WAY_USER */
    bool loopback_alone;
    int listener;   /* where this rank is reached, also when the world has started */
    uint8_t family; /* 4, 6, or 0: it takes both */
    rd_place own;
    rd_place *places; /* [size] */
    rd_error *err;
} rd_gathering;

/* Someone below this rank, who waits for what comes from rank 0. */
typedef struct {
    uint32_t rank;
    rd_session session;
    bool ready;
} rd_branch;

/* Are these addresses ones that only this host can reach, or is that wanted, or is there a key? */
ronda_status rd_gathering_allows(const rd_gathering *g, const rd_ip *ip);
/* The deadline and so many times a little more: who waits for others leaves the last word to those who know
 * why it takes so long.  Rank 0 adds 1 to what those wait who call, and the others 2. */
uint64_t rd_gathering_later(const rd_gathering *g, uint32_t times);
/* Opens the listener and fills in the own place; route: some address of rank 0, or NULL. */
ronda_status rd_gathering_settle(rd_gathering *g, const rd_ip *route);

/* rendezvous_root.c: rank 0 */
ronda_status rd_rendezvous_root(rd_gathering *g);

/* spread.c */
/* Calls those below this rank, in the tree that large worlds use.  count: how many were reached */
ronda_status rd_spread_call(rd_gathering *g, rd_branch branches[RD_BRANCHES], uint32_t *count);
/* Hands on the table, and waits until all are ready and rank 0 says go.  up: NULL at rank 0.  Whatever
 * happens is told to all branches, and up. */
ronda_status rd_spread(rd_gathering *g, rd_session *up, rd_branch *branches, uint32_t count);
uint32_t rd_spread_parent(uint32_t rank);
/* "rank 3 (pid 77 on node7)" */
void rd_spread_name(const rd_gathering *g, uint32_t rank, char *text, size_t capacity);

#endif
