/* run_remote.c: the remote side: the keeper of a host's ranks, with a link to the launcher on another host.
 *
 *   launcher --link--> commands ------------> run_job.c
 *                      input  --pipe--------> rank 0, if it is here
 *   launcher <--link-- what ranks write, how they ended, what went wrong
 *
 * The link is our standard input and output, which the ranks do not get to see. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "run.h"
#include "run_link.h"

static const char ME[] = "run";

struct run_remote {
    run_link link;
    uint32_t first; /* the launcher counts ranks from 0 on, run_job.c from this one on */
    size_t room[2]; /* credit for RUN_OUT and RUN_ERR, in bytes */
    int input; /* a pipe to rank 0; -1: that is on another host, or has closed its standard input */
    char waiting[RUN_WINDOW]; /* input that rank 0 has not read yet */
    size_t waits;             /* bytes of waiting */
    bool input_ends;
};

/* --- input --- */

static void end_input(run_remote *f)
{
    if (f->input >= 0)
        close(f->input);
    f->input = -1;
    f->waits = 0;
}

static void take_input(run_remote *f, const char *bytes, size_t length)
{
    if (f->input < 0)
        return;
    if (length > sizeof f->waiting - f->waits) {
        f->link.lost = true; /* more than its credit: this is no launcher of ours */
        return;
    }
    f->input_ends |= length == 0;
    memcpy(f->waiting + f->waits, bytes, length);
    f->waits += length;
    if (f->input_ends && !f->waits)
        end_input(f);
}

static void give_input(run_remote *f)
{
    const ssize_t n = f->waits ? write(f->input, f->waiting, f->waits) : 0;
    if (n > 0) {
        memmove(f->waiting, f->waiting + n, f->waits - (size_t)n);
        f->waits -= (size_t)n;
        run_link_put(&f->link, RUN_CREDIT, (uint64_t[]){RUN_IN, (uint64_t)n}, 2, NULL, 0);
    }
    if ((n < 0 && errno != EAGAIN && errno != EINTR) || (f->input_ends && !f->waits))
        end_input(f);
}

/* --- for run_job.c --- */

size_t run_remote_polls(const run_remote *f, struct pollfd polls[RUN_REMOTE_POLLS])
{
    const bool writes = f->link.put.from < f->link.put.to;
    polls[0] = (struct pollfd){.fd = f->link.lost ? -1 : f->link.in, .events = POLLIN};
    polls[1] = (struct pollfd){.fd = writes && !f->link.lost ? f->link.out : -1, .events = POLLOUT};
    polls[2] = (struct pollfd){.fd = f->waits ? f->input : -1, .events = POLLOUT};
    return RUN_REMOTE_POLLS;
}

void run_remote_turn(run_remote *f, const struct pollfd polls[], size_t count)
{
    (void)count;
    if (polls[0].revents)
        run_link_read(&f->link);
    if (polls[2].revents && f->input >= 0)
        give_input(f);
    run_link_write(&f->link); /* mostly there is room: try before polling */
}

static void add_room(run_remote *f, uint64_t which, uint64_t bytes)
{
    const size_t most = RUN_WINDOW - f->room[which];
    f->room[which] += bytes < most ? (size_t)bytes : most;
}

bool run_remote_next(run_remote *f, run_order *out)
{
    run_frame frame;
    while (run_link_next(&f->link, &frame)) {
        const uint64_t which = frame.numbers[0];
        if (frame.kind == RUN_INPUT)
            take_input(f, frame.bytes, frame.length);
        else if (frame.kind == RUN_CREDIT && which <= RUN_ERR)
            add_room(f, which, frame.numbers[1]);
        else if (frame.kind == RUN_PING)
            run_link_put(&f->link, RUN_PING, NULL, 0, NULL, 0);
        if (frame.kind >= RUN_SIGNAL && frame.kind <= RUN_KILL) {
            const bool one = which >= 1 && which < NSIG;
            *out = (run_order){.kind = frame.kind, .signal = one ? (int)which : SIGTERM};
            return true;
        }
    }
    return false;
}

bool run_remote_lost(const run_remote *f)
{
    return f->link.lost || rd_now_ns() - f->link.heard_ns > RUN_SILENCE_NS;
}

size_t run_remote_room(const run_remote *f, int which)
{
    return f->room[which];
}

void run_remote_wrote(run_remote *f, uint32_t rank, int which, const char *text, size_t length)
{
    const uint64_t numbers[] = {f->first + rank, (uint64_t)which};
    run_link_put(&f->link, RUN_WROTE, numbers, 2, text, length);
    f->room[which] -= length;
}

void run_remote_ended(run_remote *f, uint32_t rank, const run_end *e)
{
    const uint64_t numbers[] = {f->first + rank, (uint64_t)e->pid, (uint64_t)e->status,
                                e->ns,           e->saw,           e->failed};
    run_link_put(&f->link, RUN_ENDED, numbers, 6, NULL, 0);
}

void run_remote_verdict(run_remote *f, const run_verdict *v)
{
    const uint64_t numbers[] = {v->why, v->culprit, (uint64_t)v->detail};
    if (v->why != RUN_FRONT && v->why != RUN_ELSEWHERE)
        run_link_put(&f->link, RUN_VERDICT, numbers, 3, NULL, 0);
}

bool run_remote_sent(const run_remote *f)
{
    return f->link.put.from == f->link.put.to;
}

/* --- before the ranks start --- */

/* Waits for a frame of this kind.  false: there will be none. */
static bool await_frame(run_remote *f, int kind, int life, int signals, run_frame *out)
{
    for (;;) {
        struct pollfd polls[RUN_REMOTE_POLLS + 2];
        struct signalfd_siginfo s;
        const size_t count = run_remote_polls(f, polls);
        polls[count] = (struct pollfd){.fd = life, .events = POLLIN};
        polls[count + 1] = (struct pollfd){.fd = signals, .events = POLLIN};
        if (poll(polls, count + 2, 1000) < 0 && errno != EINTR)
            return false;
        run_remote_turn(f, polls, count);
        while (run_link_next(&f->link, out)) {
            if (out->kind == kind)
                return true;
            if (out->kind == RUN_PING)
                run_link_put(&f->link, RUN_PING, NULL, 0, NULL, 0);
            if (out->kind == RUN_SIGNAL || out->kind == RUN_END || out->kind == RUN_KILL)
                return false;
        }
        while (polls[count + 1].revents && read(signals, &s, sizeof s) == (ssize_t)sizeof s)
            if (run_ends_job((int)s.ssi_signo))
                return false;
        if (polls[count].revents || run_remote_lost(f))
            return false;
    }
}

/* A free port, which stays free as long as *reserved is open; 0: errno. */
static uint16_t find_port(int *reserved)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET};
    socklen_t length = sizeof six;
    *reserved = rd_fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (*reserved >= 0 && bind(*reserved, (struct sockaddr *)&six, sizeof six) == 0 &&
        getsockname(*reserved, (struct sockaddr *)&six, &length) == 0)
        return ntohs(six.sin6_port);
    if (*reserved >= 0)
        close(*reserved);
    length = sizeof four;
    *reserved = rd_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (*reserved >= 0 && bind(*reserved, (struct sockaddr *)&four, sizeof four) == 0 &&
        getsockname(*reserved, (struct sockaddr *)&four, &length) == 0)
        return ntohs(four.sin_port);
    return 0;
}

/* Rank 0 reads what the launcher sends; the others read nothing.  The end for run_job.c, or -1. */
static int open_input(run_remote *f)
{
    int ends[2];
    f->input = -1;
    if (f->first)
        return STDIN_FILENO; /* which is /dev/null by now */
    if (rd_fd_pipe(ends, 0))
        return -1;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    f->input = ends[1];
    return ends[0];
}

/* The link gets descriptors that no rank inherits; standard output becomes standard error, so that no message of ours
 * gets into the link. */
static bool open_link(run_remote *f)
{
    const int nothing = rd_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    const int in = rd_fd_again(STDIN_FILENO);
    const int out = rd_fd_again(STDOUT_FILENO);
    if (nothing < 0 || in < 0 || out < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return false;
    close(nothing);
    run_link_open(&f->link, in, out);
    f->room[RUN_OUT] = f->room[RUN_ERR] = RUN_WINDOW;
    return write(out, RUN_HELLO, sizeof RUN_HELLO - 1) == (ssize_t)sizeof RUN_HELLO - 1;
}

/* --- the whole of it --- */

/* The last frame: nothing is left on this host. */
static void send_done(run_remote *f, int life)
{
    run_link_put(&f->link, RUN_DONE, NULL, 0, NULL, 0);
    while (!run_remote_sent(f) && !run_remote_lost(f)) {
        struct pollfd polls[RUN_REMOTE_POLLS + 1];
        const size_t count = run_remote_polls(f, polls);
        run_frame ignored;
        polls[count] = (struct pollfd){.fd = life, .events = POLLIN};
        poll(polls, count + 1, 1000);
        run_remote_turn(f, polls, count);
        while (run_link_next(&f->link, &ignored)) {
        }
        if (polls[count].revents)
            return;
    }
}

static int run_ranks(run_remote *f, const run_setup *s, const run_place *place, int life)
{
    const int keys = open_input(f);
    run_verdict v = {.why = RUN_NO_RANK, .culprit = s->request.first, .detail = errno};
    if (keys < 0) {
        run_remote_verdict(f, &v);
        return CLI_OK;
    }
    return run_job_keep(&s->request, place, keys, life, f);
}

static int serve(run_remote *f, int life, int signals)
{
    run_setup s;
    run_place place = {0};
    run_frame frame;
    int reserved = -1, status = CLI_FAILED;
    if (!await_frame(f, RUN_SETUP, life, signals, &frame))
        return CLI_FAILED;
    if (!run_setup_read(&frame, &s))
        return cli_failed(ME, "the launcher has sent a setup that makes no sense");
    f->first = s.request.first;
    for (char **variable = s.environment; *variable; variable++)
        if (strchr(*variable, '='))
            putenv(*variable);
    const uint16_t port = s.port ? find_port(&reserved) : 0;
    if (chdir(s.directory)) {
        run_remote_verdict(f, &(run_verdict){.why = RUN_NO_DIRECTORY, .detail = errno});
        send_done(f, life);
    } else if (s.port && !port) {
        cli_failed(ME, "cannot find a free port: %s", strerror(errno));
    } else {
        char host[RD_IP_TEXT] = "";
        if (s.port)
            run_find_host(s.name, host, sizeof host);
        run_link_put(&f->link, RUN_READY, (uint64_t[]){port}, 1, host, strlen(host));
        if (await_frame(f, RUN_START, life, signals, &frame) &&
            frame.length < sizeof place.address) {
            memcpy(place.address, frame.bytes, frame.length);
            if (reserved >= 0)
                close(reserved);
            close(signals);
            status = run_ranks(f, &s, &place, life);
            if (status == CLI_OK)
                send_done(f, life);
        }
    }
    run_setup_free(&s);
    return status;
}

int run_remote_keep(int life)
{
    run_remote *f = rd_alloc(sizeof *f);
    const int signals = run_signals();
    if (!f || signals < 0 || !open_link(f))
        return cli_failed(ME, "the remote side cannot start: %s", strerror(errno));
    f->input = -1;
    const int status = serve(f, life, signals);
    end_input(f);
    run_link_close(&f->link);
    rd_free(f);
    return status;
}
