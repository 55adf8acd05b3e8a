/* choose.c: the price of a plan is read off its steps as the generator says them, so a new algorithm needs no
 * formula of its own, and nothing is sealed that is not run.
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
 * the same choice, so they are ranks fixed by the root and the size, never this rank itself.  Where ranks
 * have thousands of steps, few of them are looked at, and none more of what costs more already. */
#include "plan/choose.h"

#include "base/mem.h"
#include "plan/hosts.h"
#include "plan/raw.h"
#include "plan/sample.h"

#include <math.h>
#include <string.h>

/* Two ranks at least are looked at, and no more after so many steps; of hosts, fewer of their ranks. */
enum { ENOUGH_STEPS = 4000 };
/* A plan that is never cut needs scratch for whole messages: beyond this it is taken only for want of another. */
enum { MOST_WHOLE_SCRATCH = 4 << 20, FEW = 8 };
static const double LOCAL_STEP_NS = 30;

/* Parts of a chunk go to the ranks that fold them and come back while the next chunks are on their way: a few
 * chunks, which should be in the caches still when they are released.  And a rank has one place for all that it
 * sends, shared out among its peers: with more than FEW of them there is room for a few short parts each.
 * Calls that are short stay whole.  Ranks that share cores wait for each other with every message, so theirs
 * must be longer to gain by it, and their parts longer; and two ranks have few parts of which each is long.
 * Of more than MANY ranks a plan of many chunks takes as long to write as it gains. */
uint64_t rd_segment_for(const rd_facts *facts, const rd_algorithm *a, const rd_shape *s)
{
    enum { LEAST = 4 << 10, ALL_PARTS = 384 << 10, SHORT = 1 << 20, LONG = 4 << 20, MANY = 512 };
    const bool crowded = s->size > facts->cpus, pair = s->size == 2;
    const bool gains = crowded ? s->kind == RONDA_ALLREDUCE && s->size <= FEW : s->size <= MANY;
    if (!facts->part_bytes || !(a->flags & RD_PARTED) || !rd_kind_reduces(s->kind) || !gains ||
        s->size == 1 || s->count <= (crowded || pair ? LONG : SHORT) / s->width)
        return facts->segment_bytes;
    if (s->size <= FEW)
        return pair ? 4 * facts->part_bytes : crowded ? 2 * facts->part_bytes : facts->part_bytes;
    return ALL_PARTS / s->size > LEAST ? ALL_PARTS / s->size : LEAST;
}

typedef struct {
    double work_ns, fill_ns;
    uint32_t idle, row;
    uint32_t messages;
    uint64_t sent_bytes, sent_far, got_far;
} rank_price;

/* What is known of the steps with a peer. */
typedef struct {
    uint32_t sent[2];  /* 1 + the last step that sent to it, and the one before */
    uint32_t lanes[2]; /* steps from it, and to it */
} peer_steps;

/* What is known of a rank's steps, for the price of each. */
typedef struct {
    const rd_plan *plan;
    const rd_raw *raw;
    bool straight_lends; /* as seal.c finds it */
    peer_steps *peers;   /* [size] */
} pricing;

/* What a step is priced by. */
static const rd_facts *facts_of(const rd_plan *p, const rd_raw_step *s, const rd_facts *facts)
{
    const bool far =
        facts->far && s->peer != RD_NONE && rd_apart(&p->shape, p->shape.rank, s->peer);
    return far ? facts->far : facts;
}

/* A fold into scratch is for a peer to read, and writes where that peer has read before: as expensive
 * as staging.  Seen with few ranks, and where ranks share cores. */
static double passing_ns(const rd_plan *p, const rd_raw_step *s, const rd_facts *facts)
{
    const bool passes = s->to.buffer == RD_SCRATCH && facts->copies;
    const bool expensive = p->shape.size > facts->cpus || p->shape.size <= FEW;
    return passes && expensive ? facts->stage_byte_ns - facts->copy_ns : 0;
}

/* Of two ranks each folds into the memory in which the other's bytes came, and it goes back as it is: what
 * is passed on is not staged.  (More ranks gain too, but less, and not where choices are close.) */
static bool goes_back(const pricing *of, uint32_t step)
{
    const rd_raw_step *steps = of->raw->steps;
    for (uint32_t i = step; of->plan->shape.size == 2 && i-- > 0;)
        if (steps[i].verb != RD_SEND && rd_same_range(steps[i].to, steps[step].from))
            return steps[i].peer != RD_NONE;
    return false;
}

/* Sends of one range that follow each other: all but the last are one copy with the next. */
static bool same_range_follows(const rd_raw *raw, uint32_t step)
{
    const rd_raw_step *a = &raw->steps[step], *b = a + 1;
    return step + 1 < raw->count && b->verb == RD_SEND && rd_same_range(a->from, b->from) &&
           a->peer != b->peer && a->chunk == b->chunk && a->round == b->round;
}

/* A copy for peers to read.  If it is short, its lines were fetched in time (see straight.c). */
static double copy_ns(const pricing *of, uint64_t bytes, const rd_facts *facts)
{
    const bool fetched = of->straight_lends && facts->carry_ns <= 0 && bytes < RD_FETCHED_BYTES &&
                         of->plan->shape.size <= facts->cpus;
    return (fetched ? LOCAL_STEP_NS : facts->stage_ns) + (double)bytes * facts->stage_byte_ns;
}

/* Blocks of an alltoall that are copied together cost what they do one by one: so it was measured. */
static double copy_price(const pricing *of, const rd_raw_step *s, const rd_facts *facts)
{
    const rd_shape *shape = &of->plan->shape;
    const uint64_t blocks = shape->kind == RONDA_ALLTOALL ? s->to.count / shape->count : 1;
    const uint64_t bytes = s->to.count / blocks * shape->width;
    const bool staged = s->to.buffer == RD_SCRATCH && bytes > RD_INLINE_BYTES;
    return (double)blocks *
           (staged ? copy_ns(of, bytes, facts) : LOCAL_STEP_NS + (double)bytes * facts->copy_ns);
}

/* Of two, the one that costs bytes is copied to where the peer can read it; of a multicast
 * group one is, for all. */
static bool is_staged(const pricing *of, uint32_t step, bool lent, const rd_facts *facts)
{
    return lent && facts->copies && of->raw->steps[step].from.buffer != RD_SCRATCH &&
           !goes_back(of, step);
}

/* Of one peer's message; those of a group are all fetched at one time, by the leader. */
static double receive_price(const pricing *of, uint32_t step, double size, const rd_facts *facts)
{
    const rd_raw_step *s = &of->raw->steps[step];
    const rd_verb *v = &rd_verbs[s->verb];
    const bool lent = size > RD_INLINE_BYTES;
    const double work = size * v->copied * facts->copy_ns + size * v->folded * facts->fold_ns;
    if (s->group == RD_NONE)
        return facts->receive_ns + (lent ? facts->lend_ns : 0) + work +
               (lent && v->flags & RD_FOLDS ? size * passing_ns(of->plan, s, facts) : 0);
    const bool fetches = of->raw->groups[s->group].leader == step && lent;
    return facts->receive_ns + work + (fetches ? facts->lend_ns + size * facts->fold_ns : 0);
}

/* Elements that its passes go over. */
static uint64_t worked_on(const rd_raw *raw, uint32_t step)
{
    uint64_t elements = 0;
    uint32_t i = raw->steps[step].first_access;
    if (i == RD_NONE)
        return raw->steps[step].to.count;
    do {
        elements += raw->accesses[i].range.count;
    } while (!raw->accesses[i++].last);
    return elements;
}

static double work_price(const pricing *of, uint32_t step, const rd_facts *facts)
{
    const rd_raw_step *s = &of->raw->steps[step];
    const rd_verb *v = &rd_verbs[s->verb];
    const uint64_t bytes = worked_on(of->raw, step) * of->plan->shape.width;
    const bool lent = bytes > RD_INLINE_BYTES;
    const double size = (double)bytes;

    if (v->lane == RD_LANE_FROM)
        return receive_price(of, step, size, facts);
    if (v->lane == RD_LANE_TO)
        return facts->send_ns +
               (is_staged(of, step, lent, facts) && !same_range_follows(of->raw, step)
                    ? facts->stage_ns + size * facts->stage_byte_ns
                    : 0);
    if (s->verb == RD_COPY)
        return copy_price(of, s, facts);
    return LOCAL_STEP_NS + size * v->copied * facts->copy_ns + size * v->folded * facts->fold_ns;
}

/* What was sent and comes back in the next round is stored into place by the peer, unless it comes from
 * another host: what is saved by it. */
static double returned_ns(const pricing *of, uint32_t step, const rd_facts *facts)
{
    const rd_raw_step *r = &of->raw->steps[step];
    const uint64_t bytes = r->to.count * of->plan->shape.width;
    const bool lent = bytes > RD_INLINE_BYTES;
    if (r->verb != RD_RECV || r->to.buffer == RD_SCRATCH || !lent || facts->carry_ns > 0)
        return 0;
    for (int i = 0; i < 2; i++) {
        const uint32_t sent = of->peers[r->peer].sent[i];
        const rd_raw_step *s = sent ? &of->raw->steps[sent - 1] : NULL;
        if (s && r->chunk == s->chunk && r->to.count == s->from.count && r->to.at == s->from.at &&
            s->from.buffer != RD_SCRATCH && r->round == s->round + 1 &&
            !is_staged(of, sent - 1, lent, facts))
            return facts->lend_ns + (double)bytes * (facts->copy_ns - facts->fold_ns / 2);
    }
    return 0;
}

/* As seal.c: no send can block, and some are lent. */
static bool find_straight_lends(pricing *of)
{
    const rd_plan *p = of->plan;
    const uint64_t most = p->algorithm->flags & RD_COPIES ? RD_STRAIGHT_BYTES : RD_INLINE_BYTES;
    bool lends = false;
    for (uint32_t i = 0; i < of->raw->count; i++) {
        const rd_raw_step *s = &of->raw->steps[i];
        if (s->peer == RD_NONE)
            continue;
        if (s->to.count > most / p->shape.width ||
            ++of->peers[s->peer].lanes[s->verb == RD_SEND] > RD_STRAIGHT_SENDS)
            return false;
        lends |= s->to.count > RD_INLINE_BYTES / p->shape.width;
    }
    return lends;
}

/* The rounds of a rank in which others work and it waits, and its sends in a row.  Over sockets a send takes its sender
 * as long as all the rest takes: it does not wait while it sends, and two sends in a row take twice as long, also for
 * those who wait for the second.  In memory a send is next to nothing, and receives alone are counted. */
static void find_idle(const pricing *of, const rd_facts *facts, rank_price *r)
{
    const bool sockets = facts->carry_ns > 0 && of->plan->rounds <= 64;
    uint32_t receives = 0, row = 0, last = UINT32_MAX;
    uint64_t busy = 0;
    for (uint32_t i = 0; i < of->raw->count; i++) {
        const rd_raw_step *s = &of->raw->steps[i];
        const bool sends = s->verb == RD_SEND;
        if (s->peer == RD_NONE)
            continue;
        receives += !sends;
        busy |= sockets ? UINT64_C(1) << s->round : 0;
        row = !sends ? row : last == s->round ? row + 1 : 1;
        last = sends ? s->round : last;
        r->row = sockets && row > r->row ? row : r->row;
    }
    const uint32_t own = sockets ? (uint32_t)__builtin_popcountll(busy) : receives;
    r->idle = of->plan->rounds > own ? of->plan->rounds - own : 0;
}

static rank_price price_rank(pricing *of, const rd_facts *facts, uint8_t *far_rounds,
                             uint32_t most_rounds)
{
    const rd_plan *p = of->plan;
    rank_price r = {0};
    double hop = 0, send = facts->send_ns;
    of->straight_lends = find_straight_lends(of);
    for (uint32_t i = 0; i < of->raw->count; i++) {
        const rd_raw_step *s = &of->raw->steps[i];
        const rd_facts *link = facts_of(p, s, facts);
        const uint64_t bytes = s->to.count * p->shape.width;
        const double carried = s->peer == RD_NONE ? 0 : (double)bytes * link->carry_ns;
        const double ns = work_price(of, i, link) + carried;
        r.work_ns += ns - returned_ns(of, i, link);
        r.messages += s->peer != RD_NONE;
        if (s->verb == RD_SEND) {
            uint32_t *sent = of->peers[s->peer].sent;
            sent[1] = sent[0];
            sent[0] = i + 1;
            r.sent_bytes += bytes;
        }
        if (link != facts) {
            *(s->verb == RD_SEND ? &r.sent_far : &r.got_far) += bytes;
            if (s->round < most_rounds)
                far_rounds[s->round] = 1;
        }
        if (s->peer == RD_NONE || s->verb == RD_SEND)
            continue;
        const double most = link->receive_ns + link->lend_ns +
                            (double)facts->segment_bytes * (link->carry_ns + link->copy_ns);
        hop = ns > most ? most : ns > hop ? ns : hop;
        send = link->send_ns > send ? link->send_ns : send;
    }
    find_idle(of, facts, &r);
    r.fill_ns = r.idle * (hop + send);
    return r;
}

/* What has been seen of the samples so far. */
typedef struct {
    double work, most;    /* ns: of all ranks that those looked at stand for, of the busiest */
    uint32_t idle, row;   /* the most of any: see find_idle() */
    double ranks;         /* how many those are */
    uint64_t steps;       /* that were looked at */
    uint8_t *far_rounds;  /* [most_rounds]: something goes between hosts; NULL: nothing can */
    uint32_t most_rounds; /* more than any algorithm has */
    uint32_t host;        /* of the last one, and what its ranks have sent and got: */
    double sent, got, wire;
} tally;

/* Memory that all that is priced for one choice shares. */
typedef struct {
    rd_plan *plan;       /* the rank that is looked at */
    peer_steps *peers;   /* [size]: all 0 between ranks */
    uint8_t *far_rounds; /* [most_rounds], or NULL, as in a tally */
    uint32_t most_rounds;
    rd_sample many, few; /* few: with several hosts and many ranks, for plans of many steps */
} workspace;

static void count_wire(tally *t, const rd_shape *s, const rank_price *r, double stands_for)
{
    const uint32_t host = s->hosts->of[s->rank];
    if (host != t->host)
        t->sent = t->got = 0;
    t->host = host;
    t->sent += (double)r->sent_far * stands_for;
    t->got += (double)r->got_far * stands_for;
    const double busier = t->sent > t->got ? t->sent : t->got;
    t->wire = busier > t->wire ? busier : t->wire;
}

/* false: no memory */
static bool price_sample(const workspace *w, rd_price *price, tally *t, rd_shape s,
                         const rd_facts *facts, double stands_for)
{
    rd_plan *p = w->plan;
    s.in_place = false;
    rd_plan_restart(p, price->algorithm, &s);
    rd_plan_generate(p, 0);
    pricing of = {.plan = p, .raw = p->raw, .peers = w->peers};
    const bool known = !p->raw->failed;
    const rank_price r =
        known ? price_rank(&of, facts, t->far_rounds, t->most_rounds) : (rank_price){0};
    t->work += r.work_ns * stands_for;
    t->ranks += stands_for;
    t->most = r.work_ns + r.fill_ns > t->most ? r.work_ns + r.fill_ns : t->most;
    t->idle = r.idle > t->idle ? r.idle : t->idle;
    t->row = r.row > t->row ? r.row : t->row;
    t->steps += p->raw->count;
    if (t->far_rounds)
        count_wire(t, &s, &r, stands_for);
    price->rounds = p->rounds > price->rounds ? p->rounds : price->rounds;
    price->messages = r.messages > price->messages ? r.messages : price->messages;
    price->sent_bytes = r.sent_bytes > price->sent_bytes ? r.sent_bytes : price->sent_bytes;
    if (price->algorithm->flags & RD_WHOLE && p->scratch * s.width > MOST_WHOLE_SCRATCH)
        price->bulky = true;
    for (uint32_t i = 0; i < p->raw->count; i++)
        if (p->raw->steps[i].peer != RD_NONE)
            w->peers[p->raw->steps[i].peer] = (peer_steps){{0}, {0}};
    return known;
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

/* What the samples come to; `ranks` is how many they stand for. */
static double sum_up(const tally *t, const rd_price *price, const rd_shape *shape,
                     const rd_facts *facts, double ranks)
{
    const double crowd = (double)shape->size / (facts->cpus ? facts->cpus : 1);
    const double all = t->work / ranks * crowd;
    const double behind = t->row > 1 ? (double)t->idle * (t->row - 1) * facts->send_ns : 0;
    double ns = t->most + behind > all ? t->most + behind : all;
    if (t->far_rounds)
        ns = with_wire(ns, t->wire * facts->wire_ns, price->algorithm, shape, facts);
    ns += latency_of(t, price, facts);
    return crowd > 1 ? ns + price->rounds * facts->switch_ns * crowd : ns;
}

static tally new_tally(const workspace *w)
{
    if (w->far_rounds)
        memset(w->far_rounds, 0, w->most_rounds);
    return (tally){.host = RD_NONE, .most_rounds = w->most_rounds, .far_rounds = w->far_rounds};
}

/* One more rank, and what it comes to so far.  false: no memory */
static bool look_at(const workspace *w, const rd_sample *of, uint32_t i, const rd_shape *shape,
                    const rd_facts *facts, rd_price *price, tally *t)
{
    rd_shape s = *shape;
    s.rank = of->ranks[i];
    const bool known = price_sample(w, price, t, s, facts, of->weight[i]);
    price->ns = sum_up(t, price, shape, facts, of->all);
    return known;
}

/* The price, or, once it is more than `enough` whatever is still to come, something that is; nor does the
 * price of what is bulky matter, unless `all` are wanted. */
static rd_price price_up_to(const workspace *w, const rd_algorithm *a, const rd_shape *shape,
                            const rd_facts *facts, double enough, bool all)
{
    const rd_sample *of = w->few.count ? &w->few : &w->many;
    rd_price price = {.algorithm = a};
    tally t = new_tally(w);
    bool known = look_at(w, of, 0, shape, facts, &price, &t);
    uint32_t i = 1;
    if (of == &w->few && t.steps * (w->many.count - 1) <= ENOUGH_STEPS) {
        of = &w->many;
        price = (rd_price){.algorithm = a};
        t = new_tally(w);
        i = 0;
    }
    for (; i < of->count && known && price.ns <= enough && (all || !price.bulky); i++) {
        if (i >= 2 && t.steps > ENOUGH_STEPS && !rd_has_hosts(shape))
            break;
        known = look_at(w, of, i, shape, facts, &price, &t);
    }
    if (known && price.ns <= enough)
        price.ns = sum_up(&t, &price, shape, facts, t.ranks);
    return known ? price : (rd_price){0};
}

static void close_workspace(workspace *w)
{
    rd_plan_free(w->plan);
    rd_free(w->peers);
    rd_free(w->far_rounds);
}

/* false: no memory */
static bool open_workspace(workspace *w, const rd_shape *shape, const rd_facts *facts)
{
    const bool far = facts->far && rd_has_hosts(shape);
    *w = (workspace){.most_rounds = 4 * shape->size + 64};
    w->plan = rd_plan_begin(rd_algorithms, shape);
    w->peers = rd_alloc(shape->size * sizeof *w->peers);
    w->far_rounds = far ? rd_alloc(w->most_rounds) : NULL;
    rd_sample_many(shape, &w->many);
    if (rd_has_hosts(shape) && shape->size > RD_SAMPLE_OF_HOST)
        rd_sample_few(shape, &w->few);
    if (w->plan && w->peers && (w->far_rounds || !far))
        return true;
    close_workspace(w);
    return false;
}

rd_price rd_price_of(const rd_algorithm *a, const rd_shape *shape, const rd_facts *facts)
{
    workspace w;
    if (!open_workspace(&w, shape, facts))
        return (rd_price){0};
    const rd_price price = price_up_to(&w, a, shape, facts, HUGE_VAL, true);
    close_workspace(&w);
    return price;
}

/* Of those that cost the same the first of the table is taken. */
static bool costs_more(const rd_price *a, const rd_price *b)
{
    if (a->bulky != b->bulky)
        return a->bulky;
    return a->ns != b->ns ? a->ns > b->ns : a->algorithm > b->algorithm;
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

rd_shape rd_class_of(const rd_shape *shape)
{
    enum { EXACT = 256 };
    rd_shape s = *shape;
    const bool counted = s.starts[RD_IN] || s.starts[RD_OUT];
    const uint64_t bytes = s.count * s.width;
    if (bytes >= EXACT && !counted) {
        const int shift = 61 - __builtin_clzll(bytes); /* all but three digits */
        s.count = (bytes >> shift << shift) / s.width;
    }
    if (!rd_has_hosts(&s) && !counted)
        s.root = 0;
    s.rank = 0;
    s.in_place = false;
    return s;
}

/* The only candidate, which need not be priced, or NULL. */
static const rd_algorithm *sole_candidate(const rd_shape *shape)
{
    const rd_algorithm *sole = NULL;
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        if (rd_is_candidate(a, shape)) {
            if (sole)
                return NULL;
            sole = a;
        }
    return sole;
}

const rd_algorithm *rd_choose(const rd_shape *shape, const rd_facts *facts, rd_price prices[],
                              uint32_t *count)
{
    rd_price local[RD_MOST_CANDIDATES];
    uint32_t n = 0;
    const bool all = prices != NULL;
    const rd_algorithm *sole = all ? NULL : sole_candidate(shape);
    if (sole)
        return sole;
    if (!prices)
        prices = local;
    workspace w;
    if (!open_workspace(&w, shape, facts))
        return NULL;
    uint32_t rows = 0;
    while (rd_algorithms[rows].name)
        rows++;
    /* The last rows first: theirs are few steps, and what costs more than those is soon known to be */
    bool known = true;
    for (uint32_t row = rows; row-- > 0 && n < RD_MOST_CANDIDATES && known;) {
        const rd_algorithm *a = &rd_algorithms[row];
        if (!rd_is_candidate(a, shape))
            continue;
        const double enough = n && !all && !prices[0].bulky ? prices[0].ns : HUGE_VAL;
        const rd_price price = price_up_to(&w, a, shape, facts, enough, all);
        known = price.algorithm != NULL;
        uint32_t at = n++;
        for (; at > 0 && costs_more(&prices[at - 1], &price); at--)
            prices[at] = prices[at - 1];
        prices[at] = price;
    }
    close_workspace(&w);
    if (known && !all && prices[0].bulky) /* as all are */
        return rd_choose(shape, facts, local, NULL);
    if (count)
        *count = n;
    return known ? prices[0].algorithm : NULL;
}
