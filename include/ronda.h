/* ronda.h: collective communication for distributed training.
 *
 * A program joins a group of ranks (a communicator) and then calls collectives: operations that
 * every rank of the group calls, in the same order, with matching arguments.
 *
 *     ronda_comm *comm;
 *     if (ronda_init(NULL, &comm))              // each process started by `ronda run -n 4 -- PROGRAM`
 *         die(ronda_last_error(NULL));
 *     if (ronda_allreduce(comm, grads, grads, count, RONDA_F32, RONDA_MEAN))
 *         die(ronda_last_error(comm));
 *     ronda_close(comm);
 *
 * Ranks are processes of one host or of several (ronda_init), or threads of one process
 * (ronda_init_local).
 *
 * Every function that can fail returns a ronda_status: RONDA_OK or a negative value;
 * ronda_last_error() then tells in one sentence what went wrong, who and where.  Counts are in
 * elements and 64 bits wide.  Zero elements and a group of one rank are ordinary cases.
 *
 * A communicator is used by one thread at a time; ronda_abort() alone may be called from any
 * thread.  The library starts no thread of its own unless it is asked to (RONDA_PROGRESS_THREAD; but for one
 * that looks up a host's name, while a world starts), prints nothing that was not asked for and never exits the
 * process.  (A bug of ronda's own that breaks one of its invariants ends it by assert(), unless ronda was built
 * with -DNDEBUG.)  Descriptors 0, 1 and 2 are the
 * program's, also while it has them closed.
 *
 * A communicator belongs to the process that made it.  In a forked child every call on its copy, and on
 * requests and plans of it, is RONDA_EINVAL; ronda_close() gives back the child's descriptors and mappings and
 * tells nobody; communicators of its own are fine.  Memory from ronda_alloc() is shared with a child until it
 * closes, if ranks are processes of one host.  fork() and exec close sockets; a raw clone() does not: until such
 * a child closes, execs or ends, peers over sockets do not notice the rank's death.
 *
 * Environment, read when a communicator is made:
 *   RONDA_TIMEOUT  seconds until a call that waits gives up (60)
 *   RONDA_ALGO     algorithms to use, such as "allreduce=ring,broadcast=tree" (chosen by cost)
 *   RONDA_LOG      "info" or "debug": say on standard error what is done (nothing is said)
 *   RONDA_PROGRESS "1": as the flag RONDA_PROGRESS_THREAD (no thread)
 *   RONDA_DEBUG    not empty and not "0": SIGUSR1 has the process say on standard error what is under
 *                  way, as ronda_dump() does (under `ronda run`, "1"; else SIGUSR1 is not touched)
 * and by ronda_init(), for ranks as processes; `ronda run` sets them:
 *   RONDA_RANK, RONDA_SIZE   this rank, and how many there are: up to 1024 that share memory, and up to 16384 over
 *                  sockets or several hosts
 *   RONDA_ADDR     where they meet: file:PATH of a socket to be made, or 127.0.0.1:PORT; ranks of several
 *                  hosts: HOST:PORT, where HOST is rank 0's, or file:PATH of a file to be made in a folder
 *                  that all see, with RONDA_TRANSPORT=hosts
 *   RONDA_TRANSPORT  "shm": memory that ranks of one host share; "tcp": sockets; "hosts": memory inside
 *                  a host, sockets between; "auto": "hosts" if RONDA_ADDR is another address than
 *                  file:PATH or the loopback's, else "shm" (auto)
 *   RONDA_KEY      a secret that all ranks of the job know
 *   RONDA_INSECURE "1": as the flag RONDA_INSECURE (a key is needed where other hosts can connect, and without
 *                  one only processes of the same user are let in)
 *   RONDA_IFACE    interfaces to use between hosts, "eth0,ib0", or not to use, "^docker0" (all)
 *   RONDA_CHECKSUM "1": everything that ranks send each other over sockets has a checksum, "0": nothing has, "auto":
 *                  what is sent to another host has; the same for all ranks (auto)
 *
 * Checksums (CRC32C) find what a network, a network card or a kernel changed by accident.  What does not match is never
 * used: all ranks get RONDA_ESYSTEM, and the message says between which two ranks and, where it is known, in which
 * call.  Errors of up to three bits of a frame are always found, and of others all but one in four thousand
 * million.  They are no protection against an attacker, who could change the checksum too, and nothing is
 * encrypted.
 */
#ifndef RONDA_H
#define RONDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RONDA_API __attribute__((visibility("default")))
/* Compilers warn where the status of such a call is not looked at.  All that return one are, but those after
 * which a program that cleans up or reports goes on in any case (ronda_close(), ronda_abort(), ronda_free(),
 * ronda_dump()) and ronda_set_timeout(), which refuses arguments only. */
#define RONDA_TRY RONDA_API __attribute__((warn_unused_result))
#else
#define RONDA_API
#define RONDA_TRY RONDA_API
#endif

/** Version of this header: major * 10000 + minor * 100 + patch.  ronda_version() is the library's. */
#define RONDA_VERSION 100

typedef int32_t ronda_status;
typedef int32_t ronda_type;
typedef int32_t ronda_op;
typedef int32_t ronda_kind;

/** What a call came to.  The values are frozen. */
enum {
    RONDA_OK = 0,
    RONDA_EINVAL = -1,   /**< an argument cannot be right; nothing was sent, all is as before */
    RONDA_ENOMEM = -2,   /**< no memory; nothing was sent, all is as before */
    RONDA_ETIMEOUT = -3, /**< the deadline passed; the message names who was missing */
    RONDA_EPEER = -4, /**< a rank that was needed has closed or died, or the way to it was lost */
    RONDA_EMISMATCH = -5,    /**< two ranks made different calls; the message has both */
    RONDA_ELIMIT = -6,       /**< more than this build or machine allows */
    RONDA_EUNSUPPORTED = -7, /**< not offered by this version */
    RONDA_ESYSTEM = -8,      /**< the system refused something, or a connection corrupts data */
    RONDA_EABORTED = -9,     /**< a rank called ronda_abort(); the message has its reason */
    RONDA_EINTERNAL = -10    /**< a bug in ronda */
};

/*
 * The numbers of types (1 to 99), ops (101 to 199; your own from 1000 on) and collectives (201 to 299) have
 * none in common: a call whose type and op are swapped is RONDA_EINVAL, not another call.
 */

/** Element types.  The values are frozen; 13 and 14 are kept for 8-bit floats. */
enum {
    RONDA_F16 = 1, /**< IEEE half precision */
    RONDA_BF16,    /**< bfloat16 */
    RONDA_F32,
    RONDA_F64,
    RONDA_I8,
    RONDA_U8,
    RONDA_I16,
    RONDA_U16,
    RONDA_I32,
    RONDA_U32,
    RONDA_I64,
    RONDA_U64
};

/**
 * Reductions.  The values are frozen.
 *
 * Integers wrap around in their type.  MEAN sums, then divides by the number of ranks: floats by a
 * true division, integers truncating toward zero.  F16 and BF16 are computed in f32 and rounded to
 * nearest even: once at the end where an algorithm folds all ranks in one pass ("direct"), after
 * each addition otherwise.  MIN and MAX of floats give NaN if any element is NaN.  Infinities follow
 * IEEE 754.  Which NaN (sign and payload) comes out is not promised.  BAND, BOR and BXOR are for
 * integers only.
 */
enum {
    RONDA_SUM = 101,
    RONDA_MEAN,
    RONDA_PROD,
    RONDA_MIN,
    RONDA_MAX,
    RONDA_BAND,
    RONDA_BOR,
    RONDA_BXOR
};

/** Collectives.  The values are frozen. */
enum {
    RONDA_ALLREDUCE = 201,
    RONDA_REDUCE,
    RONDA_BROADCAST,
    RONDA_ALLGATHER,
    RONDA_ALLGATHERV,
    RONDA_REDUCE_SCATTER,
    RONDA_REDUCE_SCATTERV,
    RONDA_GATHER,
    RONDA_GATHERV,
    RONDA_SCATTER,
    RONDA_SCATTERV,
    RONDA_ALLTOALL,
    RONDA_ALLTOALLV,
    RONDA_SCAN,
    RONDA_EXSCAN,
    RONDA_BARRIER
};

/** Any rank or any tag, of a receive; "no rank" in ronda_error. */
#define RONDA_ANY UINT32_MAX

/** This rank's end of a group of ranks. */
typedef struct ronda_comm ronda_comm;

/** A collective or a message under way. */
typedef struct ronda_request ronda_request;

/** A collective planned once, to be run often. */
typedef struct ronda_plan ronda_plan;

/** A way to compress; none in this version. */
typedef struct ronda_compressor ronda_compressor;

/** Flags of ronda_config. */
enum {
    /** Calls under way move by themselves, by a thread of ronda's: one for the world and all communicators
     *  split off it.  Each call then takes a lock.  Without it they move while the program is in a call of
     *  one of these communicators that waits or tests. */
    RONDA_PROGRESS_THREAD = 1,
    /** Over sockets ranks may join without a key, also ranks of several hosts: whoever can connect is let in,
     *  whatever its user. */
    RONDA_INSECURE = 2
};

/** How to join a world.  Set struct_size to sizeof(ronda_config) and what you need; a field that is
 *  zero or NULL is taken from the environment, then from the default. */
typedef struct {
    size_t struct_size;
    uint32_t rank, size;       /**< this rank and how many there are; size 0: one */
    uint32_t flags;            /**< RONDA_PROGRESS_THREAD | RONDA_INSECURE, or 0 */
    const char *addr;          /**< where ranks meet: file:PATH or HOST:PORT */
    const char *key;           /**< the job's secret; NULL: none */
    const char *transport;     /**< "shm", "tcp", "auto" or NULL */
    const char *tuning;        /**< a tuning file; NULL in this version */
    uint64_t timeout_ns;       /**< how long a call waits (60 s) */
    uint64_t start_timeout_ns; /**< how long joining may take (timeout_ns) */
    /** Gets each log line; level 1 info, 2 debug */
    void (*log)(void *context, int level, const char *line);
    void *log_context;
} ronda_config;

/** An error in full. */
typedef struct {
    size_t struct_size;
    ronda_status status;
    uint32_t rank;     /**< the rank that found it */
    uint32_t peer;     /**< the rank it is about, or RONDA_ANY */
    uint64_t sequence; /**< number of the collective, from 1; 0: none */
    char message[480];
} ronda_error;

/**
 * Join a world of processes, on this host or on several.  With NULL, rank, size, address and key come from the
 * environment; with no size there and none in config: a world of one rank.
 *
 * Returns when all ranks have joined, or fails when the start's timeout has passed; the error then
 * names the ranks that did not come.
 *
 * Who gets in: with a key, processes that prove that they know it (HMAC-SHA-256); ranks that share memory must be of
 * the same user, too.  Without a key, only processes of the same user on this host.  With RONDA_INSECURE and no
 * key, over sockets, whoever can connect.  Before a process has proved that it belongs here it is told nothing of
 * the world, and connections of others hold up no rank.  What ranks send each other is not encrypted, and a rank
 * that connects to another sends its rank, the size of the world and its first data before the other has answered.
 * The mac is made by libcrypto, which is looked for at run time: without it ranks that share memory are known by
 * their user alone (a key that is another by mistake is still noticed), and sockets need RONDA_INSECURE.
 *
 * @return RONDA_OK and the communicator in *out; else *out is untouched and ronda_last_error(NULL)
 *         in this thread says why.
 */
RONDA_TRY ronda_status ronda_init(const ronda_config *config, ronda_comm **out);

/** Make a world of `size` ranks as threads of this process: comms[r] becomes rank r, to be used by a thread
 *  of its own.  Up to 1024 ranks.  Each is closed with ronda_close(). */
RONDA_TRY ronda_status ronda_init_local(uint32_t size, ronda_comm *comms[]);

/**
 * Leave the group and free the communicator; NULL is allowed.  Local: waits for no other rank,
 * except that up to the timeout it lets others finish reading what this rank still owes them.
 * Others see RONDA_EPEER only if they need something that this rank did not finish.
 *
 * It compares this rank's last calls with what the others have announced by now.  If one of them has made another
 * call of the same number, or has made more calls and closed, that is RONDA_EMISMATCH; if one has closed without a
 * call that this rank has made, it is RONDA_EPEER.  A rank that closes before the others have made the call in
 * question is not told: those that close later are.  Over sockets it knows what has come from the others so far:
 * ranks between which nothing was sent, or that close a subcommunicator at the same moment, may both miss it.
 *
 * With requests that nobody has waited for it is RONDA_EINVAL, and the communicator stays open; unless
 * it has failed (or ronda_abort() was called): then it is closed and its requests are gone.  It is also
 * RONDA_EINVAL if a request of another communicator that was split off the same world has memory that
 * ronda_alloc() gave on this one.  Its plans are of no use any more, but are still to be freed.
 *
 * A process that exits without closing is told of as one that died, and, unless it was killed or ended by _exit(),
 * as one that "exited without closing its communicator"; over sockets only by those that it was connected with.
 *
 * Of any other failure ronda_last_error(NULL) says why: the communicator is gone.  One that has failed before, and
 * said so, closes with RONDA_OK.
 */
RONDA_API ronda_status ronda_close(ronda_comm *comm);

/**
 * Make a communicator of some ranks of this one: those that give the same color, ordered by key, then by
 * rank.  With a negative color a rank is in none, and *out becomes NULL.  A collective of `comm`.
 *
 * The new communicator may be split again, and may be closed before or after the others.  It has its own
 * calls, order and failures; what it was split off may fail without it, but ronda_abort() of the world
 * ends it too.  One thread at a time uses a communicator and all that were split off it; whichever of
 * them waits, calls under way on the others move, too.
 *
 * A rank that has no memory for its end is an error on all of them, and no communicator is made.
 */
RONDA_TRY ronda_status ronda_split(ronda_comm *comm, int color, int key, ronda_comm **out);

/** Make every rank's current and later calls fail with RONDA_EABORTED and this reason (NULL: none
 *  given).  Any thread may call it.  If the communicator has failed already, the first cause stays. */
RONDA_API ronda_status ronda_abort(ronda_comm *comm, const char *reason);

/**
 * Memory that this machine's ranks share: zeroed, aligned to a page, and collectives on it copy
 * nothing, since peers read and write it where it lies.  Each rank asks for its own; where one rank's
 * buffers come from here and another's do not, calls are right all the same.  Freed by ronda_free(),
 * at the latest by ronda_close().  RONDA_ENOMEM: there is not so much, or a memory cgroup of this process has not
 * so much left just now; nothing is reserved.
 *
 * After a failure, a rank that was only stopped may go on and store into buffers of the failed call that
 * are from here, until it notices or is dead.  Free them and ask anew: what was freed is not given out
 * before that.
 */
RONDA_TRY ronda_status ronda_alloc(ronda_comm *comm, size_t bytes, void **out);

/** Free what ronda_alloc() gave on this communicator (NULL: nothing).  RONDA_EINVAL: it did not; or a request that
 *  nobody has waited for has some of it, here or on a communicator split off the same world, and is named. */
RONDA_API ronda_status ronda_free(ronda_comm *comm, void *ptr);

/** How long a call may wait for others before it fails with RONDA_ETIMEOUT, a split and ronda_close() too; 0 is
 *  RONDA_EINVAL.  The clock runs only while a thread waits inside ronda.  To tell the others of a failure, and to
 *  let them leave this rank's memory, may take up to a fifth of it more, and 0.1 s at the least. */
RONDA_API ronda_status ronda_set_timeout(ronda_comm *comm, uint64_t timeout_ns);

/** This rank, 0 .. size-1. */
RONDA_API uint32_t ronda_rank(const ronda_comm *comm);

/** How many ranks there are. */
RONDA_API uint32_t ronda_size(const ronda_comm *comm);

/** Version of the library, in the form of RONDA_VERSION. */
RONDA_API uint32_t ronda_version(void);

/** Bytes of one element; 0 for what is not a type. */
RONDA_API size_t ronda_type_size(ronda_type type);

/** Divide `count` elements over `size` ranks: block r is [r*count/size, (r+1)*count/size).  Every
 *  element is in exactly one block, and lengths differ by at most one.  A rank of `size` or more, or
 *  a size of 0, gets an empty block at `count`. */
RONDA_API void ronda_block(size_t count, uint32_t size, uint32_t rank, size_t *offset,
                           size_t *length);

/** A short text for a status, never NULL. */
RONDA_API const char *ronda_strerror(ronda_status status);

/** The sentence of this communicator's last failure, "" if there was none.  It stays until the next
 *  failure.  NULL: of this thread's last failed ronda_init() or ronda_init_local(),
 *  or of its last call that was given no communicator. */
RONDA_API const char *ronda_last_error(const ronda_comm *comm);

/** The same, with its parts.  Set out->struct_size first. */
RONDA_API void ronda_get_error(const ronda_comm *comm, ronda_error *out);

/**
 * Write what is under way to a descriptor, as text for people: a line about the communicator (rank,
 * size, transport, collectives called, whether it has failed and why), then one for each collective
 * that was started and not waited for: its number and description, the algorithm, how many of its steps
 * are done, and which ranks it awaits; or that it is done.  Messages under way follow, and what has come
 * that no receive was posted for.
 *
 *     rank 1 of 4 over shm: 6 calls made, not failed, 1 under way, 1 to be waited for
 *       allreduce #5 of 70000 f32, sum (ring): done, not waited for
 *       allreduce #6 of 70000 f32, sum (ring): 3 of 12 steps done, awaits rank 0
 *
 * Local: it moves nothing and waits for no rank, and a communicator that has failed can be asked too.
 * The text may change from version to version.  RONDA_ESYSTEM: the descriptor cannot be written to, or
 * not all of it could; a reader that is gone raises no SIGPIPE.  The communicator is as before.
 *
 * To ask a process that hangs, set RONDA_DEBUG to 1 before it starts and send it SIGUSR1; `ronda run` sets
 * it, and passes the signal on to those of its processes that catch it.  Each of its communicators then writes
 * its dump to standard error: one that is inside a call (and all that were split off the same world) within a
 * quarter of a second, and any other at its next call.  The handler is there from the first communicator made to
 * the last one closed, unless the program had its own for SIGUSR1, or ignored it, by then.
 */
RONDA_API ronda_status ronda_dump(ronda_comm *comm, int fd);

/*
 * Collectives.  Every rank of the communicator calls them in the same order with equal count, type,
 * op and root.  They block until this rank's part is done, or fail at the communicator's timeout.
 * Ranks that get the same result get the same bits.  Ranks that disagree get RONDA_EMISMATCH: those still inside, and
 * a rank already out of the call at its next one, or from ronda_close().
 *
 * After RONDA_EINVAL or RONDA_ENOMEM the communicator is as good as before and the call counts as
 * not made.  After any other failure it has failed for good: every later call returns the same
 * cause at once, on every rank.
 */

/** Sum (or fold with any op) `count` elements over all ranks; every rank gets the result.
 *  `send` may equal `recv`; any other overlap is RONDA_EINVAL. */
RONDA_TRY ronda_status ronda_allreduce(ronda_comm *comm, const void *send, void *recv, size_t count,
                                       ronda_type type, ronda_op op);

/** The same, but only rank `root` gets the result; `recv` of the others is not looked at.
 *  At the root `send` may equal `recv`. */
RONDA_TRY ronda_status ronda_reduce(ronda_comm *comm, const void *send, void *recv, size_t count,
                                    ronda_type type, ronda_op op, uint32_t root);

/** Copy `count` elements from rank `root` to every other rank. */
RONDA_TRY ronda_status ronda_broadcast(ronda_comm *comm, void *buf, size_t count, ronda_type type,
                                       uint32_t root);

/** Every rank gives `count` elements; every rank gets all size * count, in rank order.
 *  `send` may be this rank's block of recv, recv + rank * count; any other overlap is RONDA_EINVAL. */
RONDA_TRY ronda_status ronda_allgather(ronda_comm *comm, const void *send, void *recv, size_t count,
                                       ronda_type type);

/** The same with blocks of different lengths: rank r gives counts[r] elements, and blocks follow each
 *  other without gaps.  counts[] has a number for each rank and is equal on all ranks. */
RONDA_TRY ronda_status ronda_allgatherv(ronda_comm *comm, const void *send, void *recv,
                                        const size_t counts[], ronda_type type);

/** Fold size * count elements over all ranks; rank r gets block r of the result, `count` elements.
 *  `recv` may be this rank's block of send, send + rank * count; any other overlap is RONDA_EINVAL. */
RONDA_TRY ronda_status ronda_reduce_scatter(ronda_comm *comm, const void *send, void *recv,
                                            size_t count, ronda_type type, ronda_op op);

/** The same with blocks of different lengths: rank r gets counts[r] elements.  counts[] is equal on
 *  all ranks. */
RONDA_TRY ronda_status ronda_reduce_scatterv(ronda_comm *comm, const void *send, void *recv,
                                             const size_t counts[], ronda_type type, ronda_op op);

/**
 * Every rank gives `count` elements; rank `root` gets all of them in rank order.  `recv` of the others
 * is not looked at.  At the root `send` may be its own block of recv.
 */
RONDA_TRY ronda_status ronda_gather(ronda_comm *comm, const void *send, void *recv, size_t count,
                                    ronda_type type, uint32_t root);

/** The same with counts[r] elements of rank r.  counts[] is equal on all ranks. */
RONDA_TRY ronda_status ronda_gatherv(ronda_comm *comm, const void *send, void *recv,
                                     const size_t counts[], ronda_type type, uint32_t root);

/**
 * Rank `root` gives every rank `count` elements, block r of its `send` to rank r.  `send` of the others
 * is not looked at.  At the root `recv` may be its own block of send.
 */
RONDA_TRY ronda_status ronda_scatter(ronda_comm *comm, const void *send, void *recv, size_t count,
                                     ronda_type type, uint32_t root);

/** The same with counts[r] elements for rank r.  counts[] is equal on all ranks. */
RONDA_TRY ronda_status ronda_scatterv(ronda_comm *comm, const void *send, void *recv,
                                      const size_t counts[], ronda_type type, uint32_t root);

/** Every rank gives every rank `count` elements: block r of `send` goes to rank r, and block r of `recv`
 *  comes from rank r.  `send` may equal `recv`; any other overlap is RONDA_EINVAL. */
RONDA_TRY ronda_status ronda_alltoall(ronda_comm *comm, const void *send, void *recv, size_t count,
                                      ronda_type type);

/**
 * The same with send_counts[r] elements to rank r and recv_counts[r] from it; blocks follow each other
 * without gaps.  Each rank has counts of its own.  If what one rank sends is not what the other
 * expects, that is RONDA_EMISMATCH.  Overlap of `send` and `recv` is RONDA_EINVAL.
 */
RONDA_TRY ronda_status ronda_alltoallv(ronda_comm *comm, const void *send,
                                       const size_t send_counts[], void *recv,
                                       const size_t recv_counts[], ronda_type type);

/**
 * Fold `count` elements over ranks 0 .. r, for each rank r, in rank order.  Ranks get results of their
 * own.  `send` may equal `recv`.  RONDA_MEAN is RONDA_EINVAL.
 */
RONDA_TRY ronda_status ronda_scan(ronda_comm *comm, const void *send, void *recv, size_t count,
                                  ronda_type type, ronda_op op);

/** The same over ranks 0 .. r-1; `recv` of rank 0 is left as it is. */
RONDA_TRY ronda_status ronda_exscan(ronda_comm *comm, const void *send, void *recv, size_t count,
                                    ronda_type type, ronda_op op);

/** Wait until every rank has called it. */
RONDA_TRY ronda_status ronda_barrier(ronda_comm *comm);

/** A message that was received. */
typedef struct {
    uint32_t peer, tag; /**< who sent it, and with which tag */
    size_t count;       /**< its elements */
} ronda_message;

/**
 * Send `count` elements to rank `peer`, which may be this rank.  `tag` is any number but RONDA_ANY.  Returns
 * when the buffer may be used again.  A message of up to 16 KiB is taken in by a receiver that has not asked
 * for it, as long as it has room (1 MiB, 4096 of them); it does so inside any call that waits or tests, and
 * while it is not inside one, about 2 KiB and 16 messages wait for it.  A longer message is sent when it
 * has been asked for, but it is announced, and that takes room for one of the 4096.  What has no room stands
 * in the way of whatever the same rank sends after it, with other tags too: so do not send more than that
 * before something that is to be received first.  A message that nobody has received when its receiver closes is
 * lost, and nobody is told.  Messages never wait for collectives.  They are no collectives: only these two
 * ranks take part, and order is kept only between messages of the same two ranks with the same tag.
 */
RONDA_TRY ronda_status ronda_send(ronda_comm *comm, const void *buf, size_t count, ronda_type type,
                                  uint32_t peer, uint32_t tag);

/**
 * Receive a message of up to `capacity` elements from rank `peer` with this tag; RONDA_ANY: from any rank,
 * with any tag.  *info (or NULL) tells what came.  If the message is longer, or of another type, that is
 * RONDA_EINVAL, and the message stays for a receive that fits.
 */
RONDA_TRY ronda_status ronda_recv(ronda_comm *comm, void *buf, size_t capacity, ronda_type type,
                                  uint32_t peer, uint32_t tag, ronda_message *info);

/*
 * Calls that do not block.  Each collective has a form whose name begins with i: it starts the
 * collective and puts a request into *out, which is to be waited for exactly once.  Until then the
 * buffers belong to ronda.  The rules of order are those of the blocking forms: every rank starts the
 * same collectives in the same order, blocking or not, but waits for them as it likes.  Any number may be
 * under way.  They move while a thread is inside any call of the communicator that waits or tests.
 *
 * counts[] need not last longer than the call.
 */
RONDA_TRY ronda_status ronda_iallreduce(ronda_comm *comm, const void *send, void *recv,
                                        size_t count, ronda_type type, ronda_op op,
                                        ronda_request **out);
RONDA_TRY ronda_status ronda_ireduce(ronda_comm *comm, const void *send, void *recv, size_t count,
                                     ronda_type type, ronda_op op, uint32_t root,
                                     ronda_request **out);
RONDA_TRY ronda_status ronda_ibroadcast(ronda_comm *comm, void *buf, size_t count, ronda_type type,
                                        uint32_t root, ronda_request **out);
RONDA_TRY ronda_status ronda_iallgather(ronda_comm *comm, const void *send, void *recv,
                                        size_t count, ronda_type type, ronda_request **out);
RONDA_TRY ronda_status ronda_iallgatherv(ronda_comm *comm, const void *send, void *recv,
                                         const size_t counts[], ronda_type type,
                                         ronda_request **out);
RONDA_TRY ronda_status ronda_ireduce_scatter(ronda_comm *comm, const void *send, void *recv,
                                             size_t count, ronda_type type, ronda_op op,
                                             ronda_request **out);
RONDA_TRY ronda_status ronda_ireduce_scatterv(ronda_comm *comm, const void *send, void *recv,
                                              const size_t counts[], ronda_type type, ronda_op op,
                                              ronda_request **out);
RONDA_TRY ronda_status ronda_igather(ronda_comm *comm, const void *send, void *recv, size_t count,
                                     ronda_type type, uint32_t root, ronda_request **out);
RONDA_TRY ronda_status ronda_igatherv(ronda_comm *comm, const void *send, void *recv,
                                      const size_t counts[], ronda_type type, uint32_t root,
                                      ronda_request **out);
RONDA_TRY ronda_status ronda_iscatter(ronda_comm *comm, const void *send, void *recv, size_t count,
                                      ronda_type type, uint32_t root, ronda_request **out);
RONDA_TRY ronda_status ronda_iscatterv(ronda_comm *comm, const void *send, void *recv,
                                       const size_t counts[], ronda_type type, uint32_t root,
                                       ronda_request **out);
RONDA_TRY ronda_status ronda_ialltoall(ronda_comm *comm, const void *send, void *recv, size_t count,
                                       ronda_type type, ronda_request **out);
RONDA_TRY ronda_status ronda_ialltoallv(ronda_comm *comm, const void *send,
                                        const size_t send_counts[], void *recv,
                                        const size_t recv_counts[], ronda_type type,
                                        ronda_request **out);
RONDA_TRY ronda_status ronda_iscan(ronda_comm *comm, const void *send, void *recv, size_t count,
                                   ronda_type type, ronda_op op, ronda_request **out);
RONDA_TRY ronda_status ronda_iexscan(ronda_comm *comm, const void *send, void *recv, size_t count,
                                     ronda_type type, ronda_op op, ronda_request **out);
RONDA_TRY ronda_status ronda_ibarrier(ronda_comm *comm, ronda_request **out);
RONDA_TRY ronda_status ronda_isend(ronda_comm *comm, const void *buf, size_t count, ronda_type type,
                                   uint32_t peer, uint32_t tag, ronda_request **out);
/** `info` is filled by the wait. */
RONDA_TRY ronda_status ronda_irecv(ronda_comm *comm, void *buf, size_t capacity, ronda_type type,
                                   uint32_t peer, uint32_t tag, ronda_message *info,
                                   ronda_request **out);

/** Any collective, with every option.  Set struct_size to sizeof(ronda_call), kind, and what the
 *  collective has; what it has not is not looked at. */
typedef struct {
    size_t struct_size;
    ronda_kind kind;
    ronda_type type;
    ronda_op op;
    uint32_t root;
    const void *send;
    void *recv; /**< broadcast: the buffer */
    size_t count;
    const size_t *counts;         /**< of those with counts; alltoallv: what is sent */
    const size_t *recv_counts;    /**< alltoallv */
    uint64_t timeout_ns;          /**< of its wait; 0: the communicator's */
    const char *algorithm;        /**< such as "ring", the same on all ranks; NULL: by cost */
    ronda_compressor *compressor; /**< NULL */
    int32_t priority;             /**< see ronda_post() */
    void *stream;                 /**< NULL */
} ronda_call;

/**
 * Start any collective.
 *
 * Of calls under way those with more priority move first: a call waits for at most a piece (256 KiB) of the work of
 * those with less.  Calls of one communicator begin in their order, and only some are under way at once (four of a
 * world, one of what was split off it); but calls whose priority is above 0 do not wait for those whose priority
 * is not.  So whether it is above 0 must be the same on all ranks (else RONDA_EMISMATCH).
 */
RONDA_TRY ronda_status ronda_post(ronda_comm *comm, const ronda_call *call, ronda_request **out);

/** Move what can move, and tell whether the request is done (or has failed): then ronda_wait() will not
 *  wait.  Never times out and never frees.  NULL is done. */
RONDA_TRY ronda_status ronda_test(ronda_request *request, bool *done);

/**
 * Wait for a request, and free it, whatever the outcome: exactly one wait for each.  The deadline runs
 * while a thread waits.  Another wait for the same request is RONDA_EINVAL as long as no later request
 * has taken its place.  NULL: nothing to wait for.
 */
RONDA_TRY ronda_status ronda_wait(ronda_request *request);

/** Wait for all of them and free them; the first error, if there is one.  NULLs are skipped. */
RONDA_TRY ronda_status ronda_wait_all(ronda_request *requests[], size_t count);

/**
 * Plan a collective once.  Buffers are given to ronda_start(); send and recv of the call are not looked
 * at.  Local: it sends nothing.  A plan may be under way several times at once, on different buffers.
 */
RONDA_TRY ronda_status ronda_plan_create(ronda_comm *comm, const ronda_call *call,
                                         ronda_plan **out);

/** Start a planned collective, like ronda_post().  A broadcast's buffer is recv. */
RONDA_TRY ronda_status ronda_start(ronda_plan *plan, const void *send, void *recv,
                                   ronda_request **out);

/** The steps of this rank as text for people, cut at `capacity`; *needed (or NULL): what all of it and
 *  its end take. */
RONDA_TRY ronda_status ronda_plan_print(const ronda_plan *plan, char *text, size_t capacity,
                                        size_t *needed);

/** Free a plan (NULL: nothing); requests that were started with it may still be under way. */
RONDA_API void ronda_plan_free(ronda_plan *plan);

/**
 * A reduction of your own: out[i] = left[i] op right[i] for `count` elements.  `out` may be `left` or
 * `right`.  It must be associative.  It is called from inside ronda's calls and must not call ronda.
 */
typedef void ronda_op_fn(void *context, const void *left, const void *right, void *out,
                         size_t count, ronda_type type);

/**
 * Make a reduction known under a name of up to 31 characters, for all communicators of this process and
 * until it ends.  Every rank that uses it makes it, with the same name; making the very same again gives
 * the same op.  The function may run in several threads at once.  An op that does not commute
 * is applied in rank order.  Ranks that use ops of different names get RONDA_EMISMATCH.
 *
 * A rank that stays in the function longer than the timeout makes the others fail.  If ranks are threads, the
 * function may still read buffers of the failed call and write to them when the call of their own rank has
 * returned: keep them until the rank that is in the function has returned, too.
 *
 * @return RONDA_OK and the op in *out; else ronda_last_error(NULL) in this thread says why.
 */
RONDA_TRY ronda_status ronda_op_create(const char *name, ronda_op_fn *function, void *context,
                                       bool commutes, ronda_op *out);

#ifdef __cplusplus
}
#endif

#endif
