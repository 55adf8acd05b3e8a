/* verbs.c: what the verbs make of terms, by verb.  Alone, as the table of verbs is. */
#include "proof/made.h"

#define X(verb, name, ...) [RD_##verb] = rd_make_##name,
rd_make_fn *const rd_makes[] = {
    [RD_RECV] = rd_make_recv, [RD_FOLD] = rd_make_fold, RD_LOCAL_VERBS(X)};
