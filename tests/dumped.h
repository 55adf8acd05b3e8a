/* dumped.h: what ronda_dump() says, for tests to read. */
#ifndef RD_DUMPED_H
#define RD_DUMPED_H

#include "harness.h"
#include "ronda.h"

int text_open(void);         /* a file in memory, to which several processes may append */
const char *text_of(int fd); /* all that was written so far; until this thread's next call */
const char *dumped(ronda_comm *comm); /* the same of its dump */

/* Until the dump says this; false: it does not within so many seconds. */
bool dump_says(ronda_comm *comm, const char *what, unsigned seconds);

#endif
