#include "comm/interfaces.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint32_t rd_interfaces_list(rd_interface out[RD_INTERFACES])
{
    struct ifaddrs *all;
    uint32_t count = 0;
    if (getifaddrs(&all))
        return 0;
    for (const struct ifaddrs *i = all; i && count < RD_INTERFACES; i = i->ifa_next) {
        rd_interface *to = &out[count];
        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !rd_ip_of(i->ifa_addr, &to->ip, NULL))
            continue;
        snprintf(to->name, sizeof to->name, "%s", i->ifa_name);
        to->name[strcspn(to->name, ":")] = 0; /* eth0:1 is a second address of eth0 */
        count++;
    }
    freeifaddrs(all);
    errno = 0;
    return count;
}

/* Is the name in the list "a,b,c"? */
static bool in_list(const char *list, const char *name)
{
    const size_t length = strlen(name);
    while (*list) {
        const size_t n = strcspn(list, ",");
        if (n == length && memcmp(list, name, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

static bool is_wanted(const rd_interface *i, const rd_wish *wish)
{
    const char *filter = wish->filter;
    if (wish->loopback_alone && !rd_ip_is_loopback(&i->ip))
        return false;
    if (!filter || !*filter)
        return true;
    return *filter == '^' ? !in_list(filter + 1, i->name) : in_list(filter, i->name);
}

/* Bridges between the containers of one host have the same addresses on every host. */
static bool is_bridge(const char *name)
{
    static const char *const begins[] = {"docker", "br-", "veth", "virbr", "cni"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

rd_interface_class rd_interface_class_of(const rd_interface *i, const rd_ip *route)
{
    if (route && rd_ip_equal(&i->ip, route))
        return RD_INTERFACE_ROUTE;
    if (rd_ip_is_loopback(&i->ip))
        return RD_INTERFACE_LOOPBACK;
    if (rd_ip_is_link_local(&i->ip))
        return RD_INTERFACE_LINK_LOCAL;
    return is_bridge(i->name) ? RD_INTERFACE_BRIDGE : RD_INTERFACE_ORDINARY;
}

static ronda_status none_left(const rd_interface all[], uint32_t count, const rd_wish *wish,
                              rd_error *err)
{
    char list[300] = "none", ip[RD_IP_TEXT];
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        rd_ip_text(&all[i].ip, ip);
        if (at + RD_INTERFACE_NAME + RD_IP_TEXT + 8 < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s (%s)", at ? ", " : "",
                                   all[i].name, ip);
    }
    if (!wish->filter || !*wish->filter)
        return rd_fail(err, RONDA_ESYSTEM, RONDA_ANY,
                       "this host has no %saddress that is up; its interfaces: %s",
                       wish->loopback_alone ? "loopback " : "", list);
    return rd_fail(err, RONDA_EINVAL, RONDA_ANY,
                   "RONDA_IFACE=%.60s leaves no %saddress; this host has %s", wish->filter,
                   wish->loopback_alone ? "loopback " : "", list);
}

ronda_status rd_interfaces_choose(const rd_interface all[], uint32_t count, const rd_wish *wish,
                                  rd_place *place, rd_error *err)
{
    rd_place made = {0};
    for (int class = RD_INTERFACE_ROUTE; class <= RD_INTERFACE_LOOPBACK; class ++)
        for (uint32_t i = 0; i < count && made.count < RD_ADDRESSES; i++) {
            bool known = false;
            for (uint32_t k = 0; k < made.count; k++)
                known |=
                    rd_ip_equal(&made.at[k], &all[i].ip) && made.at[k].scope == all[i].ip.scope;
            if (!known && is_wanted(&all[i], wish) &&
                (int)rd_interface_class_of(&all[i], wish->route) == class)
                made.at[made.count++] = all[i].ip;
        }
    if (!made.count)
        return none_left(all, count, wish, err);
    memcpy(place->at, made.at, sizeof made.at);
    place->count = made.count;
    return RONDA_OK;
}

/* Nothing is sent: a datagram socket that is connected knows its own address. */
bool rd_interfaces_route(const rd_ip *to, rd_ip *from)
{
    struct sockaddr_storage name;
    socklen_t length = rd_ip_sockaddr(to, 9, &name);
    const int fd =
        rd_fd(socket(to->family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return false;
    bool found = connect(fd, (const struct sockaddr *)&name, length) == 0;
    length = sizeof name;
    found = found && getsockname(fd, (struct sockaddr *)&name, &length) == 0 &&
            rd_ip_of((const struct sockaddr *)&name, from, NULL);
    close(fd);
    return found;
}

/* --- the host --- */

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ from[i]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

uint64_t rd_host_number(void)
{
    char text[RD_HOST_NAME] = "";
    struct stat space;
    const uint32_t user = geteuid();
    const int fd = rd_fd(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    if (n <= 0) { /* no /proc: the name is the best there is */
        rd_host_name(text);
        n = (ssize_t)strlen(text);
    }
    uint64_t hash = mix(0xcbf29ce484222325u, text, (size_t)n);
    if (stat("/proc/self/ns/net", &space) == 0)
        hash = mix(hash, &space.st_ino, sizeof space.st_ino);
    if (stat("/proc/self/ns/pid", &space) == 0) /* else they could not watch each other */
        hash = mix(hash, &space.st_ino, sizeof space.st_ino);
    return mix(hash, &user, sizeof user);
}

void rd_host_name(char name[RD_HOST_NAME])
{
    if (gethostname(name, RD_HOST_NAME) || !*name)
        snprintf(name, RD_HOST_NAME, "unnamed");
    name[RD_HOST_NAME - 1] = 0;
    for (char *c = name; *c; c++)
        if (*c <= ' ' || *c > '~')
            *c = '?';
}
