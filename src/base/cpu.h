/* cpu.h: what this process may run on. */
#ifndef RD_CPU_H
#define RD_CPU_H

#include <stdint.h>

/* Cores that this process may use: its affinity, bounded by the cgroup's quota; at least 1. */
uint32_t rd_usable_cpus(void);

/* The same of several processes together, each of which may be bound to one. */
uint32_t rd_usable_cpus_of(const int32_t pids[], uint32_t count);

/* Which ones this process may use, as a number: another one for others. */
uint64_t rd_cpu_mark(void);

/* Of how many cores the cgroup's quota allows the time, rounded up; UINT32_MAX: there is none. */
uint32_t rd_cpu_quota(void);
/* By what /proc/self/cgroup says, which is cut to pieces, and the groups' files below `base`; *files grows by how many
 * were opened, or tried. */
uint32_t rd_cpu_quota_by(char *lines, const char *base, uint32_t *files);

#endif
