/* tcp.h: ranks that reach each other by sockets, wherever they are. */
#ifndef RD_TCP_H
#define RD_TCP_H

#include "transport/place.h"
#include "transport/transport.h"

extern const rd_transport rd_tcp;

typedef struct {
    uint32_t rank, size;
    rd_place *places;    /* [size], from rd_alloc */
    int listener;        /* where this rank's peers connect: its place says the port */
    char *key;           /* from rd_alloc, or NULL: none to be proved */
    uint64_t job;        /* the same for all ranks, and for no other job */
    uint64_t timeout_ns; /* for what close() owes, and for connecting */
} rd_tcp_parts;

/* places, listener and key are the link's from now on, whatever it returns. */
ronda_status rd_tcp_open(const rd_tcp_parts *parts, rd_link **out, rd_error *err);

#endif
