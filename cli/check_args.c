/* check_args.c: the arguments of `ronda check`. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "base/names.h"
#include "check.h"
#include "cli.h"
#include "plan/plan.h"

const char cli_check_help[] =
    "ronda check: prove that every algorithm computes its collective\n"
    "\n"
    "  ronda check [--collective NAME] [--algo NAME] [-n MAX | -n FIRST..LAST] [--count N,N,...]\n"
    "              [--hosts HxR] [--quick] [--verbose] [--progress]\n"
    "\n"
    "  -c, --collective NAME  this collective alone\n"
    "  -a, --algo NAME        this algorithm alone\n"
    "  -n, --size RANGE       worlds: 8 is 1..8, 8..8 is that one; up to 1024.  If none is given, 1..33\n"
    "                         and then some larger ones\n"
    "      --hosts HxR        this world alone: H hosts of R ranks each, or hosts of so many ranks: 4,3,1.  If none\n"
    "                         is given, rows made for hosts are proved on those of worlds up to 16\n"
    "      --count LIST       elements; if none are given, some that are empty, tiny, ragged and more\n"
    "      --quick            fewer of everything: seconds instead of a minute\n"
    "      --verbose          a line for every world, too\n"
    "      --progress         say on standard error what is being proved; always on a terminal\n"
    "\n"
    "All ranks' plans are run in a machine whose values are terms over (rank, element).  Proved is that\n"
    "every element of every result is made of each contribution once, in its place and the same on\n"
    "every rank; that sends meet receives of the same size; that nothing can wait for ever; and that no\n"
    "two steps touch the same memory in no certain order.  Ends with 1 if anything was refused.\n";

static const char ME[] = "check";

enum { MOST_RANKS = 1024, DEFAULT_LAST = 33, QUICK_LAST = 17 };
static const uint64_t MOST_ELEMENTS = (uint64_t)1 << 40;

/* "8" or "2..8" */
static bool read_range(const cli_args *a, void *request)
{
    cli_check_request *q = request;
    uint64_t from = 1, to = 0;
    const char *end = a->value;
    bool good = cli_digits(a->value, &to, &end);
    if (good && strncmp(end, "..", 2) == 0) {
        from = to;
        good = cli_digits(end + 2, &to, &end);
    }
    if (!good || *end)
        return cli_bad(a, "'%s' is neither a number nor a range such as 1..33", a->value);
    if (from < 1 || to > MOST_RANKS || from > to)
        return cli_bad(a, "%s holds no worlds of 1..%d ranks", a->value, MOST_RANKS);
    q->first = (uint32_t)from;
    q->last = (uint32_t)to;
    return true;
}

/* "0,1,17"; a->at: the number of this one */
static bool add_count(const cli_args *a, void *request)
{
    cli_check_request *q = request;
    q->count_count = (uint32_t)a->at + 1;
    return cli_number(a, 0, MOST_ELEMENTS, &q->counts[a->at]);
}

static bool read_counts(const cli_args *a, void *request)
{
    return cli_list(a, CLI_MOST_COUNTS, add_count, request);
}

static bool read_kind(const cli_args *a, void *request)
{
    return cli_kind(a, &((cli_check_request *)request)->kind);
}

static bool read_hosts(const cli_args *a, void *request)
{
    return cli_read_hosts(a, &((cli_check_request *)request)->map);
}

static const cli_option options[] = {
    {"collective", 'c', CLI_CALL, .read = read_kind},
    {"algo", 'a', CLI_TEXT, offsetof(cli_check_request, algorithm), .read = NULL},
    {"size", 'n', CLI_CALL, .read = read_range},
    {"hosts", 0, CLI_CALL, .read = read_hosts},
    {"count", 0, CLI_CALL, .read = read_counts},
    {"quick", 'q', CLI_FLAG, offsetof(cli_check_request, quick), .read = NULL},
    {"verbose", 'v', CLI_FLAG, offsetof(cli_check_request, verbose), .read = NULL},
    {"progress", 0, CLI_FLAG, offsetof(cli_check_request, progress), .read = NULL},
    {.name = NULL}};

static bool is_known(ronda_kind kind, const char *algorithm)
{
    for (const rd_algorithm *a = rd_algorithms; a->name; a++)
        if ((!kind || a->kind == kind) && strcmp(a->name, algorithm) == 0)
            return true;
    return false;
}

int cli_check_read(int count, char **arguments, cli_check_request *out)
{
    cli_args a = {.command = ME, .options = options, .count = count, .texts = arguments};
    cli_check_request q = {0};
    if (cli_read(&a, &q))
        return CLI_USAGE;
    if (q.algorithm && !is_known(q.kind, q.algorithm))
        return cli_wrong(ME, "%s has no algorithm '%s' (ronda plan --list shows them)",
                         q.kind ? rd_kind_name(q.kind) : "the table", q.algorithm);
    if (q.kind == RONDA_BARRIER && q.count_count)
        return cli_wrong(ME, "--count: barrier has no elements");
    if (q.last && q.map.size)
        return cli_wrong(ME, "--size and --hosts: which?");
    if (q.map.size)
        q.first = q.last = q.map.size;
    if (!q.last) {
        q.first = 1;
        q.last = q.quick ? QUICK_LAST : DEFAULT_LAST;
        q.larger = !q.quick && !q.count_count;
    }
    q.progress |= isatty(STDERR_FILENO) == 1;
    *out = q;
    return CLI_OK;
}
