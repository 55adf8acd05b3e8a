/* test_large.c: worlds of more ranks than one host has: their tables, one rank's end of them, and their limits.  Running
 * all of their ranks is more than a test machine can do. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/environment.h"
#include "harness.h"
#include "links.h"
#include "transport/tcp.h"
#include "transport/wire.h"

enum { PER_HOST = 64 };

/* Ranks of a host are not neighbours, and its numbers say nothing about their order. */
static rd_place place_of(uint32_t rank, uint32_t hosts)
{
    const uint32_t host = rank % hosts;
    return (rd_place){.host = (host + 1) * 0x9e3779b97f4a7c15u,
                      .name = "there",
                      .pid = (int32_t)rank + 1,
                      .cpus = 1 + host % 3,
                      .quota = host % 5 ? UINT32_MAX : 7,
                      .cores = rank / hosts % 9,
                      .port = 1, /* where nobody listens */
                      .count = 1,
                      .at = {{.family = 4, .bytes = {127, 0, 0, 1}}}};
}

static rd_place *places_of(uint32_t size, uint32_t hosts)
{
    rd_place *places = rd_alloc(size * sizeof *places);
    for (uint32_t r = 0; places && r < size; r++)
        places[r] = place_of(r, hosts);
    return places;
}

/* As it is said in place.h, however long it takes. */
static uint32_t slow_cpus(const rd_place places[], uint32_t size)
{
    uint64_t least = size;
    for (uint32_t r = 0; r < size; r++) {
        uint64_t cpus = 0, quota = UINT32_MAX, ranks = 0;
        for (uint32_t i = 0; i < size; i++) {
            bool counted = false;
            if (places[i].host != places[r].host)
                continue;
            for (uint32_t k = 0; k < i; k++)
                counted |= places[k].host == places[i].host && places[k].cores == places[i].cores;
            cpus += counted ? 0 : places[i].cpus;
            quota = places[i].quota < quota ? places[i].quota : quota;
            ranks++;
        }
        cpus = cpus < quota ? cpus : quota;
        least = cpus * size / ranks < least ? cpus * size / ranks : least;
    }
    return least ? (uint32_t)least : 1;
}

TEST(cores_and_hosts_of_small_worlds)
{
    for (uint32_t size = 1; size <= 40; size++)
        for (uint32_t hosts = 1; hosts <= size; hosts += 1 + hosts / 4) {
            rd_place *places = places_of(size, hosts);
            uint32_t host_of[40], count, cpus;
            bool crowded;
            CHECK(rd_places_cpus(places, size, size / 2, &cpus, &crowded) &&
                      cpus == slow_cpus(places, size),
                  "%u ranks on %u hosts: %u cores", size, hosts, cpus);
            CHECK(rd_places_number(places, size, host_of, &count) && count == hosts,
                  "%u ranks on %u hosts: %u", size, hosts, count);
            for (uint32_t r = 0; r < size; r++)
                CHECK(host_of[r] == r % hosts, "rank %u is on host %u", r, host_of[r]);
            rd_free(places);
        }
}

TEST(a_table_of_the_largest_world)
{
    const uint64_t start = rd_now_ns();
    uint32_t *host_of = rd_alloc(RD_MOST_RANKS * sizeof *host_of), count = 0, cpus = 0;
    rd_place *places = places_of(RD_MOST_RANKS, RD_MOST_RANKS / PER_HOST), again;
    bool crowded = false;
    CHECK(rd_places_number(places, RD_MOST_RANKS, host_of, &count) &&
              count == RD_MOST_RANKS / PER_HOST && host_of[RD_MOST_RANKS - 1] == count - 1,
          "%u hosts", count);
    CHECK(rd_places_cpus(places, RD_MOST_RANKS, 5, &cpus, &crowded) && cpus && crowded, "%u", cpus);
    for (uint32_t r = 0; r < RD_MOST_RANKS; r++) {
        uint8_t packed[RD_PLACE];
        rd_place_pack(&places[r], packed);
        if (!CHECK(rd_place_unpack(packed, &again) && again.pid == places[r].pid, "rank %u", r))
            break;
    }
    const rd_frame note = {
        .kind = RD_FRAME_TABLE, .size = RD_MOST_RANKS, .bytes = RD_MOST_RANKS * (uint32_t)RD_PLACE};
    uint8_t head[RD_FRAME_HEAD];
    rd_frame read;
    rd_frame_pack(&note, head);
    CHECK(rd_frame_unpack(head, &read) == RD_FRAME_OK && read.bytes == note.bytes,
          "the note of the table");
    CHECK(rd_now_ns() - start < 10000000000u, "it took %" PRIu64 " ms",
          (rd_now_ns() - start) / 1000000);
    rd_free(places);
    rd_free(host_of);
}

static uint64_t resident_bytes(void)
{
    unsigned long all = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lu %lu", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* One rank of it makes a call; nobody else is there, and it is told so. */
TEST(one_rank_of_the_largest_world)
{
    enum { MOST_BYTES = 64 << 20 };
    const uint64_t before = resident_bytes(), start = rd_now_ns();
    char said[1][LINKS_LINE] = {""};
    rd_error err = {0};
    rd_link *link = NULL;
    ronda_comm *comm = NULL;
    rd_tcp_parts parts = {.rank = RD_MOST_RANKS - 1,
                          .size = RD_MOST_RANKS,
                          .places = places_of(RD_MOST_RANKS, RD_MOST_RANKS / PER_HOST),
                          .listener =
                              socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                          .job = 1,
                          .timeout_ns = 1000000000};
    if (!CHECK(listen(parts.listener, 1) == 0 && !rd_tcp_open(&parts, &link, &err), "%s",
               err.message) ||
        !CHECK(links_comms(1, &link, said, &comm), "no communicator"))
        return;
    rd_control_await(link, 7, true); /* and tells whoever is connected, which is nobody */
    const ronda_status status = ronda_barrier(comm);
    CHECK(status == RONDA_EPEER && strstr(ronda_last_error(comm), "cannot be reached"), "%d: %s",
          status, ronda_last_error(comm));
    const uint64_t used = resident_bytes() - before;
    CHECK(test_sanitized() || used < MOST_BYTES, "it takes %" PRIu64 " KiB", used >> 10);
    (void)ronda_close(comm);
    CHECK(rd_now_ns() - start < 20000000000u, "it took %" PRIu64 " ms",
          (rd_now_ns() - start) / 1000000);
}

/* --- limits --- */

static ronda_status read_world(uint32_t size, const char *transport, const char *address,
                               rd_error *err)
{
    const ronda_config config = {.struct_size = sizeof config,
                                 .rank = 1,
                                 .size = size,
                                 .transport = transport,
                                 .addr = address};
    const rd_settings settings = {.timeout_ns = 1};
    rd_joining j;
    return rd_world_read(&config, &settings, &j, err);
}

TEST(each_transport_has_its_limit)
{
    rd_error err = {0};
    CHECK(read_world(1024, NULL, "file:/nowhere", &err) == RONDA_OK, "%s", err.message);
    CHECK(read_world(1025, NULL, "file:/nowhere", &err) == RONDA_ELIMIT &&
              strstr(err.message, "1025 ranks are more than the 1024 that can share the memory"),
          "%s", err.message);
    CHECK(read_world(16384, "tcp", "127.0.0.1:5000", &err) == RONDA_OK, "%s", err.message);
    CHECK(read_world(16384, "hosts", "node7:5000", &err) == RONDA_OK, "%s", err.message);
    CHECK(read_world(16385, "tcp", "127.0.0.1:5000", &err) == RONDA_ELIMIT &&
              strstr(err.message, "16385 ranks are more than the 16384 that ronda allows"),
          "%s", err.message);
}
