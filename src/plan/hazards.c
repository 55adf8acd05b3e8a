/* hazards.c: read-after-write, write-after-read and write-after-write, within a chunk.
 *
 * Chunks touch disjoint ranges (the proof would show it if they did not), so each chunk is looked at
 * alone.  All ends of ranges cut a buffer into cells that no range divides:
 *
 *     ranges   [-----------)[----)
 *                    [-----------)
 *     cells    |-----|-----|----|-----|
 *
 * and a cell remembers who wrote it last and who has read it since.  A ring's ranges are one cell
 * each, so the work is that of sorting the ends. */
#include "plan/hazards.h"

#include "base/mem.h"
#include "plan/sort.h"

#include <assert.h>

typedef struct {
    uint32_t writer;  /* raw step or RD_NONE */
    uint32_t readers; /* head of a list in links[], or RD_NONE */
} cell;

typedef struct {
    uint32_t step, next;
} link;

typedef struct {
    rd_sortable *ends; /* sorted, without repeats */
    cell *cells;       /* cells[i] begins at ends[i] */
    uint32_t count, capacity, last;
} buffer_map;

typedef struct {
    const rd_raw *raw;
    rd_hazards *out;
    buffer_map maps[RD_BUFFERS];
    link *links;
    uint32_t link_count, link_capacity;
    uint32_t *seen; /* per raw step: 1 + the step that last got an edge from it */
    bool failed;
} finder;

static void *grown(void *array, uint32_t *capacity, uint32_t needed, size_t width, bool *failed)
{
    if (needed <= *capacity)
        return array;
    uint32_t larger = *capacity ? *capacity : 64;
    while (larger < needed)
        larger *= 2;
    void *bigger = rd_realloc(array, larger * width);
    if (!bigger) {
        *failed = true;
        return array;
    }
    *capacity = larger;
    return bigger;
}

static void note_ends(finder *f, rd_range r)
{
    buffer_map *m = &f->maps[r.buffer];
    const uint32_t n = m->count;
    /* Twice as many, to sort in */
    m->ends = grown(m->ends, &m->capacity, 2 * n + 4, sizeof *m->ends, &f->failed);
    if (f->failed || r.count == 0)
        return;
    if (n > 0 && m->ends[n - 1].key == r.at + r.count && m->ends[n - 2].key == r.at)
        return; /* the range before this one */
    m->ends[n].key = r.at;
    m->ends[n + 1].key = r.at + r.count;
    m->count += 2;
}

static void make_cells(finder *f, uint32_t first, uint32_t end)
{
    rd_access pair[2];
    uint32_t count;
    for (int b = 0; b < RD_BUFFERS; b++)
        f->maps[b].count = 0;
    f->link_count = 0;
    for (uint32_t i = first; i < end && !f->failed; i++) {
        const rd_access *touched = rd_raw_touches(f->raw, i, pair, &count);
        for (uint32_t k = 0; k < count; k++)
            note_ends(f, touched[k].range);
    }
    for (int b = 0; b < RD_BUFFERS && !f->failed; b++) {
        buffer_map *m = &f->maps[b];
        if (m->count == 0)
            continue;
        rd_sort(m->ends, m->ends + m->count, m->count);
        uint32_t kept = 1;
        for (uint32_t i = 1; i < m->count; i++)
            if (m->ends[i].key != m->ends[kept - 1].key)
                m->ends[kept++] = m->ends[i];
        m->count = kept;
        m->last = 0;
        rd_free(m->cells);
        m->cells = rd_alloc(kept * sizeof *m->cells);
        f->failed |= !m->cells;
        for (uint32_t i = 0; i < kept && m->cells; i++)
            m->cells[i] = (cell){RD_NONE, RD_NONE};
    }
}

/* Often the cell that was found last, or the next one. */
static uint32_t cell_at(buffer_map *m, uint64_t at)
{
    uint32_t lo = 0, hi = m->count;
    for (uint32_t i = m->last; i < m->count && i < m->last + 2; i++)
        if (m->ends[i].key == at)
            return m->last = i;
    while (hi - lo > 1) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (m->ends[mid].key <= at)
            lo = mid;
        else
            hi = mid;
    }
    return m->last = lo;
}

static void edge(finder *f, uint32_t from, uint32_t to)
{
    if (from == RD_NONE || from == to || f->seen[from] == to + 1)
        return;
    assert(from < to && to < f->raw->count); /* who waits was said later */
    rd_hazards *h = f->out;
    h->edges = grown(h->edges, &h->capacity, h->count + 1, sizeof *h->edges, &f->failed);
    if (f->failed)
        return;
    h->edges[h->count++] = (rd_edge){from, to};
    f->seen[from] = to + 1;
}

/* It has written some of r: is r one of its ranges? */
static bool wrote_exactly(const rd_raw *raw, uint32_t step, rd_range r)
{
    if (raw->steps[step].first_access == RD_NONE)
        return rd_same_range(raw->steps[step].to, r);
    rd_access pair[2];
    uint32_t count;
    const rd_access *touched = rd_raw_touches(raw, step, pair, &count);
    for (uint32_t i = 0; i < count; i++)
        if (touched[i].how & RD_WRITES && rd_same_range(touched[i].range, r))
            return true;
    return false;
}

static void reads(finder *f, uint32_t step, rd_range r)
{
    buffer_map *m = &f->maps[r.buffer];
    uint32_t writer = RD_NONE;
    bool one = true;

    for (uint32_t c = cell_at(m, r.at); r.count && m->ends[c].key < r.at + r.count; c++) {
        const uint32_t w = m->cells[c].writer;
        edge(f, w, step);
        one &= m->ends[c].key == r.at || w == writer;
        writer = w;
        f->links =
            grown(f->links, &f->link_capacity, f->link_count + 1, sizeof *f->links, &f->failed);
        if (f->failed)
            return;
        f->links[f->link_count] = (link){step, m->cells[c].readers};
        m->cells[c].readers = f->link_count++;
    }
    if (one && writer != RD_NONE && wrote_exactly(f->raw, writer, r))
        f->out->writer[step] = writer;
}

static void writes(finder *f, uint32_t step, rd_range r)
{
    buffer_map *m = &f->maps[r.buffer];

    for (uint32_t c = cell_at(m, r.at); r.count && m->ends[c].key < r.at + r.count; c++) {
        edge(f, m->cells[c].writer, step);
        for (uint32_t l = m->cells[c].readers; l != RD_NONE; l = f->links[l].next)
            edge(f, f->links[l].step, step);
        m->cells[c] = (cell){step, RD_NONE};
    }
}

static void touch(finder *f, uint32_t step)
{
    rd_access pair[2];
    uint32_t count;
    const rd_access *touched = rd_raw_touches(f->raw, step, pair, &count);
    for (uint32_t i = 0; i < count && !f->failed; i++)
        if (touched[i].how & RD_READS)
            reads(f, step, touched[i].range);
    for (uint32_t i = 0; i < count && !f->failed; i++)
        if (touched[i].how & RD_WRITES)
            writes(f, step, touched[i].range);
}

bool rd_hazards_find(const rd_raw *raw, rd_hazards *out)
{
    *out = (rd_hazards){0};
    finder f = {.raw = raw, .out = out};
    out->writer = rd_alloc((raw->count + 1) * sizeof *out->writer);
    f.seen = rd_alloc((raw->count + 1) * sizeof *f.seen);
    f.failed = !out->writer || !f.seen;

    for (uint32_t first = 0, end; first < raw->count && !f.failed; first = end) {
        for (end = first; end < raw->count && raw->steps[end].chunk == raw->steps[first].chunk;
             end++)
            out->writer[end] = RD_NONE;
        make_cells(&f, first, end);
        for (uint32_t i = first; i < end && !f.failed; i++)
            touch(&f, i);
    }
    for (int b = 0; b < RD_BUFFERS; b++) {
        rd_free(f.maps[b].ends);
        rd_free(f.maps[b].cells);
    }
    rd_free(f.links);
    rd_free(f.seen);
    return !f.failed;
}

void rd_hazards_free(rd_hazards *h)
{
    rd_free(h->edges);
    rd_free(h->writer);
}
