/* shm_inside.h: what shm.c, shm_heap.c and shm_parts.c know of each other. */
#ifndef RD_SHM_INSIDE_H
#define RD_SHM_INSIDE_H

#include "base/exits.h"
#include "transport/heap.h"
#include "transport/share.h"

/* The memory of a part of the world, in the heap of the rank that made it. */
typedef struct shm_part {
    struct shm_part *next;
    rd_share_head *head;
    size_t bytes;
} shm_part;

/* This rank's end of a part. */
typedef struct shm_end {
    rd_member member;
    struct shm_end *next;
    const uint32_t *names; /* what its ranks are called in sentences; NULL: as they are counted */
} shm_end;

/* A rank that was inside a call of a world that had failed, and did not leave it in time.  It may be in the
 * middle of storing into what it was lent, until its board says something else or it is dead. */
typedef struct shm_silent {
    struct shm_silent *next;
    const rd_board *board;
    uint64_t entered; /* what the board said */
    uint32_t rank;    /* in the whole */
} shm_silent;

/* Freed, but not to be used again as long as anybody is silent. */
typedef struct shm_held {
    struct shm_held *next;
    uint64_t at;
} shm_held;

typedef struct {
    rd_member member;
    rd_exit_note exits;
    void *mapping;
    size_t bytes;
    int epoll, memfd;
    int also; /* another descriptor that wakes it, and what is then called; -1: none */
    void (*then)(void *context);
    void *then_context;
    const uint32_t *names; /* what ranks are called in sentences; NULL: as they are counted */
    const char *host;      /* and their host; NULL: not at all */
    bool unwatched;     /* the system has no pidfds: who waits looks after its peers now and then */
    uint64_t looked_ns; /* when it last did */
    rd_heap heap;
    uint64_t heap_at; /* in the mapping */
    shm_silent *silent;
    shm_held *held;
    bool distrusts;         /* there was no memory to note who is silent: nothing is used again */
    struct shm_part *parts; /* that this rank has made the memory of */
    struct shm_end
        *ends; /* of parts that are closed, but peers have still to read what they staged */
    struct peer {
        int doorbell, life; /* eventfd, pidfd; -1: none */
        int32_t pid;
        uint64_t start; /* without a pidfd: when it started */
        bool dead;
    } * peers;
} shm_link;

_Static_assert(offsetof(shm_end, member) == 0 && offsetof(shm_link, member) == 0,
               "a member is the beginning of its link");

static inline size_t page(size_t bytes)
{
    return rd_heap_pages(bytes);
}

/* The link to the whole world, which has everything that is not messages. */
static inline shm_link *whole_of(const rd_link *link)
{
    return (shm_link *)rd_member_of((rd_link *)link)->whole;
}

/* shm.c */
bool rd_shm_is_dead(shm_link *s, uint32_t rank);

/* shm_heap.c */
/* After quiesce: notes who is still inside. */
void rd_shm_note_silent(rd_link *link);
void rd_shm_free_heap(shm_link *s);
/* From the heap, of which so much is fetched now */
void *rd_shm_take(shm_link *s, size_t bytes, size_t now);
void *rd_shm_alloc(rd_link *link, size_t bytes);
void rd_shm_free(rd_link *link, void *memory, size_t bytes);

/* shm_parts.c */
void rd_shm_reap_ends(
    shm_link *s); /* ends of parts that are closed, and all of whose bytes have been read */
ronda_status rd_shm_split(rd_link *link, const uint32_t members[], uint32_t size, uint32_t rank,
                          rd_offer *out, rd_error *err);
ronda_status rd_shm_join(rd_link *link, const rd_offer offers[], const uint32_t members[],
                         uint32_t size, uint32_t rank, rd_link **out, rd_error *err);
void rd_shm_withdraw(rd_link *link, const rd_offer *offer, const uint32_t members[], uint32_t size);

#endif
