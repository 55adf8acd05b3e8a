/* run_link.h: the protocol between the launcher and the remote side on a host, over the standard input and output
 * of the host's agent.
 *
 *     launcher                                  remote side
 *                                          <--  RUN_HELLO, a line; lines before it are of the host's shell
 *     RUN_SETUP  ranks, program, ...       -->
 *                                          <--  RUN_READY  it could be started; a free port
 *     RUN_START  the address               -->
 *     RUN_INPUT, RUN_SIGNAL, ...           <->  RUN_WROTE, RUN_ENDED, RUN_VERDICT
 *                                          <--  RUN_DONE   nothing is left
 *     end of file
 *
 * A frame is the length of the rest (4 bytes, the lowest first), its kind (1 byte), and a body:
 * numbers of 8 bytes each, and then bytes.  Input and output are sent within a credit (RUN_CREDIT), so that commands
 * never wait behind them. */
#ifndef CLI_RUN_LINK_H
#define CLI_RUN_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run.h"

#define RUN_HELLO "ronda remote side 4\n"

enum {
    RUN_FRAME_MOST = 8 << 20,
    RUN_FRAME_HEAD = 5,
    RUN_WINDOW = 256 << 10, /* credit at the start: bytes of output, or of input, on their way */
    RUN_NUMBERS = 7         /* the most in a frame */
};

enum {
    RUN_SETUP = 1,
    RUN_START,   /* the address where ranks meet */
    RUN_SIGNAL,  /* number: for the ranks */
    RUN_FAILURE, /* something failed on another host: give ranks a moment, and then end them */
    RUN_END,     /* end them now */
    RUN_KILL,    /* without grace */
    RUN_INPUT,   /* bytes for rank 0; none: the end of them */
    RUN_READY,   /* port, or 0; of rank 0's host: a better address than its name */
    RUN_WROTE,   /* rank, RUN_OUT or RUN_ERR; bytes */
    RUN_ENDED,   /* rank; pid, status, ns, saw, failed: of its run_end */
    RUN_VERDICT, /* why, culprit, detail: why the host ends its ranks, if it is not that one failed */
    RUN_DONE,
    RUN_CREDIT, /* RUN_OUT, RUN_ERR or RUN_IN; so many bytes more may be sent */
    RUN_PING    /* to be answered by another */
};

enum { RUN_IN = 2 };

/* A ping is sent this often; a side that has received nothing for RUN_SILENCE_NS takes the other for lost. */
static const uint64_t RUN_PING_NS = 10000000000, RUN_SILENCE_NS = 60000000000;

typedef struct {
    int kind;
    uint64_t numbers[RUN_NUMBERS]; /* those that it has; the others are 0 */
    const char *bytes;             /* behind the numbers of this kind; good until the next read */
    size_t length;
} run_frame;

typedef struct {
    char *at; /* in use: from .. to */
    size_t from, to, capacity;
} run_bytes;

typedef struct {
    int in, out; /* do not block; -1: closed */
    bool lost;   /* nothing more will be received */
    run_bytes got, put;
    uint64_t heard_ns; /* when bytes were received last */
} run_link;

void run_link_open(run_link *l, int in, int out); /* they are the link's from now on */
void run_link_close(run_link *l);

void run_link_put(run_link *l, int kind, const uint64_t numbers[], size_t count, const void *bytes,
                  size_t length);
void run_link_read(run_link *l);  /* what is there now */
void run_link_write(run_link *l); /* what there is room for now */

/* The next whole frame.  false: there is none; if what came is no frame, the link is lost. */
bool run_link_next(run_link *l, run_frame *out);

/* A frame at the beginning of some bytes: how many it takes, 0: it is not whole yet, -1: it is none. */
long run_frame_read(const char *bytes, size_t length, run_frame *out);

/* --- RUN_SETUP: what a host is to run --- */

typedef struct {
    run_request request; /* size, first, count, bind, verbose, grace_ns, program */
    bool port;           /* find a free one: rank 0 is on this host */
    char *directory;
    char *name;         /* of the host, if rank 0 is there and --addr was not given; else "" */
    char **environment; /* NAME=VALUE; NULL ends them */
    void *memory;       /* that all pointers point into, if it was read */
} run_setup;

bool run_setup_put(run_link *l, const run_setup *s); /* false: too much for a frame */
bool run_setup_read(const run_frame *f, run_setup *out);
void run_setup_free(run_setup *s);

#endif
