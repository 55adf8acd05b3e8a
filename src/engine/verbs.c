/* verbs.c: how local steps run, by verb.  Alone, as the table of verbs is. */
#include "engine/local.h"

#define X(verb, name, ...) [RD_##verb] = rd_run_##name,
rd_local_fn *const rd_locals[] = {RD_LOCAL_VERBS(X)};
