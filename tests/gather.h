/* gather.h: ranks of several hosts that look for each other, for tests: threads over the loopback. */
#ifndef RD_TEST_GATHER_H
#define RD_TEST_GATHER_H

#include "comm/rendezvous.h"
#include "harness.h"
#include "transport/ip.h"

enum { MOST_GATHERED = 512 };

typedef struct {
    rd_joining j; /* what it is told */
    uint32_t late_ms;
    bool absent; /* it never comes */
    ronda_status status;
    rd_error err;
    rd_tcp_parts parts;
    double seconds; /* it took */
} gathered_rank;

typedef struct {
    uint32_t size; /* how many threads */
    char address[100];
    gathered_rank *of;
} gathered;

uint16_t gather_port(void); /* that nobody has, just now */
bool gather_can_listen(const rd_ip *ip);
void gather_joining(rd_joining *j, uint32_t rank, uint32_t size, const char *address);
/* address NULL: a port of the loopback.  Each has the same key, and 20 s. */
gathered gather_open(uint32_t size, const char *address);
void gather_run(gathered *w);
/* All have the same table, and whoever is in it can be reached. */
void gather_check_parts(gathered *w);
uint64_t gather_hash(const rd_tcp_parts *parts);
void gather_free(rd_tcp_parts *parts);
void gather_close(gathered *w);

#endif
