/* run_output.c: passes the ranks' output on to ours, in whole lines.
 *
 *   rank 0  out --line--.
 *           err --line--+--.
 *   rank 1  out --line--+  |        line   what a rank wrote since its last newline
 *           err --line--+--+        queue  whole lines for which the reader had no room yet
 *                       |  |
 *                   queue  queue
 *                       |  |
 *                  stdout  stderr
 *
 * Both are bounded.  A line too long for its buffer is passed on in parts, and its sink remembers whose
 * it is: another rank's line then goes below it, never into it.  While a queue is full its streams are
 * not read, so that a slow reader slows the ranks down, as it would without us between them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "run.h"

enum {
    CHUNK = 65536,     /* bytes per read */
    LINE_MOST = 65536, /* bytes of a line that wait for its end */
    LINE_LEAST = 256,
    QUEUE_FULL = 262144, /* bytes in a queue from which on its streams are not read */
    CAREFUL = 4096,      /* bytes that a pipe with any room takes without blocking */
    LAST_LINE = 300
};

typedef struct stream stream;

typedef struct {
    int fd, error;
    bool ours;         /* fd is not shared with anyone, and does not block */
    bool file, socket; /* a file never blocks; a socket can be told not to */
    char *queue;       /* bytes at .. length are still to be written */
    size_t at, length, capacity;
    const stream *open; /* whose line was passed on in part */
} sink;

struct stream {
    int fd; /* -1: ended */
    uint32_t rank;
    sink *to;
    char *line;
    size_t length, capacity;
    char last_line[LAST_LINE]; /* that has anything in it */
};

struct run_output {
    uint32_t count; /* of streams: two per rank */
    char *const *names;
    run_remote *remote;
    sink sinks[2];
    stream *streams;
    char chunk[CHUNK];
};

/* --- sinks --- */

/* A write that blocks would keep us from reading signals.  Not to block is a property that all who share an
 * open file would get, the shell included, so we open it once more. */
static void sink_open(sink *k, int fd, const struct stat *is)
{
    char path[40];
    *k = (sink){.fd = fd, .file = S_ISREG(is->st_mode), .socket = S_ISSOCK(is->st_mode)};
    if (!S_ISFIFO(is->st_mode) && !S_ISCHR(is->st_mode))
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int again = rd_fd(open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (again < 0)
        return;
    k->fd = again;
    k->ours = true;
}

static void sink_break(sink *k, int error)
{
    k->error = error;
    k->at = k->length = 0;
}

static void sink_add(sink *k, const char *text, size_t length)
{
    if (k->error)
        return;
    if (k->length + length > k->capacity) {
        const size_t capacity = 2 * (k->length + length);
        char *queue = rd_realloc(k->queue, capacity);
        if (!queue) {
            sink_break(k, ENOMEM);
            return;
        }
        k->queue = queue;
        k->capacity = capacity;
    }
    memcpy(k->queue + k->length, text, length);
    k->length += length;
}

static ssize_t sink_write(const sink *k)
{
    const size_t left = k->length - k->at;
    if (k->socket)
        return send(k->fd, k->queue + k->at, left, MSG_DONTWAIT | MSG_NOSIGNAL);
    return write(k->fd, k->queue + k->at, k->ours || k->file || left < CAREFUL ? left : CAREFUL);
}

/* Called when the sink has room: once for one that might block, else as often as it takes any. */
static void sink_pass_on(sink *k)
{
    while (k->at < k->length) {
        const ssize_t n = sink_write(k);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            sink_break(k, errno);
        if (n < 0 && errno == EAGAIN)
            break;
        k->at += n > 0 && !k->error ? (size_t)n : 0;
        if (!k->ours && !k->file && !k->socket)
            break;
    }
    memmove(k->queue, k->queue + k->at, k->length - k->at);
    k->length -= k->at;
    k->at = 0;
}

static bool sink_full(const sink *k)
{
    return k->length - k->at >= QUEUE_FULL;
}

/* --- streams --- */

static void remember_line(stream *s, const char *text, size_t length)
{
    while (length && strchr(" \t\r\n", text[length - 1]))
        length--;
    if (!length)
        return;
    length = length < sizeof s->last_line ? length : sizeof s->last_line - 1;
    for (size_t i = 0; i < length; i++)
        s->last_line[i] = text[i] ? text[i] : '?';
    s->last_line[length] = 0;
}

/* Passes on a line, or a part of one: `ends` says whether it has its newline. */
static void stream_say(const run_output *o, stream *s, const char *text, size_t length, bool ends)
{
    sink *k = s->to;
    if (k->open && k->open != s) {
        sink_add(k, "\n", 1);
        k->open = NULL;
    }
    if (k->open != s) {
        if (o->names) {
            sink_add(k, "[", 1);
            sink_add(k, o->names[s->rank], strlen(o->names[s->rank]));
            sink_add(k, "] ", 2);
        }
        remember_line(s, text, length);
    }
    sink_add(k, text, length);
    k->open = ends ? NULL : s;
}

/* Passes on what waits in the line. */
static void stream_say_line(const run_output *o, stream *s, bool ends)
{
    stream_say(o, s, s->line, s->length, ends);
    s->length = 0;
}

static bool line_grow(stream *s, size_t length)
{
    if (length <= s->capacity)
        return true;
    size_t capacity = s->capacity ? s->capacity : LINE_LEAST;
    while (capacity < length)
        capacity *= 2;
    char *line = rd_realloc(s->line, capacity);
    if (!line)
        return false;
    s->line = line;
    s->capacity = capacity;
    return true;
}

/* Text that belongs to the line begun, with or without its end. */
static void stream_take(const run_output *o, stream *s, const char *text, size_t length, bool ends)
{
    const bool room = s->length + length <= LINE_MOST && (ends || s->length + length < LINE_MOST);
    if (room && line_grow(s, s->length + length)) {
        memcpy(s->line + s->length, text, length);
        s->length += length;
        if (ends)
            stream_say_line(o, s, true);
        return;
    }
    if (s->length)
        stream_say_line(o, s, false);
    stream_say(o, s, text, length, ends);
}

static void stream_feed(const run_output *o, stream *s, const char *text, size_t length)
{
    while (length) {
        const char *newline = memchr(text, '\n', length);
        const size_t part = newline ? (size_t)(newline - text) + 1 : length;
        if (newline && !s->length)
            stream_say(o, s, text, part, true);
        else
            stream_take(o, s, text, part, newline != NULL);
        text += part;
        length -= part;
    }
}

/* The last line gets the newline that it lacks. */
static void stream_end(const run_output *o, stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    if (s->length)
        stream_say_line(o, s, false);
    if (s->to->open == s)
        stream_say(o, s, "\n", 1, true);
    rd_free(s->line);
    s->line = NULL;
    s->capacity = 0;
}

static int stream_which(const run_output *o, const stream *s)
{
    return (s - o->streams) % 2 ? RUN_ERR : RUN_OUT;
}

/* How many bytes of the stream there is room for. */
static size_t stream_room(const run_output *o, const stream *s)
{
    const size_t room =
        o->remote ? run_remote_room(o->remote, stream_which(o, s)) : sizeof o->chunk;
    return sink_full(s->to) ? 0 : room < sizeof o->chunk ? room : sizeof o->chunk;
}

static void stream_read(run_output *o, stream *s)
{
    const size_t room = stream_room(o, s);
    const ssize_t n = room ? read(s->fd, o->chunk, room) : -1;
    if (!room)
        return; /* another stream took it just now */
    if (n > 0 && o->remote)
        run_remote_wrote(o->remote, s->rank, stream_which(o, s), o->chunk, (size_t)n);
    else if (n > 0)
        stream_feed(o, s, o->chunk, (size_t)n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        stream_end(o, s);
}

/* --- all of them --- */

run_output *run_output_open(uint32_t size, char *const *names, run_remote *remote)
{
    struct stat is[2] = {0};
    run_output *o = rd_alloc(sizeof *o);
    stream *streams = rd_alloc(2 * size * sizeof *streams);
    if (!o || !streams) {
        rd_free(o);
        rd_free(streams);
        return NULL;
    }
    fstat(STDOUT_FILENO, &is[0]);
    fstat(STDERR_FILENO, &is[1]);
    sink_open(&o->sinks[RUN_OUT], STDOUT_FILENO, &is[0]);
    sink_open(&o->sinks[RUN_ERR], STDERR_FILENO, &is[1]);
    /* Two ways to one place would mix lines where one of them is full in the middle of one. */
    const bool one = is[0].st_dev == is[1].st_dev && is[0].st_ino == is[1].st_ino;
    for (uint32_t i = 0; i < 2 * size; i++)
        streams[i] = (stream){
            .fd = -1, .rank = i / 2, .to = &o->sinks[i % 2 == RUN_ERR && !one ? RUN_ERR : RUN_OUT]};
    o->count = 2 * size;
    o->names = names;
    o->remote = remote;
    o->streams = streams;
    return o;
}

void run_output_free(run_output *o)
{
    for (uint32_t i = 0; o && i < o->count; i++) {
        if (o->streams[i].fd >= 0)
            close(o->streams[i].fd);
        rd_free(o->streams[i].line);
    }
    for (int i = 0; o && i < 2; i++) {
        if (o->sinks[i].ours)
            close(o->sinks[i].fd);
        rd_free(o->sinks[i].queue);
    }
    if (o)
        rd_free(o->streams);
    rd_free(o);
}

int run_output_pipe(run_output *o, uint32_t rank, int which)
{
    int ends[2];
    if (rd_fd_pipe(ends, 0))
        return -1;
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* our end alone: the rank's is an open file of its own */
    o->streams[2 * rank + (uint32_t)which].fd = ends[0];
    return ends[1];
}

size_t run_output_polls(const run_output *o, struct pollfd polls[])
{
    size_t count = 0;
    for (int i = 0; i < 2; i++)
        if (o->sinks[i].length)
            polls[count++] = (struct pollfd){.fd = o->sinks[i].fd, .events = POLLOUT};
    for (uint32_t i = 0; i < o->count; i++)
        if (o->streams[i].fd >= 0 && stream_room(o, &o->streams[i]))
            polls[count++] = (struct pollfd){.fd = o->streams[i].fd, .events = POLLIN};
    return count;
}

void run_output_turn(run_output *o, const struct pollfd polls[], size_t count, bool last)
{
    size_t at = 0;
    for (int i = 0; i < 2; i++)
        if (at < count && polls[at].fd == o->sinks[i].fd && polls[at++].revents)
            sink_pass_on(&o->sinks[i]);
    for (uint32_t i = 0; i < o->count && at < count; i++) {
        stream *s = &o->streams[i];
        if (s->fd != polls[at].fd)
            continue;
        if (polls[at].revents)
            stream_read(o, s);
        else if (last)
            stream_end(o, s);
        at++;
    }
    for (int i = 0; i < 2; i++)
        if (o->sinks[i].length && (o->sinks[i].ours || o->sinks[i].file || o->sinks[i].socket))
            sink_pass_on(&o->sinks[i]); /* mostly there is room: try before polling */
}

void run_output_feed(run_output *o, uint32_t rank, int which, const char *text, size_t length)
{
    stream_feed(o, &o->streams[2 * rank + (uint32_t)which], text, length);
}

void run_output_end(run_output *o, uint32_t rank, int which)
{
    stream_end(o, &o->streams[2 * rank + (uint32_t)which]);
}

bool run_output_full(const run_output *o, int which)
{
    return sink_full(o->streams[which].to);
}

bool run_output_reads(const run_output *o)
{
    for (uint32_t i = 0; i < o->count; i++)
        if (o->streams[i].fd >= 0 && stream_room(o, &o->streams[i]))
            return true;
    return false;
}

bool run_output_done(const run_output *o)
{
    for (uint32_t i = 0; i < o->count; i++)
        if (o->streams[i].fd >= 0)
            return false;
    return !o->sinks[RUN_OUT].length && !o->sinks[RUN_ERR].length;
}

int run_output_error(const run_output *o)
{
    return o->sinks[RUN_OUT].error;
}

const char *run_output_last_line(const run_output *o, uint32_t rank)
{
    return o->streams[2 * rank + RUN_ERR].last_line;
}
