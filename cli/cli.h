/* cli.h: the sub-commands of `ronda`.  Each gets what follows its name and returns what the process
 * ends with (args.h).  They print to stdout and leave it to main() to see whether that worked. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>

int cli_plan(int count, char **arguments);
extern const char cli_plan_help[];

int cli_check(int count, char **arguments);
extern const char cli_check_help[];

int cli_run(int count, char **arguments);
extern const char cli_run_help[];

int cli_bench(int count, char **arguments);
extern const char cli_bench_help[];

int cli_doctor(int count, char **arguments);
extern const char cli_doctor_help[];

/* Prints what may be long: if it cannot be written, the reason is kept for main(). */
void cli_put(const char *text);

/* Sends on what was printed so far.  false: nobody takes it, so there is no use in going on. */
bool cli_flush(void);

#endif
