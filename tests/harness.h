/* harness.h: the tests' own small library, since failures come from rank threads and processes.
 *
 *     TEST(a_block_is_whole) { CHECK(x == 7, "x is %d", x); }
 *
 * A test registers itself; harness.c has main().  CHECK may be called from any thread.  A test that
 * outlives its deadline ends the program with the test's name.  Arguments of a test program: parts
 * of the names of tests to run; none: all.  Random tests draw from rng_start(), which prints
 * nothing unless the test fails, and then the seed: RONDA_TEST_SEED=n repeats it.  Some of them go on
 * for RONDA_TEST_SECONDS=n. */
#ifndef RD_HARNESS_H
#define RD_HARNESS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void test_fn(void);
void test_register(const char *name, test_fn *run, const char *file);

#define TEST(name)                                                                                 \
    static void test_##name(void);                                                                 \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        test_register(#name, test_##name, __FILE__);                                               \
    }                                                                                              \
    static void test_##name(void)

/* Records a failure with a message of its own and goes on; evaluates to the condition. */
#define CHECK(condition, ...)                                                                      \
    ((condition) ? true : (test_fail(__FILE__, __LINE__, #condition, __VA_ARGS__), false))

void test_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void test_skip(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* marks this test skipped, with a reason */
void test_deadline(unsigned seconds);      /* of the running test, from now; 60 unless set */
bool test_failed(void);                    /* the running test, so far */
bool test_sanitized(void);                 /* built with a sanitizer: do less */
/* The next of the ports that the system gives to nobody who asks for any, unless it was told otherwise; processes
 * of one time seldom look at the same ones. */
uint16_t test_port(void);
unsigned test_seconds(void); /* for how long a random test was asked to go on; 0: not */

/* Random numbers, the same for the same seed. */
typedef struct {
    uint64_t state;
} rng;
rng rng_start(void); /* from this run's seed and the test's name */
rng rng_again(
    void); /* the same, from the seed after it: what fails names the seed of its own round */
uint64_t rng_next(rng *r);
uint64_t rng_below(rng *r, uint64_t bound); /* 0 .. bound-1; bound > 0 */

bool all_bytes_are(uint8_t value, const void *memory, size_t bytes);

/* Runs body(context, rank) in n threads at once and joins them. */
void run_ranks(uint32_t n, void (*body)(void *context, uint32_t rank), void *context);

#endif
