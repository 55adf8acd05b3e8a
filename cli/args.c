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

int cli_failed(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line(command, format, arguments, false);
    va_end(arguments);
    return CLI_FAILED;
}

/* --- options --- */

static int take_value(cli_args *a, const char *attached)
{
    a->value = attached;
    if (!attached && a->at < a->count)
        a->value = a->texts[a->at++];
    if (a->value)
        return 0;
    cli_wrong(a->command, "%s needs a value", a->name);
    return CLI_BAD;
}

static int take(cli_args *a, const cli_option options[], int found, const char *attached)
{
    a->value = NULL;
    if (options[found].takes_value)
        return take_value(a, attached) == CLI_BAD ? CLI_BAD : found;
    if (!attached)
        return found;
    cli_wrong(a->command, "%s takes no value", a->name);
    return CLI_BAD;
}

static int next_long(cli_args *a, const cli_option options[], const char *text)
{
    const char *equals = strchr(text, '=');
    const size_t length = equals ? (size_t)(equals - text) : strlen(text);
    snprintf(a->name, sizeof a->name, "%.*s",
             (int)(length < sizeof a->name ? length : sizeof a->name), text);
    for (int i = 0; options[i].name; i++)
        if (strlen(options[i].name) == length - 2 &&
            strncmp(options[i].name, text + 2, length - 2) == 0)
            return take(a, options, i, equals ? equals + 1 : NULL);
    cli_wrong(a->command, "there is no option %s", a->name);
    return CLI_BAD;
}

static int next_letter(cli_args *a, const cli_option options[], const char *text)
{
    snprintf(a->name, sizeof a->name, "%.2s", text);
    for (int i = 0; options[i].name; i++)
        if (options[i].letter == text[1])
            return take(a, options, i, text[2] == 0 ? NULL : text[2] == '=' ? text + 3 : text + 2);
    cli_wrong(a->command, "there is no option %s", a->name);
    return CLI_BAD;
}

int cli_next(cli_args *a, const cli_option options[])
{
    if (a->at >= a->count)
        return CLI_END;
    const char *text = a->texts[a->at++];
    if (strncmp(text, "--", 2) == 0 && text[2])
        return next_long(a, options, text);
    if (text[0] == '-' && text[1] && text[1] != '-')
        return next_letter(a, options, text);
    cli_wrong(a->command, "'%s' is not an option", text);
    return CLI_BAD;
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
    const bool digits = *end && strspn(end, "0123456789") == strlen(end);
    if (!digits)
        return cli_wrong(a->command, "%s: '%s' is not a number", a->name, a->value) == CLI_OK;
    if (!cli_digits(a->value, &value, &end) || value < least || value > most)
        return cli_wrong(a->command, "%s: %s is not within %" PRIu64 "..%" PRIu64, a->name,
                         a->value, least, most) == CLI_OK;
    *out = value;
    return true;
}

void cli_kind_names(char *text, unsigned long capacity)
{
    size_t length = 0;
    text[0] = 0;
    for (ronda_kind k = RONDA_ALLREDUCE; k <= RONDA_BARRIER; k++)
        if (strcmp(rd_kind_name(k), "?") != 0 && length < capacity)
            length += (size_t)snprintf(text + length, capacity - length, "%s%s", length ? ", " : "",
                                       rd_kind_name(k));
}

bool cli_kind(const cli_args *a, int32_t *out)
{
    char names[200];
    const ronda_kind kind = rd_kind_named(a->value);
    if (kind) {
        *out = kind;
        return true;
    }
    cli_kind_names(names, sizeof names);
    cli_wrong(a->command, "there is no collective '%s'; there are %s", a->value, names);
    return false;
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
