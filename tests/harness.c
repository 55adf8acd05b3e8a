/* harness.c: main() of every test program.
 *
 * Tests run one after the other in the order of their source; whatever threads a test starts may
 * report failures.  One mutex guards the running test's state and the output.
 *
 * A watchdog thread ends the program when a test outlives its deadline: a test that hangs has
 * threads that nobody can stop, so there is no going on.  The last line is always the count, of
 * what has run so far if the program ends early.
 */
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TESTS = 512, SHOWN_FAILURES = 20, DEADLINE_SECONDS = 60 };

typedef struct {
    const char *name, *file;
    test_fn *run;
} test;

static test tests[MAX_TESTS];
static size_t test_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t deadline_moved;
static bool watched;
static uint64_t seed;
static unsigned passed, failed, skipped;

/* The running test. */
static const test *current; /* NULL: none, so no deadline either */
static unsigned failures;
static bool skipping, drew_numbers;
static char skip_reason[200];
static double started, deadline, deadline_seconds;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void test_register(const char *name, test_fn *run, const char *file)
{
    if (test_count == MAX_TESTS) {
        fprintf(stderr, "%s: more than %d tests in one program\n", file, MAX_TESTS);
        exit(1);
    }
    tests[test_count++] = (test){name, file, run};
}

void test_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);

    pthread_mutex_lock(&lock);
    if (failures++ < SHOWN_FAILURES)
        printf("%s:%d: %s: %s\n", file, line, condition, message);
    pthread_mutex_unlock(&lock);
}

void test_skip(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&lock);
    vsnprintf(skip_reason, sizeof skip_reason, format, arguments);
    skipping = true;
    pthread_mutex_unlock(&lock);
    va_end(arguments);
}

static void set_deadline(unsigned seconds)
{
    deadline_seconds = seconds;
    deadline = now() + seconds;
    pthread_cond_signal(&deadline_moved);
}

void test_deadline(unsigned seconds)
{
    pthread_mutex_lock(&lock);
    set_deadline(seconds);
    pthread_mutex_unlock(&lock);
}

bool test_failed(void)
{
    pthread_mutex_lock(&lock);
    bool result = failures > 0;
    pthread_mutex_unlock(&lock);
    return result;
}

#ifndef __has_feature
#define __has_feature(name) 0
#endif

bool test_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#else
    return false;
#endif
}

uint16_t test_port(void)
{
    static _Atomic uint32_t calls;
    return (uint16_t)(10000 + ((uint32_t)getpid() * 61 + calls++) % 20000);
}

unsigned test_seconds(void)
{
    const char *given = getenv("RONDA_TEST_SECONDS");
    return given ? (unsigned)strtoul(given, NULL, 10) : 0;
}

/* --- random numbers: splitmix64 --- */

rng rng_start(void)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a of the test's name */
    pthread_mutex_lock(&lock);
    drew_numbers = true;
    for (const char *c = current ? current->name : ""; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
    pthread_mutex_unlock(&lock);
    rng r = {seed ^ hash};
    return (rng){rng_next(&r)};
}

rng rng_again(void)
{
    pthread_mutex_lock(&lock);
    seed++;
    pthread_mutex_unlock(&lock);
    return rng_start();
}

uint64_t rng_next(rng *r)
{
    uint64_t x = r->state += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

uint64_t rng_below(rng *r, uint64_t bound)
{
    const uint64_t uneven = (UINT64_MAX - bound + 1) % bound; /* 2^64 mod bound: drawn again */
    uint64_t x;
    do
        x = rng_next(r);
    while (x < uneven);
    return x % bound;
}

bool all_bytes_are(uint8_t value, const void *memory, size_t bytes)
{
    const uint8_t *p = memory;
    size_t i = 0;
    while (i < bytes && p[i] == value)
        i++;
    return i == bytes;
}

/* --- ranks --- */

typedef struct {
    void (*body)(void *context, uint32_t rank);
    void *context;
    pthread_barrier_t *gate;
    pthread_t thread;
    uint32_t rank;
} rank_thread;

static void *rank_main(void *argument)
{
    const rank_thread *self = argument;
    pthread_barrier_wait(self->gate);
    self->body(self->context, self->rank);
    return NULL;
}

/* For what makes going on senseless. */
static void give_up(const char *what, int error)
{
    fprintf(stderr, "%s: %s: %s\n", current ? current->name : "harness", what, strerror(error));
    fflush(NULL);
    _exit(1);
}

void run_ranks(uint32_t n, void (*body)(void *context, uint32_t rank), void *context)
{
    if (n == 0)
        return;
    rank_thread *ranks = calloc(n, sizeof *ranks);
    if (!ranks)
        give_up("no memory for rank threads", ENOMEM);
    pthread_barrier_t gate;
    pthread_barrier_init(&gate, NULL, n);
    for (uint32_t r = 0; r < n; r++) {
        ranks[r] = (rank_thread){.body = body, .context = context, .gate = &gate, .rank = r};
        int error = pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
        if (error)
            give_up("cannot start a rank's thread", error);
    }
    for (uint32_t r = 0; r < n; r++)
        pthread_join(ranks[r].thread, NULL);
    pthread_barrier_destroy(&gate);
    free(ranks);
}

/* --- running --- */

static void print_count(void)
{
    printf("%u passed, %u failed", passed, failed);
    if (skipped)
        printf(", %u skipped", skipped);
    printf("\n");
}

static void print_failed(const char *name, const char *why, double seconds)
{
    if (failures > SHOWN_FAILURES)
        printf("... and %u more\n", failures - SHOWN_FAILURES);
    if (drew_numbers)
        printf("repeat with RONDA_TEST_SEED=%" PRIu64 "\n", seed);
    printf("FAIL %s%s (%.1f s)\n", name, why, seconds);
}

static void *watchdog_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    watched = true;
    pthread_cond_broadcast(&deadline_moved);
    for (;;) {
        const double left = deadline - now();
        if (current && left <= 0) {
            fflush(stdout);
            fprintf(stderr, "%s: %s is still not done after %g s\n", current->file, current->name,
                    deadline_seconds);
            failed++;
            print_failed(current->name, ": too late", now() - started);
            print_count();
            fflush(NULL);
            _exit(1);
        }
        if (!current) {
            pthread_cond_wait(&deadline_moved, &lock);
            continue;
        }
        const time_t seconds = (time_t)deadline;
        const struct timespec until = {seconds, (long)((deadline - (double)seconds) * 1e9)};
        pthread_cond_timedwait(&deadline_moved, &lock, &until);
    }
    return NULL;
}

static void start_watchdog(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&deadline_moved, &attributes);
    pthread_condattr_destroy(&attributes);

    pthread_t thread;
    int error = pthread_create(&thread, NULL, watchdog_main, NULL);
    if (error)
        give_up("cannot start the watchdog", error);
    pthread_detach(thread);
    /* A thread that is starting may hold the sanitizer's allocator, and a fork would copy it held. */
    pthread_mutex_lock(&lock);
    while (!watched)
        pthread_cond_wait(&deadline_moved, &lock);
    pthread_mutex_unlock(&lock);
}

/* Says which test crashed, and lets the signal do what it does. */
static void on_crash(int number)
{
    static const char before[] = "crashed: ";
    const test *t = current;
    if (t && write(STDERR_FILENO, before, sizeof before - 1) > 0 &&
        write(STDERR_FILENO, t->name, strlen(t->name)) > 0 && write(STDERR_FILENO, "\n", 1) > 0)
        fsync(STDERR_FILENO);
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_crashes(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    for (size_t i = 0; !test_sanitized() && i < sizeof numbers / sizeof numbers[0]; i++)
        signal(numbers[i], on_crash);
}

static void run_test(const test *t)
{
    pthread_mutex_lock(&lock);
    current = t;
    failures = 0;
    skipping = drew_numbers = false;
    started = now();
    set_deadline(DEADLINE_SECONDS);
    pthread_mutex_unlock(&lock);

    t->run();

    pthread_mutex_lock(&lock);
    current = NULL;
    const double seconds = now() - started;
    if (failures) {
        failed++;
        print_failed(t->name, "", seconds);
    } else if (skipping) {
        skipped++;
        printf("skip %s: %s\n", t->name, skip_reason);
    } else {
        passed++;
        printf("ok %s (%.1f s)\n", t->name, seconds);
    }
    pthread_mutex_unlock(&lock);
}

static bool wanted(const test *t, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(t->name, argv[i]))
            return true;
    return argc <= 1;
}

static uint64_t choose_seed(void)
{
    const char *given = getenv("RONDA_TEST_SEED");
    if (given)
        return strtoull(given, NULL, 0);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec * 1000000007 + (uint64_t)t.tv_nsec) ^ (uint64_t)getpid();
}

#if defined(__SANITIZE_THREAD__)
/* Ranks as processes are forked while the watchdog waits, and may start threads of their own. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

static void hold(void)
{
    pthread_mutex_lock(&lock);
}

static void let_go(void)
{
    pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
    pthread_atfork(hold, let_go,
                   let_go); /* or a rank's process would inherit a lock that is held */
    setvbuf(stdout, NULL, _IOLBF, 0);
    seed = choose_seed();
    start_watchdog();
    watch_crashes();
    size_t ran = 0;
    for (size_t i = 0; i < test_count; i++)
        if (wanted(&tests[i], argc, argv)) {
            run_test(&tests[i]);
            ran++;
        }
    if (ran == 0) {
        fprintf(stderr, "no test has such a name\n");
        failed++;
    }
    print_count();
    return failed ? 1 : 0;
}
