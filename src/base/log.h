/* log.h: lines for whoever asked for them: the caller's function, or standard error by RONDA_LOG. */
#ifndef RD_LOG_H
#define RD_LOG_H

enum { RD_LOG_INFO = 1, RD_LOG_DEBUG = 2 };

typedef struct {
    int level; /* lines up to this level are said; 0: none */
    void (*say)(void *context, int level, const char *line); /* NULL: standard error */
    void *context;
} rd_log;

int rd_log_level_named(const char *name); /* 0: nothing said, -1: not a level */
void rd_log_say(const rd_log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
