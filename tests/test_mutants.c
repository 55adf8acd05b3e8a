/* test_mutants.c: the proof can fail.  Correct plans are spoiled in one place each, at random, and
 * run on numbers in many orders (interpret.c).  No mutant that comes to a wrong result, touches what is
 * not its own, or hangs in any run may pass the proof; and what is not spoiled must pass, and run right.
 *
 *     kind                      mutants   wrong   hang   refused   accepted
 *
 * `wrong` and `hang` are what the runs found; `accepted` mutants ran right in all of theirs. */
#include <stdio.h>

#include "harness.h"
#include "interpret.h"
#include "mutate.h"

enum { MOST_KINDS = 16 };

typedef struct {
    uint32_t mutants, wrong, hang, refused, accepted;
} tally;

typedef struct {
    rng seed;
    uint32_t mutants, runs;
    tally tallies[MOST_KINDS];
} campaign;

/* A subject with one spoiled place, sealed; draws again until there is something of the kind. */
static subject draw_mutant(const mutant_kind *kind, rng *random)
{
    for (;;) {
        subject s = draw_subject(random);
        const bool raw = kind->raw && (!kind->sealed || rng_below(random, 2));
        bool spoiled = !raw || kind->raw(&s, random);
        seal_subject(&s);
        if (!raw)
            spoiled = kind->sealed(&s, random);
        if (spoiled)
            return s;
        free_subject(&s);
    }
}

static void try_mutant(campaign *c, uint32_t k, uint32_t number)
{
    const mutant_kind *kind = &mutant_kinds[k];
    tally *t = &c->tallies[k];
    rng random = {c->seed.state + ((uint64_t)k << 32) + number};
    random.state = rng_next(&random);
    subject s = draw_mutant(kind, &random);
    const rd_proof proof = rd_check_plans(s.plans, s.n);
    const uint32_t runs = proof.ok ? c->runs : kind->wild ? 0 : c->runs / 2;
    const interpretation found =
        runs ? interpret(s.plans, s.n, runs, &random) : (interpretation){0};
    t->mutants++;
    t->wrong += found.verdict == RUN_WRONG;
    t->hang += found.verdict == RUN_HANGS;
    t->refused += !proof.ok;
    t->accepted += proof.ok;
    CHECK(proof.ok == (proof.why[0] == 0), "%s: ok is %d and why is \"%s\"", s.text, proof.ok,
          proof.why);
    CHECK(!proof.ok || found.verdict == RUN_RIGHT, "%s, number %u: accepted, but %s; %s",
          kind->name, number, found.why, s.text);
    free_subject(&s);
}

/* Ranks here are workers: each takes every n-th mutant of every kind. */
enum { WORKERS = 4 };

static void work(void *context, uint32_t worker)
{
    campaign *all = context;
    campaign mine = {
        .seed = all[WORKERS].seed, .mutants = all[WORKERS].mutants, .runs = all[WORKERS].runs};
    for (uint32_t k = 0; mutant_kinds[k].name; k++)
        for (uint32_t i = worker; i < mine.mutants; i += WORKERS)
            try_mutant(&mine, k, i);
    all[worker] = mine;
}

static tally sum_up(const campaign *all, uint32_t k)
{
    tally t = {0};
    for (int i = 0; i < WORKERS; i++) {
        const tally *one = &all[i].tallies[k];
        t.mutants += one->mutants;
        t.wrong += one->wrong;
        t.hang += one->hang;
        t.refused += one->refused;
        t.accepted += one->accepted;
    }
    return t;
}

TEST(no_spoiled_plan_that_fails_passes_the_proof)
{
    static campaign all[WORKERS + 1];
    test_deadline(600);
    all[WORKERS].seed = rng_start();
    all[WORKERS].mutants = test_sanitized() ? 500 : 1000;
    all[WORKERS].runs = test_sanitized() ? 20 : 40;
    run_ranks(WORKERS, work, all);
    printf("%-24s %8s %8s %8s %8s %9s\n", "kind", "mutants", "wrong", "hang", "refused",
           "accepted");
    for (uint32_t k = 0; mutant_kinds[k].name; k++) {
        const tally t = sum_up(all, k);
        printf("%-24s %8u %8u %8u %8u %9u\n", mutant_kinds[k].name, t.mutants, t.wrong, t.hang,
               t.refused, t.accepted);
        CHECK(mutant_kinds[k].wild || t.wrong + t.hang > t.mutants / 50,
              "%s: %u of %u mutants are wrong, which tests little", mutant_kinds[k].name,
              t.wrong + t.hang, t.mutants);
    }
}

TEST(what_is_not_spoiled_passes_and_runs_right)
{
    rng random = rng_start();
    test_deadline(300);
    const uint32_t subjects = test_sanitized() ? 500 : 2000;
    for (uint32_t i = 0; i < subjects; i++) {
        subject s = draw_subject(&random);
        seal_subject(&s);
        const rd_proof proof = rd_check_plans(s.plans, s.n);
        const interpretation found = interpret(s.plans, s.n, 20, &random);
        CHECK(proof.ok, "%s refused: %s", s.text, proof.why);
        CHECK(found.verdict == RUN_RIGHT, "%s ran wrong: %s", s.text, found.why);
        free_subject(&s);
    }
}
