/* test_draw.c: the pictures of `ronda plan --draw` and `--svg`.
 *
 * Pictures are read back: what can be seen in them must be the messages of the plans, each once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/picture.h"
#include "base/mem.h"
#include "base/names.h"
#include "harness.h"

typedef void draw_fn(FILE *to, const cli_picture *p);

/* To be freed; NULL: the test has failed. */
static char *drawn(draw_fn *draw, const cli_picture *p)
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (!CHECK(to, "no stream"))
        return NULL;
    draw(to, p);
    fclose(to);
    return text;
}

static cli_plan_request request_of(ronda_kind kind, const char *name, uint32_t size, uint64_t count)
{
    cli_plan_request q = {.shape = {.kind = kind, .size = size, .width = 4, .count = count},
                          .type = RONDA_F32,
                          .op = RONDA_SUM};
    q.algorithm = rd_algorithm_named(kind, name);
    CHECK(q.algorithm, "there is no %s", name);
    return q;
}

/* --- pictures as they stand --- */

static void expect_text(const cli_plan_request *q, const char *expected)
{
    cli_picture p;
    char *text = CHECK(cli_picture_make(q, &p), "no memory") ? drawn(cli_draw_text, &p) : NULL;
    CHECK(text && strcmp(text, expected) == 0, "%s:\n%s", q->algorithm->name, text);
    free(text);
    cli_picture_free(&p);
}

TEST(a_ring_as_text)
{
    const cli_plan_request q = request_of(RONDA_ALLREDUCE, "ring", 3, 9);
    expect_text(
        &q,
        "allreduce of 9 f32, sum, by ring: 3 ranks\n"
        "  ring reduce-scatter, then ring all-gather; 2(n-1) rounds, the fewest bytes, two neighbours\n"
        "\n"
        "             rank 0          rank 1          rank 2\n"
        "               |               |               |\n"
        "  round 0      o--in[6..9)---+>o--in[0..3)---+>|\n"
        "               |<+----------in[3..6)-----------o\n"
        "               |               |               |\n"
        "  round 1      o--out[3..6)--+>o--out[6..9)--+>|\n"
        "               |<+----------out[0..3)----------o\n"
        "               |               |               |\n"
        "  round 2      o--out[0..3)--->o--out[3..6)--->|\n"
        "               |<-----------out[6..9)----------o\n"
        "               |               |               |\n"
        "  round 3      o--out[6..9)--->o--out[0..3)--->|\n"
        "               |<-----------out[3..6)----------o\n"
        "               |               |               |\n"
        "  o--->  received    o--+>  folded with what the receiver has\n");
}

TEST(a_tree_as_text)
{
    cli_plan_request q = request_of(RONDA_BROADCAST, "tree", 4, 10);
    q.shape.root = 1;
    expect_text(
        &q,
        "broadcast of 10 f32, root 1, by tree: 4 ranks\n"
        "  binary tree, ranks rotated to the root; a rank sends twice at most, chunks stream down\n"
        "\n"
        "             rank 0           rank 1           rank 2           rank 3\n"
        "               |                |                |                |\n"
        "  round 0      |                o--out[0..10)--->|                |\n"
        "               |                o----------out[0..10)------------>|\n"
        "               |                |                |                |\n"
        "  round 1      |<-----------out[0..10)-----------o                |\n"
        "               |                |                |                |\n"
        "  o--->  received\n");
}

/* --- pictures read back --- */

enum { MOST_ROUNDS = 64, SIGNS = 3 };

/* How many messages go from rank to rank in a round, by what becomes of them. */
typedef struct {
    uint32_t at[MOST_ROUNDS][CLI_TEXT_RANKS][CLI_TEXT_RANKS][SIGNS];
    uint32_t total;
} traffic;

static int sign_of(char c)
{
    return c == '+' ? 1 : c == '*' ? 2 : 0;
}

/* From the plans: what b does with the i-th message from a, for every message. */
static void count_messages(const cli_plan_request *q, traffic *t)
{
    rd_plan *plans[CLI_TEXT_RANKS];
    rd_shape shape = q->shape;
    for (shape.rank = 0; shape.rank < shape.size; shape.rank++)
        plans[shape.rank] = rd_plan_build(q->algorithm, &shape, 0);
    for (uint32_t a = 0; a < shape.size; a++)
        for (uint32_t i = 0; i < plans[a]->step_count; i++) {
            const rd_step *s = &plans[a]->steps[i], *take = NULL;
            if (s->verb != RD_SEND)
                continue;
            const rd_plan *b = plans[s->peer];
            for (uint32_t k = 0; k < b->step_count && !take; k++)
                if (b->steps[k].peer == a && b->steps[k].verb != RD_SEND &&
                    b->steps[k].ordinal == s->ordinal)
                    take = &b->steps[k];
            if (!CHECK(take && s->round < MOST_ROUNDS, "%s: nobody takes it", q->algorithm->name))
                continue;
            t->at[s->round][a][s->peer][take->verb - RD_RECV]++;
            t->total++;
        }
    for (uint32_t a = 0; a < shape.size; a++)
        rd_plan_free(plans[a]);
}

/* The tail of the arrow whose head is at rank `to`: the next column that shows one. */
static uint32_t tail_of(const char *line, const size_t columns[], uint32_t size, uint32_t to,
                        int step)
{
    for (uint32_t r = to + (uint32_t)step; r < size; r += (uint32_t)step) {
        const char *c = line + columns[r];
        if (*c == 'o' && c[-step] == '-' && c[1] != 'u') /* "out" is a label */
            return r;
    }
    return RD_NONE;
}

static void read_line(const char *line, const size_t columns[], uint32_t size, uint32_t round,
                      traffic *t)
{
    const size_t length = strlen(line);
    for (uint32_t r = 0; r < size; r++)
        for (int step = -1; step <= 1; step += 2) { /* from the left, from the right */
            const size_t head = columns[r] + (size_t)step;
            if (head >= length || line[head] != (step < 0 ? '>' : '<'))
                continue;
            const uint32_t from = tail_of(line, columns, size, r, step);
            if (CHECK(from < size, "no tail: %s", line))
                t->at[round][from][r][sign_of(line[head + (size_t)step])]++;
            t->total++;
        }
}

static void read_text(char *text, uint32_t size, traffic *t)
{
    size_t columns[CLI_TEXT_RANKS] = {0};
    uint32_t round = 0;
    for (char *line; (line = strsep(&text, "\n"));) {
        if (strncmp(line, "      ", 6) == 0 && strstr(line, "rank 0"))
            for (uint32_t r = 0; r < size; r++) {
                char name[24];
                snprintf(name, sizeof name, "rank %u", r);
                columns[r] = (size_t)(strstr(line, name) - line) + (strlen(name) - 1) / 2;
            }
        if (strncmp(line, "  round ", 8) == 0)
            round = (uint32_t)strtoul(line + 8, NULL, 10);
        if (columns[0] && (strncmp(line, "  round ", 8) == 0 || strncmp(line, "      ", 6) == 0))
            read_line(line, columns, size, round, t);
    }
}

TEST(hosts_as_text)
{
    cli_plan_request q = request_of(RONDA_BROADCAST, "leaders", 4, 9);
    rd_hosts *hosts = rd_hosts_even(2, 2);
    q.shape.hosts = hosts;
    expect_text(
        &q, "broadcast of 9 f32, root 0, by leaders: 4 ranks on 2 hosts of 2\n"
            "  binomial tree to one rank of each host, which tells the others; for small counts\n"
            "\n"
            "             rank 0          rank 1          rank 2          rank 3\n"
            "               |               |               |               |\n"
            "  round 0      o----------out[0..9)----------->|               |\n"
            "               |               |               |               |\n"
            "  round 1      o--out[0..9)--->|               o--out[0..9)--->|\n"
            "               |               |               |               |\n"
            "  o--->  received\n");
    rd_hosts_free(hosts);
}

static cli_plan_request draw_request(rng *r, const rd_algorithm *a)
{
    static const uint64_t tops[] = {2, 40, 3000, 1u << 24};
    cli_plan_request q = request_of(a->kind, a->name, (uint32_t)rng_below(r, CLI_TEXT_RANKS) + 1,
                                    rng_below(r, tops[rng_below(r, 4)]));
    q.segment_bytes = rng_below(r, 2) ? 1 << 20 : 0;
    if (rd_kind_rooted(a->kind))
        q.shape.root = (uint32_t)rng_below(r, q.shape.size);
    if (rd_kind_reduces(a->kind) && rng_below(r, 2)) {
        q.op = RONDA_MEAN;
        q.shape.mean = true;
    }
    return q;
}

TEST(text_shows_every_message_once)
{
    rng r = rng_start();
    traffic *t = calloc(2, sizeof *t);
    for (const rd_algorithm *a = rd_algorithms; t && a->name && !test_failed(); a++)
        for (int i = 0; i < (test_sanitized() ? 8 : 40) && !test_failed(); i++) {
            const cli_plan_request q = draw_request(&r, a);
            cli_picture p;
            memset(t, 0, 2 * sizeof *t);
            count_messages(&q, &t[0]);
            char *text =
                CHECK(cli_picture_make(&q, &p), "no memory") ? drawn(cli_draw_text, &p) : NULL;
            if (text)
                read_text(text, q.shape.size, &t[1]);
            CHECK(memcmp(&t[0], &t[1], sizeof *t) == 0,
                  "%s by %s, n=%u count=%" PRIu64 ": %u messages, %u arrows, or others",
                  rd_kind_name(a->kind), a->name, q.shape.size, q.shape.count, t[0].total,
                  t[1].total);
            free(text);
            cli_picture_free(&p);
        }
    free(t);
}

/* --- SVG --- */

static uint32_t count_of(const char *text, const char *part)
{
    uint32_t count = 0;
    for (const char *c = text; (c = strstr(c, part)); c += strlen(part))
        count++;
    return count;
}

/* Behind a tag that begins at `c`; NULL: it is none. */
static const char *after_tag(const char *c)
{
    bool quoted = false;
    for (c++; *c && (*c != '>' || quoted); c++) {
        quoted ^= *c == '"';
        if (*c == '<' || *c == '&')
            return NULL;
    }
    return *c ? c + 1 : NULL;
}

static bool is_entity(const char *c)
{
    static const char *const known[] = {"&lt;", "&gt;", "&amp;", "&quot;"};
    for (size_t i = 0; i < 4; i++)
        if (strncmp(c, known[i], strlen(known[i])) == 0)
            return true;
    return false;
}

/* As far as these pictures go: tags that close in order, one root, attributes in quotes, entities. */
static bool well_formed(const char *text)
{
    struct {
        const char *name;
        size_t length;
    } open[16];
    int depth = 0, roots = 0;
    for (const char *c = text; *c;) {
        if (*c != '<') {
            if (*c == '>' || (*c == '&' && !is_entity(c)) || (!depth && *c != '\n'))
                return false;
            c++;
            continue;
        }
        const char *end = after_tag(c), *name = c + 1 + (c[1] == '/');
        const size_t length = strcspn(name, " />");
        if (!end || !length)
            return false;
        if (c[1] == '/') {
            if (!depth-- || open[depth].length != length ||
                strncmp(open[depth].name, name, length) != 0)
                return false;
        } else {
            roots += !depth;
            if (end[-2] != '/') {
                if (depth == 16)
                    return false;
                open[depth].name = name;
                open[depth++].length = length;
            }
        }
        c = end;
    }
    return !depth && roots == 1;
}

/* Labels are about 6 units a character wide and 11 high. */
static bool labels_are_apart(const char *svg)
{
    typedef struct {
        double x, y, width;
    } label;
    const uint32_t count = count_of(svg, "class=\"label\"");
    label *all = calloc(count + 1, sizeof *all);
    uint32_t found = 0;
    bool apart = all != NULL;
    for (const char *c = svg; all && (c = strstr(c, "<text ")); c++) {
        double x, y;
        char text[100];
        if (sscanf(c, "<text x=\"%lf\" y=\"%lf\" class=\"label\">%99[^<]", &x, &y, text) == 3)
            all[found++] = (label){x, y, 6.0 * (double)strlen(text)};
    }
    apart &= found == count;
    for (uint32_t i = 0; apart && i < found; i++)
        for (uint32_t k = 0; k < i; k++) {
            const double dx = all[i].x - all[k].x, dy = all[i].y - all[k].y;
            const double room = (all[i].width + all[k].width) / 2;
            apart &= (dx < 0 ? -dx : dx) >= room || (dy < 0 ? -dy : dy) >= 12;
        }
    free(all);
    return apart;
}

TEST(svg_shows_every_message_once)
{
    rng r = rng_start();
    for (const rd_algorithm *a = rd_algorithms; a->name && !test_failed(); a++)
        for (int i = 0; i < (test_sanitized() ? 4 : 20) && !test_failed(); i++) {
            const cli_plan_request q = draw_request(&r, a);
            uint32_t sends = 0, alone = 0;
            cli_picture p;
            char *svg =
                CHECK(cli_picture_make(&q, &p), "no memory") ? drawn(cli_draw_svg, &p) : NULL;
            for (uint32_t k = 0; svg && k < q.shape.size; k++)
                for (uint32_t s = 0; s < p.plans[k]->step_count; s++) {
                    sends += p.plans[k]->steps[s].verb == RD_SEND;
                    alone += p.plans[k]->steps[s].peer == RD_NONE;
                }
            for (uint32_t m = 0; svg && m < p.mark_count; m++)
                alone -= (uint32_t)(p.marks[m].end - p.marks[m].first);
            CHECK(alone == 0, "%s by %s: steps without a mark", rd_kind_name(a->kind), a->name);
            if (svg)
                CHECK(count_of(svg, "<g class=\"message ") == sends &&
                          count_of(svg, "<g class=\"local ") == p.mark_count &&
                          count_of(svg, "<title>") == sends + p.mark_count + 1 &&
                          well_formed(svg) && labels_are_apart(svg),
                      "%s by %s, n=%u count=%" PRIu64 ", %u messages:\n%.2000s",
                      rd_kind_name(a->kind), a->name, q.shape.size, q.shape.count, sends, svg);
            free(svg);
            cli_picture_free(&p);
        }
}

TEST(the_check_of_svg_can_see)
{
    CHECK(well_formed("<a b=\"<\">") == false, "an open bracket in an attribute");
    CHECK(!well_formed("<a><b></a></b>") && !well_formed("<a>") && !well_formed("<a/><b/>") &&
              !well_formed("<a>&x;</a>") && !well_formed("x<a/>") && well_formed("<a><b/>x</a>\n"),
          "what is well formed, and what is not");
    CHECK(!labels_are_apart("<text x=\"1\" y=\"2\" class=\"label\">aa</text>"
                            "<text x=\"5\" y=\"2\" class=\"label\">bb</text>"),
          "labels that overlap");
}

TEST(words_are_escaped)
{
    cli_plan_request q = request_of(RONDA_BROADCAST, "tree", 3, 5);
    rd_algorithm odd = *q.algorithm;
    odd.about = "a < b && \"c\" > d";
    q.algorithm = &odd;
    cli_picture p;
    char *svg = CHECK(cli_picture_make(&q, &p), "no memory") ? drawn(cli_draw_svg, &p) : NULL;
    CHECK(svg && well_formed(svg) && strstr(svg, ">a &lt; b &amp;&amp; &quot;c&quot; &gt; d<"),
          "%s", svg);
    free(svg);
    cli_picture_free(&p);
}

TEST(chunks_are_told)
{
    cli_plan_request q = request_of(RONDA_ALLREDUCE, "ring", 3, 3000);
    cli_picture p;
    q.segment_bytes = 1000;
    char *text = CHECK(cli_picture_make(&q, &p), "no memory") ? drawn(cli_draw_text, &p) : NULL;
    CHECK(text && p.chunks > 1 && strstr(text, "  Drawn in one piece; it is cut into "), "%s",
          text);
    free(text);
    cli_picture_free(&p);
}

TEST(without_memory_there_is_no_picture)
{
    const cli_plan_request q = request_of(RONDA_ALLGATHER, "bruck", 5, 7);
    bool made = false;
    for (long n = 0; n < 10000 && !made && !test_failed(); n++) {
        cli_picture p;
        rd_mem_fail_after(n);
        made = cli_picture_make(&q, &p);
        rd_mem_fail_after(-1);
        cli_picture_free(&p);
    }
    CHECK(made, "never");
}
