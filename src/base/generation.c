#include "base/generation.h"

#include "base/mem.h"

#include <pthread.h>

static _Atomic uint32_t plain;   /* instead of a page that is wiped */
static _Atomic uint32_t numbers; /* that were given; a child goes on counting */
_Atomic uint32_t *rd_generation_word = &plain;

static void forked(void)
{
    atomic_store(rd_generation_word, 0);
}

/* Both, where both can be had: emulators take the advice to wipe a page and forget it. */
static void prepare(void)
{
    _Atomic uint32_t *page = rd_map_wiped(sizeof *page);
    if (page)
        rd_generation_word = page;
    pthread_atfork(NULL, NULL, forked);
}

uint32_t rd_generation_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    uint32_t number = rd_generation();
    if (number)
        return number;
    const uint32_t next = atomic_fetch_add(&numbers, 1) + 1;
    return atomic_compare_exchange_strong(rd_generation_word, &number, next) ? next : number;
}

void rd_generation_use_handler_alone(void)
{
    rd_generation_enter();
    atomic_store(&plain, rd_generation());
    rd_generation_word = &plain;
}
