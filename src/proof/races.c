/* races.c: do any two steps touch the same memory in no certain order?
 *
 * One rank at a time, by what the rank itself guarantees: the order of its lanes, and dependencies.
 * What follows from messages going round by other ranks does not count, so that nothing hangs on
 * how others run.
 *
 *   - Receives, folds and local steps: the next of a lane starts when the one before is done.
 *   - Sends: the next STARTS when the one before has STARTED, since what one sends is read until the
 *     peer has taken it.  A dependency on a send means its being taken.  A peer takes in order.
 *   - A group is one event in several lanes.
 *
 * A CLOCK of a step says, per lane, before which of its steps all are done when this step starts.  "a is
 * done before b starts" is then one comparison: clock[b][lane of a] > a.
 *
 * Memory is cut where any range begins or ends.  For each piece, its accesses are listed in an order
 * in which the first run did them; a write must know all accesses since the write before it to be
 * done, and a read the last write:
 *
 *     piece 3:   write 4   read 9   read 2   write 7   read 8
 *                   ^---------+--------+--------'         |
 *                                          ^--------------'
 */
#include "proof/checking.h"

#include <string.h>

#include "base/mem.h"

typedef struct {
    rd_checking *c;
    uint32_t rank;
    const rd_plan *p;
    const uint32_t *order; /* the first run's */
    uint32_t ordered;
    uint32_t *clocks;    /* rows of lane_count, in the order of `order` */
    uint32_t *row;       /* per step: its row; a group's is its leader's */
    uint32_t *forwarder; /* per step: 1 + the step that forwards it */
    uint32_t *piece;     /* per element of all buffers, and one more: its piece */
    uint32_t pieces;
    uint64_t *first;   /* per piece, and one more: its accesses in entries */
    uint32_t *entries; /* 2 * step + writes */
} analysis;

/* --- clocks --- */

static uint32_t *clock_of(const analysis *a, uint32_t step)
{
    const uint32_t group = a->p->steps[step].group;
    const uint32_t event = group == RD_NONE ? step : a->p->groups[group].leader;
    return a->clocks + (size_t)a->row[event] * a->p->lane_count;
}

/* `done` is done before `step` starts. */
static bool knows(const analysis *a, uint32_t step, uint32_t done)
{
    return clock_of(a, step)[a->p->steps[done].lane] > done;
}

static void join(const analysis *a, uint32_t *clock, const uint32_t *other)
{
    for (uint32_t l = 0; l < a->p->lane_count; l++)
        clock[l] = clock[l] > other[l] ? clock[l] : other[l];
}

static void learn(const analysis *a, uint32_t *clock, uint32_t step)
{
    const uint32_t lane = a->p->steps[step].lane;
    clock[lane] = clock[lane] > step + 1 ? clock[lane] : step + 1;
}

/* Whoever knows that a step is done knows what the step knew when it started. */
static void learn_done(const analysis *a, uint32_t *clock, uint32_t step)
{
    const rd_plan *p = a->p;
    if (clock[p->steps[step].lane] > step)
        return;
    join(a, clock, clock_of(a, step));
    learn(a, clock, step);
    if (p->steps[step].group == RD_NONE)
        return;
    const rd_group *group = &p->groups[p->steps[step].group];
    for (uint32_t i = 0; i < group->count; i++)
        if (p->members[group->first + i] != RD_NONE)
            learn(a, clock, p->members[group->first + i]);
}

static void learn_lane(const analysis *a, uint32_t *clock, uint32_t step)
{
    if (a->p->steps[step].ordinal == 0)
        return;
    if (a->p->steps[step].verb == RD_SEND)
        join(a, clock, clock_of(a, step - 1));
    else
        learn_done(a, clock, step - 1);
}

static void set_clock(const analysis *a, uint32_t step)
{
    const rd_plan *p = a->p;
    const rd_step *s = &p->steps[step];
    uint32_t *clock = clock_of(a, step);
    const rd_group *group = s->group == RD_NONE ? NULL : &p->groups[s->group];
    for (uint32_t i = 0; i < (group ? group->count : 1); i++) {
        const uint32_t member = group ? p->members[group->first + i] : step;
        if (member != RD_NONE)
            learn_lane(a, clock, member);
    }
    for (uint32_t d = 0; d < s->deps; d++)
        learn_done(a, clock, p->deps[s->first_dep + d].step);
}

/* --- pieces of memory --- */

static uint64_t cell_of(const analysis *a, rd_range range)
{
    const rd_check_memory *memory = &a->c->memory[a->rank];
    return memory->at[range.buffer] - memory->at[0] + range.at;
}

static uint64_t cells_in(const analysis *a)
{
    const rd_check_memory *memory = &a->c->memory[a->rank];
    return memory->at[RD_BUFFERS - 1] + memory->length[RD_BUFFERS - 1] - memory->at[0];
}

static void cut_at(analysis *a, rd_range range)
{
    if (range.count == 0)
        return;
    a->piece[cell_of(a, range)] = 1;
    a->piece[cell_of(a, range) + range.count] = 1;
}

static void cut_memory(analysis *a)
{
    const uint64_t cells = cells_in(a);
    rd_access pair[2];
    uint32_t count;
    for (uint32_t i = 0; i < a->p->step_count; i++) {
        const rd_access *touched = rd_step_touches(a->p, i, pair, &count);
        for (uint32_t k = 0; k < count; k++)
            cut_at(a, touched[k].range);
    }
    a->piece[0] = 0;
    for (uint64_t e = 1; e <= cells; e++)
        a->piece[e] += a->piece[e - 1];
    a->pieces = a->piece[cells] + 1;
}

/* --- who touches what --- */

/* Counts (entries NULL) or enters that a step reads or writes a range. */
static void enter(analysis *a, uint32_t step, rd_range range, bool writes)
{
    if (range.count == 0)
        return;
    const uint32_t begin = a->piece[cell_of(a, range)],
                   end = a->piece[cell_of(a, range) + range.count - 1];
    for (uint32_t i = begin; i <= end; i++) {
        if (a->entries)
            a->entries[a->first[i]] = 2 * step + writes;
        a->first[i]++;
    }
}

/* All accesses; of a step its reading before its writing. */
static void enter_all(analysis *a)
{
    rd_access pair[2];
    uint32_t count;
    for (uint32_t i = 0; i < a->ordered; i++) {
        const rd_access *touched = rd_step_touches(a->p, a->order[i], pair, &count);
        for (uint32_t k = 0; k < count; k++)
            if (touched[k].how & RD_READS)
                enter(a, a->order[i], touched[k].range, false);
        for (uint32_t k = 0; k < count; k++)
            if (touched[k].how & RD_WRITES)
                enter(a, a->order[i], touched[k].range, true);
    }
}

static bool list_accesses(analysis *a)
{
    enter_all(a);
    uint64_t total = 0;
    for (uint32_t i = 0; i <= a->pieces; i++) {
        const uint64_t here = a->first[i];
        a->first[i] = total;
        total += here;
    }
    a->entries = rd_alloc((total + 1) * sizeof *a->entries);
    if (!a->entries)
        return rd_refuse_memory(a->c);
    enter_all(a);
    for (uint32_t i = a->pieces; i > 0; i--) /* entering moved each to the start of the next */
        a->first[i] = a->first[i - 1];
    a->first[0] = 0;
    return true;
}

/* --- the checks --- */

static bool refuse_race(const analysis *a, uint32_t one, uint32_t two)
{
    char first[RD_STEP_TEXT], second[RD_STEP_TEXT];
    return rd_refuse(
        a->c,
        "rank %u: %s and %s touch the same elements of which one is written, in no certain order",
        a->rank, rd_step_text(a->p, one, first), rd_step_text(a->p, two, second));
}

/* Also: what a step forwards to a send must be what the send would have read. */
static bool check_piece(const analysis *a, const uint32_t *entry, uint64_t count)
{
    uint64_t since = 0; /* entries from the last write on */
    uint32_t writer = RD_NONE;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t step = entry[i] / 2;
        const bool writes = entry[i] % 2;
        for (uint64_t k = since; k < i && writes; k++)
            if (entry[k] / 2 != step && !knows(a, step, entry[k] / 2))
                return refuse_race(a, entry[k] / 2, step);
        if (!writes && writer != RD_NONE && !knows(a, step, writer))
            return refuse_race(a, writer, step);
        if (!writes && a->forwarder[step] && a->forwarder[step] - 1 != writer) {
            char first[RD_STEP_TEXT], second[RD_STEP_TEXT];
            return rd_refuse(a->c,
                             "rank %u: %s forwards %s, which sends what was written by another",
                             a->rank, rd_step_text(a->p, a->forwarder[step] - 1, first),
                             rd_step_text(a->p, step, second));
        }
        if (writes) {
            since = i;
            writer = step;
        }
    }
    return true;
}

/* A forwarded send runs at the moment its forwarder does, so all else it waits for must be done then. */
static bool check_forwards(const analysis *a, uint32_t step)
{
    const rd_plan *p = a->p;
    const rd_step *s = &p->steps[step];
    char first[RD_STEP_TEXT], second[RD_STEP_TEXT], third[RD_STEP_TEXT];
    for (uint32_t i = 0; i < s->forward_count; i++) {
        const uint32_t f = p->forwards[s->first_forward + i];
        if (a->forwarder[f])
            return rd_refuse(a->c, "rank %u: %s is forwarded twice", a->rank,
                             rd_step_text(p, f, first));
        a->forwarder[f] = step + 1;
        for (uint32_t d = 0; d < p->steps[f].deps; d++) {
            const uint32_t dep = p->deps[p->steps[f].first_dep + d].step;
            if (clock_of(a, dep) != clock_of(a, step) && !knows(a, step, dep))
                return rd_refuse(a->c, "rank %u: %s forwards %s, which has to wait for %s", a->rank,
                                 rd_step_text(p, step, first), rd_step_text(p, f, second),
                                 rd_step_text(p, dep, third));
        }
    }
    return true;
}

static bool refuse_back(const analysis *a, uint32_t send, const char *how, uint32_t step)
{
    char first[RD_STEP_TEXT], second[RD_STEP_TEXT], third[RD_STEP_TEXT];
    return rd_refuse(a->c, "rank %u: %s is to come back by %s, which may %s %s", a->rank,
                     rd_step_text(a->p, send, first),
                     rd_step_text(a->p, a->p->steps[send].back, second), how,
                     rd_step_text(a->p, step, third));
}

/* `step` is done when the peer has taken `send`, which it does in order. */
static bool done_when_taken(const analysis *a, uint32_t send, uint32_t step)
{
    const bool before = a->p->steps[step].lane == a->p->steps[send].lane && step < send;
    return before || knows(a, send, step);
}

/* From the moment the peer has taken the send to the end of the receive, the peer may write the
 * receive's range: nobody else may touch it then.  And since what came back is not waited for
 * again, whatever the receive waits for must be done by then. */
static bool check_back(const analysis *a, uint32_t send)
{
    const rd_plan *p = a->p;
    const uint32_t recv = p->steps[send].back;
    if (recv == RD_NONE)
        return true;
    if (knows(a, send, recv))
        return refuse_back(a, send, "be done before", send);
    for (uint32_t d = 0; d < p->steps[recv].deps; d++) {
        const uint32_t dep = p->deps[p->steps[recv].first_dep + d].step;
        if (dep != send && !done_when_taken(a, send, dep))
            return refuse_back(a, send, "have to wait for", dep);
    }
    const rd_step *s = &p->steps[send], *r = &p->steps[recv];
    const rd_range from = {s->from_buffer, s->from_at, s->count},
                   to = {r->to_buffer, r->to_at, r->count};
    if (to.count == 0)
        return true;
    const uint32_t begin = a->piece[cell_of(a, to)], end = a->piece[cell_of(a, to) + to.count - 1];
    for (uint64_t i = a->first[begin]; i < a->first[end + 1]; i++) {
        const uint32_t step = a->entries[i] / 2;
        const bool fine = step == recv || (step == send && rd_same_range(from, to)) ||
                          done_when_taken(a, send, step) || knows(a, step, recv);
        if (!fine)
            return refuse_back(a, send, "be in the way of", step);
    }
    return true;
}

static bool analyse(analysis *a)
{
    const rd_plan *p = a->p;
    for (uint32_t i = 0; i < a->ordered; i++) {
        a->row[a->order[i]] = i;
        set_clock(a, a->order[i]);
    }
    for (uint32_t i = 0; i < p->step_count; i++)
        if (!check_forwards(a, i))
            return false;
    cut_memory(a);
    a->first = rd_alloc((a->pieces + (size_t)1) * sizeof *a->first);
    if (!a->first)
        return rd_refuse_memory(a->c);
    if (!list_accesses(a))
        return false;
    for (uint32_t i = 0; i < a->pieces; i++)
        if (!check_piece(a, a->entries + a->first[i], a->first[i + 1] - a->first[i]))
            return false;
    for (uint32_t i = 0; i < p->step_count; i++)
        if (!check_back(a, i))
            return false;
    return true;
}

bool rd_check_races(rd_checking *c)
{
    for (uint32_t r = 0; r < c->n; r++) {
        const rd_plan *p = c->plans[r];
        analysis a = {.c = c,
                      .rank = r,
                      .p = p,
                      .order = c->order + c->step_base[r],
                      .ordered = c->ordered[r]};
        a.clocks = rd_alloc(((size_t)a.ordered * p->lane_count + 1) * sizeof *a.clocks);
        a.row = rd_alloc((p->step_count + (size_t)1) * sizeof *a.row);
        a.forwarder = rd_alloc((p->step_count + (size_t)1) * sizeof *a.forwarder);
        a.piece = rd_alloc((cells_in(&a) + 1) * sizeof *a.piece);
        const bool ok =
            a.clocks && a.row && a.forwarder && a.piece ? analyse(&a) : rd_refuse_memory(c);
        rd_free(a.clocks);
        rd_free(a.row);
        rd_free(a.forwarder);
        rd_free(a.piece);
        rd_free(a.first);
        rd_free(a.entries);
        if (!ok)
            return false;
    }
    return true;
}
