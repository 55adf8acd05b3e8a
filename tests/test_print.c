/* test_print.c: plans as text, and docs/ALGORITHMS.md, whose formulas and numbers come from here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"
#include "harness.h"
#include "plan/hosts.h"
#include "plan/print.h"
#include "plan/summary.h"

enum { MOST_WORLD = 40, DOC_COUNT = 1680 };

static const char document_path[] = "docs/ALGORITHMS.md";

/* --- formulas --- */

typedef struct {
    uint64_t rounds, messages, elements;
} formula_values;

/* What formulas speak of; the document says what each is. */
typedef struct {
    uint64_t n, c, up, down, p, rest, k, q, h, l, i, b, top;
} formula_of;

/* The one bits of 1 .. n-1 together: a block that has j ranks to go is sent once for each of j's. */
static uint64_t bits(uint64_t n)
{
    uint64_t count = 0;
    for (uint64_t j = 1; j < n; j++)
        for (uint64_t left = j; left; left /= 2)
            count += left % 2;
    return count;
}

/* X(kind, algorithm, rounds, messages, elements): in the document as they stand here. */
#define FORMULAS(X)                                                                                \
    X(ALLREDUCE, one_shot, 1, n - 1, c * (n - 1))                                                  \
    X(ALLREDUCE, two_shot, 2, 2 * (n - 1), 2 * c * (n - 1) / n)                                    \
    X(ALLREDUCE, few_shot, 2, k + n - 2, c + (n - 2) * q)                                          \
    X(ALLREDUCE, halving, 2 * down + (rest ? 2 : 0), 2 * down + (rest ? 1 : 0),                    \
      2 * c * (p - 1) / p + (rest ? c : 0))                                                        \
    X(ALLREDUCE, doubling, down + (rest ? 2 : 0), down + (rest ? 1 : 0),                           \
      c * (down + (rest ? 1 : 0)))                                                                 \
    X(ALLREDUCE, ring, 2 * (n - 1), 2 * (n - 1), 2 * c * (n - 1) / n)                              \
    X(ALLREDUCE, double_tree, 2 * up, n > 3 ? 4 : n, c * (n > 3 ? 4 : n) / 2)                      \
    X(ALLREDUCE, hierarchical, 2 * i + 2 * b, 2 * (l + h - 2), 2 * c * (n - 1) / n)                \
    X(ALLREDUCE, leaders, 2 * i + b, l + h - 2, c * (l + h - 2))                                   \
    X(ALLREDUCE, star, 2, n - 1, c * (n - 1))                                                      \
    X(REDUCE, direct, 1, 1, c)                                                                     \
    X(REDUCE, two_shot, 2, n, c)                                                                   \
    X(REDUCE, binomial, up, 1, c)                                                                  \
    X(REDUCE, hierarchical, 2 * i + 2 * b, l + h - 1, c + i * c * (h - 1) / n)                     \
    X(REDUCE, leaders, i + b, 1, c)                                                                \
    X(BROADCAST, direct, 1, n - 1, c * (n - 1))                                                    \
    X(BROADCAST, binomial, up, up, c *up)                                                          \
    X(BROADCAST, tree, down, n > 2 ? 2 : 1, c * (n > 2 ? 2 : 1))                                   \
    X(BROADCAST, scatter, up + n - 1, up + n - 1, 2 * c * (n - 1) / n)                             \
    X(BROADCAST, double_tree, n > 2 && rest != 1 ? up + 1 : up, 2, c)                              \
    X(BROADCAST, hierarchical, 2 * i + (h > 2 ? 2 : b), 2 * (l - 1) + h - 1,                       \
      2 * c * (l - 1) / l + b * c / l)                                                             \
    X(BROADCAST, leaders, top + i, top + l - 1, c * (top + l - 1))                                 \
    X(BROADCAST, star, 2, n - 1, c * (n - 1))                                                      \
    X(ALLGATHER, direct, 1, n - 1, c * (n - 1))                                                    \
    X(ALLGATHER, bruck, up, up, c *(n - 1))                                                        \
    X(ALLGATHER, ring, n - 1, n - 1, c * (n - 1))                                                  \
    X(ALLGATHER, hierarchical, 1 + i * b, n - 1, c * (n - 1))                                      \
    X(ALLGATHER, star, 2, n - 1, c * n * (n - 1))                                                  \
    X(ALLGATHERV, direct, 1, n - 1, c * (n - 1))                                                   \
    X(ALLGATHERV, ring, n - 1, n - 1, c * (n - 1))                                                 \
    X(ALLGATHERV, hierarchical, 1 + i * b, n - 1, c * (n - 1))                                     \
    X(REDUCE_SCATTER, direct, 1, n - 1, c * (n - 1))                                               \
    X(REDUCE_SCATTER, ring, n - 1, n - 1, c * (n - 1))                                             \
    X(REDUCE_SCATTER, halving, down + (rest ? 2 : 0), up, c * (rest ? n : n - 1))                  \
    X(REDUCE_SCATTER, hierarchical, 1 + i * b, n - 1, c * (n - 1))                                 \
    X(REDUCE_SCATTER, star, 2, n, c *n)                                                            \
    X(REDUCE_SCATTERV, direct, 1, n - 1, c * (n - 1))                                              \
    X(REDUCE_SCATTERV, ring, n - 1, n - 1, c * (n - 1))                                            \
    X(REDUCE_SCATTERV, halving, down + (rest ? 2 : 0), up, c * (rest ? n : n - 1))                 \
    X(REDUCE_SCATTERV, hierarchical, 1 + i * b, n - 1, c * (n - 1))                                \
    X(GATHER, direct, 1, 1, c)                                                                     \
    X(GATHER, binomial, up, 1, (rest > p / 2 ? rest : p / 2) * c)                                  \
    X(GATHERV, direct, 1, 1, c)                                                                    \
    X(SCATTER, direct, 1, n - 1, c * (n - 1))                                                      \
    X(SCATTER, binomial, up, up, (n - 1) * c)                                                      \
    X(SCATTERV, direct, 1, n - 1, c * (n - 1))                                                     \
    X(ALLTOALL, pairwise, 1, n - 1, c * (n - 1))                                                   \
    X(ALLTOALL, bruck, up, up, bits(n) * c)                                                        \
    X(ALLTOALLV, pairwise, 1, n - 1, c * (n - 1))                                                  \
    X(SCAN, linear, n - 1, 1, c)                                                                   \
    X(SCAN, doubling, up, up, c *up)                                                               \
    X(EXSCAN, linear, n - 1, 1, c)                                                                 \
    X(EXSCAN, doubling, up, up, c *up)                                                             \
    X(BARRIER, dissemination, up, up, up)                                                          \
    X(BARRIER, ring, 2 * n - 1, 2, 2)                                                              \
    X(BARRIER, leaders, top + 2 * i, top + l - 1, top + l - 1)                                     \
    X(BARRIER, star, 2, n - 1, n - 1)

#define X(kind, algorithm, rounds, messages, elements)                                             \
    static formula_values values_##kind##_##algorithm(formula_of w)                                \
    {                                                                                              \
        const uint64_t n = w.n, c = w.c, up = w.up, down = w.down, p = w.p, rest = w.rest,         \
                       k = w.k, q = w.q, h = w.h, l = w.l, i = w.i, b = w.b, top = w.top;          \
        (void)n, (void)c, (void)up, (void)down, (void)p, (void)rest, (void)k, (void)q;             \
        (void)h, (void)l, (void)i, (void)b, (void)top;                                             \
        return (formula_values){rounds, messages, elements};                                       \
    }
FORMULAS(X)
#undef X

static const struct {
    ronda_kind kind;
    const char *algorithm;
    formula_values (*values)(formula_of w);
    const char *rounds, *messages, *elements;
} formulas[] = {
#define X(kind, algorithm, rounds, messages, elements)                                             \
    {RONDA_##kind, #algorithm, values_##kind##_##algorithm, #rounds, #messages, #elements},
    FORMULAS(X)
#undef X
};

enum { FORMULA_COUNT = sizeof formulas / sizeof *formulas };

static size_t row_count(void)
{
    size_t count = 0;
    while (rd_algorithms[count].name)
        count++;
    return count;
}

/* Parts of equal size, on whole cache lines, however the algorithm cuts. */
static uint64_t even_count(uint32_t n)
{
    return (uint64_t)n * 32 * 16;
}

/* The smallest number of doublings that make n of 1. */
static uint64_t doublings(uint64_t n)
{
    uint64_t count = 0;
    while (n > UINT64_C(1) << count)
        count++;
    return count;
}

/* A world of n ranks, l to a host. */
static void check_formula(int i, const rd_algorithm *a, uint32_t n, uint32_t l)
{
    const uint64_t c = even_count(n), parts = c / 4096;
    formula_of w = {.n = n, .c = c, .up = doublings(n), .h = n / l, .l = l};
    rd_hosts *hosts = rd_hosts_even(n / l, l);
    const rd_shape shape = {
        .kind = a->kind, .size = n, .width = 4, .count = c, .hosts = l < n ? hosts : NULL};
    rd_totals t;
    w.down = n >> w.up ? w.up : w.up - 1;
    w.p = UINT64_C(1) << w.down;
    w.rest = n - w.p;
    w.k = parts < 1 ? 1 : parts;
    w.q = (c / 16 + w.k - 1) / w.k * 16;
    w.i = l > 1;
    w.b = w.h > 1;
    w.top = doublings(w.h);
    const formula_values f = formulas[i].values(w);
    if (CHECK(hosts && rd_totals_of(a, &shape, 0, &t), "no memory"))
        CHECK(t.rounds == f.rounds && t.messages == f.messages && t.elements == f.elements,
              "%s %s n=%u l=%u: %u rounds, %" PRIu64 " messages, %" PRIu64
              " elements; the formulas say %" PRIu64 ", %" PRIu64 ", %" PRIu64,
              rd_kind_name(a->kind), a->name, n, l, t.rounds, t.messages, t.elements, f.rounds,
              f.messages, f.elements);
    rd_hosts_free(hosts);
}

TEST(formulas_are_those_of_the_plans)
{
    CHECK(FORMULA_COUNT == row_count(), "%d formulas for %zu algorithms", FORMULA_COUNT,
          row_count());
    for (int i = 0; i < FORMULA_COUNT; i++) {
        const rd_algorithm *a = rd_algorithm_named(formulas[i].kind, formulas[i].algorithm);
        if (!CHECK(a, "there is no %s of kind %d", formulas[i].algorithm, formulas[i].kind))
            continue;
        for (uint32_t n = 2; n <= MOST_WORLD; n++)
            for (uint32_t l = a->flags & RD_BY_HOST ? 1 : n; l <= n; l++)
                if (n % l == 0)
                    check_formula(i, a, n, l);
    }
}

TEST(one_rank_sends_nothing)
{
    for (const rd_algorithm *a = rd_algorithms; a->name; a++) {
        const rd_shape shape = {.kind = a->kind, .size = 1, .width = 4, .count = 70};
        rd_totals t;
        if (!CHECK(rd_totals_of(a, &shape, 0, &t), "no memory"))
            return;
        CHECK(t.messages == 0 && t.elements == 0 && t.steps <= 1,
              "%s %s: %" PRIu64 " messages, %" PRIu64 " steps", rd_kind_name(a->kind), a->name,
              t.messages, t.steps);
    }
}

/* --- the document --- */

static char *read_document(void)
{
    FILE *file = fopen(document_path, "r");
    char *text = calloc(1, 1 << 17);
    if (file && text && fread(text, 1, (1 << 17) - 1, file) == (1 << 17) - 1)
        text[0] = 0; /* longer than this test can hold */
    if (file)
        fclose(file);
    CHECK(file && text && *text, "%s cannot be read; run tests from the root of the tree",
          document_path);
    return text;
}

/* Whether these lines, one behind the other, stand in the document right after `start`. */
static void expect_after(const char *document, const char *start, const char *lines)
{
    const char *at = strstr(document, start);
    if (!CHECK(at, "%s lacks: %s", document_path, start))
        return;
    at += strlen(start);
    while (*lines) {
        const size_t want = strcspn(lines, "\n"), have = strcspn(at, "\n");
        CHECK(want == have && memcmp(lines, at, want) == 0,
              "%s has\n  %.*s\nwhere the code says\n  %.*s", document_path, (int)have, at,
              (int)want, lines);
        lines += want + (lines[want] == '\n');
        at += have + (at[have] == '\n');
    }
}

TEST(the_document_has_the_formulas)
{
    char *document = read_document(), lines[8192] = "";
    size_t length = 0;
    for (int i = 0; i < FORMULA_COUNT; i++)
        length +=
            (size_t)snprintf(lines + length, sizeof lines - length, "| %s | %s | %s | %s | %s |\n",
                             rd_kind_name(formulas[i].kind), formulas[i].algorithm,
                             formulas[i].rounds, formulas[i].messages, formulas[i].elements);
    if (document)
        expect_after(
            document,
            "| collective | algorithm | rounds | messages | elements |\n|---|---|---|---|---|\n",
            lines);
    free(document);
}

TEST(the_document_has_the_numbers)
{
    static const struct {
        const char *says;
        uint32_t hosts, each;
    } worlds[] = {{"-n 2", 1, 2}, {"-n 4", 1, 4},   {"-n 7", 1, 7},
                  {"-n 8", 1, 8}, {"-n 16", 1, 16}, {"--hosts 2x4", 2, 4}};
    char *document = read_document();
    for (size_t i = 0; document && i < sizeof worlds / sizeof *worlds; i++) {
        rd_hosts *hosts = rd_hosts_even(worlds[i].hosts, worlds[i].each);
        const rd_shape shape = {.size = worlds[i].hosts * worlds[i].each,
                                .width = 4,
                                .count = DOC_COUNT,
                                .hosts = hosts};
        char start[128], lines[8192];
        snprintf(start, sizeof start, "`build/ronda plan --summary %s --count %d`\n\n```text\n",
                 worlds[i].says, DOC_COUNT);
        size_t length = rd_summary_line(NULL, &shape, 1 << 20, lines, sizeof lines);
        for (const rd_algorithm *a = rd_algorithms; a->name && length < sizeof lines - 4; a++)
            length += rd_summary_line(a, &shape, 1 << 20, lines + length, sizeof lines - length);
        if (CHECK(length && length < sizeof lines - 4, "%zu characters", length)) {
            strncat(lines, "```\n", sizeof lines - length - 1);
            expect_after(document, start, lines);
        }
        rd_hosts_free(hosts);
    }
    free(document);
}

/* Whether all ranks' elements meet in one pass, in every fold of every plan: then results are rounded once. */
static bool rounds_once(const rd_algorithm *a)
{
    bool once = true;
    rd_hosts *hosts = rd_hosts_make((const uint32_t[]){0, 0, 0, 1, 1}, 5);
    for (uint32_t rank = 0; rank < 5; rank++) {
        const rd_shape shape = {
            .kind = a->kind, .rank = rank, .size = 5, .width = 2, .count = 100, .hosts = hosts};
        rd_plan *p = rd_plan_build(a, &shape, 0);
        for (uint32_t i = 0; p && i < p->step_count; i++)
            once &= p->steps[i].verb != RD_FOLD && p->steps[i].verb != RD_MERGE;
        for (uint32_t i = 0; p && i < p->group_count; i++)
            once &= p->groups[i].count == shape.size;
        rd_plan_free(p);
    }
    rd_hosts_free(hosts);
    return once;
}

TEST(the_document_knows_the_order_of_folds)
{
    char *document = read_document();
    for (const rd_algorithm *a = rd_algorithms; document && a->name; a++) {
        char start[100];
        snprintf(start, sizeof start, "\n| %s | %s | ", rd_kind_name(a->kind), a->name);
        const char *line = strstr(document, start);
        if (!rd_kind_reduces(a->kind))
            continue;
        if (!CHECK(line, "%s lacks %s %s", document_path, rd_kind_name(a->kind), a->name))
            continue;
        line += strlen(start);
        const bool ordered = strncmp(line, "in rank order |", 15) == 0;
        const size_t rest = strcspn(line, "\n");
        const bool once = rest > 8 && strncmp(line + rest - 8, "| once |", 8) == 0;
        CHECK(ordered == !!(a->flags & RD_ORDERED) && once == rounds_once(a), "%s %s: %.*s",
              rd_kind_name(a->kind), a->name, (int)rest, line);
    }
    free(document);
}

/* --- the printer --- */

/* The text, exactly as long as it needs to be, so that a sanitizer sees one byte too many. */
static char *print(const rd_plan *p, ronda_op op)
{
    const size_t length = rd_plan_print(p, RONDA_F32, op, NULL, 0);
    char *text = malloc(length + 1);
    if (!CHECK(text, "no memory"))
        return NULL;
    CHECK(rd_plan_print(p, RONDA_F32, op, text, length + 1) == length, "the length is another");
    CHECK(strlen(text) == length, "%zu characters, not %zu", strlen(text), length);
    return text;
}

typedef struct {
    uint32_t steps, sends, receives; /* that the lines show */
    size_t widest;
    const char *wrong; /* NULL: nothing */
} reading;

/* Every number in a list such as "after 2, 5..7" comes before the step itself: so it can be followed. */
static bool waits_for_earlier(const char *line, size_t length, uint32_t number)
{
    const char *at = memmem(line, length, "   after ", 9), *end = line + length;
    if (!at)
        return true;
    for (at += 9; at < end && *at != ';'; at++) {
        char *after = NULL;
        if (*at < '0' || *at > '9')
            continue;
        if (strtoul(at, &after, 10) >= number)
            return false;
        at = after - 1;
    }
    return true;
}

/* "  round 1  chunk 2  4-6  fold_many ...": a line of the list; all others begin with other words. */
static void read_line(const char *line, size_t length, reading *r)
{
    static const char *const verbs[] = {"send", "recv",  "fold", "fold_many",
                                        "copy", "merge", "scale"};
    char text[512], word[32];
    uint32_t first, last;
    int used = 0;
    snprintf(text, sizeof text, "%.*s", (int)length, line);
    const char *at = text;
    while (sscanf(at, " %31s%n", word, &used) == 1 &&
           (strcmp(word, "round") == 0 || strcmp(word, "chunk") == 0)) {
        at += used;
        if (sscanf(at, " %31s%n", word, &used) == 1)
            at += used;
    }
    const int numbers = sscanf(word, "%" SCNu32 "-%" SCNu32, &first, &last);
    if (text[0] != ' ' || numbers < 1) {
        if (!waits_for_earlier(line, length, r->steps)) /* notes of the step above */
            r->wrong = "a step waits for one that is shown later";
        return;
    }
    last = numbers == 2 ? last : first;
    if (first != r->steps + 1 || last < first)
        r->wrong = "numbers do not follow each other";
    if (!waits_for_earlier(line, length, first))
        r->wrong = "a step waits for one that is shown later";
    r->steps = last;
    if (sscanf(at + used, " %31s", word) != 1)
        word[0] = 0;
    size_t verb = 0;
    while (verb < 7 && strcmp(word, verbs[verb]) != 0)
        verb++;
    r->sends += verb == 0;
    r->receives += verb >= 1 && verb <= 3 ? last - first + 1 : 0;
    if (verb == 7)
        r->wrong = "a step does what no step can do";
}

static reading read_text(const char *text)
{
    reading r = {0};
    while (*text) {
        const size_t length = strcspn(text, "\n");
        for (size_t i = 0; i < length; i++)
            if (text[i] < ' ' || text[i] > '~')
                r.wrong = "a character that is not ASCII";
        if (length > r.widest)
            r.widest = length;
        read_line(text, length, &r);
        text += length + (text[length] == '\n');
    }
    return r;
}

static uint32_t messages_of(const rd_plan *p, bool sends)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->step_count; i++)
        count += p->steps[i].peer != RD_NONE && (p->steps[i].verb == RD_SEND) == sends;
    return count;
}

static void check_text(const rd_plan *p, ronda_op op)
{
    const rd_shape *s = &p->shape;
    char *text = print(p, op), steps[40];
    if (!text)
        return;
    const reading r = read_text(text);
    snprintf(steps, sizeof steps, "\n  steps     %u%s", p->step_count, p->step_count ? "," : ":");
    const bool good = strstr(text, steps) && strstr(text, p->algorithm->about) &&
                      r.steps == p->step_count && r.sends == messages_of(p, true) &&
                      r.receives == messages_of(p, false) && !r.wrong;
    CHECK(good && r.widest <= (p->chunks > 1 ? 110 : 100),
          "%s %s n=%u rank=%u count=%" PRIu64
          " chunks=%u: %s; %u steps shown of %u, %zu columns\n%s",
          rd_kind_name(s->kind), p->algorithm->name, s->size, s->rank, s->count, p->chunks,
          r.wrong ? r.wrong : "numbers", r.steps, p->step_count, r.widest, text);
    free(text);
}

TEST(every_plan_prints_all_of_its_steps)
{
    static const uint64_t counts[] = {0, 1, 10, 1000};
    static const uint32_t host_of[] = {5, 5, 3, 5, 3, 3, 4, 4, 4};
    rd_hosts *maps[10] = {NULL};
    for (uint32_t n = 1; n <= 9; n++)
        maps[n] = rd_hosts_make(host_of, n);
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        for (uint32_t n = 1; n <= 9; n++)
            for (uint32_t rank = 0; rank < n; rank++)
                for (uint32_t variant = 0; variant < 16; variant++) {
                    rd_shape shape = {.kind = a->kind, .rank = rank, .size = n, .width = 4};
                    shape.hosts = variant & 2 ? maps[n] : NULL;
                    shape.count = a->kind == RONDA_BARRIER ? 1 : counts[variant % 4];
                    shape.root = rd_kind_rooted(a->kind) ? n / 2 : 0;
                    shape.mean = variant & 4 && rd_kind_means(a->kind);
                    shape.in_place =
                        variant & 8 && a->kind != RONDA_BARRIER && a->kind != RONDA_BROADCAST;
                    rd_plan *p = rd_plan_build(a, &shape, variant & 8 ? 100 : 0);
                    if (!CHECK(p, "no memory"))
                        return;
                    check_text(p, shape.mean ? RONDA_MEAN : variant & 8 ? RONDA_MAX : RONDA_SUM);
                    rd_plan_free(p);
                    if (test_failed())
                        return;
                }
    for (uint32_t n = 1; n <= 9; n++)
        rd_hosts_free(maps[n]);
}

static rd_plan *build(ronda_kind kind, const char *name, rd_shape shape)
{
    const rd_algorithm *a = rd_algorithm_named(kind, name);
    shape.kind = kind;
    shape.width = 4;
    rd_plan *p = a ? rd_plan_build(a, &shape, 0) : NULL;
    CHECK(p, "%s cannot be built", name);
    return p;
}

TEST(a_short_buffer_gets_the_beginning)
{
    rd_plan *p = build(RONDA_ALLREDUCE, "two_shot",
                       (rd_shape){.rank = 1, .size = 4, .count = 10, .mean = true});
    char *whole = p ? print(p, RONDA_MEAN) : NULL;
    const size_t length = whole ? strlen(whole) : 0;
    for (size_t capacity = 0; capacity <= length + 2 && whole; capacity++) {
        char *part = malloc(capacity + 1);
        if (!CHECK(part, "no memory"))
            break;
        memset(part, 'x', capacity + 1);
        const size_t kept = capacity == 0 ? 0 : capacity <= length ? capacity - 1 : length;
        CHECK(rd_plan_print(p, RONDA_F32, RONDA_MEAN, part, capacity) == length,
              "capacity %zu: another length", capacity);
        CHECK(part[capacity] == 'x' && memcmp(part, whole, kept) == 0 &&
                  (capacity == 0 || part[kept] == 0),
              "capacity %zu: not the beginning", capacity);
        free(part);
    }
    free(whole);
    rd_plan_free(p);
}

/* Prints a plan that an earlier build() made, and frees it. */
static void expect_text(rd_plan *p, ronda_op op, const char *const expected[])
{
    char *text = p ? print(p, op) : NULL;
    for (size_t i = 0; text && expected[i]; i++)
        CHECK(strstr(text, expected[i]), "lacks '%s':\n%s", expected[i], text);
    free(text);
    rd_plan_free(p);
}

TEST(steps_say_what_they_do)
{
    const rd_shape four = {.rank = 1, .size = 4, .count = 10};
    rd_shape mean = four, placed = four;
    mean.mean = true;
    placed.in_place = true;
    expect_text(build(RONDA_ALLREDUCE, "ring", four), RONDA_SUM,
                (const char *[]){
                    "allreduce of 10 f32, sum, by ring: rank 1 of 4\n",
                    "6 messages to 1 rank: 15 elements, 60 bytes\n",
                    "  round 0   1  send  in[0..2) -> rank 2\n",
                    "            2  fold  out[7..10) = rank 0's + in[7..10)\n",
                    "  round 1   3  send  out[7..10) -> rank 2                after 2; passed on\n",
                    "           10  recv  out[7..10) <- rank 0                after 3\n", NULL});
    expect_text(build(RONDA_ALLREDUCE, "ring", mean), RONDA_MEAN,
                (const char *[]){"out[2..5) = rank 0's + in[2..5), then / 4", NULL});
    expect_text(
        build(RONDA_ALLREDUCE, "two_shot", placed), RONDA_MIN,
        (const char *[]){"4-6  fold_many  out[2..5) = min(rank 0's, itself, ranks 2..3's)\n",
                         "1  send       out[5..7) -> rank 2", "returned as 12\n", NULL});
    expect_text(build(RONDA_ALLREDUCE, "halving", four), RONDA_BXOR,
                (const char *[]){" = in[0..5) ^ rank 3's\n", NULL});
    expect_text(build(RONDA_ALLGATHER, "bruck", four), RONDA_SUM,
                (const char *[]){"scratch[0..10) = in[0..10)\n",
                                 "  out       what it gets: 40 elements\n", NULL});
    expect_text(build(RONDA_ALLGATHER, "ring", placed), RONDA_SUM,
                (const char *[]){"what it gives is out[10..20)\n", NULL});
    expect_text(build(RONDA_REDUCE_SCATTER, "ring", placed), RONDA_SUM,
                (const char *[]){"what it gets is in[10..20)\n", NULL});
    expect_text(build(RONDA_BROADCAST, "tree", (rd_shape){.rank = 0, .size = 3, .root = 1}),
                RONDA_SUM,
                (const char *[]){"broadcast of 0 f32 from root 1, by tree: rank 0 of 3\n",
                                 "recv  out[0..0) <- rank 1   empty\n", NULL});
}

/* What the document quotes is what is printed. */
TEST(the_document_quotes_a_plan)
{
    char *document = read_document();
    const char *quote = document ? strstr(document, "```text\n  round 0") : NULL;
    rd_plan *p = build(RONDA_ALLREDUCE, "ring", (rd_shape){.rank = 1, .size = 4, .count = 10});
    char *text = p ? print(p, RONDA_SUM) : NULL;
    const char *list = text ? strstr(text, "  round 0") : NULL;
    if (CHECK(quote && list, "%s quotes no plan", document_path)) {
        quote += strlen("```text\n");
        CHECK(strncmp(quote, list, (size_t)(strstr(quote, "```") - quote)) == 0,
              "%.300s\nis not\n%.300s", quote, list);
    }
    free(text);
    free(document);
    rd_plan_free(p);
}

TEST(without_memory_the_header_is_printed)
{
    rd_plan *p = build(RONDA_ALLREDUCE, "ring", (rd_shape){.rank = 1, .size = 4, .count = 1000});
    if (!p)
        return;
    for (long good = 0; good < 5; good++) {
        rd_mem_fail_after(good);
        char text[4096];
        const size_t length = rd_plan_print(p, RONDA_F32, RONDA_SUM, text, sizeof text);
        rd_mem_fail_after(-1);
        const bool listed = strstr(text, "  round 0") != NULL;
        CHECK(length == strlen(text) && strstr(text, "allreduce of 1000 f32") &&
                  (listed || strstr(text, "no memory")),
              "%s", text);
        CHECK(listed == (good >= 4), "after %ld allocations: %s", good, text);
    }
    rd_plan_free(p);
}
