/* meeting.h: a small file in a folder that all hosts see, in which rank 0 says where it is.
 *
 *     ronda 1
 *     job 0123456789abcdef
 *     host fedcba9876543210
 *     port 40123
 *     at 10.0.0.1
 *     at fd00::2
 *     end
 */
#ifndef RD_MEETING_H
#define RD_MEETING_H

#include <sys/types.h>

#include "base/error.h"
#include "transport/ip.h"

typedef struct {
    uint64_t job, host;
    uint16_t port;
    uint8_t count;
    rd_ip at[RD_ADDRESSES];
} rd_meeting;

typedef struct {
    const char *path; /* NULL: nothing is written */
    dev_t device;
    ino_t inode;
} rd_written;

enum { RD_MEETING_TEXT = 1024 };

/* Whole or not at all, for this user alone.  Refuses to overwrite what is no such file. */
ronda_status rd_meeting_write(const char *path, const rd_meeting *meeting, rd_written *out,
                              rd_error *err);
void rd_meeting_remove(rd_written *written); /* unless it is another's by now */
/* RONDA_ETIMEOUT: it is not there yet, or no such file; *why says it shortly. */
ronda_status rd_meeting_read(const char *path, rd_meeting *out, const char **why, rd_error *err);
/* Of its text; false: it is none. */
bool rd_meeting_parse(const char *text, rd_meeting *out);

#endif
