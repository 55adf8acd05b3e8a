/* test_gossip.c: what ranks that cannot look at each other say beyond the messages of their calls: nothing, as long
 * as calls take as long as they should. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"
#include "links.h"
#include "transport/wire.h"

enum { RANKS = 3, MOST_SOCKETS = 1024, MS = 1000000 };
static const uint64_t LATE_NS = 1000000000;

/* --- this program's own sendmsg() and aligned_alloc(), which count --- */

typedef struct {
    bool greeted;
    uint8_t first[RD_HEAD + RD_GREETING]; /* room for either */
    uint64_t have, left;                  /* of the greeting or head; and of the bytes behind it */
} stream;

static stream streams[MOST_SOCKETS];
static uint32_t said[RD_LAST_PARCEL + 1]; /* frames of each kind */
static _Atomic uint32_t allocations;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void count(stream *s, const uint8_t *bytes, uint64_t length)
{
    while (length) {
        const uint64_t whole = s->greeted ? RD_HEAD : RD_GREETING;
        const uint64_t wanted = s->left ? s->left : whole - s->have;
        const uint64_t n = wanted < length ? wanted : length;
        if (s->left) {
            s->left -= n;
        } else {
            memcpy(s->first + s->have, bytes, n);
            s->have += n;
        }
        bytes += n;
        length -= n;
        if (s->have < whole)
            continue;
        rd_head h = {0};
        if (s->greeted && CHECK(rd_head_unpack(s->first, &h), "what was sent is no frame"))
            said[h.kind]++;
        s->left = h.bytes;
        s->have = 0;
        s->greeted = true;
    }
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    pthread_mutex_lock(&counting);
    const ssize_t sent = syscall(SYS_sendmsg, fd, m, flags);
    uint64_t left = sent > 0 ? (uint64_t)sent : 0;
    for (size_t i = 0; i < m->msg_iovlen && left && fd < MOST_SOCKETS; i++) {
        const uint64_t n = m->msg_iov[i].iov_len < left ? m->msg_iov[i].iov_len : left;
        count(&streams[fd], m->msg_iov[i].iov_base, n);
        left -= n;
    }
    pthread_mutex_unlock(&counting);
    return sent;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
extern void *__libc_memalign(size_t alignment, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes)
{
    allocations++;
    return __libc_memalign(alignment, bytes);
}
#endif

static uint32_t frames(uint8_t kind)
{
    pthread_mutex_lock(&counting);
    const uint32_t n = said[kind];
    pthread_mutex_unlock(&counting);
    return n;
}

static uint32_t frames_of_no_call(void)
{
    uint32_t n = 0;
    for (uint8_t kind = 1; kind <= RD_LAST_PARCEL; kind++)
        n += kind == RD_MESSAGE || kind == RD_CREDIT ? 0 : frames(kind);
    return n;
}

/* Worlds are opened with this: sockets get the numbers of old ones. */
static bool open_world(uint32_t size, rd_link *links[], ronda_comm *comms[])
{
    static char lines[RANKS][LINKS_LINE];
    memset(streams, 0, sizeof streams);
    memset(said, 0, sizeof said);
    return CHECK(links_tcp(size, links), "no world") &&
           (!comms || CHECK(links_comms(size, links, lines, comms), "no communicators"));
}

static void rest(uint64_t ns)
{
    const uint64_t until = rd_now_ns() + ns;
    while (rd_now_ns() < until)
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
}

/* --- calls --- */

typedef enum { BARRIER, LONG_CALL, MESSAGE, SCENES } scene;

typedef struct {
    ronda_comm *comms[RANKS];
    scene what;
    uint64_t late_ns; /* the last rank comes so much later */
    float *data[RANKS];
    size_t count;
    _Atomic uint64_t longest_ns; /* of all calls */
} play;

static void call(play *p, uint32_t rank)
{
    ronda_comm *comm = p->comms[rank];
    const uint64_t count = p->what == LONG_CALL ? p->count : 1;
    ronda_status status = RONDA_OK;
    float *data = p->data[rank];
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(rank + i % 7);
    if (p->what == BARRIER)
        status = ronda_barrier(comm);
    else if (p->what == LONG_CALL)
        status = ronda_allreduce(comm, data, data, count, RONDA_F32, RONDA_SUM);
    else if (rank == RANKS - 1)
        status = ronda_send(comm, data, count, RONDA_F32, 0, 5);
    else if (rank == 0)
        status = ronda_recv(comm, data, count, RONDA_F32, RANKS - 1, 5, NULL);
    CHECK(status == RONDA_OK, "rank %u: %s", rank, ronda_last_error(comm));
    for (size_t i = 0; i < count && p->what == LONG_CALL; i++)
        if (!CHECK(data[i] == (float)(RANKS * (i % 7) + RANKS * (RANKS - 1) / 2), "wrong at %zu",
                   i))
            break;
}

static void play_rank(void *context, uint32_t rank)
{
    play *p = context;
    if (rank == RANKS - 1)
        rest(p->late_ns);
    const uint64_t start = rd_now_ns();
    call(p, rank);
    const uint64_t took = rd_now_ns() - start;
    if (took > p->longest_ns)
        p->longest_ns = took;
}

static void close_rank(void *context, uint32_t rank)
{
    play *p = context;
    CHECK(ronda_close(p->comms[rank]) == RONDA_OK, "rank %u", rank);
}

/* What was sent beside the calls' own, and what was allocated, in a world that has made the call before.
 * RONDA_ANY: the machine was so busy that the call was late indeed. */
static uint32_t say_beside(play *p, uint32_t *allocated)
{
    const uint64_t late_ns = p->late_ns;
    p->late_ns = 0;
    p->longest_ns = 0;
    run_ranks(RANKS, play_rank, p); /* connections, plans, buffers */
    run_ranks(RANKS, play_rank, p);
    p->late_ns = late_ns;
    p->longest_ns = 0;
    rest(20 * MS);
    const uint32_t before = frames_of_no_call(), had = allocations;
    run_ranks(RANKS, play_rank, p);
    *allocated = allocations - had;
    const uint32_t after = frames_of_no_call();
    return late_ns < LATE_NS && p->longest_ns >= LATE_NS ? RONDA_ANY : after - before;
}

static play *open_play(scene what, uint64_t late_ns)
{
    static float data[RANKS][1 << 20];
    static play p;
    rd_link *links[RANKS];
    p = (play){.what = what, .late_ns = late_ns, .count = 1 << 20};
    for (uint32_t r = 0; r < RANKS; r++)
        p.data[r] = data[r];
    return open_world(RANKS, links, p.comms) ? &p : NULL;
}

TEST(nothing_but_messages_is_sent_in_time)
{
    for (int what = 0; what < SCENES; what++) {
        uint32_t beside = RONDA_ANY, allocated = 0;
        for (int i = 0; i < 5 && beside == RONDA_ANY; i++) {
            play *p = open_play((scene)what, 400 * MS);
            if (!p)
                return;
            beside = say_beside(p, &allocated);
            run_ranks(RANKS, close_rank, p);
        }
        if (beside == RONDA_ANY) {
            test_skip("this machine is so busy that call %d was late five times", what);
            continue;
        }
        CHECK(!beside, "call %d: %u frames beside its own", what, beside);
        /* Longer messages may need more buffers than before, and what has a tag is an object. */
        CHECK(allocated <= (what == BARRIER ? 0 : 8), "call %d: %u blocks", what, allocated);
    }
}

/* And this is what the count finds when it is there. */
TEST(a_late_call_asks)
{
    for (int what = 0; what < SCENES; what += MESSAGE) {
        uint32_t allocated;
        play *p = open_play((scene)what, LATE_NS + 400 * MS);
        if (!p)
            return;
        CHECK(say_beside(p, &allocated) > 0, "call %d: nobody asked", what);
        run_ranks(RANKS, close_rank, p);
    }
}

/* --- asking on --- */

static void pump_all(rd_link *links[], uint32_t size)
{
    for (uint32_t i = 0; i < 100 * size; i++)
        links[i % size]->transport->pump(links[i % size]);
}

/* A message from each rank to the next one. */
static void connect_chain(rd_link *links[], uint32_t size)
{
    const rd_transport *t = links[0]->transport;
    for (uint32_t r = 0; r + 1 < size; r++) {
        uint64_t bytes = 1;
        rd_view view;
        rd_port *from = t->port(links[r], r + 1, 0), *to = t->port(links[r + 1], r, 0);
        *(char *)rd_port_reserve(from, 1, &bytes) = 'x';
        rd_port_commit(from, 1, 1, 0);
        const uint64_t until = rd_now_ns() + 10 * LATE_NS;
        while (!rd_port_peek(to, &view) && rd_now_ns() < until)
            pump_all(links, size);
        if (CHECK(rd_port_peek(to, &view), "rank %u is not connected", r))
            rd_port_release(to, 1);
    }
}

/* Rank 0 waits for 1, that for 2, and 2 for nobody; only the call of rank 0 is late. */
TEST(who_is_asked_answers_and_asks_on)
{
    rd_link *links[RANKS];
    if (!open_world(RANKS, links, NULL))
        return;
    const rd_transport *t = links[0]->transport;
    const rd_record record = {.sequence = 1, .mark = 5, .kind = RONDA_BARRIER};
    connect_chain(links, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        rd_control_enter(links[r], &record);
        rd_control_await(links[r], r + 1 < RANKS ? r + 1 : RONDA_ANY, false);
    }
    pump_all(links, RANKS);
    CHECK(frames(RD_NEWS) == 0, "%u frames in time", frames(RD_NEWS));
    const uint32_t looks = *links[2]->goodbyes;
    const uint64_t until = rd_now_ns() + 10 * LATE_NS;
    for (bool knows = false; !knows && rd_now_ns() < until;) {
        for (uint32_t r = 0; r < RANKS; r++) {
            rd_control_await(links[r], r + 1 < RANKS ? r + 1 : RONDA_ANY, r == 0);
            pump_all(links, RANKS);
        }
        knows =
            rd_control_presence(links[0], 1).awaits == 2 && rd_control_presence(links[0], 2).inside;
    }
    CHECK(rd_control_presence(links[0], 1).awaits == 2, "rank 0 does not know whom rank 1 awaits");
    CHECK(rd_control_presence(links[0], 2).inside,
          "rank 0 does not know that rank 2 is in the call");
    CHECK(*links[2]->goodbyes != looks, "rank 2 was not woken to answer");
    rest(LATE_NS + 200 * MS); /* nobody is late any more: nobody says more, whoever heard whom */
    pump_all(links, RANKS);
    const uint32_t before = frames(RD_NEWS);
    for (uint32_t i = 0; i < 20 * RANKS; i++) {
        rd_control_await(links[i % RANKS], RONDA_ANY, false);
        pump_all(links, RANKS);
    }
    CHECK(frames(RD_NEWS) == before, "they go on asking each other");
    for (uint32_t r = 0; r < RANKS; r++)
        t->close(links[r]);
}
