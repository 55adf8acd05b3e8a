/* test_wrong_algorithms.c: generators that are wrong, one of each class, and the sentence that says so.
 * Plans spoiled after sealing are in test_refusals.c and test_mutants.c. */
#include <string.h>

#include "harness.h"
#include "proof/check.h"

static void tell_all(rd_plan *p, rd_shape s)
{
    rd_round(p, 1);
    for (uint32_t q = 1; q < s.size && s.rank == 0; q++)
        rd_send(p, q, rd_whole(s, RD_OUT));
    if (s.rank)
        rd_recv(p, 0, rd_whole(s, RD_OUT));
}

static void forgets_the_last(rd_plan *p, rd_shape s)
{
    if (s.rank == 0)
        rd_fold_many(p, NULL, s.size - 1, rd_whole(s, RD_IN), rd_whole(s, RD_OUT));
    else if (s.rank + 1 < s.size)
        rd_send(p, 0, rd_whole(s, RD_IN));
    tell_all(p, s);
}

static void counts_twice(rd_plan *p, rd_shape s)
{
    if (s.rank == 0) {
        rd_fold(p, 1, rd_whole(s, RD_IN), rd_whole(s, RD_OUT), RD_HERE_RIGHT);
        rd_fold(p, 1, rd_whole(s, RD_OUT), rd_whole(s, RD_OUT), RD_HERE_RIGHT);
    } else if (s.rank == 1) {
        rd_send(p, 0, rd_whole(s, RD_IN));
        rd_send(p, 0, rd_whole(s, RD_IN));
    }
    tell_all(p, s);
}

static void shifts(rd_plan *p, rd_shape s)
{
    if (s.rank == 0)
        rd_fold(p, 1, (rd_range){RD_IN, 0, 2}, (rd_range){RD_OUT, 0, 2}, RD_HERE_LEFT);
    else
        rd_send(p, 0, (rd_range){RD_IN, 1, 2});
    tell_all(p, s);
}

static void uses_stale_scratch(rd_plan *p, rd_shape s)
{
    rd_copy(p, rd_scratch(p, 0, s.count), rd_whole(s, RD_OUT));
}

static void divides_parts(rd_plan *p, rd_shape s)
{
    if (s.rank == 0) {
        rd_copy(p, rd_whole(s, RD_IN), rd_whole(s, RD_OUT));
        rd_scale(p, rd_whole(s, RD_OUT));
        rd_fold(p, 1, rd_whole(s, RD_OUT), rd_whole(s, RD_OUT), RD_HERE_LEFT);
        rd_scale(p, rd_whole(s, RD_OUT));
    } else {
        rd_send(p, 0, rd_whole(s, RD_IN));
    }
    tell_all(p, s);
}

static void never_divides(rd_plan *p, rd_shape s)
{
    if (s.rank == 0)
        rd_fold_many(p, NULL, s.size, rd_whole(s, RD_IN), rd_whole(s, RD_OUT));
    else
        rd_send(p, 0, rd_whole(s, RD_IN));
    tell_all(p, s);
}

static void own_first(rd_plan *p, rd_shape s)
{
    rd_send(p, 1 - s.rank, rd_whole(s, RD_IN));
    rd_fold(p, 1 - s.rank, rd_whole(s, RD_IN), rd_whole(s, RD_OUT), RD_HERE_LEFT);
}

static void last_first(rd_plan *p, rd_shape s)
{
    if (s.rank == 0)
        rd_fold_many(p, (const uint32_t[]){1, 0}, 2, rd_whole(s, RD_IN), rd_whole(s, RD_OUT));
    else
        rd_send(p, 0, rd_whole(s, RD_IN));
    tell_all(p, s);
}

static void all_at_once_in_place(rd_plan *p, rd_shape s)
{
    for (uint32_t k = 1; k < s.size; k++)
        rd_send(p, (s.rank + k) % s.size, rd_whole(s, RD_IN));
    rd_fold_many(p, NULL, s.size, rd_whole(s, RD_IN), rd_whole(s, RD_OUT));
}

static void all_wait_first(rd_plan *p, rd_shape s)
{
    const uint32_t other = 1 - s.rank;
    rd_copy(p, rd_whole(s, RD_IN), rd_slot(s, RD_OUT, s.rank));
    rd_recv(p, other, rd_slot(s, RD_OUT, other));
    rd_send(p, other, rd_whole(s, RD_IN));
}

static void swaps_halves(rd_plan *p, rd_shape s)
{
    const rd_range half[2] = {{RD_OUT, 0, 1}, {RD_OUT, 1, 1}};
    for (int i = 0; i < 2; i++) {
        if (s.rank == s.root)
            rd_send(p, 1 - s.rank, half[i]);
        else
            rd_recv(p, 1 - s.rank, half[1 - i]);
    }
}

static void folds_what_it_gets(rd_plan *p, rd_shape s)
{
    const uint32_t other = 1 - s.rank;
    rd_send(p, other, rd_whole(s, RD_IN));
    rd_copy(p, rd_whole(s, RD_IN), rd_slot(s, RD_OUT, s.rank));
    rd_fold(p, other, rd_whole(s, RD_IN), rd_slot(s, RD_OUT, other), RD_HERE_LEFT);
}

static void asks_one_neighbour(rd_plan *p, rd_shape s)
{
    rd_send(p, (s.rank + 1) % s.size, rd_whole(s, RD_IN));
    rd_fold(p, (s.rank + s.size - 1) % s.size, rd_whole(s, RD_IN), rd_whole(s, RD_OUT),
            RD_HERE_LEFT);
}

static void says_more_than_is_heard(rd_plan *p, rd_shape s)
{
    own_first(p, s);
    if (s.rank == 0)
        rd_send(p, 1, rd_whole(s, RD_IN));
}

static void hears_less(rd_plan *p, rd_shape s)
{
    const rd_range less = {RD_OUT, 0, s.rank ? s.count - 1 : s.count};
    rd_send(p, 1 - s.rank, rd_whole(s, RD_IN));
    rd_fold(p, 1 - s.rank, (rd_range){RD_IN, 0, less.count}, less, RD_HERE_LEFT);
}

static void overwrites_input(rd_plan *p, rd_shape s)
{
    rd_copy(p, rd_whole(s, RD_OUT), rd_whole(s, RD_IN));
}

static void overwrites_other_blocks(rd_plan *p, rd_shape s)
{
    rd_copy(p, rd_slot(s, RD_IN, s.rank), rd_slot(s, RD_IN, 1 - s.rank));
}

static void goes_too_far(rd_plan *p, rd_shape s)
{
    rd_copy(p, rd_whole(s, RD_IN), (rd_range){RD_OUT, 1, s.count});
}

static void copies_over_itself(rd_plan *p, rd_shape s)
{
    rd_copy(p, (rd_range){RD_OUT, 0, s.count - 1}, (rd_range){RD_OUT, 1, s.count - 1});
}

typedef struct {
    rd_generator *generate;
    ronda_kind kind;
    uint32_t flags, n;
    bool mean;
    int place;
    const char *says;
} wrong_algorithm;

static const wrong_algorithm wrong_algorithms[] = {
    {forgets_the_last, RONDA_ALLREDUCE, 0, 3, false, 0, "lacks rank 2's part"},
    {counts_twice, RONDA_ALLREDUCE, 0, 3, false, 0, "rank 1's part in it twice"},
    {counts_twice, RONDA_ALLREDUCE, 0, 2, false, 0, "rank 1's part in it twice"},
    {shifts, RONDA_ALLREDUCE, 0, 2, false, 0, "rank 1's element 1 in it, which belongs elsewhere"},
    {uses_stale_scratch, RONDA_ALLREDUCE, 0, 2, false, 0, "memory that nobody wrote"},
    {uses_stale_scratch, RONDA_REDUCE_SCATTER, 0, 2, true, 0, "memory that nobody wrote"},
    {uses_stale_scratch, RONDA_BROADCAST, 0, 2, false, 0, "is memory that nobody wrote"},
    {uses_stale_scratch, RONDA_BARRIER, 0, 2, false, 0,
     "the token is made of memory that nobody wrote"},
    {divides_parts, RONDA_ALLREDUCE, 0, 2, true, 0, "divided at the wrong place"},
    {never_divides, RONDA_ALLREDUCE, 0, 2, true, 0, "is not divided"},
    {own_first, RONDA_ALLREDUCE, 0, 2, false, 0, "not folded in the same order"},
    {last_first, RONDA_ALLREDUCE, RD_ORDERED, 2, false, 0,
     "rank 1's part where rank 0's should stand"},
    {all_at_once_in_place, RONDA_ALLREDUCE, 0, 3, false, RD_PLACE_ALL, "nothing can move: rank"},
    {all_wait_first, RONDA_ALLGATHER, 0, 2, false, 0, "walked straight, nothing can move: rank"},
    {swaps_halves, RONDA_BROADCAST, 0, 2, false, 0,
     "is rank 0's element 1, not rank 0's element 0"},
    {folds_what_it_gets, RONDA_ALLGATHER, 0, 2, false, 0, "is folded from several"},
    {asks_one_neighbour, RONDA_BARRIER, 0, 3, false, 0,
     "may leave the barrier when 2 of 3 ranks have come"},
    {says_more_than_is_heard, RONDA_ALLREDUCE, 0, 2, false, 0,
     "rank 0 has 2 messages for rank 1, which has 1 for it"},
    {hears_less, RONDA_ALLREDUCE, 0, 2, false, 0,
     "from rank 0 to rank 1 is sent with 3 elements and received with 2"},
    {overwrites_input, RONDA_ALLREDUCE, 0, 2, false, 0,
     "local copy #0 writes in[0], which is the caller's to keep"},
    {overwrites_other_blocks, RONDA_REDUCE_SCATTER, 0, 2, false, RD_PLACE_ALL,
     "which is the caller's to keep"},
    {goes_too_far, RONDA_ALLREDUCE, 0, 2, false, 0, "writes 3 elements at out[1], which has 3"},
    {copies_over_itself, RONDA_ALLREDUCE, 0, 2, false, 0, "they overlap"},
};

TEST(wrong_algorithms_are_refused_with_a_reason)
{
    for (size_t i = 0; i < sizeof wrong_algorithms / sizeof *wrong_algorithms; i++) {
        const wrong_algorithm *w = &wrong_algorithms[i];
        const rd_algorithm a = {w->kind, "wrong", w->generate, w->flags, ""};
        const rd_proof proof = rd_check_world(&a, w->n, w->kind == RONDA_BROADCAST ? 2 : 3, 0, 4,
                                              w->mean, w->place, 0);
        CHECK(!proof.ok && strstr(proof.why, w->says), "case %zu should say \"%s\" and says \"%s\"",
              i, w->says, proof.why);
    }
}
