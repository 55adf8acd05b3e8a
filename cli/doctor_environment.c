/* doctor_environment.c: the variables that ronda reads, and those that are meant to be. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "comm/environment.h"
#include "doctor.h"

static const char PREFIX[] = "RONDA_";

/* advice: how to write a value; NULL: any will do, or another function looks at it */
static const struct {
    const char *name, *advice;
} known[] = {
    {"RONDA_TIMEOUT", "write seconds, such as RONDA_TIMEOUT=30 or RONDA_TIMEOUT=0.5"},
    {"RONDA_ALGO",
     "write it like RONDA_ALGO=allreduce=ring,broadcast=tree; ronda plan --list has the names"},
    {"RONDA_LOG", "write RONDA_LOG=info or RONDA_LOG=debug, or unset it"},
    {"RONDA_PROGRESS", "write RONDA_PROGRESS=1 or RONDA_PROGRESS=0"},
    {"RONDA_RANK", NULL},
    {"RONDA_SIZE", NULL},
    {"RONDA_ADDR", NULL},
    {"RONDA_KEY", NULL},
    {"RONDA_TRANSPORT", NULL},
    {"RONDA_IFACE", NULL},
    {"RONDA_INSECURE", NULL},
    {"RONDA_CHECKSUM", NULL},
    {"RONDA_DEBUG", NULL},
    {"RONDA_AGENT", NULL},
    {"RONDA_TELL", NULL},
};

enum { KNOWN = sizeof known / sizeof *known };

/* --- names --- */

static void look_at_name(doctor_list *list, const char *variable)
{
    const int length = (int)strcspn(variable, "=");
    char names[300] = "";
    size_t at = 0;
    for (int i = 0; i < KNOWN; i++) {
        if ((int)strlen(known[i].name) == length &&
            strncmp(known[i].name, variable, (size_t)length) == 0)
            return;
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", known[i].name);
    }
    doctor_say(list, DOCTOR_PROBLEM, "variables",
               "%.*s is set, but ronda reads no variable of this name", length > 100 ? 100 : length,
               variable);
    doctor_advise(list, "correct its name or unset it; ronda reads %s", names);
}

/* --- values --- */

/* What ronda_init() would say of the values, and how to write the one that it names. */
static bool look_at_settings(doctor_list *list)
{
    rd_settings settings;
    rd_error error;
    if (rd_settings_read(NULL, &settings, &error) == RONDA_OK)
        return true;
    doctor_say(list, DOCTOR_PROBLEM, "variables", "%s", error.message);
    for (int i = 0; i < KNOWN; i++)
        if (known[i].advice && strncmp(error.message, known[i].name, strlen(known[i].name)) == 0)
            doctor_advise(list, "%s", known[i].advice);
    return false;
}

static bool is_one_of(const char *text, const char *const names[])
{
    for (; *names; names++)
        if (strcmp(text, *names) == 0)
            return true;
    return false;
}

/* A variable that has one of these values, or none. */
static bool look_at_choice(doctor_list *list, const char *name, const char *const values[],
                           const char *advice)
{
    const char *text = getenv(name);
    if (!text || is_one_of(text, values))
        return true;
    doctor_say(list, DOCTOR_PROBLEM, "variables", "%s=%.100s: there is no such value", name, text);
    doctor_advise(list, "%s", advice);
    return false;
}

static bool look_at_choices(doctor_list *list)
{
    static const char *const transports[] = {"", "shm", "tcp", "hosts", "auto", NULL},
                             *const checksums[] = {"", "0", "1", "auto", NULL};
    const bool good = look_at_choice(
        list, "RONDA_TRANSPORT", transports,
        "write shm (one host), tcp (sockets alone), hosts (memory inside hosts, sockets between) "
        "or auto");
    return look_at_choice(list, "RONDA_CHECKSUM", checksums,
                          "write 1 (always), 0 (never) or auto (between hosts)") &&
           good;
}

/* --- who this is --- */

static bool sockets_alone(void)
{
    const char *transport = getenv("RONDA_TRANSPORT");
    return transport && strcmp(transport, "tcp") == 0;
}

/* What torchrun, mpirun or srun say, and whether RONDA_SIZE says another thing. */
static void say_launcher(doctor_list *list)
{
    rd_launch launch = {0};
    rd_error error;
    uint32_t size = 0;
    bool found = false;
    if (rd_environment_read(sockets_alone(), &launch, &error)) {
        doctor_say(list, DOCTOR_PROBLEM, "launcher", "%s", error.message);
        doctor_advise(list,
                      "start the ranks anew with the launcher that sets it, or set RONDA_RANK and "
                      "RONDA_SIZE");
        return;
    }
    if (!launch.launcher)
        return;
    if (rd_environment_number("RONDA_SIZE", RD_MOST_RANKS + 1, &size, &found, &error) || found) {
        doctor_say(list, DOCTOR_NOTE, "launcher",
                   "%s says rank %u of %u, but RONDA_SIZE is set and comes first", launch.launcher,
                   launch.rank, launch.size);
        doctor_advise(list,
                      "nothing, if ronda run was started by %s; else unset RONDA_RANK and "
                      "RONDA_SIZE",
                      launch.launcher);
        return;
    }
    doctor_say(list, DOCTOR_OK, "launcher", "started by %s: rank %u of %u, to meet at %.200s",
               launch.launcher, launch.rank, launch.size,
               launch.address[0] ? launch.address : "a place that it does not say");
}

/* All of it together, as ronda_init() will read it. */
static bool look_at_world(doctor_list *list, uint32_t *rank, uint32_t *size)
{
    const rd_settings settings = {.timeout_ns = 1};
    rd_joining joining;
    rd_error error;
    if (rd_world_read(NULL, &settings, &joining, &error)) {
        const bool about_address = strncmp(error.message, "RONDA_ADDR=", 11) == 0;
        if (about_address)
            return false; /* doctor_address() has said it */
        doctor_say(list, DOCTOR_PROBLEM, "variables", "%s", error.message);
        doctor_advise(list,
                      "start ranks by ronda run, which sets RONDA_RANK, RONDA_SIZE and RONDA_ADDR, "
                      "or set all of them");
        return false;
    }
    *rank = joining.rank;
    *size = joining.size;
    return true;
}

bool doctor_environment(doctor_list *list, uint32_t *rank, uint32_t *size)
{
    extern char **environ;
    bool good = true;
    const uint32_t before = list->count;
    const char *address = getenv("RONDA_ADDR"), *number = getenv("RONDA_RANK");
    for (char **v = environ; *v; v++)
        if (strncmp(*v, PREFIX, strlen(PREFIX)) == 0)
            look_at_name(list, *v);
    good = look_at_settings(list) && good;
    good = look_at_choices(list) && good;
    *rank = 0;
    *size = 1;
    if (address && *address)
        good =
            doctor_address(list, address, !number || !*number || strcmp(number, "0") == 0) && good;
    say_launcher(list);
    good = look_at_world(list, rank, size) && good;
    if (list->count == before)
        doctor_say(list, DOCTOR_OK, "variables", "no RONDA_ variable is set: defaults hold");
    return good;
}
