/* prepared.c: plans kept by shape.  The shape asked for last is found by one compare, any other by a
 * walk over at most RD_PREPARED of them; finding allocates nothing. */
#include "base/mem.h"
#include "base/names.h"
#include "comm/comm.h"

#include <string.h>

static bool same_counts(const size_t *a, const size_t *b, uint32_t size)
{
    return a == b || (a && b && memcmp(a, b, size * sizeof *a) == 0);
}

static bool same_call(const ronda_comm *c, const rd_call *a, const rd_call *b)
{
    return a->count == b->count && a->kind == b->kind && a->type == b->type && a->op == b->op &&
           a->root == b->root && a->in_place == b->in_place && a->algorithm == b->algorithm &&
           a->purpose == b->purpose && same_counts(a->counts, b->counts, c->size) &&
           same_counts(a->recv_counts, b->recv_counts, c->size);
}

/* Mixes a word into a hash; any change of any word changes what follows. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* What must be equal on all ranks: of an alltoallv the counts need not. */
static uint64_t hash_of(const ronda_comm *c, const rd_call *call, uint32_t algorithm)
{
    uint64_t hash =
        mix(1, (uint64_t)call->kind << 32 | (uint64_t)call->purpose << 16 | (uint64_t)call->type);
    hash = mix(hash, (uint64_t)call->op);
    hash = mix(hash, call->count);
    if (c->hosts)
        hash = mix(hash, c->hosts->mark);
    for (uint32_t r = 0; call->counts && !call->recv_counts && r < c->size; r++)
        hash = mix(hash, call->counts[r]);
    return mix(hash, (uint64_t)call->root << 32 | algorithm);
}

/* Pricing takes long in large worlds, and all ranks come to the same: the first one to do it leaves
 * the answer to the others.  An answer is the call's hash with the row in its last byte. */
static const rd_algorithm *choose(ronda_comm *c, const rd_call *call, const rd_shape *shape)
{
    const uint64_t hash = hash_of(c, call, UINT32_MAX) | 0xff;
    _Atomic uint64_t *choices = c->link->choices;
    _Atomic uint64_t *at = choices ? &choices[(hash >> 8) % RD_CHOICES] : NULL;
    const uint64_t known = at ? atomic_load_explicit(at, memory_order_relaxed) : 0;
    uint32_t row = 0;
    while (rd_algorithms[row].name && row < (known & 0xff))
        row++;
    if (known && (known | 0xff) == hash && rd_algorithms[row].name &&
        rd_algorithms[row].kind == call->kind && rd_fits(&rd_algorithms[row], shape))
        return &rd_algorithms[row];
    const rd_algorithm *a = rd_choose(shape, &c->facts, NULL, NULL);
    if (a && at)
        atomic_store_explicit(at, (hash & ~(uint64_t)0xff) | (uint64_t)(a - rd_algorithms),
                              memory_order_relaxed);
    return a;
}

/* Room for where blocks begin in either buffer, and for a copy of the counts behind it. */
static bool keep_counts(const ronda_comm *c, const rd_call *call, rd_shape *shape,
                        uint64_t **starts, rd_call *kept)
{
    const rd_kind_facts *k = rd_kind(call->kind);
    const size_t *counts[2] = {call->counts, call->recv_counts ? call->recv_counts : call->counts};
    const size_t n = c->size;
    *kept = *call;
    *starts = NULL;
    if (!k->counted)
        return true;
    *starts = rd_alloc(2 * (n + 1) * sizeof **starts);
    size_t *copy = rd_alloc(2 * n * sizeof *copy);
    if (!*starts || !copy) {
        rd_free(*starts);
        rd_free(copy);
        return false;
    }
    shape->count = 0;
    for (int b = RD_IN; b <= RD_OUT; b++) {
        uint64_t *to = *starts + (size_t)b * (n + 1);
        memcpy(copy + (size_t)b * n, counts[b], n * sizeof *copy);
        for (uint32_t r = 0; r < n; r++) {
            to[r + 1] = to[r] + counts[b][r];
            if (!call->recv_counts && counts[b][r] > shape->count)
                shape->count = counts[b][r];
        }
        if ((b == RD_IN ? k->gives : k->gets) == RD_BLOCKS)
            shape->starts[b] = to;
    }
    kept->counts = copy;
    kept->recv_counts = call->recv_counts ? copy + n : NULL;
    return true;
}

static bool make(ronda_comm *c, const rd_call *call, rd_prepared *out)
{
    const rd_user_op *user = rd_user_op_of(call->op);
    rd_shape shape = {.kind = call->kind,
                      .rank = c->rank,
                      .size = c->size,
                      .root = call->root,
                      .width = (uint32_t)ronda_type_size(call->type),
                      .in_place = call->in_place,
                      .mean = call->op == RONDA_MEAN,
                      .ordered = user && !user->commutes,
                      .count = call->count,
                      .hosts = c->hosts};
    uint64_t *starts;
    *out = (rd_prepared){0};
    if (!keep_counts(c, call, &shape, &starts, &out->call))
        return false;
    const rd_algorithm *a = call->algorithm ? call->algorithm : c->forced[call->kind];
    if (!a || !rd_fits(a, &shape))
        a = choose(c, call, &shape);
    out->plan = a ? rd_plan_build(a, &shape, rd_segment_for(&c->facts, a, &shape)) : NULL;
    rd_free(starts);
    if (!out->plan) {
        rd_free((void *)out->call.counts);
        return false;
    }
    out->fold = call->op && !user ? rd_fold_kernel(call->type, call->op) : NULL;
    out->user = user;
    out->algorithm = (uint32_t)(a - rd_algorithms);
    out->hash = hash_of(c, call, out->algorithm);
    rd_log_say(&c->log, RD_LOG_DEBUG,
               "rank %u: %s of %llu %s by %s: %u steps, %u chunks, %zu bytes of plan", c->rank,
               rd_kind_name(call->kind), (unsigned long long)call->count, rd_type_name(call->type),
               a->name, out->plan->step_count, out->plan->chunks, out->plan->bytes);
    return true;
}

static void discard(rd_prepared *p)
{
    rd_plan_free(p->plan);
    rd_free((void *)p->call.counts);
}

/* The one that was used longest ago, of those that nobody holds; RD_NONE: all are held. */
static uint32_t oldest(const rd_prepared_set *set)
{
    uint32_t old = RD_NONE;
    for (uint32_t i = 0; i < set->count; i++)
        if (!set->at[i].users && (old == RD_NONE || set->at[i].used < set->at[old].used))
            old = i;
    return old;
}

rd_prepared *rd_prepared_find(const ronda_comm *c, rd_prepared_set *set, const rd_call *call)
{
    uint32_t i = set->last;
    if (i < set->count && same_call(c, &set->at[i].call, call))
        return &set->at[i];
    for (i = 0; i < set->count; i++)
        if (same_call(c, &set->at[i].call, call)) {
            set->at[set->last].used = ++set->uses; /* it was used until now */
            set->at[i].used = ++set->uses;
            set->last = i;
            return &set->at[i];
        }
    return NULL;
}

rd_prepared *rd_prepared_make(ronda_comm *c, const rd_call *call)
{
    rd_prepared_set *set = &c->prepared;
    rd_prepared fresh;
    const uint32_t i = set->count < RD_PREPARED ? set->count : oldest(set);
    rd_prepared *at = i == RD_NONE ? rd_alloc(sizeof *at) : &set->at[i];
    if (!at || !make(c, call, &fresh)) {
        if (i == RD_NONE)
            rd_free(at);
        return NULL;
    }
    fresh.used = ++set->uses;
    fresh.apart = i == RD_NONE;
    if (i == set->count)
        set->count++;
    else if (i != RD_NONE)
        discard(at);
    if (i != RD_NONE)
        set->last = i;
    *at = fresh;
    return at;
}

void rd_prepared_hold(rd_prepared *p)
{
    p->users++;
}

void rd_prepared_drop(rd_prepared *p)
{
    if (!p || --p->users || !p->apart)
        return;
    discard(p);
    rd_free(p);
}

void rd_prepared_free(rd_prepared_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        discard(&set->at[i]);
    *set = (rd_prepared_set){0};
}
