/* mem.h: the only place that asks libc or the system for memory. */
#ifndef RD_MEM_H
#define RD_MEM_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed, 64-byte aligned; NULL: none; 0 bytes: not NULL */
void *rd_alloc(size_t bytes);
/* For arrays that grow; p from rd_realloc or NULL; not zeroed */
void *rd_realloc(void *p, size_t bytes);
void rd_free(void *p); /* of either; NULL is fine */

/* Zero pages that cost nothing until they are touched. */
void *rd_map(size_t bytes);
/* The same, but refused if the machine has not so much. */
void *rd_pages(size_t bytes);
/* What a file holds, shared with whoever maps it too.  NULL: errno says why. */
void *rd_map_file(int fd, size_t bytes);
void rd_unmap(void *p, size_t bytes);
/* Zeros, and zeros again in a process that is forked.  NULL: the kernel has no such thing. */
void *rd_map_wiped(size_t bytes);

/* For what takes memory by other ways: has a test asked for refusals? */
bool rd_mem_refused(void);
/* Tests: the next call after n good ones fails, and so does every one after it; -1: none does. */
void rd_mem_fail_after(long n);

#endif
