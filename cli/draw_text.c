/* draw_text.c: the picture of all plans as text: a column per rank, a line per row of arrows.
 *
 *              rank 0        rank 1        rank 2
 *                |             |             |
 *     round 0    o--in[0..3)-+>o--in[3..6)-+>|
 *                |<+--------in[6..9)---------o
 *
 * A line is put together in a canvas, lifelines first, and printed without the blanks at its end. */
#include <inttypes.h>
#include <string.h>

#include "picture.h"

enum {
    WIDTH = 160,      /* labels are not worth more */
    LEAST_STEP = 10,  /* room for "[merge]" and "rank 15" */
    HALF_HEADING = 4, /* what a heading or mark needs to the left of its column */
    CANVAS = 384
};
/* An arrow, but for its label: a dash at each side and the head. */
enum { AROUND = 4, AIR = 2 };

_Static_assert(WIDTH + 2 * CLI_LABEL < CANVAS &&
                   (CLI_TEXT_RANKS + 4) * LEAST_STEP + CLI_LABEL < CANVAS,
               "lines fit into the canvas");

typedef struct {
    FILE *to;
    const cli_picture *picture;
    char line[CANVAS];
    uint32_t first, step; /* the column of rank 0, and from one to the next */
    bool cut;             /* there was an arrow without room for its label */
} drawing;

static uint32_t column(const drawing *d, uint32_t rank)
{
    return d->first + rank * d->step;
}

/* --- lines --- */

static void start_line(drawing *d, bool lifelines)
{
    memset(d->line, ' ', sizeof d->line);
    for (uint32_t r = 0; r < d->picture->size && lifelines; r++)
        d->line[column(d, r)] = '|';
}

static void put(drawing *d, uint32_t at, const char *text)
{
    memcpy(d->line + at, text, strlen(text));
}

static void put_centred(drawing *d, uint32_t at, const char *text)
{
    put(d, at - ((uint32_t)strlen(text) - 1) / 2, text);
}

static void end_line(drawing *d)
{
    size_t length = sizeof d->line;
    while (length && d->line[length - 1] == ' ')
        length--;
    fprintf(d->to, "%.*s\n", (int)length, d->line);
}

/* --- what stands on them --- */

/* The last dash tells what the receiver does. */
static void put_arrow(drawing *d, const cli_arrow *a)
{
    const bool right = a->from < a->to;
    const uint32_t left = column(d, right ? a->from : a->to) + 1;
    const uint32_t end = column(d, right ? a->to : a->from), room = end - left;
    const uint32_t head = right ? end - 1 : left;
    char label[CLI_LABEL];
    memset(d->line + left, '-', room);
    d->line[column(d, a->from)] = 'o';
    d->line[head] = right ? '>' : '<';
    d->line[right ? head - 1 : head + 1] = rd_verbs[cli_taken_by(a)].sign;
    cli_arrow_label(a, true, label);
    if (strlen(label) + AROUND > room)
        cli_arrow_label(a, false, label);
    if (strlen(label) + AROUND > room)
        d->cut = true;
    else
        put(d, left + (right ? 0 : 2) + (room - 2 - (uint32_t)strlen(label)) / 2, label);
}

static void put_mark(drawing *d, const cli_mark *m)
{
    char label[CLI_LABEL], text[CLI_LABEL + 2];
    cli_mark_label(m, label);
    snprintf(text, sizeof text, "[%s]", label);
    put_centred(d, column(d, m->rank), text);
}

static void draw_marks(drawing *d, uint32_t round, bool after, uint32_t row)
{
    const cli_picture *p = d->picture;
    for (uint32_t i = 0; i < p->mark_count; i++) {
        const cli_mark *m = &p->marks[i];
        if (m->round == round && m->after == after && m->row == row)
            put_mark(d, m);
    }
}

static void draw_arrows(drawing *d, uint32_t round, uint32_t row)
{
    const cli_picture *p = d->picture;
    for (uint32_t i = 0; i < p->arrow_count; i++)
        if (p->arrows[i].round == round && p->arrows[i].row == row)
            put_arrow(d, &p->arrows[i]);
}

static void draw_round(drawing *d, uint32_t round)
{
    const cli_band *b = &d->picture->bands[round];
    const uint32_t arrows = b->before_rows, after = arrows + b->arrow_rows;
    for (uint32_t row = 0; row < after + b->after_rows; row++) {
        char name[24];
        start_line(d, true);
        snprintf(name, sizeof name, "round %" PRIu32, round);
        if (row == 0)
            put(d, 2, name);
        if (row < arrows)
            draw_marks(d, round, false, row);
        else if (row < after)
            draw_arrows(d, round, row - arrows);
        else
            draw_marks(d, round, true, row - after);
        end_line(d);
    }
    if (after + b->after_rows) {
        start_line(d, true);
        end_line(d);
    }
}

/* --- around them --- */

static void draw_heading(drawing *d)
{
    start_line(d, false);
    for (uint32_t r = 0; r < d->picture->size; r++) {
        char name[24];
        snprintf(name, sizeof name, "rank %" PRIu32, r);
        put_centred(d, column(d, r), name);
    }
    end_line(d);
    start_line(d, true);
    end_line(d);
}

static void draw_legend(drawing *d)
{
    const cli_picture *p = d->picture;
    char note[CLI_SENTENCE];
    const char *between = "  ";
    for (uint32_t verb = 0; verb < rd_verb_count; verb++) {
        const rd_verb *v = &rd_verbs[verb];
        if (!(p->verbs >> verb & 1))
            continue;
        if (v->lane == RD_LANE_HERE)
            fprintf(d->to, "%s[%s]  %s", between, v->name, v->about);
        else
            fprintf(d->to, "%so--%c>  %s", between, v->sign, v->about);
        between = "    ";
    }
    fprintf(d->to, "%s", p->verbs ? "\n" : "  there is nothing to do\n");
    if (d->cut)
        fprintf(d->to, "  There is no room for some arrows' ranges; --svg has them all.\n");
    cli_picture_note(p, note);
    if (*note)
        fprintf(d->to, "  %s\n", note);
}

/* As far apart as the labels need, as long as lines do not grow too wide. */
static void measure(drawing *d)
{
    const cli_picture *p = d->picture;
    const uint32_t gaps = p->size > 1 ? p->size - 1 : 1;
    uint32_t most;
    d->first = (uint32_t)snprintf(NULL, 0, "  round %" PRIu32 "  ", p->rounds ? p->rounds - 1 : 0) +
               HALF_HEADING;
    most = (WIDTH - d->first) / gaps;
    d->step = LEAST_STEP;
    for (uint32_t i = 0; i < p->arrow_count; i++) {
        const cli_arrow *a = &p->arrows[i];
        const uint32_t between = a->from < a->to ? a->to - a->from : a->from - a->to;
        char label[CLI_LABEL];
        cli_arrow_label(a, true, label);
        const uint32_t need = (uint32_t)strlen(label) + AROUND + AIR + 1;
        const uint32_t step = (need + between - 1) / between;
        d->step = step > d->step ? step : d->step;
    }
    d->step = d->step > most ? most : d->step;
    d->step = d->step < LEAST_STEP ? LEAST_STEP : d->step;
}

void cli_draw_text(FILE *to, const cli_picture *p)
{
    drawing d = {.to = to, .picture = p};
    char title[CLI_SENTENCE];
    measure(&d);
    cli_picture_title(p, title);
    fprintf(to, "%s\n  %s\n\n", title, p->request->algorithm->about);
    draw_heading(&d);
    for (uint32_t round = 0; round < p->rounds; round++)
        draw_round(&d, round);
    draw_legend(&d);
}
