/* doctor_args.c: the arguments of `ronda doctor`. */
#include "args.h"
#include "cli.h"
#include "comm/environment.h"
#include "doctor.h"

const char cli_doctor_help[] =
    "ronda doctor: say what is wrong with this machine, or with a world of ranks, and what to do\n"
    "\n"
    "  ronda doctor [-n RANKS] [--json]\n"
    "  ronda run -n 4 -- ronda doctor [--seconds S] [--json]\n"
    "\n"
    "  -n, --size RANKS  how many ranks this machine is to have; as many as there are usable cores if none\n"
    "                    is given\n"
    "  -s, --seconds S   how long to try to connect to a rank of another host (3)\n"
    "      --json        for programs\n"
    "\n"
    "Alone it looks at this machine: cores, their quota and load, memory and limits, what the kernel has,\n"
    "interfaces, and the variables that ronda reads.  Started as ranks, by ronda run or another launcher, it\n"
    "looks at every rank's machine and at the world: which hosts cannot connect to each other, and where settings\n"
    "or cores do not go together.  How fast the ranks are together, ronda bench measures.\n"
    "\n"
    "Each line begins with ok, note or problem; what to do about it stands below.  Ends with 1 if there is\n"
    "a problem.\n";

static const char ME[] = "doctor";

static bool read_seconds(const cli_args *a, void *request)
{
    return cli_decimal(a, 0.01, 60, &((doctor_request *)request)->seconds);
}

static const cli_option options[] = {
    {"size", 'n', CLI_NUMBER, offsetof(doctor_request, ranks), 1, RD_MOST_PROCESSES, false, NULL},
    {"seconds", 's', CLI_CALL, .read = read_seconds},
    {"json", 0, CLI_FLAG, offsetof(doctor_request, json), .read = NULL},
    {.name = NULL}};

int doctor_read(int count, char **arguments, doctor_request *out)
{
    cli_args a = {.command = ME, .options = options, .count = count, .texts = arguments};
    *out = (doctor_request){.seconds = 3};
    return cli_read(&a, out);
}
