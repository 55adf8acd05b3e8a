/* run_args.c: the arguments of `ronda run`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "run.h"

const char cli_run_help[] =
    "ronda run: start a program as ranks of one job on this machine\n"
    "\n"
    "  ronda run -n RANKS [--label] [--bind] [--timeout SECONDS] [--grace SECONDS] [--dry-run]\n"
    "            [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "  -n, --size RANKS       how many copies to start, 1..1024\n"
    "  -l, --label            begin each line of output with the rank that wrote it: \"[2] \"\n"
    "  -b, --bind             keep rank r on the r-th usable core, if there are enough of them\n"
    "  -t, --timeout SECONDS  end the job after this time, and with 124; if none is given, it may take\n"
    "                         as long as it likes\n"
    "  -g, --grace SECONDS    how long a rank that was told to end (SIGTERM) may take before it is\n"
    "                         killed; 5 if none is given\n"
    "      --dry-run          say what would be started, and start nothing\n"
    "\n"
    "Each rank finds RONDA_RANK, RONDA_SIZE, RONDA_ADDR and RONDA_KEY in its environment; a RONDA_KEY\n"
    "that is set already is kept.  Rank 0 gets the standard input.  Output is passed on in whole lines,\n"
    "ranks' standard errors to standard error; a line of more than 64 KiB may be broken by another\n"
    "rank's.\n"
    "\n"
    "When a rank fails the others are told to end, and a line on standard error says which was first, how\n"
    "it ended, and the last that it wrote to standard error.  Ctrl-C is passed on to the ranks; a second\n"
    "one kills them.  Nothing of a job outlives it, processes that ranks have started included.\n"
    "\n"
    "Ends with the status of the rank that failed first (128 + the signal's number if it was killed), 0 if\n"
    "none did; 127 if the program was not found, 126 if it cannot be executed, 124 after a timeout,\n"
    "128 + the signal's number if it was a signal to ronda run that ended the job.\n";

static const char ME[] = "run";

static const double MOST_SECONDS = 1e9;
static const uint64_t DEFAULT_GRACE_NS = 5000000000u;

enum { SIZE, LABEL, BIND, TIMEOUT, GRACE, DRY_RUN, HELP };

static const cli_option options[] = {
    [SIZE] = {"size", 'n', true},   [LABEL] = {"label", 'l', false},
    [BIND] = {"bind", 'b', false},  [TIMEOUT] = {"timeout", 't', true},
    [GRACE] = {"grace", 'g', true}, [DRY_RUN] = {"dry-run", 0, false},
    [HELP] = {"help", 'h', false},  {NULL, 0, false}};

/* "5" or "0.5" */
static bool read_seconds(const cli_args *a, bool zero, uint64_t *out_ns)
{
    char *end;
    const bool digits = *a->value && strspn(a->value, "0123456789.") == strlen(a->value);
    const double seconds = strtod(a->value, &end);
    if (!digits || *end)
        return cli_wrong(ME, "%s: '%s' is not a number of seconds", a->name, a->value) == CLI_OK;
    if (seconds > MOST_SECONDS)
        return cli_wrong(ME, "%s: %s seconds are more than %.0f", a->name, a->value,
                         MOST_SECONDS) == CLI_OK;
    const uint64_t ns = (uint64_t)(seconds * 1e9);
    if (ns == 0 && !zero)
        return cli_wrong(ME, "%s: %s seconds are no time at all", a->name, a->value) == CLI_OK;
    *out_ns = ns;
    return true;
}

static bool read_size(const cli_args *a, uint32_t *out)
{
    uint64_t size;
    if (!cli_number(a, 1, RUN_MOST_RANKS, &size))
        return false;
    *out = (uint32_t)size;
    return true;
}

static bool read_one(run_request *q, const cli_args *a, int option)
{
    switch (option) {
    case SIZE:
        return read_size(a, &q->size);
    case LABEL:
        return q->label = true;
    case BIND:
        return q->bind = true;
    case TIMEOUT:
        return read_seconds(a, false, &q->timeout_ns);
    case GRACE:
        return read_seconds(a, true, &q->grace_ns);
    case DRY_RUN:
        return q->dry_run = true;
    default:
        return q->help = true;
    }
}

/* Options end with "--", or with the first word that cannot be one: what follows is the program's. */
static bool at_program(cli_args *a)
{
    const char *text = a->at < a->count ? a->texts[a->at] : "";
    if (strcmp(text, "--") == 0) {
        a->at++;
        return true;
    }
    return a->at >= a->count || text[0] != '-' || !text[1];
}

int run_read(int count, char **arguments, run_request *out)
{
    cli_args a = {.command = ME, .count = count, .texts = arguments};
    run_request q = {.grace_ns = DEFAULT_GRACE_NS};
    while (!at_program(&a)) {
        const int option = cli_next(&a, options);
        if (option == CLI_BAD || !read_one(&q, &a, option))
            return CLI_USAGE;
        if (q.help) {
            *out = q;
            return CLI_OK;
        }
    }
    if (!q.size)
        return cli_wrong(ME, "how many ranks?  Say -n 4, for example");
    if (a.at >= count)
        return cli_wrong(ME, "which program?");
    if (!arguments[a.at][0])
        return cli_wrong(ME, "the program's name is empty");
    q.program = arguments + a.at; /* main()'s own array: NULL ends it */
    *out = q;
    return CLI_OK;
}
