/* plan.c: writing a plan down.  Generators say their steps here; seal.c makes a plan of them.
 *
 * In place, two of the user's buffers are one.  The builder writes each such range under one name,
 * so that overlaps are seen by comparing numbers:
 *
 *     RD_SAME           in[x]   is  out[x]
 *     RD_SEND_IN_RECV   in[x]   is  out[start of own block + x]
 *     RD_RECV_IN_SEND   out[x]  is  in[start of own block + x]
 */
#include "plan/plan.h"

#include <string.h>

#include "base/mem.h"
#include "plan/algorithms.h"
#include "plan/hosts.h"
#include "plan/raw.h"

#define X(kind, name, generator, flags, about) {RONDA_##kind, #name, generator, flags, about},
const rd_algorithm rd_algorithms[] = {RD_ALGORITHM_TABLE(X){0, NULL, NULL, 0, NULL}};
#undef X
_Static_assert(sizeof rd_algorithms / sizeof *rd_algorithms < 255,
               "a row has one byte in a choice");

const rd_algorithm *rd_algorithm_named(ronda_kind kind, const char *name)
{
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        if (a->kind == kind && strcmp(a->name, name) == 0)
            return a;
    return NULL;
}

/* --- room in growing arrays --- */

static bool grow(rd_raw *raw, void **array, uint32_t count, uint32_t *capacity, size_t width)
{
    if (count < *capacity)
        return true;
    const uint32_t larger = *capacity ? 2 * *capacity : 32;
    void *bigger = rd_realloc(*array, larger * width);
    if (!bigger) {
        raw->failed = true;
        return false;
    }
    *array = bigger;
    *capacity = larger;
    return true;
}

static rd_range one_name(const rd_shape *s, rd_range range)
{
    if (!s->in_place || range.buffer > RD_OUT)
        return range;
    const uint8_t name = rd_place_name(s);
    if (range.buffer == name)
        return range;
    return (rd_range){name, range.at + rd_place_at(s), range.count};
}

static rd_raw_step *add(rd_plan *p, int verb, uint32_t peer, rd_range from, rd_range to)
{
    rd_raw *raw = p->raw;
    if (raw->failed ||
        !grow(raw, (void **)&raw->steps, raw->count, &raw->capacity, sizeof *raw->steps))
        return NULL;
    rd_raw_step *s = &raw->steps[raw->count++];
    if (raw->round >= p->rounds)
        p->rounds = raw->round + 1;
    *s = (rd_raw_step){.verb = (uint8_t)verb,
                       .peer = peer,
                       .group = RD_NONE,
                       .chunk = raw->chunk,
                       .round = raw->round,
                       .first_access = RD_NONE,
                       .from = one_name(&p->shape, from),
                       .to = one_name(&p->shape, to)};
    return s;
}

/* --- what generators say --- */

void rd_round(rd_plan *p, uint32_t round)
{
    p->raw->round = round;
}

void rd_send(rd_plan *p, uint32_t peer, rd_range from)
{
    add(p, RD_SEND, peer, from, from);
}

void rd_recv(rd_plan *p, uint32_t peer, rd_range to)
{
    add(p, RD_RECV, peer, to, to);
}

void rd_fold(rd_plan *p, uint32_t peer, rd_range from, rd_range to, int side)
{
    rd_raw_step *s = add(p, RD_FOLD, peer, from, to);
    if (s)
        s->side = (uint8_t)side;
}

void rd_copy(rd_plan *p, rd_range from, rd_range to)
{
    if (from.count && !rd_same_range(one_name(&p->shape, from), one_name(&p->shape, to)))
        add(p, RD_COPY, RD_NONE, from, to);
}

void rd_merge(rd_plan *p, rd_range from, rd_range to, int side)
{
    rd_raw_step *s = from.count ? add(p, RD_MERGE, RD_NONE, from, to) : NULL;
    if (s)
        s->side = (uint8_t)side;
}

/* A fold that has just made exactly this range divides it in the same pass, before it rounds. */
void rd_scale(rd_plan *p, rd_range range)
{
    rd_raw *raw = p->raw;
    if (!p->shape.mean || range.count == 0 || raw->failed)
        return;
    rd_raw_step *last = raw->count ? &raw->steps[raw->count - 1] : NULL;
    if (last && last->chunk == raw->chunk && rd_same_range(last->to, one_name(&p->shape, range)) &&
        rd_verbs[last->verb].flags & RD_SCALES)
        last->scale = true;
    else
        add(p, RD_SCALE, RD_NONE, range, range);
}

/* The first range that it does this with; else nothing. */
static rd_range first_of(const rd_access list[], uint32_t count, int how)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].how & how)
            return list[i].range;
    return (rd_range){RD_SCRATCH, 0, 0};
}

void rd_apply(rd_plan *p, int verb, const rd_access list[], uint32_t count)
{
    rd_raw *raw = p->raw;
    rd_raw_step *s =
        add(p, verb, RD_NONE, first_of(list, count, RD_READS), first_of(list, count, RD_WRITES));
    if (!s || count == 0)
        return;
    s->first_access = raw->access_count;
    for (uint32_t i = 0; i < count; i++) {
        if (!grow(raw, (void **)&raw->accesses, raw->access_count, &raw->access_capacity,
                  sizeof *raw->accesses))
            return;
        raw->accesses[raw->access_count++] =
            (rd_access){one_name(&p->shape, list[i].range), list[i].how, i + 1 == count};
    }
}

static bool add_member(rd_raw *raw, uint32_t step)
{
    if (!grow(raw, (void **)&raw->members, raw->member_count, &raw->member_capacity,
              sizeof *raw->members))
        return false;
    raw->members[raw->member_count++] = step;
    return true;
}

void rd_fold_many(rd_plan *p, const uint32_t peers[], uint32_t count, rd_range from, rd_range to)
{
    rd_raw *raw = p->raw;
    if (raw->failed)
        return;
    const uint32_t first = raw->member_count;
    uint32_t leader = RD_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t peer = peers ? peers[i] : i;
        if (peer == p->shape.rank) {
            if (!add_member(raw, RD_NONE))
                return;
            continue;
        }
        rd_raw_step *s = add(p, RD_FOLD_MANY, peer, from, to);
        if (!s || !add_member(raw, leader = raw->count - 1))
            return;
        s->group = raw->group_count;
    }
    if (leader == RD_NONE) { /* nothing arrives: what is here is the result */
        raw->member_count = first;
        rd_copy(p, from, to);
        return;
    }
    if (raw->member_count == first + 2 && raw->members[first] != raw->members[first + 1] &&
        (raw->members[first] == RD_NONE || raw->members[first + 1] == RD_NONE)) {
        rd_raw_step *s = &raw->steps[leader]; /* one message and the local range: a fold */
        s->verb = RD_FOLD;
        s->group = RD_NONE;
        s->side = raw->members[first] == RD_NONE ? RD_HERE_LEFT : RD_HERE_RIGHT;
        raw->member_count = first;
        return;
    }
    if (!grow(raw, (void **)&raw->groups, raw->group_count, &raw->group_capacity,
              sizeof *raw->groups))
        return;
    raw->groups[raw->group_count++] = (rd_raw_group){leader, first, raw->member_count - first};
}

/* --- ranges --- */

/* floor(i * count / pieces), without overflow */
static uint64_t cut(uint64_t count, uint64_t pieces, uint64_t i)
{
    return count / pieces * i + count % pieces * i / pieces;
}

/* Elements of a cache line; 1 if they are wider than it. */
static uint64_t line_of(uint32_t width)
{
    return width < 64 ? 64 / width : 1;
}

/* The same on whole cache lines where there are enough of them, so that no line has two owners. */
static uint64_t cut_lines(uint64_t count, uint64_t pieces, uint64_t i, uint32_t width)
{
    const uint64_t line = line_of(width);
    const uint64_t at = cut(count, pieces, i);
    return i == pieces || count < 2 * line * pieces ? at : at - at % line;
}

/* This chunk of the elements at .. at + count */
rd_range rd_chunk_of(const rd_shape *s, int buffer, uint64_t at, uint64_t count)
{
    if (s->chunks == 1)
        return (rd_range){(uint8_t)buffer, at, count};
    const uint64_t lo = cut_lines(count, s->chunks, s->chunk, s->width);
    const uint64_t hi = cut_lines(count, s->chunks, s->chunk + 1, s->width);
    return (rd_range){(uint8_t)buffer, at + lo, hi - lo};
}

rd_range rd_whole(rd_shape s, int buffer)
{
    if (s.starts[RD_IN] || s.starts[RD_OUT])
        return rd_chunk_of(&s, buffer, 0, rd_own_count(&s));
    return (rd_range){(uint8_t)buffer, s.at, s.count};
}

rd_range rd_pieces_of(const rd_shape *s, int buffer, uint32_t pieces, uint32_t first, uint32_t end)
{
    const uint64_t lo = cut_lines(s->count, pieces, first, s->width);
    const uint64_t hi = cut_lines(s->count, pieces, end, s->width);
    return (rd_range){(uint8_t)buffer, s->at + lo, hi - lo};
}

rd_range rd_slots(rd_shape s, int buffer, uint32_t first, uint32_t end)
{
    const uint64_t at = rd_block_at(&s, buffer, first);
    return (rd_range){(uint8_t)buffer, at, rd_block_at(&s, buffer, end) - at};
}

uint64_t rd_widest(rd_shape s, int buffer)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < (s.starts[buffer] ? s.size : 1); i++) {
        const uint64_t count = rd_slot(s, buffer, i).count;
        most = count > most ? count : most;
    }
    return most;
}

uint32_t rd_number(rd_shape s)
{
    return (uint32_t)(((uint64_t)s.rank + s.size - s.root) % s.size);
}

uint32_t rd_numbered(rd_shape s, uint64_t number)
{
    return (uint32_t)((number + s.root) % s.size);
}

rd_range rd_scratch(rd_plan *p, uint64_t at, uint64_t count)
{
    rd_raw *raw = p->raw;
    const rd_range range = {RD_SCRATCH, raw->scratch_base + at, count};
    if (range.at + count > raw->scratch_end)
        raw->scratch_end = range.at + count;
    return range;
}

rd_range rd_state(rd_plan *p, uint64_t at, uint64_t count)
{
    if (at + count > p->raw->state_end)
        p->raw->state_end = at + count;
    return (rd_range){RD_STATE, at, count};
}

uint32_t *rd_peers(rd_plan *p, uint32_t count)
{
    rd_raw *raw = p->raw;
    while (count > raw->peer_capacity)
        if (!grow(raw, (void **)&raw->peers, raw->peer_capacity, &raw->peer_capacity,
                  sizeof *raw->peers))
            return NULL;
    return raw->peers;
}

/* --- buffers --- */

uint64_t rd_block_at(const rd_shape *s, int buffer, uint32_t i)
{
    return s->starts[buffer] ? s->starts[buffer][i] : i * s->count;
}

uint64_t rd_own_count(const rd_shape *s)
{
    const uint64_t *starts = s->starts[RD_IN] ? s->starts[RD_IN] : s->starts[RD_OUT];
    return starts ? starts[s->rank + 1] - starts[s->rank] : s->count;
}

static uint64_t length(const rd_shape *s, int buffer, int has)
{
    return has == RD_BLOCKS  ? rd_block_at(s, buffer, s->size)
           : has == RD_BLOCK ? rd_own_count(s)
                             : 0;
}

uint64_t rd_in_count(const rd_shape *s)
{
    return length(s, RD_IN, rd_kind_gives(s->kind, s->rank, s->root));
}

uint64_t rd_out_count(const rd_shape *s)
{
    return length(s, RD_OUT, rd_kind_gets(s->kind, s->rank, s->root));
}

uint8_t rd_place_name(const rd_shape *s)
{
    return rd_kind(s->kind)->place == RD_RECV_IN_SEND ? RD_IN : RD_OUT;
}

uint64_t rd_place_at(const rd_shape *s)
{
    return rd_kind(s->kind)->place == RD_SAME ? 0 : rd_block_at(s, rd_place_name(s), s->rank);
}

bool rd_can_be_in_place(const rd_shape *s)
{
    return rd_kind(s->kind)->place != RD_APART && rd_kind_gives(s->kind, s->rank, s->root) &&
           rd_kind_gets(s->kind, s->rank, s->root);
}

bool rd_keeps_order(const rd_algorithm *a, const rd_shape *s)
{
    return a->flags & RD_ORDERED && (!(a->flags & RD_BY_HOST) || !s->hosts || s->hosts->in_order);
}

/* --- building --- */

static bool keep_starts(rd_plan *p)
{
    const size_t each = p->shape.size + (size_t)1;
    if (!p->shape.starts[RD_IN] && !p->shape.starts[RD_OUT])
        return true;
    p->starts = rd_alloc(2 * each * sizeof *p->starts);
    for (int b = RD_IN; b <= RD_OUT; b++) {
        const uint64_t *from = p->shape.starts[b];
        uint64_t *to = from && p->starts ? p->starts + (size_t)b * each : NULL;
        if (to)
            memcpy(to, from, each * sizeof *to);
        p->shape.starts[b] = to;
    }
    return p->starts != NULL;
}

_Thread_local rd_plan_work rd_planned;

void rd_plan_restart(rd_plan *p, const rd_algorithm *algorithm, const rd_shape *shape)
{
    rd_raw *raw = p->raw;
    *p = (rd_plan){.algorithm = algorithm, .shape = *shape, .starts = p->starts, .raw = raw};
    p->shape.in_place &= rd_can_be_in_place(shape);
    *raw = (rd_raw){.steps = raw->steps,
                    .capacity = raw->capacity,
                    .groups = raw->groups,
                    .group_capacity = raw->group_capacity,
                    .members = raw->members,
                    .member_capacity = raw->member_capacity,
                    .peers = raw->peers,
                    .peer_capacity = raw->peer_capacity,
                    .accesses = raw->accesses,
                    .access_capacity = raw->access_capacity};
}

rd_plan *rd_plan_begin(const rd_algorithm *algorithm, const rd_shape *shape)
{
    rd_plan *p = rd_alloc(sizeof *p);
    rd_raw *raw = rd_alloc(sizeof *raw);
    if (!p || !raw) {
        rd_free(p);
        rd_free(raw);
        return NULL;
    }
    p->raw = raw;
    rd_plan_restart(p, algorithm, shape);
    raw->failed = !keep_starts(p);
    return p;
}

/* As many chunks as give messages of about segment_bytes, but never so many that the plan outgrows
 * its bound.  Every rank must come to the same number, so only shared facts count. */
static uint64_t chunks_for(const rd_algorithm *a, const rd_shape *s, uint64_t segment_bytes)
{
    if (a->flags & RD_WHOLE || segment_bytes == 0 || s->count == 0)
        return 1;
    const uint64_t parts = a->flags & RD_PARTED ? s->size : 1;
    const uint64_t segment = segment_bytes > s->width ? segment_bytes / s->width : 1;
    const uint64_t whole = segment > UINT64_MAX / parts ? UINT64_MAX : segment * parts;
    const uint64_t wanted = s->count / whole + (s->count % whole != 0);
    const rd_kind_facts *k = rd_kind(s->kind);
    const bool blocks = k->gives == RD_BLOCKS || k->gets == RD_BLOCKS || a->flags & RD_STAR;
    const uint64_t steps = blocks && s->size > RD_MANY ? RD_MANY_STEPS : RD_MAX_STEPS;
    const uint64_t most = steps / 4 / s->size ? steps / 4 / s->size : 1;
    const uint64_t bound = most < RD_MAX_CHUNKS ? most : RD_MAX_CHUNKS;
    return wanted < bound ? wanted : bound;
}

void rd_plan_generate(rd_plan *p, uint64_t segment_bytes)
{
    const uint64_t chunks = chunks_for(p->algorithm, &p->shape, segment_bytes);
    const uint64_t line = line_of(p->shape.width);
    rd_raw *raw = p->raw;

    p->chunks = (uint32_t)chunks;
    for (uint64_t c = 0; c < chunks && !raw->failed; c++) {
        rd_shape s = p->shape;
        s.at = cut_lines(p->shape.count, chunks, c, s.width);
        s.count = cut_lines(p->shape.count, chunks, c + 1, s.width) - s.at;
        s.stride = p->shape.count;
        s.chunk = (uint32_t)c;
        s.chunks = (uint32_t)chunks;
        raw->chunk = (uint32_t)c;
        raw->scratch_base = (raw->scratch_end + line - 1) / line * line;
        rd_round(p, 0);
        p->algorithm->generate(p, s);
    }
    p->scratch = raw->scratch_end;
    p->state = raw->state_end;
    rd_planned.generated++;
    rd_planned.steps += raw->count;
}

rd_plan *rd_plan_build(const rd_algorithm *algorithm, const rd_shape *shape, uint64_t segment_bytes)
{
    rd_plan *p = rd_plan_begin(algorithm, shape);
    if (!p)
        return NULL;
    rd_plan_generate(p, segment_bytes);
    if (!rd_plan_seal(p)) {
        rd_plan_free(p);
        return NULL;
    }
    rd_planned.built++;
    return p;
}

void rd_raw_free(rd_raw *raw)
{
    if (!raw)
        return;
    rd_free(raw->steps);
    rd_free(raw->groups);
    rd_free(raw->members);
    rd_free(raw->accesses);
    rd_free(raw->peers);
    rd_free(raw);
}

void rd_plan_free(rd_plan *p)
{
    if (!p)
        return;
    rd_raw_free(p->raw);
    rd_free(p->steps);
    rd_free(p->deps);
    rd_free(p->forwards);
    rd_free(p->groups);
    rd_free(p->members);
    rd_free(p->accesses);
    rd_free(p->lanes);
    rd_free(p->straight);
    rd_free(p->starts);
    rd_free(p);
}
