/* main.c: the `ronda` command.  A sub-command is a row of the table and a file of its own. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "ronda.h"

static const struct {
    const char *name;
    int (*run)(int count, char **arguments);
    const char *help, *about;
    bool program; /* its last arguments are a program's, a --help among them as well */
} commands[] = {
    {"run", cli_run, cli_run_help, "start a program as ranks of one job, here or on several hosts",
     true},
    {"bench", cli_bench, cli_bench_help, "measure collectives beside the machine's own limits",
     false},
    {"plan", cli_plan, cli_plan_help, "show what a collective does, step by step, and why that way",
     false},
    {"check", cli_check, cli_check_help, "prove that every algorithm computes its collective",
     false},
    {"doctor", cli_doctor, cli_doctor_help,
     "say what is wrong with a machine, or with a world, and what to do", false},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static int find(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return i;
    return -1;
}

static int say_help(void)
{
    printf("ronda: collective communication, in which every collective is a plan\n\n");
    for (int i = 0; i < COMMANDS; i++)
        printf("  ronda %-8s  %s\n", commands[i].name, commands[i].about);
    printf("\n  ronda help COMMAND, ronda COMMAND --help: how to use it\n"
           "  ronda --version: which version this is\n");
    return CLI_OK;
}

static int say_version(void)
{
    const unsigned v = ronda_version();
    printf("ronda %u.%u.%u\n", v / 10000, v / 100 % 100, v % 100);
    return CLI_OK;
}

static bool asks_for_help(int count, char **arguments)
{
    for (int i = 0; i < count; i++)
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0)
            return true;
    return false;
}

static int say_help_of(const char *name)
{
    const int found = find(name);
    if (found < 0)
        return cli_wrong(NULL, "there is no command '%s'", name);
    fputs(commands[found].help, stdout);
    return CLI_OK;
}

static int run(int count, char **arguments)
{
    if (count == 0)
        return cli_wrong(NULL, "which command?");
    const char *name = arguments[0];
    const bool help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    const bool version = strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0;
    const bool help_of = strcmp(name, "help") == 0;
    if ((help || version || help_of) && count > 1 + help_of)
        return cli_wrong(NULL, "%s: what is '%s'?", name, arguments[1 + help_of]);
    if (help || version)
        return help ? say_help() : say_version();
    if (help_of)
        return count > 1 ? say_help_of(arguments[1]) : say_help();
    const int found = find(name);
    if (found < 0)
        return cli_wrong(
            NULL, name[0] == '-' ? "there is no option %s" : "there is no command '%s'", name);
    if (!commands[found].program && asks_for_help(count - 1, arguments + 1))
        return say_help_of(name);
    return commands[found].run(count - 1, arguments + 1);
}

/* The first write that failed; what the user is told in the end. */
static int write_error;

void cli_put(const char *text)
{
    errno = 0;
    if (fputs(text, stdout) < 0 && !write_error)
        write_error = errno ? errno : EIO;
}

bool cli_flush(void)
{
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && !write_error)
        write_error = errno ? errno : EIO;
    return !write_error;
}

int main(int count, char **arguments)
{
    signal(SIGPIPE, SIG_IGN); /* a reader that left is an error like any other, */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that may not grow */
    const int status = run(count - 1, arguments + 1);
    if (!cli_flush())
        return cli_failed(NULL, "cannot write the output: %s", strerror(write_error));
    return status;
}
