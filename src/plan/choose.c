/* choose.c: the price of a plan is read off the plan, so a new algorithm needs no formula of its own.
 *
 *     time  =  rounds * latency                  messages that wait for each other
 *            + messages and bytes                work of the busiest rank
 *            + fill                              what comes down a tree through ranks above
 *
 * With several hosts a step costs what its peer's link does, a round in which anything goes between hosts
 * has their latency, and the busiest host's wire takes its time too, while ranks work on other chunks.
 *
 * Bytes are paid by whoever receives them: ranks that share memory read the sender's where they lie.
 * What a peer stores straight into place costs its receiver no bytes.  With more ranks than cores,
 * all ranks' work is done by few cores, and each round costs switches between them; there, and with few
 * ranks, folds that a rank passes on cost more.  Of many ranks some stand for all: every rank must come to
 * the same choice, so they are ranks fixed by the root and the size, never this rank itself. */
#include "plan/choose.h"

#include "base/mem.h"
#include "plan/hosts.h"

enum { SAMPLES = 16, LEAST_HOSTS = 4, MOST_OF_HOST = 64 };
/* A plan that is never cut needs scratch for whole messages: beyond this it is taken only for want of another. */
enum { MOST_WHOLE_SCRATCH = 4 << 20, FEW = 8 };
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
    facts.part_bytes = 64 << 10;
    return facts;
}

/* Parts of a chunk go to the ranks that fold them and come back while the next chunks are on their way: a few
 * chunks, which should be in the caches still when they come home.  And a rank has one place for all that it
 * sends, shared out among its peers: with more than FEW of them there is room for a few short parts each.
 * Calls that are short stay whole.  Ranks that share cores wait for each other with every message, so theirs
 * must be longer to gain by it, and their parts longer; and two ranks have few parts of which each is long. */
uint64_t rd_segment_for(const rd_facts *facts, const rd_algorithm *a, const rd_shape *s)
{
    enum { LEAST = 4 << 10, ALL_PARTS = 384 << 10, SHORT = 1 << 20, LONG = 4 << 20 };
    const bool crowded = s->size > facts->cpus, pair = s->size == 2;
    const bool gains = !crowded || (s->kind == RONDA_ALLREDUCE && s->size <= FEW);
    if (!facts->part_bytes || !(a->flags & RD_PARTED) || !rd_kind_reduces(s->kind) || !gains ||
        s->size == 1 || s->count <= (crowded || pair ? LONG : SHORT) / s->width)
        return facts->segment_bytes;
    if (s->size <= FEW)
        return pair ? 4 * facts->part_bytes : crowded ? 2 * facts->part_bytes : facts->part_bytes;
    return ALL_PARTS / s->size > LEAST ? ALL_PARTS / s->size : LEAST;
}

/* And over sockets, with 2 to 16 ranks on one machine of 16 cores: what is sent goes through the system twice.
 * Between hosts a wire adds its latency. */
#define SOCKETS(latency)                                                                           \
    {                                                                                              \
        .latency_ns = latency, .switch_ns = 3000, .send_ns = 4500, .receive_ns = 4000,             \
        .lend_ns = 1000, .carry_ns = 0.15, .copy_ns = 0.08, .fold_ns = 0.09,                       \
        .segment_bytes = 1 << 18                                                                   \
    }
static const rd_facts between_hosts = SOCKETS(15000);

rd_facts rd_facts_tcp(uint32_t cpus)
{
    rd_facts facts = SOCKETS(5000);
    facts.cpus = cpus;
    return facts;
}

/* Wires of 10 Gb/s, as above. */
rd_facts rd_facts_mixed(uint32_t cpus)
{
    rd_facts facts = rd_facts_shm(cpus);
    facts.segment_bytes = between_hosts.segment_bytes;
    facts.part_bytes = 0;
    facts.far = &between_hosts;
    facts.wire_ns = 0.8;
    return facts;
}

typedef struct {
    double work_ns, fill_ns;
    uint32_t messages;
    uint64_t sent_far, got_far; /* bytes */
} rank_price;

/* What a step is priced by. */
static const rd_facts *facts_of(const rd_plan *p, const rd_step *s, const rd_facts *facts)
{
    const bool far =
        facts->far && s->peer != RD_NONE && rd_apart(&p->shape, p->shape.rank, s->peer);
    return far ? facts->far : facts;
}

/* A fold into scratch is for a peer to read, and writes where that peer has read before: as dear as
 * staging.  Seen with few ranks, and where ranks share cores. */
static double passing_ns(const rd_plan *p, const rd_step *s, const rd_facts *facts)
{
    const bool passes = s->to_buffer == RD_SCRATCH && facts->copies;
    const bool dear = p->shape.size > facts->cpus || p->shape.size <= FEW;
    return passes && dear ? facts->stage_byte_ns - facts->copy_ns : 0;
}

/* Of two ranks each folds into the memory in which the other's bytes came, and it goes back as it is: what
 * is passed on is not staged.  (More ranks gain too, but less, and not where choices are close.) */
static bool goes_back(const rd_plan *p, const rd_step *s)
{
    const uint32_t send = (uint32_t)(s - p->steps);
    for (uint32_t i = 0; i < p->forward_count && p->shape.size == 2; i++)
        if (p->forwards[i] == send)
            return true;
    return false;
}

/* A copy for peers to read.  If it is short, its lines were fetched in time (see straight.c). */
static double copy_ns(const rd_plan *p, uint64_t bytes, const rd_facts *facts)
{
    const bool fetched = p->straight_lends && facts->carry_ns <= 0 && bytes < RD_FETCHED_BYTES &&
                         p->shape.size <= facts->cpus;
    return (fetched ? LOCAL_STEP_NS : facts->stage_ns) + (double)bytes * facts->stage_byte_ns;
}

static double work_price(const rd_plan *p, const rd_step *s, const rd_facts *facts)
{
    const uint64_t bytes = s->count * p->shape.width;
    const bool lent = bytes > RD_INLINE_BYTES;
    const double size = (double)bytes;

    switch (s->verb) {
    /* What comes back in the next round is stored into place, unless it comes from another host; of twins
     * one is copied for all */
    case RD_SEND:
        if (lent && facts->copies && s->from_buffer != RD_SCRATCH && !goes_back(p, s))
            return facts->send_ns +
                   (s->twin == RD_NONE ? facts->stage_ns + size * facts->stage_byte_ns : 0);
        if (lent && facts->carry_ns <= 0 && s->back != RD_NONE &&
            p->steps[s->back].round == s->round + 1)
            return facts->send_ns - facts->lend_ns - size * (facts->copy_ns - facts->fold_ns / 2);
        return facts->send_ns;
    case RD_RECV:
        return facts->receive_ns + (lent ? facts->lend_ns : 0) + size * facts->copy_ns;
    case RD_FOLD:
        return facts->receive_ns + (lent ? facts->lend_ns : 0) + 2 * size * facts->fold_ns +
               (lent ? size * passing_ns(p, s, facts) : 0);
    case RD_FOLD_MANY: /* the bytes of all its messages are fetched at one time */
        return facts->receive_ns + size * facts->fold_ns +
               (p->groups[s->group].leader == (uint32_t)(s - p->steps) && lent
                    ? facts->lend_ns + size * facts->fold_ns
                    : 0);
    case RD_COPY:
        return s->to_buffer == RD_SCRATCH && lent ? copy_ns(p, bytes, facts)
                                                  : LOCAL_STEP_NS + size * facts->copy_ns;
    default:
        return LOCAL_STEP_NS + 2 * size * facts->fold_ns;
    }
}

static double step_price(const rd_plan *p, const rd_step *s, const rd_facts *facts)
{
    const double bytes = s->peer == RD_NONE ? 0 : (double)(s->count * p->shape.width);
    return work_price(p, s, facts) + bytes * facts->carry_ns;
}

static rank_price price_rank(const rd_plan *p, const rd_facts *facts, uint8_t *far_rounds,
                             uint32_t most_rounds)
{
    rank_price r = {0};
    uint32_t receives = 0;
    double hop = 0, send = facts->send_ns;
    for (uint32_t i = 0; i < p->step_count; i++) {
        const rd_step *s = &p->steps[i];
        const rd_facts *link = facts_of(p, s, facts);
        const double ns = step_price(p, s, link);
        r.work_ns += ns;
        r.messages += s->peer != RD_NONE;
        if (link != facts) {
            *(s->verb == RD_SEND ? &r.sent_far : &r.got_far) += s->count * p->shape.width;
            if (s->round < most_rounds)
                far_rounds[s->round] = 1;
        }
        if (s->peer == RD_NONE || s->verb == RD_SEND)
            continue;
        receives++;
        const double most = link->receive_ns + link->lend_ns +
                            (double)facts->segment_bytes * (link->carry_ns + link->copy_ns);
        hop = ns > most ? most : ns > hop ? ns : hop;
        send = link->send_ns > send ? link->send_ns : send;
    }
    if (p->rounds > receives) /* rounds in which it waits for what others do */
        r.fill_ns = (double)(p->rounds - receives) * (hop + send);
    return r;
}

/* The ranks that stand for all.  With several hosts: the root's host and as many more as there is room
 * for, each with its ranks, so that it is known what goes over its wire. */
typedef struct {
    uint32_t count, ranks[LEAST_HOSTS * MOST_OF_HOST];
} sample;

static sample draw_sample(const rd_shape *s)
{
    const uint32_t n = s->size;
    sample of = {.count = n < SAMPLES ? n : SAMPLES};
    if (!rd_has_hosts(s)) {
        for (uint32_t i = 0; i < of.count; i++)
            of.ranks[i] = (uint32_t)((s->root + (uint64_t)i * n / of.count) % n);
        return of;
    }
    const uint32_t all = s->hosts->count, most = SAMPLES / s->hosts->largest;
    const uint32_t room = most < LEAST_HOSTS ? LEAST_HOSTS : most;
    const uint32_t hosts = n <= SAMPLES || all < room ? all : room;
    of.count = 0;
    for (uint32_t i = 0; i < hosts; i++) {
        const uint32_t host = (uint32_t)((s->hosts->of[s->root] + (uint64_t)i * all / hosts) % all);
        const uint32_t ranks = rd_ranks_on(*s, host);
        const uint32_t some = ranks < MOST_OF_HOST ? ranks : MOST_OF_HOST;
        for (uint32_t k = 0; k < some; k++)
            of.ranks[of.count++] = rd_rank_on(*s, host, (uint32_t)((uint64_t)k * ranks / some));
    }
    return of;
}

/* What has been seen of the samples so far. */
typedef struct {
    double work, most;    /* ns: of the average rank, of the busiest */
    uint8_t *far_rounds;  /* [most_rounds]: something goes between hosts; NULL: nothing can */
    uint32_t most_rounds; /* more than any algorithm has */
    uint32_t host;        /* of the last one, and what its ranks have sent and got: */
    double sent, got, wire;
} tally;

static void count_wire(tally *t, const rd_shape *s, const rank_price *r)
{
    const uint32_t host = s->hosts->of[s->rank], ranks = rd_ranks_on(*s, host);
    const double stands_for = ranks > MOST_OF_HOST ? (double)ranks / MOST_OF_HOST : 1;
    if (host != t->host)
        t->sent = t->got = 0;
    t->host = host;
    t->sent += (double)r->sent_far * stands_for;
    t->got += (double)r->got_far * stands_for;
    const double busier = t->sent > t->got ? t->sent : t->got;
    t->wire = busier > t->wire ? busier : t->wire;
}

/* false: no memory */
static bool price_sample(rd_price *price, tally *t, rd_shape s, const rd_facts *facts,
                         uint32_t samples)
{
    s.in_place = false;
    rd_plan *p = rd_plan_build(price->algorithm, &s, 0);
    if (!p)
        return false;
    const rank_price r = price_rank(p, facts, t->far_rounds, t->most_rounds);
    t->work += r.work_ns / samples;
    t->most = r.work_ns + r.fill_ns > t->most ? r.work_ns + r.fill_ns : t->most;
    if (t->far_rounds)
        count_wire(t, &s, &r);
    price->rounds = p->rounds > price->rounds ? p->rounds : price->rounds;
    price->messages = r.messages > price->messages ? r.messages : price->messages;
    price->sent_bytes =
        p->sent * s.width > price->sent_bytes ? p->sent * s.width : price->sent_bytes;
    if (price->algorithm->flags & RD_WHOLE && p->scratch * s.width > MOST_WHOLE_SCRATCH)
        price->bulky = true;
    rd_plan_free(p);
    return true;
}

/* All rounds but those between hosts are waited for as inside one. */
static double latency_of(const tally *t, const rd_price *price, const rd_facts *facts)
{
    uint32_t far = 0;
    for (uint32_t i = 0; t->far_rounds && i < t->most_rounds; i++)
        far += t->far_rounds[i];
    const double between = far ? far * facts->far->latency_ns : 0;
    return (price->rounds - far) * facts->latency_ns + between;
}

/* Ranks work while the wire does, but for a chunk at either end; and never does all go so well that less
 * than a quarter is waited for. */
static double with_wire(double work, double wire, const rd_algorithm *a, const rd_shape *s,
                        const rd_facts *facts)
{
    const double segment =
        (double)facts->segment_bytes * (a->flags & RD_PARTED ? (double)s->size : 1);
    const double chunks = a->flags & RD_WHOLE ? 1 : (double)s->count * s->width / segment;
    const double alone = chunks < 1 ? 1 : chunks > 4 ? 0.25 : 1 / chunks;
    return work > wire ? work + alone * wire : wire + alone * work;
}

rd_price rd_price_of(const rd_algorithm *a, const rd_shape *shape, const rd_facts *facts)
{
    const uint32_t n = shape->size;
    const sample of = draw_sample(shape);
    rd_price price = {.algorithm = a};
    tally t = {.host = RD_NONE, .most_rounds = 4 * n + 64};
    bool known = true;
    if (facts->far && rd_has_hosts(shape))
        known = (t.far_rounds = rd_alloc(t.most_rounds)) != NULL;
    for (uint32_t i = 0; i < of.count && known; i++) {
        rd_shape s = *shape;
        s.rank = of.ranks[i];
        known = price_sample(&price, &t, s, facts, of.count);
    }
    const double crowd = (double)n / (facts->cpus ? facts->cpus : 1);
    const double all = t.work * crowd;
    price.ns = t.most > all ? t.most : all;
    if (t.far_rounds)
        price.ns = with_wire(price.ns, t.wire * facts->wire_ns, a, shape, facts);
    price.ns += latency_of(&t, &price, facts);
    if (crowd > 1)
        price.ns += price.rounds * facts->switch_ns * crowd;
    rd_free(t.far_rounds);
    return known ? price : (rd_price){0};
}

static bool dearer(const rd_price *a, const rd_price *b)
{
    return a->bulky != b->bulky ? a->bulky : a->ns > b->ns;
}

bool rd_fits(const rd_algorithm *a, const rd_shape *shape)
{
    return !shape->ordered || rd_keeps_order(a, shape);
}

bool rd_is_candidate(const rd_algorithm *a, const rd_shape *shape)
{
    return a->kind == shape->kind && !(a->flags & RD_REFERENCE) && rd_fits(a, shape) &&
           (!(a->flags & RD_BY_HOST) || rd_has_hosts(shape));
}

const rd_algorithm *rd_choose(const rd_shape *shape, const rd_facts *facts, rd_price prices[],
                              uint32_t *count)
{
    rd_price local[RD_MOST_CANDIDATES];
    uint32_t n = 0;
    if (!prices)
        prices = local;
    for (const rd_algorithm *a = rd_algorithms; a->name && n < RD_MOST_CANDIDATES; a++) {
        if (!rd_is_candidate(a, shape))
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
