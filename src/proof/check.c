/* check.c: the proof that a collective's plans are right, whatever made them.
 *
 *     structure.c  indices, ranges, lanes, groups and marks are sound
 *     matches.c    every send has its receive, with the same size
 *     runs.c       the plans come to their end even if every send waits for its receive, and
 *                  when walked straight; and what the buffers hold then, as terms (terms.c)
 *     races.c      no two steps of a rank touch the same memory in no certain order, so that
 *                  what the buffers hold is the same in every run
 *     check.c      what they hold is what the collective promises
 *
 * The proof is a library of its own, libronda-proof.a, of the command and the tests.
 * None of it asks seal.c how it came to its plan.  Time and memory are about linear in steps and
 * elements; races are looked for one rank at a time. */
#include "proof/check.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "proof/checking.h"

/* --- sentences --- */

bool rd_refuse(rd_checking *c, const char *format, ...)
{
    if (c->proof->why[0])
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->proof->why, sizeof c->proof->why, format, arguments);
    va_end(arguments);
    return false;
}

bool rd_refuse_memory(rd_checking *c)
{
    return rd_refuse(c, "no memory for the proof");
}

const char *rd_step_text(const rd_plan *p, uint32_t step, char text[RD_STEP_TEXT])
{
    const rd_step *s = &p->steps[step];
    const char *verb = s->verb < rd_verb_count ? rd_verbs[s->verb].name : "step";
    if (s->peer == RD_NONE)
        snprintf(text, RD_STEP_TEXT, "local %s #%u", verb, s->ordinal);
    else
        snprintf(text, RD_STEP_TEXT, "%s #%u %s rank %u", verb, s->ordinal,
                 s->verb == RD_SEND ? "to" : "from", s->peer);
    return text;
}

/* --- what the collective promises --- */

typedef struct {
    rd_checking *c;
    uint32_t *seen; /* per rank, or per term for a barrier: the walk that met it last */
    uint32_t walk;
    rd_term *stack;
} reading;

static rd_term result_of(const rd_checking *c, uint32_t rank, uint64_t element)
{
    const rd_shape *s = &c->plans[rank]->shape;
    if (s->in_place && rd_place_name(s) == RD_IN)
        return c->values[c->memory[rank].at[RD_IN] + rd_place_at(s) + element];
    return c->values[c->memory[rank].at[RD_OUT] + element];
}

static bool refuse_result(rd_checking *c, uint32_t rank, uint64_t element, const char *what)
{
    return rd_refuse(c, "rank %u: element %llu of the result %s", rank, (unsigned long long)element,
                     what);
}

/* One leaf of a sum: of the right element, and of a rank that was not met before. */
static bool count_leaf(reading *r, rd_term leaf, uint32_t rank, uint64_t element, uint64_t brought,
                       uint32_t met)
{
    rd_checking *c = r->c;
    const uint32_t from = rd_term_rank(&c->terms, leaf);
    const rd_algorithm *algorithm = c->plans[rank]->algorithm;
    if (rd_term_element(&c->terms, leaf) != brought)
        return rd_refuse(
            c,
            "rank %u: element %llu of the result has rank %u's element %u in it, which belongs elsewhere",
            rank, (unsigned long long)element, from, rd_term_element(&c->terms, leaf));
    if (r->seen[from] == r->walk)
        return rd_refuse(c, "rank %u: element %llu of the result has rank %u's part in it twice",
                         rank, (unsigned long long)element, from);
    r->seen[from] = r->walk;
    const rd_shape *s = &c->plans[rank]->shape;
    const bool ordered = s->ordered || (algorithm && rd_keeps_order(algorithm, s));
    if (ordered && from != met)
        return rd_refuse(
            c,
            "rank %u: element %llu of the result has rank %u's part where rank %u's should stand",
            rank, (unsigned long long)element, from, met);
    return true;
}

/* The result must be made of element `brought` of each of the first `ranks`, once.  Every entry on the stack
 * stands for one leaf at least, so there is room for n of them: more would be too many leaves. */
static bool check_sum(reading *r, uint32_t rank, uint64_t element, uint64_t brought, uint32_t ranks)
{
    rd_checking *c = r->c;
    const rd_terms *t = &c->terms;
    const rd_term term = result_of(c, rank, element);
    const bool mean = c->plans[rank]->shape.mean && c->n > 1;
    rd_term pair[2];
    uint32_t depth = 0, met = 0, count;
    r->walk++;
    if (mean && rd_term_kind(t, term) != RD_TERM_SCALE)
        return refuse_result(c, rank, element,
                             term == RD_GARBAGE ? "is made of memory that nobody wrote"
                                                : "is not divided");
    r->stack[depth++] = mean ? rd_term_operands(t, term, pair, &count)[0] : term;
    while (depth) {
        const rd_term next = r->stack[--depth];
        const int kind = rd_term_kind(t, next);
        if (kind == RD_TERM_GARBAGE)
            return refuse_result(c, rank, element, "is made of memory that nobody wrote");
        if (kind == RD_TERM_SCALE)
            return refuse_result(c, rank, element,
                                 "is divided at the wrong place or once too often");
        if (kind == RD_TERM_STATE || kind == RD_TERM_MADE)
            return refuse_result(c, rank, element,
                                 kind == RD_TERM_STATE ? "has what some rank kept from before in it"
                                                       : "is no sum of what the ranks brought");
        if (kind == RD_TERM_LEAF) {
            if (!count_leaf(r, next, rank, element, brought, met++))
                return false;
            continue;
        }
        const rd_term *operands = rd_term_operands(t, next, pair, &count);
        if (count > c->n - depth)
            return refuse_result(c, rank, element, "has some rank's part in it more than once");
        while (count)
            r->stack[depth++] = operands[--count];
    }
    for (uint32_t q = 0; q < c->n; q++)
        if ((r->seen[q] == r->walk) != (q < ranks))
            return rd_refuse(c, "rank %u: element %llu of the result %s rank %u's part", rank,
                             (unsigned long long)element, q < ranks ? "lacks" : "should not have",
                             q);
    return true;
}

/* Every rank's token must be in it, as often as you like: then nobody leaves before all have come. */
static bool check_token(reading *r, uint32_t rank)
{
    rd_checking *c = r->c;
    const rd_terms *t = &c->terms;
    rd_term pair[2];
    uint32_t depth = 0, met = 0, count;
    r->walk++;
    r->stack[depth++] = result_of(c, rank, 0);
    while (depth) {
        const rd_term next = r->stack[--depth];
        const int kind = rd_term_kind(t, next);
        if (kind == RD_TERM_GARBAGE || kind == RD_TERM_SCALE)
            return rd_refuse(c, "rank %u: the token is made of memory that nobody wrote", rank);
        if (kind == RD_TERM_LEAF || kind == RD_TERM_STATE) {
            met += kind == RD_TERM_LEAF;
            continue;
        }
        const rd_term *operands = rd_term_operands(t, next, pair, &count);
        for (uint32_t i = 0; i < count; i++) {
            if (r->seen[operands[i]] != r->walk)
                r->stack[depth++] = operands[i];
            r->seen[operands[i]] = r->walk;
        }
    }
    return met == c->n ||
           rd_refuse(c, "rank %u: may leave the barrier when %u of %u ranks have come", rank, met,
                     c->n);
}

static bool check_leaf(rd_checking *c, uint32_t rank, uint64_t at, uint32_t owner, uint64_t element)
{
    const rd_term term = result_of(c, rank, at);
    if (term == rd_term_leaf(&c->terms, owner, element))
        return true;
    const int kind = rd_term_kind(&c->terms, term);
    if (kind != RD_TERM_LEAF)
        return refuse_result(c, rank, at,
                             kind == RD_TERM_GARBAGE ? "is memory that nobody wrote"
                             : kind == RD_TERM_STATE ? "is what some rank kept from before"
                             : kind == RD_TERM_MADE  ? "is not what some rank brought"
                                                     : "is folded from several");
    return rd_refuse(
        c,
        "rank %u: element %llu of the result is rank %u's element %u, not rank %u's element %llu",
        rank, (unsigned long long)at, rd_term_rank(&c->terms, term),
        rd_term_element(&c->terms, term), owner, (unsigned long long)element);
}

/* Which rank's block an element of a buffer of RD_BLOCKS is in, and where that begins. */
static uint32_t owner_of(const rd_shape *s, uint64_t e, uint64_t *start)
{
    uint32_t low = 0, high = s->size;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (rd_block_at(s, RD_OUT, middle) <= e)
            low = middle;
        else
            high = middle;
    }
    *start = rd_block_at(s, RD_OUT, low);
    return low;
}

static bool check_block(rd_checking *c, uint32_t rank, uint64_t e)
{
    const rd_shape *s = &c->plans[rank]->shape;
    uint64_t start;
    const uint32_t owner = owner_of(s, e, &start);
    const bool each = rd_kind(s->kind)->gives == RD_BLOCKS; /* alltoall: one for each rank */
    const uint64_t at = each ? rd_block_at(&c->plans[owner]->shape, RD_IN, rank) : 0;
    return check_leaf(c, rank, e, owner, at + e - start);
}

static bool check_element(reading *r, uint32_t rank, uint64_t e)
{
    rd_checking *c = r->c;
    const rd_shape *s = &c->plans[rank]->shape;
    const rd_kind_facts *k = rd_kind(s->kind);
    if (s->kind == RONDA_BARRIER)
        return check_token(r, rank);
    if (s->kind == RONDA_BROADCAST)
        return check_leaf(c, rank, e, s->root, e);
    if (s->kind == RONDA_ALLREDUCE && rank != 0)
        return result_of(c, rank, e) == result_of(c, 0, e) ||
               refuse_result(c, rank, e, "is not what rank 0 has, or not folded in the same order");
    if (k->gets == RD_BLOCKS)
        return check_block(c, rank, e);
    const uint64_t brought = e + (k->gives == RD_BLOCKS ? rd_block_at(s, RD_IN, rank) : 0);
    if (!k->reduces)
        return check_leaf(c, rank, e, s->root, brought);
    const uint32_t ranks = s->kind == RONDA_SCAN ? rank + 1 : s->kind == RONDA_EXSCAN ? rank : c->n;
    return check_sum(r, rank, e, brought, ranks);
}

/* What the next run begins with must be something, too. */
static bool check_state(rd_checking *c, uint32_t rank)
{
    for (uint64_t e = 0; e < c->plans[rank]->state; e++)
        if (c->values[c->memory[rank].at[RD_STATE] + e] == RD_GARBAGE)
            return rd_refuse(c, "rank %u: state[%llu] is left as memory that nobody wrote", rank,
                             (unsigned long long)e);
    return true;
}

bool rd_check_results(rd_checking *c)
{
    const bool barrier = c->plans[0]->shape.kind == RONDA_BARRIER;
    const size_t room = barrier ? 1 + (size_t)c->terms.leaves + c->terms.count : c->n;
    reading r = {
        .c = c, .seen = rd_alloc(room * sizeof *r.seen), .stack = rd_alloc(room * sizeof *r.stack)};
    bool ok = r.seen && r.stack ? true : rd_refuse_memory(c);
    for (uint32_t rank = 0; rank < c->n && ok; rank++) {
        const uint64_t count = rd_out_count(&c->plans[rank]->shape);
        for (uint64_t e = 0; e < count && ok; e++)
            ok = check_element(&r, rank, e);
        ok = ok && check_state(c, rank);
    }
    rd_free(r.seen);
    rd_free(r.stack);
    return ok;
}

/* --- the whole --- */

static bool allocate(rd_checking *c)
{
    c->lane_base = rd_alloc((c->n + (size_t)1) * sizeof *c->lane_base);
    c->step_base = rd_alloc((c->n + (size_t)1) * sizeof *c->step_base);
    c->group_base = rd_alloc((c->n + (size_t)1) * sizeof *c->group_base);
    c->memory = rd_alloc(c->n * sizeof *c->memory);
    c->ordered = rd_alloc(c->n * sizeof *c->ordered);
    return c->lane_base && c->step_base && c->group_base && c->memory && c->ordered;
}

static bool allocate_more(rd_checking *c)
{
    c->lane_rank = rd_alloc((c->lane_base[c->n] + (size_t)1) * sizeof *c->lane_rank);
    c->match = rd_alloc((c->lane_base[c->n] + (size_t)1) * sizeof *c->match);
    c->order = rd_alloc((c->step_base[c->n] + (size_t)1) * sizeof *c->order);
    return c->lane_rank && c->match && c->order;
}

static bool prove(rd_checking *c)
{
    if (!allocate(c))
        return rd_refuse_memory(c);
    if (!rd_check_structure(c))
        return false;
    uint64_t brought = c->plans[0]->shape.kind == RONDA_BROADCAST ? c->plans[0]->shape.count : 0;
    uint64_t states = 0;
    for (uint32_t r = 0; r < c->n; r++) {
        const uint64_t count = rd_in_count(&c->plans[r]->shape);
        brought = count > brought ? count : brought;
        states = c->plans[r]->state > states ? c->plans[r]->state : states;
    }
    if (!rd_terms_start(&c->terms, c->n, brought, states))
        return rd_refuse(c, "%llu elements on each of %u ranks are too many for a proof",
                         (unsigned long long)(brought + states), c->n);
    if (!allocate_more(c))
        return rd_refuse_memory(c);
    return rd_check_matches(c) && rd_check_runs(c) && rd_check_races(c) && rd_check_results(c);
}

rd_proof rd_check_plans(rd_plan *const plans[], uint32_t n)
{
    rd_proof proof = {0};
    rd_checking c = {.plans = plans, .n = n, .proof = &proof};
    proof.ok = n > 0 ? prove(&c) : rd_refuse(&c, "a world without ranks");
    proof.terms = (uint64_t)c.terms.leaves + c.terms.count;
    rd_terms_free(&c.terms);
    rd_free(c.lane_base);
    rd_free(c.step_base);
    rd_free(c.group_base);
    rd_free(c.lane_rank);
    rd_free(c.match);
    rd_free(c.memory);
    rd_free(c.values);
    rd_free(c.order);
    rd_free(c.ordered);
    return proof;
}

/* Blocks of all lengths up to `count`, some of them empty. */
static uint64_t ragged(uint64_t count, uint32_t from, uint32_t to)
{
    const uint64_t mixed = (from * UINT64_C(7) + to * UINT64_C(13) + 5) % 11;
    return mixed == 0 ? 0 : mixed == 1 ? count : count * mixed / 11 + (mixed & 1 && count > 2);
}

bool rd_ragged_starts(rd_shape *s, uint64_t count, uint64_t starts[])
{
    const rd_kind_facts *k = rd_kind(s->kind);
    const bool mine = s->kind == RONDA_ALLTOALLV;
    const uint32_t n = s->size;
    if (!k->counted)
        return false;
    s->count = 0;
    for (int b = RD_IN; b <= RD_OUT; b++) {
        uint64_t *to = starts + (size_t)b * (n + (size_t)1);
        if ((b == RD_IN ? k->gives : k->gets) != RD_BLOCKS)
            continue;
        to[0] = 0;
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t length = !mine        ? ragged(count, i, 0)
                                    : b == RD_IN ? ragged(count, s->rank, i)
                                                 : ragged(count, i, s->rank);
            to[i + 1] = to[i] + length;
            s->count = length > s->count && !mine ? length : s->count;
        }
        s->starts[b] = to;
    }
    return true;
}

rd_proof rd_check_call(const rd_algorithm *a, const rd_shape *call, int place,
                       uint64_t segment_bytes)
{
    rd_proof proof = {0};
    const uint32_t size = call->size;
    rd_checking c = {.n = size, .proof = &proof};
    rd_plan **plans = rd_alloc(size * sizeof *plans);
    uint64_t *starts = rd_alloc(2 * (size + (size_t)1) * sizeof *starts);
    bool built = plans && starts ? true : rd_refuse_memory(&c);
    for (uint32_t r = 0; r < size && built; r++) {
        rd_shape s = *call;
        s.kind = a->kind;
        s.rank = r;
        s.root = rd_kind_rooted(a->kind) ? call->root : 0;
        s.mean = call->mean && rd_kind_means(a->kind);
        if (a->kind == RONDA_BARRIER)
            s.width = 1, s.count = 1;
        s.in_place =
            (place == RD_PLACE_ALL || (place == RD_PLACE_MIXED && r % 2)) && rd_can_be_in_place(&s);
        rd_ragged_starts(&s, call->count, starts);
        plans[r] = rd_plan_build(a, &s, segment_bytes);
        built = plans[r] ? true : rd_refuse_memory(&c);
    }
    if (built)
        proof = rd_check_plans(plans, size);
    for (uint32_t r = 0; plans && r < size; r++)
        rd_plan_free(plans[r]);
    rd_free(plans);
    rd_free(starts);
    return proof;
}

rd_proof rd_check_world(const rd_algorithm *a, uint32_t size, uint64_t count, uint32_t root,
                        uint32_t width, bool mean, int place, uint64_t segment_bytes)
{
    const rd_shape call = {
        .size = size, .root = root, .width = width, .mean = mean, .count = count};
    return rd_check_call(a, &call, place, segment_bytes);
}
