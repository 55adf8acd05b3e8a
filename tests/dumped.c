/* dumped.c: see dumped.h. */
#include "dumped.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"

enum { MOST_TEXT = 1 << 16 };

int text_open(void)
{
    const int fd = memfd_create("dump", 0);
    CHECK(fd >= 0 && fcntl(fd, F_SETFL, O_APPEND) == 0, "no file: %s", strerror(errno));
    return fd;
}

const char *text_of(int fd)
{
    static _Thread_local char text[MOST_TEXT];
    const ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return text;
}

const char *dumped(ronda_comm *comm)
{
    const int fd = text_open();
    CHECK(ronda_dump(comm, fd) == RONDA_OK, "%s", ronda_last_error(comm));
    const char *text = text_of(fd);
    close(fd);
    return text;
}

bool dump_says(ronda_comm *comm, const char *what, unsigned seconds)
{
    const double end = seconds_now() + seconds;
    while (!strstr(dumped(comm), what)) {
        if (seconds_now() > end)
            return false;
        sleep_ms(1);
    }
    return true;
}
