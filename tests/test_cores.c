/* test_cores.c: how many cores ranks have together that know of each other by their places alone. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "calls.h"
#include "folders.h"
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

/* --- quotas --- */

static uint32_t lists_read; /* of the groups of a process */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
/* This program's own, to count. */
int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    lists_read += strcmp(path, "/proc/self/cgroup") == 0;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
#endif

/* The least quota on the way up, and no more files than there are groups on it. */
TEST(a_quota_is_found_with_few_files)
{
    static const struct {
        const char *lines, *files[6][2];
        uint32_t cores, most_files;
    } trees[] = {
        {"0::/a/b/c\n",
         {{"a/b/c/cpu.max", "max 100000\n"}, {"a/cpu.max", "250000 100000\n"}},
         3,
         4},
        {"0::/\n", {{"cpu.max", "150000 100000\n"}}, 2, 1},
        {"0::/a/b\n", {{"a/b/cpu.max", "max 100000\n"}}, UINT32_MAX, 3},
        {"0::/not/here\n", {{"cpu.max", "100000 100000\n"}}, 1, 3},
        {"3:memory:/m\n2:cpu,cpuacct:/a/b\n0::/x\n",
         {{"cpu/a/b/cpu.cfs_quota_us", "-1\n"},
          {"cpu/a/cpu.cfs_quota_us", "400000\n"},
          {"cpu/a/cpu.cfs_period_us", "100000\n"},
          {"unified/x/cpu.max", "100000 100000\n"}},
         4,
         6},
        {"2:cpu,cpuacct:/a\n",
         {{"cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n"},
          {"cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
         1,
         4},
        {"1:name=systemd:/s\n0::/x/y\n", {{"unified/x/cpu.max", "600000 100000\n"}}, 6, 3},
        {"", {{"cpu.max", "100000 100000\n"}}, UINT32_MAX, 0},
    };
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        char base[40], lines[200];
        uint32_t files = 0;
        if (!folder_make(base))
            return;
        for (int k = 0; k < 6 && trees[i].files[k][0]; k++)
            folder_put(base, trees[i].files[k][0], trees[i].files[k][1]);
        snprintf(lines, sizeof lines, "%s", trees[i].lines);
        const uint32_t cores = rd_cpu_quota_by(lines, base, &files);
        CHECK(cores == trees[i].cores && files <= trees[i].most_files,
              "tree %zu: %u cores, not %u, by %u files", i, cores, trees[i].cores, files);
        folder_remove(base);
    }
}

/* A start asks several times. */
TEST(a_quota_is_kept_for_a_while)
{
    const double start = seconds_now();
    const uint32_t cores = rd_cpu_quota();
    lists_read = 0;
    for (uint32_t i = 0; i < 1000; i++)
        CHECK(rd_cpu_quota() == cores, "the quota of this process changes as it is asked for");
    const double seconds = seconds_now() - start;
    CHECK(lists_read <= 2 + 2 * seconds, "groups were looked up %u times in %.2f s", lists_read,
          seconds);
}
