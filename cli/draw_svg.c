/* draw_svg.c: the picture of all plans as SVG: a lifeline per rank, a band per round.
 *
 *     title                 what is drawn
 *        rank 0   rank 1    lifelines with a name
 *     round 0  o---->|      bands; arrows on rows of their own, coloured by what the receiver does
 *     legend                the colours
 *
 * A picture stands alone: no script, no font and no style from elsewhere.  Every arrow and mark has
 * its whole sentence as a title, which browsers show where the pointer rests. */
#include <inttypes.h>
#include <string.h>

#include "picture.h"

enum {
    EDGE = 20,   /* around everything */
    MARGIN = 76, /* for the names of rounds */
    HEAD = 62,   /* title and sentence */
    NAME = 24,   /* height of a rank's name */
    NAME_WIDTH = 62,
    PAD = 9,   /* of a band, above and below */
    ROW = 24,  /* an arrow and the label above it */
    LABEL = 7, /* width of a character of a label */
    TITLE = 8, /* of a character of the title; smaller ones have LABEL */
    LEAST_STEP = 104,
    MOST_STEP = 200, /* unless labels need it */
    TALL = 800,      /* such a picture names the ranks at its end too */
    MARK_HEIGHT = 17,
    DOT = 3,    /* radius of an arrow's tail */
    TIP = 8,    /* length of its head */
    LEGEND = 20 /* a line of it */
};

typedef struct {
    FILE *to;
    const cli_picture *picture;
    uint32_t first, step;           /* x of rank 0, and from one to the next */
    uint32_t width, height, legend; /* legend: y of its first line */
    uint32_t top, bottom;           /* of the lifelines */
} drawing;

static uint32_t x_of(const drawing *d, uint32_t rank)
{
    return d->first + rank * d->step;
}

/* --- text --- */

static void put_escaped(FILE *to, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '&':
            fputs("&amp;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        default:
            fputc(*text, to);
        }
}

/* style: the class of the text, and how it is aligned. */
static void put_text(const drawing *d, uint32_t x, uint32_t y, const char *style, const char *text)
{
    fprintf(d->to, "<text x=\"%" PRIu32 "\" y=\"%" PRIu32 "\" class=\"%s\">", x, y, style);
    put_escaped(d->to, text);
    fprintf(d->to, "</text>\n");
}

static void put_title(const drawing *d, const char *text)
{
    fprintf(d->to, "<title>");
    put_escaped(d->to, text);
    fprintf(d->to, "</title>\n");
}

/* --- arrows and marks --- */

/* A line with a dot at the sender and a head that ends where a dot of the receiver's would begin. */
static void put_line(const drawing *d, uint32_t from, uint32_t to, uint32_t y, const char *color)
{
    const bool right = from < to;
    const uint32_t tip = right ? to - DOT - 1 : to + DOT + 1, neck = right ? tip - TIP : tip + TIP;
    fprintf(
        d->to,
        "<path d=\"M%" PRIu32 " %" PRIu32 "H%" PRIu32 "\" stroke=\"%s\" stroke-width=\"1.6\"/>"
        "<circle cx=\"%" PRIu32 "\" cy=\"%" PRIu32 "\" r=\"%d\" fill=\"%s\"/>"
        "<path d=\"M%" PRIu32 " %" PRIu32 "L%" PRIu32 " %" PRIu32 "V%" PRIu32 "Z\" fill=\"%s\"/>\n",
        from, y, neck, color, from, y, DOT, color, tip, y, neck, y - TIP / 2, y + TIP / 2, color);
}

/* The label stands between two lifelines, on the sender's side of the middle if that is on one. */
static void put_arrow(const drawing *d, const cli_arrow *a, uint32_t y)
{
    const rd_verb *v = &rd_verbs[cli_taken_by(a)];
    const bool right = a->from < a->to;
    const uint32_t gaps = right ? a->to - a->from : a->from - a->to, gap = (gaps - 1) / 2;
    const uint32_t left = right ? a->from + gap : a->from - gap - 1;
    char text[CLI_SENTENCE], label[CLI_LABEL];
    cli_arrow_sentence(d->picture, a, text);
    cli_arrow_label(a, true, label);
    fprintf(d->to, "<g class=\"message %s\" fill=\"none\">", v->name);
    put_title(d, text);
    put_line(d, x_of(d, a->from), x_of(d, a->to), y, v->color);
    put_text(d, x_of(d, left) + d->step / 2, y - 5, "label", label);
    fprintf(d->to, "</g>\n");
}

static void put_box(const drawing *d, uint32_t x, uint32_t y, const char *label)
{
    const uint32_t width = (uint32_t)strlen(label) * LABEL + 12;
    fprintf(d->to,
            "<rect x=\"%" PRIu32 "\" y=\"%" PRIu32 "\" width=\"%" PRIu32
            "\" height=\"%d\" rx=\"4\" class=\"mark\"/>\n",
            x - width / 2, y - MARK_HEIGHT / 2, width, MARK_HEIGHT);
    put_text(d, x, y + 4, "inside", label);
}

static void put_mark(const drawing *d, const cli_mark *m, uint32_t y)
{
    char text[CLI_SENTENCE], label[CLI_LABEL];
    cli_mark_sentence(d->picture, m, text);
    cli_mark_label(m, label);
    fprintf(d->to, "<g class=\"local %s\">", rd_verbs[m->first->verb].name);
    put_title(d, text);
    put_box(d, x_of(d, m->rank), y, label);
    fprintf(d->to, "</g>\n");
}

/* --- bands --- */

static uint32_t band_height(const cli_band *b)
{
    const uint32_t rows = b->before_rows + b->arrow_rows + b->after_rows;
    return rows ? rows * ROW + 2 * PAD : 0;
}

static void put_bands(const drawing *d)
{
    const cli_picture *p = d->picture;
    uint32_t y = d->top, shown = 0;
    for (uint32_t round = 0; round < p->rounds; round++) {
        const uint32_t height = band_height(&p->bands[round]);
        char name[24];
        if (!height)
            continue;
        fprintf(d->to,
                "<rect x=\"%d\" y=\"%" PRIu32 "\" width=\"%" PRIu32 "\" height=\"%" PRIu32
                "\" rx=\"4\" class=\"%s\"/>\n",
                EDGE / 2, y, d->width - EDGE, height, shown++ % 2 ? "odd" : "even");
        snprintf(name, sizeof name, "round %" PRIu32, round);
        put_text(d, EDGE, y + PAD + ROW / 2 + 4, "round", name);
        y += height;
    }
}

static void put_lifelines(const drawing *d)
{
    for (uint32_t r = 0; r < d->picture->size; r++)
        fprintf(d->to, "<path d=\"M%" PRIu32 " %" PRIu32 "V%" PRIu32 "\" class=\"life\"/>\n",
                x_of(d, r), d->top - PAD, d->bottom);
}

static void put_names(const drawing *d, uint32_t y)
{
    for (uint32_t r = 0; r < d->picture->size; r++) {
        char name[24];
        snprintf(name, sizeof name, "rank %" PRIu32, r);
        fprintf(d->to,
                "<rect x=\"%" PRIu32 "\" y=\"%" PRIu32
                "\" width=\"%d\" height=\"%d\" rx=\"5\" class=\"name\"/>\n",
                x_of(d, r) - NAME_WIDTH / 2, y, NAME_WIDTH, NAME);
        put_text(d, x_of(d, r), y + NAME / 2 + 4, "rank", name);
    }
}

/* The middle of a row's line: the label stands above it. */
static uint32_t row_y(uint32_t top, uint32_t row)
{
    return top + PAD + row * ROW + ROW - 7;
}

static void put_rounds(const drawing *d)
{
    const cli_picture *p = d->picture;
    uint32_t top = d->top;
    for (uint32_t round = 0; round < p->rounds; round++) {
        const cli_band *b = &p->bands[round];
        for (uint32_t i = 0; i < p->arrow_count; i++)
            if (p->arrows[i].round == round)
                put_arrow(d, &p->arrows[i], row_y(top, b->before_rows + p->arrows[i].row));
        for (uint32_t i = 0; i < p->mark_count; i++) {
            const cli_mark *m = &p->marks[i];
            const uint32_t above = m->after ? b->before_rows + b->arrow_rows : 0;
            if (m->round == round)
                put_mark(d, m, top + PAD + (above + m->row) * ROW + ROW / 2);
        }
        top += band_height(b);
    }
}

/* --- around them --- */

/* Draws the legend, or, with no drawing, says how high it is. */
static uint32_t put_legend(const drawing *d, const cli_picture *p, uint32_t y)
{
    const uint32_t start = y;
    char note[CLI_SENTENCE];
    for (uint32_t verb = 0; verb < rd_verb_count; verb++) {
        if (rd_verbs[verb].lane != RD_LANE_FROM || !(p->verbs >> verb & 1))
            continue;
        if (d) {
            put_line(d, EDGE + DOT, EDGE + 42, y, rd_verbs[verb].color);
            put_text(d, EDGE + 52, y + 4, "note", rd_verbs[verb].about);
        }
        y += LEGEND;
    }
    if (p->mark_count) {
        if (d) {
            put_box(d, EDGE + 20, y, rd_verbs[p->marks[0].first->verb].name);
            put_text(d, EDGE + 52, y + 4, "note", "done by the rank alone");
        }
        y += LEGEND;
    }
    cli_picture_note(p, note);
    if (!*note)
        return y - start;
    if (d)
        put_text(d, EDGE, y + 4, "note", note);
    return y - start + LEGEND;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Lifelines stand as far apart as labels need; if the words above need more, so far that they fill it. */
static void measure(drawing *d)
{
    const cli_picture *p = d->picture;
    const uint32_t gaps = p->size > 1 ? p->size - 1 : 1, end = NAME_WIDTH / 2 + EDGE;
    char title[CLI_SENTENCE], note[CLI_SENTENCE];
    cli_picture_title(p, title);
    cli_picture_note(p, note);
    const uint32_t words = larger((uint32_t)strlen(title) * TITLE,
                                  (uint32_t)larger((uint32_t)strlen(p->request->algorithm->about),
                                                   (uint32_t)strlen(note)) *
                                      LABEL) +
                           2 * EDGE;
    d->first = EDGE + MARGIN + NAME_WIDTH / 2;
    d->step = larger(p->labels * LABEL + 30, LEAST_STEP);
    const uint32_t fill = words > d->first + end ? (words - d->first - end) / gaps : 0;
    d->step = larger(d->step, fill < MOST_STEP ? fill : MOST_STEP);
    d->width = larger(words, x_of(d, p->size - 1) + end);
    d->top = d->bottom = HEAD + NAME + PAD;
    for (uint32_t round = 0; round < p->rounds; round++)
        d->bottom += band_height(&p->bands[round]);
    d->legend = d->bottom + EDGE + (d->bottom > TALL ? NAME : 0);
    d->height = d->legend + put_legend(NULL, p, 0) + EDGE / 2;
}

static void put_start(const drawing *d)
{
    static const char style[] =
        "text{font-family:Helvetica,Arial,sans-serif;fill:#1d2229}"
        ".title{font-size:16px;font-weight:bold}.about,.note{font-size:12px;fill:#57606a}"
        ".rank{font-size:12px;font-weight:bold;text-anchor:middle;fill:#ffffff}"
        ".round{font-size:12px;fill:#57606a}.name{fill:#3d4652}"
        ".life{stroke:#aeb6c0;stroke-width:1.2}.even{fill:#f1f4f8}.odd{fill:#ffffff}"
        ".label{font-size:11px;text-anchor:middle;paint-order:stroke;stroke:#ffffff;"
        "stroke-width:3px;stroke-opacity:0.8}"
        ".mark{fill:#fff6dc;stroke:#c9a227}.inside{font-size:11px;text-anchor:middle}";
    char title[CLI_SENTENCE];
    cli_picture_title(d->picture, title);
    fprintf(d->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%" PRIu32 "\" height=\"%" PRIu32
            "\" viewBox=\"0 0 %" PRIu32 " %" PRIu32 "\" role=\"img\">\n",
            d->width, d->height, d->width, d->height);
    put_title(d, title);
    fprintf(d->to, "<style>%s</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            style);
    put_text(d, EDGE, 28, "title", title);
    put_text(d, EDGE, 46, "about", d->picture->request->algorithm->about);
}

void cli_draw_svg(FILE *to, const cli_picture *p)
{
    drawing d = {.to = to, .picture = p};
    measure(&d);
    put_start(&d);
    put_bands(&d);
    put_lifelines(&d);
    put_names(&d, HEAD);
    put_rounds(&d);
    if (d.bottom > TALL)
        put_names(&d, d.bottom);
    put_legend(&d, p, d.legend);
    fprintf(to, "</svg>\n");
}
