/* test_lookup.c: names of hosts, and a system that takes its time to look them up. */
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/lookup.h"
#include "harness.h"
#include "ronda.h"

static _Atomic int under_way; /* lookups that have not come back */

/* The system's own, but for names that nobody ever knows: those take two seconds. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (strcmp(host, "nobody.knows") == 0) {
        under_way++;
        sleep(2);
        under_way--;
        return EAI_AGAIN;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(host, service, hints, out);
}

static void settle(void)
{
    const uint64_t end = rd_now_ns() + 20000000000u;
    while (under_way && rd_now_ns() < end)
        usleep(1000);
    usleep(20000); /* and what it leaves is freed */
}

TEST(numbers_need_no_lookup)
{
    rd_ip ip;
    const char *why = NULL;
    CHECK(rd_lookup("10.1.2.3", &ip, 1, 0, &why) == 1 && ip.family == 4 && ip.bytes[3] == 3, "%s",
          why);
    CHECK(rd_lookup("fd00::7", &ip, 1, 0, &why) == 1 && ip.family == 6 && ip.bytes[15] == 7, "%s",
          why);
}

TEST(names_are_looked_up)
{
    rd_ip ip[8];
    const char *why = NULL;
    const uint32_t n = rd_lookup("localhost", ip, 8, rd_now_ns() + 20000000000u, &why);
    CHECK(n >= 1 && (ip[0].family == 4 ? ip[0].bytes[0] == 127 : ip[0].bytes[15] == 1), "%u: %s", n,
          why);
    CHECK(!rd_lookup("no such name", ip, 8, rd_now_ns() + 20000000000u, &why) && *why, "%s", why);
}

TEST(nobody_answers_in_time)
{
    rd_ip ip;
    const char *why = "";
    CHECK(!rd_lookup("nobody.knows", &ip, 1, rd_now_ns() + 50000000, &why) &&
              strstr(why, "answered") && under_way,
          "%s", why);
    settle();
    CHECK(!rd_lookup("nobody.knows", &ip, 1, rd_now_ns() + 20000000000u, &why) &&
              strcmp(why, gai_strerror(EAI_AGAIN)) == 0,
          "%s", why);
}

TEST(a_start_ends_in_time)
{
    ronda_comm *comm = NULL;
    const ronda_config config = {.struct_size = sizeof config,
                                 .rank = 1,
                                 .size = 2,
                                 .addr = "nobody.knows:4242",
                                 .key = "k",
                                 .start_timeout_ns = 200000000};
    CHECK(ronda_init(&config, &comm) == RONDA_ETIMEOUT && under_way, "%s", ronda_last_error(NULL));
    CHECK(strstr(ronda_last_error(NULL), "nobody.knows") &&
              strstr(ronda_last_error(NULL), "answered"),
          "%s", ronda_last_error(NULL));
    settle();
}
