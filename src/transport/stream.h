/* stream.h: what framing needs of a network: streams of bytes between ranks, and one place to wait for them.
 *
 *     tcp*.c      frames, credit, liveness, failure: knows ranks, and no descriptor
 *     ---------   rd_network: a rank's end of a network; rd_bytestream: one connection
 *     stream_tcp.c     sockets                tests/simulated.c       splits, delays and cuts, by a seed
 *
 * A kind of network is one row of functions.  Bytes of a stream arrive once, in order, or not at all; between two
 * streams there is no order.  Nothing blocks but wait(); answers() may take some hundred milliseconds.  Errors are
 * numbers of errno.  Only wake() and now_ns() may be called by any thread, and write() by whoever holds the lock of
 * what is above. */
#ifndef RD_STREAM_H
#define RD_STREAM_H

#include <sys/uio.h>

#include "transport/place.h"

typedef struct rd_stream_kind rd_stream_kind;

/* What every network begins with, and every stream. */
typedef struct {
    const rd_stream_kind *kind;
} rd_network;

typedef struct {
    const rd_stream_kind *kind;
    void *owner; /* set by who connects or accepts, before watch(): what an event names */
} rd_bytestream;

typedef struct {
    void *owner; /* of the stream; NULL: accept() may have something */
    bool
        reads; /* there are bytes, an end or an error to be read, in the system or inside the stream */
    bool writes; /* there is room; or opened() knows what has come of connecting */
} rd_stream_event;

struct rd_stream_kind {
    const char *name;
    /* The clock by which the network delays and the ranks above it count their time. */
    uint64_t (*now_ns)(rd_network *network);

    /* A stream that is being opened, or NULL and why. */
    rd_bytestream *(*connect)(rd_network *network, const rd_ip *to, uint16_t port, int *error);
    /* What has come of it: 0, it is open; EINPROGRESS, nothing yet; ECONNRESET, it was, and its peer has closed it;
     * or why not. */
    int (*opened)(rd_bytestream *stream);
    /* One that another rank has opened, and from where; NULL: none, and error is 0 or why. */
    rd_bytestream *(*accept)(rd_network *network, rd_ip *from, int *error);
    bool (*listen)(rd_network *network, bool on); /* whether wait() tells of those who connect */
    /* Does a process still listen there?  Of a rank whose stream has ended: has it died? */
    bool (*answers)(rd_network *network, const rd_ip *at, uint16_t port);

    /* As readv and writev do with a socket that does not block: -1 and EAGAIN, not now; 0 of read: the end. */
    ssize_t (*read)(rd_bytestream *stream, const struct iovec *parts, int count);
    ssize_t (*write)(rd_bytestream *stream, const struct iovec *parts, int count);
    /* Has write() taken bytes that go on only if it is called again, with none or with more?  NULL: never */
    bool (*owes)(rd_bytestream *stream);
    bool (*arrived)(
        rd_bytestream
            *stream); /* the peer's system has all that was written, or that cannot be known */
    bool (*silent)(
        rd_bytestream *stream); /* the peer's host has not acknowledged what it was sent for 15 s */
    void (*finish)(rd_bytestream *stream); /* nothing more will be written */
    void (*close)(rd_bytestream *stream);

    /* What wait() tells of a stream, from now on; false: no memory. */
    bool (*watch)(rd_bytestream *stream, bool reads, bool writes);
    /* Up to `most` events within so many ns; how many. */
    int (*wait)(rd_network *network, rd_stream_event events[], int most, uint64_t ns);
    void (*wake)(rd_network *network); /* a wait() ends soon */
    int (*descriptor)(
        const rd_network *network); /* readable when wait() has something; -1: there is none */

    /* A forked process gives back its copies, and changes nothing that its parent sees; streams stay to be closed. */
    void (*leave)(rd_network *network);
    void (*shut)(rd_network *network); /* all its streams are closed */
};

#endif
