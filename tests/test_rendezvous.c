/* test_rendezvous.c: ranks of several hosts find each other, over the loopback, as threads and as processes.
 *
 * test_rendezvous_wrong.c has the mistakes and the unproven. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "calls.h"
#include "comm/interfaces.h"
#include "comm/reach.h"
#include "gather.h"
#include "processes.h"

/* --- worlds that start --- */

static void check_starts(gathered *w, const char *what)
{
    gather_run(w);
    for (uint32_t r = 0; r < w->size; r++)
        CHECK(w->of[r].status == RONDA_OK, "%s, rank %u of %u: %s", what, r, w->size,
              w->of[r].err.message);
    if (!test_failed())
        gather_check_parts(w);
    gather_close(w);
}

TEST(ranks_find_each_other_at_a_port)
{
    static const uint32_t sizes[] = {2, 3, 5, 8, 33, 64};
    for (int i = 0; i < 6; i++) {
        gathered w = gather_open(sizes[i], NULL);
        check_starts(&w, "with a key");
    }
    gathered w = gather_open(4, NULL);
    for (uint32_t r = 0; r < 4; r++)
        w.of[r].j.key = NULL;
    check_starts(&w, "without a key");
}

TEST(ranks_find_each_other_by_a_file)
{
    char directory[] = "/tmp/ronda-test-meeting";
    char address[100];
    snprintf(address, sizeof address, "file:%s-%d", directory, (int)getpid());
    gathered w = gather_open(5, address);
    check_starts(&w, "by a file");
    CHECK(access(address + 5, F_OK) != 0, "the file was left");
    const int fd = open(address + 5, O_WRONLY | O_CREAT, 0600); /* of a job that died */
    const char old[] =
        "ronda 1\njob 0123456789abcdef\nhost 0000000000000001\nport 1\nat 127.0.0.1\nend\n";
    CHECK(fd >= 0 && write(fd, old, sizeof old - 1) > 0, "no file");
    close(fd);
    w = gather_open(3, address);
    w.of[0].late_ms = 100; /* the others read the old file first */
    check_starts(&w, "by a file that was there before");
    CHECK(access(address + 5, F_OK) != 0, "the file was left");
}

TEST(ranks_find_each_other_by_other_names_of_this_host)
{
    static const char *const hosts[] = {"localhost", "127.0.0.77", "[::1]"};
    for (int i = 0; i < 3; i++) {
        char address[100];
        rd_ip six;
        if (i == 2 && (!rd_ip_read("::1", &six) || !gather_can_listen(&six)))
            continue;
        snprintf(address, sizeof address, "%s:%u", hosts[i], gather_port());
        gathered w = gather_open(3, address);
        check_starts(&w, hosts[i]);
    }
}

/* Above 64 ranks nobody stays on the line: the table goes down a tree. */
TEST(large_worlds_find_each_other_by_a_tree)
{
    static const uint32_t sizes[] = {65, 74, 150, 400};
    test_deadline(100);
    for (int i = 0; i < (test_sanitized() ? 2 : 4); i++) {
        gathered w = gather_open(sizes[i], NULL);
        check_starts(&w, "a tree");
    }
}

TEST(a_late_rank_is_waited_for)
{
    gathered w = gather_open(4, NULL);
    w.of[0].late_ms = 300;
    w.of[2].late_ms = 600;
    check_starts(&w, "late");
}

/* One world after the other at the same port: nothing of the first is in the way. */
TEST(a_port_is_free_again)
{
    char address[100];
    snprintf(address, sizeof address, "127.0.0.1:%u", gather_port());
    for (int i = 0; i < 10; i++) {
        gathered w = gather_open(3, address);
        check_starts(&w, "again");
    }
}

/* A host that knows its own name as a loopback address is found at its others all the same. */
TEST(a_name_that_means_the_loopback)
{
    char name[RD_HOST_NAME], address[100];
    rd_host_name(name);
    rd_reaching all = {.until_ns = rd_now_ns() + 20000000000u};
    const char *why = "";
    rd_address a = {.kind = RD_ADDRESS_TCP, .port = gather_port()};
    snprintf(a.host, sizeof a.host, "%s", name);
    if (!rd_reach_name(&all, &a, &why)) {
        test_skip("%s has no address: %s", name, why);
        return;
    }
    rd_address_text(&a, address, sizeof address);
    gathered w = gather_open(3, address);
    check_starts(&w, "by this host's name");
}

typedef struct {
    gathered w;
    rd_reaching reaching;
    double seconds;
    ronda_status status;
} odd_addresses;

static void reach_oddly(void *context, uint32_t rank)
{
    odd_addresses *o = context;
    rd_session session = {.fd = -1};
    rd_error err = {0};
    rd_place place;
    if (rank == 0) {
        gathered_rank *g = &o->w.of[0];
        g->status = rd_rendezvous(&g->j, &g->parts, &g->err);
        return;
    }
    sleep_ms(200);
    const double start = seconds_now();
    o->status = rd_reach(&o->reaching, "rank 0", &session, &place, &err);
    o->seconds = seconds_now() - start;
    CHECK(o->status || (place.pid == getpid() && o->reaching.job), "pid %d", place.pid);
    rd_session_close(&session);
}

/* Addresses that nobody has, or that never answer, stand before the right one. */
TEST(one_of_many_addresses_works)
{
    static const char *const ips[] = {"192.0.2.77", "127.0.0.9", "fe80::77%1", "2001:db8::77",
                                      "127.0.0.1"};
    odd_addresses o = {.w = gather_open(1, NULL)};
    o.w.of[0].j.size = 2;
    o.w.of[0].j.timeout_ns = 4000000000;
    o.reaching = (rd_reaching){.way = RD_WAY_KEY,
                               .key = o.w.of[0].j.key,
                               .rank = 1,
                               .size = 2,
                               .until_ns = rd_deadline_ns(10000000000),
                               .count = 5};
    for (int i = 0; i < 5; i++) {
        CHECK(rd_ip_read(ips[i], &o.reaching.at[i].ip), "%s", ips[i]);
        o.reaching.at[i].port = o.w.of[0].j.address.port;
    }
    run_ranks(2, reach_oddly, &o);
    char text[400];
    rd_reach_text(&o.reaching, text, sizeof text);
    CHECK(o.status == RONDA_OK && o.seconds < 3, "%d after %.1f s: %s", o.status, o.seconds, text);
    CHECK(o.w.of[0].status == RONDA_ETIMEOUT, "%s", o.w.of[0].err.message);
    gather_close(&o.w);
}

/* The k-th request for memory and all after it fail: an error on somebody's side, and nothing is left. */
TEST(no_memory_to_gather_with)
{
    for (long k = 0; k < 14; k++) {
        gathered w = gather_open(3, NULL);
        for (uint32_t r = 0; r < 3; r++)
            w.of[r].j.timeout_ns = 300000000;
        rd_mem_fail_after(k);
        gather_run(&w);
        rd_mem_fail_after(-1);
        for (uint32_t r = 0; r < 3; r++)
            CHECK(w.of[r].status <= 0 && (!w.of[r].status || *w.of[r].err.message), "rank %u: %d",
                  r, w.of[r].status);
        CHECK(k > 0 || w.of[0].status == RONDA_ENOMEM, "%s", w.of[0].err.message);
        gather_close(&w);
    }
}

/* --- processes --- */

static int join_as_process(job *j, uint32_t rank)
{
    rd_joining joining;
    rd_tcp_parts parts;
    rd_error err = {0};
    gather_joining(&joining, rank, j->size, j->context);
    const ronda_status status = rd_rendezvous(&joining, &parts, &err);
    if (!CHECK(status == RONDA_OK, "rank %u: %s", rank, err.message))
        return 1;
    j->shared->number[rank] = gather_hash(&parts);
    CHECK(parts.places[rank].pid == getpid(), "rank %u: pid %d", rank, parts.places[rank].pid);
    gather_free(&parts);
    return 0;
}

TEST(processes_find_each_other)
{
    static const uint32_t sizes[] = {2, 7, 24};
    for (int i = 0; i < 3; i++) {
        char address[100];
        snprintf(address, sizeof address, "127.0.0.1:%u", gather_port());
        job j = job_open(sizes[i], join_as_process, address);
        job_start(&j);
        job_wait(&j, 40);
        for (uint32_t r = 0; r < j.size; r++)
            CHECK(j.status[r] == 0 && j.shared->number[r] == j.shared->number[0],
                  "rank %u ended with 0x%x", r, (unsigned)j.status[r]);
        job_close(&j);
    }
}

/* Of four ranks one comes and dies while a third is still awaited: the others say who it was, at once. */
static int dying(job *j, uint32_t rank)
{
    const uint32_t victim = (uint32_t)j->shared->number[0];
    rd_joining joining;
    rd_tcp_parts parts;
    rd_error err = {0};
    char expected[64];
    if (rank == 3)
        return 0; /* never comes */
    gather_joining(&joining, rank, 4, j->context);
    joining.timeout_ns = 30000000000;
    j->shared->number[10 + rank] = (uint64_t)getpid();
    const double start = seconds_now();
    const ronda_status status = rd_rendezvous(&joining, &parts, &err);
    snprintf(expected, sizeof expected, "rank %u (pid %d on ", victim,
             (int)j->shared->number[10 + victim]);
    CHECK(status == RONDA_EPEER && strstr(err.message, expected) && strstr(err.message, "left") &&
              err.peer == victim,
          "rank %u: %d: %s", rank, status, err.message);
    CHECK(seconds_now() - start < 20, "it took %.1f s", seconds_now() - start);
    return 0;
}

static void check_death(uint32_t victim)
{
    char address[100];
    snprintf(address, sizeof address, "127.0.0.1:%u", gather_port());
    job j = job_open(4, dying, address);
    j.shared->number[0] = victim;
    job_start(&j);
    sleep_ms(test_sanitized() ? 2000 : 700);
    kill(j.pids[victim], SIGKILL);
    job_wait(&j, 25);
    for (uint32_t r = 0; r < 4; r++)
        CHECK(j.status[r] == 0 || r == victim, "rank %u ended with 0x%x", r, (unsigned)j.status[r]);
    job_close(&j);
}

TEST(a_rank_that_dies_while_gathering_is_named)
{
    check_death(2);
    check_death(1);
}

TEST(rank_0_dies_while_gathering)
{
    check_death(0);
}
