/* address_file.h: a small file in a folder that all hosts see, in which rank 0 says where it is.
 *
 *     ronda 1
 *     job 0123456789abcdef
 *     host fedcba9876543210
 *     port 40123
 *     at 10.0.0.1
 *     at fd00::2
 *     end
 */
#ifndef RD_ADDRESS_FILE_H
#define RD_ADDRESS_FILE_H

#include <sys/types.h>

#include "base/error.h"
#include "transport/ip.h"

typedef struct {
    uint64_t job, host;
    uint16_t port;
    uint8_t count;
    rd_ip at[RD_ADDRESSES];
} rd_address_file;

typedef struct {
    const char *path; /* NULL: nothing is written */
    dev_t device;
    ino_t inode;
} rd_written;

enum { RD_ADDRESS_FILE_TEXT = 1024 };

/* Whole or not at all, for this user alone.  Refuses to overwrite what is no such file. */
ronda_status rd_address_file_write(const char *path, const rd_address_file *file, rd_written *out,
                                   rd_error *err);
void rd_address_file_remove(rd_written *written); /* unless it is another's by now */
/* RONDA_ETIMEOUT: it is not there yet, or no such file; *why says it shortly. */
ronda_status rd_address_file_read(const char *path, rd_address_file *out, const char **why,
                                  rd_error *err);
/* Of its text; false: it is none. */
bool rd_address_file_parse(const char *text, rd_address_file *out);

#endif
