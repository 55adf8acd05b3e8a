/* test_ops.c: ops of the user's, that commute or not, in every collective that has one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

enum { MOST = 9 };

static void expect(ronda_status status, ronda_status want, const char *text, const char *says)
{
    CHECK(status == want && strstr(text, says), "%d: '%s' instead of '%s'", status, text, says);
}

/* x -> a x + b modulo 2^32, a in the upper half: applying one after the other is associative and does not
 * commute. */
static void compose(void *context, const void *left, const void *right, void *out, size_t count,
                    ronda_type type)
{
    const uint64_t *l = left, *r = right;
    uint64_t *o = out;
    CHECK(type == RONDA_U64 && *(int *)context == 77, "another type or context");
    for (size_t i = 0; i < count; i++) {
        const uint32_t a = (uint32_t)(l[i] >> 32), b = (uint32_t)l[i];
        const uint32_t c = (uint32_t)(r[i] >> 32), d = (uint32_t)r[i];
        o[i] = (uint64_t)(a * c) << 32 | (uint32_t)(a * d + b);
    }
}

/* The larger of two by the lower half alone: commutes. */
static void larger(void *context, const void *left, const void *right, void *out, size_t count,
                   ronda_type type)
{
    const uint64_t *l = left, *r = right;
    uint64_t *o = out;
    (void)context;
    (void)type;
    for (size_t i = 0; i < count; i++)
        o[i] = (uint32_t)l[i] > (uint32_t)r[i] ? l[i] : r[i];
}

static int seventy_seven = 77;
static ronda_op composing, largest;

static void make_ops(void)
{
    if (composing)
        return;
    CHECK(ronda_op_create("compose", compose, &seventy_seven, false, &composing) == RONDA_OK, "%s",
          ronda_last_error(NULL));
    CHECK(ronda_op_create("larger", larger, NULL, true, &largest) == RONDA_OK, "%s",
          ronda_last_error(NULL));
}

static uint64_t element(uint32_t rank, uint64_t i)
{
    return (rank * 0x9e3779b97f4a7c15u + 12345) * (2 * i + 1) | 1ull << 32;
}

typedef struct {
    uint32_t size;
    uint64_t count;
    ronda_comm *comms[MOST];
} op_world;

static uint64_t fold_of(ronda_op op, uint32_t ranks, uint64_t i)
{
    uint64_t x = element(0, i);
    for (uint32_t r = 1; r < ranks; r++) {
        const uint64_t y = element(r, i);
        (op == composing ? compose : larger)(&seventy_seven, &x, &y, &x, 1, RONDA_U64);
    }
    return x;
}

static void run_ops(void *context, uint32_t rank)
{
    const op_world *w = context;
    ronda_comm *comm = w->comms[rank];
    const uint32_t n = w->size;
    const uint64_t count = w->count;
    uint64_t *in = malloc((count * n + 1) * 8), *out = malloc((count * n + 1) * 8);
    for (int k = 0; k < 10; k++) {
        const ronda_op op = k % 2 ? composing : largest;
        const uint32_t root = n / 2;
        for (uint64_t i = 0; i < count * n; i++)
            in[i] = element(rank, i);
        memset(out, 0, (count * n + 1) * 8);
        uint64_t first = 0;
        uint32_t ranks = n;
        ronda_status status;
        switch (k / 2) {
        case 0:
            status = ronda_allreduce(comm, in, out, count, RONDA_U64, op);
            break;
        case 1:
            status = ronda_reduce(comm, in, out, count, RONDA_U64, op, root);
            ranks = rank == root ? n : 0;
            break;
        case 2:
            status = ronda_reduce_scatter(comm, in, out, count, RONDA_U64, op);
            first = rank * count;
            break;
        case 3:
            status = ronda_scan(comm, in, out, count, RONDA_U64, op);
            ranks = rank + 1;
            break;
        default:
            status = ronda_exscan(comm, in, out, count, RONDA_U64, op);
            ranks = rank;
            break;
        }
        CHECK(status == RONDA_OK, "%s", ronda_last_error(comm));
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t want = ranks ? fold_of(op, ranks, first + i) : 0;
            if (!CHECK(out[i] == want, "kind %d, op %d, rank %u of %u, element %" PRIu64, k / 2,
                       k % 2, rank, n, i))
                break;
        }
    }
    free(in);
    free(out);
}

TEST(ops_of_the_users)
{
    make_ops();
    for (uint32_t n = 1; n <= 9 && !test_failed(); n++)
        for (uint64_t count = 1; count <= 3000; count = count * 14 + 3) {
            op_world w = {.size = n, .count = count};
            /* what is forced and keeps no order is not taken for an op that needs it */
            if (!world_open(n, n % 2 ? "allreduce=ring,reduce=binomial" : NULL, w.comms))
                return;
            run_ranks(n, run_ops, &w);
            world_close(n, w.comms);
        }
}

static void run_other_op(void *context, uint32_t rank)
{
    ronda_comm *comm = ((ronda_comm **)context)[rank];
    uint64_t in = rank, out;
    const ronda_status status =
        ronda_allreduce(comm, &in, &out, 1, RONDA_U64, rank ? composing : largest);
    CHECK(status == RONDA_EMISMATCH && strstr(ronda_last_error(comm), "compose") &&
              strstr(ronda_last_error(comm), "larger"),
          "%s", ronda_last_error(comm));
}

/* Whatever number the name comes to, types are compared. */
static void run_other_type(void *context, uint32_t rank)
{
    const struct {
        ronda_comm *comms[2];
        ronda_op op;
    } *s = context;
    uint32_t in = rank, out;
    const ronda_status status =
        ronda_allreduce(s->comms[rank], &in, &out, 1, rank ? RONDA_F32 : RONDA_I32, s->op);
    CHECK(status == RONDA_EMISMATCH, "op %d: %s", s->op, ronda_last_error(s->comms[rank]));
}

TEST(types_are_compared_whatever_the_op)
{
    for (int i = 0; i < 20 && !test_failed(); i++) {
        struct {
            ronda_comm *comms[2];
            ronda_op op;
        } s;
        char name[16];
        snprintf(name, sizeof name, "op%d", i);
        CHECK(ronda_op_create(name, larger, NULL, true, &s.op) == RONDA_OK, "%s",
              ronda_last_error(NULL));
        if (!world_open(2, NULL, s.comms))
            return;
        run_ranks(2, run_other_type, &s);
        world_close(2, s.comms);
    }
}

TEST(ops_are_checked)
{
    ronda_comm *comms[2];
    ronda_op op;
    uint64_t word = 1;
    ronda_request *request;
    make_ops();
    CHECK(ronda_op_create("larger", larger, NULL, true, &op) == RONDA_OK && op == largest, "%s",
          ronda_last_error(NULL));
    expect(ronda_op_create("larger", larger, NULL, false, &op), RONDA_EINVAL,
           ronda_last_error(NULL), "there is an op 'larger' already");
    expect(ronda_op_create("", larger, NULL, true, &op), RONDA_EINVAL, ronda_last_error(NULL),
           "1 to 31 characters");
    expect(ronda_op_create("two words", larger, NULL, true, &op), RONDA_EINVAL,
           ronda_last_error(NULL), "no blanks");
    expect(ronda_op_create(NULL, larger, NULL, true, &op), RONDA_EINVAL, ronda_last_error(NULL),
           "1 to 31");
    expect(ronda_op_create("x", NULL, NULL, true, &op), RONDA_EINVAL, ronda_last_error(NULL),
           "function is NULL");
    expect(ronda_op_create("x", larger, NULL, true, NULL), RONDA_EINVAL, ronda_last_error(NULL),
           "out is NULL");
    if (!world_open(2, NULL, comms))
        return;
    expect(ronda_allreduce(comms[0], &word, &word, 1, RONDA_U64, 4711), RONDA_EINVAL,
           ronda_last_error(comms[0]), "4711 is not an op");
    expect(ronda_allreduce(comms[0], &word, &word, 1, composing, RONDA_U64), RONDA_EINVAL,
           ronda_last_error(comms[0]), "is an op (compose), not a type");
    const ronda_call call = {.struct_size = sizeof call,
                             .kind = RONDA_ALLREDUCE,
                             .type = RONDA_U64,
                             .op = composing,
                             .send = &word,
                             .recv = &word,
                             .count = 1,
                             .algorithm = "ring"};
    expect(ronda_post(comms[0], &call, &request), RONDA_EINVAL, ronda_last_error(comms[0]),
           "ring does not keep the order of ranks, and compose does not commute");
    run_ranks(2, run_other_op, comms);
    world_close(2, comms);
}
