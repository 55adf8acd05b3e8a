/* bench_plot.c: what `ronda bench` measured, as a picture: a panel per collective, size against time, both
 * in powers, with the machine's limit as a dashed line, and the names of the lines beside them.
 *
 *     allreduce
 *     10 us +-----------------+  --o-- ring        Of one size, as of barrier, which has none, a panel
 *           |          __--o  |  --o-- star        is flat: its points stand side by side, and their
 *      1 us +--o----o---------+  - - - limit       names have their times.
 *             8 B   64 B  512 B
 *
 * No two lines of a panel look the same: each dash pattern, with a marker of its own, goes through all
 * colors.  As many are drawn as there are looks, and the names end with how many are not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "bench.h"

enum { CHART_W = 468, LEAST_H = 316, LEFT = 64, RIGHT = 28, TOP = 36, BOTTOM = 48, COLUMNS = 2 };
enum { LEGEND_GAP = 16, LEGEND_LINE = 16, KEY_W = 28, LETTER_W = 7, TICK_W = 56, HEAD = 44 };
enum { COLORS = 12, DASHES = 4, LOOKS = COLORS * DASHES };

static const char *const colors[COLORS] = {"#0b6bcb", "#d1495b", "#2e8b57", "#e08e0b",
                                           "#7d4fc4", "#0e9aa7", "#8c564b", "#e377c2",
                                           "#1d2229", "#7a9a01", "#ff6f3c", "#00c2ff"};
static const char *const dashes[DASHES] = {"none", "9 3", "2 3", "9 3 2 3"};
static const char LIMIT_COLOR[] = "#8a8f98", LIMIT_DASH[] = "6 4";

typedef struct {
    FILE *to;
    const bench_rows *rows;
    ronda_kind kind;
    const bench_row *all[LOOKS];       /* the first row of each line */
    uint32_t count, left_out;          /* lines */
    double min_x, max_x, min_y, max_y; /* log10 */
    double left, top, height;          /* of the plotting area */
    bool types, distances; /* rows of several types or ops, or distances: the legend tells which */
    bool flat;             /* one size */
    bool limited;          /* there is a limit to draw */
} panel;

/* Rows that make one line. */
static bool same_line(const bench_row *a, const bench_row *b)
{
    return a->point.kind == b->point.kind && a->point.type == b->point.type &&
           a->point.op == b->point.op && a->point.memory == b->point.memory &&
           a->point.algorithm == b->point.algorithm && a->distance == b->distance;
}

static bool drawable(const panel *p, const bench_row *r)
{
    return r->point.kind == p->kind && r->median_us > 0 && r->min_us > 0;
}

static double x_of(const panel *p, double bytes)
{
    return p->left + (log10(bytes) - p->min_x) / (p->max_x - p->min_x) * CHART_W;
}

static double y_of(const panel *p, double us)
{
    return p->top + p->height * (p->max_y - log10(us)) / (p->max_y - p->min_y);
}

/* Where a row of line k is. */
static double row_x(const panel *p, uint32_t k, const bench_row *r)
{
    return p->flat ? p->left + (k + 0.5) / p->count * CHART_W : x_of(p, (double)r->point.bytes);
}

/* --- finding --- */

static void include(panel *p, const bench_row *r)
{
    const bool first = p->count == 0;
    const double x = r->point.bytes ? log10((double)r->point.bytes) : 0;
    double low = log10(r->min_us), high = log10(r->median_us);
    if (r->limit_us > 0) {
        low = fmin(low, log10(r->limit_us));
        high = fmax(high, log10(r->limit_us));
        p->limited = true;
    }
    p->min_x = first ? x : fmin(p->min_x, x);
    p->max_x = first ? x : fmax(p->max_x, x);
    p->min_y = first ? low : fmin(p->min_y, low);
    p->max_y = first ? high : fmax(p->max_y, high);
}

/* Whether an earlier row is of the same line. */
static bool seen(const panel *p, uint32_t row)
{
    for (uint32_t i = 0; i < row; i++)
        if (drawable(p, &p->rows->rows[i]) && same_line(&p->rows->rows[i], &p->rows->rows[row]))
            return true;
    return false;
}

static bool find_lines(panel *p)
{
    for (uint32_t i = 0; i < p->rows->count; i++) {
        const bench_row *r = &p->rows->rows[i];
        uint32_t k = 0;
        if (!drawable(p, r))
            continue;
        while (k < p->count && !same_line(p->all[k], r))
            k++;
        include(p, r); /* if only for its limit */
        if (k == LOOKS) {
            p->left_out += !seen(p, i);
            continue;
        }
        if (k == p->count)
            p->all[p->count++] = r;
        const bench_row *a = p->all[0];
        p->types |= a->point.type != r->point.type || a->point.op != r->point.op;
        p->distances |= a->distance != r->distance;
    }
    p->flat = !(p->max_x > p->min_x);
    p->min_y = floor(p->min_y);
    p->max_y = ceil(p->max_y + 1e-9);
    p->max_y = p->max_y > p->min_y ? p->max_y : p->min_y + 1;
    return p->count > 0;
}

/* --- the chart --- */

static void draw_text(FILE *to, double x, double y, const char *anchor, const char *style,
                      const char *text)
{
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>%s</text>\n", x, y, anchor,
            style, text);
}

static void time_text(double us, char *text, size_t capacity)
{
    if (us < 1)
        snprintf(text, capacity, "%g ns", us * 1e3);
    else if (us < 1e3)
        snprintf(text, capacity, "%g us", us);
    else if (us < 1e6)
        snprintf(text, capacity, "%g ms", us / 1e3);
    else
        snprintf(text, capacity, "%g s", us / 1e6);
}

static void draw_grid_line(const panel *p, double x1, double x2, double y1, double y2)
{
    fprintf(p->to, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", x1,
            x2, y1, y2);
}

static void draw_size(const panel *p, double x, double bytes)
{
    char text[32];
    bench_bytes_text((uint64_t)bytes, text, sizeof text);
    draw_text(p->to, x, p->top + p->height + 16, "middle", "class=\"tick\"", text);
}

/* Powers of 8, or of 2 where there would be hardly any, or the first and the last if there is none. */
static void draw_sizes(const panel *p)
{
    const double right = p->left + CHART_W, bottom = p->top + p->height;
    const double factor = p->max_x - p->min_x < 2 ? 2 : 8;
    double drawn = -1e9;
    for (double bytes = 1; bytes < 1e13; bytes *= factor) {
        const double x = x_of(p, bytes);
        if (x < p->left - 0.5 || x > right + 0.5)
            continue;
        draw_grid_line(p, x, x, p->top, bottom);
        if (x < drawn + TICK_W)
            continue; /* no room for its text */
        drawn = x;
        draw_size(p, x, bytes);
    }
    if (drawn < 0) {
        draw_size(p, p->left, round(pow(10, p->min_x)));
        draw_size(p, right, round(pow(10, p->max_x)));
    }
}

static void draw_axes(const panel *p)
{
    const uint64_t bytes = p->all[0]->point.bytes;
    char text[32], size[24], name[64];
    fprintf(p->to,
            "<rect class=\"area\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" "
            "fill=\"none\"/>\n",
            p->left, p->top, CHART_W, p->height);
    for (double d = p->min_y; d <= p->max_y + 0.01; d += 1) {
        const double us = pow(10, d), y = y_of(p, us);
        draw_grid_line(p, p->left, p->left + CHART_W, y, y);
        time_text(us, text, sizeof text);
        draw_text(p->to, p->left - 6, y + 4, "end", "class=\"tick\"", text);
    }
    if (!p->flat)
        draw_sizes(p);
    bench_bytes_text(bytes, size, sizeof size);
    snprintf(name, sizeof name, "%s%s%s", rd_kind_name(p->kind), p->flat && bytes ? ", " : "",
             p->flat && bytes ? size : "");
    draw_text(p->to, p->left, p->top - 12, "start", "class=\"name\"", name);
}

/* The least limit at a size; 0: there is none. */
static double limit_at(const panel *p, uint64_t bytes)
{
    double least = 0;
    for (uint32_t i = 0; i < p->rows->count; i++) {
        const bench_row *r = &p->rows->rows[i];
        if (r->point.kind == p->kind && r->point.bytes == bytes && r->limit_us > 0 &&
            (least == 0 || r->limit_us < least))
            least = r->limit_us;
    }
    return least;
}

static void draw_limit(const panel *p)
{
    uint64_t last = 0;
    fprintf(p->to,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" "
            "stroke-dasharray=\"%s\" points=\"",
            LIMIT_COLOR, LIMIT_DASH);
    if (p->flat) {
        const double y = y_of(p, limit_at(p, p->all[0]->point.bytes));
        fprintf(p->to, "%.1f,%.1f %.1f,%.1f", p->left, y, p->left + CHART_W, y);
    }
    while (!p->flat) { /* the next larger size each time */
        uint64_t next = UINT64_MAX;
        for (uint32_t i = 0; i < p->rows->count; i++) {
            const bench_point *q = &p->rows->rows[i].point;
            if (q->kind == p->kind && q->bytes > last && q->bytes < next)
                next = q->bytes;
        }
        if (next == UINT64_MAX)
            break;
        last = next;
        if (limit_at(p, last) > 0)
            fprintf(p->to, "%.1f,%.1f ", x_of(p, (double)last), y_of(p, limit_at(p, last)));
    }
    fprintf(p->to, "\"/>\n");
}

/* A circle, a square, a diamond or a triangle; hollow for memory of ronda_alloc(). */
static void draw_marker(const panel *p, uint32_t k, double x, double y)
{
    const char *color = colors[k % COLORS];
    const char *fill = p->all[k]->point.memory == BENCH_ALLOCATED ? "#ffffff" : color;
    static const char *const paths[DASHES] = {"m-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0z",
                                              "m-3,-3h6v6h-6z", "m0,-4l4,4l-4,4l-4,-4z",
                                              "m0,-4l4,7h-8z"};
    fprintf(p->to, "<path d=\"M%.1f,%.1f%s\" fill=\"%s\" stroke=\"%s\"/>\n", x, y,
            paths[k / COLORS], fill, color);
}

/* A line through the medians; a flat panel's: up to the only one. */
static void draw_line(const panel *p, uint32_t k)
{
    fprintf(p->to,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" "
            "points=\"",
            colors[k % COLORS], dashes[k / COLORS]);
    for (int markers = 0; markers < 2; markers++) {
        for (uint32_t i = 0; i < p->rows->count; i++) {
            const bench_row *r = &p->rows->rows[i];
            if (!drawable(p, r) || !same_line(p->all[k], r))
                continue;
            const double x = row_x(p, k, r), y = y_of(p, r->median_us);
            if (!markers && p->flat)
                fprintf(p->to, "%.1f,%.1f ", x, p->top + p->height);
            if (markers)
                draw_marker(p, k, x, y);
            else
                fprintf(p->to, "%.1f,%.1f ", x, y);
        }
        if (!markers)
            fprintf(p->to, "\"/>\n");
    }
}

/* --- the legend --- */

/* Line k's; behind those the limit's, and what was left out. */
static void legend_text(const panel *p, uint32_t k, char *text, size_t capacity)
{
    char memory[16] = "", type[32] = "", time[32] = "";
    if (k == p->count && p->limited) {
        snprintf(text, capacity, "limit: a copy, half a round trip");
        return;
    }
    if (k >= p->count) {
        snprintf(text, capacity, "%u more that are not drawn", p->left_out);
        return;
    }
    const bench_row *r = p->all[k];
    const bench_point *q = &r->point;
    const bool reduces = rd_kind_reduces(q->kind);
    if (q->kind != RONDA_BARRIER)
        snprintf(memory, sizeof memory, ", %s",
                 q->memory == BENCH_ALLOCATED ? "allocated" : "private");
    if (p->types)
        snprintf(type, sizeof type, ", %s%s%s", rd_type_name(q->type), reduces ? " " : "",
                 reduces ? rd_op_name(q->op) : "");
    if (p->flat)
        snprintf(time, sizeof time, r->median_us < 100 ? ", %.2f us" : ", %.0f us", r->median_us);
    snprintf(text, capacity, "%s%s%s%s%s%s", q->algorithm ? q->algorithm->name : "ronda", memory,
             type, p->distances ? ", " : "", p->distances ? bench_distances[r->distance] : "",
             time);
}

static uint32_t legend_lines(const panel *p)
{
    return p->count + p->limited + (p->left_out > 0);
}

static void draw_legend(const panel *p)
{
    const double x = p->left + CHART_W + LEGEND_GAP;
    for (uint32_t k = 0; k < legend_lines(p); k++) {
        char text[160];
        const double y = p->top + 10 + k * LEGEND_LINE;
        const bool limit = k == p->count && p->limited;
        if (k < p->count || limit)
            fprintf(p->to,
                    "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                    "stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n",
                    x, x + KEY_W - 6, y - 4, y - 4, limit ? LIMIT_COLOR : colors[k % COLORS],
                    limit ? LIMIT_DASH : dashes[k / COLORS]);
        if (k < p->count)
            draw_marker(p, k, x + (KEY_W - 6) / 2.0, y - 4);
        legend_text(p, k, text, sizeof text);
        draw_text(p->to, x + KEY_W, y, "start", "class=\"tick\"", text);
    }
}

/* --- all panels --- */

/* All are as wide as the widest legend needs, and those side by side as high as the highest. */
static void lay_out(panel panels[], uint32_t count, uint32_t *width, uint32_t *height)
{
    uint32_t letters = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < legend_lines(&panels[i]); k++) {
            char text[160];
            legend_text(&panels[i], k, text, sizeof text);
            letters = strlen(text) > letters ? (uint32_t)strlen(text) : letters;
        }
    const uint32_t one = LEFT + CHART_W + LEGEND_GAP + KEY_W + letters * LETTER_W + RIGHT;
    *width = (count < COLUMNS ? count : COLUMNS) * one;
    *height = HEAD;
    for (uint32_t i = 0; i < count; i += COLUMNS) {
        uint32_t own = LEAST_H;
        const uint32_t end = count - i < COLUMNS ? count : i + COLUMNS;
        for (uint32_t k = i; k < end; k++)
            if (legend_lines(&panels[k]) * LEGEND_LINE > own)
                own = legend_lines(&panels[k]) * LEGEND_LINE;
        for (uint32_t k = i; k < end; k++) {
            panels[k].left = LEFT + (k - i) * one;
            panels[k].top = *height + TOP;
            panels[k].height = own;
        }
        *height += TOP + own + BOTTOM;
    }
}

bool bench_plot(FILE *to, const bench_rows *rows, uint32_t size)
{
    panel panels[RD_KINDS];
    uint32_t count = 0, width, height;
    for (ronda_kind k = RONDA_ALLREDUCE; k <= RONDA_BARRIER;
         k++) { /* those without rows have none */
        panels[count] = (panel){.to = to, .rows = rows, .kind = k};
        count += find_lines(&panels[count]);
    }
    lay_out(panels, count, &width, &height);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
            "font-family=\"sans-serif\">\n<style>.grid{stroke:#e3e6ea;stroke-width:1}"
            ".tick{font-size:11px;fill:#444b55}.name{font-size:14px;font-weight:bold;fill:#1d2229}"
            "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            width, height);
    fprintf(
        to,
        "<text x=\"16\" y=\"26\" font-size=\"16\" fill=\"#1d2229\">ronda bench: %u rank%s, median "
        "time of the slowest, by bytes</text>\n",
        size, size == 1 ? "" : "s");
    for (uint32_t i = 0; i < count; i++) {
        const panel *p = &panels[i];
        fprintf(to, "<g class=\"panel\">\n");
        draw_axes(p);
        if (p->limited)
            draw_limit(p);
        for (uint32_t k = 0; k < p->count; k++)
            draw_line(p, k);
        draw_legend(p);
        fprintf(to, "</g>\n");
    }
    fprintf(to, "</svg>\n");
    return !ferror(to);
}
