/* picture.c: the plans of all ranks as a picture (picture.h).
 *
 * The i-th message from a to b is the i-th that b takes from a, so lanes say which steps an arrow
 * joins.  Within a round short arrows come first, and each goes to the first row that has room for
 * it.  Arrows of a row may touch, so a ring is a row of arrows and the one that goes back:
 *
 *     o------->o------->o------->|
 *     |<-------------------------o */
#include "picture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"

/* --- arrows --- */

_Static_assert(RD_VERBS <= 32, "a picture has one bit for each verb");

static const rd_step *taken_by(const rd_plan *p, uint32_t from, uint32_t ordinal)
{
    for (uint32_t l = 0; l < p->lane_count; l++) {
        const rd_plan_lane *lane = &p->lanes[l];
        if (lane->peer != from || lane->sends || ordinal >= lane->end - lane->first)
            continue;
        const rd_step *s = &p->steps[lane->first + ordinal];
        return s->group == RD_NONE ? s : &p->steps[p->groups[s->group].leader];
    }
    return NULL;
}

uint8_t cli_taken_by(const cli_arrow *a)
{
    return a->take ? a->take->verb : RD_RECV;
}

static void add_arrow(cli_picture *p, uint32_t rank, const rd_step *s)
{
    cli_arrow a = {.from = rank, .to = s->peer, .round = s->round, .send = s};
    char label[CLI_LABEL];
    a.take = taken_by(p->plans[s->peer], rank, s->ordinal);
    p->verbs |= 1u << cli_taken_by(&a);
    cli_arrow_label(&a, true, label);
    p->labels = strlen(label) > p->labels ? (uint32_t)strlen(label) : p->labels;
    p->arrows[p->arrow_count++] = a;
}

static uint32_t distance(const cli_arrow *a)
{
    return a->from < a->to ? a->to - a->from : a->from - a->to;
}

static int by_place(const void *left, const void *right)
{
    const cli_arrow *a = left, *b = right;
    const uint32_t keys[][2] = {{a->round, b->round},
                                {distance(a), distance(b)},
                                {a->from > a->to, b->from > b->to},
                                {a->from, b->from},
                                {a->send->ordinal, b->send->ordinal}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static bool overlap(const cli_arrow *a, const cli_arrow *b)
{
    const uint32_t a_left = a->from < a->to ? a->from : a->to, a_right = a_left + distance(a);
    const uint32_t b_left = b->from < b->to ? b->from : b->to, b_right = b_left + distance(b);
    return a_left < b_right && b_left < a_right;
}

static bool row_is_free(const cli_arrow *arrows, uint32_t count, const cli_arrow *a)
{
    for (uint32_t i = 0; i < count; i++)
        if (arrows[i].row == a->row && overlap(&arrows[i], a))
            return false;
    return true;
}

/* The arrows of one round; they are in order. */
static void place_arrows(cli_arrow *arrows, uint32_t count, cli_band *band)
{
    for (uint32_t i = 0; i < count; i++) {
        while (!row_is_free(arrows, i, &arrows[i]))
            arrows[i].row++;
        if (arrows[i].row >= band->arrow_rows)
            band->arrow_rows = arrows[i].row + 1;
    }
}

/* --- marks --- */

/* Local steps run in order, so what stands behind one that waits comes after the messages too. */
static bool waits(const rd_plan *p, const rd_step *s, const cli_mark *before)
{
    if (before && before->round == s->round && before->after)
        return true;
    for (uint32_t d = 0; d < s->deps; d++) {
        const rd_step *dep = &p->steps[p->deps[s->first_dep + d].step];
        if (dep->round == s->round && dep->peer != RD_NONE)
            return true;
    }
    return false;
}

static void add_marks(cli_picture *p, uint32_t rank, const rd_plan_lane *lane)
{
    const rd_plan *plan = p->plans[rank];
    cli_mark *last = NULL;
    for (const rd_step *s = plan->steps + lane->first; s < plan->steps + lane->end; s++) {
        const bool after = waits(plan, s, last),
                   same = last && last->round == s->round && last->after == after;
        p->verbs |= 1u << s->verb;
        if (same && last->first->verb == s->verb) {
            last->end = s + 1;
            continue;
        }
        const uint32_t row = same ? last->row + 1 : 0;
        cli_band *band = &p->bands[s->round];
        uint32_t *rows = after ? &band->after_rows : &band->before_rows;
        *rows = row >= *rows ? row + 1 : *rows;
        last = &p->marks[p->mark_count++];
        *last = (cli_mark){rank, s->round, row, after, s, s + 1};
    }
}

/* --- the picture --- */

static bool build_plans(cli_picture *p)
{
    const cli_plan_request *q = p->request;
    rd_shape shape = q->shape;
    p->plans = rd_alloc(p->size * sizeof *p->plans);
    for (uint32_t r = 0; p->plans && r < p->size; r++) {
        shape.rank = r;
        if (!(p->plans[r] = rd_plan_build(q->algorithm, &shape, 0)))
            return false;
    }
    shape.rank = 0;
    rd_plan *cut = rd_plan_build(q->algorithm, &shape, q->segment_bytes);
    p->chunks = cut ? cut->chunks : 0;
    rd_plan_free(cut);
    return p->plans && cut;
}

static bool make_room(cli_picture *p)
{
    size_t sends = 0, alone = 0;
    for (uint32_t r = 0; r < p->size; r++)
        for (uint32_t i = 0; i < p->plans[r]->step_count; i++) {
            const rd_step *s = &p->plans[r]->steps[i];
            sends += s->verb == RD_SEND;
            alone += s->peer == RD_NONE;
            p->rounds = s->round >= p->rounds ? s->round + 1 : p->rounds;
        }
    p->arrows = rd_alloc((sends + 1) * sizeof *p->arrows);
    p->marks = rd_alloc((alone + 1) * sizeof *p->marks);
    p->bands = rd_alloc((p->rounds + (size_t)1) * sizeof *p->bands);
    return p->arrows && p->marks && p->bands;
}

bool cli_picture_make(const cli_plan_request *request, cli_picture *out)
{
    cli_picture *p = out;
    *p = (cli_picture){.request = request, .size = request->shape.size};
    if (!build_plans(p) || !make_room(p))
        return false;
    for (uint32_t r = 0; r < p->size; r++)
        for (uint32_t l = 0; l < p->plans[r]->lane_count; l++) {
            const rd_plan_lane *lane = &p->plans[r]->lanes[l];
            if (lane->peer == RD_NONE)
                add_marks(p, r, lane);
            for (uint32_t i = lane->first; i < lane->end && lane->sends; i++)
                add_arrow(p, r, &p->plans[r]->steps[i]);
        }
    qsort(p->arrows, p->arrow_count, sizeof *p->arrows, by_place);
    for (uint32_t i = 0, end; i < p->arrow_count; i = end) {
        const uint32_t round = p->arrows[i].round;
        for (end = i + 1; end < p->arrow_count && p->arrows[end].round == round;)
            end++;
        place_arrows(p->arrows + i, end - i, &p->bands[round]);
    }
    return true;
}

void cli_picture_free(cli_picture *p)
{
    for (uint32_t r = 0; p->plans && r < p->size; r++)
        rd_plan_free(p->plans[r]);
    rd_free(p->plans);
    rd_free(p->arrows);
    rd_free(p->marks);
    rd_free(p->bands);
}

/* --- words --- */

void cli_picture_title(const cli_picture *p, char text[CLI_SENTENCE])
{
    const cli_plan_request *q = p->request;
    const rd_shape *s = &q->shape;
    rd_text w = {.text = text, .capacity = CLI_SENTENCE};
    char hosts[CLI_HOSTS_TEXT];
    rd_say(&w, "%s", rd_kind_name(s->kind));
    if (s->kind != RONDA_BARRIER)
        rd_say(&w, " of %" PRIu64 " %s", s->count, rd_type_name(q->type));
    if (rd_kind_reduces(s->kind))
        rd_say(&w, ", %s", rd_op_name(q->op));
    if (rd_kind_rooted(s->kind))
        rd_say(&w, ", root %" PRIu32, s->root);
    if (s->in_place)
        rd_say(&w, ", in place");
    rd_say(&w, ", by %s: %" PRIu32 " rank%s", q->algorithm->name, p->size, p->size == 1 ? "" : "s");
    if (s->hosts)
        rd_say(&w, " on %s", cli_hosts_text(s->hosts, hosts));
}

void cli_picture_note(const cli_picture *p, char text[CLI_SENTENCE])
{
    rd_text w = {.text = text, .capacity = CLI_SENTENCE};
    text[0] = 0;
    if (p->chunks > 1)
        rd_say(&w,
               "Drawn in one piece; it is cut into %" PRIu32
               " chunks, which go through these rounds one behind the other.",
               p->chunks);
}

void cli_arrow_label(const cli_arrow *a, bool with_buffer, char text[CLI_LABEL])
{
    const rd_step *s = a->send;
    rd_text w = {.text = text, .capacity = CLI_LABEL};
    if (s->count == 0)
        rd_say(&w, "empty");
    else if (with_buffer)
        rd_print_range(&w, s->from_buffer, s->from_at, s->count);
    else
        rd_say(&w, "[%" PRIu64 "..%" PRIu64 ")", s->from_at, s->from_at + s->count);
}

void cli_arrow_sentence(const cli_picture *p, const cli_arrow *a, char text[CLI_SENTENCE])
{
    const rd_step *s = a->send;
    rd_text w = {.text = text, .capacity = CLI_SENTENCE};
    rd_say(&w, "round %" PRIu32 ": rank %" PRIu32 " sends ", a->round, a->from);
    rd_print_range(&w, s->from_buffer, s->from_at, s->count);
    rd_say(&w, " to rank %" PRIu32, a->to);
    if (!a->take)
        return;
    const rd_verb *v = &rd_verbs[a->take->verb];
    if (!(v->flags & RD_FOLDS)) {
        rd_say(&w, ", which receives it as ");
        rd_print_range(&w, a->take->to_buffer, a->take->to_at, a->take->count);
    } else {
        rd_say(&w, ", which folds %s: ", v->flags & RD_GROUPED ? "all in one pass" : "it");
        rd_print_step(&w, p->plans[a->to], p->request->op, a->take);
    }
}

void cli_mark_label(const cli_mark *m, char text[CLI_LABEL])
{
    rd_text w = {.text = text, .capacity = CLI_LABEL};
    rd_say(&w, "%s", rd_verbs[m->first->verb].name);
    if (m->end - m->first > 1)
        rd_say(&w, " x%d", (int)(m->end - m->first));
}

void cli_mark_sentence(const cli_picture *p, const cli_mark *m, char text[CLI_SENTENCE])
{
    enum { MOST = 6 }; /* that are told one by one */
    rd_text w = {.text = text, .capacity = CLI_SENTENCE};
    rd_say(&w, "round %" PRIu32 ": rank %" PRIu32 ": ", m->round, m->rank);
    for (const rd_step *s = m->first; s < m->end && s < m->first + MOST; s++) {
        rd_say(&w, "%s", s > m->first ? "; " : "");
        rd_print_step(&w, p->plans[m->rank], p->request->op, s);
    }
    if (m->end - m->first > MOST)
        rd_say(&w, "; and %d more", (int)(m->end - m->first - MOST));
}
