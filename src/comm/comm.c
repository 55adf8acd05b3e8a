/* comm.c: a call from the API to the engine and back. */
#include "comm/comm.h"

#include "base/clock.h"
#include "base/mem.h"
#include "transport/transports.h"

#include <assert.h>

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

_Static_assert(sizeof((rd_error *)0)->message == sizeof((ronda_error *)0)->message,
               "a sentence fits into the public error");

/* What is known of who shares memory with whom, and what messages cost then: the same for all ranks, also for one that
 * is alone on its host.  false: no memory. */
static bool find_hosts(const rd_link *link, rd_hosts **hosts, rd_facts *facts)
{
    *hosts = link->host_of ? rd_hosts_make(link->host_of, link->size) : NULL;
    if (link->host_of && !*hosts)
        return false;
    const bool several = *hosts && (*hosts)->count > 1;
    const rd_transport *t = several ? &rd_mixed : *hosts ? &rd_shm : link->transport;
    *facts = rd_facts_of(t, link->cpus);
    if (!several) {
        rd_hosts_free(*hosts);
        *hosts = NULL;
    }
    return true;
}

/* In the process that made it, or with a copy of it. */
static void leave_siblings(ronda_comm *c)
{
    if (c->siblings && --c->siblings->users == 0)
        rd_free(c->siblings);
}

static void free_unopened(ronda_comm *c)
{
    if (!c)
        return;
    rd_hosts_free(c->hosts);
    leave_siblings(c);
    rd_free(c);
}

ronda_status rd_comm_open(rd_link *link, const rd_settings *settings, ronda_comm *sibling,
                          ronda_comm **out, rd_error *err)
{
    ronda_comm *c = rd_alloc(sizeof *c);
    if (c && (c->siblings = sibling ? sibling->siblings : rd_alloc(sizeof *c->siblings)))
        c->siblings->users++;
    if (!c || !c->siblings || !find_hosts(link, &c->hosts, &c->facts) ||
        rd_engine_open(link, sibling ? sibling->engine : NULL, &c->engine)) {
        free_unopened(c);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "no memory for a communicator");
    }
    c->rank = link->rank;
    c->size = link->size;
    c->generation = link->generation;
    c->pid = (int32_t)getpid();
    c->link = link;
    c->timeout_ns = link->timeout_ns = settings->timeout_ns;
    c->log = settings->log;
    for (int k = 0; k < RD_KINDS; k++)
        c->forced[k] = settings->forced[k];
    c->error = (rd_error){.rank = c->rank, .peer = RONDA_ANY};
    c->progress_thread = sibling ? rd_progress_thread_share(sibling->progress_thread) : NULL;
    if (!sibling && settings->progress_thread &&
        !(c->progress_thread = rd_progress_thread_open(c->engine))) {
        rd_engine_close(c->engine, 0, err);
        free_unopened(c);
        return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank %u: no thread to move its calls",
                       link->rank);
    }
    c->listens = settings->debug;
    if (c->listens)
        rd_dump_signal_open();
    rd_log_say(&c->log, RD_LOG_INFO, "rank %u of %u: open over %s", c->rank, c->size,
               link->transport->name);
    *out = c;
    return RONDA_OK;
}

void rd_comm_dismantle(ronda_comm *c)
{
    rd_plans_orphan(c);
    rd_requests_free(c);
    rd_comm_free_all(c);
    c->link->transport->close(c->link);
    rd_prepared_free(&c->prepared);
    rd_free(c->choices);
    rd_hosts_free(c->hosts);
    leave_siblings(c);
    rd_free(c);
}

ronda_status rd_comm_close(ronda_comm *c)
{
    rd_exit_drop(&c->exits);
    rd_comm_lock(c);
    rd_engine_heed(c->engine, NULL);
    c->link->close_by_ns = rd_deadline_ns(c->timeout_ns);
    const bool alone = c->progress_thread && rd_progress_thread_drop(c->progress_thread, c->engine);
    rd_progress_thread *progress_thread = alone ? NULL : c->progress_thread;
    const ronda_status status = rd_engine_close(c->engine, c->timeout_ns, &c->error);
    if (c->listens)
        rd_dump_signal_close();
    rd_log_say(&c->log, RD_LOG_INFO, "rank %u of %u: closed after %llu calls%s%s", c->rank, c->size,
               (unsigned long long)c->sequence, status ? ": " : "", status ? c->error.message : "");
    if (status)
        *rd_thread_error() = c->error;
    c->siblings->inside--;
    rd_comm_dismantle(c);
    if (progress_thread)
        rd_progress_thread_leave(progress_thread);
    return status;
}

ronda_status rd_no_comm(const char *function)
{
    return rd_fail(rd_thread_error(), RONDA_EINVAL, RONDA_ANY, "%s: comm is NULL", function);
}

ronda_status rd_comm_fail(ronda_comm *c, ronda_status status, const char *format, ...)
{
    char text[sizeof c->error.message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    c->error = (rd_error){.rank = c->rank};
    return rd_fail(&c->error, status, RONDA_ANY, "rank %u: %s", c->rank, text);
}

/* The mark of a call covers all calls before it, so a disagreement that no message showed at the time
 * shows in the next one. */
static uint64_t next_mark(uint64_t mark, uint64_t call_hash)
{
    const uint64_t hash = (mark ^ call_hash) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static ronda_status no_memory(ronda_comm *c, const rd_call *call)
{
    return rd_comm_fail(c, RONDA_ENOMEM, "no memory for %s", rd_kind_name(call->kind));
}

static ronda_status fail_for_good(ronda_comm *c)
{
    if (c->failed)
        return c->error.status;
    c->failed = true;
    rd_engine_heard(c->engine);
    c->cause = c->error;
    rd_log_say(&c->log, RD_LOG_INFO, "rank %u: failed: %s", c->rank, c->error.message);
    return c->error.status;
}

/* What the engine is to do.  *p is then held; whoever asked drops it when the call is over. */
static ronda_status prepare(ronda_comm *c, const rd_call *call, rd_prepared **p, const void *in,
                            void *out, rd_job *job)
{
    if (rd_engine_must_leave(c->engine, c->sequence + 1)) {
        rd_engine_cause(c->engine, &c->error);
        return fail_for_good(c);
    }
    if (!*p && !(*p = rd_prepared_make(c, call)))
        return no_memory(c, call);
    rd_prepared_hold(*p);
    const uint32_t urgent = call->priority > 0 ? RD_RECORD_URGENT : 0; /* equal on all ranks */
    *job =
        (rd_job){.plan = (*p)->plan,
                 .in = in,
                 .out = out,
                 .fold = (*p)->fold,
                 .user = (*p)->user,
                 .priority = call->priority,
                 .running = c->link->running,
                 .record = {.sequence = c->sequence + 1,
                            .count = call->count,
                            .mark = next_mark(c->mark, (*p)->hash ^ urgent),
                            .kind = call->kind,
                            .type = call->type,
                            .op = call->op,
                            .root = call->root,
                            .algorithm = (*p)->algorithm | (uint32_t)call->purpose << 16 | urgent}};
    return RONDA_OK;
}

static void made(ronda_comm *c, const rd_job *job)
{
    c->sequence++;
    c->mark = job->record.mark;
}

ronda_status rd_comm_run(ronda_comm *c, const rd_call *call, rd_prepared *p, const void *in,
                         void *out)
{
    rd_job job;
    ronda_status status = prepare(c, call, &p, in, out, &job);
    if (status)
        return status;
    status = rd_engine_run(c->engine, &job, call->timeout_ns ? call->timeout_ns : c->timeout_ns,
                           &c->error);
    rd_prepared_drop(p);
    if (status == RONDA_ENOMEM) /* found before anything was sent: the call was not made */
        return status;
    made(c, &job);
    return status ? fail_for_good(c) : RONDA_OK;
}

/* --- requests --- */

static ronda_request *take_request(ronda_comm *c)
{
    ronda_request *r = c->unused;
    if (r) {
        assert(!r->open && r->comm == c);
        c->unused = r->unused;
        return r;
    }
    r = rd_alloc(sizeof *r);
    if (!r)
        return NULL;
    r->comm = c;
    r->next = c->requests;
    c->requests = r;
    return r;
}

static void put_request(ronda_request *r)
{
    r->unused = r->comm->unused;
    r->comm->unused = r;
}

ronda_status rd_comm_start(ronda_comm *c, const rd_call *call, rd_prepared *p, const void *in,
                           void *out, ronda_request **request)
{
    rd_job job;
    ronda_status status = prepare(c, call, &p, in, out, &job);
    if (status)
        return status;
    ronda_request *r = take_request(c);
    if (r && call->kind == RONDA_BARRIER)
        job.out = &r->everyone;
    if (!r || rd_engine_start(c->engine, &job, &r->operation)) {
        rd_prepared_drop(p);
        if (r)
            put_request(r);
        return no_memory(c, call);
    }
    made(c, &job);
    r->open = true;
    r->prepared = p;
    r->timeout_ns = call->timeout_ns;
    c->open_requests++;
    *request = r;
    return RONDA_OK;
}

static ronda_status post(ronda_comm *c, const rd_posting *what, ronda_message *info,
                         ronda_request **request)
{
    if (rd_engine_must_leave(c->engine, UINT64_MAX)) {
        rd_engine_cause(c->engine, &c->error);
        return fail_for_good(c);
    }
    ronda_request *r = take_request(c);
    if (!r || rd_messages_post(c->engine, what, &r->message)) {
        if (r)
            put_request(r);
        return rd_comm_fail(c, RONDA_ENOMEM, "no memory for a message");
    }
    r->open = true;
    r->prepared = NULL;
    r->timeout_ns = 0;
    r->info = info;
    c->open_requests++;
    *request = r;
    return RONDA_OK;
}

ronda_status rd_comm_post(ronda_comm *c, const rd_posting *what, ronda_message *info,
                          ronda_request **request)
{
    rd_comm_lock(c);
    rd_engine_heed(c->engine, NULL);
    const ronda_status status = post(c, what, info, request);
    rd_comm_unlock(c);
    return status;
}

bool rd_comm_test(ronda_request *r)
{
    enum { OFTEN = 16 };
    ronda_comm *c = r->comm;
    /* While the thread that moves it is at it there is no need to ask; but in the end one must */
    if (!c->progress_thread || ++c->tests % OFTEN == 0)
        rd_comm_lock(c);
    else if (!rd_comm_try_lock(c))
        return false;
    rd_engine_heed(c->engine, NULL);
    const bool done = r->message ? rd_messages_test(c->engine, r->message)
                                 : rd_engine_test(c->engine, r->operation);
    rd_comm_unlock(c);
    return done;
}

ronda_status rd_comm_wait(ronda_request *r)
{
    ronda_comm *c = r->comm;
    const uint64_t timeout_ns = r->timeout_ns ? r->timeout_ns : c->timeout_ns;
    rd_comm_lock(c);
    rd_engine_heed(c->engine, NULL);
    const ronda_status status =
        r->message ? rd_messages_wait(c->engine, r->message, timeout_ns, r->info, &c->error)
                   : rd_engine_wait(c->engine, r->operation, timeout_ns, &c->error);
    assert(r->open && c->open_requests > 0);
    rd_prepared_drop(r->prepared);
    r->message = NULL;
    r->open = false;
    c->open_requests--;
    put_request(r);
    rd_comm_unlock(c);
    if (!status || status == RONDA_EINVAL) /* a message that does not fit stays */
        return status;
    return fail_for_good(c);
}

void rd_requests_free(ronda_comm *c)
{
    while (c->requests) {
        ronda_request *r = c->requests;
        c->requests = r->next;
        if (r->open)
            rd_prepared_drop(r->prepared);
        rd_free(r);
    }
}
