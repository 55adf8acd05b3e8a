/* run_link.c: frames between the launcher and the remote sides; see run_link.h. */
#include "run_link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { CHUNK = 65536 };

/* --- bytes that wait --- */

/* Room for so many more behind those in use. */
static bool bytes_room(run_bytes *b, size_t more)
{
    if (b->from) {
        memmove(b->at, b->at + b->from, b->to - b->from);
        b->to -= b->from;
        b->from = 0;
    }
    if (b->to + more <= b->capacity)
        return true;
    char *at = rd_realloc(b->at, 2 * (b->to + more));
    if (!at)
        return false;
    b->at = at;
    b->capacity = 2 * (b->to + more);
    return true;
}

static void bytes_add(run_bytes *b, const void *bytes, size_t length)
{
    if (length)
        memcpy(b->at + b->to, bytes, length);
    b->to += length;
}

static void add_number(run_bytes *b, uint64_t number, int wide)
{
    for (int i = 0; i < wide; i++)
        b->at[b->to++] = (char)(unsigned char)(number >> (8 * i));
}

static uint64_t get_number(const char *bytes, int wide)
{
    uint64_t number = 0;
    for (int i = 0; i < wide; i++)
        number |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
    return number;
}

/* --- frames --- */

/* How many numbers a frame has at least; -1: there is no such kind. */
static int numbers_of(int kind)
{
    switch (kind) {
    case RUN_SETUP:
        return 7;
    case RUN_ENDED:
        return 6;
    case RUN_VERDICT:
        return 3;
    case RUN_WROTE:
    case RUN_CREDIT:
        return 2;
    case RUN_SIGNAL:
    case RUN_READY:
        return 1;
    case RUN_PING:
    case RUN_START:
    case RUN_FAILURE:
    case RUN_END:
    case RUN_KILL:
    case RUN_INPUT:
    case RUN_DONE:
        return 0;
    default:
        return -1;
    }
}

long run_frame_read(const char *bytes, size_t length, run_frame *out)
{
    if (length < RUN_FRAME_HEAD)
        return 0;
    const size_t rest = (size_t)get_number(bytes, 4);
    const int kind = (unsigned char)bytes[4], count = numbers_of(kind);
    const size_t numbers = count < 0 ? 0 : 8 * (size_t)count;
    if (count < 0 || rest > RUN_FRAME_MOST || rest < 1 + numbers)
        return -1;
    if (length < 4 + rest)
        return 0;
    *out = (run_frame){
        .kind = kind, .bytes = bytes + RUN_FRAME_HEAD + numbers, .length = rest - 1 - numbers};
    for (int i = 0; i < count; i++)
        out->numbers[i] = get_number(bytes + RUN_FRAME_HEAD + 8 * i, 8);
    return (long)(4 + rest);
}

void run_link_put(run_link *l, int kind, const uint64_t numbers[], size_t count, const void *bytes,
                  size_t length)
{
    const size_t rest = 1 + 8 * count + length;
    if (l->lost || l->out < 0)
        return;
    if (!bytes_room(&l->put, 4 + rest)) {
        l->lost = true;
        return;
    }
    add_number(&l->put, rest, 4);
    add_number(&l->put, (uint64_t)kind, 1);
    for (size_t i = 0; i < count; i++)
        add_number(&l->put, numbers[i], 8);
    bytes_add(&l->put, bytes, length);
}

bool run_link_next(run_link *l, run_frame *out)
{
    const long n = run_frame_read(l->got.at + l->got.from, l->got.to - l->got.from, out);
    if (n > 0)
        l->got.from += (size_t)n;
    else if (n < 0)
        l->lost = true;
    return n > 0;
}

/* --- the two ends --- */

void run_link_open(run_link *l, int in, int out)
{
    *l = (run_link){.in = in, .out = out, .heard_ns = rd_now_ns()};
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
}

void run_link_close(run_link *l)
{
    if (l->in >= 0)
        close(l->in);
    if (l->out >= 0)
        close(l->out);
    rd_free(l->got.at);
    rd_free(l->put.at);
    *l = (run_link){.in = -1, .out = -1, .lost = true};
}

void run_link_read(run_link *l)
{
    if (l->in < 0)
        return;
    if (!bytes_room(&l->got, CHUNK)) {
        l->lost = true;
        return;
    }
    const ssize_t n = read(l->in, l->got.at + l->got.to, CHUNK);
    if (n > 0) {
        l->got.to += (size_t)n;
        l->heard_ns = rd_now_ns();
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        l->lost = true;
    }
}

void run_link_write(run_link *l)
{
    while (l->out >= 0 && !l->lost && l->put.from < l->put.to) {
        const ssize_t n = write(l->out, l->put.at + l->put.from, l->put.to - l->put.from);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 &&
            errno !=
                EINTR) { /* the other end is closed; frames that it sent before can still be read */
            close(l->out);
            l->out = -1;
            l->put.from = l->put.to = 0;
            return;
        }
        l->put.from += n > 0 ? (size_t)n : 0;
    }
}

/* --- RUN_SETUP --- */

enum { BIND = 1, NO_BIND = 2, PORT = 4, VERBOSE = 8, MOST_WORDS = 1 << 20 };
static const uint64_t MOST_GRACE_NS = 1000000000000000000;

static size_t words_count(char *const *words)
{
    size_t count = 0;
    while (words[count])
        count++;
    return count;
}

static void words_add(run_bytes *b, char *const *words)
{
    for (; *words; words++)
        bytes_add(b, *words, strlen(*words) + 1);
}

static size_t words_length(char *const *words)
{
    size_t length = 0;
    for (; *words; words++)
        length += strlen(*words) + 1;
    return length;
}

bool run_setup_put(run_link *l, const run_setup *s)
{
    const run_request *q = &s->request;
    const uint64_t numbers[RUN_NUMBERS] = {q->size,
                                           q->first,
                                           q->count,
                                           (q->bind ? BIND : 0u) | (q->no_bind ? NO_BIND : 0u) |
                                               (s->port ? PORT : 0u) | (q->verbose ? VERBOSE : 0u),
                                           q->grace_ns,
                                           words_count(q->program),
                                           words_count(s->environment)};
    run_bytes b = {0};
    char *where[] = {s->directory, s->name, NULL};
    const size_t length =
        words_length(where) + words_length(q->program) + words_length(s->environment);
    if (length > RUN_FRAME_MOST - 1000 || !bytes_room(&b, length))
        return false;
    words_add(&b, where);
    words_add(&b, q->program);
    words_add(&b, s->environment);
    run_link_put(l, RUN_SETUP, numbers, RUN_NUMBERS, b.at, b.to);
    rd_free(b.at);
    return !l->lost;
}

/* Cuts so many words off the bytes, each with its zero; NULL behind the last. */
static bool words_cut(char **words, uint64_t count, char **at, const char *end)
{
    for (uint64_t i = 0; i < count; i++) {
        char *zero = *at < end ? memchr(*at, 0, (size_t)(end - *at)) : NULL;
        if (!zero)
            return false;
        words[i] = *at;
        *at = zero + 1;
    }
    words[count] = NULL;
    return true;
}

static bool numbers_right(const uint64_t n[RUN_NUMBERS])
{
    return n[0] >= 1 && n[0] <= RUN_MOST_RANKS && n[2] >= 1 && n[2] <= n[0] &&
           n[1] <= n[0] - n[2] && n[3] <= (BIND | NO_BIND | PORT | VERBOSE) &&
           n[4] <= MOST_GRACE_NS && n[5] >= 1 && n[5] <= MOST_WORDS && n[6] <= MOST_WORDS;
}

bool run_setup_read(const run_frame *f, run_setup *out)
{
    const uint64_t *n = f->numbers;
    if (f->kind != RUN_SETUP || !numbers_right(n) || n[5] + n[6] + 2 > f->length)
        return false;
    const size_t pointers = (size_t)(n[5] + n[6] + 5) * sizeof(char *);
    char *memory = rd_alloc(pointers + f->length);
    if (!memory)
        return false;
    char **words = (char **)(void *)memory, **program = words + 3,
         **environment = program + n[5] + 1, *at = memory + pointers;
    const char *end = at + f->length;
    memcpy(at, f->bytes, f->length);
    if (!words_cut(words, 2, &at, end) || !words_cut(program, n[5], &at, end) ||
        !words_cut(environment, n[6], &at, end) || at != end || !program[0][0]) {
        rd_free(memory);
        return false;
    }
    *out = (run_setup){.request = {.size = (uint32_t)n[0],
                                   .first = (uint32_t)n[1],
                                   .count = (uint32_t)n[2],
                                   .bind = n[3] & BIND,
                                   .no_bind = n[3] & NO_BIND,
                                   .verbose = n[3] & VERBOSE,
                                   .grace_ns = n[4],
                                   .program = program},
                       .port = n[3] & PORT,
                       .directory = words[0],
                       .name = words[1],
                       .environment = environment,
                       .memory = memory};
    return true;
}

void run_setup_free(run_setup *s)
{
    rd_free(s->memory);
    *s = (run_setup){0};
}
