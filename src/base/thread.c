#include "base/thread.h"

#include <signal.h>

int rd_thread_start(pthread_t *thread, void *(*body)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
