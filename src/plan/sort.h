/* sort.h: numbers in order, by digits: plans have thousands, and comparing them took most of their time. */
#ifndef RD_SORT_H
#define RD_SORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t key;
    uint32_t value;
} rd_sortable;

/* Sorts by key; equal ones stay in their order.  spare: as many again, overwritten. */
void rd_sort(rd_sortable items[], rd_sortable spare[], uint32_t count);

#endif
