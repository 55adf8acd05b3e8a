/* run.h: `ronda run`, a job of ranks that are processes of this machine.
 *
 *   the shell
 *     `- front        run.c: gets the terminal's signals and keys, and passes them on
 *          `- keeper   run_job.c: starts the ranks, passes their output on, decides, ends them
 *               |- rank 0   run_rank.c: each in a process group of its own
 *               |- rank 1
 *               `- ...
 *
 * Two processes, so that either may die at once and nothing is left behind: the keeper adopts what the
 * ranks orphan, sees that the front is gone, and ends everything; should the keeper be the one that
 * dies, the front adopts and ends what is left. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { RUN_MOST_RANKS = 1024, RUN_NOT_EXECUTABLE = 126, RUN_NOT_FOUND = 127, RUN_TIMED_OUT = 124 };

typedef struct {
    uint32_t size;
    bool label, bind, dry_run, help;
    uint64_t grace_ns, timeout_ns; /* timeout_ns 0: none */
    char **program;                /* with its arguments; NULL ends them */
} run_request;

/* run_args.c: reads the arguments; CLI_OK, or the user was told. */
int run_read(int count, char **arguments, run_request *out);

/* Where the ranks meet, and what they prove themselves with. */
typedef struct {
    char directory[80]; /* private to this job */
    char address[100];  /* "file:DIRECTORY/meet" */
    char key[2 * 32 + 1];
} run_place;

/* --- run_output.c: the ranks' output, on its way to ours --- */

typedef struct run_output run_output;

enum { RUN_OUT, RUN_ERR };

run_output *run_output_open(uint32_t size, bool label); /* NULL: no memory */
void run_output_free(run_output *o);

/* A pipe for a rank's RUN_OUT or RUN_ERR; the rank's end, or -1 and errno. */
int run_output_pipe(run_output *o, uint32_t rank, int which);

/* Fills in what to poll for, at most 2 per rank and 2 more; what came of it is for the turn.  A last
 * turn is one when no rank is left: who is silent then will stay so. */
size_t run_output_polls(const run_output *o, struct pollfd polls[]);
void run_output_turn(run_output *o, const struct pollfd polls[], size_t count, bool last);

bool run_output_reads(
    const run_output *o); /* there are streams to read, and room for what they say */
bool run_output_done(
    const run_output *o); /* all streams have ended, and all they said is passed on */
int run_output_error(const run_output *o); /* why standard output takes no more; 0: it does */
const char *run_output_words(const run_output *o, uint32_t rank); /* last line on RUN_ERR, or "" */

/* --- run_rank.c: one process --- */

typedef struct {
    const run_request *request;
    const run_place *place;
    struct rlimit files; /* to be had back by the ranks */
    int keys;            /* standard input of rank 0 */
    int nothing;         /* /dev/null, that of the others */
    int complaints;      /* takes a run_complaint of a rank that cannot be started */
} run_setting;

typedef struct {
    uint32_t rank;
    int error;
} run_complaint;

/* Forks and executes.  -1 and errno: there was no process to be had. */
pid_t run_rank_start(const run_setting *s, uint32_t rank, int out, int err);

/* The core for a rank, or -1: there are fewer than ranks. */
int run_rank_core(const run_request *q, uint32_t rank);

/* --- run_kin.c: the children of this process, started or adopted --- */

void run_kin_each(void (*visit)(pid_t child, void *context), void *context);

/* Kills and reaps them all, and those that they leave.  false: some cannot be killed. */
bool run_kin_kill(void);

/* --- run_job.c: the keeper --- */

/* Runs the whole job; `life` becomes readable when the front is gone.  What to exit with. */
int run_job_keep(const run_request *q, const run_place *place, int keys, int life);

/* --- run.c --- */

/* Deletes the directory and all in it; no harm in a second time. */
void run_place_remove(const run_place *place);

/* The signals that the front and the keeper listen to, apart from those that were ignored when we were
 * called, as nohup and shells' background jobs have it.  Blocked; a signalfd, or -1. */
int run_signals(void);

#endif
