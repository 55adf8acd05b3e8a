/* prepared.c: plans kept by shape.  The shape asked for last is found by one compare, any other by its hash;
 * finding allocates nothing.  All that are kept take RD_PREPARED_BYTES at most (or are one): what was used
 * longest ago goes first, and if a call or a plan object still holds it, it is freed when they let it go. */
#include "base/mem.h"
#include "base/names.h"
#include "comm/comm.h"

#include <assert.h>
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

/* What a choice depends on: of ranks on one host the root does not matter, and the size by its class alone. */
static uint64_t choice_key(const ronda_comm *c, const rd_call *call, const rd_shape *shape)
{
    const uint64_t flags = (uint64_t)shape->mean << 1 | shape->ordered;
    uint64_t key = mix(2, (uint64_t)shape->kind << 32 | shape->width << 2 | flags);
    key = mix(key, (uint64_t)shape->root << 32);
    for (uint32_t r = 0; call->counts && !call->recv_counts && r < c->size; r++)
        key = mix(key, call->counts[r]);
    return mix(key, shape->count);
}

/* Choices are made for classes of shapes, so that each class is priced once; and all ranks come to the same
 * choice: the first one on a host to make it leaves it to the others.  What is kept is the key of the class
 * with the row in its last byte. */
static const rd_algorithm *choose(ronda_comm *c, const rd_call *call, const rd_shape *of)
{
    const rd_shape shape = rd_class_of(of);
    const uint64_t key = choice_key(c, call, &shape) | 0xff;
    if (!c->link->choices && !c->choices)
        c->choices = rd_alloc(RD_CHOICES * sizeof *c->choices);
    _Atomic uint64_t *choices = c->link->choices ? c->link->choices : c->choices;
    _Atomic uint64_t *at = choices ? &choices[(key >> 8) % RD_CHOICES] : NULL;
    const uint64_t known = at ? atomic_load_explicit(at, memory_order_relaxed) : 0;
    uint32_t row = 0;
    while (rd_algorithms[row].name && row < (known & 0xff))
        row++;
    if (known && (known | 0xff) == key && rd_algorithms[row].name &&
        rd_algorithms[row].kind == call->kind && rd_fits(&rd_algorithms[row], of))
        return &rd_algorithms[row];
    const rd_algorithm *a = rd_choose(&shape, &c->facts, NULL, NULL);
    if (a && at)
        atomic_store_explicit(at, (key & ~(uint64_t)0xff) | (uint64_t)(a - rd_algorithms),
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
    if (!keep_counts(c, call, &shape, &starts, &out->call))
        return false;
    const rd_algorithm *a = call->algorithm ? call->algorithm : c->forced[rd_kind_row(call->kind)];
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
    rd_free(p);
}

/* --- the set --- */

static uint64_t key_of(const ronda_comm *c, const rd_call *call)
{
    uint64_t key = mix(call->count, (uint64_t)call->kind << 48 | (uint64_t)call->purpose << 40 |
                                        (uint64_t)call->in_place << 32 | (uint32_t)call->type);
    key = mix(key, (uint64_t)(uint32_t)call->op << 32 | call->root);
    if (call->algorithm)
        key = mix(key, (uint64_t)(call->algorithm - rd_algorithms));
    for (uint32_t r = 0; call->counts && r < c->size; r++)
        key = mix(key, call->counts[r]);
    for (uint32_t r = 0; call->recv_counts && r < c->size; r++)
        key = mix(key, call->recv_counts[r]);
    return key;
}

static void unlink_age(rd_prepared_set *set, rd_prepared *p)
{
    *(p->newer ? &p->newer->older : &set->newest) = p->older;
    *(p->older ? &p->older->newer : &set->oldest) = p->newer;
}

static void become_newest(rd_prepared_set *set, rd_prepared *p)
{
    p->newer = NULL;
    p->older = set->newest;
    *(set->newest ? &set->newest->newer : &set->oldest) = p;
    set->newest = p;
}

static rd_prepared **bucket_of(const rd_prepared_set *set, uint64_t key)
{
    return &set->buckets[key >> 32 & (set->bucket_count - 1)];
}

/* Out of the set; freed now, or by whoever holds it. */
static void take_out(rd_prepared_set *set, rd_prepared *p)
{
    rd_prepared **at = bucket_of(set, p->key);
    assert(!p->apart && set->count > 0 && set->bytes >= p->bytes);
    for (; *at != p; at = &(*at)->next)
        assert(*at); /* it is in its bucket */
    *at = p->next;
    unlink_age(set, p);
    set->bytes -= p->bytes;
    set->count--;
    assert((set->count == 0) == (set->bytes == 0) && !set->newest == !set->oldest);
    p->apart = true;
    if (!p->users)
        discard(p);
}

/* As many buckets as members.  false: no memory for the first of them; more are not needed, only good. */
static bool more_buckets(rd_prepared_set *set)
{
    enum { FIRST = 16 };
    if (set->count < set->bucket_count)
        return true;
    const uint32_t wanted = set->bucket_count ? 2 * set->bucket_count : FIRST;
    rd_prepared **fresh = rd_alloc(wanted * sizeof *fresh);
    if (!fresh)
        return set->bucket_count > 0;
    rd_free(set->buckets);
    set->buckets = fresh;
    set->bucket_count = wanted;
    for (rd_prepared *p = set->newest; p; p = p->older) {
        rd_prepared **at = bucket_of(set, p->key);
        p->next = *at;
        *at = p;
    }
    return true;
}

rd_prepared *rd_prepared_find(const ronda_comm *c, rd_prepared_set *set, const rd_call *call)
{
    rd_prepared *p = set->newest;
    if (!p || same_call(c, &p->call, call))
        return p;
    const uint64_t key = key_of(c, call);
    for (p = *bucket_of(set, key); p; p = p->next)
        if (p->key == key && same_call(c, &p->call, call)) {
            unlink_age(set, p);
            become_newest(set, p);
            return p;
        }
    return NULL;
}

rd_prepared *rd_prepared_make(ronda_comm *c, const rd_call *call)
{
    rd_prepared_set *set = &c->prepared;
    rd_prepared *p = rd_alloc(sizeof *p);
    if (!p || !more_buckets(set) || !make(c, call, p)) {
        rd_free(p);
        return NULL;
    }
    p->key = key_of(c, &p->call);
    p->bytes = sizeof *p + p->plan->bytes + (call->counts ? 2 * c->size * sizeof(size_t) : 0);
    rd_prepared **at = bucket_of(set, p->key);
    p->next = *at;
    *at = p;
    become_newest(set, p);
    set->bytes += p->bytes;
    set->count++;
    const size_t most = set->most_bytes ? set->most_bytes : RD_PREPARED_BYTES;
    while (set->bytes > most && set->oldest != p)
        take_out(set, set->oldest);
    return p;
}

void rd_prepared_hold(rd_prepared *p)
{
    p->users++;
}

void rd_prepared_drop(rd_prepared *p)
{
    if (!p)
        return;
    assert(p->users > 0);
    if (--p->users == 0 && p->apart)
        discard(p);
}

void rd_prepared_free(rd_prepared_set *set)
{
    while (set->newest)
        take_out(set, set->newest);
    rd_free(set->buckets);
    *set = (rd_prepared_set){.most_bytes = set->most_bytes};
}
