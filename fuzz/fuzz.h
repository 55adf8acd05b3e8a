/* fuzz.h: what every fuzzer here defines and uses.
 *
 * fuzz_X.c is a fuzzer of its own (`make fuzz`), and a function fuzz_X() of tests/test_corpus.c, which feeds it
 * with all files of fuzz/corpus/X: there the Makefile gives LLVMFuzzerTestOneInput that name. */
#ifndef RD_FUZZ_H
#define RD_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* What must be so whatever comes in; if it is not, this ends the process and says what. */
static inline void fuzz_require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "not so: %s\n", what);
    abort();
}

/* Can it be shown to people? */
static inline bool fuzz_is_one_line(const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            return false;
    return true;
}

#endif
