/* exits.c: see exits.h. */
#include "base/exits.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static rd_exit_note *notes;
static pthread_mutex_t notes_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock(void)
{
    pthread_mutex_lock(&notes_lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&notes_lock);
}

static void heed_forks(void)
{
    pthread_atfork(lock, unlock, unlock);
}

void rd_exit_add(rd_exit_note *note, void (*say)(void *context), void *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, heed_forks);
    lock();
    *note = (rd_exit_note){.next = notes, .say = say, .context = context, .pid = getpid()};
    notes = note;
    unlock();
}

void rd_exit_drop(rd_exit_note *note)
{
    if (!note->say)
        return;
    lock();
    for (rd_exit_note **at = &notes; *at; at = &(*at)->next)
        if (*at == note) {
            *at = note->next;
            break;
        }
    unlock();
    note->say = NULL;
}

/* As a destructor, so that it comes after the program's own handlers, which may still close something.  A signal's
 * handler may have called exit() while this thread had the lock: then nothing is said. */
__attribute__((destructor)) static void say_all(void)
{
    enum { TRIES = 1000 };
    int tries = 0;
    while (pthread_mutex_trylock(&notes_lock)) {
        if (++tries == TRIES)
            return;
        sched_yield();
    }
    for (const rd_exit_note *n = notes; n; n = n->next)
        if (n->pid == getpid())
            n->say(n->context);
    unlock();
}
