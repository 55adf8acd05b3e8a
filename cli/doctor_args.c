/* doctor_args.c: the arguments of `ronda doctor`. */
#include <stdlib.h>

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

enum { SIZE, SECONDS, JSON };

static const cli_option options[] = {[SIZE] = {"size", 'n', true},
                                     [SECONDS] = {"seconds", 's', true},
                                     [JSON] = {"json", 0, false},
                                     {NULL, 0, false}};

static bool read_seconds(const cli_args *a, double *out)
{
    char *end;
    const double value = strtod(a->value, &end);
    if (end == a->value || *end || !(value >= 0.01 && value <= 60))
        return cli_wrong(ME, "%s: %s is not a number within 0.01..60", a->name, a->value) == CLI_OK;
    *out = value;
    return true;
}

static bool read_one(doctor_request *q, const cli_args *a, int option)
{
    uint64_t ranks = 0;
    switch (option) {
    case SIZE:
        if (!cli_number(a, 1, RD_MOST_PROCESSES, &ranks))
            return false;
        q->ranks = (uint32_t)ranks;
        return true;
    case SECONDS:
        return read_seconds(a, &q->seconds);
    default:
        return q->json = true;
    }
}

int doctor_read(int count, char **arguments, doctor_request *out)
{
    cli_args a = {.command = ME, .count = count, .texts = arguments};
    doctor_request q = {.seconds = 3};
    for (int option; (option = cli_next(&a, options)) != CLI_END;)
        if (option == CLI_BAD || !read_one(&q, &a, option))
            return CLI_USAGE;
    *out = q;
    return CLI_OK;
}
