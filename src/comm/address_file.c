#include "comm/address_file.h"

#include "base/fd.h"
#include "base/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char FIRST_LINE[] = "ronda 1\n";

/* --- its text --- */

static size_t format(const rd_address_file *m, char text[RD_ADDRESS_FILE_TEXT])
{
    char ip[RD_IP_TEXT];
    size_t at = (size_t)snprintf(text, RD_ADDRESS_FILE_TEXT,
                                 "%sjob %016" PRIx64 "\nhost %016" PRIx64 "\nport %u\n", FIRST_LINE,
                                 m->job, m->host, m->port);
    for (uint32_t i = 0; i < m->count; i++) {
        rd_ip_text(&m->at[i], ip);
        at += (size_t)snprintf(text + at, RD_ADDRESS_FILE_TEXT - at, "at %s\n", ip);
    }
    return at + (size_t)snprintf(text + at, RD_ADDRESS_FILE_TEXT - at, "end\n");
}

/* "word value\n": moves past it and gives the value; false: another line */
static bool take_line(const char **text, const char *word, char value[RD_IP_TEXT])
{
    const size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0)
        return false;
    const char *from = *text + length, *end = strchr(from, '\n');
    if (!end || (size_t)(end - from) >= RD_IP_TEXT)
        return false;
    memcpy(value, from, (size_t)(end - from));
    value[end - from] = 0;
    *text = end + 1;
    return true;
}

static bool read_hex(const char *value, uint64_t *out)
{
    if (strlen(value) != 16 || strspn(value, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(value, NULL, 16);
    return true;
}

bool rd_address_file_parse(const char *text, rd_address_file *out)
{
    rd_address_file m = {0};
    char value[RD_IP_TEXT];
    if (!take_line(&text, "ronda 1", value) || *value)
        return false;
    if (!take_line(&text, "job ", value) || !read_hex(value, &m.job) || !m.job)
        return false;
    if (!take_line(&text, "host ", value) || !read_hex(value, &m.host))
        return false;
    if (!take_line(&text, "port ", value) || !*value || strlen(value) > 5 ||
        strspn(value, "0123456789") != strlen(value))
        return false;
    const unsigned long port = strtoul(value, NULL, 10);
    while (m.count < RD_ADDRESSES && take_line(&text, "at ", value))
        if (!rd_ip_read(value, &m.at[m.count++]))
            return false;
    if (port == 0 || port > 65535 || !m.count || strcmp(text, "end\n") != 0)
        return false;
    m.port = (uint16_t)port;
    *out = m;
    return true;
}

/* --- the file --- */

/* false: errno says why */
static bool read_text(const char *path, char text[RD_ADDRESS_FILE_TEXT], struct stat *s)
{
    const int fd = rd_fd(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0)
        return false;
    const ssize_t n =
        fstat(fd, s) == 0 && S_ISREG(s->st_mode) ? read(fd, text, RD_ADDRESS_FILE_TEXT - 1) : -1;
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return true;
}

ronda_status rd_address_file_read(const char *path, rd_address_file *out, const char **why,
                                  rd_error *err)
{
    char text[RD_ADDRESS_FILE_TEXT];
    struct stat s = {0};
    if (!read_text(path, text, &s)) {
        *why = strerror(errno);
        return RONDA_ETIMEOUT;
    }
    if (s.st_uid != geteuid())
        return rd_fail(err, RONDA_EPEER, 0, "file:%s belongs to another user (%u)", path, s.st_uid);
    *why = "it is not what a rank 0 writes";
    return rd_address_file_parse(text, out) ? RONDA_OK : RONDA_ETIMEOUT;
}

static bool write_all(int fd, const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        const ssize_t n = write(fd, text + at, length - at);
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return fsync(fd) == 0 || errno == EINVAL || errno == EROFS;
}

static ronda_status failed(rd_error *err, const char *path, const char *why)
{
    return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY, "rank 0 cannot write file:%s: %s", path, why);
}

ronda_status rd_address_file_write(const char *path, const rd_address_file *m, rd_written *out,
                                   rd_error *err)
{
    char text[RD_ADDRESS_FILE_TEXT], temporary[128];
    struct stat s;
    uint32_t number;
    if (read_text(path, text, &s) && strncmp(text, FIRST_LINE, sizeof FIRST_LINE - 1) != 0)
        return failed(err, path, "there is something else of that name");
    const size_t length = format(m, text);
    if (!rd_file_fits(length))
        return failed(err, path, strerror(errno));
    if (!rd_random(&number, sizeof number))
        return failed(err, path, "the system has no random numbers");
    snprintf(temporary, sizeof temporary, "%s.%08x", path, number);
    const int fd =
        rd_fd(open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd < 0)
        return failed(err, path, strerror(errno));
    const bool written = write_all(fd, text, length) && fstat(fd, &s) == 0;
    int error = errno;
    close(fd);
    if (written && rename(temporary, path) == 0) {
        *out = (rd_written){.path = path, .device = s.st_dev, .inode = s.st_ino};
        return RONDA_OK;
    }
    error = written ? errno : error;
    unlink(temporary);
    return failed(err, path, strerror(error));
}

void rd_address_file_remove(rd_written *w)
{
    struct stat s;
    if (w->path && stat(w->path, &s) == 0 && s.st_dev == w->device && s.st_ino == w->inode)
        unlink(w->path);
    w->path = NULL;
}
