#include "base/dump_signal.h"

#include <pthread.h>
#include <signal.h>

_Atomic uint32_t rd_dump_signals;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a handler may only touch what takes no lock");

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static uint32_t opened;
static bool installed;

static void hear(int number)
{
    (void)number;
    atomic_fetch_add_explicit(&rd_dump_signals, 1, memory_order_relaxed);
}

static bool is_ours(const struct sigaction *a)
{
    return !(a->sa_flags & SA_SIGINFO) && a->sa_handler == hear;
}

/* SA_RESTART is for the program's own system calls; ours have a time limit and return all the same. */
void rd_dump_signal_open(void)
{
    struct sigaction was, ours = {.sa_handler = hear, .sa_flags = SA_RESTART};
    sigemptyset(&ours.sa_mask);
    pthread_mutex_lock(&changing);
    if (opened++ == 0 && sigaction(SIGUSR1, NULL, &was) == 0 && !(was.sa_flags & SA_SIGINFO) &&
        was.sa_handler == SIG_DFL)
        installed = sigaction(SIGUSR1, &ours, NULL) == 0;
    pthread_mutex_unlock(&changing);
}

static void take_away(void)
{
    struct sigaction now, before = {.sa_handler = SIG_DFL};
    if (--opened == 0 && installed) {
        if (sigaction(SIGUSR1, NULL, &now) == 0 && is_ours(&now))
            sigaction(SIGUSR1, &before, NULL);
        installed = false;
    }
}

void rd_dump_signal_close(void)
{
    pthread_mutex_lock(&changing);
    take_away();
    pthread_mutex_unlock(&changing);
}

void rd_dump_signal_close_inherited(void)
{
    if (pthread_mutex_trylock(&changing))
        return;
    take_away();
    pthread_mutex_unlock(&changing);
}
