/* mutate.c: draws correct plans and spoils them while they are raw. */
#include "mutate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "oddities.h"
#include "plan/hosts.h"
#include "plan/raw.h"

/* --- subjects --- */

void note(subject *s, const char *format, ...)
{
    const size_t used = strlen(s->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->text + used, sizeof s->text - used, format, arguments);
    va_end(arguments);
}

static uint64_t draw_count(rng *random, ronda_kind kind, uint32_t n)
{
    const uint64_t counts[] = {0, 1, 2, 3, n - 1, n, n + 1, 2 * n + 3, rng_below(random, 40)};
    const uint64_t count = counts[rng_below(random, sizeof counts / sizeof *counts)];
    const bool blocks = rd_kind(kind)->gives == RD_BLOCKS || rd_kind(kind)->gets == RD_BLOCKS;
    return kind == RONDA_BARRIER ? 1 : blocks ? count % 9 : count;
}

/* Who is on which host: any of four, so that sizes differ and ranks are out of order at times. */
static rd_hosts *draw_hosts(rng *random, uint32_t n)
{
    uint32_t host_of[MOST_RANKS];
    const uint64_t hosts = 1 + rng_below(random, 4), in_order = rng_below(random, 2);
    for (uint32_t r = 0; r < n; r++)
        host_of[r] = (uint32_t)(in_order ? r * hosts / n : rng_below(random, hosts));
    return rd_hosts_make(host_of, n);
}

subject draw_subject(rng *random)
{
    static const uint32_t widths[] = {1, 2, 4, 8, 8192};
    static const uint64_t segments[] = {0, 0, 4, 8, 20, 64};
    static const char *const places[] = {"none", "all", "mixed"};
    uint32_t rows = 0, odd = 0;
    while (rd_algorithms[rows].name)
        rows++;
    while (oddities[odd].name)
        odd++;
    const uint64_t row = rng_below(random, rows + 2 * odd);
    subject s = {.algorithm = row < rows ? &rd_algorithms[row] : &oddities[(row - rows) % odd],
                 .n = 2 + (uint32_t)rng_below(random, MOST_RANKS - 1)};
    const ronda_kind kind = s.algorithm->kind;
    const int place =
        rd_kind(kind)->place != RD_APART ? (int)rng_below(random, RD_PLACES) : RD_PLACE_NONE;
    rd_shape shape = {.kind = kind, .size = s.n, .count = draw_count(random, kind, s.n)};
    shape.width = kind == RONDA_BARRIER ? 1 : widths[rng_below(random, 5)];
    shape.root = rd_kind_rooted(kind) ? (uint32_t)rng_below(random, s.n) : 0;
    shape.mean = rd_kind_means(kind) && rng_below(random, 2);
    const uint64_t count = shape.count;
    s.segment = segments[rng_below(random, 6)];
    s.hosts = s.algorithm->flags & RD_BY_HOST ? draw_hosts(random, s.n) : NULL;
    shape.hosts = s.hosts;
    for (uint32_t r = 0; r < s.n; r++) {
        shape.rank = r;
        shape.in_place = place == RD_PLACE_ALL || (place == RD_PLACE_MIXED && r % 2);
        uint64_t starts[2 * (MOST_RANKS + 1)];
        rd_ragged_starts(&shape, count, starts);
        s.plans[r] = rd_plan_begin(s.algorithm, &shape);
        rd_plan_generate(s.plans[r], s.segment);
    }
    note(&s, "%s %s n=%u hosts=%u count=%u width=%u root=%u mean=%d in place=%s segment=%u;",
         rd_kind_name(kind), s.algorithm->name, s.n, s.hosts ? s.hosts->count : 1,
         (unsigned)shape.count, shape.width, shape.root, shape.mean, places[place],
         (unsigned)s.segment);
    return s;
}

void seal_subject(subject *s)
{
    for (uint32_t r = 0; r < s->n; r++)
        rd_plan_seal(s->plans[r]);
}

void free_subject(subject *s)
{
    for (uint32_t r = 0; r < s->n; r++)
        rd_plan_free(s->plans[r]);
    rd_hosts_free(s->hosts);
}

/* --- finding raw steps --- */

typedef bool raw_test(const rd_raw *raw, uint32_t step);

static bool leads(const rd_raw *raw, uint32_t step)
{
    return raw->steps[step].verb != RD_FOLD_MANY ||
           raw->groups[raw->steps[step].group].leader == step;
}

static bool any(const rd_raw *raw, uint32_t step)
{
    (void)raw;
    (void)step;
    return true;
}

static bool leads_elements(const rd_raw *raw, uint32_t step)
{
    return leads(raw, step) && raw->steps[step].to.count > 0;
}

static bool is_message(const rd_raw *raw, uint32_t step)
{
    return raw->steps[step].peer != RD_NONE;
}

static bool no_group(const rd_raw *raw, uint32_t step)
{
    return raw->steps[step].verb != RD_FOLD_MANY;
}

/* Each step that passes is as likely as any other. */
static bool pick(const subject *s, rng *random, raw_test *fits, uint32_t *rank, uint32_t *step)
{
    uint64_t found = 0;
    *rank = *step = 0;
    for (uint32_t r = 0; r < s->n; r++)
        for (uint32_t i = 0; i < s->plans[r]->raw->count; i++)
            if (fits(s->plans[r]->raw, i) && rng_below(random, ++found) == 0) {
                *rank = r;
                *step = i;
            }
    return found > 0;
}

/* The other end of a message: the i-th from a to b as a says it is the i-th as b says it. */
static uint32_t partner(const subject *s, uint32_t rank, uint32_t step)
{
    const rd_raw *raw = s->plans[rank]->raw;
    const uint32_t peer = raw->steps[step].peer;
    const bool sends = raw->steps[step].verb == RD_SEND;
    uint32_t before = 0;
    for (uint32_t i = 0; i < step; i++)
        before += raw->steps[i].peer == peer && (raw->steps[i].verb == RD_SEND) == sends;
    const rd_raw *there = s->plans[peer]->raw;
    for (uint32_t i = 0; i < there->count; i++)
        if (there->steps[i].peer == rank && (there->steps[i].verb == RD_SEND) != sends &&
            before-- == 0)
            return i;
    return RD_NONE;
}

/* --- drop --- */

static uint32_t moved(uint32_t step, uint32_t dropped)
{
    return step != RD_NONE && step > dropped ? step - 1 : step;
}

static bool drop_member(rd_raw *raw, rd_raw_group *g, uint32_t step)
{
    uint32_t kept = 0, leader = RD_NONE;
    for (uint32_t i = 0; i < g->count; i++) {
        const uint32_t m = raw->members[g->first + i];
        if (m == step)
            continue;
        if (m != RD_NONE && (leader == RD_NONE || m > leader))
            leader = m;
        raw->members[g->first + kept++] = m;
    }
    if (leader == RD_NONE)
        return false;
    if (g->leader == step) {
        raw->steps[leader].scale = raw->steps[step].scale;
        g->leader = leader;
    }
    g->count = kept;
    return true;
}

static bool drop(rd_raw *raw, uint32_t step)
{
    rd_raw_step *s = &raw->steps[step];
    if (s->verb == RD_FOLD_MANY && !drop_member(raw, &raw->groups[s->group], step))
        return false;
    for (uint32_t i = 0; i < raw->member_count; i++)
        raw->members[i] = moved(raw->members[i], step);
    for (uint32_t g = 0; g < raw->group_count; g++)
        raw->groups[g].leader = moved(raw->groups[g].leader, step);
    memmove(s, s + 1, (raw->count - step - 1) * sizeof *s);
    raw->count--;
    return true;
}

/* One end of a message alone is soon missed; both together are not. */
static bool raw_drop(subject *s, rng *random)
{
    uint32_t rank, step;
    if (!pick(s, random, any, &rank, &step))
        return false;
    rd_raw *raw = s->plans[rank]->raw;
    const uint32_t peer = raw->steps[step].peer;
    const uint32_t other = peer == RD_NONE ? RD_NONE : partner(s, rank, step);
    const bool both = other != RD_NONE && rng_below(random, 4) > 0;
    note(s, " rank %u drops raw step %u%s", rank, step, both ? " and its peer the other end" : "");
    if (both && !drop(s->plans[peer]->raw, other))
        return false;
    return drop(raw, step);
}

/* --- ranges --- */

static void shift_range(rd_range *range, uint64_t by, bool up)
{
    range->at = up ? range->at + by : range->at >= by ? range->at - by : range->at + by;
}

static bool raw_shift(subject *s, rng *random)
{
    uint32_t rank, step;
    if (!pick(s, random, leads_elements, &rank, &step))
        return false;
    rd_raw_step *t = &s->plans[rank]->raw->steps[step];
    const uint64_t by = rng_below(random, 2)   ? 1
                        : rng_below(random, 2) ? t->to.count
                                               : 1 + rng_below(random, 4);
    const bool up = rng_below(random, 2);
    const uint64_t which = t->verb == RD_SEND    ? 1
                           : t->verb == RD_RECV  ? 2
                           : t->verb == RD_SCALE ? 3
                                                 : 1 + rng_below(random, 3);
    rd_range *const ranges[] = {&t->from, &t->to};
    for (int i = 0; i < 2; i++) {
        if (!(which >> i & 1))
            continue;
        if (rng_below(random, 4) == 0)
            ranges[i]->buffer =
                (uint8_t)((ranges[i]->buffer + 1 + rng_below(random, 2)) % RD_BUFFERS);
        else
            shift_range(ranges[i], by, up);
    }
    note(s, " rank %u: raw step %u now from %u[%u] to %u[%u]", rank, step, t->from.buffer,
         (unsigned)t->from.at, t->to.buffer, (unsigned)t->to.at);
    return true;
}

static void shrink(rd_raw_step *t, uint64_t by, bool front)
{
    t->from.count -= by;
    t->to.count -= by;
    t->from.at += front ? by : 0;
    t->to.at += front ? by : 0;
}

static bool raw_shrink(subject *s, rng *random)
{
    uint32_t rank, step;
    if (!pick(s, random, leads_elements, &rank, &step))
        return false;
    rd_raw *raw = s->plans[rank]->raw;
    const uint64_t by = rng_below(random, 2) ? 1 : 1 + rng_below(random, raw->steps[step].to.count);
    const bool front = rng_below(random, 2), both = rng_below(random, 4) > 0;
    const uint32_t g = raw->steps[step].group;
    const rd_raw_group one = {.count = 1}, *group = g == RD_NONE ? &one : &raw->groups[g];
    for (uint32_t i = 0; i < group->count; i++) {
        const uint32_t m = g == RD_NONE ? step : raw->members[group->first + i];
        if (m == RD_NONE)
            continue;
        const uint32_t peer = raw->steps[m].peer;
        const uint32_t other = both && peer != RD_NONE ? partner(s, rank, m) : RD_NONE;
        if (other != RD_NONE && no_group(s->plans[peer]->raw, other))
            shrink(&s->plans[peer]->raw->steps[other], by, front);
        shrink(&raw->steps[m], by, front);
    }
    note(s, " rank %u: raw step %u is %u shorter%s%s", rank, step, (unsigned)by,
         front ? " in front" : "", both ? ", at both ends" : "");
    return true;
}

/* --- peers and verbs --- */

static bool raw_peer(subject *s, rng *random)
{
    uint32_t rank, one, two;
    if (!pick(s, random, is_message, &rank, &one))
        return false;
    rd_raw *raw = s->plans[rank]->raw;
    rd_raw_step *a = &raw->steps[one];
    two = (uint32_t)rng_below(random, raw->count);
    rd_raw_step *b = &raw->steps[two];
    if (rng_below(random, 2) && b->peer != RD_NONE && b->peer != a->peer &&
        (a->verb == RD_SEND) == (b->verb == RD_SEND)) {
        note(s, " rank %u: raw steps %u and %u exchange their peers", rank, one, two);
        const uint32_t peer = a->peer;
        a->peer = b->peer;
        b->peer = peer;
        return true;
    }
    const uint32_t peer = (a->peer + 1 + (uint32_t)rng_below(random, s->n - 1)) % s->n;
    if (peer == rank)
        return false;
    note(s, " rank %u: raw step %u has peer %u instead of %u", rank, one, peer, a->peer);
    a->peer = peer;
    return true;
}

static bool raw_verb(subject *s, rng *random)
{
    uint32_t rank, step;
    if (!pick(s, random, no_group, &rank, &step))
        return false;
    rd_raw *raw = s->plans[rank]->raw;
    rd_raw_step *t = &raw->steps[step];
    const uint32_t other = t->peer == RD_NONE ? RD_NONE : partner(s, rank, step);
    const uint8_t was = t->verb;
    if (t->verb == RD_SEND) { /* the two ends change roles, or this one alone */
        t->verb = rng_below(random, 2) ? RD_RECV : RD_FOLD;
        t->to = t->from;
        if (other != RD_NONE && rng_below(random, 2) && no_group(s->plans[t->peer]->raw, other)) {
            rd_raw_step *u = &s->plans[t->peer]->raw->steps[other];
            u->verb = RD_SEND;
            u->from = u->to;
        }
    } else if (t->peer != RD_NONE) {
        t->verb = rng_below(random, 8) == 0 ? RD_SEND : t->verb == RD_RECV ? RD_FOLD : RD_RECV;
        t->scale = t->scale && t->verb == RD_FOLD;
        t->from = t->verb == RD_SEND ? t->to : t->from;
    } else {
        t->verb = t->verb == RD_COPY ? RD_MERGE : RD_COPY;
        t->scale = false;
    }
    note(s, " rank %u: raw step %u has verb %u instead of %u", rank, step, t->verb, was);
    return true;
}

static bool raw_side(subject *s, rng *random)
{
    uint32_t rank, step;
    if (!pick(s, random, leads_elements, &rank, &step))
        return false;
    rd_raw_step *t = &s->plans[rank]->raw->steps[step];
    const bool folds = t->verb == RD_FOLD || t->verb == RD_MERGE;
    if (!folds && t->verb != RD_FOLD_MANY)
        return false;
    if (folds && rng_below(random, 2))
        t->side = !t->side;
    else
        t->scale = !t->scale;
    note(s, " rank %u: raw step %u has side %u, scale %d", rank, step, t->side, t->scale);
    return true;
}

/* --- order --- */

static uint32_t swapped(uint32_t step, uint32_t i, uint32_t j)
{
    return step == i ? j : step == j ? i : step;
}

/* Places are exchanged, chunk and round stay with the place. */
static void swap_steps(rd_raw *raw, uint32_t i, uint32_t j)
{
    const rd_raw_step a = raw->steps[i], b = raw->steps[j];
    raw->steps[i] = b;
    raw->steps[i].chunk = a.chunk;
    raw->steps[i].round = a.round;
    raw->steps[j] = a;
    raw->steps[j].chunk = b.chunk;
    raw->steps[j].round = b.round;
    for (uint32_t m = 0; m < raw->member_count; m++)
        raw->members[m] = swapped(raw->members[m], i, j);
    for (uint32_t g = 0; g < raw->group_count; g++)
        raw->groups[g].leader = swapped(raw->groups[g].leader, i, j);
}

static bool raw_order(subject *s, rng *random)
{
    uint32_t rank, step;
    if (!pick(s, random, any, &rank, &step))
        return false;
    rd_raw *raw = s->plans[rank]->raw;
    const uint32_t g = raw->steps[step].group;
    if (g != RD_NONE && raw->groups[g].count > 1 && rng_below(random, 2)) {
        uint32_t *members = &raw->members[raw->groups[g].first];
        const uint64_t a = rng_below(random, raw->groups[g].count),
                       b = rng_below(random, raw->groups[g].count - 1);
        const uint64_t c = b >= a ? b + 1 : b;
        const uint32_t m = members[a];
        members[a] = members[c];
        members[c] = m;
        note(s, " rank %u: operands %u and %u of raw group %u are exchanged", rank, (unsigned)a,
             (unsigned)c, g);
        return true;
    }
    const uint32_t other =
        rng_below(random, 2) ? step + 1 : (uint32_t)rng_below(random, raw->count);
    if (other >= raw->count || other == step)
        return false;
    note(s, " rank %u: raw steps %u and %u are exchanged", rank, step, other);
    swap_steps(raw, step, other);
    return true;
}

/* --- scratch --- */

static bool uses_scratch(const rd_raw *raw, uint32_t step)
{
    const rd_raw_step *t = &raw->steps[step];
    return (t->from.buffer == RD_SCRATCH || t->to.buffer == RD_SCRATCH) && t->to.count > 0;
}

/* Whatever is at one place of scratch goes to another, or to a buffer of the caller's. */
static bool raw_scratch(subject *s, rng *random)
{
    uint32_t rank, step;
    if (!pick(s, random, uses_scratch, &rank, &step))
        return false;
    rd_plan *p = s->plans[rank];
    const rd_raw_step *t = &p->raw->steps[step];
    const uint64_t old = t->to.buffer == RD_SCRATCH ? t->to.at : t->from.at;
    const uint8_t buffer = rng_below(random, 2)   ? RD_SCRATCH
                           : rng_below(random, 2) ? RD_IN
                                                  : RD_OUT;
    const uint64_t room = buffer == RD_IN    ? rd_in_count(&p->shape)
                          : buffer == RD_OUT ? rd_out_count(&p->shape)
                                             : p->scratch;
    const uint64_t at = room > t->to.count ? rng_below(random, room - t->to.count + 1) : 0;
    const bool one = rng_below(random, 2);
    if ((buffer == RD_SCRATCH && at == old) || (p->shape.in_place && buffer != RD_SCRATCH))
        return false;
    for (uint32_t i = one ? step : 0; i < (one ? step + 1 : p->raw->count); i++) {
        rd_range *const ranges[] = {&p->raw->steps[i].from, &p->raw->steps[i].to};
        for (int k = 0; k < 2; k++)
            if (ranges[k]->buffer == RD_SCRATCH && ranges[k]->at == old) {
                ranges[k]->at = at;
                ranges[k]->buffer = buffer;
            }
    }
    note(s, " rank %u: scratch[%u] of raw step %u%s is now %u[%u]", rank, (unsigned)old, step,
         one ? "" : " and all others", buffer, (unsigned)at);
    return true;
}

const mutant_kind mutant_kinds[] = {
    {"a step dropped", raw_drop, NULL, false},
    {"a range shifted", raw_shift, sealed_shift, false},
    {"a range shrunk", raw_shrink, sealed_shrink, false},
    {"another peer", raw_peer, sealed_peer, false},
    {"another verb", raw_verb, sealed_verb, false},
    {"another side or scale", raw_side, sealed_side, false},
    {"another order", raw_order, sealed_order, false},
    {"scratch used twice", raw_scratch, sealed_scratch, false},
    {"a dependency less", NULL, sealed_dep_less, false},
    {"a dependency more", NULL, sealed_dep_more, false},
    {"a wrong back mark", NULL, sealed_back, false},
    {"a wrong forward", NULL, sealed_forward, false},
    {"another straight order", NULL, sealed_straight, false},
    {"any number", NULL, sealed_anything, true},
    {NULL, NULL, NULL, false},
};
