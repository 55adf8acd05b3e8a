/* mangle.h: texts and bytes that are almost right, for fuzzers. */
#ifndef RD_MANGLE_H
#define RD_MANGLE_H

#include "harness.h"

/* Changes up to `capacity` bytes of which `length` are in use, a few times, in the ways that readers
 * trip over: bits, missing and doubled parts, long runs, characters that mean something.  The new
 * length.  Never puts in a zero byte if `text`. */
size_t mangle(rng *r, char *bytes, size_t length, size_t capacity, bool text);

/* One of the texts (NULL ends them), mangled or, one time in eight, as it is.  A block of exactly its size, to be freed:
 * who reads on behind the end is caught. */
char *mangled_text(rng *r, const char *const texts[]);

#endif
