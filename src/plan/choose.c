/* choose.c: the price of a plan is read off the plan, so a new algorithm needs no formula of its own.
 *
 *     time  =  rounds * latency                  messages that wait for each other
 *            + messages and bytes                work of the busiest rank
 *            + fill                              what comes down a tree through ranks above
 *
 * Bytes are paid by whoever receives them: ranks that share memory read the sender's where they lie.
 * What a peer stores straight into place costs its receiver no bytes.  With more ranks than cores,
 * all ranks' work is done by few cores, and each round costs switches between them.  Of many ranks
 * some stand for all: every rank must come to the same choice, so they are ranks fixed by the root
 * and the size, never this rank itself. */
#include "plan/choose.h"

enum { SAMPLES = 16 };
/* A plan that is never cut needs scratch for whole messages: beyond this it is taken only for want of another. */
enum { MOST_WHOLE_SCRATCH = 4 << 20 };
static const double LOCAL_STEP_NS = 30;

/* Measured on two machines of 2 and 16 cores, with bench/bench_algorithms.c. */
rd_facts rd_facts_local(uint32_t cpus)
{
    return (rd_facts){.cpus = cpus,
                      .latency_ns = 120,
                      .switch_ns = 1200,
                      .send_ns = 70,
                      .receive_ns = 120,
                      .lend_ns = 300,
                      .stage_ns = 300,
                      .stage_byte_ns = 0.2,
                      .copy_ns = 0.07,
                      .fold_ns = 0.05,
                      .segment_bytes = 1 << 20};
}

/* The same with processes, by `ronda bench`: what a process sends of its own memory is copied to where
 * the others can read it, and is read there by cores that do not share a cache. */
rd_facts rd_facts_shm(uint32_t cpus)
{
    rd_facts facts = rd_facts_local(cpus);
    facts.copies = true;
    facts.copy_ns = 0.08;
    facts.fold_ns = 0.09;
    return facts;
}

/* And over sockets, on one machine and on 10 Gb/s: what is sent goes through the system twice. */
rd_facts rd_facts_tcp(uint32_t cpus)
{
    return (rd_facts){.cpus = cpus,
                      .latency_ns = 15000,
                      .switch_ns = 3000,
                      .send_ns = 4000,
                      .receive_ns = 3000,
                      .lend_ns = 1000,
                      .copy_ns = 0.5,
                      .fold_ns = 0.1,
                      .segment_bytes = 1 << 18};
}

typedef struct {
    double work_ns, fill_ns;
    uint32_t messages;
} rank_price;

static double step_price(const rd_plan *p, const rd_step *s, const rd_facts *facts)
{
    const uint64_t bytes = s->count * p->shape.width;
    const bool lent = bytes > RD_INLINE_BYTES;
    const double size = (double)bytes;

    switch (s->verb) {
    /* What comes back in the next round is stored into place; of twins one is copied for all */
    case RD_SEND:
        if (lent && facts->copies && s->from_buffer != RD_SCRATCH)
            return facts->send_ns +
                   (s->twin == RD_NONE ? facts->stage_ns + size * facts->stage_byte_ns : 0);
        if (lent && s->back != RD_NONE && p->steps[s->back].round == s->round + 1)
            return facts->send_ns - facts->lend_ns - size * (facts->copy_ns - facts->fold_ns / 2);
        return facts->send_ns;
    case RD_RECV:
        return facts->receive_ns + (lent ? facts->lend_ns : 0) + size * facts->copy_ns;
    case RD_FOLD:
        return facts->receive_ns + (lent ? facts->lend_ns : 0) + 2 * size * facts->fold_ns;
    case RD_FOLD_MANY: /* the bytes of all its messages are fetched at one time */
        return facts->receive_ns + size * facts->fold_ns +
               (p->groups[s->group].leader == (uint32_t)(s - p->steps) && lent
                    ? facts->lend_ns + size * facts->fold_ns
                    : 0);
    case RD_COPY:
        return s->to_buffer == RD_SCRATCH && lent ? facts->stage_ns + size * facts->stage_byte_ns
                                                  : LOCAL_STEP_NS + size * facts->copy_ns;
    default:
        return LOCAL_STEP_NS + 2 * size * facts->fold_ns;
    }
}

static rank_price price_rank(const rd_plan *p, const rd_facts *facts)
{
    rank_price r = {0};
    uint32_t receives = 0;
    double hop = 0;
    for (uint32_t i = 0; i < p->step_count; i++) {
        const rd_step *s = &p->steps[i];
        const double ns = step_price(p, s, facts);
        r.work_ns += ns;
        r.messages += s->peer != RD_NONE;
        if (s->peer == RD_NONE || s->verb == RD_SEND)
            continue;
        receives++;
        const double most =
            facts->receive_ns + facts->lend_ns + (double)facts->segment_bytes * facts->copy_ns;
        hop = ns > most ? most : ns > hop ? ns : hop;
    }
    if (p->rounds > receives) /* rounds in which it waits for what others do */
        r.fill_ns = (double)(p->rounds - receives) * (hop + facts->send_ns);
    return r;
}

rd_price rd_price_of(const rd_algorithm *a, const rd_shape *shape, const rd_facts *facts)
{
    const uint32_t n = shape->size;
    const uint32_t samples = n < SAMPLES ? n : SAMPLES;
    rd_price price = {.algorithm = a};
    double work = 0, most = 0;

    for (uint32_t i = 0; i < samples; i++) {
        rd_shape s = *shape;
        s.rank = (uint32_t)((s.root + (uint64_t)i * n / samples) % n);
        s.in_place = false;
        rd_plan *p = rd_plan_build(a, &s, 0);
        if (!p)
            return (rd_price){0};
        const rank_price r = price_rank(p, facts);
        work += r.work_ns / samples;
        most = r.work_ns + r.fill_ns > most ? r.work_ns + r.fill_ns : most;
        price.rounds = p->rounds > price.rounds ? p->rounds : price.rounds;
        price.messages = r.messages > price.messages ? r.messages : price.messages;
        price.sent_bytes =
            p->sent * s.width > price.sent_bytes ? p->sent * s.width : price.sent_bytes;
        if (a->flags & RD_WHOLE && p->scratch * s.width > MOST_WHOLE_SCRATCH)
            price.bulky = true;
        rd_plan_free(p);
    }
    const double crowd = (double)n / (facts->cpus ? facts->cpus : 1);
    const double all = work * crowd;
    price.ns = (most > all ? most : all) + price.rounds * facts->latency_ns;
    if (crowd > 1)
        price.ns += price.rounds * facts->switch_ns * crowd;
    return price;
}

static bool dearer(const rd_price *a, const rd_price *b)
{
    return a->bulky != b->bulky ? a->bulky : a->ns > b->ns;
}

bool rd_fits(const rd_algorithm *a, const rd_shape *shape)
{
    return !shape->ordered || a->flags & RD_ORDERED;
}

const rd_algorithm *rd_choose(const rd_shape *shape, const rd_facts *facts, rd_price prices[],
                              uint32_t *count)
{
    rd_price local[RD_MOST_CANDIDATES];
    uint32_t n = 0;
    if (!prices)
        prices = local;
    for (const rd_algorithm *a = rd_algorithms; a->name && n < RD_MOST_CANDIDATES; a++) {
        if (a->kind != shape->kind || a->flags & RD_REFERENCE || !rd_fits(a, shape))
            continue;
        const rd_price price = rd_price_of(a, shape, facts);
        if (!price.algorithm)
            return NULL;
        uint32_t at = n++;
        for (; at > 0 && dearer(&prices[at - 1], &price); at--)
            prices[at] = prices[at - 1];
        prices[at] = price;
    }
    if (count)
        *count = n;
    return prices[0].algorithm;
}
