/* test_interfaces.c: which addresses a rank offers, in which order. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "comm/interfaces.h"
#include "harness.h"

static rd_interface of(const char *name, const char *ip)
{
    rd_interface i = {0};
    snprintf(i.name, sizeof i.name, "%s", name);
    CHECK(rd_ip_read(ip, &i.ip), "%s is no address", ip);
    return i;
}

/* A host with everything, in the order in which systems list it. */
static uint32_t make_host(rd_interface all[])
{
    uint32_t n = 0;
    all[n++] = of("lo", "127.0.0.1");
    all[n++] = of("docker0", "172.17.0.1");
    all[n++] = of("eth0", "10.0.0.7");
    all[n++] = of("ib0", "10.1.0.7");
    all[n++] = of("lo", "::1");
    all[n++] = of("eth0", "fd00::7");
    all[n++] = of("eth0", "fe80::7%2");
    all[n++] = of("veth12", "fe80::8%9");
    return n;
}

static void list(const rd_place *p, char *text, size_t capacity)
{
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        char ip[RD_IP_TEXT];
        rd_ip_text(&p->at[i], ip);
        at += (size_t)snprintf(text + at, capacity - at, "%s%s", at ? " " : "", ip);
    }
}

static void check_choice(const rd_wish *wish, const char *expected)
{
    rd_interface all[RD_INTERFACES];
    rd_place place = {0};
    rd_error err = {0};
    char got[400];
    const uint32_t n = make_host(all);
    const ronda_status status = rd_interfaces_choose(all, n, wish, &place, &err);
    list(&place, got, sizeof got);
    CHECK(!status && strcmp(got, expected) == 0, "%s: '%s' instead of '%s' %s",
          wish->filter ? wish->filter : "no filter", got, expected, err.message);
}

TEST(addresses_come_best_first)
{
    rd_ip route;
    check_choice(&(rd_wish){0},
                 "10.0.0.7 10.1.0.7 fd00::7 172.17.0.1 fe80::7%2 fe80::8%9 127.0.0.1 ::1");
    rd_ip_read("10.1.0.7", &route);
    check_choice(&(rd_wish){.route = &route},
                 "10.1.0.7 10.0.0.7 fd00::7 172.17.0.1 fe80::7%2 fe80::8%9 127.0.0.1 ::1");
    rd_ip_read("127.0.0.1", &route);
    check_choice(&(rd_wish){.route = &route},
                 "127.0.0.1 10.0.0.7 10.1.0.7 fd00::7 172.17.0.1 fe80::7%2 fe80::8%9 ::1");
    rd_ip_read("10.9.9.9", &route); /* of an interface that went down meanwhile */
    check_choice(&(rd_wish){.route = &route, .loopback_alone = true}, "127.0.0.1 ::1");
}

TEST(interfaces_are_named_or_left_out)
{
    rd_ip route;
    check_choice(&(rd_wish){.filter = "eth0"}, "10.0.0.7 fd00::7 fe80::7%2");
    check_choice(&(rd_wish){.filter = "ib0,eth0"}, "10.0.0.7 10.1.0.7 fd00::7 fe80::7%2");
    check_choice(&(rd_wish){.filter = "^docker0,lo,veth12"}, "10.0.0.7 10.1.0.7 fd00::7 fe80::7%2");
    check_choice(&(rd_wish){.filter = "^eth0,ib0,veth12"}, "172.17.0.1 127.0.0.1 ::1");
    check_choice(&(rd_wish){.filter = "lo"}, "127.0.0.1 ::1");
    check_choice(&(rd_wish){.filter = ""},
                 "10.0.0.7 10.1.0.7 fd00::7 172.17.0.1 fe80::7%2 fe80::8%9 127.0.0.1 ::1");
    check_choice(&(rd_wish){.filter = "nothing,docker0,"}, "172.17.0.1");
    rd_ip_read("10.0.0.7", &route); /* the way leads over what is not wanted */
    check_choice(&(rd_wish){.filter = "ib0", .route = &route}, "10.1.0.7");
}

TEST(nothing_is_left_and_the_error_says_what_there_is)
{
    static const char *const filters[] = {"eth1", "eth", "^lo,docker0,eth0,ib0,veth12", ",",
                                          "eth00"};
    rd_interface all[RD_INTERFACES];
    const uint32_t n = make_host(all);
    for (int i = 0; i < 5; i++) {
        rd_place place = {.count = 77};
        rd_error err = {0};
        const rd_wish wish = {.filter = filters[i]};
        CHECK(rd_interfaces_choose(all, n, &wish, &place, &err) == RONDA_EINVAL &&
                  place.count == 77 && strstr(err.message, "RONDA_IFACE") &&
                  strstr(err.message, filters[i]) && strstr(err.message, "eth0 (10.0.0.7)"),
              "%s: %s", filters[i], err.message);
    }
    rd_place place = {0};
    rd_error err = {0};
    CHECK(rd_interfaces_choose(all, 0, &(rd_wish){0}, &place, &err) == RONDA_ESYSTEM, "%s",
          err.message);
    CHECK(rd_interfaces_choose(all, n, &(rd_wish){.filter = "eth0", .loopback_alone = true}, &place,
                               &err) == RONDA_EINVAL &&
              strstr(err.message, "loopback"),
          "%s", err.message);
}

TEST(there_are_more_addresses_than_fit)
{
    rd_interface all[RD_INTERFACES];
    for (uint32_t i = 0; i < RD_INTERFACES; i++) {
        char ip[32];
        snprintf(ip, sizeof ip, "10.0.%u.1", i / 2); /* each twice */
        all[i] = of(i % 3 ? "eth0" : "veth0", ip);
    }
    rd_place place = {0};
    rd_error err = {0};
    CHECK(!rd_interfaces_choose(all, RD_INTERFACES, &(rd_wish){0}, &place, &err) &&
              place.count == RD_ADDRESSES,
          "%u: %s", place.count, err.message);
    for (uint32_t i = 0; i < place.count; i++)
        for (uint32_t k = 0; k < i; k++)
            CHECK(!rd_ip_equal(&place.at[i], &place.at[k]), "%u and %u are the same", i, k);
}

TEST(addresses_as_text)
{
    static const char *const good[] = {"10.0.0.1", "::1", "fe80::1%12", "fd00::abcd:1", "0.0.0.0"};
    static const char *const bad[] = {
        "",       "10.0.0",    "1.2.3.4%1", "::1%", "::1%x",
        "fe80::", "fe80::%-1", "name",      "::1 ", "fe80::1%99999999999"};
    rd_ip ip;
    for (int i = 0; i < 5; i++) {
        char text[RD_IP_TEXT];
        CHECK(rd_ip_read(good[i], &ip), "%s", good[i]);
        rd_ip_text(&ip, text);
        CHECK(strcmp(text, good[i]) == 0, "%s became %s", good[i], text);
        struct sockaddr_storage name;
        rd_ip back;
        uint16_t port = 0;
        CHECK(rd_ip_sockaddr(&ip, 77, &name) > 0 &&
                  rd_ip_of((const struct sockaddr *)&name, &back, &port) && port == 77 &&
                  memcmp(&back, &ip, sizeof ip) == 0,
              "%s does not come back", good[i]);
    }
    for (int i = 0; i < 10; i++)
        CHECK(!rd_ip_read(bad[i], &ip) || i == 5, "'%s' was taken", bad[i]);
}

/* --- this host --- */

TEST(this_host_has_a_loopback_and_a_number)
{
    static rd_interface all[RD_INTERFACES];
    const uint32_t n = rd_interfaces_list(all);
    bool loopback = false;
    for (uint32_t i = 0; i < n; i++)
        loopback |= rd_ip_is_loopback(&all[i].ip);
    CHECK(loopback, "none of %u addresses is the loopback", n);
    CHECK(rd_host_number() == rd_host_number(), "the number changes");
    char name[RD_HOST_NAME];
    rd_host_name(name);
    CHECK(*name && strlen(name) < RD_HOST_NAME, "the name is '%s'", name);
    rd_ip to, from;
    rd_ip_read("127.0.0.5", &to);
    CHECK(rd_interfaces_route(&to, &from) && rd_ip_is_loopback(&from), "no way to the loopback");
}

/* With too few descriptors there seem to be no interfaces. */
TEST(who_has_no_descriptors_left_is_told_so)
{
    char at[64];
    ronda_comm *comm = NULL;
    ronda_config config = {.struct_size = sizeof config,
                           .size = 2,
                           .addr = at,
                           .transport = "tcp",
                           .timeout_ns = 50000000};
    struct rlimit before;
    snprintf(at, sizeof at, "file:/tmp/ronda-test-interfaces-%d", (int)getpid());
    getrlimit(RLIMIT_NOFILE, &before);
    const int next = dup(0);
    close(next);
    for (rlim_t amount = 0; amount < 8; amount++) {
        const struct rlimit few = {(rlim_t)next + amount, before.rlim_max};
        setrlimit(RLIMIT_NOFILE, &few);
        const ronda_status status = ronda_init(&config, &comm);
        setrlimit(RLIMIT_NOFILE, &before);
        CHECK(status == RONDA_ETIMEOUT || strstr(ronda_last_error(NULL), "Too many open files"),
              "with %u: %d: %s", (unsigned)amount, status, ronda_last_error(NULL));
    }
    CHECK(access(at + strlen("file:"), F_OK), "%s is left", at);
}
