/* words.h: lists of strings that grow, as execvp() and putenv() want them. */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char **at; /* NULL behind the last; NULL: there is none yet */
    size_t count;
} cli_words;

bool cli_words_add(cli_words *w, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* false: no memory */
void cli_words_free(cli_words *w);

#endif
