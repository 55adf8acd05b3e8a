/* test_api.c: every function of ronda.h, what it promises, and every argument that cannot be right.
 *
 * Bad calls are made by all ranks alike, and a good collective follows each: what was refused was
 * not made, and the communicator is as good as before. */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

enum { MOST = 16 };

/* --- small facts --- */

TEST(version_is_the_headers)
{
    CHECK(ronda_version() == RONDA_VERSION, "%u", ronda_version());
}

TEST(type_sizes)
{
    static const size_t sizes[] = {0, 2, 2, 4, 8, 1, 1, 2, 2, 4, 4, 8, 8};
    for (ronda_type t = 0; t <= RONDA_U64; t++)
        CHECK(ronda_type_size(t) == sizes[t], "type %d has %zu bytes", t, ronda_type_size(t));
    static const ronda_type none[] = {-1, 13, 14, 15, 1000, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 7; i++)
        CHECK(ronda_type_size(none[i]) == 0, "%d is a type", none[i]);
}

/* Values on the wire and in bindings are frozen. */
_Static_assert(RONDA_OK == 0 && RONDA_EINVAL == -1 && RONDA_ENOMEM == -2 && RONDA_ETIMEOUT == -3 &&
                   RONDA_EPEER == -4 && RONDA_EMISMATCH == -5 && RONDA_ELIMIT == -6 &&
                   RONDA_EUNSUPPORTED == -7 && RONDA_ESYSTEM == -8 && RONDA_EABORTED == -9 &&
                   RONDA_EINTERNAL == -10,
               "statuses");
_Static_assert(RONDA_F16 == 1 && RONDA_BF16 == 2 && RONDA_F32 == 3 && RONDA_F64 == 4 &&
                   RONDA_I8 == 5 && RONDA_U8 == 6 && RONDA_I16 == 7 && RONDA_U16 == 8 &&
                   RONDA_I32 == 9 && RONDA_U32 == 10 && RONDA_I64 == 11 && RONDA_U64 == 12,
               "types");
_Static_assert(RONDA_SUM == 101 && RONDA_MEAN == 102 && RONDA_PROD == 103 && RONDA_MIN == 104 &&
                   RONDA_MAX == 105 && RONDA_BAND == 106 && RONDA_BOR == 107 && RONDA_BXOR == 108,
               "ops");
_Static_assert(RONDA_ALLREDUCE == 201 && RONDA_BROADCAST == 203 && RONDA_ALLGATHER == 204 &&
                   RONDA_REDUCE_SCATTER == 206 && RONDA_BARRIER == 216,
               "kinds");

TEST(every_status_has_a_text)
{
    for (ronda_status a = RONDA_EINTERNAL; a <= RONDA_OK; a++) {
        CHECK(ronda_strerror(a) && *ronda_strerror(a), "status %d", a);
        for (ronda_status b = RONDA_EINTERNAL; b < a; b++)
            CHECK(strcmp(ronda_strerror(a), ronda_strerror(b)) != 0, "%d and %d are alike", a, b);
    }
    static const ronda_status none[] = {1, 2, -11, -12, 1000, INT32_MAX, -INT32_MAX, INT32_MIN};
    for (int i = 0; i < 8; i++)
        CHECK(ronda_strerror(none[i]) && *ronda_strerror(none[i]), "status %d", none[i]);
}

/* lo(r) = r * count / size, in numbers that do not overflow */
static size_t lower(size_t count, uint32_t size, uint32_t rank)
{
    return (size_t)((unsigned __int128)rank * count / size);
}

TEST(blocks_are_as_defined)
{
    rng r = rng_start();
    for (int i = 0; i < 20000; i++) {
        const uint32_t size = 1 + (uint32_t)rng_below(&r, i % 2 ? 40 : UINT32_MAX);
        const size_t count = i % 3 == 0   ? rng_below(&r, 100)
                             : i % 3 == 1 ? rng_next(&r)
                                          : SIZE_MAX - rng_below(&r, 9);
        const uint32_t rank = i % 5 ? (uint32_t)rng_below(&r, size) : size - 1;
        size_t offset = 7, length = 7;
        ronda_block(count, size, rank, &offset, &length);
        const size_t lo = lower(count, size, rank);
        const size_t hi = rank + 1 == size ? count : lower(count, size, rank + 1);
        CHECK(offset == lo && length == hi - lo, "block %u of %zu over %u is %zu + %zu", rank,
              count, size, offset, length);
        CHECK(length - count / size <= 1, "a block of %zu", length);
    }
}

TEST(blocks_cover_everything_once)
{
    for (uint32_t size = 1; size <= 33; size++)
        for (size_t count = 0; count <= 100; count++) {
            size_t next = 0;
            for (uint32_t rank = 0; rank < size; rank++) {
                size_t offset, length;
                ronda_block(count, size, rank, &offset, &length);
                CHECK(offset == next, "block %u of %zu over %u begins at %zu", rank, count, size,
                      offset);
                next = offset + length;
            }
            CHECK(next == count, "%zu over %u ends at %zu", count, size, next);
        }
    size_t offset, length;
    for (uint32_t i = 0; i < 4; i++) { /* no such rank, no such world */
        ronda_block(77, i == 3 ? 0 : 4,
                    i == 0   ? 4
                    : i == 1 ? 5
                    : i == 2 ? UINT32_MAX
                             : 0,
                    &offset, &length);
        CHECK(offset == 77 && length == 0, "case %u: %zu + %zu", i, offset, length);
    }
}

/* --- arguments that cannot be right --- */

static void still_good(ronda_comm *comm)
{
    const uint32_t n = ronda_size(comm), rank = ronda_rank(comm);
    uint32_t in[3] = {rank + 1, 10 * rank, 7}, out[3] = {0};
    const ronda_status status = ronda_allreduce(comm, in, out, 3, RONDA_U32, RONDA_SUM);
    CHECK(status == RONDA_OK && out[0] == n * (n + 1) / 2 && out[1] == 5 * n * (n - 1) &&
              out[2] == 7 * n,
          "not good any more: %s, %u %u %u", ronda_strerror(status), out[0], out[1], out[2]);
}

/* The call was refused with one sentence that names the thing. */
static void refused(ronda_comm *comm, ronda_status status, const char *thing, const char *what)
{
    ronda_error e = {.struct_size = sizeof e};
    char begin[64];
    const char *text = ronda_last_error(comm);
    snprintf(begin, sizeof begin, "rank %u: ", ronda_rank(comm));
    ronda_get_error(comm, &e);
    CHECK(status == RONDA_EINVAL, "%s: %s", what, ronda_strerror(status));
    CHECK(strstr(text, thing) && strncmp(text, begin, strlen(begin)) == 0 && !strchr(text, '\n') &&
              strlen(text) < 200,
          "%s: '%s' is not in: %s", what, thing, text);
    CHECK(e.status == status && e.rank == ronda_rank(comm) && e.peer == RONDA_ANY &&
              e.sequence == 0 && strcmp(e.message, text) == 0,
          "%s: status %d, rank %u, peer %u, sequence %" PRIu64, what, e.status, e.rank, e.peer,
          e.sequence);
    still_good(comm);
}

#define REFUSED(thing, call) refused(comm, call, thing, #call)

static void bad_pointers(ronda_comm *comm, uint32_t *a, uint32_t *b)
{
    REFUSED("send is NULL", ronda_allreduce(comm, NULL, b, 1, RONDA_U32, RONDA_SUM));
    REFUSED("recv is NULL", ronda_allreduce(comm, a, NULL, 1, RONDA_U32, RONDA_SUM));
    REFUSED("NULL", ronda_allreduce(comm, NULL, NULL, 1, RONDA_U32, RONDA_SUM));
    REFUSED("NULL", ronda_broadcast(comm, NULL, 1, RONDA_U32, 0));
    REFUSED("send is NULL", ronda_allgather(comm, NULL, b, 1, RONDA_U32));
    REFUSED("recv is NULL", ronda_allgather(comm, a, NULL, 1, RONDA_U32));
    REFUSED("send is NULL", ronda_reduce_scatter(comm, NULL, b, 1, RONDA_U32, RONDA_SUM));
    REFUSED("recv is NULL", ronda_reduce_scatter(comm, a, NULL, 1, RONDA_U32, RONDA_SUM));
}

static void bad_types_and_ops(ronda_comm *comm, uint32_t *a, uint32_t *b)
{
    static const ronda_type types[] = {0, -1, 13, 14, 99, INT32_MIN, INT32_MAX};
    static const ronda_op ops[] = {0, -1, 64, 109, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 7; i++) {
        REFUSED("is not a type", ronda_allreduce(comm, a, b, 1, types[i], RONDA_SUM));
        REFUSED("is not a type", ronda_broadcast(comm, a, 1, types[i], 0));
        REFUSED("is not a type", ronda_allgather(comm, a, b, 1, types[i]));
        REFUSED("is not a type", ronda_reduce_scatter(comm, a, b, 1, types[i], RONDA_SUM));
    }
    for (int i = 0; i < 6; i++) {
        REFUSED("is not an op", ronda_allreduce(comm, a, b, 1, RONDA_U32, ops[i]));
        REFUSED("is not an op", ronda_reduce_scatter(comm, a, b, 1, RONDA_U32, ops[i]));
    }
    for (ronda_type t = RONDA_F16; t <= RONDA_F64; t++)
        for (ronda_op o = RONDA_BAND; o <= RONDA_BXOR; o++) {
            static const char *const names[] = {"band is not defined for", "bor is not defined for",
                                                "bxor is not defined for"};
            REFUSED(names[o - RONDA_BAND], ronda_allreduce(comm, a, b, 1, t, o));
            REFUSED(names[o - RONDA_BAND], ronda_reduce_scatter(comm, a, b, 1, t, o));
        }
}

/* Types, ops and kinds have no number in common: one in the place of another is found, and named. */
static void swapped_numbers(ronda_comm *comm, uint32_t *a, uint32_t *b)
{
    ronda_request *r = NULL;
    ronda_call call = {.struct_size = sizeof call, .send = a, .recv = b, .count = 1};
    REFUSED("101 is an op (sum), not a type", ronda_allreduce(comm, a, b, 1, RONDA_SUM, RONDA_U32));
    REFUSED("10 is a type (u32), not an op", ronda_allreduce(comm, a, b, 1, RONDA_U32, RONDA_U32));
    REFUSED("108 is an op (bxor), not a type",
            ronda_reduce_scatter(comm, a, b, 1, RONDA_BXOR, RONDA_U32));
    REFUSED("104 is an op (min), not a type", ronda_scan(comm, a, b, 1, RONDA_MIN, RONDA_U32));
    REFUSED("202 is a collective (reduce), not a type",
            ronda_reduce(comm, a, b, 1, RONDA_REDUCE, RONDA_SUM, 0));
    REFUSED("201 is a collective (allreduce), not an op",
            ronda_iallreduce(comm, a, b, 1, RONDA_U32, RONDA_ALLREDUCE, &r));
    REFUSED("101 is an op (sum), not a type", ronda_send(comm, a, 1, RONDA_SUM, 0, 0));
    REFUSED("101 is an op (sum), not a type", ronda_recv(comm, a, 1, RONDA_SUM, 0, 0, NULL));
    call.kind = RONDA_SUM;
    REFUSED("101 is an op (sum), not a collective", ronda_post(comm, &call, &r));
    call.kind = RONDA_F32;
    REFUSED("3 is a type (f32), not a collective", ronda_post(comm, &call, &r));
    CHECK(!r, "a refused call left a request");
}

static void bad_roots_and_counts(ronda_comm *comm, uint32_t *a, uint32_t *b)
{
    const uint32_t n = ronda_size(comm);
    const size_t counts[] = {
        SIZE_MAX,        SIZE_MAX / 4 + 1,           SIZE_MAX / 4, SIZE_MAX / 2, SIZE_MAX / 8 + 1,
        (size_t)1 << 63, (size_t)PTRDIFF_MAX / 4 + 1};
    REFUSED("root", ronda_broadcast(comm, a, 1, RONDA_U32, n));
    REFUSED("root", ronda_broadcast(comm, a, 1, RONDA_U32, n + 1));
    REFUSED("root", ronda_broadcast(comm, a, 1, RONDA_U32, UINT32_MAX));
    REFUSED("root", ronda_broadcast(comm, NULL, 0, RONDA_U32, n));
    for (int i = 0; i < 7; i++) {
        REFUSED("elements", ronda_allreduce(comm, a, b, counts[i], RONDA_U32, RONDA_SUM));
        REFUSED("elements", ronda_broadcast(comm, a, counts[i], RONDA_U32, 0));
        REFUSED("elements", ronda_allgather(comm, a, b, counts[i], RONDA_U32));
        REFUSED("elements", ronda_reduce_scatter(comm, a, b, counts[i], RONDA_U32, RONDA_SUM));
    }
    const size_t each = SIZE_MAX / 4 / n + 1; /* a block fits, all of them do not */
    REFUSED("elements", ronda_allgather(comm, a, b, each, RONDA_U32));
    REFUSED("elements", ronda_reduce_scatter(comm, a, b, each, RONDA_U32, RONDA_SUM));
    REFUSED("timeout", ronda_set_timeout(comm, 0));
}

typedef struct {
    uint32_t size;
    ronda_comm *comms[MOST];
} world;

static void run_bad(void *context, uint32_t rank)
{
    const world *w = context;
    uint32_t a[MOST] = {0}, b[MOST] = {0};
    CHECK(strcmp(ronda_last_error(w->comms[rank]), "") == 0, "an error before any");
    bad_pointers(w->comms[rank], a, b);
    bad_types_and_ops(w->comms[rank], a, b);
    swapped_numbers(w->comms[rank], a, b);
    bad_roots_and_counts(w->comms[rank], a, b);
    for (uint32_t i = 0; i < MOST; i++)
        CHECK(a[i] == 0 && b[i] == 0, "a refused call wrote");
}

/* Runs the body in worlds of 1, 2 and 3. */
static void in_small_worlds(void (*body)(void *, uint32_t))
{
    for (uint32_t n = 1; n <= 3; n++) {
        world w = {.size = n};
        if (!world_open(n, NULL, w.comms))
            return;
        run_ranks(n, body, &w);
        world_close(n, w.comms);
    }
}

TEST(bad_arguments_are_refused)
{
    in_small_worlds(run_bad);
}

/* --- buffers that overlap --- */

/* Every distance in bytes at which two buffers of these lengths overlap, but the allowed one. */
static void run_overlaps(void *context, uint32_t rank)
{
    const world *w = context;
    ronda_comm *comm = w->comms[rank];
    const ptrdiff_t n = w->size, count = 3, bytes = count * 4, own = (ptrdiff_t)rank * bytes;
    char memory[600] = {0};
    char *middle = memory + 300;

    for (ptrdiff_t d = -bytes + 1; d < bytes; d++)
        if (d != 0)
            REFUSED("overlap", ronda_allreduce(comm, middle, middle + d, 3, RONDA_U32, RONDA_SUM));
    for (ptrdiff_t d = -bytes + 1; d < n * bytes; d++)
        if (d != own) {
            REFUSED("overlaps recv", ronda_allgather(comm, middle + d, middle, 3, RONDA_U32));
            REFUSED("overlaps send",
                    ronda_reduce_scatter(comm, middle, middle + d, 3, RONDA_U32, RONDA_SUM));
        }
    for (size_t i = 0; i < sizeof memory; i++)
        CHECK(memory[i] == 0, "a refused call wrote");
}

TEST(overlaps_are_refused)
{
    in_small_worlds(run_overlaps);
}

/* Buffers that touch, and the forms in place. */
static void run_allowed(void *context, uint32_t rank)
{
    const world *w = context;
    ronda_comm *comm = w->comms[rank];
    const uint32_t n = w->size;
    uint32_t m[64];

    for (int turn = 0; turn < 2; turn++) { /* send before recv, and after it */
        uint32_t *send = turn ? m + 2 : m, *recv = turn ? m : m + 2;
        send[0] = rank, send[1] = 10 + rank;
        CHECK(ronda_allreduce(comm, send, recv, 2, RONDA_U32, RONDA_MAX) == RONDA_OK, "%s",
              ronda_last_error(comm));
        CHECK(recv[0] == n - 1 && recv[1] == 9 + n && send[0] == rank, "%u %u", recv[0], recv[1]);

        send = turn ? m + 2 * n : m, recv = turn ? m : m + 2;
        send[0] = rank, send[1] = 10 + rank;
        CHECK(ronda_allgather(comm, send, recv, 2, RONDA_U32) == RONDA_OK, "%s",
              ronda_last_error(comm));
        for (uint32_t i = 0; i < n; i++)
            CHECK(recv[2 * i] == i && recv[2 * i + 1] == 10 + i, "block %u: %u %u", i, recv[2 * i],
                  recv[2 * i + 1]);

        send = turn ? m + 2 : m, recv = turn ? m : m + 2 * n;
        for (uint32_t i = 0; i < 2 * n; i++)
            send[i] = 100 * rank + i;
        CHECK(ronda_reduce_scatter(comm, send, recv, 2, RONDA_U32, RONDA_SUM) == RONDA_OK, "%s",
              ronda_last_error(comm));
        CHECK(recv[0] == 50 * n * (n - 1) + n * 2 * rank && recv[1] == recv[0] + n, "%u %u",
              recv[0], recv[1]);
    }
    m[0] = 5 + rank;
    CHECK(ronda_allreduce(comm, m, m, 1, RONDA_U32, RONDA_MIN) == RONDA_OK && m[0] == 5, "%u",
          m[0]);
    m[rank] = 40 + rank;
    CHECK(ronda_allgather(comm, m + rank, m, 1, RONDA_U32) == RONDA_OK, "%s",
          ronda_last_error(comm));
    for (uint32_t i = 0; i < n; i++)
        CHECK(m[i] == 40 + i, "block %u: %u", i, m[i]);
    CHECK(ronda_reduce_scatter(comm, m, m + rank, 1, RONDA_U32, RONDA_SUM) == RONDA_OK &&
              m[rank] == n * (40 + rank),
          "%u", m[rank]);
}

TEST(allowed_overlaps_work)
{
    in_small_worlds(run_allowed);
}

/* --- nothing --- */

static void run_empty(void *context, uint32_t rank)
{
    const world *w = context;
    ronda_comm *comm = w->comms[rank];
    uint32_t word = 77 + rank, *const where[] = {NULL, &word};
    for (int i = 0; i < 4; i++) {
        uint32_t *send = where[i % 2], *recv = where[i / 2];
        CHECK(ronda_allreduce(comm, send, recv, 0, RONDA_F32, RONDA_SUM) == RONDA_OK, "%s",
              ronda_last_error(comm));
        CHECK(ronda_broadcast(comm, recv, 0, RONDA_U8, w->size - 1) == RONDA_OK, "%s",
              ronda_last_error(comm));
        CHECK(ronda_allgather(comm, send, recv, 0, RONDA_I64) == RONDA_OK, "%s",
              ronda_last_error(comm));
        CHECK(ronda_reduce_scatter(comm, send, recv, 0, RONDA_BF16, RONDA_MEAN) == RONDA_OK, "%s",
              ronda_last_error(comm));
    }
    CHECK(ronda_barrier(comm) == RONDA_OK, "%s", ronda_last_error(comm));
    CHECK(word == 77 + rank, "something was written");
    CHECK(strcmp(ronda_last_error(comm), "") == 0, "%s", ronda_last_error(comm));
}

TEST(no_elements)
{
    in_small_worlds(run_empty);
}

TEST(no_communicator)
{
    uint32_t a = 0, b = 0;
    CHECK(ronda_allreduce(NULL, &a, &b, 1, RONDA_U32, RONDA_SUM) == RONDA_EINVAL, "allreduce");
    CHECK(ronda_broadcast(NULL, &a, 1, RONDA_U32, 0) == RONDA_EINVAL, "broadcast");
    CHECK(ronda_allgather(NULL, &a, &b, 1, RONDA_U32) == RONDA_EINVAL, "allgather");
    CHECK(ronda_reduce_scatter(NULL, &a, &b, 1, RONDA_U32, RONDA_SUM) == RONDA_EINVAL,
          "reduce_scatter");
    CHECK(ronda_barrier(NULL) == RONDA_EINVAL, "barrier");
    CHECK(ronda_set_timeout(NULL, 1) == RONDA_EINVAL, "set_timeout");
    CHECK(ronda_abort(NULL, "x") == RONDA_EINVAL, "abort");
    CHECK(ronda_close(NULL) == RONDA_OK, "close");
}

/* --- errors in parts --- */

TEST(an_error_fits_what_the_caller_has)
{
    ronda_comm *comm[1];
    if (!world_open(1, NULL, comm))
        return;
    CHECK(ronda_broadcast(comm[0], NULL, 1, RONDA_U8, 0), "a NULL was taken");
    struct {
        ronda_error error;
        char beyond[64];
    } e;
    static const size_t sizes[] = {0,
                                   sizeof(size_t),
                                   offsetof(ronda_error, peer),
                                   offsetof(ronda_error, message),
                                   sizeof(ronda_error),
                                   sizeof(ronda_error) + 64};
    for (int i = 0; i < 6; i++) {
        memset(&e, 0xee, sizeof e);
        e.error.struct_size = sizes[i];
        ronda_get_error(comm[0], &e.error);
        const size_t written = sizes[i] < sizeof e.error ? sizes[i] : sizeof e.error;
        for (size_t k = written > 8 ? written : 8; k < sizeof e; k++)
            CHECK(((unsigned char *)&e)[k] == 0xee, "%zu bytes: byte %zu was written", sizes[i], k);
        CHECK(e.error.struct_size == sizes[i], "struct_size %zu became %zu", sizes[i],
              e.error.struct_size);
        CHECK(i < 2 || e.error.status == RONDA_EINVAL, "%zu bytes: status %d", sizes[i],
              e.error.status);
        CHECK(i < 4 || strcmp(e.error.message, ronda_last_error(comm[0])) == 0, "another message");
    }
    ronda_get_error(comm[0], NULL);
    world_close(1, comm);
}

TEST(an_error_stays_until_the_next)
{
    ronda_comm *comm[1];
    char first[480];
    if (!world_open(1, NULL, comm))
        return;
    ronda_error e = {.struct_size = sizeof e};
    ronda_get_error(comm[0], &e);
    CHECK(e.status == RONDA_OK && e.peer == RONDA_ANY && e.message[0] == 0, "an error before any");
    CHECK(ronda_broadcast(comm[0], NULL, 1, RONDA_U8, 0), "a NULL was taken");
    snprintf(first, sizeof first, "%s", ronda_last_error(comm[0]));
    still_good(comm[0]);
    CHECK(strcmp(first, ronda_last_error(comm[0])) == 0, "'%s' became '%s'", first,
          ronda_last_error(comm[0]));
    CHECK(ronda_broadcast(comm[0], NULL, 1, RONDA_U8, 1), "a NULL was taken");
    CHECK(strcmp(first, ronda_last_error(comm[0])) != 0, "it is still '%s'", first);
    world_close(1, comm);
}

/* --- the collectives, by example --- */

static void run_examples(void *context, uint32_t rank)
{
    const world *w = context;
    ronda_comm *comm = w->comms[rank];
    CHECK(ronda_rank(comm) == rank && ronda_size(comm) == 4, "rank %u of %u", ronda_rank(comm),
          ronda_size(comm));

    const float mine[3] = {(float)rank, (float)rank, (float)rank};
    float sum[3], mean[3];
    CHECK(ronda_allreduce(comm, mine, sum, 3, RONDA_F32, RONDA_SUM) == RONDA_OK, "%s",
          ronda_last_error(comm));
    CHECK(ronda_allreduce(comm, mine, mean, 3, RONDA_F32, RONDA_MEAN) == RONDA_OK, "%s",
          ronda_last_error(comm));
    for (int i = 0; i < 3; i++)
        CHECK(sum[i] == 6 && mean[i] == 1.5, "element %d: sum %g, mean %g", i, (double)sum[i],
              (double)mean[i]);

    int64_t seven[7];
    for (int i = 0; i < 7; i++)
        seven[i] = (int64_t)rank * 100 + i;
    CHECK(ronda_allreduce(comm, seven, seven, 7, RONDA_I64, RONDA_SUM) == RONDA_OK, "%s",
          ronda_last_error(comm));
    for (int i = 0; i < 7; i++)
        CHECK(seven[i] == 600 + 4 * i, "element %d of 7 is %" PRId64, i, seven[i]);

    const int32_t two[2] = {(int32_t)rank * 10, (int32_t)rank * 10 + 1};
    int32_t eight[8];
    CHECK(ronda_allgather(comm, two, eight, 2, RONDA_I32) == RONDA_OK, "%s",
          ronda_last_error(comm));
    for (int i = 0; i < 8; i++)
        CHECK(eight[i] == i / 2 * 10 + i % 2, "element %d is %d", i, eight[i]);

    int32_t part[2];
    CHECK(ronda_reduce_scatter(comm, eight, part, 2, RONDA_I32, RONDA_SUM) == RONDA_OK, "%s",
          ronda_last_error(comm));
    CHECK(part[0] == (int32_t)rank * 40 && part[1] == (int32_t)rank * 40 + 4, "%d %d", part[0],
          part[1]);

    for (uint32_t root = 0; root < 4; root++) {
        double x[5];
        for (int i = 0; i < 5; i++)
            x[i] = rank * 8.0 + i;
        CHECK(ronda_broadcast(comm, x, 5, RONDA_F64, root) == RONDA_OK, "%s",
              ronda_last_error(comm));
        for (int i = 0; i < 5; i++)
            CHECK(x[i] == root * 8.0 + i, "root %u: element %d is %g", root, i, x[i]);
    }
    const int8_t odd = rank == 0 ? -4 : -1; /* -7 / 4 is -1, toward zero */
    int8_t quotient;
    CHECK(ronda_allreduce(comm, &odd, &quotient, 1, RONDA_I8, RONDA_MEAN) == RONDA_OK &&
              quotient == -1,
          "%d", quotient);
}

TEST(four_ranks_by_example)
{
    world w = {.size = 4};
    if (!world_open(4, NULL, w.comms))
        return;
    run_ranks(4, run_examples, &w);
    world_close(4, w.comms);
}

/* --- the barrier waits --- */

enum { ROUNDS = 400 };
typedef struct {
    uint32_t size;
    ronda_comm *comms[MOST];
    _Atomic uint32_t entered[ROUNDS];
} gathering;

static void run_gathering(void *context, uint32_t rank)
{
    gathering *g = context;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        if (i % 8 == 0 && rank == i / 8 % g->size)
            sleep_ms(1); /* the others stand before it, and wait */
        atomic_fetch_add(&g->entered[i], 1);
        CHECK(ronda_barrier(g->comms[rank]) == RONDA_OK, "%s", ronda_last_error(g->comms[rank]));
        CHECK(atomic_load(&g->entered[i]) == g->size,
              "rank %u left barrier %u when %u of %u had come", rank, i,
              atomic_load(&g->entered[i]), g->size);
    }
}

TEST(no_rank_leaves_a_barrier_before_the_last_has_come)
{
    static const char *const algorithms[] = {NULL, "barrier=dissemination", "barrier=ring",
                                             "barrier=star"};
    static const uint32_t sizes[] = {1, 2, 3, 5, 8, 13};
    test_deadline(90);
    for (int a = 0; a < 4; a++)
        for (int s = 0; s < (test_sanitized() ? 4 : 6) && !test_failed(); s++) {
            gathering g = {.size = sizes[s]};
            if (!world_open(g.size, algorithms[a], g.comms))
                return;
            run_ranks(g.size, run_gathering, &g);
            world_close(g.size, g.comms);
        }
}
