/* place.h: where a rank is and how it can be reached: what ranks know of each other before they
 * connect. */
#ifndef RD_PLACE_H
#define RD_PLACE_H

#include <stdbool.h>
#include <stdint.h>

enum { RD_ADDRESSES = 8, RD_HOST_NAME = 64 };

typedef struct {
    uint8_t family;    /* 4 or 6 */
    uint8_t bytes[16]; /* as they are on the wire; 4: the first four */
    uint32_t scope;    /* 6: of a link-local address, as its own host counts; else 0 */
} rd_ip;

typedef struct {
    uint64_t host;           /* ranks with the same number can share memory */
    char name[RD_HOST_NAME]; /* of the host, for people */
    int32_t pid;
    uint32_t cpus;  /* cores that it may use */
    uint32_t quota; /* of how many all ranks of its host have the time; UINT32_MAX: of all */
    uint64_t cores; /* which they are: ranks with the same number share them, others do not */
    uint16_t port;  /* where it listens */
    uint8_t count;
    rd_ip at[RD_ADDRESSES]; /* best first */
} rd_place;

/* Cores for all ranks together, as on the host that has fewest for each of its own.  *crowded: this rank's has
 * fewer cores than ranks. */
uint32_t rd_places_cpus(const rd_place places[], uint32_t size, uint32_t rank, bool *crowded);

#endif
