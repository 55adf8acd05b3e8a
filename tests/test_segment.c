/* test_segment.c: a rank that writes invalid data.
 *
 * Ranks are processes over one memfd.  One more process scribbles into the memory while they call
 * collectives, or one of the ranks tells lies: its messages are forged in ways that fit the protocol
 * just so far.  Whatever stands there, every call of every rank returns in time with a status and a
 * sentence, nobody crashes, and nobody reads or writes outside the mapping and the caller's buffers:
 * all of these have pages behind them that nobody may touch.
 *
 *     rank 0   rank 1 ...   scribbler        one process each, world after world
 *        \        |            /
 *         `--- one memfd -----'
 *
 * A world is a function of its seed; failures print it. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "calls.h"
#include "comm/comm.h"
#include "liar.h"
#include "links.h"
#include "processes.h"
#include "transport/share.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
/* This program's own mmap: files are mapped between two pages that are nobody's. */
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (fd >= 0 && flags & MAP_SHARED && !at) {
        char *room = (char *)syscall(SYS_mmap, NULL, bytes + 8192, PROT_NONE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED)
            return MAP_FAILED;
        at = room + 4096;
        flags |= MAP_FIXED;
    }
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}
#endif

enum { MOST = 4, MOST_WORLDS = 64, CALLS = 8 };
enum { TIMEOUT_MS = 150, SLACK_MS = 8000, LIMIT_S = 15 };

/* What is done to a world. */
typedef enum { LIES, HEAD, BOARDS, LINES, COUNTERS, BYTES, ANYWHERE, LETTERS, HARMS } harm;
static const char *const harm_names[] = {"lies",     "head",  "boards",   "lines",
                                         "counters", "bytes", "anywhere", "letters"};

typedef struct {
    uint32_t size, worlds;
    uint64_t seeds[MOST_WORLDS];
    uint32_t lies[MOST_WORLDS];
    harm harms[MOST_WORLDS];
    int memory[MOST_WORLDS];
    int bells[MOST];
} batch;

/* Where processes meet in job.shared: numbers per process. */
enum { PID = 0, BEGUN = 8, DONE = 16, WORLD = 24 };

/* Until every process has come to this point. */
static bool meet(job *j, uint32_t what, uint64_t number, uint32_t rank)
{
    const double end = seconds_now() + LIMIT_S;
    j->shared->number[what + rank] = number;
    for (uint32_t r = 0; r < j->size; r++)
        while (j->shared->number[what + r] < number) {
            if (seconds_now() > end)
                return false;
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        }
    return true;
}

/* Bytes that end where nobody may go on. */
typedef struct {
    char *pages, *at;
    size_t whole;
} fenced;

static fenced fenced_open(size_t bytes)
{
    fenced f = {.whole = (bytes + 4095) / 4096 * 4096 + 4096};
    f.pages = mmap(NULL, f.whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f.pages == MAP_FAILED || mprotect(f.pages + f.whole - 4096, 4096, PROT_NONE))
        abort();
    f.at = f.pages + f.whole - 4096 - bytes;
    return f;
}

static void fenced_close(fenced *f)
{
    munmap(f->pages, f->whole);
}

/* --- the scribbler --- */

typedef struct {
    rd_share_head *head;
    rd_board *boards;
    rd_announced *calls;
    rd_queue *queues;
    uint32_t size;
    uint64_t limit, shared_bytes;
    char *mapping;
} target;

static void set(rng *r, void *word, size_t bytes, uint64_t limit)
{
    uint64_t now = 0;
    memcpy(&now, word, bytes);
    now = hurtful(r, now, limit);
    memcpy(word, &now, bytes);
}

static void scribble_head(rng *r, const target *t)
{
    switch (rng_below(r, 4)) {
    case 0:
        atomic_store(&t->head->alarm, (uint32_t)rng_below(r, 2));
        break;
    case 1:
        atomic_store(&t->head->deciding, (uint32_t)rng_below(r, 3));
        break;
    case 2:
        memset(t->head->cause.message, (int)(1 + rng_below(r, 255)), sizeof t->head->cause.message);
        break;
    default:
        t->head->cause.status = (ronda_status)(4 - (int)rng_below(r, 20));
        set(r, &t->head->cause.peer, 4, t->limit);
        set(r, &t->head->cause.sequence, 8, t->limit);
    }
}

static void scribble_board(rng *r, const target *t)
{
    const size_t rank = rng_below(r, t->size);
    rd_board *b = &t->boards[rank];
    switch (rng_below(r, 6)) {
    case 0:
        set(r, &b->entered, 8, t->limit);
        break;
    case 1:
        set(r, &b->awaits, 4, t->size);
        break;
    case 2:
        if (rng_below(r, 8) == 0)
            atomic_store(&b->closed, (uint32_t)rng_next(r));
        break;
    case 3:
        set(r, &b->heard_ns, 8, t->limit);
        break;
    case 4:
        atomic_store(&b->asleep, (uint32_t)rng_below(r, 3));
        break;
    default: {
        rd_announced *call = &t->calls[rank * rd_records(RD_CHANNELS) + rng_below(r, 2 * CALLS)];
        set(r, &call->words[rng_below(r, RD_RECORD_WORDS)], 8, t->limit);
    }
    }
}

static rd_queue *some_queue(rng *r, const target *t, bool of_letters)
{
    const uint64_t pairs = (uint64_t)t->size * t->size, calls = of_letters ? RD_CHANNELS : 0;
    return &t->queues[pairs * calls + rng_below(r, pairs * (rd_queues(RD_CHANNELS) - calls))];
}

static void scribble_line(rng *r, const target *t, bool of_letters)
{
    rd_queue *q = some_queue(r, t, of_letters);
    rd_line *l = &q->lines[rng_below(r, RD_QUEUE)];
    const uint64_t word = rng_below(r, 10);
    if (word < 8)
        set(r, (uint64_t *)l + word, 8, t->limit);
    else if (word == 8)
        l->kind = (uint8_t)rng_below(r, 6);
    else
        atomic_store(&l->seq, atomic_load(&l->seq) + RD_QUEUE);
}

/* A letter says its kind, a type, and a tag or a number; the receiver looks when its counter moves. */
static void scribble_letter(rng *r, const target *t)
{
    rd_queue *q = some_queue(r, t, true);
    switch (rng_below(r, 4)) {
    case 0:
        q->lines[rng_below(r, RD_QUEUE)].mark =
            rng_below(r, 6) << 56 | rng_below(r, 14) << 32 | rng_below(r, 4);
        break;
    case 1:
        set(r, &t->boards[rng_below(r, t->size)].message_lines, 4, 64);
        break;
    case 2:
        set(r, &q->consumed, 4, 64);
        break;
    default:
        scribble_line(r, t, true);
    }
}

static void scribble(rng *r, const target *t, harm what)
{
    switch (what) {
    case HEAD:
        scribble_head(r, t);
        break;
    case BOARDS:
        scribble_board(r, t);
        break;
    case LINES:
        scribble_line(r, t, false);
        break;
    case LETTERS:
        scribble_letter(r, t);
        break;
    case COUNTERS:
        set(r, &some_queue(r, t, false)->consumed, 4, 64);
        break;
    case BYTES:
        t->mapping[t->shared_bytes + rng_below(r, t->limit - t->shared_bytes)] = (char)rng_next(r);
        break;
    case ANYWHERE:
        set(r, t->mapping + 8 * rng_below(r, t->shared_bytes / 8), 8, t->limit);
        break;
    default:
        break;
    }
}

static int be_the_scribbler(job *j, const batch *b)
{
    const uint32_t me = b->size;
    for (uint32_t k = 0; k < b->worlds; k++) {
        rng r = {b->seeds[k] ^ 99};
        target t = {.size = b->size,
                    .limit = rd_shm_bytes(b->size),
                    .shared_bytes = rd_share_bytes(b->size, RD_CHANNELS)};
        t.mapping = mmap(NULL, t.limit, PROT_READ | PROT_WRITE, MAP_SHARED, b->memory[k], 0);
        t.head = (rd_share_head *)t.mapping;
        t.boards = (rd_board *)(t.head + 1);
        t.calls = (rd_announced *)(t.boards + t.size);
        t.queues = (rd_queue *)(t.calls + t.size * rd_records(RD_CHANNELS));
        if (!meet(j, BEGUN, k + 1, me))
            return 1;
        const uint64_t pause = rng_below(&r, 3), burst = 1 + rng_below(&r, 40);
        for (bool done = false; !done && b->harms[k] != LIES;) {
            for (uint64_t i = 0; i < burst; i++)
                scribble(&r, &t, b->harms[k]);
            if (pause)
                nanosleep(&(struct timespec){.tv_nsec = 30000 * (long)pause}, NULL);
            else
                sched_yield();
            done = true;
            for (uint32_t rank = 0; rank < b->size; rank++)
                done &= j->shared->number[DONE + rank] > k;
        }
        munmap(t.mapping, t.limit);
        if (!meet(j, DONE, k + 1, me))
            return 1;
    }
    return 0;
}

/* --- a rank --- */

static ronda_comm *join(job *j, const batch *b, uint32_t rank, uint32_t world)
{
    int own[MOST];
    int32_t pids[MOST];
    rd_link *link;
    ronda_comm *comm = NULL;
    rd_error err = {0};
    rd_settings settings = {.timeout_ns = TIMEOUT_MS * 1000000u};
    rng r = {b->seeds[world] ^ 55};
    for (uint32_t i = 0; i < b->size; i++) {
        own[i] = dup(b->bells[i]);
        pids[i] = (int32_t)j->shared->number[PID + i];
    }
    const rd_shm_parts parts = {
        .rank = rank, .size = b->size, .memfd = b->memory[world], .doorbells = own, .pids = pids};
    if (!CHECK(rd_shm_open(&parts, &link, &err) == RONDA_OK, "%s", err.message))
        return NULL;
    if (b->harms[world] == LIES && rank == b->seeds[world] % b->size)
        become_liar(link, b->seeds[world] ^ 77, b->lies[world],
                    (uint32_t)(b->seeds[world] >> 8) % 12);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        if (rng_below(&r, 6) == 0)
            settings.forced[rd_kind_row(a->kind)] = a;
    CHECK(rd_comm_open(link, &settings, NULL, &comm, &err) == RONDA_OK, "%s", err.message);
    return comm;
}

/* One sentence, and nothing that a terminal would not show. */
static bool is_sentence(const char *text)
{
    const size_t length = strnlen(text, sizeof((rd_error){0}).message);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return false;
    return length > 0 && length < sizeof((rd_error){0}).message;
}

/* A call that may fail, but not anyhow.  false: it has failed. */
static bool call_once(ronda_comm *comm, const model_call *c, uint32_t rank, harm h, uint64_t seed)
{
    fenced in = fenced_open(model_send_bytes(c, rank)),
           out = fenced_open(model_recv_bytes(c, rank));
    char why[300] = "";
    model_fill(c, rank, c->kind == RONDA_BROADCAST ? out.at : in.at);
    const double start = seconds_now();
    const call_buffers b = {.call = *c, .rank = rank, .send = in.at, .recv = out.at};
    const ronda_status status = call_run(comm, &b);
    const double ms = (seconds_now() - start) * 1000;

    CHECK(ms < TIMEOUT_MS + SLACK_MS, "seed %" PRIu64 ": rank %u: %s took %.0f ms", seed, rank,
          model_text(c), ms);
    CHECK(status <= 0 && status >= RONDA_EINTERNAL && status != RONDA_EINVAL &&
              status != RONDA_ENOMEM,
          "seed %" PRIu64 ": rank %u: %s: status %d", seed, rank, model_text(c), status);
    if (status) {
        ronda_error e = {.struct_size = sizeof e};
        ronda_get_error(comm, &e);
        CHECK(is_sentence(e.message) && e.status == status,
              "seed %" PRIu64 ": rank %u: %s: %d, %d: '%.479s'", seed, rank, model_text(c), status,
              e.status, e.message);
        CHECK(e.peer < c->size || e.peer == RONDA_ANY, "seed %" PRIu64 ": about rank %u", seed,
              e.peer);
        CHECK(ronda_barrier(comm) == status, "seed %" PRIu64 ": another status later", seed);
    } else if (h == BOARDS && !atomic_load(comm->link->alarm)) {
        /* They do no harm to what is in messages.  But who has failed asks them whether others still read its
         * memory, before it gives that back. */
        void *whole = model_whole(c);
        CHECK(model_same(c, rank, out.at, whole, why, sizeof why),
              "seed %" PRIu64 ": rank %u: %s is wrong: %s", seed, rank, model_text(c), why);
        free(whole);
    }
    fenced_close(&in);
    fenced_close(&out);
    return status == RONDA_OK;
}

/* It has failed: then it says so, and goes on saying it. */
static bool check_status(ronda_comm *comm, ronda_status status, double start, uint64_t seed)
{
    ronda_error e = {.struct_size = sizeof e};
    const double ms = (seconds_now() - start) * 1000;
    CHECK(ms < TIMEOUT_MS + SLACK_MS, "seed %" PRIu64 ": a message took %.0f ms", seed, ms);
    ronda_get_error(comm, &e);
    CHECK(status <= 0 && status >= RONDA_EINTERNAL && status != RONDA_ENOMEM,
          "seed %" PRIu64 ": status %d", seed, status);
    if (!status)
        return true;
    CHECK(is_sentence(e.message) && e.status == status, "seed %" PRIu64 ": %d, %d: '%.479s'", seed,
          status, e.status, e.message);
    return status == RONDA_EINVAL; /* what came does not fit, and stays */
}

/* Messages to the right, and from the left or from anybody: they may fail, but not anyhow. */
static bool write_once(ronda_comm *comm, uint32_t rank, rng *r, uint64_t seed)
{
    enum { LETTERS_EACH = 5 };
    static const uint64_t sizes[] = {0, 8, 48, 3000, 16384, 100000};
    const uint32_t n = ronda_size(comm), right = (rank + 1) % n, left = (rank + n - 1) % n;
    ronda_request *requests[2 * LETTERS_EACH] = {NULL};
    ronda_message info[LETTERS_EACH];
    fenced buffers[2 * LETTERS_EACH];
    bool good = true;
    for (uint32_t i = 0; i < 2 * LETTERS_EACH; i++) {
        const bool sends = i % 2;
        const uint64_t bytes = sizes[rng_below(r, 6)], dice = rng_below(r, 4);
        const double start = seconds_now();
        buffers[i] = fenced_open(sends ? bytes : 100000);
        if (good && sends)
            good = check_status(comm,
                                ronda_isend(comm, buffers[i].at, bytes, RONDA_U8, right,
                                            (uint32_t)i / 2 % 3, &requests[i]),
                                start, seed);
        else if (good)
            good = check_status(comm,
                                ronda_irecv(comm, buffers[i].at, 100000, RONDA_U8,
                                            dice ? left : RONDA_ANY, (uint32_t)i / 2 % 3,
                                            &info[i / 2], &requests[i]),
                                start, seed);
    }
    for (uint32_t i = 0; i < 2 * LETTERS_EACH; i++) {
        const double start = seconds_now();
        good &= check_status(comm, ronda_wait(requests[i]), start, seed);
    }
    for (uint32_t i = 0; i < 2 * LETTERS_EACH; i++)
        fenced_close(&buffers[i]);
    return good;
}

static int be_a_rank(job *j, uint32_t rank)
{
    static const uint64_t sizes[] = {8, 48, 500, 5000, 100000, 1000000};
    const batch *b = j->context;
    j->shared->number[PID + rank] = (uint64_t)getpid();
    if (!meet(j, WORLD, 1, rank))
        return 1;
    if (rank == b->size)
        return be_the_scribbler(j, b);
    for (uint32_t k = 0; k < b->worlds; k++) {
        rng r = {b->seeds[k]};
        j->shared->number[40 + rank] = k;
        ronda_comm *comm = join(j, b, rank, k);
        if (!comm || !meet(j, BEGUN, k + 1, rank))
            return 1;
        alarm(LIMIT_S);
        bool good = true;
        for (uint32_t i = 0; i < CALLS && good; i++) {
            model_call c = model_draw(&r, model_kind(&r), b->size, sizes[rng_below(&r, 6)]);
            c.data = MODEL_EXACT;
            if (b->harms[k] == LETTERS || (b->harms[k] != BOARDS && b->seeds[k] % 3 == 0))
                good = write_once(comm, rank, &r, b->seeds[k]);
            if (good)
                good = call_once(comm, &c, rank, b->harms[k], b->seeds[k]);
        }
        const ronda_status status = ronda_close(comm);
        CHECK(status <= 0, "closing gave %d", status);
        alarm(0);
        if (!meet(j, DONE, k + 1, rank) || test_failed())
            return 1;
    }
    return 0;
}

static void run_batch(batch *b)
{
    rd_error err = {0};
    job j = job_open(b->size + 1, be_a_rank, b);
    const int32_t us[MOST] = {getpid(), getpid(), getpid(), getpid()};
    for (uint32_t k = 0; k < b->worlds; k++) {
        b->memory[k] = rd_shm_create(b->size, &err);
        CHECK(b->memory[k] >= 0 && !rd_shm_prepare(b->memory[k], us, b->size, &err), "%s",
              err.message);
    }
    for (uint32_t r = 0; r < b->size; r++)
        b->bells[r] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    job_start(&j);
    job_wait(&j, 150);
    for (uint32_t r = 0; r <= b->size; r++) {
        const uint64_t k = j.shared->number[40 + r];
        const int s = j.status[r];
        CHECK(s == 0, "rank %u of %u ended by %s %d in the world of seed %" PRIu64 " (%s, lie %u)",
              r, b->size, WIFSIGNALED(s) ? "signal" : "status",
              WIFSIGNALED(s) ? WTERMSIG(s) : WEXITSTATUS(s), b->seeds[k], harm_names[b->harms[k]],
              b->lies[k]);
    }
    for (uint32_t k = 0; k < b->worlds; k++)
        close(b->memory[k]);
    for (uint32_t r = 0; r < b->size; r++)
        close(b->bells[r]);
    job_close(&j);
}

/* --- one line, many times --- */

static bool inside(const rd_member *m, const void *at, uint64_t bytes)
{
    const uintptr_t p = (uintptr_t)at;
    return p >= m->origin && bytes <= m->limit && p - m->origin <= m->limit - bytes;
}

/* Whatever is shown lies in the mapping, or is said to be no message. */
static void check_view(const rd_member *m, const rd_view *v, const rd_line *l, const char *when)
{
    if (v->total == UINT64_MAX)
        return;
    CHECK(v->data && v->bytes <= v->total && inside(m, v->data, v->bytes) &&
              (!v->back || inside(m, v->back, v->total)) && (v->bytes || !v->total),
          "%s: kind %u, len %u, at %" PRIx64 ", len %" PRIx64 ", total %" PRIx64 ", back %" PRIx64,
          when, l->kind, l->len, l->ref.at, l->ref.len, l->ref.total, l->ref.back);
}

static void spoil_line(rng *r, rd_line *l, uint64_t limit)
{
    if (rng_below(r, 4))
        l->kind = (uint8_t)rng_below(r, 6);
    for (uint64_t n = rng_below(r, 4); n > 0; n--)
        ((uint64_t *)l)[2 + rng_below(r, 5)] = hurtful(r, l->ref.len, limit);
    if (rng_below(r, 4) == 0)
        l->len = (uint8_t)rng_next(r);
}

TEST(every_line_is_doubted)
{
    rng r = rng_start();
    rd_link *links[2];
    if (!CHECK(links_shm(2, links), "no world"))
        return;
    const rd_transport *t = links[0]->transport;
    rd_member *m = (rd_member *)links[1];
    rd_port *from = t->port(links[1], 0, 2);
    uint64_t shown = 0;
    const uint32_t rounds = test_sanitized() ? 100000 : 1000000;
    for (uint32_t i = 0; i < rounds && !test_failed(); i++) {
        rd_line *l = line_of(m, 0, 1, 2, i);
        rd_view view;
        l->kind = LINE_STAGED;
        l->ref.at = rng_below(&r, m->limit - 2000);
        l->ref.len = l->ref.total = 2000;
        l->ref.back = 0;
        spoil_line(&r, l, m->limit);
        atomic_store(&l->seq, i + 1);
        if (!CHECK(t->peek(from, &view), "line %u is not seen", i))
            break;
        check_view(m, &view, l, "at first");
        shown += view.total != UINT64_MAX;
        if (view.total != UINT64_MAX && view.bytes > 1) {
            t->release(from, 1 + rng_below(&r, view.bytes - 1));
            spoil_line(&r, l, m->limit);
            t->peek(from, &view);
            check_view(m, &view, l, "after a part was taken");
        }
        t->release(from, view.bytes);
    }
    CHECK(shown > rounds / 20, "only %" PRIu64 " lines were good", shown);
    t->close(links[0]);
    t->close(links[1]);
}

/* Rank 0 only sends; once it has lied it makes no other call, so that nobody but rank 1 itself can end
 * rank 1's wait. */
static void lie_once(rng *r, uint32_t lie, size_t count)
{
    const rd_settings settings = {.timeout_ns = 100000000};
    rd_error err = {0};
    rd_link *links[2];
    ronda_comm *comms[2];
    double x[1000] = {0};
    if (!CHECK(links_shm(2, links), "no world"))
        return;
    const uint64_t seed = rng_next(r);
    become_liar(links[0], seed, lie, 0);
    for (int i = 0; i < 2; i++)
        if (!CHECK(!rd_comm_open(links[i], &settings, NULL, &comms[i], &err), "%s", err.message))
            return;
    CHECK(ronda_broadcast(comms[0], x, count, RONDA_F64, 0) == RONDA_OK, "the liar: %s",
          ronda_last_error(comms[0]));
    const double start = seconds_now();
    const ronda_status status = ronda_broadcast(comms[1], x, count, RONDA_F64, 0);
    CHECK(status <= 0 && (!status || is_sentence(ronda_last_error(comms[1]))),
          "seed %" PRIu64 ", lie %u: %d: %s", seed, lie, status, ronda_last_error(comms[1]));
    CHECK(seconds_now() - start < 10, "seed %" PRIu64 ", lie %u: %.1f s", seed, lie,
          seconds_now() - start);
    ronda_close(comms[0]);
    ronda_close(comms[1]);
}

TEST(a_rank_that_lies_and_leaves_it_at_that)
{
    rng r = rng_start();
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t lie = 0; lie < LIE_COUNT && !test_failed(); lie++) {
            lie_once(&r, lie, 1000);
            lie_once(&r, lie, 4);
        }
}

TEST(a_rank_that_lies)
{
    rng r = rng_start();
    test_deadline(300);
    for (uint32_t round = 0; round < (test_sanitized() ? 3 : 5) && !test_failed(); round++) {
        batch b = {.size = 2 + round % 3, .worlds = MOST_WORLDS};
        for (uint32_t k = 0; k < b.worlds; k++) {
            b.seeds[k] = rng_next(&r);
            b.lies[k] = k % LIE_COUNT;
        }
        run_batch(&b);
    }
}

TEST(memory_that_is_scribbled_over)
{
    rng r = rng_start();
    test_deadline(300);
    for (uint32_t round = 0; round < (test_sanitized() ? 5 : 10) && !test_failed(); round++) {
        batch b = {.size = 2 + round % 3, .worlds = MOST_WORLDS};
        for (uint32_t k = 0; k < b.worlds; k++) {
            b.seeds[k] = rng_next(&r);
            b.harms[k] = (harm)(HEAD + k % (HARMS - HEAD));
        }
        run_batch(&b);
    }
}
