/* doctor_net.c: the interfaces of this host, and the address where ranks are to meet. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "base/fd.h"
#include "comm/interfaces.h"
#include "comm/reach.h"
#include "doctor.h"

static const uint64_t LOOKUP_NS = 5000000000;

/* --- what the system knows of an interface --- */

static uint32_t number_of(const char *interface, const char *what)
{
    char path[128], text[32] = "";
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", interface, what);
    FILE *file = cli_open_to_read(path);
    if (!file)
        return 0;
    const bool read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    const long value = read ? strtol(text, NULL, 10) : 0;
    return value > 0 && value < 100000000 ? (uint32_t)value : 0; /* -1: not known */
}

uint32_t doctor_mtu(const rd_ip *ip)
{
    static rd_interface all[RD_INTERFACES];
    const uint32_t count = rd_interfaces_list(all);
    for (uint32_t i = 0; i < count; i++)
        if (rd_ip_equal(&all[i].ip, ip))
            return number_of(all[i].name, "mtu");
    return 0;
}

/* --- which are offered --- */

/* The address from which this host would send to rank 0, if that is known and elsewhere. */
static bool find_route(rd_ip *out)
{
    rd_reaching to = {.until_ns = rd_now_ns() + LOOKUP_NS};
    rd_address address;
    rd_error error;
    const char *why, *text = getenv("RONDA_ADDR");
    if (!text || !*text || rd_address_read(text, &address, &error) ||
        address.kind != RD_ADDRESS_TCP || !rd_reach_name(&to, &address, &why))
        return false;
    return rd_interfaces_route(&to.at[0].ip, out) && !rd_ip_is_loopback(out);
}

static void say_one(doctor_list *list, const rd_interface *i, const rd_ip *route, uint32_t place)
{
    static const char *const why[] = {
        [RD_INTERFACE_ROUTE] = "it leads to rank 0",
        [RD_INTERFACE_ORDINARY] = "an ordinary interface",
        [RD_INTERFACE_BRIDGE] =
            "after ordinary ones, since bridges of other hosts may have the same address",
        [RD_INTERFACE_LINK_LOCAL] = "after others, since only neighbours reach it",
        [RD_INTERFACE_LOOPBACK] = "last, since only this host reaches it"};
    char ip[RD_IP_TEXT], speed[40] = "", mtu[24] = "";
    const uint32_t megabits = number_of(i->name, "speed"), bytes = number_of(i->name, "mtu");
    rd_ip_text(&i->ip, ip);
    if (bytes)
        snprintf(mtu, sizeof mtu, ", MTU %u", bytes);
    if (megabits)
        snprintf(speed, sizeof speed, megabits < 1000 ? ", %g Mbit/s" : ", %g Gbit/s",
                 megabits < 1000 ? megabits : megabits / 1000.0);
    doctor_say(list, DOCTOR_OK, "interfaces", "address %u for other hosts: %s on %s%s%s (%s)",
               place, ip, i->name, mtu, speed, why[rd_interface_class_of(i, route)]);
}

void doctor_interfaces(doctor_list *list, rd_place *place)
{
    static rd_interface all[RD_INTERFACES];
    const uint32_t count = rd_interfaces_list(all);
    rd_ip route;
    rd_place made = {0};
    rd_error error;
    uint32_t far = 0;
    const bool routed = find_route(&route);
    const rd_wish wish = {.filter = getenv("RONDA_IFACE"), .route = routed ? &route : NULL};
    if (rd_interfaces_choose(all, count, &wish, &made, &error)) {
        doctor_say(list, DOCTOR_PROBLEM, "interfaces", "%s", error.message);
        doctor_advise(list, wish.filter && *wish.filter
                                ? "name interfaces in RONDA_IFACE that this host has, or unset it"
                                : "bring an interface up: ip link set lo up");
        return;
    }
    for (uint32_t a = 0; a < made.count; a++)
        for (uint32_t i = 0; i < count; i++)
            if (rd_ip_equal(&all[i].ip, &made.at[a]) && all[i].ip.scope == made.at[a].scope) {
                say_one(list, &all[i], wish.route, a + 1);
                far += !rd_ip_is_loopback(&all[i].ip);
                break;
            }
    if (!far) {
        const bool filtered = wish.filter && *wish.filter;
        doctor_say(list, filtered ? DOCTOR_PROBLEM : DOCTOR_NOTE, "interfaces",
                   "%s: no other host can reach this one",
                   filtered ? "RONDA_IFACE leaves the loopback alone" : "only the loopback is up");
        doctor_advise(list, filtered
                                ? "name an interface in RONDA_IFACE that leads to the other hosts"
                                : "nothing, if all ranks are on this host; else bring an "
                                  "interface up");
    }
    if (place)
        *place = made;
}

/* --- where ranks meet --- */

static bool is_here(const rd_ip *ip)
{
    static rd_interface all[RD_INTERFACES];
    const uint32_t count = rd_interfaces_list(all);
    for (uint32_t i = 0; i < count; i++)
        if (rd_ip_equal(&all[i].ip, ip))
            return true;
    return rd_ip_is_loopback(ip);
}

/* 0, or why rank 0 could not listen there. */
static int try_port(const rd_ip *ip, uint16_t port)
{
    struct sockaddr_storage name;
    const socklen_t length = rd_ip_sockaddr(ip, port, &name);
    const int one = 1, fd = rd_fd(socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const int error = bind(fd, (const struct sockaddr *)&name, length) || listen(fd, 1) ? errno : 0;
    close(fd);
    return error;
}

static bool look_at_port(doctor_list *list, const char *text, const rd_address *address, bool first)
{
    rd_reaching to = {.until_ns = rd_now_ns() + LOOKUP_NS};
    const char *why;
    if (!rd_reach_name(&to, address, &why)) {
        doctor_say(list, DOCTOR_PROBLEM, "address",
                   "RONDA_ADDR=%.200s: the name %s means no address here: %s", text, address->host,
                   why);
        doctor_advise(list,
                      "correct the name, add it to /etc/hosts, or write the address of rank 0's "
                      "host");
        return false;
    }
    char ip[RD_IP_TEXT];
    rd_ip_text(&to.at[0].ip, ip);
    if (!is_here(&to.at[0].ip)) {
        doctor_say(list, first ? DOCTOR_NOTE : DOCTOR_OK, "address",
                   "RONDA_ADDR=%.200s is another host (%s): rank 0 must run there", text, ip);
        return true;
    }
    const int error = first ? try_port(&to.at[0].ip, address->port) : 0;
    if (!error) {
        doctor_say(list, DOCTOR_OK, "address", "RONDA_ADDR=%.200s is this host (%s)%s", text, ip,
                   first ? ", and its port is free" : "");
        return true;
    }
    doctor_say(list, DOCTOR_PROBLEM, "address", "RONDA_ADDR=%.200s: rank 0 cannot listen there: %s",
               text, strerror(error));
    doctor_advise(
        list,
        error == EADDRINUSE
            ? "take another port; ss -ltnp shows who has port %u, perhaps a job that is still "
              "running"
            : "take a port above 1023 instead of %u",
        address->port);
    return false;
}

static bool look_at_path(doctor_list *list, const rd_address *address)
{
    char folder[sizeof address->path];
    snprintf(folder, sizeof folder, "%s", address->path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    const char *where = slash ? folder : ".";
    if (address->path[0] == '@' || access(where, W_OK | X_OK) == 0) {
        doctor_say(list, DOCTOR_OK, "address", "RONDA_ADDR=file:%s: a socket can be made there",
                   address->path);
        return true;
    }
    doctor_say(list, DOCTOR_PROBLEM, "address",
               "RONDA_ADDR=file:%s: no socket can be made in %s: %s", address->path, where,
               strerror(errno));
    doctor_advise(list, "name a path in a directory that is there and that you may write to");
    return false;
}

/* Who is not on this host could connect, unless it is a loopback address: then a key is needed. */
static bool look_at_key(doctor_list *list, const rd_address *address)
{
    const char *key = getenv("RONDA_KEY"), *insecure = getenv("RONDA_INSECURE");
    if (address->kind == RD_ADDRESS_FILE || rd_address_is_loopback(address) || (key && *key))
        return true;
    if (insecure && strcmp(insecure, "1") == 0) {
        doctor_say(list, DOCTOR_NOTE, "key",
                   "RONDA_INSECURE=1 and no RONDA_KEY: whoever can connect may join");
        doctor_advise(list,
                      "set RONDA_KEY to a secret, the same for all ranks, where others are on the "
                      "network");
        return true;
    }
    doctor_say(
        list, DOCTOR_PROBLEM, "key",
        "RONDA_ADDR is one that other hosts can reach, but RONDA_KEY is not set: ranks will not "
        "start");
    doctor_advise(list,
                  "set RONDA_KEY to a secret, the same for all ranks (ronda run makes one), or "
                  "RONDA_INSECURE=1");
    return false;
}

bool doctor_address(doctor_list *list, const char *text, bool first)
{
    rd_address address;
    rd_error error;
    if (rd_address_read(text, &address, &error)) {
        doctor_say(list, DOCTOR_PROBLEM, "address", "%s", error.message);
        doctor_advise(list, "correct RONDA_ADDR, or unset it and let ronda run set it");
        return false;
    }
    const bool key = look_at_key(list, &address);
    if (address.kind == RD_ADDRESS_TCP)
        return look_at_port(list, text, &address, first) && key;
    return look_at_path(list, &address) && key;
}
