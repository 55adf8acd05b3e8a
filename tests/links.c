/* links.c: see links.h. */
#include "links.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MOST = 64 };

bool links_local(uint32_t size, rd_link *links[])
{
    rd_error err = {0};
    return rd_local_open(size, links, &err) == RONDA_OK;
}

bool links_shm(uint32_t size, rd_link *links[])
{
    rd_error err = {0};
    int bells[MOST], own[MOST];
    int32_t pids[MOST];
    ronda_status status = RONDA_OK;
    const int memory = size <= MOST ? rd_shm_create(size, &err) : -1;

    if (memory < 0)
        return false;
    for (uint32_t r = 0; r < size; r++) {
        bells[r] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        pids[r] = getpid();
    }
    status = rd_shm_prepare(memory, pids, size, &err);
    for (uint32_t rank = 0; rank < size && !status; rank++) {
        for (uint32_t r = 0; r < size; r++)
            own[r] = dup(bells[r]);
        const rd_shm_parts parts = {
            .rank = rank, .size = size, .memfd = memory, .doorbells = own, .pids = pids};
        status = rd_shm_open(&parts, &links[rank], &err);
    }
    for (uint32_t r = 0; r < size; r++)
        close(bells[r]);
    close(memory);
    if (status)
        fprintf(stderr, "%s\n", err.message);
    return !status;
}
