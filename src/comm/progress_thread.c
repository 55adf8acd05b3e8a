/* progress_thread.c: a thread that moves calls under way while the program does something else.
 *
 * One for a communicator and all that are split off it.  It holds the lock whenever it is awake or asleep in
 * the transport, and waits for work without it:
 *
 *     program   ... [wants in: counts itself, wakes the thread] [lock: any call] ... computes ...
 *     thread        asleep, lock held -> gives it up            waits -> moves calls -> asleep
 *
 * So engines need no locks of their own, and without this thread there is no lock at all. */
#include "base/mem.h"
#include "base/thread.h"
#include "comm/comm.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

struct rd_progress_thread {
    pthread_mutex_t lock;
    pthread_cond_t work; /* there may be something to do */
    pthread_t thread;
    _Atomic uint32_t wanted; /* how many want the lock */
    bool stop;
    uint32_t users;    /* communicators */
    rd_engine *engine; /* one of the ring */
};

/* Where it has to look, it looks; else it sleeps until a peer or this rank wakes it. */
static void progress(rd_progress_thread *t, uint32_t *idle)
{
    enum { FEW = 20 };
    rd_engine_heed(t->engine, NULL);
    if (rd_engine_progress_all(t->engine))
        *idle = 0;
    else
        rd_engine_sleep(t->engine, ++*idle < FEW);
}

static void *main_of(void *context)
{
    rd_progress_thread *t = context;
    uint32_t idle = 0;
    pthread_mutex_lock(&t->lock);
    while (!t->stop) {
        if (!t->engine || !rd_engine_busy(t->engine)) {
            pthread_cond_wait(&t->work, &t->lock);
        } else if (atomic_load(&t->wanted)) {
            pthread_mutex_unlock(&t->lock);
            while (atomic_load(&t->wanted))
                sched_yield();
            pthread_mutex_lock(&t->lock);
        } else {
            progress(t, &idle);
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

rd_progress_thread *rd_progress_thread_open(rd_engine *engine)
{
    pthread_mutexattr_t again;
    rd_progress_thread *t = rd_alloc(sizeof *t);
    if (!t)
        return NULL;
    t->users = 1;
    t->engine = engine;
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE); /* calls are made of calls */
    pthread_mutex_init(&t->lock, &again);
    pthread_mutexattr_destroy(&again);
    pthread_cond_init(&t->work, NULL);
    rd_engine_let_in(engine, &t->wanted);
    if (rd_thread_start(&t->thread, main_of, t) == 0)
        return t;
    rd_engine_let_in(engine, NULL);
    rd_free(t);
    return NULL;
}

void rd_progress_thread_enter(rd_progress_thread *t)
{
    atomic_fetch_add(&t->wanted, 1);
    if (pthread_mutex_trylock(&t->lock)) {
        rd_engine_wake(t->engine);
        pthread_mutex_lock(&t->lock);
    }
    atomic_fetch_sub(&t->wanted, 1);
}

bool rd_progress_thread_try(rd_progress_thread *t)
{
    return pthread_mutex_trylock(&t->lock) == 0;
}

void rd_progress_thread_leave(rd_progress_thread *t)
{
    if (t->engine && rd_engine_busy(t->engine))
        pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
}

rd_progress_thread *rd_progress_thread_share(rd_progress_thread *t)
{
    if (t)
        t->users++;
    return t;
}

/* Neither is there a thread to join, nor anybody who could leave the lock or the condition. */
void rd_progress_thread_forget(rd_progress_thread *t)
{
    if (--t->users == 0)
        rd_free(t);
}

/* The lock is held, and stays so unless this was the last. */
bool rd_progress_thread_drop(rd_progress_thread *t, rd_engine *leaving)
{
    rd_engine_let_in(leaving, NULL);
    if (t->engine == leaving)
        t->engine = rd_engine_next(leaving);
    if (--t->users)
        return false;
    t->stop = true;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->work);
    rd_free(t);
    return true;
}
