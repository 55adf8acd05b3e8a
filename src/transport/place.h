/* place.h: where a rank is and how it can be reached: what ranks know of each other before they
 * connect. */
#ifndef RD_PLACE_H
#define RD_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/proof.h"

enum { RD_ADDRESSES = 8, RD_HOST_NAME = 64 };

/* Whether frames between ranks have checksums: between hosts alone, nowhere, or everywhere. */
typedef enum {
    RD_CHECKSUM_AUTO,
    RD_CHECKSUM_OFF,
    RD_CHECKSUM_ON,
    RD_LAST_CHECKSUM = RD_CHECKSUM_ON
} rd_checksum;

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
    uint8_t nonce[RD_NONCE]; /* drawn for this job: its data connections prove the key with it */
    uint16_t port;           /* where it listens */
    uint8_t count;
    uint8_t checksum;       /* an rd_checksum: what it was told, the same for all ranks */
    rd_ip at[RD_ADDRESSES]; /* best first */
} rd_place;

/* Cores for all ranks together, as on the host that has fewest for each of its own.  *crowded: this rank's has
 * fewer cores than ranks. */
bool rd_places_cpus(const rd_place places[], uint32_t size, uint32_t rank, uint32_t *cpus,
                    bool *crowded);
/* Numbers hosts as they appear: host_of[size].  Like the above, it takes some times `size`; false: no memory */
bool rd_places_number(const rd_place places[], uint32_t size, uint32_t host_of[], uint32_t *hosts);

/* Whether frames between the two have checksums: both ends know it without asking. */
bool rd_places_check(const rd_place *a, const rd_place *b);
/* The first rank that was told otherwise than rank 0; `size`: there is none */
uint32_t rd_places_disagree(const rd_place places[], uint32_t size);
const char *rd_checksum_name(uint8_t checksum); /* as RONDA_CHECKSUM has it */

#endif
