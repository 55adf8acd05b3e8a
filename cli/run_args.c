/* run_args.c: the arguments of `ronda run`. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "run.h"

const char cli_run_help[] =
    "ronda run: start a program as ranks of one job, on this machine or on several\n"
    "\n"
    "  ronda run -n RANKS [--label] [--bind | --no-bind] [--timeout SECONDS] [--grace SECONDS]\n"
    "            [--env NAME=VALUE] [--verbose] [--dry-run] [--] PROGRAM [ARGUMENTS]\n"
    "  ronda run --hosts FILE | --host NAME:SLOTS,... [-n RANKS] [--addr HOST:PORT] [--agent COMMAND]\n"
    "            [--remote-ronda PATH] [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "  -n, --size RANKS       how many copies to start, 1..1024; with hosts 1..16384, or as many as they have slots\n"
    "                         if none is given\n"
    "  -l, --label            begin each line of output with the rank that wrote it: \"[2] \"\n"
    "  -b, --bind             keep each rank on one core\n"
    "      --no-bind          let all ranks use all cores\n"
    "  -t, --timeout SECONDS  end the job after this time, and with 124; if none is given, it may take\n"
    "                         as long as it likes\n"
    "  -g, --grace SECONDS    how long a rank may take to end after SIGTERM before it is killed; 5 if\n"
    "                         none is given\n"
    "  -e, --env NAME=VALUE   set a variable for all ranks; NAME alone: as it is here\n"
    "  -v, --verbose          say which cores each rank may use, or why all may use all; RONDA_LOG does, too\n"
    "      --dry-run          say what would be started, and start nothing\n"
    "\n"
    "      --hosts FILE       the hosts to start ranks on, a line each: NAME, NAME SLOTS, NAME:SLOTS or\n"
    "                         NAME slots=SLOTS; a name may be USER@NAME or [ADDRESS] of IPv6, and a #\n"
    "                         begins a comment\n"
    "      --host LIST        the same without a file: NAME:SLOTS,NAME:SLOTS\n"
    "      --addr HOST:PORT   where ranks meet, on the host of rank 0; its name, or the address at which ssh\n"
    "                         reached it where its name is of no use there, and a free port, if none is\n"
    "                         given or PORT is 0\n"
    "      --agent COMMAND    the command that starts a program on a host, by COMMAND HOST PROGRAM ..., or\n"
    "                         with the host's name in the place of each {host} that the command has; ssh if\n"
    "                         none is given, and RONDA_AGENT is not set\n"
    "      --remote-ronda PATH  where this command is on the hosts; the same path as here if none is given\n"
    "\n"
    "Each rank finds RONDA_RANK, RONDA_SIZE, RONDA_ADDR and RONDA_KEY in its environment; a RONDA_KEY\n"
    "that is set already is kept.  Rank 0 gets the standard input.  Output is passed on in whole lines,\n"
    "ranks' standard errors to standard error; a line of more than 64 KiB may be broken by another\n"
    "rank's.\n"
    "\n"
    "The ranks of a host share its cores: each may use an equal part of them, neighbours by cache, and none that\n"
    "a rank of another ronda job holds.  A rank holds the first core of its part, which other jobs leave alone.  Where\n"
    "fewer cores are free than there are ranks, and with --no-bind, every rank may use all of them.\n"
    "\n"
    "Hosts are filled in their order, each with as many ranks as it has slots, 1 if the list does not say.\n"
    "They get the RONDA_ variables of this environment, those of --env, and this working directory, which\n"
    "must be there.  All that goes through the agent's standard input, so the key is on no command line.\n"
    "The agent must not ask for a password.  Labels have the host, too: \"[2 node1] \".\n"
    "\n"
    "When a rank fails the others get SIGTERM, and a line on standard error says which failed first, how it\n"
    "ended, and its last line on standard error.  Ctrl-C is passed on to the ranks; a second\n"
    "one kills them.  SIGUSR1 has them say what they do.  Nothing of a job outlives it, processes that ranks\n"
    "have started included (unless all three processes of ronda run on a host are killed at once); a host\n"
    "that has lost the launcher, or has received nothing from it for a minute, ends all that it runs.\n"
    "\n"
    "Ends with the status of the rank that failed first (128 + the signal's number if it was killed), 0 if\n"
    "none did; 127 if the program was not found, 126 if it cannot be executed, 124 after a timeout, 1 if a\n"
    "host was not reached or was lost, or a rank that others needed exited with status 0 without closing its\n"
    "communicator, 128 + the signal's number if it was a signal to ronda run that ended\n"
    "the job.\n";

static const char ME[] = "run";

static const double MOST_SECONDS = 1e9;
static const uint64_t DEFAULT_GRACE_NS = 5000000000u;

static bool read_timeout(const cli_args *a, void *request)
{
    double seconds;
    if (!cli_decimal(a, 1e-9, MOST_SECONDS, &seconds))
        return false;
    ((run_request *)request)->timeout_ns = (uint64_t)(seconds * 1e9);
    return true;
}

static bool read_grace(const cli_args *a, void *request)
{
    double seconds;
    if (!cli_decimal(a, 0, MOST_SECONDS, &seconds))
        return false;
    ((run_request *)request)->grace_ns = (uint64_t)(seconds * 1e9);
    return true;
}

/* NAME or NAME=VALUE, where a name is what a shell would take for one. */
static bool read_variable(const cli_args *a, void *request)
{
    run_request *q = request;
    const char *equals = strchr(a->value, '=');
    const size_t length = equals ? (size_t)(equals - a->value) : strlen(a->value);
    const size_t fits = strspn(a->value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
                                         "0123456789");
    if (!length || fits < length || (*a->value >= '0' && *a->value <= '9'))
        return cli_bad(a, "'%.*s' is not the name of a variable", (int)length, a->value);
    if (!equals && !getenv(a->value))
        return cli_bad(a, "%s is not set here", a->value);
    if (q->variable_count == RUN_MOST_VARIABLES)
        return cli_bad(a, "there are more than %d of them", RUN_MOST_VARIABLES);
    q->variables[q->variable_count++] = a->value;
    return true;
}

static bool read_address(const cli_args *a, void *request)
{
    char host[RUN_ADDRESS];
    uint32_t port;
    if (!run_address_split(a->value, host, sizeof host, &port))
        return cli_bad(a, "'%s' is not HOST:PORT", a->value);
    ((run_request *)request)->address = a->value;
    return true;
}

static const cli_option options[] = {
    {"size", 'n', CLI_NUMBER, offsetof(run_request, size), 1, RUN_MOST_RANKS, false, NULL},
    {"label", 'l', CLI_FLAG, offsetof(run_request, label), .read = NULL},
    {"bind", 'b', CLI_FLAG, offsetof(run_request, bind), .read = NULL},
    {"no-bind", 0, CLI_FLAG, offsetof(run_request, no_bind), .read = NULL},
    {"timeout", 't', CLI_CALL, .read = read_timeout},
    {"grace", 'g', CLI_CALL, .read = read_grace},
    {"env", 'e', CLI_CALL, .read = read_variable},
    {"verbose", 'v', CLI_FLAG, offsetof(run_request, verbose), .read = NULL},
    {"dry-run", 0, CLI_FLAG, offsetof(run_request, dry_run), .read = NULL},
    {"hosts", 0, CLI_NAME, offsetof(run_request, hosts_file), .read = NULL},
    {"host", 0, CLI_NAME, offsetof(run_request, host_names), .read = NULL},
    {"addr", 0, CLI_CALL, .read = read_address},
    {"agent", 0, CLI_NAME, offsetof(run_request, agent), .read = NULL},
    {"remote-ronda", 0, CLI_NAME, offsetof(run_request, remote_ronda), .read = NULL},
    {"help", 'h', CLI_FLAG, offsetof(run_request, help), .read = NULL},
    {.name = NULL}};

int run_read(int count, char **arguments, run_request *out)
{
    cli_args a = {
        .command = ME, .options = options, .program = true, .count = count, .texts = arguments};
    run_request q = {.grace_ns = DEFAULT_GRACE_NS};
    if (cli_read(&a, &q))
        return CLI_USAGE;
    if (q.help) {
        *out = q;
        return CLI_OK;
    }
    const bool hosts = q.hosts_file || q.host_names;
    if (!q.size && !hosts)
        return cli_wrong(ME, "how many ranks?  Say -n 4, for example");
    if (!hosts && q.size > RUN_MOST_HERE)
        return cli_wrong(ME, "-n: %" PRIu32 " is not within 1..%d on one host", q.size,
                         RUN_MOST_HERE);
    if (q.bind && q.no_bind)
        return cli_wrong(ME, "--bind and --no-bind: which?");
    if (q.hosts_file && q.host_names)
        return cli_wrong(ME, "either --hosts or --host, not both");
    if (!hosts && (q.address || q.agent || q.remote_ronda))
        return cli_wrong(ME, "%s is for other hosts: name them with --hosts or --host",
                         q.address ? "--addr"
                         : q.agent ? "--agent"
                                   : "--remote-ronda");
    if (a.at >= count)
        return cli_wrong(ME, "which program?");
    if (!arguments[a.at][0])
        return cli_wrong(ME, "the program's name is empty");
    const char *log = getenv("RONDA_LOG");
    q.verbose |= log && *log && strcmp(log, "none") != 0;
    q.count = q.size;
    q.program = arguments + a.at; /* main()'s own array: NULL ends it */
    *out = q;
    return CLI_OK;
}
