/* hosts.h: which ranks of a world share a host.
 *
 * Hosts are numbered by their first rank, and the ranks of a host by rank order: so a rank is also
 * "number i of host h".  All ranks know the same map.
 *
 *     host_of   7 7 3 3 3          hosts 2, smallest 2, largest 3
 *     rank      0 1 2 3 4          rank 3 is number 1 of host 1
 */
#ifndef RD_HOSTS_H
#define RD_HOSTS_H

#include "plan/plan.h"

struct rd_hosts {
    uint32_t size;              /* ranks in all */
    uint32_t count;             /* hosts */
    uint32_t smallest, largest; /* ranks of a host */
    bool in_order;              /* ranks of a host follow each other */
    uint64_t mark;              /* another map has another one, but for an odd chance */
    uint32_t *of;               /* [size]: a rank's host */
    uint32_t *number;           /* [size]: a rank's number on its host */
    uint32_t *first;            /* [count + 1]: where a host's ranks begin in: */
    uint32_t *ranks;            /* [size]: host after host, each in rank order */
};

/* host_of[size]: ranks with equal numbers share a host, whatever the numbers.  NULL: no memory. */
rd_hosts *rd_hosts_make(const uint32_t host_of[], uint32_t size);
/* `hosts` of `each` ranks, which follow each other */
rd_hosts *rd_hosts_even(uint32_t hosts, uint32_t each);
void rd_hosts_free(rd_hosts *hosts); /* accepts NULL */
bool rd_hosts_equal(const rd_hosts *a, const rd_hosts *b);

/* Whether the ranks do not all share a host. */
static inline bool rd_has_hosts(const rd_shape *s)
{
    return s->hosts && s->hosts->count > 1;
}

static inline bool rd_apart(const rd_shape *s, uint32_t a, uint32_t b)
{
    return s->hosts && s->hosts->of[a] != s->hosts->of[b];
}

/* --- for generators; without a map there is one host --- */

/* Where a rank stands. */
typedef struct {
    uint32_t hosts, host;       /* how many, and which is its own */
    uint32_t ranks, number;     /* on its host, and which of them it is */
    uint32_t smallest, largest; /* ranks of a host */
} rd_stand;

rd_stand rd_stand_of(rd_shape s, uint32_t rank);
/* Here, as a shape is long and they are called for every message */
static inline uint32_t rd_ranks_on(rd_shape s, uint32_t host)
{
    return s.hosts ? s.hosts->first[host + 1] - s.hosts->first[host] : s.size;
}

/* Number i of a host; if it has fewer ranks they are counted round */
static inline uint32_t rd_rank_on(rd_shape s, uint32_t host, uint32_t i)
{
    return s.hosts ? s.hosts->ranks[s.hosts->first[host] + i % rd_ranks_on(s, host)] : i % s.size;
}

/* The ranks of a host as rd_fold_many() takes them */
const uint32_t *rd_host_peers(rd_shape s, uint32_t host);

#endif
