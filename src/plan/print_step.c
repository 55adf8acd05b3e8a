/* print_step.c: one step as text: what it makes of what. */
#include <inttypes.h>

#include "base/names.h"
#include "plan/print.h"

/* What steps are told by. */
typedef struct {
    const rd_plan *plan;
    ronda_op op;
} said;

void rd_print_range(rd_text *w, uint8_t buffer, uint64_t at, uint64_t count)
{
    static const char *const names[] = {"in", "out", "scratch", "state"};
    _Static_assert(sizeof names / sizeof *names == RD_BUFFERS, "each buffer has a name");
    rd_say(w, "%s[%" PRIu64 "..%" PRIu64 ")", names[buffer], at, at + count);
}

static const char *sign_of(ronda_op op)
{
    switch (op) {
    case RONDA_PROD:
        return " * ";
    case RONDA_BAND:
        return " & ";
    case RONDA_BOR:
        return " | ";
    case RONDA_BXOR:
        return " ^ ";
    case RONDA_SUM:
    case RONDA_MEAN:
        return " + ";
    default:
        return NULL; /* min, max and whatever else is a function of its operands */
    }
}

static void open_fold(const said *t, rd_text *w)
{
    if (!sign_of(t->op))
        rd_say(w, "%s(", rd_op_name(t->op));
}

static void between(const said *t, rd_text *w)
{
    rd_say(w, "%s", sign_of(t->op) ? sign_of(t->op) : ", ");
}

static void close_fold(const said *t, rd_text *w, const rd_step *s)
{
    if (!sign_of(t->op))
        rd_say(w, ")");
    if (s->scale)
        rd_say(w, ", then / %" PRIu32, t->plan->shape.size);
}

static bool updates(const rd_step *s)
{
    return rd_verbs[s->verb].to == RD_UPDATES;
}

/* The operand that is here. */
static void say_here(rd_text *w, const rd_step *s)
{
    if (updates(s) || (s->from_buffer == s->to_buffer && s->from_at == s->to_at))
        rd_say(w, "itself");
    else
        rd_print_range(w, s->from_buffer, s->from_at, s->count);
}

/* A fold of two: the side says which operand stands first. */
static void say_pair(const said *t, rd_text *w, const rd_step *s)
{
    const bool here_first = s->side == RD_HERE_LEFT;
    rd_print_range(w, s->to_buffer, s->to_at, s->count);
    rd_say(w, " = ");
    open_fold(t, w);
    for (int side = 0; side < 2; side++) {
        if (side)
            between(t, w);
        if ((side == 0) == here_first)
            say_here(w, s);
        else if (updates(s))
            rd_print_range(w, s->from_buffer, s->from_at, s->count);
        else
            rd_say(w, "rank %" PRIu32 "'s", s->peer);
    }
    close_fold(t, w, s);
}

/* "ranks 0..4 + in[3..5) + ranks 6..8": runs of ranks that follow each other are said as one. */
static void say_many(const said *t, rd_text *w, const rd_step *s)
{
    const rd_plan *p = t->plan;
    const rd_group *g = &p->groups[s->group];
    rd_print_range(w, s->to_buffer, s->to_at, s->count);
    rd_say(w, " = ");
    open_fold(t, w);
    for (uint32_t i = 0, end; i < g->count; i = end) {
        const uint32_t step = p->members[g->first + i];
        end = i + 1;
        if (i)
            between(t, w);
        if (step == RD_NONE) {
            say_here(w, s);
            continue;
        }
        const uint32_t first = p->steps[step].peer;
        uint32_t last = first;
        for (; end < g->count && p->members[g->first + end] != RD_NONE &&
               p->steps[p->members[g->first + end]].peer == last + 1;
             end++)
            last++;
        if (last == first)
            rd_say(w, "rank %" PRIu32 "'s", first);
        else
            rd_say(w, "ranks %" PRIu32 "..%" PRIu32 "'s", first, last);
    }
    close_fold(t, w, s);
}

/* "scratch[0..2), state[0..8) = encode(in[0..8), state[0..8))" */
static void say_listed(const said *t, rd_text *w, const rd_step *s)
{
    for (int how = RD_WRITES; how >= RD_READS; how--) {
        const char *join = "";
        for (const rd_access *a = t->plan->accesses + s->first_access;; a++) {
            if (a->how & how) {
                rd_say(w, "%s", join);
                rd_print_range(w, a->range.buffer, a->range.at, a->range.count);
                join = ", ";
            }
            if (a->last)
                break;
        }
        if (how == RD_WRITES)
            rd_say(w, " = %s(", rd_verbs[s->verb].name);
    }
    rd_say(w, ")");
    if (s->scale)
        rd_say(w, ", then / %" PRIu32, t->plan->shape.size);
}

void rd_print_step(rd_text *w, const rd_plan *p, ronda_op op, const rd_step *s)
{
    const said step = {p, op}, *t = &step;
    const rd_verb *v = &rd_verbs[s->verb];
    if (v->flags & RD_LISTED) {
        say_listed(t, w, s);
    } else if (v->flags & RD_GROUPED) {
        say_many(t, w, s);
    } else if (v->flags & RD_FOLDS) {
        say_pair(t, w, s);
    } else if (v->lane == RD_LANE_TO) {
        rd_print_range(w, s->from_buffer, s->from_at, s->count);
        rd_say(w, " -> rank %" PRIu32, s->peer);
    } else {
        rd_print_range(w, s->to_buffer, s->to_at, s->count);
        if (v->lane == RD_LANE_FROM)
            rd_say(w, " <- rank %" PRIu32, s->peer);
        else
            rd_say(w, " = ");
        if (updates(s))
            rd_say(w, "itself / %" PRIu32, t->plan->shape.size);
        else if (v->from)
            rd_print_range(w, s->from_buffer, s->from_at, s->count);
    }
}
