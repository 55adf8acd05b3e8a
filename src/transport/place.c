/* place.c: see place.h. */
#include "transport/place.h"

/* Whether a rank before this one is of the same host; of_cores: and shares its cores. */
static bool has_elder(const rd_place places[], uint32_t rank, bool of_cores)
{
    for (uint32_t r = 0; r < rank; r++)
        if (places[r].host == places[rank].host &&
            (!of_cores || places[r].cores == places[rank].cores))
            return true;
    return false;
}

/* The cores that the ranks of a host have together, and how many ranks that are. */
static uint64_t cpus_of(const rd_place places[], uint32_t size, uint64_t host, uint64_t *ranks)
{
    uint64_t cpus = 0, quota = UINT32_MAX;
    *ranks = 0;
    for (uint32_t r = 0; r < size; r++) {
        const rd_place *place = &places[r];
        if (place->host != host)
            continue;
        (*ranks)++;
        quota = place->quota < quota ? place->quota : quota;
        cpus += has_elder(places, r, true) ? 0 : place->cpus;
    }
    return cpus < quota ? cpus : quota;
}

uint32_t rd_places_cpus(const rd_place places[], uint32_t size, uint32_t rank, bool *crowded)
{
    uint64_t least = size;
    for (uint32_t r = 0; r < size; r++) {
        uint64_t ranks;
        if (has_elder(places, r, false))
            continue;
        const uint64_t cpus = cpus_of(places, size, places[r].host, &ranks);
        const uint64_t all = cpus * size / ranks;
        least = all < least ? all : least;
        if (places[r].host == places[rank].host)
            *crowded = cpus < ranks;
    }
    return least ? (uint32_t)least : 1;
}
