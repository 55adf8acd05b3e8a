/* cpu.h: what this process may run on. */
#ifndef RD_CPU_H
#define RD_CPU_H

#include <stdint.h>

/* Cores that this process may use: its affinity, bounded by the cgroup's quota; at least 1. */
uint32_t rd_usable_cpus(void);

#endif
