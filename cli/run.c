/* run.c: `ronda run`: the front, which is the process that the user has started, and the guard (see run.h).
 *
 * The front makes the directory where the ranks meet, starts guard and keeper, and from then on only passes on what
 * comes to it: signals, stops and, where standard input is a terminal, typed input.  A terminal gives that to the
 * foreground's process group alone, which is the front's; the ranks are in groups of their own, so that a Ctrl-C
 * reaches each of them once, through the front.
 *
 *     front --- guard --- keeper --- ranks
 *
 * The guard does nothing until the keeper has ended.  If keeper and front were killed together, the guard ends
 * what they have left.  If all three are killed, the kernel ends the ranks (PR_SET_PDEATHSIG), but nobody ends what
 * those have started, nor removes the directory. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli.h"
#include "run.h"

static const char ME[] = "run";
static const char MEETING[] = "meet";
static const char UNIQUE[] = "XX"
                             "XX"
                             "XX"; /* what mkdtemp() replaces */

/* --- the place --- */

static bool place_at(run_place *p, const char *parent, bool make)
{
    const int length = snprintf(p->directory, sizeof p->directory, "%s/ronda-%s", parent, UNIQUE);
    if (length < 0 || (size_t)length >= sizeof p->directory)
        return false;
    if (make && !mkdtemp(p->directory))
        return false;
    snprintf(p->address, sizeof p->address, "file:%s/%s", p->directory, MEETING);
    return true;
}

/* Below the user's own directory for such things, or where the user wants temporary ones, or in /tmp: the first
 * whose name is short enough for a socket, and where one can be made.  CLI_OK, or the user was told of all. */
static int place_make(run_place *p, bool make)
{
    const char *const parents[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
    char why[1200] = "";
    size_t at = 0;
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        errno = ENAMETOOLONG;
        if (!parents[i] || parents[i][0] != '/')
            continue;
        if (place_at(p, parents[i], make))
            return CLI_OK;
        at += (size_t)snprintf(why + at, sizeof why - at, "%s%.300s: %s", at ? "; " : "",
                               parents[i], strerror(errno));
    }
    p->directory[0] = 0;
    return cli_failed(
        ME,
        "cannot make a directory for the ranks to meet in (%s); set TMPDIR to one that can be"
        " written to",
        why);
}

static bool place_key(run_place *p)
{
    unsigned char bytes[32];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(p->key + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static int remove_one(const char *path, const struct stat *is, int kind, struct FTW *where)
{
    (void)is;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

void run_place_remove(const run_place *place)
{
    if (place->directory[0])
        nftw(place->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* --- what would be started --- */

/* Quoted as a shell needs it. */
static void print_word(const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        printf(" %s", word);
        return;
    }
    printf(" '");
    for (; *word; word++)
        if (*word == '\'')
            printf("'\\''");
        else
            putchar(*word);
    printf("'");
}

static void print_program(const run_request *q, uint32_t rank, const char *address)
{
    const char *key = getenv("RONDA_KEY");
    printf(": RONDA_RANK=%" PRIu32 " RONDA_SIZE=%" PRIu32 " RONDA_ADDR=%s RONDA_KEY=%s", rank,
           q->size, address, key && *key ? "..." : "(32 random bytes)");
    for (uint32_t i = 0; i < q->variable_count; i++)
        print_word(q->variables[i]);
    for (char **word = q->program; *word; word++)
        print_word(*word);
    printf("\n");
}

static int print_job(const run_request *q)
{
    run_place place = {0};
    char why[RUN_CORES_WHY], text[RUN_CORES_TEXT];
    if (place_make(&place, false))
        return CLI_FAILED;
    run_cores *cores = run_cores_take(q, false, why);
    for (uint32_t r = 0; r < q->size; r++) {
        printf("rank %" PRIu32, r);
        if (cores) {
            run_cores_text(cores, r, text, sizeof text);
            printf(" on cores %s", text);
        }
        print_program(q, r, place.address);
    }
    run_cores_free(cores);
    return CLI_OK;
}

static int print_hosts(const run_request *q)
{
    char host[RUN_ADDRESS - 8], address[RUN_ADDRESS];
    uint32_t port = 0, rank = 0;
    run_agent *agent = run_agent_read(q);
    if (!agent)
        return CLI_USAGE;
    hosts_address(q->hosts.at[0].name, host, sizeof host);
    if (q->address)
        run_address_split(q->address, host, sizeof host, &port);
    snprintf(address, sizeof address, port ? "%s:%" PRIu32 : "%s:(a free port)", host, port);
    for (uint32_t i = 0; i < q->hosts.count; i++) {
        cli_words words = {0};
        const bool made = run_agent_words(agent, &q->hosts.at[i], &words);
        printf("host %s:", q->hosts.at[i].name);
        for (char **word = words.at; made && *word; word++)
            print_word(*word);
        printf("\n");
        cli_words_free(&words);
        for (uint32_t end = rank + q->hosts.at[i].slots; rank < end; rank++) {
            printf("rank %" PRIu32 " on %s", rank, q->hosts.at[i].name);
            print_program(q, rank, address);
        }
    }
    run_agent_free(agent);
    return CLI_OK;
}

/* --- signals --- */

int run_signals(void)
{
    static const int heard[] = {SIGINT,  SIGQUIT, SIGHUP,  SIGTSTP,
                                SIGUSR1, SIGUSR2, SIGTERM, SIGCONT};
    static const int always = 6; /* from here on they count even if they were ignored */
    struct sigaction was, child = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP};
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < (int)(sizeof heard / sizeof *heard); i++)
        if (i >= always || (sigaction(heard[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN))
            sigaddset(&set, heard[i]);
    sigaddset(&set, SIGCHLD);
    sigaction(SIGCHLD, &child, NULL);
    if (sigprocmask(SIG_SETMASK, &set, NULL))
        return -1;
    return rd_fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

/* Lets a blocked signal do to us what it does by default. */
static void raise_by_default(int signal)
{
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, signal);
    raise(signal);
    sigprocmask(SIG_UNBLOCK, &one, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* --- the front --- */

typedef struct {
    pid_t guard, keeper;
    bool hosts; /* the job is on several */
    int signals;
    int keys; /* a pipe to rank 0 for what is typed; -1: none, since rank 0 reads standard input itself */
    char text[4096];
    size_t length; /* of typed input that rank 0 has not read yet */
    int last;      /* the signal that was passed on last */
} front;

/* The kernel decides whether there is anyone who could wake us again; if not, it does not stop us. */
static void stop_with_keeper(const front *f)
{
    kill(f->keeper, SIGTSTP);
    raise_by_default(SIGTSTP);
    kill(f->keeper, SIGCONT);
}

static void pass_on_signals(front *f)
{
    struct signalfd_siginfo s;
    while (read(f->signals, &s, sizeof s) == (ssize_t)sizeof s) {
        if (s.ssi_signo == SIGTSTP) {
            stop_with_keeper(f);
        } else if (s.ssi_signo != SIGCHLD) {
            kill(f->keeper, (int)s.ssi_signo);
            f->last = (int)s.ssi_signo == SIGCONT ? f->last : (int)s.ssi_signo;
        }
    }
}

static void end_keys(front *f)
{
    close(f->keys);
    f->keys = -1;
}

static void take_keys(front *f)
{
    const ssize_t n = read(STDIN_FILENO, f->text, sizeof f->text);
    if (n > 0)
        f->length = (size_t)n;
    else if (n == 0 || (errno != EINTR && errno != EAGAIN && tcgetpgrp(STDIN_FILENO) == getpgrp()))
        end_keys(f);
}

static void give_keys(front *f)
{
    const ssize_t n = write(f->keys, f->text, f->length);
    if (n > 0) {
        memmove(f->text, f->text + n, f->length - (size_t)n);
        f->length -= (size_t)n;
    } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
        end_keys(f);
    }
}

static void front_turn(front *f)
{
    enum { BACKGROUND_MS = 1000 };
    struct pollfd polls[2] = {{.fd = f->signals, .events = POLLIN}, {.fd = -1}};
    const bool ours = f->keys >= 0 && (f->length || tcgetpgrp(STDIN_FILENO) == getpgrp());
    if (ours && f->length)
        polls[1] = (struct pollfd){.fd = f->keys, .events = POLLOUT};
    else if (ours)
        polls[1] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(polls, 2, f->keys >= 0 && !ours ? BACKGROUND_MS : -1) < 0)
        return;
    if (polls[1].revents && f->length)
        give_keys(f);
    else if (polls[1].revents)
        take_keys(f);
    if (polls[0].revents)
        pass_on_signals(f);
}

/* Until the keeper ends; its status. */
static int front_serve(front *f)
{
    int status;
    pid_t ended;
    signal(SIGTTIN, SIG_IGN);
    while ((ended = waitpid(f->guard, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR))
        front_turn(f);
    return status;
}

/* What to exit with; or the front dies of the signal that ended the job, so that who called us sees. */
static int front_end(const front *f, const run_place *place, int status)
{
    if (WIFSIGNALED(status)) {
        if (f->hosts)
            run_children_wait(RUN_REMOTE_NS);
        run_children_kill();
        cli_failed(ME, "its own process %d was killed by signal %d, and the job with it",
                   (int)f->keeper, WTERMSIG(status));
    }
    run_place_remove(place);
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const bool deadly = f->last == SIGINT || f->last == SIGTERM || f->last == SIGHUP;
    if (deadly && code == 128 + f->last)
        raise_by_default(f->last);
    return code;
}

/* --- both --- */

/* q NULL: a remote side, whose keeper is told over its link what to run. */
static int keep(const run_request *q, const run_place *place, int keys, int life)
{
    if (!q)
        return run_remote_keep(life);
    return q->hosts.count ? run_hosts_keep(q, place, keys, life)
                          : run_job_keep(q, place, keys, life, NULL);
}

/* The guard ends as the keeper has ended, since the front waits for the guard. */
static int end_like(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    signal(WTERMSIG(status), SIG_DFL);
    raise_by_default(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

static int guard(const run_request *q, const run_place *place, pid_t keeper, pid_t parent)
{
    int status = 0;
    prctl(PR_SET_NAME, "ronda-guard");
    while (waitpid(keeper, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status) || getppid() != parent) { /* the front may be dying, too */
        if (q && q->hosts.count)
            run_children_wait(RUN_REMOTE_NS);
        run_children_kill();
        run_place_remove(place);
    }
    return end_like(status);
}

/* In a process of its own; the keeper's number goes to the front. */
static void start_keeper(const run_request *q, const run_place *place, int keys, int life,
                         int number, pid_t parent)
{
    setpgid(0, 0);
    pid_t keeper = prctl(PR_SET_CHILD_SUBREAPER, 1) ? -1 : fork();
    if (keeper == 0) {
        close(number);
        _exit(keep(q, place, keys, life));
    }
    if (keeper > 0)
        setpgid(keeper, keeper);
    if (keeper < 0)
        keeper = -errno;
    close(life);
    close(keys); /* the ranks' alone */
    if (write(number, &keeper, sizeof keeper) != (ssize_t)sizeof keeper && keeper > 0)
        kill(keeper, SIGKILL);
    close(number);
    _exit(keeper > 0 ? guard(q, place, keeper, parent) : CLI_FAILED);
}

static int start(const run_request *q, const run_place *place, int signals)
{
    int life[2], number[2], keys[2] = {STDIN_FILENO, -1};
    const pid_t self = getpid();
    front f = {.signals = signals, .hosts = q && q->hosts.count};
    if (rd_fd_pipe(life, 0) || rd_fd_pipe(number, 0) || prctl(PR_SET_CHILD_SUBREAPER, 1))
        return cli_failed(ME, "cannot start: %s", strerror(errno));
    if (isatty(STDIN_FILENO) && rd_fd_pipe(keys, 0))
        return cli_failed(ME, "cannot start: %s", strerror(errno));
    fflush(stdout);
    f.guard = fork();
    if (f.guard < 0)
        return cli_failed(ME, "cannot start: %s", strerror(errno));
    if (f.guard == 0) {
        close(life[1]);
        close(number[0]);
        close(f.signals);
        if (keys[1] >= 0)
            close(keys[1]);
        start_keeper(q, place, keys[0], life[0], number[1], self);
    }
    close(number[1]);
    if (read(number[0], &f.keeper, sizeof f.keeper) != (ssize_t)sizeof f.keeper || f.keeper <= 0)
        return cli_failed(ME, "cannot start: %s", strerror(f.keeper < 0 ? -f.keeper : EIO));
    close(number[0]);
    close(life[0]);
    f.keys = keys[1];
    if (f.keys >= 0) {
        close(keys[0]);
        fcntl(f.keys, F_SETFL, O_NONBLOCK);
    } else {
        close(STDIN_FILENO); /* rank 0 alone reads it, so its end is the end */
    }
    return front_end(&f, place, front_serve(&f));
}

/* Standard streams that are closed become /dev/null, for us and for those that inherit them. */
static bool open_standard(void)
{
    const int nothing = rd_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && nothing >= 0; fd++)
        if (fcntl(fd, F_GETFD) < 0 && dup2(nothing, fd) < 0)
            return false;
    return nothing >= 0 && close(nothing) == 0;
}

/* What an agent runs on a host: see run_remote.c.  Only run_agent.c starts this. */
static int run_remote_side(void)
{
    const run_place none = {0};
    const int signals = open_standard() ? run_signals() : -1;
    if (signals < 0)
        return cli_failed(ME, "the remote side cannot start: %s", strerror(errno));
    return start(NULL, &none, signals);
}

static void set_variables(const run_request *q)
{
    for (uint32_t i = 0; i < q->variable_count; i++)
        if (strchr(q->variables[i], '='))
            putenv((char *)q->variables[i]); /* an argument of main()'s: it may be kept */
}

static int run_job(const run_request *q)
{
    run_place place = {0};
    /* From here on signals wait, so that none can end us before what we make is taken away again. */
    const int signals = open_standard() ? run_signals() : -1;
    if (signals < 0 || !place_key(&place))
        return cli_failed(ME, "cannot start: %s", strerror(errno));
    if (!q->hosts.count && place_make(&place, true))
        return CLI_FAILED;
    const int ended = start(q, &place, signals);
    run_place_remove(&place);
    return ended;
}

int cli_run(int count, char **arguments)
{
    run_request q;
    if (count == 1 && strcmp(arguments[0], "--remote-side") == 0)
        return run_remote_side();
    int status = run_read(count, arguments, &q);
    if (status)
        return status;
    if (q.help)
        return fputs(cli_run_help, stdout) < 0 ? CLI_FAILED : CLI_OK;
    const bool hosts = q.hosts_file || q.host_names;
    if (hosts && (status = run_read_hosts(&q)))
        return status;
    if (!hosts && !q.dry_run)
        set_variables(&q);
    if (q.dry_run)
        status = hosts ? print_hosts(&q) : print_job(&q);
    else
        status = run_job(&q);
    hosts_free(&q.hosts);
    return status;
}
