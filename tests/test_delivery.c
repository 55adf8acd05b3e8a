/* test_delivery.c: however and whenever messages are delivered, bits are the same: over shared memory
 * as between processes, and over a transport that delivers at random. */
#include <stdio.h>

#include "links.h"
#include "program.h"
#include "scramble.h"

/* --- a transport that delivers at random --- */

static void run_scrambled(program *p, uint64_t seed)
{
    const scramble_mood mood = scramble_draw(seed);
    if (!CHECK(scramble_open(p->size, mood, p->links), "no world"))
        return;
    program_run_on_links(p);
    if (test_failed())
        printf("... %u ranks, window %u, scrambled by %" PRIu64 ": %u %u %u %u\n", p->size,
               p->window, seed, mood.refuse, mood.shorten, mood.forget, mood.copy);
}

/* Every algorithm: first in good order, then scrambled in several ways. */
TEST(scrambled_messages_give_the_same_bits)
{
    rng r = rng_start();
    const uint32_t seeds = test_sanitized() ? 1 : 5;
    test_deadline(150);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        for (uint32_t n = 2; n <= (test_sanitized() ? 4 : 7) && !test_failed(); n++) {
            program p = {.size = n, .count = 10, .keep = true};
            for (uint32_t i = 0; i < p.count; i++)
                p.legs[i] = leg_draw(&r, a, n, 1500, false);
            program_run(&p, links_local);
            p.keep = false;
            for (uint32_t s = 0; s < seeds && !test_failed(); s++) {
                p.window = s % 2 ? 1 + (uint32_t)rng_below(&r, PROGRAM_WINDOW) : 0;
                p.lanes = s % 3 == 0;
                run_scrambled(&p, rng_next(&r));
            }
            program_free(&p);
        }
}

TEST(scrambled_programs)
{
    rng r = rng_start();
    test_deadline(150);
    for (uint32_t round = 0; round < (test_sanitized() ? 15 : 100) && !test_failed(); round++) {
        program p = {.size = 2 + round % 6,
                     .window = (uint32_t)rng_below(&r, PROGRAM_WINDOW + 1),
                     .lanes = round % 2};
        program_draw(&r, &p, 24, round % 5 ? 400 : 6000, true);
        run_scrambled(&p, rng_next(&r));
        program_free(&p);
    }
}

/* Sanitizers see some of the algorithms, others each time. */
static bool is_left_out(const rd_algorithm *a, uint64_t turn)
{
    enum { SOME = 4 };
    return test_sanitized() && (uint64_t)(a - rd_algorithms) % SOME != turn % SOME;
}

/* Longer than a piece, so that what cannot be lent takes several. */
TEST(scrambled_pieces)
{
    rng r = rng_start();
    const uint64_t turn = rng_next(&r);
    test_deadline(100);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++) {
        if (a->kind == RONDA_BARRIER || is_left_out(a, turn))
            continue;
        for (uint32_t n = 2; n <= (test_sanitized() ? 2 : 3) && !test_failed(); n++) {
            program p = {.size = n, .count = 2, .window = 2};
            for (uint32_t i = 0; i < 2; i++) {
                const uint64_t bytes = RD_PIECE * n + rng_below(&r, RD_PIECE);
                p.legs[i] = (leg){.algorithm = a, .segment = i ? 1 << 20 : 300000};
                const model_call c = {.kind = a->kind,
                                      .type = RONDA_U64,
                                      .op = RONDA_SUM,
                                      .size = n,
                                      .count = bytes / 8,
                                      .seed = rng_next(&r)};
                p.legs[i].planned = call_plan(&r, &c, true);
            }
            const scramble_mood mood = {rng_next(&r), 40, 60, 60, 160};
            if (scramble_open(n, mood, p.links))
                program_run_on_links(&p);
            program_free(&p);
        }
    }
}

/* --- real transports --- */

typedef bool opener(uint32_t size, rd_link *links[]);

/* Every algorithm: between threads, and then where nothing of the caller's can be lent, or by sockets.  Of the
 * sizes every other one, and each time others. */
static void same_bits(opener *open, uint32_t least, uint32_t most)
{
    rng r = rng_start();
    const uint64_t turn = rng_next(&r);
    test_deadline(150);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        for (uint32_t n = least + (uint32_t)((turn + (uint64_t)(a - rd_algorithms)) % 2);
             n <= (test_sanitized() && most > 4 ? 4 : most) && !test_failed(); n += 2) {
            if (is_left_out(a, turn))
                break;
            program p = {.size = n, .count = 10, .keep = true};
            for (uint32_t i = 0; i < p.count; i++)
                p.legs[i] = leg_draw(&r, a, n, i % 3 ? 1500 : 20000, false);
            program_run(&p, links_local);
            p.keep = false;
            for (uint32_t s = 0; s < 3 && !test_failed(); s++) {
                p.window = s ? 1 + (uint32_t)rng_below(&r, PROGRAM_WINDOW) : 0;
                p.lanes = s == 2;
                program_run(&p, open);
            }
            program_free(&p);
        }
}

TEST(shared_memory_gives_the_same_bits)
{
    same_bits(links_shm, 1, 7);
}

TEST(sockets_give_the_same_bits)
{
    same_bits(links_tcp, 3, 4);
}

TEST(hosts_give_the_same_bits)
{
    same_bits(links_mixed, 4, 5);
}

static void programs(opener *open, uint32_t rounds)
{
    rng r = rng_start();
    test_deadline(150);
    for (uint32_t round = 0; round < (test_sanitized() ? 10 : rounds) && !test_failed(); round++) {
        program p = {.size = 2 + round % 6,
                     .window = (uint32_t)rng_below(&r, PROGRAM_WINDOW + 1),
                     .lanes = round % 2};
        program_draw(&r, &p, 24, round % 5 ? 400 : 60000, true);
        program_run(&p, open);
        program_free(&p);
    }
}

TEST(programs_over_shared_memory)
{
    programs(links_shm, 60);
}

TEST(programs_over_sockets)
{
    programs(links_tcp, 40);
}

TEST(programs_over_hosts)
{
    programs(links_mixed, 40);
}

/* Several megabytes at once: more than there is room for on the way. */
static void long_messages(opener *open, uint32_t most)
{
    rng r = rng_start();
    const uint64_t turn = rng_next(&r);
    test_deadline(100);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        for (uint32_t n = 2; n <= (test_sanitized() ? 2 : most) && a->kind != RONDA_BARRIER; n++) {
            if (is_left_out(a, turn))
                break;
            program p = {.size = n, .count = 3, .window = 3};
            for (uint32_t i = 0; i < 3; i++) {
                const model_call c = {.kind = a->kind,
                                      .type = RONDA_U64,
                                      .op = RONDA_SUM,
                                      .size = n,
                                      .count = 100000 + rng_below(&r, 150000),
                                      .seed = rng_next(&r)};
                p.legs[i] = (leg){.algorithm = a, .segment = i ? 1 << 20 : 0};
                p.legs[i].planned = call_plan(&r, &c, true);
            }
            program_run(&p, open);
            program_free(&p);
            if (test_failed()) {
                printf("... by %s, %u ranks\n", a->name, n);
                return;
            }
        }
}

TEST(long_messages_over_shared_memory)
{
    long_messages(links_shm, 4);
}

TEST(long_messages_over_sockets)
{
    long_messages(links_tcp, 2);
}

TEST(long_messages_over_hosts)
{
    long_messages(links_mixed, 3);
}
