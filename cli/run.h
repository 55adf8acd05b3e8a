/* run.h: `ronda run`, a job of ranks that are processes of this host, or of several.
 *
 * On one host a job has three processes beside its ranks:
 *
 *     front      run.c: the process that the user has started: passes on the terminal's signals and input
 *       guard    run.c: waits for the keeper; ends what is left if front and keeper are killed together
 *         keeper   run_job.c: starts the ranks, passes their output on, decides what became of the job, ends it
 *           rank 0   run_rank.c: each in a process group of its own
 *           ...
 *
 * Any two of the three may be killed at once and nothing is left behind: each adopts what those below it orphan,
 * and ends it.
 *
 * On several hosts the keeper is another one, which starts an agent for each host: a command such as ssh that runs
 * `ronda run --remote-side` there, with a link (run_link.h) through its standard input and output.
 *
 *     front
 *       guard
 *         keeper       run_hosts.c: starts the agents, passes output on, decides, has all ended
 *           agent      run_agent.c: ssh to the first host
 *             :
 *           remote side: a front, guard and keeper of that host
 *             keeper   run_job.c as above, led by run_remote.c: reports over the link instead of printing
 *               rank 0
 *               ...
 *           agent      to the second
 *
 * A remote side lives as long as its standard input: the end of that is the end of the launcher, of the agent or of
 * the network between, and then of all ranks there. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "hosts.h"
#include "transport/ip.h"
#include "words.h"

enum {
    RUN_MOST_RANKS = 16384,
    RUN_MOST_HERE = 1024, /* ranks on one host */
    RUN_NOT_EXECUTABLE = 126,
    RUN_NOT_FOUND = 127,
    RUN_TIMED_OUT = 124
};
enum { RUN_MOST_VARIABLES = 64, RUN_ADDRESS = 320 };

typedef struct {
    uint32_t size;         /* ranks; 0: as many as the hosts have slots */
    uint32_t first, count; /* the ranks that this process starts */
    bool bind, no_bind; /* each rank to one core, or to none; neither: to an equal share of them */
    bool label, dry_run, verbose, help;
    uint64_t grace_ns;   /* between SIGTERM and SIGKILL */
    uint64_t timeout_ns; /* of the job; 0: none */
    char **program;      /* with its arguments; NULL ends them */

    const char *hosts_file, *host_names;       /* at most one of them; none: this machine */
    const char *agent, *remote_ronda;          /* NULL: the default */
    const char *address;                       /* HOST, HOST:PORT; NULL: the first host */
    const char *variables[RUN_MOST_VARIABLES]; /* NAME, NAME=VALUE */
    uint32_t variable_count;
    hosts_list hosts; /* of the file or the names, as many as there are ranks for */
} run_request;

/* run_args.c: reads the arguments; CLI_OK, or the user was told. */
int run_read(int count, char **arguments, run_request *out);

/* Reads the hosts, places ranks on them, and looks at the variables; the same. */
int run_read_hosts(run_request *q);

/* "HOST", "HOST:PORT", "[::1]:PORT": the host with its brackets; port 0: any.  false: it is no such thing. */
bool run_address_split(const char *text, char *host, size_t capacity, uint32_t *port);
/* On a host: where others can meet it better than by its name, with its brackets.  false: nowhere, or it is well
 * known by it. */
bool run_find_host(const char *name, char *host, size_t capacity);
/* "CLIENT PORT SERVER PORT", as ssh's server tells it: the server. */
bool run_reached_at(const char *connection, rd_ip *out);

/* Where the ranks meet, and the key that they authenticate each other with. */
typedef struct {
    char directory[80];        /* private to this job; "": none is needed */
    char address[RUN_ADDRESS]; /* "file:DIRECTORY/meet" or "HOST:PORT" */
    char key[2 * 32 + 1];      /* 32 random bytes in hex */
} run_place;

/* The environment of ranks on other hosts: NAME=VALUE.  false: no memory. */
bool run_variables(const run_request *q, const run_place *place, cli_words *out);

/* --- run_say.c: what became of a job --- */

typedef enum {
    RUN_FINE,
    RUN_RANK,         /* culprit failed; how, its run_end says */
    RUN_NO_PROGRAM,   /* it cannot be executed */
    RUN_NO_RANK,      /* a process for it could not be made */
    RUN_NO_DIRECTORY, /* the launcher's working directory is not on a host */
    RUN_BY_SIGNAL,    /* sent to ronda run */
    RUN_TIMEOUT,
    RUN_OUTPUT,    /* cannot be written */
    RUN_FRONT,     /* it has ended: killed, or the link is lost */
    RUN_NO_HOST,   /* its agent ended before there was a remote side */
    RUN_HOST,      /* its agent ended early */
    RUN_SILENT,    /* a host that has sent nothing for RUN_SILENCE_NS */
    RUN_NO_ANSWER, /* a host that never was ready; detail: how many were */
    RUN_ELSEWHERE  /* on a remote side: something failed on another host */
} run_cause;

typedef struct {
    run_cause why;
    uint32_t culprit; /* rank; from RUN_NO_HOST on the host */
    int detail;       /* of an agent the wait status, else an errno or a signal */
    uint64_t ns;      /* how long the culprit, or the job, had run */
} run_verdict;

/* How a rank ended. */
typedef struct {
    int pid, status; /* status: as waitpid() has it */
    uint64_t ns;     /* how long it ran */
    uint32_t saw; /* 1 + the rank whose failure it told us of before it ended, so that 0 is none */
    bool
        failed; /* by itself: not told to end, and its status is not 0 or its communicator was left open */
} run_end;

/* From a rank that failed to the one whose failure it saw, and so on, while those have failed as well. */
uint32_t run_find_cause(const run_end ends[], uint32_t size, uint32_t rank);

/* One line if it did not go well; what to exit with.  end: of the culprit of RUN_RANK.  host: where it was, NULL:
 * here.  line: the last of the culprit's standard error. */
int run_say(const run_request *q, const run_verdict *v, const run_end *end, const char *host,
            const char *line);

/* --- run_tell.c: ranks tell whose failure they saw before they end --- */

enum { RUN_TELL_NAME = 64 };
int run_tell_open(char name[RUN_TELL_NAME]); /* -1: there is no socket, and name is "" */
typedef struct {
    bool sound; /* false: not a datagram of a rank, or of another user */
    pid_t pid;
    uint32_t rank, failed; /* as the job counts; RD_TOLD_NOBODY, RD_TOLD_UNCLOSED */
} run_told;
bool run_tell_read(int fd, run_told *out); /* the next datagram; false: none for now */

/* --- run_output.c: the ranks' output, on its way to ours --- */

typedef struct run_output run_output;

enum { RUN_OUT, RUN_ERR };

typedef struct run_remote run_remote;

/* For so many ranks.  names: what stands in their labels, NULL: no labels.  remote: bytes go there as they
 * come; NULL: lines go to our standard streams.  NULL: no memory. */
run_output *run_output_open(uint32_t size, char *const *names, run_remote *remote);
void run_output_free(run_output *o);

/* A pipe for a rank's RUN_OUT or RUN_ERR; the rank's end, or -1 and errno. */
int run_output_pipe(run_output *o, uint32_t rank, int which);

/* Fills in what to poll for, at most 2 per rank and 2 more; what came of it is for the turn.  A last
 * turn is one when no rank is left: who is silent then will stay so. */
size_t run_output_polls(const run_output *o, struct pollfd polls[]);
void run_output_turn(run_output *o, const struct pollfd polls[], size_t count, bool last);

/* What a rank of another host wrote, and that it will write no more. */
void run_output_feed(run_output *o, uint32_t rank, int which, const char *text, size_t length);
void run_output_end(run_output *o, uint32_t rank, int which);
bool run_output_full(const run_output *o, int which); /* enough waits to be written already */

bool run_output_reads(
    const run_output *o); /* there are streams to read, and room for what they say */
bool run_output_done(
    const run_output *o); /* all streams have ended, and all they said is passed on */
int run_output_error(const run_output *o); /* why standard output takes no more; 0: it does */
const char *
run_output_last_line(const run_output *o,
                     uint32_t rank); /* the last one with anything in it on RUN_ERR, or "" */

/* --- run_rank.c: one process --- */

/* run_cores.c: which cores each rank of this host may use. */
enum { RUN_CORES_WHY = 100, RUN_CORES_TEXT = 200 };
typedef struct run_cores run_cores;
/* keep: other jobs get none of them as long as this process has them.  NULL: why[] says why ranks are not bound. */
run_cores *run_cores_take(const run_request *q, bool keep, char why[RUN_CORES_WHY]);
void run_cores_free(run_cores *c);
void run_cores_bind(const run_cores *c, uint32_t rank); /* this process, as this rank */
void run_cores_text(const run_cores *c, uint32_t rank, char *text, size_t capacity); /* "0-3,8" */

typedef struct {
    const run_request *request;
    const run_place *place;
    const run_cores *cores; /* NULL: those of this process */
    struct rlimit files;    /* of open files, as ranks are to have it */
    int keys;               /* standard input of rank 0 */
    int nothing;            /* /dev/null, that of the others */
    int exec_errors;        /* takes a run_exec_error of a rank that cannot be started */
    char tell[RUN_TELL_NAME];
} run_setting;

typedef struct {
    uint32_t rank; /* as everywhere in this process: counted from request->first on */
    int error;
} run_exec_error;

/* Forks and executes.  -1 and errno: there was no process to be had. */
pid_t run_rank_start(const run_setting *s, uint32_t rank, int out, int err);

/* In a child, before it executes a program: signals as they were before run_signals(). */
void run_reset_signals(void);

/* Raises the limit of open files to so many; *was: what children are to have again.  false: errno. */
bool run_raise_files(rlim_t need, struct rlimit *was);

/* --- run_children.c: the children of this process, started or adopted --- */

void run_children_each(void (*visit)(pid_t child, void *context), void *context);

/* Reaps them as they end, for so long at most: who ends by himself does it more thoroughly. */
void run_children_wait(uint64_t limit_ns);

/* Kills and reaps them all, and those that they leave.  false: some cannot be killed. */
bool run_children_kill(void);

/* Sends a signal to those below this process that catch it, or read it from a signalfd. */
void run_children_signal(int signal);

/* --- run_job.c: the keeper --- */

/* Runs the whole job, or with `remote` the part of this host; `life` becomes readable when the front has ended.
 * What to exit with. */
int run_job_keep(const run_request *q, const run_place *place, int keys, int life,
                 run_remote *remote);

static const uint64_t RUN_SAME_SIGNAL_NS =
    200000000; /* two of a kind within this time, to us and to our group, are one */

bool run_ends_job(int signal);

/* How long remote sides on this very host, as agents of tests start them, have to end what they run when the
 * launcher is gone, before they are killed. */
static const uint64_t RUN_REMOTE_NS = 3000000000;

/* --- run_remote.c: the remote side's end of the link --- */

enum { RUN_REMOTE_POLLS = 3 };

/* A command of the launcher: RUN_SIGNAL .. RUN_KILL of run_link.h. */
typedef struct {
    int kind, signal;
} run_order;

/* As with output: what to poll for, what came of it, and then the orders one by one. */
size_t run_remote_polls(const run_remote *f, struct pollfd polls[RUN_REMOTE_POLLS]);
void run_remote_turn(run_remote *f, const struct pollfd polls[], size_t count);
bool run_remote_next(run_remote *f, run_order *out);
bool run_remote_lost(
    const run_remote *f); /* the launcher has ended, or sent nothing for RUN_SILENCE_NS */

size_t run_remote_room(const run_remote *f, int which); /* bytes that may be sent now */
void run_remote_wrote(run_remote *f, uint32_t rank, int which, const char *text, size_t length);
void run_remote_ended(run_remote *f, uint32_t rank, const run_end *end);
void run_remote_verdict(run_remote *f, const run_verdict *v);
bool run_remote_sent(const run_remote *f); /* all of it */

/* The keeper of a remote side: is told over the link what to run, and runs it.  What to exit with. */
int run_remote_keep(int life);

/* --- run_hosts.c: the keeper of a job on several hosts --- */

int run_hosts_keep(const run_request *q, const run_place *place, int keys, int life);

/* --- run_agent.c: the command that starts a program on a host: ssh, or what the user names --- */

typedef struct run_agent run_agent;

/* Reads AGENT and the path of ronda there; NULL: the user was told. */
run_agent *run_agent_read(const run_request *q);
void run_agent_free(run_agent *a);

/* The words of the command for a host.  false: no memory. */
bool run_agent_words(const run_agent *a, const hosts_host *h, cli_words *out);

/* Starts it with these as its standard streams.  -1 and errno. */
pid_t run_agent_start(const run_agent *a, const hosts_host *h, const int streams[3],
                      const struct rlimit *files);

/* --- run.c --- */

/* Deletes the directory and all in it; no harm in a second time. */
void run_place_remove(const run_place *place);

/* The signals that the front and the keeper read, apart from those that were ignored when we were
 * called, as nohup and shells' background jobs have it.  Blocked; a signalfd, or -1. */
int run_signals(void);

#endif
