/* mem_limit.h: how much memory the groups (cgroups) that this process is in still allow.
 *
 * A group that has used up its limit does not refuse memory: the system kills a process of it.  Whoever wants
 * much asks first.  Nothing is reserved: others may take it meanwhile. */
#ifndef RD_MEM_LIMIT_H
#define RD_MEM_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* May this process use so many bytes more, as far as its groups and the machine are concerned?  Little is not looked at. */
bool rd_memory_allows(size_t bytes);

/* Bytes that are left in the group and in every group above it; UINT64_MAX: there is no limit.  By what
 * /proc/self/cgroup says, and the groups' files below `base`; swap_free: of the machine. */
uint64_t rd_memory_room(const char *lines, const char *base, uint64_t swap_free);

#endif
