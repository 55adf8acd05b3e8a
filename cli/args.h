/* args.h: reading a command's arguments into its request, and saying in one line what is wrong with them.
 *
 * A command has a table of options: each row says what value an option takes, and where in the request it goes. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What the process ends with. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct cli_args cli_args;

typedef enum {
    CLI_FLAG,   /* none: a bool becomes true */
    CLI_TEXT,   /* a const char * */
    CLI_NAME,   /* the same, and not empty */
    CLI_NUMBER, /* a uint32_t or, if `wide`, a uint64_t, of least .. most */
    CLI_CALL    /* what read() makes of it */
} cli_value;

typedef struct {
    const char *name; /* "count" for --count; NULL ends the table */
    char letter;      /* 'n' for -n; 0: none */
    cli_value value;
    size_t at; /* in the request */
    uint64_t least, most;
    bool wide;
    bool (*read)(const cli_args *a, void *request); /* false: the user was told */
} cli_option;

struct cli_args {
    const char *command;       /* for messages: "plan" */
    const cli_option *options; /* 64 at most */
    bool program;              /* the first word that is no option begins a program's */
    int count, at;
    char **texts;
    uint64_t given;    /* bit i: options[i] */
    const char *value; /* of the option found last */
    char name[64];     /* the same as the user wrote it: "--count" */
};

/* Reads all options, as --name value, --name=value, -l value, -lvalue and -l=value.  --help, where the table has it,
 * ends the reading.  CLI_OK, or the user was told. */
int cli_read(cli_args *a, void *request);
bool cli_given(const cli_args *a, const char *name); /* was it among them? */

/* Tells the user in one line, "ronda plan: ... (see ronda plan --help)".  Returns CLI_USAGE. */
int cli_wrong(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same about the option found last: "ronda plan: --count: ...".  Returns false. */
bool cli_bad(const cli_args *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for what is not the user's fault, without the hint.  Returns CLI_FAILED. */
int cli_failed(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- values of the option found last; false: the user was told --- */

bool cli_number(const cli_args *a, uint64_t least, uint64_t most, uint64_t *out);
bool cli_decimal(const cli_args *a, double least, double most, double *out); /* "0.5" */
bool cli_kind(const cli_args *a, int32_t *out);                              /* "allreduce" */
bool cli_type(const cli_args *a, int32_t *out);                              /* "f32" */
bool cli_op(const cli_args *a, int32_t *out);                                /* "sum" */
/* "a,b,c": each by itself, most of them at the most; read() finds its number in a->at. */
bool cli_list(const cli_args *a, int most, bool (*read)(const cli_args *a, void *request),
              void *request);

/* A number at the beginning of a text; what follows it goes to *end.  false: none, or too large. */
bool cli_digits(const char *text, uint64_t *out, const char **end);

/* A file to be read, or to be written anew; NULL: errno. */
FILE *cli_open_to_read(const char *path);
FILE *cli_open_to_write(const char *path);

#endif
