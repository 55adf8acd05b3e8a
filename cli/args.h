/* args.h: reading a command's arguments, and saying in one line what is wrong with them. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What the process ends with. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct {
    const char *name; /* "count" for --count */
    char letter;      /* 'n' for -n; 0: none */
    bool takes_value;
} cli_option;

typedef struct {
    const char *command; /* for messages: "plan" */
    int count, at;
    char **texts;
    const char *value; /* of the option found last */
    char name[64];     /* the same as the user wrote it: "--count" */
} cli_args;

enum { CLI_END = -1, CLI_BAD = -2 };

/* Finds the next option: its place in options (which ends with name NULL).  CLI_END: there is none
 * left.  CLI_BAD: there is something else, and the user has been told.  Takes --name value,
 * --name=value, -l value, -lvalue and -l=value. */
int cli_next(cli_args *a, const cli_option options[]);

/* Tells the user in one line, "ronda plan: ... (see ronda plan --help)".  Returns CLI_USAGE. */
int cli_wrong(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for what is not the user's fault, without the hint.  Returns CLI_FAILED. */
int cli_failed(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The value of the option found last as a number from least to most; false: the user was told. */
bool cli_number(const cli_args *a, uint64_t least, uint64_t most, uint64_t *out);

/* A number at the beginning of a text; what follows it goes to *end.  false: none, or too large. */
bool cli_digits(const char *text, uint64_t *out, const char **end);

/* A file to be read, or to be written anew; NULL: errno. */
FILE *cli_open_to_read(const char *path);
FILE *cli_open_to_write(const char *path);

/* Names as messages list them: "allreduce, broadcast, ...". */
void cli_kind_names(char *text, unsigned long capacity);

/* Looks a name up; false: there is none, and the user was told. */
bool cli_kind(const cli_args *a, int32_t *out);

#endif
