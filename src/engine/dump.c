/* dump.c: what is under way, as text for people.
 *
 *     rank 1 of 4 over shm: 7 calls made, not failed, 2 under way, 1 to be waited for
 *       allreduce #5 of 70000 f32, sum (ring): done, not waited for
 *       allreduce #6 of 70000 f32, sum (ring): 3 of 12 steps done, awaits rank 0
 *       barrier #7 (dissemination): has not begun, awaits ranks 0, 2-3
 *
 * It only reads, and needs no memory: lines gather in a buffer that goes out when it is full, so that
 * the dumps of several ranks into one place do not mix as long as they are short. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/messages_inside.h"

enum { PAGE = 4096, LINE = 640, RANKS = 16384, CALL = 128 };

/* --- writing --- */

typedef struct {
    int fd;
    int error; /* errno of the first write that failed; what comes after it is dropped */
    size_t length;
    char text[PAGE];
} page;

/* Neither a reader that is gone nor a file that may not grow must end the process: the signal is kept out, and
 * taken back. */
static ssize_t write_quietly(int fd, const char *text, size_t bytes)
{
    const struct timespec now = {0};
    sigset_t both, one, before, pending;
    sigemptyset(&both);
    sigaddset(&both, SIGPIPE);
    sigaddset(&both, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &both, &before);
    const ssize_t n = write(fd, text, bytes);
    const int error = errno;
    const int sent = n >= 0 ? 0 : error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
    sigemptyset(&one);
    if (sent && !sigismember(&pending, sent) && sigaddset(&one, sent) == 0)
        sigtimedwait(&one, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return n;
}

/* Nobody may read what is said, and calls must not wait for that: after a second the rest is left out. */
static void flush(page *p)
{
    enum { PATIENCE_MS = 1000, AT_ONCE = 4096 /* fits into a pipe that has room at all */ };
    for (size_t done = 0; done < p->length && !p->error;) {
        struct pollfd reader = {.fd = p->fd, .events = POLLOUT};
        if (poll(&reader, 1, PATIENCE_MS) == 0) {
            p->error = ETIMEDOUT;
            break;
        }
        const size_t rest = p->length - done;
        const ssize_t n = write_quietly(p->fd, p->text + done, rest < AT_ONCE ? rest : AT_ONCE);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            p->error = errno;
    }
    p->length = 0;
}

__attribute__((format(printf, 2, 3))) static void say(page *p, const char *format, ...)
{
    va_list args;
    if (p->length > PAGE - LINE)
        flush(p);
    va_start(args, format);
    const int n = vsnprintf(p->text + p->length, LINE, format, args);
    va_end(args);
    if (n > 0)
        p->length += (size_t)n < LINE ? (size_t)n : LINE - 1;
}

/* --- whom a collective awaits --- */

typedef struct {
    bool is[RANKS];
    uint32_t count;
} ranks;

static void add(ranks *r, uint32_t rank)
{
    if (rank >= RANKS || r->is[rank])
        return;
    r->is[rank] = true;
    r->count++;
}

static void say_ranks(page *p, const ranks *r, uint32_t size)
{
    char text[400];
    if (r->count == 0)
        return;
    rd_ranks_text(r->is, size < RANKS ? size : RANKS, text, sizeof text);
    say(p, ", awaits rank%s %s", r->count == 1 ? "" : "s", text);
}

static void say_call(page *p, const rd_job *job)
{
    char call[CALL];
    rd_record_text(&job->record, call, sizeof call);
    say(p, "  %s (%s): ", call, job->plan->algorithm->name);
}

/* --- one collective --- */

/* It has not begun: an older one is on its channel, or has lent what is not released yet. */
static void say_waiting(page *p, rd_engine *e, const rd_operation *f, ranks *awaited)
{
    const rd_channel *c = rd_channel_of(e, &f->job);
    const rd_operation *older = NULL;
    for (const rd_operation *at = c->first; at && at != f; at = at->behind)
        older = at;
    for (uint32_t i = 0; i < c->owed_count && !older; i++)
        if (!rd_port_completed(c->owed[i].port, c->owed[i].message))
            add(awaited, c->owed[i].peer);
    if (older)
        say(p, "has not begun, comes after #%" PRIu64, older->job.record.sequence);
    else
        say(p, "has not begun");
}

static void say_operation(page *p, rd_engine *e, const rd_operation *f)
{
    ranks awaited = {0};
    uint64_t done = 0;
    say_call(p, &f->job);
    for (uint32_t l = 0; f->begun && l < f->plan->lane_count; l++) {
        done += f->lanes[l].next - f->plan->lanes[l].first;
        if (!f->done && !f->lost && rd_lane_waits(f, l))
            add(&awaited, f->plan->lanes[l].peer);
    }
    if (f->done)
        say(p, "done, not waited for");
    else if (!f->begun)
        say_waiting(p, e, f, &awaited);
    else
        say(p, "%" PRIu64 " of %" PRIu32 " steps done", done, f->plan->step_count);
    if (f->lost)
        say(p, ", failed and not waited for");
    say_ranks(p, &awaited, e->link->size);
    say(p, "\n");
}

static bool is_part(const rd_step *leader, const rd_step *s)
{
    return leader == s || (leader->group != RD_NONE && leader->group == s->group);
}

static uint32_t steps_in(const rd_plan *p, const rd_step *s)
{
    return s->group == RD_NONE ? 1 : p->groups[s->group].arriving;
}

/* A call that walks straight has no operation.  It stands at a step; a fold of many awaits all whose messages
 * are not there. */
static void say_walk(page *p, rd_engine *e, const rd_awaited *what)
{
    const rd_plan *plan = what->job->plan;
    const uint32_t channel = rd_channel_number(e, what->job);
    ranks awaited = {0};
    uint32_t done = 0;
    for (uint32_t i = 0; i < plan->straight_count; i++) {
        const rd_step *s = &plan->steps[plan->straight[i]];
        if (is_part(s, what->step))
            break;
        done += steps_in(plan, s);
    }
    add(&awaited, what->peer);
    if (what->step->group != RD_NONE) {
        const rd_group *g = &plan->groups[what->step->group];
        for (uint32_t i = 0; i < g->count; i++) {
            const uint32_t m = plan->members[g->first + i];
            rd_view view;
            if (m != RD_NONE && !rd_port_peek(rd_port_to(e, plan->steps[m].peer, channel), &view))
                add(&awaited, plan->steps[m].peer);
        }
    }
    say_call(p, what->job);
    say(p, "%" PRIu32 " of %" PRIu32 " steps done", done, plan->step_count);
    say_ranks(p, &awaited, e->link->size);
    say(p, "\n");
}

/* --- messages --- */

static void say_messages(page *p, const rd_message *l)
{
    for (; l; l = l->next) {
        char text[CALL];
        const rd_pending message = rd_message_pending(l);
        rd_pending_text(&message, text, sizeof text);
        if (l->done || l->lost)
            say(p, "  %s: %s not waited for\n", text, l->done ? "done," : "failed and");
        else if (l->what.peer == RONDA_ANY)
            say(p, "  %s: awaits any rank\n", text);
        else
            say(p, "  %s: awaits rank %" PRIu32 "\n", text, l->what.peer);
    }
}

/* What has come and no receive was posted for. */
static void say_unexpected(page *p, const rd_messages *m)
{
    if (m && m->unexpected_count)
        say(p, "  unexpected queue: %" PRIu32 " message%s, %" PRIu64 " bytes%s\n",
            m->unexpected_count, m->unexpected_count == 1 ? "" : "s", m->unexpected_bytes,
            m->full ? ", full: more wait outside" : "");
}

/* --- all of it --- */

static void count_messages(const rd_message *l, uint32_t *moving, uint32_t *over)
{
    for (; l; l = l->next)
        ++*(l->done || l->lost ? over : moving);
}

static void say_head(page *p, rd_engine *e, bool walks)
{
    rd_error cause = {0};
    uint32_t moving = walks, over = 0;
    for (const rd_operation *f = e->first; f; f = f->next) {
        moving += !f->done && !f->lost;
        over += f->done || f->lost;
    }
    count_messages(e->messages ? e->messages->sends.first : NULL, &moving, &over);
    count_messages(e->messages ? e->messages->receives.first : NULL, &moving, &over);
    say(p, "rank %" PRIu32 " of %" PRIu32, e->link->rank, e->link->size);
    if (e->link->whole)
        say(p, ", a part of %" PRIu32 " where it is rank %" PRIu32 ",", e->link->whole->size,
            e->link->whole->rank);
    say(p, " over %s: %" PRIu64 " call%s made, ", e->transport->name, e->entered,
        e->entered == 1 ? "" : "s");
    if (atomic_load(e->link->alarm)) {
        rd_engine_cause(e, &cause);
        say(p, "failed (%s), ", cause.message);
    } else {
        say(p, "not failed, ");
    }
    if (moving)
        say(p, "%" PRIu32 " under way", moving);
    else
        say(p, "nothing under way");
    if (over)
        say(p, ", %" PRIu32 " to be waited for", over);
    say(p, "\n");
}

static int dump(rd_engine *e, const rd_awaited *what, const char *prefix, int fd)
{
    page p = {.fd = fd};
    say(&p, "%s", prefix);
    say_head(&p, e, what != NULL);
    for (const rd_operation *f = e->first; f; f = f->next)
        say_operation(&p, e, f);
    if (what)
        say_walk(&p, e, what);
    say_messages(&p, e->messages ? e->messages->sends.first : NULL);
    say_messages(&p, e->messages ? e->messages->receives.first : NULL);
    say_unexpected(&p, e->messages);
    flush(&p);
    return p.error;
}

ronda_status rd_engine_dump(rd_engine *e, int fd, rd_error *err)
{
    const int error = dump(e, NULL, "", fd);
    return error ? rd_fail(err, RONDA_ESYSTEM, RONDA_ANY,
                           "rank %" PRIu32 ": descriptor %d cannot be written to: %s",
                           e->link->rank, fd, strerror(error))
                 : RONDA_OK;
}

/* Whoever is in a call of one communicator answers for all that this thread uses. */
void rd_engine_answer(rd_engine *e, const rd_awaited *what)
{
    const uint32_t asked = rd_dump_requests();
    rd_engine *k = e;
    do {
        if (k->answered != asked) {
            k->answered = asked;
            dump(k, k == e ? what : NULL, "ronda: ", STDERR_FILENO);
        }
        k = k->sibling;
    } while (k != e);
}
