/* stream_tcp.h: a network of sockets. */
#ifndef RD_STREAM_TCP_H
#define RD_STREAM_TCP_H

#include "transport/stream.h"

/* The listener is the network's from now on, whatever it returns.  NULL: errno says why */
rd_network *rd_stream_tcp_open(int listener);
int rd_stream_tcp_socket(const rd_bytestream *stream); /* for tests that cut it */

#endif
