/* run_say.c: what became of a job, in one line. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "args.h"
#include "run.h"

static const char ME[] = "run";

enum { HOW = 64 };

static const char *signal_name(int signal, char text[static 24])
{
    const char *name = sigabbrev_np(signal);
    snprintf(text, 24, name ? "SIG%s" : "signal %.0s%d", name ? name : "", signal);
    return text;
}

/* "exit code 3" or "killed by SIGSEGV" */
static const char *how_ended(int status, char text[static HOW])
{
    char name[24];
    if (WIFSIGNALED(status))
        snprintf(text, HOW, "killed by %s", signal_name(WTERMSIG(status), name));
    else
        snprintf(text, HOW, "exit code %d", WEXITSTATUS(status));
    return text;
}

uint32_t run_find_cause(const run_end ends[], uint32_t size, uint32_t rank)
{
    for (uint32_t n = 0; n < size; n++) {
        const uint32_t next = ends[rank].saw - 1; /* of 0: beyond them all */
        if (next >= size || !ends[next].failed || ends[next].saw == rank + 1)
            break;
        rank = next;
    }
    return rank;
}

static int say_rank(const run_verdict *v, const run_end *e, const char *host, const char *line)
{
    char how[HOW];
    cli_failed(ME, "rank %" PRIu32 " (pid %d%s%s) failed first: %s after %.1f s%s%s%s", v->culprit,
               e->pid, host ? " on " : "", host ? host : "",
               e->status ? how_ended(e->status, how) : "it exited with status 0",
               (double)e->ns / 1e9, e->status ? "" : ", without closing its communicator",
               *line ? "; its last line: " : "", line);
    if (!e->status)
        return CLI_FAILED;
    return WIFSIGNALED(e->status) ? 128 + WTERMSIG(e->status) : WEXITSTATUS(e->status);
}

static int say_host(const run_verdict *v, const char *host, const char *line)
{
    char how[HOW];
    return cli_failed(ME, "host %s %s: its agent ended early, %s after %.1f s%s%s", host,
                      v->why == RUN_HOST ? "is lost" : "cannot be reached",
                      how_ended(v->detail, how), (double)v->ns / 1e9,
                      *line ? "; its last line: " : ", with no output", line);
}

int run_say(const run_request *q, const run_verdict *v, const run_end *end, const char *host,
            const char *line)
{
    char name[24];
    const char *on = host ? " on " : "", *where = host ? host : "";
    switch (v->why) {
    case RUN_FINE:
        return CLI_OK;
    case RUN_RANK:
        return say_rank(v, end, host, line);
    case RUN_NO_PROGRAM:
        cli_failed(ME, "cannot start '%s'%s%s: %s", q->program[0], on, where, strerror(v->detail));
        return v->detail == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
    case RUN_NO_RANK:
        return cli_failed(ME, "cannot start rank %" PRIu32 "%s%s: %s", v->culprit, on, where,
                          strerror(v->detail));
    case RUN_NO_DIRECTORY:
        return cli_failed(ME, "cannot enter this directory%s%s: %s", on, where,
                          strerror(v->detail));
    case RUN_BY_SIGNAL:
        cli_failed(ME, "ended by %s%s%s after %.1f s", signal_name(v->detail, name), on, where,
                   (double)v->ns / 1e9);
        return 128 + v->detail;
    case RUN_TIMEOUT:
        cli_failed(ME, "not done after %g s, with %d of %" PRIu32 " ranks still running",
                   (double)q->timeout_ns / 1e9, v->detail, q->size);
        return RUN_TIMED_OUT;
    case RUN_OUTPUT:
        return cli_failed(ME, "cannot write the output: %s", strerror(v->detail));
    case RUN_NO_HOST:
    case RUN_HOST:
        return say_host(v, where, line);
    case RUN_SILENT:
        return cli_failed(ME, "host %s is lost: nothing was heard of it for %.0f s", where,
                          (double)v->ns / 1e9);
    case RUN_NO_ANSWER:
        return cli_failed(ME, "host %s has not answered within %.3g s, %d of %" PRIu32 " have%s%s",
                          where, (double)v->ns / 1e9, v->detail, q->hosts.count,
                          *line ? "; its last line: " : "", line);
    case RUN_FRONT:
    case RUN_ELSEWHERE:
        break;
    }
    return 128 + SIGKILL;
}
