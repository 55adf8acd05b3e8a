/* process.h: whether another process lives, where the system has no pidfd to wait for its end with: a kernel before
 * 5.3, valgrind, a container whose seccomp profile does not know the call. */
#ifndef RD_PROCESS_H
#define RD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* What errno is then. */
bool rd_process_unwatched(int error);
/* When it started, so that it is not taken for another one of the same number; 0: not known. */
uint64_t rd_process_start(int32_t pid);
/* It has ended, whether or not its parent knows. */
bool rd_process_gone(int32_t pid, uint64_t start);

#endif
