/* hosts.c: reading lists of hosts. */
#include "hosts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

enum { FILE_MOST = 1 << 20, SHOWN = 60 };

typedef struct {
    const char *source, *at, *end; /* at .. end: what is left of the entry */
    uint32_t line;
    bool commas;
    char *why;
} reader;

static bool wrong(const reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool wrong(const reader *r, const char *format, ...)
{
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++) /* it is shown to people */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    if (r->commas)
        snprintf(r->why, HOSTS_WHY, "%.80s: %s", r->source, text);
    else
        snprintf(r->why, HOSTS_WHY, "%.80s:%" PRIu32 ": %s", r->source, r->line, text);
    return false;
}

/* --- words --- */

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && blank(*r->at))
        r->at++;
}

/* What is there up to the next blank, for messages. */
static int shown(const reader *r, const char *from)
{
    int length = 0;
    while (from + length < r->end && !blank(from[length]) && length < SHOWN)
        length++;
    return length;
}

static bool name_character(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_';
}

/* Appends one character; a name too long shows in the end. */
static void append(hosts_host *h, size_t *length, char c)
{
    if (*length + 1 < sizeof h->name)
        h->name[*length] = c;
    ++*length;
}

/* "[fe80::1%eth0]" */
static bool read_brackets(reader *r, hosts_host *h, size_t *length)
{
    const char *start = r->at++;
    bool zone = false, colon = false;
    for (; r->at < r->end && *r->at != ']'; r->at++) {
        const char c = *r->at;
        zone |= c == '%';
        colon |= c == ':';
        if (!(zone ? name_character(c) || c == '%'
                   : isxdigit((unsigned char)c) || c == ':' || c == '.'))
            return wrong(r, "'%.*s' is not an address of IPv6", shown(r, start), start);
        append(h, length, c);
    }
    if (r->at >= r->end)
        return wrong(r, "'%.*s' lacks its ']'", shown(r, start), start);
    r->at++;
    return colon || wrong(r, "'%.*s' is not an address of IPv6", shown(r, start), start);
}

static bool read_plain(reader *r, hosts_host *h, size_t *length)
{
    const char *start = r->at;
    for (; r->at < r->end && name_character(*r->at); r->at++)
        append(h, length, *r->at);
    if (r->at == start)
        return wrong(r, "'%.*s' does not begin with the name of a host", shown(r, start), start);
    return *start != '-' || wrong(r, "'%.*s': no name begins with '-'", shown(r, start), start);
}

static bool read_name(reader *r, hosts_host *h)
{
    const char *start = r->at;
    size_t length = 0;
    bool brackets = *r->at == '[';
    if (!brackets && !read_plain(r, h, &length))
        return false;
    if (length && r->at < r->end && *r->at == '@') {
        append(h, &length, *r->at++);
        if (r->at >= r->end || blank(*r->at))
            return wrong(r, "'%.*s' lacks the host behind '@'", shown(r, start), start);
        brackets = *r->at == '[';
        if (!brackets && !read_plain(r, h, &length))
            return false;
    }
    if (brackets && !read_brackets(r, h, &length))
        return false;
    if (length >= sizeof h->name)
        return wrong(r, "the name '%.*s...' is longer than %d characters", shown(r, start), start,
                     HOSTS_NAME - 1);
    if (r->at < r->end && !blank(*r->at) && *r->at != ':')
        return wrong(r, "a host's name cannot have '%c' in it: '%.*s'",
                     isprint((unsigned char)*r->at) ? *r->at : '?', shown(r, start), start);
    return true;
}

/* --- slots --- */

static bool read_slots(reader *r, uint32_t *out)
{
    const char *start = r->at;
    uint32_t value = 0;
    for (; r->at < r->end && isdigit((unsigned char)*r->at); r->at++)
        value = value <= HOSTS_MOST_SLOTS ? value * 10 + (uint32_t)(*r->at - '0') : value;
    if (r->at < r->end && *r->at == ':')
        return wrong(r, "an address of IPv6 stands in brackets: [fe80::1]:4");
    if (r->at == start || (r->at < r->end && !blank(*r->at)))
        return wrong(r, "'%.*s' is not a number of slots", shown(r, start), start);
    if (value < 1 || value > HOSTS_MOST_SLOTS)
        return wrong(r, "%.*s slots are not within 1..%d", shown(r, start), start,
                     HOSTS_MOST_SLOTS);
    *out = value;
    return true;
}

/* What follows the name: ":4", "4", "slots=4" or nothing. */
static bool read_rest(reader *r, hosts_host *h)
{
    static const char word[] = "slots=";
    const size_t length = sizeof word - 1;
    h->slots = 1;
    if (r->at < r->end && *r->at == ':') {
        r->at++;
        if (!read_slots(r, &h->slots))
            return false;
    } else {
        skip_blanks(r);
        if ((size_t)(r->end - r->at) >= length && memcmp(r->at, word, length) == 0) {
            r->at += length;
            if (!read_slots(r, &h->slots))
                return false;
        } else if (r->at < r->end && !isdigit((unsigned char)*r->at)) {
            return wrong(r, "what is '%.*s'?  A line is NAME SLOTS", shown(r, r->at), r->at);
        } else if (r->at < r->end && !read_slots(r, &h->slots)) {
            return false;
        }
    }
    skip_blanks(r);
    return r->at >= r->end || wrong(r, "what is '%.*s', behind the slots?", shown(r, r->at), r->at);
}

/* --- the list --- */

static bool add(reader *r, hosts_list *l, const hosts_host *h)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (strcmp(l->at[i].name, h->name) == 0) {
            if (l->at[i].slots + h->slots > HOSTS_MOST_SLOTS)
                return wrong(r, "%.60s has more than %d slots now", h->name, HOSTS_MOST_SLOTS);
            l->at[i].slots += h->slots;
            l->slots += h->slots;
            return true;
        }
    if (l->count == HOSTS_MOST)
        return wrong(r, "more than %d hosts", HOSTS_MOST);
    if ((l->count & (l->count - 1)) == 0) { /* full at every power of two */
        hosts_host *more = rd_realloc(l->at, (l->count ? 2 * l->count : 1) * sizeof *more);
        if (!more)
            return wrong(r, "no memory");
        l->at = more;
    }
    l->at[l->count++] = *h;
    l->slots += h->slots;
    return true;
}

/* An entry is r->at .. r->end. */
static bool read_entry(reader *r, hosts_list *l)
{
    hosts_host h = {0};
    const char *comment = r->commas ? NULL : memchr(r->at, '#', (size_t)(r->end - r->at));
    if (comment)
        r->end = comment;
    skip_blanks(r);
    if (r->at >= r->end)
        return !r->commas || wrong(r, "a host is missing: it is NAME:SLOTS,NAME:SLOTS");
    return read_name(r, &h) && read_rest(r, &h) && add(r, l, &h);
}

bool hosts_read(const char *text, size_t length, bool commas, const char *source, hosts_list *out,
                char why[HOSTS_WHY])
{
    reader r = {.source = source, .commas = commas, .why = why};
    hosts_list l = {0};
    const char *end = text + length;
    for (const char *at = text; at < end || (commas && at == end);) {
        const char *stop = at < end ? memchr(at, commas ? ',' : '\n', (size_t)(end - at)) : NULL;
        r.at = at;
        r.end = stop ? stop : end;
        r.line++;
        if (!read_entry(&r, &l)) {
            hosts_free(&l);
            return false;
        }
        at = (stop ? stop : end) + 1;
    }
    if (!l.count) {
        snprintf(why, HOSTS_WHY, "%.80s: there is no host in it", source);
        return false;
    }
    *out = l;
    return true;
}

bool hosts_load(const char *path, hosts_list *out, char why[HOSTS_WHY])
{
    size_t length = 0;
    ssize_t n = 0;
    bool done = false;
    char *text = rd_alloc(FILE_MOST);
    const int fd = text ? rd_fd(open(path, O_RDONLY | O_CLOEXEC)) : -1;
    while (fd >= 0 && length < FILE_MOST && (n = read(fd, text + length, FILE_MOST - length)) > 0)
        length += (size_t)n;
    if (fd < 0 || n < 0)
        snprintf(why, HOSTS_WHY, "cannot read %.200s: %s", path, strerror(text ? errno : ENOMEM));
    else if (length == FILE_MOST)
        snprintf(why, HOSTS_WHY, "%.200s: is larger than a list of hosts can be", path);
    else
        done = hosts_read(text, length, false, path, out, why);
    if (fd >= 0)
        close(fd);
    rd_free(text);
    return done;
}

void hosts_free(hosts_list *l)
{
    rd_free(l->at);
    *l = (hosts_list){0};
}

void hosts_cut(hosts_list *l, uint32_t slots)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        if (before + l->at[i].slots >= slots) {
            l->at[i].slots = slots - before;
            l->count = i + 1;
        }
        before += l->at[i].slots;
    }
    l->slots = slots;
}

void hosts_address(const char *name, char *text, size_t capacity)
{
    const char *user = strchr(name, '@');
    name = user ? user + 1 : name;
    snprintf(text, capacity, strchr(name, ':') ? "[%s]" : "%s", name);
}
