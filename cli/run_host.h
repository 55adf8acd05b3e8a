/* run_host.h: one host of a job in the launcher: an agent, and a link through it to the remote side. */
#ifndef CLI_RUN_HOST_H
#define CLI_RUN_HOST_H

#include "run_link.h"

typedef enum {
    HOST_CALLED,  /* the agent was started */
    HOST_GREETED, /* the remote side has sent RUN_HELLO, and got RUN_SETUP */
    HOST_READY,   /* it has answered RUN_READY */
    HOST_STARTED, /* it was sent RUN_START */
    HOST_LEFT     /* its link is closed */
} host_state;

typedef struct {
    const char *name;
    uint32_t first, count; /* its ranks */
    pid_t agent;           /* 0: it has ended */
    host_state now;
    bool greeted, done; /* RUN_HELLO, RUN_DONE were received */
    run_link link;
    uint64_t start_ns, kill_ns; /* kill_ns: when its agent is killed; 0: never */
    uint64_t owed[2];           /* bytes of RUN_OUT, RUN_ERR that it gets credit for */
    char last_line[300];        /* before the greeting */
} run_host;

/* Starts the agent; its standard error is rank `place` of the output.  false: errno. */
bool run_host_start(run_host *h, const run_agent *a, const hosts_host *as, run_output *o,
                    uint32_t place, const struct rlimit *files);

/* Reads what has arrived.  true: RUN_HELLO was in it. */
bool run_host_read(run_host *h);
bool run_host_next(run_host *h, run_frame *out); /* none before the greeting */

void run_host_order(run_host *h, int kind,
                    uint64_t number); /* RUN_SIGNAL .. RUN_KILL, if it runs */

/* "2 nodeb" for each rank, then "nodeb" for each agent; false: no memory */
bool run_host_names(const run_host hosts[], uint32_t count, cli_words *out);

/* Closes the link, which ends all that runs on the host; its agent is killed after so long. */
void run_host_leave(run_host *h, uint64_t patience_ns);

static inline bool run_host_has(const run_host *h, uint64_t rank)
{
    return rank >= h->first && rank < h->first + h->count;
}
/* Of so many the one that has this rank, or NULL */
const run_host *run_host_of(const run_host *hosts, uint32_t count, uint32_t rank);

#endif
