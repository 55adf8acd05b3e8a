/* hosts.c: reading lists of hosts. */
#include "hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "base/fd.h"
#include "base/mem.h"

enum { FILE_MOST = 1 << 20, ENTRY_MOST = 600 };

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
static const char BLANKS[] = " \t\r";

typedef struct {
    const char *source;
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

/* --- an entry: "NAME", "NAME:SLOTS", "NAME SLOTS" or "NAME slots=SLOTS" --- */

/* Copies "name", "me@name" or "me@[fe80::1%eth0]" without its brackets.  Where the name ends; NULL: it is none. */
static const char *read_name(const char *text, hosts_host *h)
{
    const size_t user = strspn(text, LETTERS);
    const char *host = user && text[user] == '@' ? text + user + 1 : text;
    const size_t bracket = *host == '[', before = (size_t)(host - text);
    const char *from = host + bracket;
    const size_t length = strspn(from, bracket ? LETTERS ":%" : LETTERS);
    const char *end = from + length + bracket;
    if (!length || *text == '-' || *from == '-' || before + length >= HOSTS_NAME ||
        (bracket && (from[length] != ']' || !memchr(from, ':', length))))
        return NULL;
    if (*end && *end != ':' && !strchr(BLANKS, *end))
        return NULL;
    snprintf(h->name, sizeof h->name, "%.*s%.*s", (int)before, text, (int)length, from);
    return end;
}

static bool read_slots(const reader *r, const char *text, uint32_t *out)
{
    static const char word[] = "slots=";
    uint64_t slots = 1;
    const bool colon = *text == ':';
    const char *from = colon ? text + 1 : text + strspn(text, BLANKS), *end = from;
    if (!colon && strncmp(from, word, sizeof word - 1) == 0)
        end = from += sizeof word - 1;
    if (from == text) { /* there is nothing */
        *out = 1;
        return true;
    }
    if (!cli_digits(from, &slots, &end) || slots < 1 || slots > HOSTS_MOST_SLOTS ||
        end[strspn(end, BLANKS)])
        return wrong(r, "'%.60s' is not a number of slots, 1..%d%s", from, HOSTS_MOST_SLOTS,
                     strchr(from, ':') ? "; an address of IPv6 stands in brackets: [fe80::1]:4"
                                       : "");
    *out = (uint32_t)slots;
    return true;
}

/* --- the list --- */

static bool add(const reader *r, hosts_list *l, const hosts_host *h)
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

/* text: an entry with its blanks, and a line's comment. */
static bool read_entry(reader *r, const char *text, size_t length, hosts_list *l)
{
    char entry[ENTRY_MOST];
    hosts_host h = {0};
    const char *comment = r->commas ? NULL : memchr(text, '#', length);
    length = comment ? (size_t)(comment - text) : length;
    while (length && strchr(BLANKS, *text) && *text) {
        text++;
        length--;
    }
    while (length && strchr(BLANKS, text[length - 1]) && text[length - 1])
        length--;
    if (!length)
        return !r->commas || wrong(r, "a host is missing: it is NAME:SLOTS,NAME:SLOTS");
    if (length >= sizeof entry || memchr(text, 0, length))
        return wrong(r, "this is too long for a host");
    snprintf(entry, sizeof entry, "%.*s", (int)length, text);
    const char *rest = read_name(entry, &h);
    if (!rest)
        return wrong(r, "'%.60s' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6", entry);
    return read_slots(r, rest, &h.slots) && add(r, l, &h);
}

bool hosts_read(const char *text, size_t length, bool commas, const char *source, hosts_list *out,
                char why[HOSTS_WHY])
{
    reader r = {.source = source, .commas = commas, .why = why};
    hosts_list l = {0};
    const char *end = text + length;
    for (const char *at = text; at < end || (commas && at == end);) {
        const char *stop = at < end ? memchr(at, commas ? ',' : '\n', (size_t)(end - at)) : NULL;
        stop = stop ? stop : end;
        r.line++;
        if (!read_entry(&r, at, (size_t)(stop - at), &l)) {
            hosts_free(&l);
            return false;
        }
        at = stop + 1;
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
