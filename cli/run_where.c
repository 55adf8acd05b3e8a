/* run_where.c: on which hosts the ranks of a job are, where they meet, and what they get to know. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/tell.h"
#include "comm/lookup.h"
#include "run.h"

static const char ME[] = "run";

/* What is wrong with so many ranks on these hosts, if anything is. */
static int check_slots(const run_request *q, const char *source)
{
    const uint32_t slots = q->hosts.slots;
    if (q->size > slots)
        return cli_wrong(ME, "-n %" PRIu32 ": the hosts of %s have %" PRIu32 " slots", q->size,
                         source, slots);
    if (!q->size && slots > RUN_MOST_RANKS)
        return cli_wrong(ME, "the hosts of %s have %" PRIu32 " slots: say with -n how many, 1..%d",
                         source, slots, RUN_MOST_RANKS);
    return CLI_OK;
}

int run_read_hosts(run_request *q)
{
    char why[HOSTS_WHY];
    const char *names = q->host_names, *source = names ? "--host" : q->hosts_file;
    const bool read = names ? hosts_read(names, strlen(names), true, source, &q->hosts, why)
                            : hosts_load(q->hosts_file, &q->hosts, why);
    if (!read)
        return cli_wrong(ME, "%s", why);
    const int status = check_slots(q, source);
    if (status) {
        hosts_free(&q->hosts);
        return status;
    }
    if (!q->size)
        q->size = q->hosts.slots;
    q->count = q->size;
    hosts_cut(&q->hosts, q->size);
    return CLI_OK;
}

bool run_address_split(const char *text, char *host, size_t capacity, uint32_t *port)
{
    const char *end = *text == '[' ? strchr(text, ']') : text + strcspn(text, ":");
    if (!end)
        return false;
    end += *text == '[';
    const size_t length = (size_t)(end - text);
    uint64_t number = 0;
    if (!length || length >= capacity || length > HOSTS_NAME)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("[]:.%_-", text[i]))
            return false;
    if (*end == ':' && (!cli_digits(end + 1, &number, &end) || number > 65535))
        return false;
    if (*end)
        return false;
    memcpy(host, text, length);
    host[length] = 0;
    *port = (uint32_t)number;
    return true;
}

/* Can others reach this host there? */
static bool is_good(const rd_ip *ip)
{
    struct sockaddr_storage name;
    const socklen_t length = rd_ip_sockaddr(ip, 0, &name);
    if (rd_ip_is_loopback(ip) || rd_ip_is_link_local(ip))
        return false;
    const int fd = rd_fd(socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool ours = fd >= 0 && bind(fd, (struct sockaddr *)&name, length) == 0;
    if (fd >= 0)
        close(fd);
    return ours;
}

bool run_reached_at(const char *connection, rd_ip *out)
{
    char server[RD_IP_TEXT];
    return sscanf(connection, "%*s %*s %63s", server) == 1 && rd_ip_read(server, out);
}

/* A name may be ssh's alone, or the host's own for its loopback.  A connection may be of another host's ssh, on
 * the way to this one: only an address of this host counts. */
bool run_find_host(const char *name, char *host, size_t capacity)
{
    enum { MOST = 8 };
    static const uint64_t PATIENCE_NS = 3000000000;
    const char *connection = getenv("SSH_CONNECTION"), *user = strchr(name, '@'), *why;
    char text[RD_IP_TEXT];
    rd_ip at[MOST];
    name = user ? user + 1 : name;
    const uint32_t count =
        connection && *name ? rd_lookup(name, at, MOST, rd_now_ns() + PATIENCE_NS, &why) : 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_good(&at[i]))
            return false;
    if (!connection || !*name || !run_reached_at(connection, &at[0]) || !is_good(&at[0]))
        return false;
    rd_ip_text(&at[0], text);
    hosts_address(text, host, capacity);
    return true;
}

/* --- variables --- */

/* Which variables of our environment ranks on hosts get: not those that each rank gets anew, nor our own. */
static bool goes_along(const char *variable)
{
    static const char *const own[] = {"RONDA_RANK=",  "RONDA_SIZE=", "RONDA_ADDR=", "RONDA_KEY=",
                                      "RONDA_AGENT=", RD_TELL "=",   NULL};
    for (size_t i = 0; own[i]; i++)
        if (strncmp(variable, own[i], strlen(own[i])) == 0)
            return false;
    return strncmp(variable, "RONDA_", 6) == 0;
}

bool run_variables(const run_request *q, const run_place *place, cli_words *out)
{
    const char *key = getenv("RONDA_KEY");
    bool good = cli_words_add(out, "RONDA_KEY=%s", key && *key ? key : place->key);
    for (char **v = environ; *v && good; v++)
        good = !goes_along(*v) || cli_words_add(out, "%s", *v);
    for (uint32_t i = 0; i < q->variable_count && good; i++) {
        const char *variable = q->variables[i];
        const char *value = strchr(variable, '=') ? NULL : getenv(variable);
        good = cli_words_add(out, value ? "%s=%s" : "%s%.0s", variable, value ? value : "");
    }
    return good;
}
