/* test_refusals.c: good plans with one number spoiled, one of each class, and the sentence that names
 * what is wrong.  Generators that are wrong are in test_wrong_algorithms.c. */
#include <string.h>

#include "base/mem.h"
#include "harness.h"
#include "oddities.h"
#include "proof/check.h"

typedef struct {
    const rd_algorithm *a;
    uint32_t n;
    uint64_t count;
    bool in_place, mean;
    rd_plan *plans[16];
    rd_plan *p;                    /* rank 1's */
    rd_step *send, *recv, *leader; /* its first of each kind, or NULL */
    uint32_t send_at;
} world;

static rd_step *first_with(rd_plan *p, uint8_t verb)
{
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].verb == verb)
            return &p->steps[i];
    return NULL;
}

static void build(world *w)
{
    for (uint32_t r = 0; r < w->n; r++) {
        const rd_shape s = {.kind = w->a->kind,
                            .rank = r,
                            .size = w->n,
                            .width = 4,
                            .count = w->count,
                            .in_place = w->in_place,
                            .mean = w->mean};
        w->plans[r] = rd_plan_build(w->a, &s, 0);
    }
    w->p = w->plans[1];
    w->send = first_with(w->p, RD_SEND);
    w->recv = first_with(w->p, RD_RECV);
    w->leader = w->p->group_count ? &w->p->steps[w->p->groups[0].leader] : NULL;
    w->send_at = w->send ? (uint32_t)(w->send - w->p->steps) : RD_NONE;
}

static void release(world *w)
{
    for (uint32_t r = 0; r < w->n; r++)
        rd_plan_free(w->plans[r]);
}

/* Expects the reason, and makes the world good again. */
static void refuse(world *w, const char *says)
{
    const rd_proof proof = rd_check_plans(w->plans, w->n);
    CHECK(!proof.ok && strstr(proof.why, says), "should say \"%s\" and says \"%s\"", says,
          proof.why);
    release(w);
    build(w);
}

/* A good world to spoil. */
static world good(const rd_algorithm *a, uint32_t n, uint64_t count, bool in_place)
{
    world w = {.a = a, .n = n, .count = count, .in_place = in_place};
    build(&w);
    const rd_proof proof = rd_check_plans(w.plans, w.n);
    CHECK(proof.ok, "%s: %s", a->name, proof.why);
    return w;
}

/* Two-shot on three ranks in place, too large to be walked straight. */
static world two_shot(void)
{
    return good(rd_algorithm_named(RONDA_ALLREDUCE, "two_shot"), 3, 60, true);
}

TEST(plans_of_no_shape_are_refused)
{
    world w = two_shot();
    rd_plan_free(w.p);
    w.plans[1] = NULL;
    refuse(&w, "rank 1 has no sealed plan");
    w.p->shape.rank = 2;
    refuse(&w, "the plan of rank 1 of 3 says that it is for rank 2 of 3");
    for (uint32_t r = 0; r < 3; r++)
        w.plans[r]->shape.kind = 99;
    refuse(&w, "there is no collective of kind 99");
    w.p->shape.count++;
    refuse(&w, "rank 1's plan is for another call than rank 0's");
    w.p->algorithm = NULL;
    refuse(&w, "rank 1's plan is for another call than rank 0's");
    w.plans[0]->shape.root = 3;
    refuse(&w, "root 3 of 3");
    w.p->scratch = UINT64_MAX / 2;
    refuse(&w, "too many steps or elements for a proof");
    w.plans[0]->shape.count = 1ull << 40;
    refuse(&w, "too many steps or elements for a proof");
    release(&w);
    w = good(rd_algorithm_named(RONDA_BARRIER, "star"), 2, 1, false);
    w.plans[0]->shape.in_place = true;
    refuse(&w, "rank 0 works in place");
    w.plans[0]->shape.count = w.plans[1]->shape.count = 2;
    refuse(&w, "a barrier has one token, not 2");
    release(&w);
    CHECK(!rd_check_plans(NULL, 0).ok, "a world without ranks is fine");
}

TEST(plans_of_no_structure_are_refused)
{
    world w = two_shot();
    rd_free(w.p->deps);
    w.p->deps = NULL;
    refuse(&w, "lacks a list that it counts");
    w.p->lanes[1].first++;
    refuse(&w, "lane 1 does not begin where the one before ends");
    w.p->lanes[w.p->lane_count - 1].end++;
    refuse(&w, "does not begin where the one before ends");
    w.p->lanes[0].peer = 9;
    refuse(&w, "lane 0 goes to or from rank 9 of 3");
    w.p->lanes[0].peer = 1;
    refuse(&w, "lane 0 goes to or from rank 1 of 3");
    w.send->lane = 77;
    refuse(&w, "is not in the lane of its peer and direction");
    w.send->verb = 9;
    refuse(&w, "is not in the lane of its peer and direction");
    w.send->verb = RD_COPY;
    refuse(&w, "is not in the lane of its peer and direction");
    w.send->peer = 7;
    refuse(&w, "is not in the lane of its peer and direction");
    w.send->ordinal = 5;
    refuse(&w, "is number 0 of its lane and says 5");
    w.p->lanes[0].peer = w.p->lanes[1].peer = 0;
    for (uint32_t i = 0; i < w.p->lanes[1].end; i++) {
        w.p->steps[i].peer = 0;
        w.p->steps[i].back = RD_NONE;
    }
    refuse(&w, "rank 1 has two lanes for one peer and direction");
    release(&w);
}

TEST(steps_that_point_outside_are_refused)
{
    world w = two_shot();
    w.send->from_buffer = 7;
    refuse(&w, "touches buffer 7, which does not exist");
    w.send->from_buffer = RD_IN;
    refuse(&w, "names in, which has another name in place");
    w.send->from_at = UINT64_MAX;
    refuse(&w, "which has 60");
    w.recv->count = UINT64_MAX;
    refuse(&w, "which has 60");
    w.recv->side = 3;
    refuse(&w, "has a side or a scale that means nothing");
    w.send->scale = true;
    refuse(&w, "has a side or a scale that means nothing");
    w.recv->first_dep = UINT32_MAX;
    refuse(&w, "the dependencies of recv #1 from rank 0 are not in the list");
    w.p->deps[0].lane = 99;
    refuse(&w, "which does not exist");
    w.p->deps[0].step = UINT32_MAX;
    refuse(&w, "which does not exist");
    w.recv->first_forward = UINT32_MAX;
    w.recv->forward_count = 1;
    refuse(&w, "the forwards of recv #1 from rank 0 are not in the list");
    release(&w);
    w = (world){.a = &oddities[0], .n = 2, .count = 60, .mean = true};
    build(&w);
    first_with(w.p, RD_SCALE)->from_at = 1;
    refuse(&w, "local scale #3 reads another range than it writes");
    release(&w);
}

TEST(groups_that_are_none_are_refused)
{
    world w = two_shot();
    w.leader->group = 99;
    refuse(&w, "is in group 99 of 1");
    w.leader->group = RD_NONE;
    refuse(&w, "has a group without being a fold_many, or the reverse");
    w.p->groups[0].first = 9;
    refuse(&w, "the members of group 0 are not in the list");
    w.p->groups[0].count = 0;
    refuse(&w, "the members of group 0 are not in the list");
    w.p->groups[0].leader = UINT32_MAX;
    refuse(&w, "the leader of group 0 does not exist");
    w.p->groups[0].leader = w.send_at;
    w.leader->count = w.send->count;
    refuse(&w, "its leader not among them");
    w.p->members[0] = w.send_at;
    refuse(&w, "operand 0 of group 0 is no message of it");
    w.p->members[0] = 1000;
    refuse(&w, "operand 0 of group 0 is no message of it");
    w.p->members[0] = w.p->members[2];
    refuse(&w, "group 0 has two messages from rank 2");
    w.p->members[0] = RD_NONE;
    refuse(&w, "group 0 says 2 messages and has 1 of 3 operands");
    w.p->groups[0].arriving = 1;
    refuse(&w, "group 0 says 1 messages and has 2 of 3 operands");
    w.p->groups[0] =
        (rd_group){.leader = w.p->groups[0].leader, .first = 1, .count = 2, .arriving = 1};
    refuse(&w, "is in no group");
    w.leader->count--;
    refuse(&w, "operands of group 0 differ in size");
    first_with(w.p, RD_FOLD_MANY)->deps = 1;
    refuse(&w, "which is its group's leader's to do");
    release(&w);
}

/* --- what orders steps --- */

TEST(races_and_circles_are_refused)
{
    world w = two_shot();
    w.recv->deps = 0;
    refuse(&w, "rank 1: send #0 to rank 0 and recv #1 from rank 0 touch the same elements");
    w.p->deps[w.recv->first_dep] = (rd_dep){w.recv->lane, (uint32_t)(w.recv - w.p->steps)};
    refuse(&w, "nothing can move: rank");
    release(&w);

    /* What follows a send is sent only after it, but not read only after it was read. */
    w = good(rd_algorithm_named(RONDA_REDUCE_SCATTER, "ring"), 6, 40, false);
    for (uint32_t i = 0; i < w.p->step_count; i++)
        w.p->steps[i].deps = w.p->steps[i].verb == RD_SEND ? w.p->steps[i].deps : 0;
    refuse(&w, "touch the same elements of which one is written, in no certain order");
    release(&w);
}

/* Ring all-gather walks straight as long as it is small: own block, then one after the other. */
TEST(bad_straight_orders_are_refused)
{
    world w = good(rd_algorithm_named(RONDA_ALLGATHER, "ring"), 4, 2, true);
    uint32_t *straight = w.p->straight;
    if (!CHECK(straight && w.p->straight_count == 6, "%u steps to walk", w.p->straight_count))
        return;
    straight[0] = 99;
    refuse(&w, "entry 0 of the straight order is no step to walk");
    w.p->straight_count--;
    refuse(&w, "the straight order lacks recv #2 from rank 0");
    straight = w.p->straight;
    straight[2] = straight[0];
    refuse(&w, "the straight order has send #0 to rank 2 out of its lane's order");
    straight = w.p->straight;
    straight[1] = straight[2];
    refuse(&w, "the straight order has send #1 to rank 2 before recv #0 from rank 0");
    release(&w);

    w = two_shot();
    w.p->straight = rd_alloc(64);
    refuse(&w, "a straight order, but send #0 to rank 2 has 20 elements");
    release(&w);
    w = good(rd_algorithm_named(RONDA_REDUCE_SCATTER, "star"), 9, 1, false);
    w.p->straight = rd_alloc(64);
    refuse(&w, "a straight order, but more than 8 sends to rank 0");
    release(&w);
}

/* One-shot sends a copy of its data to everybody: what it lends while it is walked straight. */
TEST(bad_loans_and_twins_are_refused)
{
    world w = good(rd_algorithm_named(RONDA_ALLREDUCE, "one_shot"), 3, 60, false);
    if (!CHECK(w.p->straight && w.p->straight_lends && w.send->multicast_next != RD_NONE,
               "not walked"))
        return;
    w.p->straight_lends = false;
    refuse(&w, "rank 1: a straight order, but send #0 to rank 2 has 60 elements");
    w.send->from_buffer = RD_IN;
    for (uint32_t i = 0; i < w.p->step_count; i++)
        w.p->steps[i].multicast_next = w.p->steps[i].multicast_prev = RD_NONE;
    refuse(&w, "a straight order, but send #0 to rank 2 has 60 elements");
    w.leader->to_buffer = RD_SCRATCH;
    refuse(&w, "writes scratch that the straight order has lent");
    w.send->multicast_next = w.p->groups[0].leader;
    refuse(&w, "rank 1: send #0 to rank 2 is said to be in a multicast group with step");
    w.send->multicast_prev = UINT32_MAX - 1;
    refuse(&w, "rank 1: send #0 to rank 2 is said to be in a multicast group with step");
    w.leader->multicast_next = w.send_at;
    refuse(&w, "is said to be in a multicast group with step");
    w.p->steps[w.send->multicast_next].from_at = 1;
    w.p->steps[w.send->multicast_next].count--;
    refuse(&w, "is said to be in a multicast group with step");
    release(&w);
}

/* --- marks --- */

/* Rank 1 hears from rank 0, tells it, and hears again, into the same place. */
static void to_and_fro(rd_plan *p, rd_shape s)
{
    const rd_range in = rd_whole(s, RD_IN), out = rd_whole(s, RD_OUT);
    if (s.rank == 0) {
        rd_send(p, 1, in);
        rd_fold(p, 1, in, out, RD_HERE_LEFT);
        rd_round(p, 1);
        rd_send(p, 1, out);
    } else {
        rd_recv(p, 0, out);
        rd_send(p, 0, in);
        rd_round(p, 1);
        rd_recv(p, 0, out);
    }
}

static const rd_algorithm to_and_fro_row = {RONDA_ALLREDUCE, "to_and_fro", to_and_fro, 0, ""};

/* Rank 1 says everything twice, and hears the result. */
static void says_twice(rd_plan *p, rd_shape s)
{
    const rd_range in = rd_whole(s, RD_IN), out = rd_whole(s, RD_OUT);
    if (s.rank == 0) {
        rd_recv(p, 1, rd_scratch(p, 0, s.count));
        rd_fold(p, 1, in, out, RD_HERE_LEFT);
        rd_round(p, 1);
        rd_send(p, 1, out);
    } else {
        rd_send(p, 0, in);
        rd_send(p, 0, in);
        rd_round(p, 1);
        rd_recv(p, 0, out);
    }
}

static const rd_algorithm says_twice_row = {RONDA_ALLREDUCE, "says_twice", says_twice, 0, ""};

/* A broadcast to rank 1, which says what it heard and hears it again. */
static void echo(rd_plan *p, rd_shape s)
{
    const rd_range out = rd_whole(s, RD_OUT);
    if (s.rank == 0) {
        rd_send(p, 1, out);
        rd_recv(p, 1, rd_scratch(p, 0, s.count));
        rd_send(p, 1, out);
    } else {
        rd_recv(p, 0, out);
        rd_send(p, 0, out);
        rd_recv(p, 0, out);
    }
}

static const rd_algorithm echo_row = {RONDA_BROADCAST, "echo", echo, 0, ""};

/* Rank 1 has: to 0: send in; from 0: recv out, recv out. */
static world fro(void)
{
    world w = {.a = &to_and_fro_row, .n = 2, .count = 60};
    build(&w);
    w.send->back = RD_NONE;
    return w;
}

/* Rank 1 says all but the last and hears all but the first.  (No collective, but it runs.) */
static void slides(rd_plan *p, rd_shape s)
{
    const rd_range scratch = rd_scratch(p, 0, s.count - 1);
    if (s.rank == 0)
        rd_recv(p, 1, scratch);
    else
        rd_send(p, 0, (rd_range){RD_OUT, 0, s.count - 1});
    rd_round(p, 1);
    if (s.rank == 0)
        rd_send(p, 1, scratch);
    else
        rd_recv(p, 0, (rd_range){RD_OUT, 1, s.count - 1});
}

static const rd_algorithm slides_row = {RONDA_BROADCAST, "slides", slides, 0, ""};

TEST(bad_back_marks_are_refused)
{
    world w = two_shot();
    w.send->back = 1000;
    refuse(&w, "send #0 to rank 2 is to come back by step 1000");
    w.recv->back = 0;
    refuse(&w, "recv #1 from rank 0 is to come back by step 0");
    w.send->back = w.send_at;
    refuse(&w, "which is not its like");
    release(&w);

    w = fro();
    CHECK(rd_check_plans(w.plans, 2).ok, "%s", rd_check_plans(w.plans, 2).why);
    const uint32_t recv = (uint32_t)(w.recv - w.p->steps);
    w.send->back = recv + 1;
    refuse(
        &w,
        "send #0 to rank 0 is to come back by recv #1 from rank 0, which may be in the way of recv #0 from rank 0");
    w.send->back = recv;
    rd_free(w.p->deps);
    w.p->deps = rd_alloc(sizeof *w.p->deps);
    w.p->deps[0] = (rd_dep){w.recv->lane, recv};
    w.p->dep_count = 1;
    w.send->deps = 1;
    w.send->first_dep = 0;
    refuse(&w, "which may be done before send #0 to rank 0");
    release(&w);

    /* Rank 2 lends one range to ranks 0 and 1; rank 1 might still be reading. */
    w = good(&oddities[1], 3, 60, true);
    rd_plan *p = w.plans[2];
    first_with(p, RD_SEND)->back = (uint32_t)(first_with(p, RD_RECV) - p->steps);
    refuse(
        &w,
        "rank 2: send #0 to rank 0 is to come back by recv #0 from rank 0, which may have to wait for send #0 to rank 1");
    release(&w);

    /* When rank 0 has taken the second send, it has taken the first. */
    w = good(&says_twice_row, 2, 60, true);
    w.send[1].back = (uint32_t)(w.recv - w.p->steps);
    CHECK(rd_check_plans(w.plans, 2).ok, "%s", rd_check_plans(w.plans, 2).why);
    w.send[1].back = RD_NONE;
    w.send->back = (uint32_t)(w.recv - w.p->steps);
    refuse(
        &w,
        "send #0 to rank 0 is to come back by recv #0 from rank 0, which may have to wait for send #1 to rank 0");
    release(&w);

    /* The peer would write what it is still reading, one element further on. */
    w = (world){.a = &slides_row, .n = 2, .count = 60};
    build(&w);
    w.send->back = (uint32_t)(w.recv - w.p->steps);
    refuse(&w, "which may be in the way of send #0 to rank 0");
    release(&w);
}

/* Rank 1 of a ring in place folds block after block and sends on what it has folded. */
TEST(bad_forwards_are_refused)
{
    world w = good(rd_algorithm_named(RONDA_ALLREDUCE, "ring"), 3, 60, true);
    rd_step *fold = first_with(w.p, RD_FOLD);
    if (!CHECK(fold && fold->forward_count == 1, "the first fold forwards nothing"))
        return;
    w.p->forwards[fold->first_forward] = 1000;
    refuse(&w, "fold #0 from rank 0 forwards step 1000, which is no send");
    fold = first_with(w.p, RD_FOLD);
    w.p->forwards[fold->first_forward] = w.send_at;
    refuse(&w, "fold #0 from rank 0 forwards send #0 to rank 2, which sends another range");
    fold = first_with(w.p, RD_FOLD);
    const uint32_t twice[] = {w.p->forwards[fold->first_forward],
                              w.p->forwards[fold->first_forward]};
    rd_free(w.p->forwards);
    w.p->forwards = rd_alloc(sizeof twice);
    memcpy(w.p->forwards, twice, sizeof twice);
    w.p->forward_count = 2;
    for (uint32_t i = 0; i < w.p->step_count; i++)
        w.p->steps[i].first_forward = w.p->steps[i].forward_count = 0;
    fold->forward_count = 2;
    refuse(&w, "send #1 to rank 2 is forwarded twice");
    release(&w);

    /* Rank 0 of to_and_fro sends twice; the second waits for the fold alone. */
    w = fro();
    rd_plan *p = w.plans[0];
    rd_step *second = first_with(p, RD_SEND) + 1;
    if (!CHECK(p->forward_count == 1, "rank 0 forwards %u", p->forward_count))
        return;
    rd_dep *deps = rd_alloc(2 * sizeof *deps);
    deps[0] = (rd_dep){second->lane, (uint32_t)(first_with(p, RD_SEND) - p->steps)};
    deps[1] = p->deps[second->first_dep];
    rd_free(p->deps);
    p->deps = deps;
    p->dep_count = 2;
    second->first_dep = 0;
    second->deps = 2;
    refuse(
        &w,
        "rank 0: fold #0 from rank 1 forwards send #1 to rank 1, which has to wait for send #0 to rank 1");
    release(&w);

    /* The echo of what is heard first, forwarded by what is heard next. */
    w = good(&echo_row, 2, 60, false);
    if (!CHECK(w.recv->forward_count == 1, "the echo is not forwarded"))
        return;
    w.recv[1].first_forward = w.recv->first_forward;
    w.recv[1].forward_count = 1;
    w.recv->forward_count = 0;
    refuse(
        &w,
        "recv #1 from rank 0 forwards send #0 to rank 0, which sends what was written by another");
    release(&w);
}
