/* run_job.c: the keeper: starts the ranks, passes their output on, decides what became of the job, and
 * sees to it that all of it ends.
 *
 *   RUNNING --a signal to us--> ASKED --grace--> TOLD --grace--> GONE
 *      | | |                  (passed on)      (SIGTERM)       (SIGKILL)
 *      | | `--timeout, no output-------------------^               ^
 *      | `----a rank failed--> HEARING --a moment--^     another signal; the front is gone
 *      `--all ranks ended--> LINGERING --a moment--^
 *
 * HEARING leaves the other ranks the time to say what they have heard of it: they know within milliseconds.
 * LINGERING waits for what ranks left behind; nothing left is GONE at once, from any stage.  The first
 * reason to end is the one that counts: later ones are its consequences. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "base/mem.h"
#include "run.h"

static const char ME[] = "run";

static const uint64_t LINGER_NS = 1000000000, HEARING_NS = 250000000;
static const uint64_t SAME_SIGNAL_NS = 200000000; /* to us and to our group: meant as one */

typedef enum { RUNNING, LINGERING, ASKED, HEARING, TOLD, GONE } stage;
typedef enum { FINE, RANK, NO_PROGRAM, NO_RANK, SIGNAL, TIMEOUT, OUTPUT, FRONT } cause;

typedef struct {
    pid_t pid; /* 0: not started, or ended */
    uint64_t start_ns;
    int error; /* why its program cannot be executed; 0: it can */
} rank;

typedef struct {
    const run_request *request;
    const run_place *place;
    run_setting setting;
    run_output *output;
    rank *ranks;
    struct pollfd *polls;
    int signals, life, complaints;
    uint32_t started, running;
    bool starting;

    stage now;
    uint64_t start_ns, next_ns; /* next_ns: when the stage ends by itself; 0: it does not */
    uint64_t timeout_ns;        /* when the job times out; 0: never */
    uint64_t pause_ns;          /* since when it is stopped; 0: it is not */

    cause why;
    uint32_t culprit;        /* rank */
    int culprit_pid, detail; /* detail: of a rank the wait status, else an errno or a signal */
    uint64_t why_ns;         /* when that was, or for a rank how long it had run */
} job;

/* --- telling ranks --- */

typedef struct {
    const job *j;
    int signal;
} telling;

static bool in_group_of_rank(const job *j, pid_t child)
{
    const pid_t group = getpgid(child);
    for (uint32_t r = 0; r < j->started; r++)
        if (j->ranks[r].pid && j->ranks[r].pid == group)
            return true;
    return false;
}

/* What an ended rank left behind, and what left its group */
static void tell_stray(pid_t child, void *context)
{
    const telling *t = context;
    if (!in_group_of_rank(t->j, child))
        kill(child, t->signal);
}

static void tell(const job *j, int signal)
{
    telling t = {.j = j, .signal = signal};
    for (uint32_t r = 0; r < j->started; r++)
        if (j->ranks[r].pid)
            kill(-j->ranks[r].pid, signal);
    run_kin_each(tell_stray, &t);
}

/* --- stages --- */

static void enter(job *j, stage next)
{
    static const uint64_t at_least_ns = 1;
    const uint64_t grace_ns = j->request->grace_ns;
    const uint64_t moment_ns = next == LINGERING ? LINGER_NS : HEARING_NS;
    const bool briefly = (next == LINGERING || next == HEARING) && grace_ns > moment_ns;
    const uint64_t wait_ns = briefly ? moment_ns : grace_ns;
    j->now = next;
    j->next_ns = rd_now_ns() + wait_ns + at_least_ns;
    j->pause_ns = 0;
    if (next != TOLD)
        return;
    tell(j, SIGTERM);
    tell(j, SIGCONT); /* who is stopped cannot end */
}

static void kill_all(job *j)
{
    for (uint32_t r = 0; r < j->started; r++)
        if (j->ranks[r].pid)
            kill(-j->ranks[r].pid, SIGKILL);
    if (!run_kin_kill())
        cli_failed(ME, "some processes of the job could not be killed");
    j->running = 0;
    j->now = GONE;
}

/* The first reason is the one that counts. */
static bool decide(job *j, cause why, int detail)
{
    if (j->why != FINE)
        return false;
    j->why = why;
    j->detail = detail;
    j->why_ns = rd_now_ns();
    return true;
}

static void fail(job *j, cause why, int detail)
{
    if (decide(j, why, detail) && j->now < HEARING)
        enter(j, why == RANK ? HEARING : TOLD);
}

/* --- ranks that ended --- */

static void hear_complaints(job *j)
{
    run_complaint c;
    while (read(j->complaints, &c, sizeof c) == (ssize_t)sizeof c)
        if (c.rank < j->request->size)
            j->ranks[c.rank].error = c.error;
}

static void rank_ended(job *j, uint32_t r, int status)
{
    const uint64_t ran_ns = rd_now_ns() - j->ranks[r].start_ns;
    const pid_t pid = j->ranks[r].pid;
    j->ranks[r].pid = 0;
    j->running--;
    hear_complaints(j);
    if (status && j->why == FINE) {
        const int error = j->ranks[r].error;
        j->culprit = r;
        j->culprit_pid = pid;
        fail(j, error ? NO_PROGRAM : RANK, error ? error : status);
        j->why_ns = ran_ns;
    }
}

static void child_ended(job *j, pid_t pid, int status)
{
    for (uint32_t r = 0; r < j->started; r++)
        if (j->ranks[r].pid == pid) {
            rank_ended(j, r, status);
            return;
        }
}

/* Signals do not queue, so the one that we get is of the child that ended first: it is asked first. */
static void reap(job *j, pid_t first)
{
    int status;
    if (first > 0 && waitpid(first, &status, WNOHANG) == first)
        child_ended(j, first, status);
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        child_ended(j, pid, status);
    if (j->starting)
        return; /* those so far were quick: the others are still to come */
    if (pid < 0 && errno == ECHILD)
        j->now = GONE;
    else if (j->running == 0 && j->now == RUNNING)
        enter(j, LINGERING);
}

/* --- signals to us --- */

static void pause_job(job *j)
{
    if (j->now != RUNNING || j->pause_ns)
        return;
    tell(j, SIGTSTP);
    j->pause_ns = rd_now_ns();
}

/* The time that it was stopped is not the job's. */
static void continue_job(job *j)
{
    tell(j, SIGCONT);
    if (j->pause_ns && j->timeout_ns)
        j->timeout_ns += rd_now_ns() - j->pause_ns;
    j->pause_ns = 0;
}

static void end_by_signal(job *j, int signal)
{
    if (!decide(j, SIGNAL, signal)) {
        if (j->why != SIGNAL || rd_now_ns() - j->why_ns > SAME_SIGNAL_NS)
            kill_all(j);
    } else if (signal == SIGTERM) {
        enter(j, TOLD);
    } else {
        tell(j, signal);
        tell(j, SIGCONT);
        enter(j, ASKED);
    }
}

static bool ends_job(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

static void hear_signals(job *j)
{
    struct signalfd_siginfo s;
    while (j->now != GONE && read(j->signals, &s, sizeof s) == (ssize_t)sizeof s) {
        if (s.ssi_signo == SIGCHLD)
            reap(j, (pid_t)s.ssi_pid);
        else if (s.ssi_signo == SIGTSTP)
            pause_job(j);
        else if (s.ssi_signo == SIGCONT)
            continue_job(j);
        else if (ends_job((int)s.ssi_signo))
            end_by_signal(j, (int)s.ssi_signo);
        else
            tell(j, (int)s.ssi_signo);
    }
}

/* --- time --- */

static void look_at_clock(job *j)
{
    const uint64_t now_ns = rd_now_ns();
    if (j->timeout_ns && !j->pause_ns && now_ns >= j->timeout_ns && j->now < TOLD)
        fail(j, TIMEOUT, (int)j->running);
    else if (j->next_ns && now_ns >= j->next_ns && j->now != GONE) {
        if (j->now == TOLD)
            kill_all(j);
        else
            enter(j, TOLD);
    }
}

/* Milliseconds until something is due; -1: nothing is. */
static int until_due(const job *j)
{
    const uint64_t now_ns = rd_now_ns();
    uint64_t due_ns = j->next_ns ? j->next_ns : UINT64_MAX;
    if (j->timeout_ns && !j->pause_ns && j->now < TOLD && j->timeout_ns < due_ns)
        due_ns = j->timeout_ns;
    if (due_ns == UINT64_MAX)
        return -1;
    if (due_ns <= now_ns)
        return 0;
    const uint64_t ms = (due_ns - now_ns) / 1000000 + 1;
    return ms < 1000000 ? (int)ms : 1000000;
}

/* --- the loop --- */

enum { OTHER_POLLS = 2, OUTPUT_POLLS = 2 };

static void turn(job *j)
{
    struct pollfd *others = j->polls, *outputs = j->polls + OTHER_POLLS;
    others[0] = (struct pollfd){.fd = j->signals, .events = POLLIN};
    others[1] = (struct pollfd){.fd = j->life, .events = POLLIN};
    const size_t count = run_output_polls(j->output, outputs);
    if (poll(j->polls, OTHER_POLLS + count, until_due(j)) < 0)
        return;
    run_output_turn(j->output, outputs, count, false);
    if (run_output_error(j->output))
        fail(j, OUTPUT, run_output_error(j->output));
    if (others[1].revents && j->now != GONE) {
        decide(j, FRONT, 0);
        kill_all(j);
    }
    if (others[0].revents)
        hear_signals(j);
    look_at_clock(j);
}

/* A signal while the last output waits for a slow reader: nobody wants to wait any more. */
static bool last_turn(job *j, uint64_t limit_ns)
{
    struct pollfd *others = j->polls, *outputs = j->polls + OTHER_POLLS;
    others[0] = (struct pollfd){.fd = j->signals, .events = POLLIN};
    others[1] = (struct pollfd){.fd = j->life, .events = POLLIN};
    const size_t count = run_output_polls(j->output, outputs);
    const int wait_ms = run_output_reads(j->output) ? 0 : limit_ns ? 50 : -1;
    if (poll(j->polls, OTHER_POLLS + count, wait_ms) < 0)
        return errno == EINTR;
    run_output_turn(j->output, outputs, count, true);
    struct signalfd_siginfo s;
    while (others[0].revents && read(j->signals, &s, sizeof s) == (ssize_t)sizeof s)
        if (ends_job((int)s.ssi_signo)) {
            decide(j, SIGNAL, (int)s.ssi_signo);
            return false;
        }
    return !others[1].revents && (!limit_ns || rd_now_ns() < limit_ns);
}

/* All processes are gone; what they said is not to be lost, however slow the reader.  Who has ended the
 * job by force has no more patience than the grace. */
static void finish_output(job *j)
{
    const bool forced = j->why == SIGNAL || j->why == TIMEOUT || j->why == FRONT;
    const uint64_t limit_ns = forced ? rd_now_ns() + j->request->grace_ns + 1 : 0;
    while (!run_output_done(j->output) && last_turn(j, limit_ns)) {
    }
    if (run_output_error(j->output))
        decide(j, OUTPUT, run_output_error(j->output));
}

static bool start_rank(job *j, uint32_t r)
{
    const int out = run_output_pipe(j->output, r, RUN_OUT);
    const int err = out < 0 ? -1 : run_output_pipe(j->output, r, RUN_ERR);
    const pid_t pid = err < 0 ? -1 : run_rank_start(&j->setting, r, out, err);
    const int error = errno;
    if (out >= 0)
        close(out);
    if (err >= 0)
        close(err);
    if (pid < 0) {
        j->culprit = r;
        fail(j, NO_RANK, error);
        return false;
    }
    j->ranks[r] = (rank){.pid = pid, .start_ns = rd_now_ns()};
    j->started++;
    j->running++;
    return true;
}

static void start_all(job *j)
{
    j->starting = true;
    for (uint32_t r = 0; r < j->request->size && j->now == RUNNING; r++) {
        if (!start_rank(j, r))
            break;
        hear_signals(j);
    }
    j->starting = false;
    close(j->setting.complaints);
    reap(j, 0);
}

/* --- the end --- */

static const char *signal_name(int signal, char text[static 24])
{
    const char *name = sigabbrev_np(signal);
    snprintf(text, 24, name ? "SIG%s" : "signal %.0s%d", name ? name : "", signal);
    return text;
}

static int say_rank(const job *j)
{
    char name[24], how[48];
    const char *words = run_output_words(j->output, j->culprit);
    const bool killed = WIFSIGNALED(j->detail);
    if (killed)
        snprintf(how, sizeof how, "killed by %s", signal_name(WTERMSIG(j->detail), name));
    else
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(j->detail));
    cli_failed(ME, "rank %" PRIu32 " (pid %d) failed first: %s after %.1f s%s%s", j->culprit,
               j->culprit_pid, how, (double)j->why_ns / 1e9, *words ? "; its last words: " : "",
               words);
    return killed ? 128 + WTERMSIG(j->detail) : WEXITSTATUS(j->detail);
}

/* One line if it did not go well; what to exit with. */
static int say(const job *j)
{
    char name[24];
    switch (j->why) {
    case FINE:
        return CLI_OK;
    case RANK:
        return say_rank(j);
    case NO_PROGRAM:
        cli_failed(ME, "cannot start '%s': %s", j->request->program[0], strerror(j->detail));
        return j->detail == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
    case NO_RANK:
        return cli_failed(ME, "cannot start rank %" PRIu32 ": %s", j->culprit, strerror(j->detail));
    case SIGNAL:
        cli_failed(ME, "ended by %s after %.1f s", signal_name(j->detail, name),
                   (double)(j->why_ns - j->start_ns) / 1e9);
        return 128 + j->detail;
    case TIMEOUT:
        cli_failed(ME, "not done after %g s, with %d of %" PRIu32 " ranks still running",
                   (double)j->request->timeout_ns / 1e9, j->detail, j->request->size);
        return RUN_TIMED_OUT;
    case OUTPUT:
        return cli_failed(ME, "cannot write the output: %s", strerror(j->detail));
    case FRONT:
        break;
    }
    return 128 + SIGKILL;
}

/* --- the beginning --- */

/* Two pipes per rank; what we raise for ourselves the ranks do not get. */
static bool raise_files(job *j)
{
    const rlim_t need = 2 * (rlim_t)j->request->size + 64;
    if (getrlimit(RLIMIT_NOFILE, &j->setting.files))
        return false;
    struct rlimit ours = j->setting.files;
    if (ours.rlim_cur >= need)
        return true;
    ours.rlim_cur = need;
    errno = EMFILE;
    return ours.rlim_max >= need && setrlimit(RLIMIT_NOFILE, &ours) == 0;
}

static bool prepare(job *j, int keys)
{
    const size_t polls = OTHER_POLLS + OUTPUT_POLLS + 2 * (size_t)j->request->size;
    int complaints[2];
    if (!raise_files(j) || pipe2(complaints, O_CLOEXEC | O_NONBLOCK))
        return false;
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    j->signals = run_signals();
    j->ranks = rd_alloc(j->request->size * sizeof *j->ranks);
    j->polls = rd_alloc(polls * sizeof *j->polls);
    j->output = run_output_open(j->request->size, j->request->label);
    j->complaints = complaints[0];
    j->setting.request = j->request;
    j->setting.place = j->place;
    j->setting.keys = keys;
    j->setting.nothing = nothing;
    j->setting.complaints = complaints[1];
    if (nothing < 0 || j->signals < 0)
        return false;
    errno = ENOMEM;
    return j->ranks && j->polls && j->output;
}

static void run(job *j)
{
    j->start_ns = rd_now_ns();
    if (j->request->timeout_ns)
        j->timeout_ns = j->start_ns + j->request->timeout_ns;
    start_all(j);
    dup2(j->setting.nothing, STDIN_FILENO); /* rank 0 alone reads it, so its end is the end */
    close(j->setting.nothing);
    if (j->setting.keys != STDIN_FILENO)
        close(j->setting.keys);
    while (j->now != GONE)
        turn(j);
    finish_output(j);
}

int run_job_keep(const run_request *q, const run_place *place, int keys, int life)
{
    job j = {.request = q, .place = place, .life = life};
    setpgid(0, 0); /* what is sent to the front's group is the front's to pass on */
    signal(SIGTTOU, SIG_IGN);
    int status;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) || !prepare(&j, keys)) {
        status = cli_failed(ME, "cannot start %" PRIu32 " ranks: %s", q->size, strerror(errno));
    } else {
        if (q->bind && run_rank_core(q, 0) < 0)
            cli_failed(ME, "fewer usable cores than ranks: --bind does nothing");
        run(&j);
        status = say(&j);
    }
    run_place_remove(place);
    run_output_free(j.output);
    rd_free(j.ranks);
    rd_free(j.polls);
    return status;
}
