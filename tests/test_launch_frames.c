/* test_launch_frames.c: what the launcher and the remote sides of `ronda run` say to each other, right
 * and mangled. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../cli/run_link.h"
#include "base/tell.h"
#include "mangle.h"

static bool open_pair(run_link *a, run_link *b)
{
    int there[2], back[2];
    if (!CHECK(pipe2(there, O_CLOEXEC) == 0 && pipe2(back, O_CLOEXEC) == 0, "no pipes"))
        return false;
    run_link_open(a, back[0], there[1]);
    run_link_open(b, there[0], back[1]);
    return true;
}

TEST(frames_arrive_as_they_were_sent)
{
    static const int kinds[] = {RUN_START, RUN_SIGNAL, RUN_WROTE, RUN_VERDICT, RUN_DONE};
    static const size_t numbers[] = {0, 1, 2, 3, 0};
    rng r = rng_start();
    run_link a, b;
    if (!open_pair(&a, &b))
        return;
    for (uint32_t i = 0; i < 2000 && !test_failed(); i++) {
        const size_t which = (size_t)rng_below(&r, 5);
        const size_t length = (size_t)rng_below(&r, rng_below(&r, 2) ? 300000 : 20);
        uint64_t sent[RUN_NUMBERS];
        char *bytes = malloc(length + 1);
        run_frame f = {0};
        for (size_t n = 0; n < RUN_NUMBERS; n++)
            sent[n] = rng_next(&r);
        for (size_t n = 0; n < length; n++)
            bytes[n] = (char)(n * 7 + i);
        run_link_put(&a, kinds[which], sent, numbers[which], bytes, length);
        while (!run_link_next(&b, &f) && !b.lost) {
            run_link_write(&a);
            run_link_read(&b);
        }
        CHECK(f.kind == kinds[which] && f.length == length && memcmp(f.bytes, bytes, length) == 0,
              "%u: kind %d, %zu bytes of %zu", i, f.kind, f.length, length);
        for (size_t n = 0; n < RUN_NUMBERS; n++)
            CHECK(f.numbers[n] == (n < numbers[which] ? sent[n] : 0), "%u: number %zu", i, n);
        free(bytes);
    }
    run_link_close(&a);
    run_link_read(&b);
    CHECK(b.lost, "the end is not seen");
    run_link_close(&b);
}

static char *program[] = {"./train", "--epochs", "", "a b", NULL};
static char *environment[] = {"RONDA_KEY=secret", "A=", NULL};
static char *nothing[] = {NULL};

static run_setup right_setup(bool bare)
{
    return (run_setup){.request = {.size = 8,
                                   .first = 2,
                                   .count = 4,
                                   .bind = !bare,
                                   .no_bind = bare,
                                   .verbose = bare,
                                   .grace_ns = 5000000000,
                                   .program = bare ? program + 3 : program},
                       .port = bare,
                       .directory = "/home/me",
                       .name = bare ? "" : "node7",
                       .environment = bare ? nothing : environment};
}

static bool same_words(char **a, char **b)
{
    for (; *a && *b; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return !*a && !*b;
}

TEST(a_setup_comes_out_as_it_went_in)
{
    for (int bare = 0; bare < 2; bare++) {
        const run_setup s = right_setup(bare);
        run_setup got;
        run_frame f;
        run_link a, b;
        if (!open_pair(&a, &b))
            return;
        CHECK(run_setup_put(&a, &s), "it cannot be put");
        run_link_write(&a);
        run_link_read(&b);
        if (CHECK(run_link_next(&b, &f) && run_setup_read(&f, &got), "it cannot be read")) {
            const run_request *q = &got.request, *was = &s.request;
            CHECK(q->size == was->size && q->first == was->first && q->count == was->count &&
                      q->bind == was->bind && q->no_bind == was->no_bind &&
                      q->verbose == was->verbose && q->grace_ns == was->grace_ns &&
                      got.port == s.port && strcmp(got.directory, s.directory) == 0 &&
                      strcmp(got.name, s.name) == 0 && same_words(q->program, was->program) &&
                      same_words(got.environment, s.environment),
                  "it is another");
            run_setup_free(&got);
        }
        run_link_close(&a);
        run_link_close(&b);
    }
}

/* A block of exactly the bytes that some frames take. */
static char *some_frames(rng *r, size_t *length)
{
    const run_setup s = right_setup(rng_below(r, 2));
    run_link l = {.in = -1, .out = STDOUT_FILENO};
    run_setup_put(&l, &s);
    run_link_put(&l, RUN_WROTE, (uint64_t[]){3, RUN_ERR}, 2, "words\n", 6);
    run_link_put(&l, RUN_PING, NULL, 0, NULL, 0);
    *length = l.put.to;
    char *bytes = malloc(*length + 300);
    memcpy(bytes, l.put.at, *length);
    l.out = -1;
    run_link_close(&l);
    return bytes;
}

static void check_setup(const run_frame *f, uint32_t *taken)
{
    run_setup s;
    if (!run_setup_read(f, &s))
        return;
    const run_request *q = &s.request;
    size_t length = strlen(s.directory) + 1 + strlen(s.name) + 1;
    for (char **word = q->program; *word; word++)
        length += strlen(*word) + 1;
    for (char **word = s.environment; *word; word++)
        length += strlen(*word) + 1;
    CHECK(q->size <= RUN_MOST_RANKS && q->count >= 1 && q->first + q->count <= q->size &&
              q->program[0][0] && length == f->length,
          "%u..+%u of %u, %zu bytes of %zu", q->first, q->count, q->size, length, f->length);
    run_setup_free(&s);
    ++*taken;
}

TEST(mangled_frames)
{
    rng r = rng_start();
    const uint32_t rounds = test_sanitized() ? 20000 : 200000;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < rounds && !test_failed(); i++) {
        size_t length, at = 0;
        char *bytes = some_frames(&r, &length);
        if (rng_below(&r, 8))
            length = mangle(&r, bytes, length, length + 300, false);
        char *exact = malloc(length ? length : 1);
        memcpy(exact, bytes, length);
        run_frame f;
        long n;
        while ((n = run_frame_read(exact + at, length - at, &f)) > 0) {
            CHECK((size_t)n <= length - at && f.bytes >= exact + at &&
                      f.bytes + f.length == exact + at + n,
                  "a frame of %ld bytes out of %zu", n, length - at);
            check_setup(&f, &taken);
            at += (size_t)n;
        }
        free(exact);
        free(bytes);
    }
    CHECK(taken > rounds / 20, "only %u were taken", taken);
}

/* --- what ranks say of each other --- */

static void throw_at(const char *name, const void *bytes, size_t length)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(to.sun_path + 1, name, strlen(name));
    const size_t named = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
    CHECK(sendto(fd, bytes, length, 0, (struct sockaddr *)&to, (socklen_t)named) == (ssize_t)length,
          "cannot send: %s", strerror(errno));
    close(fd);
}

/* The next one that is sound; false: there is none. */
static bool hear(int fd, run_told *out)
{
    while (run_tell_read(fd, out))
        if (out->sound)
            return true;
    return false;
}

TEST(the_launcher_hears_whose_failure_a_rank_saw)
{
    char name[RUN_TELL_NAME], garbage[100];
    run_told t;
    const int fd = run_tell_open(name);
    CHECK(fd >= 0, "no socket");
    setenv(RD_TELL, name, 1);
    setenv("RONDA_RANK", "2", 1);
    setenv("RONDA_SIZE", "5", 1);
    CHECK(!run_tell_read(fd, &t), "heard what nobody said");
    memset(garbage, 7, sizeof garbage);
    throw_at(name, garbage, sizeof garbage);
    throw_at(name, garbage, sizeof(rd_told));
    throw_at(name, garbage, 1);
    throw_at(name, garbage, 0);
    rd_tell(2, 4, 1); /* another world's */
    rd_tell(1, 5, 3);
    rd_tell(2, 5, 5);
    rd_tell(2, 5, 3);
    CHECK(hear(fd, &t) && t.rank == 2 && t.failed == 3 && t.pid == getpid(),
          "rank %u, %d, saw %u fail", t.rank, (int)t.pid, t.failed);
    CHECK(!hear(fd, &t), "heard more: rank %u, %u", t.rank, t.failed);
    rd_tell(2, 5, RD_TOLD_NOBODY);
    CHECK(hear(fd, &t) && t.rank == 2 && t.failed == RD_TOLD_NOBODY, "%u", t.failed);
    for (int i = 0; i < 40; i++)
        rd_tell(2, 5, 3); /* more than there is room for: nobody waits for ever */
    close(fd);
    rd_tell(2, 5, 3); /* and nobody is there */
    CHECK(!run_tell_read(-1, &t), "heard without an ear");
}

/* --- which rank failed first --- */

TEST(what_ranks_saw_leads_to_the_first_failure)
{
    /* saw[r] - 1: whose failure rank r saw, 0: none; failed: bit r */
    static const struct {
        uint32_t saw[5], failed, from, first;
    } rows[] = {
        {{0, 0, 0, 0, 0}, 0x02, 1, 1}, /* alone */
        {{0, 3, 0, 0, 0}, 0x06, 1, 2}, /* 1 saw 2, which saw nobody */
        {{2, 3, 4, 5, 0}, 0x1f, 0, 4}, /* from rank to rank */
        {{2, 3, 4, 5, 0}, 0x0f, 0, 3}, /* 4 did not fail: a connection to it was lost, say */
        {{0, 1, 0, 0, 0}, 0x02, 1, 1}, /* nor did 0 */
        {{2, 1, 0, 0, 0}, 0x03, 1, 1}, /* each saw the other: as it was heard */
        {{2, 1, 0, 0, 0}, 0x03, 0, 0}, {{9, 0, 0, 0, 0}, 0x01, 0, 0}, /* there is no such rank */
        {{1, 0, 0, 0, 0}, 0x01, 0, 0},                                /* itself */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run_end ends[5] = {{0}};
        for (uint32_t r = 0; r < 5; r++)
            ends[r] = (run_end){.saw = rows[i].saw[r], .failed = rows[i].failed >> r & 1};
        const uint32_t first = run_find_cause(ends, 5, rows[i].from);
        CHECK(first == rows[i].first, "row %zu: rank %u, not %u", i, first, rows[i].first);
    }
    /* Three that saw each other in a circle end, with one of them. */
    const run_end circle[3] = {
        {.saw = 2, .failed = true}, {.saw = 3, .failed = true}, {.saw = 1, .failed = true}};
    CHECK(run_find_cause(circle, 3, 0) < 3, "nobody");
}
