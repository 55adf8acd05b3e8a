/* test_checksum.c: CRC32C, and frames that were changed on their way. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "harness.h"
#include "links.h"
#include "transport/wire.h"

static uint32_t bit_by_bit(const uint8_t *data, size_t bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

TEST(the_checksum_is_crc32c)
{
    static const uint8_t zeros[32], digits[] = "123456789";
    for (const rd_crc32c_set *s = rd_crc32c_sets(); s->name; s++) {
        if (!s->usable)
            continue;
        CHECK(s->run(0, digits, 9) == 0xe3069283, "%s", s->name); /* as in RFC 3720 */
        CHECK(s->run(0, zeros, sizeof zeros) == 0x8a9136aa, "%s", s->name);
        CHECK(s->run(77, zeros, 0) == 77, "%s", s->name);
    }
    CHECK(rd_crc32c(0, digits, 9) == 0xe3069283, "the one that is used");
}

TEST(all_instruction_sets_give_the_same_checksum)
{
    enum { MOST = 5000 };
    static uint8_t data[MOST + 64];
    rng r = rng_start();
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)rng_next(&r);
    for (size_t bytes = 0; bytes < MOST; bytes += 1 + bytes / 50) {
        const uint8_t *at = data + rng_below(&r, 64);
        const size_t cut = rng_below(&r, bytes + 1);
        const uint32_t right = bit_by_bit(at, bytes);
        for (const rd_crc32c_set *s = rd_crc32c_sets(); s->name; s++) {
            if (!s->usable)
                continue;
            CHECK(s->run(0, at, bytes) == right, "%s, %zu bytes", s->name, bytes);
            CHECK(s->run(s->run(0, at, cut), at + cut, bytes - cut) == right,
                  "%s, %zu bytes cut at %zu", s->name, bytes, cut);
        }
    }
}

/* --- a bit is changed on its way: this program's own readv() --- */

enum { RANKS = 3, MOST_SOCKETS = 1024, ELEMENTS = 50000, MOST_CALLS = 24 };

static struct {
    pthread_mutex_t lock;
    bool greetings;              /* they are changed; else what follows them */
    int64_t left;                /* bytes until the one that is changed; negative: none is */
    uint8_t bits;                /* which of it */
    uint64_t seen[MOST_SOCKETS]; /* bytes that came by a descriptor */
    uint64_t all;                /* that could have been changed */
    bool done;
} line = {.lock = PTHREAD_MUTEX_INITIALIZER, .left = -1};

static void spoil(int fd, uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const bool greeting = line.seen[fd]++ < RD_GREETING;
        if (greeting != line.greetings)
            continue;
        line.all++;
        if (line.left < 0 || line.left-- > 0)
            continue;
        bytes[i] ^= line.bits;
        line.done = true;
    }
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
    pthread_mutex_lock(&line.lock);
    const ssize_t got = syscall(SYS_readv, fd, parts, count);
    uint64_t left = got > 0 ? (uint64_t)got : 0;
    for (int i = 0; i < count && left && fd < MOST_SOCKETS; i++) {
        const uint64_t n = parts[i].iov_len < left ? parts[i].iov_len : left;
        spoil(fd, parts[i].iov_base, n);
        left -= n;
    }
    pthread_mutex_unlock(&line.lock);
    return got;
}

typedef struct {
    ronda_comm *comms[RANKS];
    ronda_status status[RANKS];
    char why[RANKS][400];
    uint64_t wrong; /* elements of calls that said that all is well */
} trial;

static int64_t given(uint32_t rank, uint64_t call, uint64_t i)
{
    return (int64_t)((rank + 1) * (call * 31 + i % 1009));
}

static ronda_status call_once(ronda_comm *comm, uint32_t rank, uint64_t call, int64_t *data,
                              uint64_t *wrong)
{
    const uint64_t count = call % 4 == 3 ? 3 : ELEMENTS;
    const uint32_t root = (uint32_t)(call % RANKS), next = (rank + 1) % RANKS,
                   before = (rank + RANKS - 1) % RANKS;
    const uint64_t kind = call % 3;
    ronda_status status = RONDA_OK;
    for (uint64_t i = 0; i < count; i++)
        data[i] = given(rank, call, i);
    if (kind == 0)
        status = ronda_allreduce(comm, data, data, count, RONDA_I64, RONDA_SUM);
    else if (kind == 1)
        status = ronda_broadcast(comm, data, count, RONDA_I64, root);
    else if (rank == 0)
        (void)((status = ronda_send(comm, data, count, RONDA_I64, next, 5)) ||
               (status = ronda_recv(comm, data, count, RONDA_I64, before, 5, NULL)));
    else
        (void)((status = ronda_recv(comm, data, count, RONDA_I64, before, 5, NULL)) ||
               (status = ronda_send(comm, data, count, RONDA_I64, next, 5)));
    for (uint64_t i = 0; i < count && !status; i++) {
        const int64_t sum = given(0, call, i) + given(1, call, i) + given(2, call, i);
        const int64_t right = kind == 0   ? sum
                              : kind == 1 ? given(root, call, i)
                                          : given(0, call, i); /* it goes round */
        *wrong += data[i] != right;
    }
    return status;
}

static void try_rank(void *context, uint32_t rank)
{
    trial *t = context;
    int64_t *data = malloc(ELEMENTS * sizeof *data);
    uint64_t wrong = 0;
    for (uint64_t call = 0; data && call < MOST_CALLS && !t->status[rank]; call++)
        t->status[rank] = call_once(t->comms[rank], rank, call, data, &wrong);
    if (t->status[rank])
        snprintf(t->why[rank], sizeof t->why[rank], "%s", ronda_last_error(t->comms[rank]));
    ronda_close(t->comms[rank]);
    free(data);
    __atomic_fetch_add(&t->wrong, wrong, __ATOMIC_RELAXED);
}

/* One world in which so many bytes come before the one that is changed. */
static trial try(bool (*open)(uint32_t, rd_link *[]), bool greetings, int64_t left, uint8_t bits)
{
    static char said[RANKS][LINKS_LINE];
    rd_link *links[RANKS];
    trial t = {0};
    pthread_mutex_lock(&line.lock);
    memset(line.seen, 0, sizeof line.seen);
    line.greetings = greetings;
    line.left = left;
    line.bits = bits;
    line.all = 0;
    line.done = false;
    pthread_mutex_unlock(&line.lock);
    if (CHECK(open(RANKS, links) && links_comms(RANKS, links, said, t.comms), "no world"))
        run_ranks(RANKS, try_rank, &t);
    return t;
}

TEST(a_changed_frame_is_never_used)
{
    rng r = rng_start();
    const uint64_t until =
        rd_now_ns() + 1000000000 * (uint64_t)(test_seconds() ? test_seconds() : 3);
    trial t = try(links_tcp_checked, false, -1, 0);
    const uint64_t all = line.all;
    uint32_t tries = 0, found = 0;
    CHECK(!t.status[0] && !t.status[1] && !t.status[2] && !t.wrong, "%s", t.why[0]);
    for (; (rd_now_ns() < until || tries < 4) && !test_failed(); tries++) {
        /* Near the beginning there are as many heads as bytes of messages. */
        const uint64_t at = rng_below(&r, 1 + all / (tries % 2 ? 2 : 1000));
        t = try(links_tcp_checked, false, (int64_t)at, (uint8_t)(1 + rng_below(&r, 255)));
        CHECK(!t.wrong, "%" PRIu64 " wrong elements, and nobody said so (byte %" PRIu64 ")",
              t.wrong, at);
        if (!CHECK(line.done, "nothing was changed"))
            break;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            CHECK(t.status[rank] == RONDA_ESYSTEM &&
                      strncmp(t.why[rank], "the connection from rank ", 25) == 0 &&
                      strstr(t.why[rank], " corrupts data: the checksum of a frame does not match"),
                  "rank %u: %d %s (byte %" PRIu64 ")", rank, t.status[rank], t.why[rank], at);
            CHECK(strcmp(t.why[rank], t.why[0]) == 0, "ranks are told \"%s\" and \"%s\"", t.why[0],
                  t.why[rank]);
        }
        found += strstr(t.why[0], "match in ") != NULL;
    }
    CHECK(found > 0, "in %u tries no call was named", tries);
}

/* Who it is of cannot be trusted then: the rank that sent it is not let in, and nobody waits for long. */
TEST(a_changed_greeting_is_never_used)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < 12; i++) {
        const trial t = try(links_tcp_checked, true, (int64_t)rng_below(&r, 2 * RD_GREETING),
                            (uint8_t)(1 << rng_below(&r, 8)));
        CHECK(!t.wrong, "%" PRIu64 " wrong elements, and nobody said so", t.wrong);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            CHECK(t.status[rank] != RONDA_ETIMEOUT, "rank %u: %s", rank, t.why[rank]);
    }
}
