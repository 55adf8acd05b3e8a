/* run_job.c: the keeper of one host's ranks (see run.h): starts them, passes their output on, decides what became
 * of the job, and ends all of it.
 *
 *   RUNNING --signal to ronda run--> SIGNALLED --grace--> TERMINATING --grace--> ENDED
 *      | | |                        (passed on)            (SIGTERM)            (SIGKILL)
 *      | | `--timeout, output cannot be written--------------^                     ^
 *      | `----a rank failed----------> FAILING --0.25 s------^     second signal; the front has ended
 *      `--all ranks ended------------> LINGERING --1 s-------^
 *
 * FAILING gives the other ranks time to fail by themselves and to tell whose failure they saw; they know within
 * milliseconds.  LINGERING waits for processes that ranks have left.  When no process is left, any stage becomes
 * ENDED.  The first reason to end is the verdict: later ones are its consequences.
 *
 * On a remote side (`remote`) the launcher is told what happens, and its commands count as signals do. */
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
#include "base/fd.h"
#include "base/mem.h"
#include "base/tell.h"
#include "run.h"
#include "run_link.h"

static const char ME[] = "run";

static const uint64_t LINGER_NS = 1000000000, FAILING_NS = 250000000;

typedef enum { RUNNING, LINGERING, SIGNALLED, FAILING, TERMINATING, ENDED } stage;

typedef struct {
    pid_t pid; /* 0: not started, or ended */
    uint64_t start_ns;
    int error;     /* why its program cannot be executed; 0: it can */
    uint32_t saw;  /* as in run_end */
    bool unclosed; /* it has said that it exits without closing its communicator */
} rank;

typedef struct {
    const run_request *request;
    const run_place *place;
    run_setting setting;
    run_output *output;
    run_remote *remote; /* NULL: there is no launcher elsewhere */
    cli_words names;    /* of labels */
    rank *ranks;
    run_end *ends; /* [count] */
    struct pollfd *polls;
    int signals, life, exec_errors, told; /* descriptors to read */
    uint32_t started, running;
    bool starting; /* not all ranks are started yet */

    stage now;
    uint64_t start_ns, next_ns; /* next_ns: when the stage ends by itself; 0: it does not */
    uint64_t timeout_ns;        /* when the job times out; 0: never */
    uint64_t pause_ns;          /* since when it is stopped; 0: it is not */

    run_verdict verdict;
    uint64_t why_ns; /* when there was a verdict */
} job;

/* --- signals to ranks --- */

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
    run_children_each(tell_stray, &t);
}

/* --- stages --- */

static void enter(job *j, stage next)
{
    static const uint64_t at_least_ns = 1;
    const uint64_t grace_ns = j->request->grace_ns;
    const uint64_t moment_ns = next == LINGERING ? LINGER_NS : FAILING_NS;
    const bool briefly = (next == LINGERING || next == FAILING) && grace_ns > moment_ns;
    const uint64_t wait_ns = briefly ? moment_ns : grace_ns;
    j->now = next;
    j->next_ns = rd_now_ns() + wait_ns + at_least_ns;
    j->pause_ns = 0;
    if (next != TERMINATING)
        return;
    tell(j, SIGTERM);
    tell(j, SIGCONT); /* a stopped process does not see SIGTERM */
}

static void kill_all(job *j)
{
    for (uint32_t r = 0; r < j->started; r++)
        if (j->ranks[r].pid)
            kill(-j->ranks[r].pid, SIGKILL);
    if (!run_children_kill())
        cli_failed(ME, "some processes of the job could not be killed");
    j->running = 0;
    j->now = ENDED;
}

/* The first reason is the one that counts. */
static bool decide(job *j, run_verdict v)
{
    if (j->verdict.why != RUN_FINE)
        return false;
    j->why_ns = rd_now_ns();
    if (!v.ns)
        v.ns = j->why_ns - j->start_ns;
    j->verdict = v;
    if (j->remote && v.why != RUN_RANK)
        run_remote_verdict(j->remote, &v);
    return true;
}

static bool fail(job *j, run_verdict v)
{
    const bool briefly = v.why == RUN_RANK || v.why == RUN_ELSEWHERE;
    if (!decide(j, v))
        return false;
    if (j->now < FAILING)
        enter(j, briefly ? FAILING : TERMINATING);
    return true;
}

/* --- ranks that ended --- */

static void read_exec_errors(job *j)
{
    run_exec_error c;
    while (read(j->exec_errors, &c, sizeof c) == (ssize_t)sizeof c)
        if (c.rank < j->request->count)
            j->ranks[c.rank].error = c.error;
}

/* Is the sender in the process group of the rank?  If either has ended, that is taken for granted. */
static bool is_from(pid_t sender, const rank *r)
{
    const pid_t group = getpgid(sender);
    return group < 0 || !r->pid || group == r->pid;
}

/* No more than ranks can have sent at once, so that a flood of datagrams does not keep us here. */
static void read_told(job *j)
{
    const run_request *q = j->request;
    run_told t;
    for (uint32_t n = 0; n < 2 * q->count + 16 && run_tell_read(j->told, &t); n++) {
        const uint32_t r = t.rank - q->first;
        if (!t.sound || r >= q->count || !is_from(t.pid, &j->ranks[r]))
            continue;
        j->ranks[r].unclosed = t.failed == RD_TOLD_UNCLOSED;
        if (!j->ranks[r].unclosed)
            j->ranks[r].saw = t.failed < q->size ? t.failed + 1 : 0;
    }
}

static void rank_ended(job *j, uint32_t r, int status)
{
    rank *of = &j->ranks[r];
    run_end *e = &j->ends[r];
    read_exec_errors(j);
    read_told(j);
    *e = (run_end){.pid = of->pid,
                   .status = status,
                   .ns = rd_now_ns() - of->start_ns,
                   .saw = of->saw,
                   .failed = status ? j->now <= FAILING && !of->error : of->unclosed};
    of->pid = 0;
    j->running--;
    if (status && of->error)
        fail(j, (run_verdict){
                    .why = RUN_NO_PROGRAM, .culprit = j->request->first + r, .detail = of->error});
    else if (status)
        fail(j, (run_verdict){.why = RUN_RANK, .culprit = r});
    if (j->remote)
        run_remote_ended(j->remote, r, e);
}

static void child_ended(job *j, pid_t pid, int status)
{
    for (uint32_t r = 0; r < j->started; r++)
        if (j->ranks[r].pid == pid) {
            rank_ended(j, r, status);
            return;
        }
}

/* Signals do not queue, so the one that we get is of the child that ended first: it is reaped first. */
static void reap(job *j, pid_t first)
{
    int status;
    if (first > 0 && waitpid(first, &status, WNOHANG) == first)
        child_ended(j, first, status);
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        child_ended(j, pid, status);
    if (j->starting)
        return; /* not all ranks are started yet */
    if (pid < 0 && errno == ECHILD)
        j->now = ENDED;
    else if (j->running == 0 && j->now == RUNNING)
        enter(j, LINGERING);
}

/* --- signals to ronda run --- */

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
    if (!decide(j, (run_verdict){.why = RUN_BY_SIGNAL, .detail = signal})) {
        if (j->verdict.why != RUN_BY_SIGNAL || rd_now_ns() - j->why_ns > RUN_SAME_SIGNAL_NS)
            kill_all(j);
    } else if (signal == SIGTERM) {
        enter(j, TERMINATING);
    } else {
        tell(j, signal);
        tell(j, SIGCONT);
        enter(j, SIGNALLED);
    }
}

bool run_ends_job(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

static void take_signal(job *j, int signal)
{
    if (signal == SIGTSTP)
        pause_job(j);
    else if (signal == SIGCONT)
        continue_job(j);
    else if (run_ends_job(signal))
        end_by_signal(j, signal);
    else if (signal == SIGUSR1 || signal == SIGUSR2)
        run_children_signal(signal);
    else
        tell(j, signal);
}

static void read_signals(job *j)
{
    struct signalfd_siginfo s;
    while (j->now != ENDED && read(j->signals, &s, sizeof s) == (ssize_t)sizeof s) {
        if (s.ssi_signo == SIGCHLD)
            reap(j, (pid_t)s.ssi_pid);
        else
            take_signal(j, (int)s.ssi_signo);
    }
}

/* --- commands of a launcher on another host --- */

static void end_without_front(job *j)
{
    decide(j, (run_verdict){.why = RUN_FRONT});
    kill_all(j);
}

static void read_orders(job *j)
{
    const run_verdict elsewhere = {.why = RUN_ELSEWHERE};
    run_order o;
    while (j->now != ENDED && run_remote_next(j->remote, &o)) {
        if (o.kind == RUN_SIGNAL) {
            take_signal(j, o.signal);
        } else {
            reap(j, 0); /* our own failure may have come first */
            fail(j, elsewhere);
        }
        if (o.kind == RUN_END && j->now < TERMINATING)
            enter(j, TERMINATING);
        if (o.kind == RUN_KILL && j->now != ENDED)
            kill_all(j);
    }
    if (j->now != ENDED && run_remote_lost(j->remote))
        end_without_front(j);
}

/* --- time --- */

static void look_at_clock(job *j)
{
    const uint64_t now_ns = rd_now_ns();
    if (j->timeout_ns && !j->pause_ns && now_ns >= j->timeout_ns && j->now < TERMINATING)
        fail(j, (run_verdict){.why = RUN_TIMEOUT, .detail = (int)j->running});
    else if (j->next_ns && now_ns >= j->next_ns && j->now != ENDED) {
        if (j->now == TERMINATING)
            kill_all(j);
        else
            enter(j, TERMINATING);
    }
}

enum {
    NEVER_MS = 1000000,
    REMOTE_MS = 5000
}; /* REMOTE_MS: how often to look whether the launcher is silent */

/* Milliseconds until something is due; -1: nothing is. */
static int until_due(const job *j)
{
    const uint64_t now_ns = rd_now_ns();
    const int most_ms = j->remote ? REMOTE_MS : NEVER_MS;
    uint64_t due_ns = j->next_ns ? j->next_ns : UINT64_MAX;
    if (j->timeout_ns && !j->pause_ns && j->now < TERMINATING && j->timeout_ns < due_ns)
        due_ns = j->timeout_ns;
    if (due_ns == UINT64_MAX)
        return most_ms < NEVER_MS ? most_ms : -1;
    if (due_ns <= now_ns)
        return 0;
    const uint64_t ms = (due_ns - now_ns) / 1000000 + 1;
    return ms < (uint64_t)most_ms ? (int)ms : most_ms;
}

/* --- the loop --- */

enum { OTHER_POLLS = 3 + RUN_REMOTE_POLLS, OUTPUT_POLLS = 2 };

/* Waits for anything to happen; output is passed on.  false: nothing did, or the wait was cut short. */
static bool await(job *j, int wait_ms, bool last)
{
    struct pollfd *link = j->polls + 3, *outputs = j->polls + OTHER_POLLS;
    for (size_t i = 0; i < OTHER_POLLS; i++)
        j->polls[i] = (struct pollfd){.fd = -1};
    j->polls[0] = (struct pollfd){.fd = j->signals, .events = POLLIN};
    j->polls[1] = (struct pollfd){.fd = j->life, .events = POLLIN};
    j->polls[2] = (struct pollfd){.fd = j->told, .events = POLLIN};
    const size_t links = j->remote ? run_remote_polls(j->remote, link) : 0;
    const size_t count = run_output_polls(j->output, outputs);
    if (poll(j->polls, OTHER_POLLS + count, wait_ms) < 0)
        return false;
    run_output_turn(j->output, outputs, count, last);
    if (j->remote)
        run_remote_turn(j->remote, link, links);
    return true;
}

static void turn(job *j)
{
    if (!await(j, until_due(j), false))
        return;
    const int error = run_output_error(j->output);
    if (error)
        fail(j, (run_verdict){.why = RUN_OUTPUT, .detail = error});
    if (j->polls[1].revents && j->now != ENDED)
        end_without_front(j);
    if (j->polls[2].revents)
        read_told(j);
    if (j->polls[0].revents)
        read_signals(j);
    if (j->remote)
        read_orders(j);
    look_at_clock(j);
}

/* A signal ends the waiting for a slow reader of the last output. */
static bool last_turn(job *j, uint64_t limit_ns)
{
    const int wait_ms = run_output_reads(j->output) ? 0 : limit_ns || j->remote ? 50 : -1;
    if (!await(j, wait_ms, true))
        return errno == EINTR;
    struct signalfd_siginfo s;
    while (j->polls[0].revents && read(j->signals, &s, sizeof s) == (ssize_t)sizeof s)
        if (run_ends_job((int)s.ssi_signo)) {
            decide(j, (run_verdict){.why = RUN_BY_SIGNAL, .detail = (int)s.ssi_signo});
            return false;
        }
    run_order o;
    while (j->remote && run_remote_next(j->remote, &o))
        if (o.kind == RUN_KILL)
            return false;
    return !j->polls[1].revents && (!limit_ns || rd_now_ns() < limit_ns) &&
           !(j->remote && run_remote_lost(j->remote));
}

/* All processes have ended; what they wrote is passed on, however slow the reader.  After a signal or a timeout
 * it has as long as the grace. */
static void finish_output(job *j)
{
    const run_cause why = j->verdict.why;
    const bool forced = why == RUN_BY_SIGNAL || why == RUN_TIMEOUT || why == RUN_FRONT;
    const uint64_t limit_ns = forced ? rd_now_ns() + j->request->grace_ns + 1 : 0;
    while (!run_output_done(j->output) && last_turn(j, limit_ns)) {
    }
    const int error = run_output_error(j->output);
    if (error)
        decide(j, (run_verdict){.why = RUN_OUTPUT, .detail = error});
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
        const uint32_t culprit = j->request->first + r;
        fail(j, (run_verdict){.why = RUN_NO_RANK, .culprit = culprit, .detail = error});
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
    for (uint32_t r = 0; r < j->request->count && j->now == RUNNING; r++) {
        if (!start_rank(j, r))
            break;
        read_signals(j);
    }
    j->starting = false;
    close(j->setting.exec_errors);
    reap(j, 0);
}

/* --- the beginning --- */

/* "0", "1", ...: what stands in the labels. */
static bool make_names(uint32_t count, cli_words *out)
{
    bool good = true;
    for (uint32_t r = 0; r < count && good; r++)
        good = cli_words_add(out, "%" PRIu32, r);
    return good;
}

static bool prepare(job *j, int keys)
{
    const uint32_t count = j->request->count;
    const size_t polls = OTHER_POLLS + OUTPUT_POLLS + 2 * (size_t)count;
    int exec_errors[2];
    /* Two pipes and a core per rank; what we raise for ourselves the ranks do not get. */
    if (!run_raise_files(3 * (rlim_t)count + 64, &j->setting.files) ||
        rd_fd_pipe(exec_errors, O_NONBLOCK))
        return false;
    const int nothing = rd_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    j->signals = run_signals();
    j->ranks = rd_alloc(count * sizeof *j->ranks);
    j->ends = rd_alloc(count * sizeof *j->ends);
    j->polls = rd_alloc(polls * sizeof *j->polls);
    const bool named = make_names(count, &j->names);
    j->output = run_output_open(count, j->request->label ? j->names.at : NULL, j->remote);
    j->exec_errors = exec_errors[0];
    j->told = run_tell_open(j->setting.tell);
    j->setting.request = j->request;
    j->setting.place = j->place;
    j->setting.keys = keys;
    j->setting.nothing = nothing;
    j->setting.exec_errors = exec_errors[1];
    if (nothing < 0 || j->signals < 0)
        return false;
    errno = ENOMEM;
    return j->ranks && j->ends && j->polls && named && j->output;
}

static run_cores *take_cores(job *j)
{
    const run_request *q = j->request;
    char why[RUN_CORES_WHY], text[RUN_CORES_TEXT];
    run_cores *c = run_cores_take(q, true, why);
    j->setting.cores = c;
    if (!c && q->bind)
        cli_failed(ME, "--bind does nothing: %s", why);
    else if (!c && q->verbose)
        cli_failed(ME, "ranks are bound to no cores: %s", why);
    for (uint32_t r = 0; c && r < q->count && q->verbose; r++) {
        run_cores_text(c, r, text, sizeof text);
        cli_failed(ME, "rank %" PRIu32 " has cores %s", q->first + r, text);
    }
    return c;
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
    while (j->now != ENDED)
        turn(j);
    finish_output(j);
}

static int say(job *j)
{
    run_verdict *v = &j->verdict;
    if (v->why != RUN_RANK)
        return run_say(j->request, v, NULL, NULL, "");
    v->culprit = run_find_cause(j->ends, j->request->count, v->culprit);
    return run_say(j->request, v, &j->ends[v->culprit], NULL,
                   run_output_last_line(j->output, v->culprit));
}

int run_job_keep(const run_request *q, const run_place *place, int keys, int life,
                 run_remote *remote)
{
    job j = {.request = q, .place = place, .life = life, .remote = remote, .told = -1};
    setpgid(0, 0); /* signals to the front's group reach us through the front alone */
    signal(SIGTTOU, SIG_IGN);
    int status;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) || !prepare(&j, keys)) {
        status = cli_failed(ME, "cannot start %" PRIu32 " ranks: %s", q->count, strerror(errno));
    } else {
        run_cores *cores = take_cores(&j);
        run(&j);
        run_cores_free(cores);
        status = remote ? (j.verdict.why == RUN_FRONT ? CLI_FAILED : CLI_OK) : say(&j);
    }
    run_place_remove(place);
    if (j.told >= 0)
        close(j.told);
    run_output_free(j.output);
    cli_words_free(&j.names);
    rd_free(j.ranks);
    rd_free(j.ends);
    rd_free(j.polls);
    return status;
}
