/* verbs.c: the table of verbs.h as data. */
#include "plan/verbs.h"

const rd_verb rd_verbs[] = {RD_MESSAGE_VERBS(RD_VERB_ROW) RD_LOCAL_VERBS(RD_VERB_ROW)};
const uint32_t rd_verb_count = sizeof rd_verbs / sizeof *rd_verbs;
