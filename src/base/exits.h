/* exits.h: what a process says when it exits and has not closed what it opened.
 *
 * A process that is killed says nothing, and neither does one that ends by _exit(): others see only that it is gone.
 * A child that was forked says nothing of what its parent opened. */
#ifndef RD_EXITS_H
#define RD_EXITS_H

#include <sys/types.h>

typedef struct rd_exit_note rd_exit_note;
struct rd_exit_note {
    rd_exit_note *next;
    void (*say)(void *context); /* NULL: it is not in the list */
    void *context;
    pid_t pid; /* of the process that added it */
};

/* say(context) is called when this process exits, after all that the program does then itself.  It must not wait:
 * other threads may be anywhere.  The note stays the caller's, and stays in place until it is dropped. */
void rd_exit_add(rd_exit_note *note, void (*say)(void *context), void *context);
void rd_exit_drop(rd_exit_note *note); /* not in the list: nothing happens */

#endif
