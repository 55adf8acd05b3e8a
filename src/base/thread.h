/* thread.h: threads that the library starts. */
#ifndef RD_THREAD_H
#define RD_THREAD_H

#include <pthread.h>

/* With all signals blocked: the program's signals are the program's.  0, or an errno. */
int rd_thread_start(pthread_t *thread, void *(*body)(void *context), void *context);

#endif
