/* bench_plot.c: what `ronda bench` measured, as a picture: a panel per collective, size against time, both
 * in powers, with the machine's limit as a dashed line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "bench.h"

enum { PANEL_W = 560, PANEL_H = 400, LEFT = 64, RIGHT = 28, TOP = 36, BOTTOM = 48, COLUMNS = 2 };
enum { MOST_SERIES = 24, LEGEND_LINE = 16, HEAD = 44 };

static const char *const colors[] = {"#0b6bcb", "#d1495b", "#2e8b57", "#e08e0b",
                                     "#7d4fc4", "#0e9aa7", "#8c564b", "#c2185b",
                                     "#5f6b7a", "#7a9a01", "#b35c00", "#3f51b5"};

/* Rows that make one line. */
typedef struct {
    const bench_row *first;
    uint32_t number;
} series;

typedef struct {
    FILE *to;
    const bench_rows *rows;
    uint32_t size;
    ronda_kind kind;
    series all[MOST_SERIES];
    uint32_t count;
    double min_x, max_x, min_y, max_y; /* log10 */
    double left, top;                  /* of the plotting area */
    bool mixed; /* rows of several types, ops or distances: the legend tells which */
} panel;

static bool same_series(const bench_row *a, const bench_row *b)
{
    return a->point.kind == b->point.kind && a->point.type == b->point.type &&
           a->point.op == b->point.op && a->point.memory == b->point.memory &&
           a->point.algorithm == b->point.algorithm && a->distance == b->distance;
}

static double x_of(const panel *p, double bytes)
{
    const double width = PANEL_W - LEFT - RIGHT;
    return p->left + (log10(bytes) - p->min_x) / (p->max_x - p->min_x) * width;
}

static double y_of(const panel *p, double us)
{
    const double height = PANEL_H - TOP - BOTTOM;
    return p->top + height - (log10(us) - p->min_y) / (p->max_y - p->min_y) * height;
}

/* --- finding --- */

static void include(panel *p, const bench_row *r)
{
    const double x = log10((double)r->point.bytes);
    const double low = log10(r->limit_us > 0 && r->limit_us < r->min_us ? r->limit_us : r->min_us);
    const double high = log10(r->median_us);
    p->min_x = p->count && p->min_x < x ? p->min_x : x;
    p->max_x = p->count && p->max_x > x ? p->max_x : x;
    p->min_y = p->count && p->min_y < low ? p->min_y : low;
    p->max_y = p->count && p->max_y > high ? p->max_y : high;
}

static bool find_series(panel *p)
{
    for (uint32_t i = 0; i < p->rows->count; i++) {
        const bench_row *r = &p->rows->rows[i];
        uint32_t k = 0;
        if (r->point.kind != p->kind || !r->point.bytes || r->median_us <= 0 || r->min_us <= 0)
            continue;
        include(p, r);
        while (k < p->count && !same_series(p->all[k].first, r))
            k++;
        if (k == p->count && p->count < MOST_SERIES) {
            p->all[k] = (series){r, k};
            p->count++;
        }
        const bench_point *a = &p->all[0].first->point;
        p->mixed |= a->type != r->point.type || a->op != r->point.op ||
                    p->all[0].first->distance != r->distance;
    }
    if (!p->count)
        return false;
    p->min_y = floor(p->min_y);
    p->max_y = ceil(p->max_y + 1e-9);
    p->max_y = p->max_y > p->min_y ? p->max_y : p->min_y + 1;
    p->max_x = p->max_x > p->min_x ? p->max_x : p->min_x + 1;
    return true;
}

/* --- drawing --- */

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

static void draw_axes(const panel *p)
{
    const double right = p->left + PANEL_W - LEFT - RIGHT, bottom = p->top + PANEL_H - TOP - BOTTOM;
    char text[32];
    for (double d = p->min_y; d <= p->max_y + 0.01; d += 1) {
        const double us = pow(10, d), y = y_of(p, us);
        fprintf(p->to, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n",
                p->left, right, y, y);
        time_text(us, text, sizeof text);
        draw_text(p->to, p->left - 6, y + 4, "end", "class=\"tick\"", text);
    }
    double drawn = -1e9;
    for (double bytes = 1; bytes < 1e13; bytes *= 8) {
        const double x = x_of(p, bytes);
        if (x < p->left - 0.5 || x > right + 0.5)
            continue;
        fprintf(p->to, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n",
                x, x, p->top, bottom);
        if (x < drawn + 44)
            continue; /* no room for its text */
        drawn = x;
        bench_bytes_text((uint64_t)bytes, text, sizeof text);
        draw_text(p->to, x, bottom + 16, "middle", "class=\"tick\"", text);
    }
    draw_text(p->to, p->left, p->top - 12, "start", "class=\"name\"", rd_kind_name(p->kind));
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
    fprintf(p->to, "<polyline fill=\"none\" stroke=\"#8a8f98\" stroke-width=\"1.5\" "
                   "stroke-dasharray=\"6 4\" points=\"");
    for (;;) { /* the next larger size each time */
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

/* A line through the medians of a series. */
static void draw_line(const panel *p, const series *s)
{
    const char *color = colors[s->number % (sizeof colors / sizeof *colors)];
    fprintf(p->to, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", color);
    for (uint32_t i = 0; i < p->rows->count; i++) {
        const bench_row *r = &p->rows->rows[i];
        if (same_series(s->first, r) && r->point.bytes && r->median_us > 0)
            fprintf(p->to, "%.1f,%.1f ", x_of(p, (double)r->point.bytes), y_of(p, r->median_us));
    }
    fprintf(p->to, "\"/>\n");
    for (uint32_t i = 0; i < p->rows->count; i++) {
        const bench_row *r = &p->rows->rows[i];
        if (same_series(s->first, r) && r->point.bytes && r->median_us > 0)
            fprintf(p->to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\" stroke=\"%s\"/>\n",
                    x_of(p, (double)r->point.bytes), y_of(p, r->median_us),
                    r->point.memory == BENCH_ALLOCATED ? "#ffffff" : color, color);
    }
}

static void series_name(const panel *p, const series *s, char *text, size_t capacity)
{
    const bench_point *point = &s->first->point;
    char more[64] = "";
    if (p->mixed)
        snprintf(more, sizeof more, ", %s%s%s, %s", rd_type_name(point->type),
                 rd_kind_reduces(point->kind) ? " " : "",
                 rd_kind_reduces(point->kind) ? rd_op_name(point->op) : "",
                 bench_distances[s->first->distance]);
    snprintf(text, capacity, "%s, %s%s", point->algorithm ? point->algorithm->name : "ronda",
             point->memory == BENCH_ALLOCATED ? "allocated" : "private", more);
}

static void draw_legend(const panel *p)
{
    double y = p->top + 14;
    const double x = p->left + 10;
    for (uint32_t k = 0; k <= p->count; k++, y += LEGEND_LINE) {
        char text[128] = "limit: a copy, half a round trip";
        const bool limit = k == p->count;
        const char *color =
            limit ? "#8a8f98" : colors[p->all[k].number % (sizeof colors / sizeof *colors)];
        fprintf(p->to,
                "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-width=\"2\"%s/>\n",
                x, x + 22, y - 4, y - 4, color, limit ? " stroke-dasharray=\"6 4\"" : "");
        if (!limit) {
            series_name(p, &p->all[k], text, sizeof text);
            fprintf(p->to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\" stroke=\"%s\"/>\n",
                    x + 11, y - 4,
                    p->all[k].first->point.memory == BENCH_ALLOCATED ? "#ffffff" : color, color);
        }
        draw_text(p->to, x + 28, y, "start", "class=\"tick halo\"", text);
    }
}

bool bench_plot(FILE *to, const bench_rows *rows, uint32_t size)
{
    panel panels[RD_KINDS];
    uint32_t count = 0;
    for (ronda_kind k = 1; k < RD_KINDS; k++) { /* those without rows that have bytes have none */
        panels[count] = (panel){.to = to, .rows = rows, .size = size, .kind = k};
        count += find_series(&panels[count]);
    }
    const uint32_t columns = count < COLUMNS ? count : COLUMNS;
    const uint32_t lines = (count + COLUMNS - 1) / COLUMNS;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
            "font-family=\"sans-serif\">\n<style>.grid{stroke:#e3e6ea;stroke-width:1}"
            ".tick{font-size:11px;fill:#444b55}.name{font-size:14px;font-weight:bold;fill:#1d2229}"
            ".halo{paint-order:stroke;stroke:#ffffff;stroke-width:3px}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            (columns ? columns : 1) * PANEL_W, HEAD + lines * PANEL_H);
    fprintf(
        to,
        "<text x=\"16\" y=\"26\" font-size=\"16\" fill=\"#1d2229\">ronda bench: %u rank%s, median "
        "time of the slowest, by bytes</text>\n",
        size, size == 1 ? "" : "s");
    for (uint32_t i = 0; i < count; i++) {
        panel *p = &panels[i];
        p->left = LEFT + i % COLUMNS * PANEL_W;
        p->top = HEAD + TOP + i / COLUMNS * PANEL_H;
        draw_axes(p);
        draw_limit(p);
        for (uint32_t k = 0; k < p->count; k++)
            draw_line(p, &p->all[k]);
        draw_legend(p);
    }
    fprintf(to, "</svg>\n");
    return !ferror(to);
}
