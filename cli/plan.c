/* plan.c: `ronda plan`: what a collective does, step by step, and why that way. */
#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "base/mem.h"
#include "base/names.h"
#include "cli.h"
#include "plan/summary.h"

const char cli_plan_help[] =
    "ronda plan: show what a collective does, step by step, and why that way\n"
    "\n"
    "  ronda plan [--collective NAME] [--algo NAME] [-n RANKS] [--rank R | --all-ranks] [--count N]\n"
    "             [--hosts HxR] [--type T] [--op OP] [--root R] [--in-place] [--segment BYTES]\n"
    "             [--threads]\n"
    "  ronda plan --summary [--collective NAME] [-n RANKS] [--hosts HxR] [--count N] [--root R]\n"
    "             [--segment BYTES]\n"
    "  ronda plan --draw | --svg FILE [--collective NAME] [--algo NAME] [-n RANKS] [--count N] ...\n"
    "  ronda plan --list [--collective NAME]\n"
    "\n"
    "  -c, --collective NAME  allreduce (if none is given), broadcast, ...; --list has them all\n"
    "  -a, --algo NAME        the algorithm; if none is given, the one that would be chosen\n"
    "  -n, --size RANKS       ranks in the world, 1..1024 (4)\n"
    "      --hosts HxR        a world of H hosts of R ranks each, or of hosts of so many ranks: 4,3,1; ranks of\n"
    "                         a host follow each other; all are on one if none is given\n"
    "  -r, --rank R           whose plan (0)\n"
    "      --all-ranks        every rank's plan\n"
    "      --count N          elements, as the call counts them (1000); where a buffer has a block for\n"
    "                         each rank, of each block\n"
    "      --type T           f16, bf16, f32 (if none is given), f64, i8, u8, i16, u16, i32, u32, i64, u64\n"
    "      --op OP            sum (if none is given), mean, prod, min, max, band, bor, bxor\n"
    "      --root R           of a reduce, broadcast, gather or scatter (0)\n"
    "      --in-place         the result replaces what the rank gave\n"
    "      --segment BYTES    cut into chunks so that messages have about this size, 0: do not; as the\n"
    "                         library does if none is given, and --summary 1048576\n"
    "      --threads          prices for ranks that are threads; if not given, for processes, with sockets\n"
    "                         between hosts\n"
    "      --summary          one line per algorithm: rounds, steps, messages and elements sent; each of\n"
    "                         the rank that has most of it\n"
    "      --list             the algorithms, each in a sentence\n"
    "      --draw             the plans of all ranks as a picture: ranks across, rounds down, an arrow\n"
    "                         per message; up to 16 ranks\n"
    "      --svg FILE         the same as an SVG picture (-: to standard output); up to 32 ranks\n"
    "\n"
    "At the end stand the algorithms that could be chosen for this shape, cheapest first, and why.\n"
    "docs/ALGORITHMS.md explains them all.\n";

static int no_memory(void)
{
    return cli_failed("plan", "no memory");
}

static int name_width(ronda_kind kind)
{
    size_t width = 0;
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        if (a->kind == kind && strlen(a->name) > width)
            width = strlen(a->name);
    return (int)width;
}

static int print_list(const cli_plan_request *q)
{
    ronda_kind last = 0;
    for (const rd_algorithm *a = rd_algorithms; a->name; a++) {
        if (q->shape.kind && a->kind != q->shape.kind)
            continue;
        if (a->kind != last)
            printf("%s%s\n", last ? "\n" : "", rd_kind_name(a->kind));
        last = a->kind;
        printf("  %-*s  %s%s\n", name_width(a->kind), a->name, a->about,
               a->flags & RD_REFERENCE ? "; for comparison, never chosen" : "");
    }
    return CLI_OK;
}

static int print_summary(const cli_plan_request *q)
{
    char text[256];
    for (const rd_algorithm *a = NULL; !a || a->name; a = a ? a + 1 : rd_algorithms) {
        if (a && q->shape.kind && a->kind != q->shape.kind)
            continue;
        if (!rd_summary_line(a, &q->shape, q->segment_bytes, text, sizeof text))
            return no_memory();
        fputs(text, stdout);
        if (!cli_flush()) /* line by line: large worlds take their time */
            return CLI_FAILED;
    }
    return CLI_OK;
}

static int print_rank(const cli_plan_request *q, uint32_t rank)
{
    rd_shape shape = q->shape;
    shape.rank = rank;
    rd_plan *p = rd_plan_build(q->algorithm, &shape, q->segment_bytes);
    const size_t length = p ? rd_plan_print(p, q->type, q->op, NULL, 0) : 0;
    char *text = p ? rd_alloc(length + 1) : NULL;
    if (text) {
        rd_plan_print(p, q->type, q->op, text, length + 1);
        cli_put(text);
        cli_put("\n");
    }
    const bool ok = text != NULL;
    rd_free(text);
    rd_plan_free(p);
    return ok ? CLI_OK : no_memory();
}

static int show(cli_plan_request *q)
{
    cli_choice choice;
    int status = CLI_OK;
    if (q->list)
        return print_list(q);
    if (q->summary)
        return print_summary(q);
    if (!cli_choose(q, &choice))
        return no_memory();
    if (!q->algorithm)
        q->algorithm = q->forced ? q->forced : choice.prices[0].algorithm;
    if (!q->cut)
        q->segment_bytes = rd_segment_for(&choice.facts, q->algorithm, &q->shape);
    if (q->draw || q->svg)
        return cli_draw(q);
    if (!q->all_ranks)
        status = print_rank(q, q->shape.rank);
    for (uint32_t r = 0; r < q->shape.size && q->all_ranks && !status && cli_flush(); r++)
        status = print_rank(q, r);
    if (!status)
        cli_choice_print(&choice, q);
    return status;
}

int cli_plan(int count, char **arguments)
{
    cli_plan_request q;
    rd_hosts *hosts = NULL;
    int status = cli_plan_read(count, arguments, &q);
    if (status)
        return status;
    if (q.map.size && !(hosts = rd_hosts_make(q.map.host_of, q.map.size)))
        return no_memory();
    q.shape.hosts = hosts;
    status = show(&q);
    rd_hosts_free(hosts);
    return status;
}
