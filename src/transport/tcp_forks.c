/* tcp_forks.c: a process that is forked has all of this one's sockets, and would hold them open when this one is
 * dead: nobody would notice.  It closes its copies, and has no part in the world.
 *
 * That is done by a handler of fork().  A raw clone() runs no handlers: such a child has the sockets until it
 * closes its copy of the communicator, executes another program or ends.
 *
 * A process that exits with a world open says so, if the system takes a few bytes at once. */
#include "transport/tcp_inside.h"

#include <assert.h>
#include <sched.h>

static tcp_world *worlds;
static pthread_mutex_t worlds_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_worlds(void)
{
    pthread_mutex_lock(&worlds_lock);
    for (tcp_world *w = worlds; w; w = w->next)
        pthread_mutex_lock(&w->lock);
}

static void unlock_worlds(void)
{
    for (tcp_world *w = worlds; w; w = w->next)
        pthread_mutex_unlock(&w->lock);
    pthread_mutex_unlock(&worlds_lock);
}

void rd_tcp_leave_files(tcp_world *w)
{
    w->its.network->kind->leave(w->its.network);
}

static void leave_worlds(void)
{
    for (tcp_world *w = worlds; w; w = w->next)
        rd_tcp_leave_files(w);
    unlock_worlds();
}

static void heed_forks(void)
{
    pthread_atfork(lock_worlds, unlock_worlds, leave_worlds);
}

/* The system takes back what it has not delivered if something unread is in a socket. */
static void read_all(rd_bytestream *stream)
{
    enum { MOST_READS = 256 };
    char nobody[16 << 10];
    const struct iovec part = {nobody, sizeof nobody};
    stream->kind->finish(stream);
    for (int i = 0; i < MOST_READS; i++)
        if (stream->kind->read(stream, &part, 1) <= 0)
            return;
}

/* Another thread has the lock for moments only; if this one had it when a signal ended it, nothing is said. */
static void say_exit(void *context)
{
    enum { TRIES = 1000 };
    tcp_world *w = context;
    int tries = 0;
    while (pthread_mutex_trylock(&w->lock)) {
        if (++tries == TRIES)
            return;
        sched_yield();
    }
    for (tcp_conn *c = w->conns; c; c = c->next)
        if (c->state == TCP_OPEN && c->stream && w->peers[c->rank].out == c) {
            rd_tcp_say(c, &(rd_head){.kind = RD_EXIT}, NULL);
            rd_tcp_flush_conn(w, c);
            read_all(c->stream);
        }
    pthread_mutex_unlock(&w->lock);
}

void rd_tcp_enlist(tcp_world *w)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, heed_forks);
    pthread_mutex_lock(&worlds_lock);
    assert(!w->next && w != worlds);
    w->next = worlds;
    worlds = w;
    pthread_mutex_unlock(&worlds_lock);
    rd_exit_add(&w->exits, say_exit, w);
}

void rd_tcp_strike_off(tcp_world *w)
{
    rd_exit_drop(&w->exits);
    pthread_mutex_lock(&worlds_lock);
    for (tcp_world **at = &worlds; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    pthread_mutex_unlock(&worlds_lock);
}
