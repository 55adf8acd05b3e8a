/* lookup.c: the system looks a name up in a thread, and whoever asked waits no longer than it wants to.  Who is
 * last frees what both have. */
#include "comm/lookup.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool over, forsaken; /* the lookup; and by who asked */
    int error, number;   /* what getaddrinfo gave, and errno */
    struct addrinfo *all;
    char host[];
} lookup;

static void free_lookup(lookup *l)
{
    if (l->all)
        freeaddrinfo(l->all);
    pthread_cond_destroy(&l->done);
    pthread_mutex_destroy(&l->lock);
    rd_free(l);
}

static void *look(void *context)
{
    lookup *l = context;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    const int error = getaddrinfo(l->host, NULL, &hints, &all), number = errno;
    pthread_mutex_lock(&l->lock);
    l->error = error;
    l->number = number;
    l->all = error ? NULL : all;
    l->over = true;
    const bool forsaken = l->forsaken;
    pthread_cond_signal(&l->done);
    pthread_mutex_unlock(&l->lock);
    if (forsaken)
        free_lookup(l);
    return NULL;
}

/* NULL: no memory, or no thread */
static lookup *start(const char *host)
{
    const size_t length = strlen(host) + 1;
    lookup *l = rd_alloc(sizeof *l + length);
    pthread_condattr_t attributes;
    pthread_t thread;
    if (!l)
        return NULL;
    memcpy(l->host, host, length);
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&l->done, &attributes);
    pthread_condattr_destroy(&attributes);
    if (rd_thread_start(&thread, look, l)) {
        free_lookup(l);
        return NULL;
    }
    pthread_detach(thread);
    return l;
}

/* False: it is not over, and the other side frees it. */
static bool await(lookup *l, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                   .tv_nsec = (long)(until_ns % 1000000000)};
    pthread_mutex_lock(&l->lock);
    while (!l->over && pthread_cond_timedwait(&l->done, &l->lock, &until) == 0)
        ;
    const bool over = l->over;
    l->forsaken = !over;
    pthread_mutex_unlock(&l->lock);
    return over;
}

uint32_t rd_lookup(const char *host, rd_ip out[], uint32_t most, uint64_t until_ns,
                   const char **why)
{
    uint32_t count = 0;
    *why = "it has no address";
    if (rd_ip_read(host, out))
        return 1;
    lookup *l = start(host);
    if (!l) {
        *why = "no memory to look it up";
        return 0;
    }
    if (!await(l, until_ns)) {
        *why = "nobody who knows names has answered";
        return 0;
    }
    for (const struct addrinfo *i = l->all; i && count < most; i = i->ai_next)
        if (i->ai_addr && rd_ip_of(i->ai_addr, &out[count], NULL))
            count++;
    if (l->error)
        *why = l->error == EAI_SYSTEM ? strerror(l->number) : gai_strerror(l->error);
    free_lookup(l);
    return count;
}
