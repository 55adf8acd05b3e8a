/* error.h: one error, decided once.
 *
 * The first function that decides an error fills in the message with rd_fail(); everyone above
 * passes the status up.  Outputs stay untouched on failure. */
#ifndef RD_ERROR_H
#define RD_ERROR_H

#include "ronda.h"

typedef struct {
    ronda_status status;
    uint32_t rank, peer; /* who found it; whom it is about (RONDA_ANY: nobody) */
    uint64_t sequence;
    char message[480];
} rd_error;

/* Fills *err and returns status.  err->rank and err->sequence are the caller's to set. */
ronda_status rd_fail(rd_error *err, ronda_status status, uint32_t peer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* This thread's error where there is no communicator to keep it. */
rd_error *rd_thread_error(void);

#endif
