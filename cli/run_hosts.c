/* run_hosts.c: the keeper of a job on several hosts (see run.h): starts an agent for each, passes on what ranks write,
 * decides what became of the job, and has all of it ended.
 *
 *   CALLING --all are ready--> RUNNING --all are done-------------------.
 *      |                          |                                     v
 *      `------- the first failure, a signal, the timeout --> ENDING --> ENDED
 *                                                            grace
 *
 * Remote sides end their ranks themselves, as run_job.c does, when they are told of a failure.  One that is not done
 * in time has its link closed, and then ends all that it runs. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "run.h"
#include "run_host.h"

static const char ME[] = "run";

static const uint64_t MARGIN_NS =
    15000000000; /* for hosts to report, beside the grace of their ranks */
static const uint64_t LEAVE_NS = 5000000000; /* for agents to end after their link was closed */

typedef enum { CALLING, RUNNING, ENDING, ENDED } stage;

typedef struct {
    const run_request *request;
    const run_place *place;
    run_agent *agent;
    run_output *output; /* of the ranks, and behind them of the agents */
    run_host *hosts;
    uint32_t host_count, running; /* ranks */
    cli_words names;              /* of labels */
    cli_words environment;
    char *directory;
    struct pollfd *polls;
    struct rlimit files;
    int signals, life, keys;
    size_t room;   /* credit for input of rank 0, in bytes */
    uint64_t port; /* on rank 0's host, where ranks meet */
    char better
        [RUN_ADDRESS -
         8]; /* an address of rank 0's host that others can use if its name is of no use; "": none */

    stage now;
    uint64_t start_ns, next_ns, ping_ns, timeout_ns, pause_ns;
    uint64_t call_ns; /* how long hosts may take to be ready: as long as ranks may take to meet */
    run_verdict verdict;
    const run_host *where; /* of the verdict; NULL: here */
    run_end *ends;         /* [size] */
    uint64_t why_ns;       /* when there was a verdict */
} hub;

/* --- deciding --- */

/* The first reason is the verdict.  order: what the other hosts are told. */
static bool decide(hub *u, run_verdict v, const run_host *where, int order, uint64_t number)
{
    if (u->verdict.why != RUN_FINE)
        return false;
    u->why_ns = rd_now_ns();
    if (!v.ns)
        v.ns = u->why_ns - u->start_ns;
    u->verdict = v;
    u->where = where;
    u->now = ENDING;
    u->pause_ns = 0;
    u->next_ns = u->why_ns + 2 * u->request->grace_ns + MARGIN_NS;
    for (uint32_t i = 0; i < u->host_count; i++) {
        run_host *h = &u->hosts[i];
        if (h->now < HOST_STARTED)
            run_host_leave(h, 0);
        else if (h != where)
            run_host_order(h, order, number);
    }
    return true;
}

static void leave_all(hub *u, uint64_t patience_ns)
{
    for (uint32_t i = 0; i < u->host_count; i++)
        run_host_leave(&u->hosts[i], patience_ns);
}

/* --- frames of hosts --- */

static void tell_setup(hub *u, run_host *h)
{
    const bool first = h == u->hosts;
    run_setup s = {.request = *u->request,
                   .port = first,
                   .directory = u->directory,
                   .name = first && !u->request->address ? (char *)h->name : "",
                   .environment = u->environment.at};
    s.request.first = h->first;
    s.request.count = h->count;
    if (!run_setup_put(&h->link, &s))
        decide(u, (run_verdict){.why = RUN_NO_RANK, .culprit = h->first, .detail = E2BIG}, h,
               RUN_END, 0);
}

/* All are ready: rank 0's host has found the port where all will meet. */
static void start_all(hub *u)
{
    char host[RUN_ADDRESS - 8], address[RUN_ADDRESS];
    uint32_t wanted = 0;
    hosts_address(u->request->hosts.at[0].name, host, sizeof host);
    if (*u->better)
        memcpy(host, u->better, sizeof host);
    if (u->request->address)
        run_address_split(u->request->address, host, sizeof host, &wanted);
    snprintf(address, sizeof address, "%s:%" PRIu64, host, wanted ? wanted : u->port);
    for (uint32_t i = 0; i < u->host_count; i++) {
        run_link_put(&u->hosts[i].link, RUN_START, NULL, 0, address, strlen(address));
        u->hosts[i].now = HOST_STARTED;
    }
    u->now = RUNNING;
}

static void host_ready(hub *u, run_host *h, const run_frame *f)
{
    if (h->now != HOST_GREETED)
        return;
    h->now = HOST_READY;
    if (h == u->hosts)
        u->port = f->numbers[0];
    if (h == u->hosts && f->length < sizeof u->better)
        memcpy(u->better, f->bytes, f->length);
    for (uint32_t i = 0; i < u->host_count; i++)
        if (u->hosts[i].now != HOST_READY)
            return;
    start_all(u);
}

static void rank_ended(hub *u, const run_host *h, const uint64_t n[])
{
    const uint32_t rank = (uint32_t)n[0];
    u->ends[rank] = (run_end){
        .pid = (int)n[1], .status = (int)n[2], .ns = n[3], .saw = (uint32_t)n[4], .failed = n[5]};
    u->running -= u->running > 0;
    if (n[2] && n[5])
        decide(u, (run_verdict){.why = RUN_RANK, .culprit = rank}, h, RUN_FAILURE, 0);
}

static void host_verdict(hub *u, const run_host *h, const uint64_t n[])
{
    if (n[0] > RUN_RANK && n[0] <= RUN_BY_SIGNAL)
        decide(
            u,
            (run_verdict){.why = (run_cause)n[0], .culprit = (uint32_t)n[1], .detail = (int)n[2]},
            h, RUN_END, 0);
}

static void end_output(hub *u, uint32_t first, uint32_t count)
{
    for (uint32_t r = first; r < first + count; r++) {
        run_output_end(u->output, r, RUN_OUT);
        run_output_end(u->output, r, RUN_ERR);
    }
}

static void hear(hub *u, run_host *h, const run_frame *f)
{
    const uint64_t *n = f->numbers;
    if (f->kind == RUN_READY) {
        host_ready(u, h, f);
    } else if (f->kind == RUN_WROTE && run_host_has(h, n[0]) && n[1] <= RUN_ERR) {
        run_output_feed(u->output, (uint32_t)n[0], (int)n[1], f->bytes, f->length);
        h->owed[n[1]] += f->length;
    } else if (f->kind == RUN_ENDED && run_host_has(h, n[0])) {
        rank_ended(u, h, n);
    } else if (f->kind == RUN_VERDICT) {
        host_verdict(u, h, n);
    } else if (f->kind == RUN_CREDIT && n[0] == RUN_IN) {
        u->room += n[1] < RUN_WINDOW - u->room ? (size_t)n[1] : RUN_WINDOW - u->room;
    } else if (f->kind == RUN_DONE) {
        end_output(u, h->first, h->count);
        h->done = true;
    }
}

/* The link of a host that is done is closed, and so is one with frames that cannot be. */
static void host_turn(hub *u, run_host *h)
{
    run_frame f;
    if (run_host_read(h))
        tell_setup(u, h);
    while (run_host_next(h, &f))
        hear(u, h, &f);
    if (h->done || h->link.lost)
        run_host_leave(h, LEAVE_NS);
}

/* Credit for what ranks wrote, as soon as there is room for more. */
static void give_credit(hub *u)
{
    for (uint32_t i = 0; i < u->host_count; i++)
        for (int which = RUN_OUT; which <= RUN_ERR; which++) {
            run_host *h = &u->hosts[i];
            const uint64_t numbers[] = {(uint64_t)which, h->owed[which]};
            if (!h->owed[which] || h->now != HOST_STARTED || run_output_full(u->output, which))
                continue;
            run_link_put(&h->link, RUN_CREDIT, numbers, 2, NULL, 0);
            h->owed[which] = 0;
        }
}

/* --- agents that ended --- */

static void agent_ended(hub *u, run_host *h, int status)
{
    const uint32_t place = (uint32_t)(h - u->hosts);
    h->agent = 0;
    for (uint64_t heard_ns = 0; h->now != HOST_LEFT && heard_ns != h->link.heard_ns;) {
        heard_ns = h->link.heard_ns;
        host_turn(u, h); /* its last frames */
    }
    if (h->done)
        return;
    const run_verdict v = {.why = h->greeted ? RUN_HOST : RUN_NO_HOST,
                           .culprit = place,
                           .detail = status,
                           .ns = rd_now_ns() - h->start_ns};
    decide(u, v, h, RUN_FAILURE, 0);
    run_host_leave(h, 0);
}

static void reap(hub *u)
{
    int status;
    pid_t pid;
    bool left = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < u->host_count; i++)
            if (u->hosts[i].agent == pid)
                agent_ended(u, &u->hosts[i], status);
    for (uint32_t i = 0; i < u->host_count; i++)
        left |= u->hosts[i].agent != 0;
    if (!left)
        u->now = ENDED;
}

/* --- signals to ronda run --- */

static void pass_on(hub *u, int signal)
{
    for (uint32_t i = 0; i < u->host_count; i++)
        run_host_order(&u->hosts[i], RUN_SIGNAL, (uint64_t)signal);
}

/* The time that it was stopped is not the job's. */
static void pause_or_continue(hub *u, int signal)
{
    const uint64_t now_ns = rd_now_ns();
    pass_on(u, signal);
    if (signal == SIGTSTP && u->now == RUNNING && !u->pause_ns)
        u->pause_ns = now_ns;
    if (signal != SIGCONT)
        return;
    if (u->pause_ns && u->timeout_ns)
        u->timeout_ns += now_ns - u->pause_ns;
    u->pause_ns = 0;
}

static void end_by_signal(hub *u, int signal)
{
    const run_verdict v = {.why = RUN_BY_SIGNAL, .detail = signal};
    if (decide(u, v, NULL, RUN_SIGNAL, (uint64_t)signal))
        return;
    if (u->verdict.why == RUN_BY_SIGNAL && rd_now_ns() - u->why_ns <= RUN_SAME_SIGNAL_NS)
        return;
    for (uint32_t i = 0; i < u->host_count; i++)
        run_host_order(&u->hosts[i], RUN_KILL, 0);
    u->next_ns = rd_now_ns() + LEAVE_NS;
}

static void read_signals(hub *u)
{
    struct signalfd_siginfo s;
    while (u->now != ENDED && read(u->signals, &s, sizeof s) == (ssize_t)sizeof s) {
        const int signal = (int)s.ssi_signo;
        if (signal == SIGCHLD)
            reap(u);
        else if (run_ends_job(signal))
            end_by_signal(u, signal);
        else if (signal == SIGTSTP || signal == SIGCONT)
            pause_or_continue(u, signal);
        else
            pass_on(u, signal);
    }
}

/* --- time --- */

static void ping(hub *u, uint64_t now_ns)
{
    for (uint32_t i = 0; i < u->host_count; i++) {
        run_host *h = &u->hosts[i];
        if (h->now == HOST_CALLED || h->now == HOST_LEFT)
            continue;
        run_link_put(&h->link, RUN_PING, NULL, 0, NULL, 0);
        if (now_ns - h->link.heard_ns < RUN_SILENCE_NS)
            continue;
        decide(u, (run_verdict){.why = RUN_SILENT, .culprit = i, .ns = RUN_SILENCE_NS}, h,
               RUN_FAILURE, 0);
        run_host_leave(h, 0);
    }
    u->ping_ns = now_ns + RUN_PING_NS;
}

static void give_up_on_hosts(hub *u)
{
    const run_host *missed = NULL;
    int here = 0;
    for (uint32_t i = 0; i < u->host_count; i++) {
        const bool answered = u->hosts[i].now >= HOST_READY;
        here += answered;
        missed = !answered && !missed ? &u->hosts[i] : missed;
    }
    decide(u,
           (run_verdict){.why = RUN_NO_ANSWER,
                         .culprit = missed ? (uint32_t)(missed - u->hosts) : 0,
                         .detail = here,
                         .ns = u->call_ns},
           missed, RUN_END, 0);
    leave_all(u, 0);
}

static void look_at_clock(hub *u)
{
    const uint64_t now_ns = rd_now_ns();
    if (u->now == CALLING && now_ns >= u->start_ns + u->call_ns)
        give_up_on_hosts(u);
    if (u->timeout_ns && !u->pause_ns && now_ns >= u->timeout_ns)
        decide(u, (run_verdict){.why = RUN_TIMEOUT, .detail = (int)u->running}, NULL, RUN_END, 0);
    if (now_ns >= u->ping_ns)
        ping(u, now_ns);
    if (u->now == ENDING && now_ns >= u->next_ns)
        leave_all(u, LEAVE_NS);
    for (uint32_t i = 0; i < u->host_count; i++) {
        run_host *h = &u->hosts[i];
        if (h->now == HOST_LEFT && h->agent && now_ns >= h->kill_ns)
            kill(h->agent, SIGKILL);
    }
}

/* Milliseconds until something is due; nothing is so urgent that a second matters, but the timeout. */
static int until_due(const hub *u)
{
    enum { MOST_MS = 500 };
    const uint64_t now_ns = rd_now_ns();
    if (!u->timeout_ns || u->pause_ns || u->now == ENDING)
        return MOST_MS;
    const uint64_t ms = now_ns < u->timeout_ns ? (u->timeout_ns - now_ns) / 1000000 + 1 : 0;
    return ms < MOST_MS ? (int)ms : MOST_MS;
}

/* --- input --- */

static bool wants_input(const hub *u)
{
    return u->keys >= 0 && u->room && u->now == RUNNING && u->hosts[0].now == HOST_STARTED;
}

static void pass_on_input(hub *u)
{
    char bytes[4096];
    const ssize_t n = read(u->keys, bytes, u->room < sizeof bytes ? u->room : sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    run_link_put(&u->hosts[0].link, RUN_INPUT, NULL, 0, bytes, n > 0 ? (size_t)n : 0);
    if (n > 0) {
        u->room -= (size_t)n;
    } else {
        close(u->keys);
        u->keys = -1;
    }
}

/* --- the loop --- */

enum { OTHER_POLLS = 3, OUTPUT_POLLS = 2 };

static size_t poll_all(hub *u, struct pollfd **out_outputs)
{
    struct pollfd *p = u->polls;
    *p++ = (struct pollfd){.fd = u->signals, .events = POLLIN};
    *p++ = (struct pollfd){.fd = u->life, .events = POLLIN};
    *p++ = (struct pollfd){.fd = wants_input(u) ? u->keys : -1, .events = POLLIN};
    for (uint32_t i = 0; i < u->host_count; i++) {
        const run_link *l = &u->hosts[i].link;
        const bool writes = l->put.from < l->put.to;
        *p++ = (struct pollfd){.fd = l->in, .events = POLLIN};
        *p++ = (struct pollfd){.fd = writes ? l->out : -1, .events = POLLOUT};
    }
    *out_outputs = p;
    return run_output_polls(u->output, p);
}

static void turn(hub *u)
{
    struct pollfd *outputs;
    const size_t count = poll_all(u, &outputs);
    if (poll(u->polls, (size_t)(outputs - u->polls) + count, until_due(u)) < 0)
        return;
    run_output_turn(u->output, outputs, count, false);
    if (u->polls[1].revents) {
        decide(u, (run_verdict){.why = RUN_FRONT}, NULL, RUN_KILL, 0);
        leave_all(u, 0);
        u->now = ENDED;
        return;
    }
    for (uint32_t i = 0; i < u->host_count; i++)
        if (u->polls[OTHER_POLLS + 2 * i].revents && u->hosts[i].now != HOST_LEFT)
            host_turn(u, &u->hosts[i]);
    if (u->polls[2].revents && wants_input(u))
        pass_on_input(u);
    if (u->polls[0].revents)
        read_signals(u);
    const int error = run_output_error(u->output);
    if (error)
        decide(u, (run_verdict){.why = RUN_OUTPUT, .detail = error}, NULL, RUN_END, 0);
    give_credit(u);
    look_at_clock(u);
    for (uint32_t i = 0; i < u->host_count; i++)
        run_link_write(&u->hosts[i].link);
}

static bool last_turn(hub *u, uint64_t limit_ns)
{
    struct pollfd *outputs;
    struct signalfd_siginfo s;
    const size_t count = poll_all(u, &outputs);
    const int wait_ms = run_output_reads(u->output) ? 0 : limit_ns ? 50 : -1;
    if (poll(u->polls, (size_t)(outputs - u->polls) + count, wait_ms) < 0)
        return errno == EINTR;
    run_output_turn(u->output, outputs, count, true);
    while (u->polls[0].revents && read(u->signals, &s, sizeof s) == (ssize_t)sizeof s)
        if (run_ends_job((int)s.ssi_signo)) {
            decide(u, (run_verdict){.why = RUN_BY_SIGNAL, .detail = (int)s.ssi_signo}, NULL, 0, 0);
            return false;
        }
    return !u->polls[1].revents && (!limit_ns || rd_now_ns() < limit_ns);
}

/* As in run_job.c. */
static void finish_output(hub *u)
{
    const run_cause why = u->verdict.why;
    const bool forced = why == RUN_BY_SIGNAL || why == RUN_TIMEOUT || why == RUN_FRONT;
    const uint64_t limit_ns = forced ? rd_now_ns() + u->request->grace_ns + 1 : 0;
    end_output(u, 0, u->request->size);
    while (!run_output_done(u->output) && last_turn(u, limit_ns)) {
    }
    const int error = run_output_error(u->output);
    if (error)
        decide(u, (run_verdict){.why = RUN_OUTPUT, .detail = error}, NULL, 0, 0);
}

/* --- the beginning and the end --- */

static bool make_hosts(hub *u)
{
    const hosts_list *l = &u->request->hosts;
    uint32_t first = 0;
    u->hosts = rd_alloc(l->count * sizeof *u->hosts);
    if (!u->hosts)
        return false;
    u->host_count = l->count;
    for (uint32_t i = 0; i < l->count; i++) {
        u->hosts[i] = (run_host){.name = l->at[i].name,
                                 .first = first,
                                 .count = l->at[i].slots,
                                 .link = {.in = -1, .out = -1, .lost = true}};
        first += l->at[i].slots;
    }
    return true;
}

static bool prepare(hub *u)
{
    const run_request *q = u->request;
    errno = ENOMEM;
    if (!make_hosts(u) || !run_host_names(u->hosts, u->host_count, &u->names) ||
        !run_variables(q, u->place, &u->environment))
        return false;
    const size_t ranks = q->size + u->host_count;
    u->directory = getcwd(NULL, 0);
    u->ends = rd_alloc(q->size * sizeof *u->ends);
    u->polls =
        rd_alloc((OTHER_POLLS + OUTPUT_POLLS + 2 * u->host_count + 2 * ranks) * sizeof *u->polls);
    u->output = run_output_open((uint32_t)ranks, q->label ? u->names.at : NULL, NULL);
    if (!u->directory || !u->ends || !u->polls || !u->output)
        return false;
    u->signals = run_signals();
    return u->signals >= 0 && run_raise_files(3 * (rlim_t)u->host_count + 64, &u->files);
}

static void run(hub *u)
{
    const run_request *q = u->request;
    rd_settings settings;
    rd_error error; /* ranks will report it */
    u->start_ns = rd_now_ns();
    u->ping_ns = u->start_ns + RUN_PING_NS;
    u->call_ns = rd_settings_read(NULL, &settings, &error) ? RUN_SILENCE_NS : settings.timeout_ns;
    u->running = q->size;
    u->room = RUN_WINDOW;
    if (q->timeout_ns)
        u->timeout_ns = u->start_ns + q->timeout_ns;
    for (uint32_t i = 0; i < u->host_count && u->now == CALLING; i++)
        if (!run_host_start(&u->hosts[i], u->agent, &q->hosts.at[i], u->output, q->size + i,
                            &u->files)) {
            const run_verdict v = {
                .why = RUN_NO_RANK, .culprit = u->hosts[i].first, .detail = errno};
            decide(u, v, &u->hosts[i], RUN_END, 0);
        }
    reap(u);
    while (u->now != ENDED)
        turn(u);
    run_children_wait(RUN_REMOTE_NS);
    if (!run_children_kill())
        cli_failed(ME, "some processes of the job could not be killed");
    finish_output(u);
}

static int say(hub *u)
{
    run_verdict *v = &u->verdict;
    const char *line = "";
    if (v->why == RUN_RANK) {
        v->culprit = run_find_cause(u->ends, u->request->size, v->culprit);
        u->where = run_host_of(u->hosts, u->host_count, v->culprit);
        line = run_output_last_line(u->output, v->culprit);
    }
    const bool agent = v->why == RUN_NO_HOST || v->why == RUN_HOST || v->why == RUN_NO_ANSWER;
    if (agent)
        line = run_output_last_line(u->output, u->request->size + v->culprit);
    if (agent && !*line)
        line = u->where->last_line;
    return run_say(u->request, v, v->why == RUN_RANK ? &u->ends[v->culprit] : NULL,
                   u->where ? u->where->name : NULL, line);
}

int run_hosts_keep(const run_request *q, const run_place *place, int keys, int life)
{
    hub u = {.request = q, .place = place, .keys = keys, .life = life};
    int status = CLI_FAILED;
    setpgid(0, 0); /* signals to the front's group reach us through the front alone */
    signal(SIGTTOU, SIG_IGN);
    u.agent = run_agent_read(q);
    if (u.agent) {
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) || !prepare(&u)) {
            status = cli_failed(ME, "cannot start: %s", strerror(errno));
        } else {
            run(&u);
            status = say(&u);
        }
    }
    for (uint32_t i = 0; i < u.host_count; i++)
        run_link_close(&u.hosts[i].link);
    run_output_free(u.output);
    run_agent_free(u.agent);
    free(u.directory);
    cli_words_free(&u.environment);
    cli_words_free(&u.names);
    rd_free(u.ends);
    rd_free(u.hosts);
    rd_free(u.polls);
    return status;
}
