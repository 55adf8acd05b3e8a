#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

ronda_status rd_fail(rd_error *err, ronda_status status, uint32_t peer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err->status = status;
    err->peer = peer;
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    for (char *c = err->message; *c; c++) /* one line, whatever the caller's texts hold */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    return status;
}

rd_error *rd_thread_error(void)
{
    static _Thread_local rd_error error;
    return &error;
}
