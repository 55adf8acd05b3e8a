/* check.h: the request of `ronda check`. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "host_map.h"
#include "ronda.h"

enum { CLI_MOST_COUNTS = 64 };

typedef struct {
    ronda_kind kind;       /* 0: all */
    const char *algorithm; /* NULL: all */
    uint32_t first, last;  /* worlds */
    uint64_t counts[CLI_MOST_COUNTS];
    uint32_t count_count; /* 0: counts that suit the world */
    cli_host_map map;     /* this world alone, if it has ranks */
    bool quick, verbose, progress;
    bool larger; /* some worlds beyond the range, too */
} cli_check_request;

/* check_args.c: reads the arguments; CLI_OK, or the user was told. */
int cli_check_read(int count, char **arguments, cli_check_request *out);

#endif
