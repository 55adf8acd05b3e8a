/* print.c: a plan as text for people.
 *
 *     allreduce of 10 f32, sum, by ring: rank 1 of 4          what it is
 *       steps     12 in 6 rounds ...                          how much it is
 *       in        ...                                         what the buffers are
 *       round 0   1  send  in[0..2) -> rank 2                 the steps, round by round
 *                 2  fold  out[7..10) = rank 0's + in[7..10)
 *       round 1   3  send  out[7..10) -> rank 2     after 2
 *
 * The messages of a fold_many are steps too; they share a line, and their numbers follow each other. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"
#include "plan/hosts.h"
#include "plan/print.h"

enum { WIDTH = 100, WIDEST_STEP = 52 }; /* a step longer than this pushes its notes to the right */

typedef struct {
    const rd_plan *plan;
    ronda_type type;
    ronda_op op;
    uint32_t *order;  /* steps as they are shown; of a group the leader alone */
    uint32_t *number; /* per step: what it is called; from 1 */
    uint32_t shown;   /* entries of order */
    int round_width, chunk_width, number_width, verb_width, step_width;
    bool folds, waits, passes, returns; /* notes that need a word of explanation */
} printing;

/* --- writing --- */

void rd_say(rd_text *w, const char *format, ...)
{
    const bool room = w->length < w->capacity;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(room ? w->text + w->length : NULL, room ? w->capacity - w->length : 0,
                            format, arguments);
    va_end(arguments);
    w->length += n > 0 ? (size_t)n : 0;
}

static void end_line(rd_text *w)
{
    rd_say(w, "\n");
    w->line = w->length;
}

static void pad_to(rd_text *w, size_t column)
{
    while (w->length - w->line < column)
        rd_say(w, " ");
}

static int digits(uint64_t n)
{
    return snprintf(NULL, 0, "%" PRIu64, n);
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* --- what steps are called --- */

/* The messages of a group get numbers that follow each other, in the order of the fold. */
static void number_steps(printing *t)
{
    const rd_plan *p = t->plan;
    uint32_t next = 1;
    for (uint32_t i = 0; i < t->shown; i++) {
        const uint32_t step = t->order[i];
        if (p->steps[step].group == RD_NONE) {
            t->number[step] = next++;
            continue;
        }
        const rd_group *g = &p->groups[p->steps[step].group];
        next += g->arriving;
        for (uint32_t m = 0; m < g->count; m++)
            if (p->members[g->first + m] != RD_NONE)
                t->number[p->members[g->first + m]] = next - 1;
    }
}

/* --- notes: what it waits for, and what else is known --- */

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* "after 2, 5..7" */
static void say_waits(const printing *t, rd_text *w, const rd_step *s)
{
    const rd_plan *p = t->plan;
    uint32_t few[64];
    uint32_t *numbers = s->deps <= 64 ? few : rd_alloc(s->deps * sizeof *numbers);
    if (!numbers) {
        rd_say(w, "after %u steps", s->deps);
        return;
    }
    for (uint32_t d = 0; d < s->deps; d++)
        numbers[d] = t->number[p->deps[s->first_dep + d].step];
    qsort(numbers, s->deps, sizeof *numbers, by_number);
    for (uint32_t d = 0, end; d < s->deps; d = end) {
        for (end = d + 1; end < s->deps && numbers[end] <= numbers[end - 1] + 1;)
            end++;
        rd_say(w, "%s%" PRIu32, d ? ", " : "after ", numbers[d]);
        if (numbers[end - 1] != numbers[d])
            rd_say(w, "%s%" PRIu32, numbers[end - 1] == numbers[d] + 1 ? ", " : "..",
                   numbers[end - 1]);
    }
    if (numbers != few)
        rd_free(numbers);
}

static bool is_passed_on(const rd_plan *p, uint32_t step)
{
    const rd_step *s = &p->steps[step];
    if (s->verb != RD_SEND || s->deps != 1)
        return false;
    const rd_step *from = &p->steps[p->deps[s->first_dep].step];
    for (uint32_t f = 0; f < from->forward_count; f++)
        if (p->forwards[from->first_forward + f] == step)
            return true;
    return false;
}

static void say_notes(printing *t, rd_text *w, uint32_t step)
{
    const rd_plan *p = t->plan;
    const rd_step *s = &p->steps[step];
    const bool returned = s->verb == RD_SEND && s->back != RD_NONE, passed = is_passed_on(p, step);
    const char *join = "";
    if (s->deps) {
        say_waits(t, w, s);
        join = "; ";
    }
    if (passed) {
        rd_say(w, "%spassed on", join);
        join = "; ";
    }
    if (returned) {
        rd_say(w, "%sreturned as %" PRIu32, join, t->number[s->back]);
        join = "; ";
    }
    if (s->count == 0)
        rd_say(w, "%sempty", join);
    t->waits |= s->deps > 0;
    t->passes |= passed;
    t->returns |= returned;
}

/* Notes stand in a column of their own, or on the next line where there is no room for them. */
static void place_notes(printing *t, rd_text *w, uint32_t step, size_t column)
{
    rd_text nowhere = {0};
    say_notes(t, &nowhere, step);
    if (nowhere.length == 0)
        return;
    const size_t here = w->length - w->line + 3;
    if (column + nowhere.length > WIDTH)
        column = nowhere.length < WIDTH ? WIDTH - nowhere.length : 0;
    if (here + nowhere.length > WIDTH)
        end_line(w);
    else if (here > column)
        column = here;
    pad_to(w, column);
    say_notes(t, w, step);
}

/* --- the steps --- */

static void measure(printing *t)
{
    const rd_plan *p = t->plan;
    const int number = digits(p->step_count);
    t->number_width = number;
    t->verb_width = 4;
    for (uint32_t i = 0; i < t->shown; i++) {
        const rd_step *s = &p->steps[t->order[i]];
        rd_text nowhere = {0};
        rd_print_step(&nowhere, p, t->op, s);
        if (nowhere.length <= WIDEST_STEP && (int)nowhere.length > t->step_width)
            t->step_width = (int)nowhere.length;
        const rd_verb *v = &rd_verbs[s->verb];
        if (s->group != RD_NONE && p->groups[s->group].arriving > 1)
            t->number_width = 2 * number + 1;
        t->folds |= v->flags & RD_FOLDS && v->lane == RD_LANE_FROM;
        if ((int)strlen(v->name) > t->verb_width)
            t->verb_width = (int)strlen(v->name);
        if (digits(s->round) > t->round_width)
            t->round_width = digits(s->round);
    }
    t->chunk_width = digits(p->chunks - 1);
}

static void say_line(printing *t, rd_text *w, uint32_t i)
{
    const rd_plan *p = t->plan;
    const uint32_t step = t->order[i];
    const rd_step *s = &p->steps[step], *before = i ? &p->steps[t->order[i - 1]] : NULL;
    char number[32];
    snprintf(number, sizeof number, "%" PRIu32, t->number[step]);
    if (s->group != RD_NONE && p->groups[s->group].arriving > 1)
        snprintf(number, sizeof number, "%" PRIu32 "-%" PRIu32,
                 t->number[step] - p->groups[s->group].arriving + 1, t->number[step]);

    if (!before || before->round != s->round)
        rd_say(w, "  round %*" PRIu32, t->round_width, s->round);
    else
        pad_to(w, 8 + (size_t)t->round_width);
    if (p->chunks > 1) {
        if (!before || before->round != s->round || before->chunk != s->chunk)
            rd_say(w, "  chunk %*" PRIu32, t->chunk_width, s->chunk);
        else
            pad_to(w, 16 + (size_t)t->round_width + (size_t)t->chunk_width);
    }
    rd_say(w, "  %*s  %-*s  ", t->number_width, number, t->verb_width, rd_verbs[s->verb].name);
    const size_t column = w->length - w->line + (size_t)t->step_width + 3;
    rd_print_step(w, p, t->op, s);
    place_notes(t, w, step, column);
    end_line(w);
}

static void say_words(const printing *t, rd_text *w)
{
    if (t->plan->chunks > 1)
        rd_say(
            w,
            "\n  Messages to one rank, and from one rank, go by chunk + %d * round, then chunk.\n",
            RD_SKEW);
    else
        rd_say(w, "\n  Messages to one rank, and from one rank, go in the order shown.\n");
    if (t->folds)
        rd_say(w, "  rank 1's     the message that comes from rank 1\n");
    if (t->plan->group_count)
        rd_say(w, "  fold_many    one pass over all operands, in the order shown; rounded once\n");
    if (t->waits)
        rd_say(
            w,
            "  after 2      starts when step 2 is done (a send: when its bytes may be overwritten)\n");
    if (t->passes)
        rd_say(w, "  passed on    may be sent in the same pass that made it\n");
    if (t->returns)
        rd_say(
            w,
            "  returned as  where memory is shared, the peer may store that step's result itself\n");
}

static void say_steps(printing *t, rd_text *w)
{
    const rd_plan *p = t->plan;
    t->order = rd_alloc((p->step_count + (size_t)1) * sizeof *t->order);
    t->number = rd_alloc((p->step_count + (size_t)1) * sizeof *t->number);
    if (t->order && t->number && rd_print_order(p, t->order, &t->shown)) {
        number_steps(t);
        measure(t);
        for (uint32_t i = 0; i < t->shown; i++)
            say_line(t, w, i);
        say_words(t, w);
    } else {
        rd_say(w, "  no memory to put the steps in order\n");
    }
    rd_free(t->order);
    rd_free(t->number);
}

/* --- the header --- */

static void say_title(const printing *t, rd_text *w)
{
    const rd_shape *s = &t->plan->shape;
    rd_say(w, "%s", rd_kind_name(s->kind));
    const rd_kind_facts *k = rd_kind(s->kind);
    const int blocks = k->gets == RD_BLOCKS ? RD_OUT : RD_IN;
    if (s->kind == RONDA_ALLTOALLV)
        rd_say(w, " of %s", rd_type_name(t->type));
    else if (k->counted)
        rd_say(w, " of %" PRIu64 " %s in all", rd_block_at(s, blocks, s->size),
               rd_type_name(t->type));
    else if (s->kind != RONDA_BARRIER)
        rd_say(w, " of %" PRIu64 " %s", s->count, rd_type_name(t->type));
    if (!k->counted && k->gets == RD_BLOCKS)
        rd_say(w, k->gives == RD_BLOCKS ? " from each rank to each" : " from each rank");
    else if (!k->counted && k->gives == RD_BLOCKS)
        rd_say(w, " to each rank");
    if (k->reduces)
        rd_say(w, ", %s", rd_op_name(t->op));
    if (k->rooted)
        rd_say(w, " %s root %" PRIu32, k->root_gets ? "to" : "from", s->root);
    if (s->in_place)
        rd_say(w, ", in place");
    if (t->plan->algorithm)
        rd_say(w, ", by %s: rank %" PRIu32 " of %" PRIu32 "\n  %s\n\n", t->plan->algorithm->name,
               s->rank, s->size, t->plan->algorithm->about);
    else
        rd_say(w, ": rank %" PRIu32 " of %" PRIu32 "\n\n", s->rank, s->size);
}

static void say_messages(const printing *t, rd_text *w, bool sends)
{
    const rd_plan *p = t->plan;
    uint64_t messages = 0, elements = 0, peers = 0;
    for (uint32_t l = 0; l < p->lane_count; l++)
        peers += p->lanes[l].peer != RD_NONE && p->lanes[l].sends == sends;
    for (uint32_t i = 0; i < p->step_count; i++) {
        const rd_step *s = &p->steps[i];
        if (s->peer == RD_NONE || (s->verb == RD_SEND) != sends)
            continue;
        messages++;
        elements += s->count;
    }
    rd_say(w, "  %-10s", sends ? "sends" : "receives");
    if (messages)
        rd_say(w,
               "%" PRIu64 " message%s %s %" PRIu64 " rank%s: %" PRIu64 " element%s, %" PRIu64
               " byte%s\n",
               messages, plural(messages), sends ? "to" : "from", peers, plural(peers), elements,
               plural(elements), elements * p->shape.width, plural(elements * p->shape.width));
    else
        rd_say(w, "nothing\n");
}

static void say_size(const printing *t, rd_text *w)
{
    const rd_plan *p = t->plan;
    uint32_t first = UINT32_MAX, last = 0;
    for (uint32_t i = 0; i < p->step_count; i++) {
        first = p->steps[i].round < first ? p->steps[i].round : first;
        last = p->steps[i].round > last ? p->steps[i].round : last;
    }
    if (p->step_count == 0)
        rd_say(w, "  steps     0: there is nothing to do\n");
    else {
        rd_say(w, "  steps     %" PRIu32 ", in round", p->step_count);
        rd_say(w, first == last ? " %" PRIu32 : "s %" PRIu32 "..%" PRIu32, first, last);
        if (p->chunks > 1)
            rd_say(w, ", in %" PRIu32 " chunks of about %" PRIu64 " elements each\n", p->chunks,
                   p->shape.count / p->chunks);
        else
            rd_say(w, ", in one chunk\n");
    }
    say_messages(t, w, true);
    say_messages(t, w, false);
    if (p->scratch)
        rd_say(w, "  scratch   %" PRIu64 " element%s, %" PRIu64 " byte%s\n", p->scratch,
               plural(p->scratch), p->scratch * p->shape.width,
               plural(p->scratch * p->shape.width));
    else
        rd_say(w, "  scratch   none\n");
    if (p->state)
        rd_say(w, "  state     %" PRIu64 " element%s, %" PRIu64 " byte%s, kept from run to run\n",
               p->state, plural(p->state), p->state * p->shape.width,
               plural(p->state * p->shape.width));
    rd_say(w, "  memory    %zu bytes for the plan\n", p->bytes);
    if (p->straight)
        rd_say(
            w,
            "  runs      straight, in the order below: messages are so small that no send can wait\n");
    else
        rd_say(w,
               "  runs      in %" PRIu32
               " lane%s (to a peer, from a peer, here), each in its order, all at once\n",
               p->lane_count, plural(p->lane_count));
}

/* "number 1 of the 4 ranks of host 0; 2 hosts" */
static void say_host(const printing *t, rd_text *w)
{
    const rd_stand at = rd_stand_of(t->plan->shape, t->plan->shape.rank);
    if (t->plan->shape.hosts)
        rd_say(w,
               "  host      %" PRIu32 " of %" PRIu32 "; number %" PRIu32 " of %" PRIu32
               " rank%s there\n",
               at.host, at.hosts, at.number, at.ranks, plural(at.ranks));
}

static void say_buffer(rd_text *w, const char *name, const char *what, uint64_t count)
{
    rd_say(w, "  %-10s%s: %" PRIu64 " element%s\n", name, what, count, plural(count));
}

/* In place a buffer that is part of another is called by the other's name. */
static void say_buffers(const printing *t, rd_text *w)
{
    const rd_shape *s = &t->plan->shape;
    const uint64_t in = rd_in_count(s), out = rd_out_count(s), own = rd_place_at(s);
    if (s->kind == RONDA_BARRIER)
        rd_say(w, "  in, out   this rank's token; what has become of it when all have come\n");
    else if (s->kind == RONDA_BROADCAST)
        say_buffer(w, "out", "the buffer of the call", out);
    else if (!s->in_place) {
        say_buffer(w, "in", "what this rank gives", in);
        say_buffer(w, "out", "what it gets", out);
    } else if (rd_kind(s->kind)->place == RD_SAME)
        say_buffer(w, "out", "what this rank gives, and what it gets", out);
    else if (rd_place_name(s) == RD_OUT)
        rd_say(w,
               "  out       what this rank gets: %" PRIu64
               " elements; what it gives is out[%" PRIu64 "..%" PRIu64 ")\n",
               out, own, own + rd_own_count(s));
    else
        rd_say(w,
               "  in        what this rank gives: %" PRIu64 " elements; what it gets is in[%" PRIu64
               "..%" PRIu64 ")\n",
               in, own, own + rd_own_count(s));
}

size_t rd_plan_print(const rd_plan *p, ronda_type type, ronda_op op, char *text, size_t capacity)
{
    rd_text w = {.text = text, .capacity = capacity};
    printing t = {.plan = p, .type = type, .op = op, .round_width = 1};
    if (capacity)
        text[0] = 0;
    say_title(&t, &w);
    say_host(&t, &w);
    say_size(&t, &w);
    say_buffers(&t, &w);
    if (p->step_count) {
        end_line(&w);
        say_steps(&t, &w);
    }
    return w.length;
}
