/* test_alloc.c: a call like one made before allocates nothing and takes no lock.
 *
 * This program's own malloc and friends count what a thread asks for while it is inside a call.
 * Warm-up is a few calls of the same shape: a communicator has RD_CHANNELS channels, which take
 * turns, and each has memory of its own. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTED 0
#endif
#endif
#ifndef COUNTED
#define COUNTED 1
#endif

/* --- counting --- */

static _Thread_local bool counting;
static _Atomic uint32_t allocations, frees, mappings, locks;

#if COUNTED
static void count(_Atomic uint32_t *what)
{
    if (counting)
        atomic_fetch_add(what, 1);
}

/* glibc's own, under the names that are left when a program has its own malloc. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *p);

void *malloc(size_t bytes)
{
    count(&allocations);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count(&allocations);
    return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
    count(&allocations);
    return __libc_realloc(p, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count(&allocations);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    count(&allocations);
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : ENOMEM;
}

void free(void *p)
{
    if (p)
        count(&frees);
    __libc_free(p);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    count(&mappings);
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

int munmap(void *at, size_t bytes)
{
    count(&mappings);
    return (int)syscall(SYS_munmap, at, bytes);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    count(&locks);
    return real(mutex);
}
#endif

/* --- the calls --- */

enum { MOST = 8, WARM = 9, COUNTED_CALLS = 40 };

typedef struct {
    uint32_t size;
    ronda_comm *comms[MOST];
    model_call calls[6];
    uint32_t count; /* calls that take turns */
} scene;

static void run_scene(void *context, uint32_t rank)
{
    scene *s = context;
    call_buffers b[6];
    for (uint32_t k = 0; k < s->count; k++)
        b[k] = call_open(&s->calls[k], rank, rank % 2, 0);
    for (uint32_t i = 0; i < (WARM + COUNTED_CALLS) * s->count; i++) {
        counting = i >= WARM * s->count;
        const ronda_status status = call_run(s->comms[rank], &b[i % s->count]);
        counting = false;
        CHECK(status == RONDA_OK, "%s", ronda_last_error(s->comms[rank]));
    }
    for (uint32_t k = 0; k < s->count; k++)
        call_close(&b[k]);
}

static void check_counts(const scene *s, const char *algorithms)
{
    CHECK(allocations == 0 && frees == 0 && mappings == 0,
          "%s and %u more (%s): %u allocations, %u frees, %u mappings", model_text(&s->calls[0]),
          s->count - 1, algorithms ? algorithms : "by cost", allocations, frees, mappings);
    CHECK(locks == 0, "%s: %u locks", model_text(&s->calls[0]), locks);
}

static void play(scene *s, const char *algorithms)
{
    if (!world_open(s->size, algorithms, s->comms))
        return;
    allocations = frees = mappings = locks = 0;
    run_ranks(s->size, run_scene, s);
    check_counts(s, algorithms);
    world_close(s->size, s->comms);
}

static model_call call_of(ronda_kind kind, uint32_t size, uint64_t bytes)
{
    return (model_call){.kind = kind,
                        .type = kind == RONDA_BARRIER ? RONDA_U8 : RONDA_F32,
                        .op = RONDA_SUM,
                        .root = kind == RONDA_BROADCAST ? size / 2 : 0,
                        .size = size,
                        .count = kind == RONDA_BARRIER ? 0 : bytes / 4,
                        .seed = bytes};
}

static const ronda_kind kinds[] = {RONDA_ALLREDUCE, RONDA_BROADCAST, RONDA_ALLGATHER,
                                   RONDA_REDUCE_SCATTER, RONDA_BARRIER};
static const uint64_t sizes_bytes[] = {0, 8, 48, 400, 40000, 3 << 20};

TEST(what_is_counted_is_seen)
{
    if (!COUNTED) {
        test_skip("the sanitizers' own malloc is in the way");
        return;
    }
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    allocations = frees = mappings = locks = 0;
    counting = true;
    void *volatile p = malloc(10);
    p = realloc(p, 1000);
    free(p);
    p = aligned_alloc(64, 64);
    free(p);
    p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p, 4096);
    pthread_mutex_lock(&mutex);
    counting = false;
    pthread_mutex_unlock(&mutex);
    CHECK(allocations == 3 && frees == 2 && mappings == 2 && locks == 1, "%u %u %u %u", allocations,
          frees, mappings, locks);
}

TEST(a_repeated_call_allocates_nothing)
{
    if (!COUNTED) {
        test_skip("the sanitizers' own malloc is in the way");
        return;
    }
    for (uint32_t n = 1; n <= 5; n += n == 2 ? 2 : 1)
        for (uint32_t k = 0; k < 5; k++)
            for (uint32_t b = 0; b < 6; b++) {
                if (b == 5 && n > 2)
                    continue;
                scene s = {.size = n, .calls = {call_of(kinds[k], n, sizes_bytes[b])}, .count = 1};
                play(&s, NULL);
            }
}

TEST(nor_does_any_algorithm)
{
    static const char *const algorithms[] = {"one_shot", "two_shot", "few_shot",
                                             "halving",  "ring",     "star"};
    if (!COUNTED) {
        test_skip("the sanitizers' own malloc is in the way");
        return;
    }
    for (uint32_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++)
        for (uint32_t b = 1; b < 5; b++) {
            char name[64];
            snprintf(name, sizeof name, "allreduce=%s", algorithms[a]);
            scene s = {
                .size = 4, .calls = {call_of(RONDA_ALLREDUCE, 4, sizes_bytes[b])}, .count = 1};
            play(&s, name);
        }
    static const char *const others[] = {
        "broadcast=scatter,allgather=bruck,reduce_scatter=ring,barrier=ring",
        "broadcast=tree,allgather=ring,reduce_scatter=direct,barrier=dissemination",
        "broadcast=binomial,allgather=star,reduce_scatter=star,barrier=star"};
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t k = 1; k < 5; k++)
            for (uint32_t b = 1; b < 5; b++) {
                scene s = {.size = 4, .calls = {call_of(kinds[k], 4, sizes_bytes[b])}, .count = 1};
                play(&s, others[a]);
            }
}

/* As a training step does: several shapes, again and again. */
TEST(nor_do_calls_that_take_turns)
{
    if (!COUNTED) {
        test_skip("the sanitizers' own malloc is in the way");
        return;
    }
    for (uint32_t n = 2; n <= 4; n++) {
        scene s = {.size = n, .count = 6};
        for (uint32_t k = 0; k < 6; k++)
            s.calls[k] = call_of(kinds[k % 5], n, k == 5 ? 70000 : 40 * k);
        play(&s, NULL);
    }
}
