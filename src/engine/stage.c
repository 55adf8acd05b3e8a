/* stage.c: writes bytes to where a peer will read them, and many to where they stay.
 *
 * The peer has read the same place before, so its cache holds the lines that we write.  If that cache
 * is near, taking them back costs little and the peer will find the new bytes close by.  If it is far,
 * ordinary stores may take ten times as long as stores that go past the caches, or may not: it depends
 * on the machine.  And how far a peer is may change whenever the system moves a rank to another core.
 * So nobody asks for the distance; it is noticed.  The first stores of a long piece are timed.  If two in a
 * row were slow, the next piece is tried the other way, and if that is several times as quick, the peer
 * counts as far.  When far, a page of every PROBES-th piece is written by ordinary stores, and two quick
 * ones in a row mean near again. */
#include "base/atomic.h"
#include "base/clock.h"
#include "engine/operation.h"

enum {
    TIMED_BYTES = 16 << 10,
    PROBE_BYTES = 4 << 10,
    PROBES = 16,
    STRIP_BYTES = 8 << 10,
    MOVE_BYTES = 96 << 10,
    /* No core stores to memory of its own so slowly: about 3 GB/s */
    SLOW_NS_PER_KIB = 325,
    GAIN = 3,   /* how much quicker the other way must be */
    REST = 4096 /* pieces until it is tried again, if it was not */
};

/* Ordinary stores.  Lines are asked for a block ahead, so that stores do not wait for them one by one;
 * with many bytes rd_move does the same. */
void rd_stage_plain(void *to, const void *from, size_t bytes)
{
    enum { BLOCK = 1024 };
    char *t = to;
    if (bytes >= MOVE_BYTES) {
        rd_move(to, from, bytes);
        return;
    }
    size_t now = bytes < BLOCK ? bytes : BLOCK;
    rd_own_range(t, now);
    for (size_t at = 0, next; at < bytes; at += now, now = next) {
        const size_t rest = bytes - at - now;
        next = rest < BLOCK ? rest : BLOCK;
        rd_own_range(t + at + now, next);
        rd_move(t + at, (const char *)from + at, now);
    }
}

/* Writes the first bytes and says how many ns a KiB took. */
static uint32_t timed(void (*move)(void *to, const void *from, size_t bytes), void *to,
                      const void *from, size_t bytes)
{
    const uint64_t start = rd_now_ns();
    move(to, from, bytes);
    return (uint32_t)((rd_now_ns() - start) * 1024 / bytes);
}

/* Near, as far as is known: how many bytes it has written. */
static size_t watch(rd_distance *d, void *to, const void *from)
{
    if (d->rest) {
        d->rest--;
        return 0;
    }
    if (d->votes == 2) { /* the other way */
        const uint32_t ns = timed(rd_stream, to, from, TIMED_BYTES);
        d->far = ns < d->slow_ns / GAIN;
        d->votes = 0;
        d->rest = d->far ? 0 : REST;
        return TIMED_BYTES;
    }
    d->slow_ns = timed(rd_stage_plain, to, from, TIMED_BYTES);
    d->votes = d->slow_ns > SLOW_NS_PER_KIB ? d->votes + 1 : 0;
    return TIMED_BYTES;
}

/* Far: is it still? */
static size_t probe(rd_distance *d, void *to, const void *from)
{
    if (d->turn++ % PROBES)
        return 0;
    d->votes = timed(rd_stage_plain, to, from, PROBE_BYTES) > SLOW_NS_PER_KIB ? 0 : d->votes + 1;
    if (d->votes == 2) {
        d->far = false;
        d->votes = 0;
    }
    return PROBE_BYTES;
}

void rd_stage(rd_distance *d, void *to, const void *from, size_t bytes)
{
    if (bytes < TIMED_BYTES) {
        rd_stage_plain(to, from, bytes);
        return;
    }
    const size_t done = d->far ? probe(d, to, from) : watch(d, to, from);
    (d->far ? rd_stream : rd_stage_plain)((char *)to + done, (const char *)from + done,
                                          bytes - done);
}

/* A fold whose last out is such a place, of a peer that is far: strip by strip into the first out, and
 * from there onward. */
void rd_fold_staged(const rd_job *job, uint32_t width, void *const out[], uint32_t outs,
                    const void *const in[], uint32_t ins, size_t count, uint32_t divisor)
{
    const size_t strip = STRIP_BYTES / width;
    if (count * width < TIMED_BYTES || ins > RD_MOST_STRIPPED) {
        rd_job_fold(job, out, outs, in, ins, count, divisor);
        return;
    }
    for (size_t at = 0; at < count; at += strip) {
        const size_t now = count - at < strip ? count - at : strip;
        void *to[RD_MOST_OUTS];
        const void *from[RD_MOST_STRIPPED];
        for (uint32_t i = 0; i < outs; i++)
            to[i] = (char *)out[i] + at * width;
        for (uint32_t i = 0; i < ins; i++)
            from[i] = (const char *)in[i] + at * width;
        rd_job_fold(job, to, outs - 1, from, ins, now, divisor);
        rd_stream(to[outs - 1], to[0], now * width);
    }
}

/* This rank's steps do not read there again, and what it gives and gets is more than a core's own cache
 * holds: ordinary stores would fetch every line only to write all of it. */
static bool stays(const rd_plan *p, const rd_step *s)
{
    const rd_shape *shape = &p->shape;
    const uint64_t gives = rd_in_count(shape), gets = rd_out_count(shape);
    return s->to_buffer == RD_OUT && !s->read && !shape->in_place && gives && gets &&
           (gives + gets) * shape->width > RD_STREAMED;
}

void rd_land_long(const rd_plan *p, const rd_step *s, void *to, const void *from, size_t bytes)
{
    (stays(p, s) ? rd_stream : rd_move)(to, from, bytes);
}
