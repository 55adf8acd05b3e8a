/* test_cores.c: how many cores ranks have together that know of each other by their places alone. */
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "harness.h"
#include "transport/tcp.h"

enum { RANKS = 4 };

typedef struct {
    uint64_t host, cores;
    uint32_t cpus, quota;
} seat;

static uint32_t cores_of(const seat seats[RANKS])
{
    rd_error err = {0};
    rd_link *link = NULL;
    rd_tcp_parts parts = {.size = RANKS,
                          .places = rd_alloc(RANKS * sizeof *parts.places),
                          .listener =
                              socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                          .job = 1,
                          .timeout_ns = 1000000000};
    for (uint32_t r = 0; r < RANKS; r++)
        parts.places[r] = (rd_place){.host = seats[r].host,
                                     .name = "here",
                                     .pid = 1,
                                     .cpus = seats[r].cpus,
                                     .quota = seats[r].quota,
                                     .cores = seats[r].cores,
                                     .port = 1,
                                     .count = 1,
                                     .at = {{.family = 4, .bytes = {127, 0, 0, 1}}}};
    if (!CHECK(listen(parts.listener, 1) == 0 && !rd_tcp_open(&parts, &link, &err), "%s",
               err.message))
        return 0;
    const uint32_t cpus = link->cpus;
    link->transport->close(link);
    return cpus;
}

TEST(cores_are_counted_once)
{
    static const struct {
        seat seats[RANKS];
        uint32_t cpus;
        const char *what;
    } worlds[] = {
        {{{1, 7, 2, 99}, {1, 7, 2, 99}, {1, 7, 2, 99}, {1, 7, 2, 99}}, 2, "all share two"},
        {{{1, 1, 1, 99}, {1, 2, 1, 99}, {1, 3, 1, 99}, {1, 4, 1, 99}}, 4, "each has its own"},
        {{{1, 1, 1, 3}, {1, 2, 1, 3}, {1, 3, 1, 3}, {1, 4, 1, 3}}, 3, "but time for three"},
        {{{1, 7, 64, 99}, {1, 7, 64, 99}, {1, 7, 64, 99}, {1, 7, 64, 99}}, 4, "more than enough"},
        {{{1, 1, 1, 99}, {1, 2, 1, 99}, {2, 1, 1, 99}, {2, 1, 1, 99}}, 2, "one host has one"},
        {{{1, 7, 2, 99}, {2, 7, 2, 99}, {3, 7, 2, 99}, {4, 7, 1, 99}}, 4, "hosts do not share"}};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        CHECK(cores_of(worlds[i].seats) == worlds[i].cpus, "%s: %u", worlds[i].what,
              cores_of(worlds[i].seats));
}

TEST(other_cores_have_another_mark)
{
    cpu_set_t all, one;
    if (!CHECK(sched_getaffinity(0, sizeof all, &all) == 0, "no affinity"))
        return;
    uint64_t marks[2] = {rd_cpu_mark(), rd_cpu_mark()};
    CHECK(marks[0] == marks[1], "it is another one each time");
    if (CPU_COUNT(&all) < 2) {
        test_skip("there is one core");
        return;
    }
    uint32_t found = 0;
    for (size_t i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            sched_setaffinity(0, sizeof one, &one);
            marks[found++] = rd_cpu_mark();
        }
    CHECK(marks[0] != marks[1], "two cores with one mark");
    sched_setaffinity(0, sizeof all, &all);
    CHECK(rd_cpu_mark() != marks[0] && rd_cpu_mark() != marks[1], "one core, and all of them");
}
