/* words.c: lists of strings; see words.h. */
#include "words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool cli_words_add(cli_words *w, const char *format, ...)
{
    va_list arguments;
    char *text;
    char **more = realloc(w->at, (w->count + 2) * sizeof *more);
    if (!more)
        return false;
    w->at = more;
    w->at[w->count] = NULL;
    va_start(arguments, format);
    const int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return false;
    w->at[w->count++] = text;
    w->at[w->count] = NULL;
    return true;
}

void cli_words_free(cli_words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->at[i]);
    free(w->at);
    *w = (cli_words){0};
}
