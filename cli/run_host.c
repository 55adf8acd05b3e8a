/* run_host.c: one host of a job in the launcher; see run_host.h. */
#include "run_host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

static void close_all(const int fds[], int count)
{
    const int error = errno;
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    errno = error;
}

bool run_host_start(run_host *h, const run_agent *a, const hosts_host *as, run_output *o,
                    uint32_t place, const struct rlimit *files)
{
    int in[2], out[2];
    if (rd_fd_pipe(in, 0))
        return false;
    if (rd_fd_pipe(out, 0)) {
        close_all(in, 2);
        return false;
    }
    const int error = run_output_pipe(o, place, RUN_ERR);
    const int streams[3] = {in[0], out[1], error};
    h->start_ns = rd_now_ns();
    h->agent = error < 0 ? -1 : run_agent_start(a, as, streams, files);
    close_all(streams, 3);
    run_link_open(&h->link, out[0], in[1]);
    if (h->agent > 0)
        return true;
    h->agent = 0;
    return false;
}

/* --- the greeting --- */

static void remember(run_host *h, const char *line, size_t length)
{
    while (length && strchr(" \t\r", line[length - 1]))
        length--;
    if (length)
        snprintf(h->last_line, sizeof h->last_line, "%.*s", (int)(length < 290 ? length : 290),
                 line);
}

/* Lines that a login shell prints come first, and are kept for messages alone.  What runs there and is not ronda
 * might never end a line. */
static bool look_for_greeting(run_host *h)
{
    enum { LINE_MOST = 65536 };
    run_bytes *b = &h->link.got;
    char *end;
    while (b->from < b->to && (end = memchr(b->at + b->from, '\n', b->to - b->from))) {
        const char *line = b->at + b->from;
        const size_t length = (size_t)(end - line);
        b->from += length + 1;
        if (length + 1 == sizeof RUN_HELLO - 1 && memcmp(line, RUN_HELLO, length) == 0)
            return true;
        remember(h, line, length);
    }
    if (b->to - b->from > LINE_MOST || h->link.lost)
        remember(h, b->at + b->from, b->to - b->from);
    h->link.lost |= b->to - b->from > LINE_MOST;
    return false;
}

bool run_host_read(run_host *h)
{
    run_link_read(&h->link);
    if (h->now != HOST_CALLED || !look_for_greeting(h))
        return false;
    h->now = HOST_GREETED;
    h->greeted = true;
    return true;
}

bool run_host_next(run_host *h, run_frame *out)
{
    return h->now != HOST_CALLED && h->now != HOST_LEFT && run_link_next(&h->link, out);
}

/* --- orders --- */

void run_host_order(run_host *h, int kind, uint64_t number)
{
    if (h->now == HOST_STARTED)
        run_link_put(&h->link, kind, &number, kind == RUN_SIGNAL ? 1 : 0, NULL, 0);
}

void run_host_leave(run_host *h, uint64_t patience_ns)
{
    if (h->now == HOST_LEFT)
        return;
    run_link_write(&h->link);
    run_link_close(&h->link);
    h->now = HOST_LEFT;
    h->kill_ns = rd_now_ns() + patience_ns;
    if (!patience_ns && h->agent > 0)
        kill(h->agent, SIGKILL);
}

bool run_host_names(const run_host hosts[], uint32_t count, cli_words *out)
{
    bool good = true;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t r = 0; r < hosts[i].count && good; r++)
            good = cli_words_add(out, "%" PRIu32 " %s", hosts[i].first + r, hosts[i].name);
    for (uint32_t i = 0; i < count && good; i++)
        good = cli_words_add(out, "%s", hosts[i].name);
    return good;
}

const run_host *run_host_of(const run_host *hosts, uint32_t count, uint32_t rank)
{
    for (uint32_t i = 0; i < count; i++)
        if (run_host_has(&hosts[i], rank))
            return &hosts[i];
    return NULL;
}
