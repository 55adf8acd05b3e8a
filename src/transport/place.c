/* place.c: see place.h. */
#include "transport/place.h"

#include <stdlib.h>

#include "base/mem.h"

/* A rank, for sorting by host and then by cores: ranks that share them stand beside each other. */
typedef struct {
    uint64_t host, cores;
    uint32_t rank;
} seat;

static int compare(const void *a, const void *b)
{
    const seat *x = a, *y = b;
    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    if (x->cores != y->cores)
        return x->cores < y->cores ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* by_cores: else in the order of ranks.  NULL: no memory */
static seat *sorted(const rd_place places[], uint32_t size, bool by_cores)
{
    seat *seats = rd_alloc(size * sizeof *seats);
    for (uint32_t r = 0; seats && r < size; r++)
        seats[r] = (seat){places[r].host, by_cores ? places[r].cores : 0, r};
    if (seats)
        qsort(seats, size, sizeof *seats, compare);
    return seats;
}

/* The ranks of one host: the cores that they have together, and how many ranks they are. */
static uint64_t cpus_of(const rd_place places[], const seat seats[], uint32_t count)
{
    uint64_t cpus = 0, quota = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const rd_place *place = &places[seats[i].rank];
        quota = place->quota < quota ? place->quota : quota;
        cpus += i && seats[i].cores == seats[i - 1].cores ? 0 : place->cpus;
    }
    return cpus < quota ? cpus : quota;
}

bool rd_places_cpus(const rd_place places[], uint32_t size, uint32_t rank, uint32_t *cpus,
                    bool *crowded)
{
    uint64_t least = size;
    seat *seats = sorted(places, size, true);
    for (uint32_t from = 0, end; seats && from < size; from = end) {
        for (end = from; end < size && seats[end].host == seats[from].host;)
            end++;
        const uint64_t here = cpus_of(places, seats + from, end - from),
                       all = here * size / (end - from);
        least = all < least ? all : least;
        if (seats[from].host == places[rank].host)
            *crowded = here < end - from;
    }
    *cpus = least ? (uint32_t)least : 1;
    rd_free(seats);
    return seats != NULL;
}

bool rd_places_number(const rd_place places[], uint32_t size, uint32_t host_of[], uint32_t *hosts)
{
    seat *seats = sorted(places, size, false);
    *hosts = 0;
    for (uint32_t i = 0, first = 0; seats && i < size; i++) { /* the first rank of each host */
        first = i && seats[i].host == seats[i - 1].host ? first : seats[i].rank;
        host_of[seats[i].rank] = first;
    }
    for (uint32_t r = 0; seats && r < size; r++) /* which has its number before any other */
        host_of[r] = host_of[r] == r ? (*hosts)++ : host_of[host_of[r]];
    rd_free(seats);
    return seats != NULL;
}

bool rd_places_check(const rd_place *a, const rd_place *b)
{
    return a->checksum == RD_CHECKSUM_AUTO ? a->host != b->host : a->checksum == RD_CHECKSUM_ON;
}

uint32_t rd_places_disagree(const rd_place places[], uint32_t size)
{
    uint32_t r = 0;
    while (r < size && places[r].checksum == places[0].checksum)
        r++;
    return r;
}

const char *rd_checksum_name(uint8_t checksum)
{
    static const char *const names[] = {"auto", "0", "1"};
    return checksum <= RD_LAST_CHECKSUM ? names[checksum] : "?";
}
