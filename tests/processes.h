/* processes.h: ranks as real processes, for tests. */
#ifndef RD_PROCESSES_H
#define RD_PROCESSES_H

#include "calls.h"

#include <sys/types.h>

enum { MOST_PROCESSES = 64 };

/* A job: what every rank of it knows before it starts. */
typedef struct job job;
struct job {
    uint32_t size;
    int (*body)(job *j, uint32_t rank); /* in its own process; its exit status */
    const void *context;
    uint32_t hosts;    /* network namespaces that ranks are in; 0: all are here */
    char address[100]; /* file:PATH in a directory of its own, or HOST:PORT */
    char directory[64];
    pid_t pids[MOST_PROCESSES];
    int status[MOST_PROCESSES]; /* as waitpid() gives it; -1: still running */
    struct shared *shared;      /* numbers that all ranks and the test see */
};

struct shared {
    _Atomic uint64_t number[MOST_PROCESSES];
    _Atomic uint64_t when[MOST_PROCESSES]; /* in ns */
};

job job_open(uint32_t size, int (*body)(job *j, uint32_t rank), const void *context);
void job_start(job *j);
/* Waits for all ranks; kills what still runs at the deadline, and fails the test then. */
void job_wait(job *j, unsigned seconds);
/* Waits for one of them; false, and the test has failed: it still runs. */
bool job_wait_for(job *j, uint32_t rank, unsigned seconds);
void job_close(job *j); /* nothing may be left of it */

/* All of this: a job whose every rank should end well, and within this time. */
void job_run(uint32_t size, int (*body)(job *j, uint32_t rank), const void *context,
             unsigned seconds);
/* The same; body is run by every rank between joining and closing. */
void job_play(uint32_t size, rank_fn *body, unsigned seconds);

/* In a rank: joins the job's world, or fails the test. */
ronda_comm *job_join(job *j, uint32_t rank);

uint32_t open_files(void);
/* In a rank: runs this, and checks that it leaves no file open and no memory in use. */
int leave_nothing(job *j, uint32_t rank, void (*body)(job *j, uint32_t rank));

#endif
