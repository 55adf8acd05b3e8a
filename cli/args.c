/* args.c: reading a command's arguments, and saying in one line what is wrong with them. */
#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/names.h"

/* --- saying what is wrong --- */

/* One line whatever the user wrote: what would break it is shown as a question mark. */
static void say_line(const char *command, const char *format, va_list arguments, bool hint)
{
    char text[600], name[40] = "";
    vsnprintf(text, sizeof text, format, arguments);
    for (char *c = text; *c; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
    if (command)
        snprintf(name, sizeof name, " %s", command);
    if (hint)
        fprintf(stderr, "ronda%s: %s (see ronda%s --help)\n", name, text, name);
    else
        fprintf(stderr, "ronda%s: %s\n", name, text);
}

int cli_wrong(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line(command, format, arguments, true);
    va_end(arguments);
    return CLI_USAGE;
}

bool cli_bad(const cli_args *a, const char *format, ...)
{
    char text[500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return cli_wrong(a->command, "%s: %s", a->name, text) == CLI_OK;
}

int cli_failed(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line(command, format, arguments, false);
    va_end(arguments);
    return CLI_FAILED;
}

/* --- options --- */

enum { NONE = -1 };

/* Which option a word is; its value goes to *attached, NULL: it has none. */
static int find_long(cli_args *a, const char *text, const char **attached)
{
    const char *equals = strchr(text, '=');
    const size_t length = equals ? (size_t)(equals - text) : strlen(text);
    snprintf(a->name, sizeof a->name, "%.*s",
             (int)(length < sizeof a->name ? length : sizeof a->name), text);
    *attached = equals ? equals + 1 : NULL;
    for (int i = 0; a->options[i].name; i++)
        if (strlen(a->options[i].name) == length - 2 &&
            strncmp(a->options[i].name, text + 2, length - 2) == 0)
            return i;
    return NONE;
}

static int find_letter(cli_args *a, const char *text, const char **attached)
{
    snprintf(a->name, sizeof a->name, "%.2s", text);
    *attached = text[2] == 0 ? NULL : text[2] == '=' ? text + 3 : text + 2;
    for (int i = 0; a->options[i].name; i++)
        if (a->options[i].letter == text[1])
            return i;
    return NONE;
}

static int find(cli_args *a, const char *text, const char **attached)
{
    const bool is_long = strncmp(text, "--", 2) == 0 && text[2];
    if (!is_long && (text[0] != '-' || !text[1] || text[1] == '-')) {
        cli_wrong(a->command, "'%s' is not an option", text);
        return NONE;
    }
    const int found = is_long ? find_long(a, text, attached) : find_letter(a, text, attached);
    if (found == NONE)
        cli_wrong(a->command, "there is no option %s", a->name);
    return found;
}

static bool store(const cli_args *a, const cli_option *o, void *request)
{
    void *to = (char *)request + o->at;
    uint64_t number;
    switch (o->value) {
    case CLI_FLAG:
        *(bool *)to = true;
        return true;
    case CLI_NAME:
        if (!*a->value)
            return cli_bad(a, "its value is empty");
        /* fall through */
    case CLI_TEXT:
        *(const char **)to = a->value;
        return true;
    case CLI_NUMBER:
        if (!cli_number(a, o->least, o->most, &number))
            return false;
        if (o->wide)
            *(uint64_t *)to = number;
        else
            *(uint32_t *)to = (uint32_t)number;
        return true;
    default:
        return o->read(a, request);
    }
}

static bool read_option(cli_args *a, const cli_option *o, const char *attached, void *request)
{
    a->value = attached;
    if (o->value == CLI_FLAG && attached)
        return cli_wrong(a->command, "%s takes no value", a->name) == CLI_OK;
    if (o->value != CLI_FLAG && !attached && a->at < a->count)
        a->value = a->texts[a->at++];
    if (o->value != CLI_FLAG && !a->value)
        return cli_wrong(a->command, "%s needs a value", a->name) == CLI_OK;
    return store(a, o, request);
}

/* Options end with "--", or with the first word that cannot be one: what follows is the program's. */
static bool at_program(cli_args *a)
{
    const char *text = a->texts[a->at];
    if (!a->program || (text[0] == '-' && text[1] && strcmp(text, "--") != 0))
        return false;
    a->at += strcmp(text, "--") == 0;
    return true;
}

int cli_read(cli_args *a, void *request)
{
    while (a->at < a->count && !at_program(a)) {
        const char *attached = NULL;
        const int found = find(a, a->texts[a->at++], &attached);
        if (found == NONE || !read_option(a, &a->options[found], attached, request))
            return CLI_USAGE;
        a->given |= (uint64_t)1 << found;
        if (strcmp(a->options[found].name, "help") == 0)
            break;
    }
    return CLI_OK;
}

bool cli_given(const cli_args *a, const char *name)
{
    for (int i = 0; a->options[i].name; i++)
        if (strcmp(a->options[i].name, name) == 0)
            return a->given >> i & 1;
    return false;
}

/* --- values --- */

bool cli_digits(const char *text, uint64_t *out, const char **end)
{
    char *after;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    const unsigned long long value = strtoull(text, &after, 10);
    if (errno)
        return false;
    *out = value;
    *end = after;
    return true;
}

bool cli_number(const cli_args *a, uint64_t least, uint64_t most, uint64_t *out)
{
    const char *end = a->value;
    uint64_t value = 0;
    if (!*end || strspn(end, "0123456789") != strlen(end))
        return cli_bad(a, "'%s' is not a number", a->value);
    if (!cli_digits(a->value, &value, &end) || value < least || value > most)
        return cli_bad(a, "%s is not within %" PRIu64 "..%" PRIu64, a->value, least, most);
    *out = value;
    return true;
}

bool cli_decimal(const cli_args *a, double least, double most, double *out)
{
    char *end;
    const bool digits = *a->value && strspn(a->value, "0123456789.") == strlen(a->value);
    const double value = strtod(a->value, &end);
    if (!digits || *end)
        return cli_bad(a, "'%s' is not a number", a->value);
    if (!(value >= least && value <= most))
        return cli_bad(a, "%s is not within %g..%g", a->value, least, most);
    *out = value;
    return true;
}

/* "allreduce, broadcast, ...": names of numbers from first on, up to the last that has one. */
static bool find_name(const cli_args *a, const char *what, const char *(*name_of)(int32_t),
                      int32_t first, int32_t last, int32_t *out)
{
    char names[300] = "";
    size_t length = 0;
    for (int32_t i = first; i <= last; i++) {
        const char *name = name_of(i);
        if (strcmp(name, "?") == 0)
            continue;
        if (strcmp(name, a->value) == 0) {
            *out = i;
            return true;
        }
        if (length < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       length ? ", " : "", name);
    }
    return cli_wrong(a->command, "there is no %s '%s'; there are %s", what, a->value, names) ==
           CLI_OK;
}

bool cli_kind(const cli_args *a, int32_t *out)
{
    return find_name(a, "collective", rd_kind_name, RONDA_ALLREDUCE, RONDA_BARRIER, out);
}

bool cli_type(const cli_args *a, int32_t *out)
{
    return find_name(a, "type", rd_type_name, RONDA_F16, RONDA_U64, out);
}

bool cli_op(const cli_args *a, int32_t *out)
{
    return find_name(a, "op", rd_op_name, RONDA_SUM, RONDA_BXOR, out);
}

bool cli_list(const cli_args *a, int most, bool (*read)(const cli_args *a, void *request),
              void *request)
{
    const char *text = a->value;
    char word[40];
    cli_args one = *a;
    one.value = word;
    one.at = 0;
    if (!*text)
        return cli_bad(a, "which?");
    for (;; one.at++) {
        const size_t length = strcspn(text, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length < 39 ? length : 39), text);
        if (!length)
            return cli_bad(a, "'%s' has a comma with nothing before or after it", a->value);
        if (one.at == most)
            return cli_bad(a, "more than %d", most);
        if (!read(&one, request))
            return false;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

/* --- files --- */

static FILE *stream_of(int fd, const char *mode)
{
    FILE *file = fd < 0 ? NULL : fdopen(fd, mode);
    if (!file && fd >= 0)
        close(fd);
    return file;
}

FILE *cli_open_to_read(const char *path)
{
    return stream_of(rd_fd(open(path, O_RDONLY | O_CLOEXEC)), "r");
}

FILE *cli_open_to_write(const char *path)
{
    return stream_of(rd_fd(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)), "w");
}
