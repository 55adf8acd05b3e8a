/* test_streams.c: the framing of tcp over streams that do by a seed whatever streams may do, on a virtual clock.
 *
 * One thread has all ranks.  A program is messages between all pairs on some channels, of any length; at each step a
 * rank that is drawn sends, takes, posts a receive, or only lets come what may.  What arrives must be what was sent, in
 * order; after a cut or a death all ranks must hear of it, with its cause. */
#include "conformance.h"
#include "simulated.h"
#include "transport/wire.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 4, CHANNELS = 3, MESSAGES = 12, LONGEST = 1500000, STEPS = 4000000 };

typedef struct {
    rd_port *port;
    uint32_t sent, taken, first;  /* first: number of the first message that was sent */
    uint64_t taken_bytes, posted; /* posted: 1 + the message whose receive was, or 0 */
    char *memory[MESSAGES];
    char *got;
} lane;

typedef struct {
    uint64_t seed;
    rng random;
    uint32_t size, left; /* messages that have not been taken */
    simulated *network;
    rd_link *links[SIMULATED_RANKS];
    lane lanes[MOST_RANKS][MOST_RANKS][CHANNELS]; /* of a rank, to and from another */
    uint64_t piece;                               /* the most bytes that a read or write moves */
    bool wrong;
} play;

static uint64_t length_of(const play *p, uint32_t from, uint32_t to, uint32_t channel, uint32_t i)
{
    const uint64_t most = p->piece < 1000 ? 30 * p->piece : LONGEST;
    rng r = {p->seed ^ from * 7919u ^ to * 104729u ^ channel * 1299709u ^ i * 15485863u};
    const uint64_t kind = rng_below(&r, 40);
    return kind == 0   ? most - rng_below(&r, 50)
           : kind < 5  ? 0
           : kind < 15 ? rng_below(&r, most / 8)
                       : rng_below(&r, most < 600 ? most : 600);
}

static void fill(const play *p, char *to, uint64_t bytes, uint32_t from, uint32_t channel,
                 uint32_t i)
{
    const uint64_t base = p->seed + from * 31 + channel * 17 + i * 5;
    for (uint64_t k = 0; k < bytes; k++)
        to[k] = (char)(base + k * 3 + k / 255);
}

static uint64_t mark_of(uint32_t from, uint32_t channel, uint32_t i)
{
    return 1 + (uint64_t)from * 1000 + channel * 100 + i;
}

static bool open_play(play *p, uint64_t seed)
{
    *p = (play){.seed = seed, .random = {seed}};
    p->size = 2 + (uint32_t)rng_below(&p->random, MOST_RANKS - 1);
    simulated_mood mood = simulated_draw(rng_next(&p->random));
    p->piece = mood.piece;
    p->network = simulated_open(p->size, mood, p->links);
    for (uint32_t a = 0; p->network && a < p->size; a++)
        for (uint32_t b = 0; b < p->size; b++)
            for (uint32_t c = 0; c < CHANNELS && a != b; c++) {
                lane *l = &p->lanes[a][b][c];
                l->port = p->links[a]->transport->port(p->links[a], b, c);
                l->first = rd_port_sent(l->port);
                p->left += MESSAGES;
            }
    return p->network;
}

static void send(play *p, uint32_t rank, uint32_t to, uint32_t channel)
{
    lane *l = &p->lanes[rank][to][channel];
    if (l->sent == MESSAGES || !rd_port_can_send(l->port))
        return;
    const uint64_t bytes = length_of(p, rank, to, channel, l->sent);
    const uint64_t mark = mark_of(rank, channel, l->sent);
    char *data = l->memory[l->sent] = malloc(bytes + 1);
    fill(p, data, bytes, rank, channel, l->sent++);
    uint64_t room = bytes;
    if (bytes > RD_INLINE)
        rd_port_lend(l->port, &(rd_loan){.data = data, .bytes = bytes, .mark = mark});
    else {
        memcpy(rd_port_reserve(l->port, bytes, &room), data, bytes);
        rd_port_commit(l->port, bytes, bytes, mark);
    }
}

/* Some of what has come; a receive is posted now and then, before its message or while it comes. */
static void take(play *p, uint32_t rank, uint32_t from, uint32_t channel)
{
    lane *l = &p->lanes[rank][from][channel];
    rd_view view;
    if (l->taken == MESSAGES)
        return;
    const uint64_t bytes = length_of(p, from, rank, channel, l->taken);
    const uint64_t mark = mark_of(from, channel, l->taken);
    l->got = l->got ? l->got : malloc(bytes + 1);
    if (bytes > RD_INLINE && l->posted != l->taken + 1 && rng_below(&p->random, 2)) {
        rd_port_post_recv(l->port, l->got, bytes, mark);
        l->posted = l->taken + 1;
    }
    if (!rd_port_peek(l->port, &view))
        return;
    if (!CHECK(view.total == bytes && view.mark == mark && view.bytes <= bytes - l->taken_bytes,
               "seed %" PRIu64 ", message %u from %u to %u: %" PRIu64 " of %" PRIu64
               ", mark %" PRIu64,
               p->seed, l->taken, from, rank, view.bytes, view.total, view.mark)) {
        p->wrong = true;
        return;
    }
    const uint64_t part = bytes ? 1 + rng_below(&p->random, view.bytes) : 0;
    if (view.data != l->got + l->taken_bytes)
        memcpy(l->got + l->taken_bytes, view.data, part);
    rd_port_release(l->port, part);
    l->taken_bytes += part;
    if (l->taken_bytes < bytes)
        return;
    char *want = malloc(bytes + 1);
    fill(p, want, bytes, from, channel, l->taken);
    p->wrong |= !CHECK(memcmp(want, l->got, bytes) == 0, "seed %" PRIu64 ": other bytes", p->seed);
    free(want);
    free(l->got);
    l->got = NULL;
    l->taken_bytes = 0;
    l->taken++;
    p->left--;
}

static void step(play *p)
{
    const uint32_t rank = (uint32_t)rng_below(&p->random, p->size);
    const uint32_t other = (rank + 1 + (uint32_t)rng_below(&p->random, p->size - 1)) % p->size;
    const uint32_t channel = (uint32_t)rng_below(&p->random, CHANNELS);
    if (rng_below(&p->random, 4) == 0)
        send(p, rank, other, channel);
    p->links[rank]->transport->pump(p->links[rank]);
    take(p, rank, other, channel);
}

/* Links are closed in any order; those who are left hear of it. */
static void close_play(play *p)
{
    for (uint32_t left = p->size; left; left--) {
        uint32_t r = (uint32_t)rng_below(&p->random, p->size);
        while (!p->links[r])
            r = (r + 1) % p->size;
        p->links[r]->transport->close(p->links[r]);
        p->links[r] = NULL;
    }
    for (uint32_t a = 0; a < p->size; a++)
        for (uint32_t b = 0; b < p->size; b++)
            for (uint32_t c = 0; c < CHANNELS; c++) {
                for (uint32_t i = 0; i < MESSAGES; i++)
                    free(p->lanes[a][b][c].memory[i]);
                free(p->lanes[a][b][c].got);
            }
}

static uint64_t run_whole(uint64_t seed)
{
    static play p;
    uint64_t steps = 0;
    if (!open_play(&p, seed))
        return 0;
    for (; p.left && !p.wrong && steps < STEPS; steps++)
        step(&p);
    for (uint32_t r = 0; r < p.size; r++) {
        rd_error cause = {0};
        rd_control_cause(p.links[r], &cause);
        CHECK(!cause.status, "seed %" PRIu64 ", rank %u: %s", seed, r, cause.message);
    }
    CHECK(!p.left, "seed %" PRIu64 ": %u messages have not come", seed, p.left);
    const uint64_t trace = simulated_trace(p.network) * 31 + simulated_now(p.network);
    close_play(&p);
    return trace;
}

TEST(random_programs_over_streams)
{
    rng r = rng_start();
    const uint32_t rounds = test_sanitized() ? 12 : 60;
    test_deadline(240);
    for (uint32_t i = 0; i < rounds && !test_failed(); i++)
        run_whole(rng_next(&r));
}

TEST(a_seed_is_one_run)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < 4 && !test_failed(); i++) {
        const uint64_t seed = rng_next(&r), first = run_whole(seed), second = run_whole(seed);
        CHECK(first == second, "seed %" PRIu64 " gave two runs", seed);
    }
}

/* --- streams that end --- */

static bool all_know(const play *p, uint32_t but)
{
    for (uint32_t r = 0; r < p->size; r++)
        if (r != but && !atomic_load(p->links[r]->alarm))
            return false;
    return true;
}

/* Whether a sentence is about what has happened: ranks a and b have lost their connection, or a has died. */
static bool fits(const rd_error *cause, bool killed, uint32_t a, uint32_t b)
{
    const bool lost = strstr(cause->message, "have lost their connection") != NULL;
    const bool named = cause->peer == a || (!killed && cause->peer == b);
    return cause->status == RONDA_EPEER && named && (killed || lost);
}

static void run_until_it_ends(uint64_t seed)
{
    static play p;
    uint64_t steps = 0;
    if (!open_play(&p, seed))
        return;
    const bool kill = rng_below(&p.random, 2);
    const uint32_t a = (uint32_t)rng_below(&p.random, p.size);
    const uint32_t b = (a + 1 + (uint32_t)rng_below(&p.random, p.size - 1)) % p.size;
    const uint64_t when = rng_below(&p.random, 3000);
    for (; steps < when && p.left && !p.wrong; steps++)
        step(&p);
    if (kill)
        simulated_kill(p.network, a);
    const bool ended = kill || simulated_cut(p.network, a, b, RD_GREETING);
    const uint64_t until = simulated_now(p.network) + 30000000000u;
    while (ended && !p.wrong && !all_know(&p, kill ? a : UINT32_MAX) &&
           simulated_now(p.network) < until) {
        const uint32_t r = (uint32_t)rng_below(&p.random, p.size);
        if (kill && r == a)
            continue;
        rd_link *link = p.links[r];
        const uint32_t o = (r + 1 + (uint32_t)rng_below(&p.random, p.size - 1)) % p.size;
        if (rng_below(&p.random, 8) == 0) /* who waits for a rank wants a connection to it */
            rd_control_await(link, o, true);
        link->transport->wait(link, NULL, 1 << 20, simulated_now(p.network) + 1000000);
    }
    for (uint32_t r = 0; r < p.size && ended; r++) {
        rd_error cause = {0};
        if (kill && r == a)
            continue;
        rd_control_cause(p.links[r], &cause);
        CHECK(fits(&cause, kill, a, b), "seed %" PRIu64 ": %u %s, and rank %u of %u says: %s", seed,
              a, kill ? "has died" : "was cut off", r, p.size, cause.message);
        p.links[r]->transport->quiesce(p.links[r], UINT64_MAX, UINT64_MAX);
    }
    close_play(&p);
}

TEST(streams_that_end_are_told_of)
{
    rng r = rng_start();
    const uint32_t rounds = test_sanitized() ? 6 : 30;
    test_deadline(240);
    for (uint32_t i = 0; i < rounds && !test_failed(); i++)
        run_until_it_ends(rng_next(&r));
}

/* --- and all that is promised of transports, with ranks in threads --- */

static bool open_simulated(uint32_t size, rd_link *links[])
{
    static _Atomic uint64_t seed;
    simulated_mood mood = simulated_draw(++seed);
    mood.clock = true;
    mood.refuse =
        0; /* a few bytes are always taken, as by a system: who has sent them may do something else */
    mood.piece = mood.piece < 5000 ? 5000 : mood.piece;
    mood.delay_ns /= 30;
    return simulated_open(size, mood, links);
}

static const conformance_subject simulated_streams = {
    .open = open_simulated, .refuses = true, .forgets = true, .slow = true};
CONFORMANCE_TESTS(simulated_streams)
