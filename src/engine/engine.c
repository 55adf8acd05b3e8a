/* engine.c: operations, the loop that waits for one, and giving up.
 *
 *     start --> [ list of operations, oldest first ] --> wait: advance all; nothing moved? idle
 *                                                               |
 *              spin, yield, sleep <-- nothing wrong --- alarm? message that does not fit?
 *                                                       now and then: has a peer called something
 *                                                       else, or closed?  is the deadline past?
 */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/mem_limit.h"
#include "base/tell.h"
#include "engine/messages.h"
#include "engine/operation.h"

enum { QUICK = 64 }; /* idle rounds before the clock is looked at */
enum { FIRST_TICK_NS = 1000000, LAST_TICK_NS = 250000000, LATE_NS = 1000000000 };

/* --- opening and closing --- */

static void free_operations(rd_engine *e, rd_operation *f)
{
    while (f) {
        rd_operation *next = f->next;
        rd_free(f->lanes);
        rd_free(f->open);
        e->transport->free(e->link, f->larger, f->larger_bytes);
        rd_free(f);
        f = next;
    }
}

/* After a failure, until no peer uses this rank's memory any more.  A peer leaves at its next step; an op of the
 * program's may run for ever, and is awaited for a tenth of the timeout. */
void rd_engine_quiesce(rd_engine *e, uint64_t timeout_ns)
{
    const uint64_t patience_ns = 60000000000u, op_ns = timeout_ns ? timeout_ns / 10 : patience_ns;
    e->transport->quiesce(e->link, rd_deadline_ns(patience_ns), rd_deadline_ns(op_ns));
}

static void free_engine(rd_engine *e)
{
    for (uint32_t c = 0; c < RD_CHANNELS; c++) {
        e->transport->free(e->link, e->channels[c].memory, e->channels[c].bytes);
        rd_free(e->channels[c].owed);
    }
    rd_swap_close(e);
    rd_messages_free(e);
    free_operations(e, e->first);
    free_operations(e, e->unused);
    rd_free(e->ports);
    rd_free(e->views);
    rd_free(e->ins);
    rd_free(e->outs);
    rd_free(e->fused);
    rd_free(e->distances);
    rd_free(e);
}

void rd_engine_free(rd_engine *e)
{
    rd_engine *before = e->sibling;
    while (before->sibling != e)
        before = before->sibling;
    before->sibling = e->sibling;
    free_engine(e);
}

ronda_status rd_engine_close(rd_engine *e, uint64_t timeout_ns, rd_error *err)
{
    rd_error unsettled = {0};
    const bool failed = atomic_load(e->link->alarm);
    for (const rd_operation *f = e->first; f; f = f->next)
        if (!f->done && !f->lost)
            rd_operation_cancel(f);
    ronda_status status = rd_look_back(e, err);
    if (rd_settle(e, timeout_ns, failed, &unsettled) && !status) {
        *err = unsettled;
        status = err->status;
    }
    if (e->transport->goodbye) {
        e->transport->goodbye(e->link); /* what peers have just sent comes meanwhile */
        status = status ? status : rd_look_back(e, err);
    }
    rd_engine_free(e);
    return status;
}

ronda_status rd_engine_open(rd_link *link, rd_engine *sibling, rd_engine **out)
{
    const size_t n = link->size;
    assert(link->channels <= RD_CHANNELS && RD_IS_POWER_OF_TWO(link->channels));
    rd_engine *e = rd_alloc(sizeof *e);
    if (!e)
        return RONDA_ENOMEM;
    e->link = link;
    e->transport = link->transport;
    e->lanes_only = link->transport->pushes; /* a walk does not stay until its messages are gone */
    e->answered = rd_dump_requests();
    e->ports = rd_alloc(n * RD_ALL_CHANNELS * sizeof(rd_port *));
    e->views = rd_alloc(n * sizeof *e->views);
    e->ins = rd_alloc((n + 1) * sizeof *e->ins);
    e->outs = rd_alloc((n + 1 + RD_MOST_OUTS) * sizeof *e->outs);
    e->fused = rd_alloc((n + RD_MOST_OUTS) * sizeof *e->fused);
    e->distances = rd_alloc(n * sizeof *e->distances);
    bool ok = e->ports && e->views && e->ins && e->outs && e->fused && e->distances &&
              rd_swap_open(e, sibling);
    for (uint32_t c = 0; c < RD_CHANNELS; c++) {
        e->channels[c].owed = rd_alloc(n * sizeof *e->channels[c].owed);
        ok &= e->channels[c].owed != NULL;
    }
    if (!ok) {
        free_engine(e);
        return RONDA_ENOMEM;
    }
    e->sibling = sibling ? sibling->sibling : e;
    e->wanted = sibling ? sibling->wanted : NULL;
    if (sibling)
        sibling->sibling = e;
    *out = e;
    return RONDA_OK;
}

void rd_engine_use_lanes(rd_engine *e)
{
    e->lanes_only = true;
}

/* --- starting --- */

static size_t scratch_bytes(const rd_plan *p)
{
    return p->scratch * p->shape.width;
}

static rd_operation *new_operation(rd_engine *e, uint32_t lanes)
{
    rd_operation *f = e->unused;
    if (f)
        e->unused = f->next;
    else
        f = rd_alloc(sizeof *f);
    if (f && lanes > f->capacity) {
        rd_free(f->lanes);
        rd_free(f->open);
        f->lanes = rd_alloc(lanes * sizeof *f->lanes);
        f->open = rd_alloc(lanes * sizeof *f->open);
        f->capacity = f->lanes && f->open ? lanes : 0;
    }
    if (f && (f->capacity >= lanes))
        return f;
    if (f) {
        f->next = NULL;
        free_operations(e, f);
    }
    return NULL;
}

static void put_away(rd_engine *e, rd_operation *f)
{
    e->transport->free(e->link, f->larger, f->larger_bytes);
    f->larger = NULL;
    rd_swap_end(e, f);
    f->next = e->unused;
    e->unused = f;
}

/* More scratch than the channel has is fetched now, while failing is harmless, and put to use when
 * the channel is this operation's. */
static bool fetch_scratch(rd_engine *e, rd_operation *f)
{
    f->larger_bytes = scratch_bytes(f->plan);
    if (f->larger_bytes <= rd_channel_of(e, &f->job)->bytes)
        return true;
    if (!rd_memory_allows(f->larger_bytes))
        return false;
    f->larger = e->transport->alloc(e->link, f->larger_bytes);
    return f->larger != NULL;
}

/* A disagreement about a later call does not concern this one: whoever has made it can finish it. */
static bool concerns(const rd_error *cause, uint64_t sequence)
{
    return cause->status != RONDA_EMISMATCH || cause->sequence <= sequence;
}

/* Who aborts a world means its parts, too. */
static bool hears_of_abort(rd_link *link)
{
    rd_error cause;
    if (!atomic_load_explicit(link->whole->alarm, memory_order_acquire))
        return false;
    rd_control_cause(link->whole, &cause);
    if (cause.status == RONDA_EABORTED)
        link->transport->abort(link, &cause);
    return cause.status == RONDA_EABORTED;
}

bool rd_engine_must_leave(rd_engine *e, uint64_t sequence)
{
    rd_error cause;
    if (!atomic_load_explicit(e->link->alarm, memory_order_acquire) &&
        !(e->link->whole && hears_of_abort(e->link)))
        return false;
    rd_control_cause(e->link, &cause);
    return concerns(&cause, sequence);
}

static void enter(rd_engine *e, const rd_record *record)
{
    assert(record->sequence == e->entered + 1);
    e->entered = record->sequence;
    rd_control_enter(e->link, record);
}

void rd_engine_step_in(rd_engine *e)
{
    rd_control_resume(e->link, e->entered);
}

void rd_engine_step_out(rd_engine *e)
{
    if (e->first || rd_messages_busy(e))
        rd_control_pause(e->link, e->entered);
    else
        rd_control_leave(e->link, e->entered);
}

static void append(rd_engine *e, rd_operation *f)
{
    rd_channel *c = rd_channel_of(e, &f->job);
    assert(!e->last || !e->last->next);
    f->before = e->last;
    *(e->last ? &e->last->next : &e->first) = f;
    e->last = f;
    *(c->first ? &c->last->behind : &c->first) = f;
    c->last = f;
    e->busy |= rd_channel_bit(e, f);
}

static ronda_status start(rd_engine *e, const rd_job *job, rd_operation **out)
{
    rd_operation *f = new_operation(e, job->plan->lane_count);
    if (!f)
        return RONDA_ENOMEM;
    f->job = *job;
    f->plan = job->plan;
    f->buffer[RD_IN] = (char *)job->in;
    f->buffer[RD_OUT] = job->out;
    f->buffer[RD_STATE] = job->state;
    f->width = job->plan->shape.width;
    f->begun = f->done = f->lost = f->sound = f->staged = false;
    f->next = f->behind = NULL;
    if (!fetch_scratch(e, f)) {
        put_away(e, f);
        return RONDA_ENOMEM;
    }
    enter(e, &job->record);
    append(e, f);
    if (!rd_engine_must_leave(e, job->record.sequence))
        rd_engine_progress(e);
    *out = f;
    return RONDA_OK;
}

ronda_status rd_engine_start(rd_engine *e, const rd_job *job, rd_operation **out)
{
    const ronda_status status = start(e, job, out);
    if (!status)
        rd_engine_step_out(e);
    return status;
}

/* --- waiting --- */

/* Whoever started us wants to know who failed and who only heard of it.  Parts count their ranks anew. */
static void tell_once(rd_engine *e, const rd_error *cause)
{
    const rd_link *l = e->link;
    const bool processes = l->transport->copies || l->transport->pushes;
    const bool theirs = cause->status == RONDA_EPEER || cause->status == RONDA_EABORTED;
    if (processes && theirs && !l->whole && cause->peer < l->size && cause->peer != l->rank &&
        !atomic_exchange(&e->told, true))
        rd_tell(l->rank, l->size, cause->peer);
}

/* An alarm that was there and is gone has been overwritten, and its cause with it. */
void rd_engine_cause(rd_engine *e, rd_error *out)
{
    out->status = RONDA_OK;
    rd_control_cause(e->link, out);
    if (!out->status)
        rd_fail(out, RONDA_EPEER, RONDA_ANY, "rank %u: the world has failed, and its cause is lost",
                e->link->rank);
    if (out->rank >= e->link->size)
        out->rank = e->link->rank;
    if (out->peer >= e->link->size)
        out->peer = RONDA_ANY;
    tell_once(e, out);
}

/* What is lost moves no more.  Of two operations on a channel the younger one is lost first. */
static void clear_channel(rd_channel *c)
{
    rd_operation **at = &c->first;
    for (c->last = NULL; *at && !(*at)->lost; at = &(*at)->behind)
        c->last = *at;
    *at = NULL;
}

/* The cause is the world's first one, which may be older than ours.  What it does not concern goes on, as
 * long as it can: there is no second chance. */
ronda_status rd_engine_give_up(rd_engine *e, rd_error *err)
{
    if (!atomic_load(e->link->alarm))
        e->transport->abort(e->link, err);
    rd_engine_cause(e, err);
    e->cause = *err;
    for (rd_operation *f = e->first; f; f = f->next)
        if (!f->lost && !f->done && (e->gave_up || concerns(err, f->job.record.sequence))) {
            f->lost = true;
            rd_operation_cancel(f);
        }
    e->busy = 0;
    for (uint32_t c = 0; c < e->link->channels; c++) {
        clear_channel(&e->channels[c]);
        e->busy |= (uint32_t)(e->channels[c].first != NULL) << c;
    }
    e->gave_up = true;
    rd_messages_lose(e);
    rd_control_leave(e->link, e->entered);
    rd_engine_quiesce(e, e->timeout_ns ? e->timeout_ns : e->link->timeout_ns);
    return err->status;
}

/* A message that does not fit: the sentence, and the end. */
static ronda_status attend(rd_engine *e, rd_error *err)
{
    assert(e->wrong && e->wrong <= e->link->size);
    (e->invalid ? rd_trouble_invalid : rd_trouble_mismatch)(e->link, &e->wronged, e->wrong - 1,
                                                            err);
    e->wrong = 0;
    return rd_engine_give_up(e, err);
}

/* Among busy processes a few rounds of yielding may take longer than the peers' next messages. */
bool rd_is_late(const rd_patience *p)
{
    return p->deadline_ns && p->idle % 8 == 0 && rd_now_ns() >= p->deadline_ns;
}

void rd_patience_begin(rd_patience *p, uint64_t now)
{
    const uint64_t half = p->timeout_ns / 2;
    p->deadline_ns = p->timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + p->timeout_ns;
    p->late_ns = now + (half < LATE_NS ? half : LATE_NS);
    p->look_ns = now;
    p->tick_ns = FIRST_TICK_NS;
}

/* Ever more rarely, and at the moment from which the call is late; from there on it begins anew. */
static void look_later(rd_patience *p, uint64_t now)
{
    p->look_ns = now + p->tick_ns;
    p->tick_ns = 2 * p->tick_ns < LAST_TICK_NS ? 2 * p->tick_ns : LAST_TICK_NS;
    if (now < p->late_ns && p->look_ns >= p->late_ns) {
        p->look_ns = p->late_ns;
        p->tick_ns = FIRST_TICK_NS;
    }
}

ronda_status rd_engine_idle(rd_engine *e, const rd_record *call, const rd_awaited *what,
                            rd_port *hint, rd_patience *p, rd_error *err)
{
    rd_engine_heed(e, what);
    if (e->wrong)
        return attend(e, err);
    if (rd_engine_must_leave(e, call->sequence))
        return rd_engine_give_up(e, err);
    if (p->idle++ < QUICK && !rd_is_late(p)) {
        e->transport->wait(e->link, hint, p->idle, 0);
        return RONDA_OK;
    }
    if (what) { /* who walks straight does not look after others by the way */
        rd_messages_move(e);
        rd_siblings_progress(e);
    }
    const uint64_t now = rd_now_ns();
    if (!p->deadline_ns) {
        rd_patience_begin(p, now);
        e->timeout_ns = p->timeout_ns;
    }
    const uint32_t goodbyes = atomic_load(e->link->goodbyes);
    if (now >= p->look_ns || now >= p->deadline_ns || goodbyes != p->goodbyes) {
        uint32_t whom = RONDA_ANY;
        p->goodbyes = goodbyes;
        rd_messages_announce(e, NULL);
        ronda_status status = rd_look_around(e, call, what, &whom, err);
        if (!status && now >= p->deadline_ns && whom != RONDA_ANY)
            status = rd_trouble_timeout(e->link, call, whom, p->timeout_ns, err);
        if (status)
            return rd_engine_give_up(e, err);
        rd_control_await(e->link, whom, now >= p->late_ns);
        look_later(p, now);
    }
    e->transport->wait(e->link, hint, p->idle,
                       p->look_ns < p->deadline_ns ? p->look_ns : p->deadline_ns);
    return RONDA_OK;
}

/* Where the only news that can help will come from, if there is one such place.  Over sockets, where each place that is
 * looked at costs a system call, the one whose message is the first in the plan's order. */
static rd_port *next_port(const rd_engine *e, const rd_operation *f)
{
    const rd_lane_state *best = NULL;
    uint32_t first = UINT32_MAX;
    if (!f->begun || !f->open_count || (f->open_count > 1 && !e->transport->pushes))
        return NULL;
    for (uint32_t i = 0; i < f->open_count; i++) {
        const rd_lane_state *lane = &f->lanes[f->open[i]];
        const rd_step *s = &f->plan->steps[lane->next];
        const uint32_t at = s->chunk + RD_SKEW * s->round;
        const bool waits = s->peer != RD_NONE && s->verb != RD_SEND;
        if (f->open_count == 1 || (waits && at < first)) {
            best = lane;
            first = at;
        }
    }
    return best ? best->port : NULL;
}

/* The operation is over. */
static void forget(rd_engine *e, rd_operation *operation)
{
    assert(operation->done || operation->lost);
    assert((operation->before ? operation->before->next : e->first) == operation);
    *(operation->before ? &operation->before->next : &e->first) = operation->next;
    *(operation->next ? &operation->next->before : &e->last) = operation->before;
    put_away(e, operation);
    rd_engine_step_out(e);
}

/* The world has failed, and whoever asks next will hear why. */
void rd_engine_lose(rd_engine *e)
{
    rd_error cause = {0};
    if (e->wrong)
        attend(e, &cause);
    else
        rd_engine_give_up(e, &cause);
}

/* Inside again, for an operation that was started before; false: it was lost. */
static bool step_in(rd_engine *e, rd_operation *f)
{
    if (f->done || f->lost)
        return !f->lost;
    rd_control_resume(e->link, e->entered);
    if (rd_engine_must_leave(e, f->job.record.sequence))
        rd_engine_lose(e);
    return !f->lost;
}

/* A rank that gave up while we were at it may have freed what it had lent us: that is not done. */
static void doubt(rd_engine *e, rd_operation *f)
{
    if (f->done && !f->sound && rd_engine_must_leave(e, f->job.record.sequence)) {
        f->done = false;
        rd_engine_lose(e);
    }
    f->sound = f->done;
}

static ronda_status wait_for(rd_engine *e, rd_operation *f, uint64_t timeout_ns, rd_error *err)
{
    rd_patience patience = {.timeout_ns = timeout_ns};
    while (!f->done && !f->lost) {
        if (rd_engine_progress(e)) {
            patience.idle = 0;
            continue;
        }
        const bool alone =
            e->first == f && !f->next && !rd_messages_busy(e) && !rd_siblings_busy(e);
        rd_engine_idle(e, &f->job.record, NULL, alone ? next_port(e, f) : NULL, &patience, err);
    }
    doubt(e, f);
    const ronda_status status = f->lost ? e->cause.status : RONDA_OK;
    if (status)
        *err = e->cause;
    forget(e, f);
    return status;
}

ronda_status rd_engine_wait(rd_engine *e, rd_operation *f, uint64_t timeout_ns, rd_error *err)
{
    step_in(e, f);
    return wait_for(e, f, timeout_ns, err);
}

/* Who tests without a pause reads the clock now and then; who tests seldom reads it each time. */
static bool time_to_look(rd_engine *e)
{
    enum { TESTS = 16, EVERY_NS = 5000000 };
    if (e->wrong)
        return true;
    if (e->tests) {
        e->tests--;
        return false;
    }
    const uint64_t now = rd_now_ns();
    if (now < e->tested_ns) {
        e->tests = TESTS;
        return false;
    }
    e->tested_ns = now + EVERY_NS;
    return true;
}

static void look_now(rd_engine *e)
{
    rd_error err = {0};
    uint32_t whom = RONDA_ANY;
    if (e->wrong)
        attend(e, &err);
    else if ((e->first && rd_look_around(e, &e->first->job.record, NULL, &whom, &err)) ||
             rd_messages_look_around(e, &err))
        rd_engine_give_up(e, &err);
}

/* Whoever only tests never sleeps: now and then it looks whether its peers live and agree. */
void rd_engine_look_after(rd_engine *e)
{
    if (time_to_look(e))
        look_now(e);
}

void rd_engine_pump(rd_engine *e)
{
    if (e->transport->pump)
        e->transport->pump(e->link);
}

bool rd_engine_test(rd_engine *e, rd_operation *f)
{
    if (f->done || !step_in(e, f))
        return true;
    rd_engine_pump(e);
    if (!rd_engine_progress(e))
        rd_engine_look_after(e);
    doubt(e, f);
    rd_engine_step_out(e);
    return f->done || f->lost;
}

ronda_status rd_engine_run(rd_engine *e, const rd_job *job, uint64_t timeout_ns, rd_error *err)
{
    rd_channel *c = rd_channel_of(e, job);
    if (job->plan->straight && !e->lanes_only && !e->first && !rd_messages_busy(e) &&
        !rd_siblings_busy(e) && (!job->plan->straight_lends || e->transport->lends_alloc) &&
        scratch_bytes(job->plan) <= c->bytes && rd_channel_paid(c)) {
        enter(e, &job->record);
        if (rd_engine_must_leave(e, job->record.sequence))
            return rd_engine_give_up(e, err);
        const ronda_status status = rd_run_straight(e, job, timeout_ns, err);
        if (!status && job->plan->straight_lends &&
            rd_engine_must_leave(e, job->record.sequence)) /* as doubt() does */
            return rd_engine_give_up(e, err);
        if (!status)
            rd_control_leave(e->link, e->entered);
        return status;
    }
    rd_operation *f;
    const ronda_status status = start(e, job, &f);
    if (status)
        return rd_fail(err, status, RONDA_ANY, "no memory to run %s",
                       rd_kind_name(job->record.kind));
    if (rd_engine_must_leave(e, job->record.sequence))
        rd_engine_give_up(e, err);
    return wait_for(e, f, timeout_ns, err);
}
