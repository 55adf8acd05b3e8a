/* doctor_pairs.c: how long messages take between pairs of ranks.
 *
 * Rank 0 conducts: it tells two ranks to measure, and hears from the first of them what came of it.  A pair
 * starts when no other one is under way on either host, so pairs do not disturb each other, and hosts that
 * are not concerned measure at the same time.  All other ranks wait for rank 0, asleep.
 *
 *     rank 0             a                    b
 *       | -- measure --> | -- echo ---------> |
 *       | -- measure ----|------------------> |
 *       |                | <-- echo --------- |    round trips, then
 *       |                | -- n bytes ------> |    n grows until it takes long enough
 *       |                | <-- echo --------- |
 *       |                | -- done ---------> |
 *       | <-- report --- |                    |
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "doctor.h"

enum {
    TAG_ORDER = 101,
    TAG_REPORT,
    TAG_WORD,
    TAG_ECHO,
    TAG_BYTES,
    ROUND_TRIPS = 30,
    SMALLEST = 64 << 10,
    LARGEST = 16 << 20,
    ALL_PAIRS = 16, /* up to so many ranks */
    INSIDE = 4      /* pairs of a host, in larger worlds */
};
static const uint64_t LATENCY_NS = 200000000, LONG_ENOUGH_NS = 10000000;
static const uint64_t DONE = UINT64_MAX;

/* --- two ranks --- */

static bool answer(ronda_comm *comm, uint32_t peer)
{
    uint64_t word = 0;
    char *bytes = malloc(LARGEST);
    bool good = bytes != NULL;
    while (good && ronda_recv(comm, &word, 1, RONDA_U64, peer, TAG_WORD, NULL) == RONDA_OK) {
        if (word == DONE)
            break;
        good =
            word <= LARGEST &&
            (!word || ronda_recv(comm, bytes, word, RONDA_U8, peer, TAG_BYTES, NULL) == RONDA_OK) &&
            ronda_send(comm, &word, 1, RONDA_U64, peer, TAG_ECHO) == RONDA_OK;
    }
    free(bytes);
    return good && word == DONE;
}

/* A word, so many bytes, and back; 0: it failed */
static uint64_t trip(ronda_comm *comm, uint32_t peer, const void *bytes, uint64_t count)
{
    uint64_t back = DONE;
    const uint64_t start = rd_now_ns();
    if (ronda_send(comm, &count, 1, RONDA_U64, peer, TAG_WORD) ||
        (count && ronda_send(comm, bytes, count, RONDA_U8, peer, TAG_BYTES)) ||
        ronda_recv(comm, &back, 1, RONDA_U64, peer, TAG_ECHO, NULL) || back != count)
        return 0;
    const uint64_t ns = rd_now_ns() - start;
    return ns ? ns : 1;
}

static bool measure(ronda_comm *comm, uint32_t peer, double *us, double *rate)
{
    const uint64_t until = rd_now_ns() + LATENCY_NS;
    uint64_t best = UINT64_MAX, ns = trip(comm, peer, NULL, 0); /* the first one connects */
    for (int i = 0; ns && i < ROUND_TRIPS && (i < 3 || rd_now_ns() < until); i++) {
        ns = trip(comm, peer, NULL, 0);
        best = ns < best ? ns : best;
    }
    char *bytes = ns ? malloc(LARGEST) : NULL;
    if (!bytes)
        return false;
    memset(bytes, (int)(peer % 251 + 1), LARGEST);
    *us = (double)best / 2e3;
    for (uint64_t count = SMALLEST; ns && count <= LARGEST; count *= 4) {
        ns = trip(comm, peer, bytes, count);
        if (ns && ns < LONG_ENOUGH_NS && count < LARGEST)
            continue;
        const uint64_t again = ns && ns < 20 * LONG_ENOUGH_NS ? trip(comm, peer, bytes, count) : ns;
        ns = again && again < ns ? again : ns;
        *rate = (double)count * 1e9 / (double)(ns > best ? ns - best / 2 : ns ? ns : 1);
        break;
    }
    free(bytes);
    const uint64_t word = DONE;
    return ns && ronda_send(comm, &word, 1, RONDA_U64, peer, TAG_WORD) == RONDA_OK;
}

/* --- all of them --- */

typedef struct {
    uint32_t peer; /* RONDA_ANY: it is over */
    uint32_t first;
} order;

typedef struct {
    double us, rate;
} report;

static bool give_order(ronda_comm *comm, uint32_t to, uint32_t peer, uint32_t first)
{
    const order o = {peer, first};
    return ronda_send(comm, &o, sizeof o, RONDA_U8, to, TAG_ORDER) == RONDA_OK;
}

bool doctor_pairs_follow(ronda_comm *comm)
{
    for (;;) {
        order o;
        report r;
        if (ronda_recv(comm, &o, sizeof o, RONDA_U8, 0, TAG_ORDER, NULL))
            return false;
        if (o.peer == RONDA_ANY)
            return true;
        if (!o.first && !answer(comm, o.peer))
            return false;
        if (o.first && (!measure(comm, o.peer, &r.us, &r.rate) ||
                        ronda_send(comm, &r, sizeof r, RONDA_U8, 0, TAG_REPORT)))
            return false;
    }
}

static void note_down(doctor_pair *p, report r)
{
    p->us = p->measured && p->us < r.us ? p->us : r.us;
    p->rate = p->measured && p->rate > r.rate ? p->rate : r.rate;
    p->measured = true;
    p->times++;
}

/* state: of each pair */
enum { WAITS, RUNS, OVER };

static doctor_pair *find(doctor_pair pairs[], const uint8_t state[], uint32_t count, uint32_t a)
{
    for (uint32_t i = 0; i < count; i++)
        if (state[i] == RUNS && pairs[i].a == a)
            return &pairs[i];
    return NULL;
}

/* Starts what can be started; *mine: the pair that rank 0 is in. */
static bool start(ronda_comm *comm, const doctor_facts facts[], doctor_pair pairs[],
                  uint8_t state[], uint8_t busy[], uint32_t count, doctor_pair **mine)
{
    *mine = NULL;
    for (uint32_t i = 0; i < count; i++) {
        doctor_pair *p = &pairs[i];
        uint8_t *one = &busy[facts[p->a].host_index], *other = &busy[facts[p->b].host_index];
        if (state[i] != WAITS || *one || *other)
            continue;
        state[i] = RUNS;
        *one = *other = 1;
        if (p->a == 0)
            *mine = p;
        if ((p->a && !give_order(comm, p->a, p->b, 1)) || !give_order(comm, p->b, p->a, 0))
            return false;
    }
    return true;
}

static bool conduct(ronda_comm *comm, const doctor_facts facts[], doctor_pair pairs[],
                    uint8_t state[], uint8_t busy[], uint32_t count)
{
    for (;;) {
        doctor_pair *p;
        report r;
        ronda_message from;
        uint32_t running = 0;
        if (!start(comm, facts, pairs, state, busy, count, &p))
            return false;
        for (uint32_t i = 0; i < count; i++)
            running += state[i] == RUNS;
        if (!running)
            return true;
        if (p) {
            if (!measure(comm, p->b, &r.us, &r.rate))
                return false;
        } else if (ronda_recv(comm, &r, sizeof r, RONDA_U8, RONDA_ANY, TAG_REPORT, &from) ||
                   !(p = find(pairs, state, count, from.peer))) {
            return false;
        }
        note_down(p, r);
        state[p - pairs] = OVER;
        busy[facts[p->a].host_index] = busy[facts[p->b].host_index] = 0;
    }
}

/* What looks odd is measured again: it may have been the moment. */
bool doctor_pairs_conduct(ronda_comm *comm, const doctor_facts facts[], doctor_pair pairs[],
                          uint32_t count)
{
    const uint32_t size = ronda_size(comm);
    uint8_t *state = calloc(count + 1, 1), *busy = calloc(size, 1);
    bool good = state && busy;
    for (int times = 0; good && times < 3; times++) {
        for (uint32_t i = 0; i < count; i++)
            state[i] = pairs[i].cut || (times && !doctor_is_outlier(pairs, count, &pairs[i]))
                           ? OVER
                           : WAITS;
        good = conduct(comm, facts, pairs, state, busy, count);
    }
    for (uint32_t r = 1; r < size && good; r++)
        good = give_order(comm, r, RONDA_ANY, 0);
    free(state);
    free(busy);
    return good;
}

/* --- which --- */

static void add(doctor_pair pairs[], uint32_t *count, const doctor_facts facts[], uint32_t a,
                uint32_t b)
{
    const uint32_t first = a < b ? a : b, second = a < b ? b : a;
    for (uint32_t i = 0; i < *count; i++)
        if (pairs[i].a == first && pairs[i].b == second)
            return;
    pairs[(*count)++] =
        (doctor_pair){.a = first, .b = second, .here = facts[a].host == facts[b].host};
}

/* The n-th rank of a host, again from the first when there are no more. */
static uint32_t rank_of(const doctor_facts facts[], uint32_t size, uint32_t host, uint32_t n)
{
    uint32_t ranks = 0;
    for (uint32_t r = 0; r < size; r++)
        ranks += facts[r].host_index == host;
    n %= ranks;
    for (uint32_t r = 0; r < size; r++)
        if (facts[r].host_index == host && n-- == 0)
            return r;
    return 0;
}

/* Hosts 1, 2, 4 ... further on, or all of them where they are few; and some pairs inside. */
static void sample(const doctor_facts facts[], uint32_t size, uint32_t hosts, doctor_pair pairs[],
                   uint32_t *count)
{
    for (uint32_t h = 0; h < hosts; h++) {
        for (uint32_t d = 1, k = 0; d < hosts; d = hosts <= ALL_PAIRS ? d + 1 : 2 * d, k++)
            add(pairs, count, facts, rank_of(facts, size, h, k),
                rank_of(facts, size, (h + d) % hosts, k));
        for (uint32_t k = 0; k < INSIDE; k++) {
            const uint32_t a = rank_of(facts, size, h, k), b = rank_of(facts, size, h, k + 1);
            if (a != b)
                add(pairs, count, facts, a, b);
        }
    }
}

doctor_pair *doctor_pairs_choose(const doctor_facts facts[], uint32_t size, uint32_t *count)
{
    uint32_t hosts = 0;
    for (uint32_t r = 0; r < size; r++)
        hosts = facts[r].host_index >= hosts ? facts[r].host_index + 1 : hosts;
    const size_t most = size <= ALL_PAIRS ? (size_t)size * size / 2 : (size_t)hosts * (16 + INSIDE);
    doctor_pair *pairs = calloc(most, sizeof *pairs);
    *count = 0;
    if (pairs && size > ALL_PAIRS)
        sample(facts, size, hosts, pairs, count);
    /* As in a tournament: in each round everybody is in one pair at most. */
    const uint32_t even = size + size % 2;
    for (uint32_t k = 0; pairs && size <= ALL_PAIRS && k + 1 < even; k++)
        for (uint32_t i = 0; i < even / 2; i++) {
            const uint32_t a = i ? (k + i) % (even - 1) : even - 1,
                           b = (k + even - 1 - i) % (even - 1);
            if (a < size && b < size)
                add(pairs, count, facts, a, b);
        }
    return pairs;
}
