#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int rd_log_level_named(const char *name)
{
    if (!name || !*name || strcmp(name, "none") == 0)
        return 0;
    return strcmp(name, "info") == 0 ? RD_LOG_INFO : strcmp(name, "debug") == 0 ? RD_LOG_DEBUG : -1;
}

void rd_log_say(const rd_log *log, int level, const char *format, ...)
{
    char line[640];
    va_list args;
    if (level > log->level)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (log->say)
        log->say(log->context, level, line);
    else
        fprintf(stderr, "ronda: %s\n", line);
}
