/* tcp_forks.c: a process that is forked has all of this one's sockets, and would hold them open when this one is
 * dead: nobody would notice.  It closes its copies, and has no part in the world. */
#include "transport/tcp_inside.h"

#include <unistd.h>

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

static void drop(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void leave_worlds(void)
{
    for (tcp_world *w = worlds; w; w = w->next) {
        for (tcp_conn *c = w->conns; c; c = c->next)
            drop(&c->fd);
        drop(&w->its.listener);
        drop(&w->epoll);
        drop(&w->bell);
    }
    unlock_worlds();
}

static void heed_forks(void)
{
    pthread_atfork(lock_worlds, unlock_worlds, leave_worlds);
}

void rd_tcp_enlist(tcp_world *w)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, heed_forks);
    pthread_mutex_lock(&worlds_lock);
    w->next = worlds;
    worlds = w;
    pthread_mutex_unlock(&worlds_lock);
}

void rd_tcp_strike_off(tcp_world *w)
{
    pthread_mutex_lock(&worlds_lock);
    for (tcp_world **at = &worlds; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    pthread_mutex_unlock(&worlds_lock);
}
