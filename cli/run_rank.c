/* run_rank.c: one rank as a process. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/tell.h"
#include "run.h"

/* --- in the child --- */

static void set_number(const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%" PRIu32, value);
    setenv(name, text, 1);
}

static void set_environment(const run_setting *s, uint32_t rank)
{
    set_number("RONDA_RANK", s->request->first + rank);
    set_number("RONDA_SIZE", s->request->size);
    setenv("RONDA_ADDR", s->place->address, 1);
    setenv(RD_TELL, s->tell, 1);
    setenv("RONDA_DEBUG", "1", 0); /* a signal to us has all of them say what they do */
    const char *key = getenv("RONDA_KEY");
    setenv("RONDA_KEY", s->place->key, !key || !*key);
}

/* A signal that arrived while it was blocked for us is not for the program, which cannot have caught it yet. */
static void discard(int number)
{
    struct sigaction was;
    if (sigaction(number, NULL, &was) == 0 && signal(number, SIG_IGN) != SIG_ERR)
        sigaction(number, &was, NULL);
}

void run_reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGTTOU, SIG_DFL);
    signal(SIGTTIN, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    discard(SIGUSR1);
    discard(SIGUSR2);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(const run_setting *s, uint32_t rank, pid_t parent, int out, int err)
{
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(RUN_NOT_FOUND);
    if (s->cores)
        run_cores_bind(s->cores, rank);
    set_environment(s, rank);
    setrlimit(RLIMIT_NOFILE, &s->files);
    int error = 0;
    if (dup2(s->request->first + rank == 0 ? s->keys : s->nothing, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        error = errno;
    run_reset_signals();
    if (!error) {
        execvp(s->request->program[0], s->request->program);
        error = errno;
    }
    signal(SIGPIPE, SIG_IGN);
    const run_exec_error failure = {.rank = rank, .error = error};
    while (write(s->exec_errors, &failure, sizeof failure) < 0 && errno == EINTR) {
    }
    _exit(RUN_NOT_FOUND);
}

/* --- in the keeper --- */

bool run_raise_files(rlim_t need, struct rlimit *was)
{
    if (getrlimit(RLIMIT_NOFILE, was))
        return false;
    struct rlimit ours = *was;
    if (ours.rlim_cur >= need)
        return true;
    ours.rlim_cur = need;
    errno = EMFILE;
    return ours.rlim_max >= need && setrlimit(RLIMIT_NOFILE, &ours) == 0;
}

pid_t run_rank_start(const run_setting *s, uint32_t rank, int out, int err)
{
    const pid_t parent = getpid(), child = fork();
    if (child == 0)
        become(s, rank, parent, out, err);
    if (child > 0)
        setpgid(child, child); /* as the child does: whoever comes first */
    return child;
}
