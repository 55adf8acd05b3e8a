/* test_rendezvous_wrong.c: ranks of several hosts look for each other, and something is not as it should be.
 *
 * Each mistake is said on the right side, and what is not the job's own fault does not stop the job. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "calls.h"
#include "comm/reach.h"
#include "gather.h"
#include "mangle.h"

static void check_says(const gathered *w, uint32_t at, ronda_status status, const char *text)
{
    const gathered_rank *g = &w->of[at];
    CHECK(g->status == status && strstr(g->err.message, text) && g->err.status == status,
          "process %u: %d: '%s' is not in: %s", at, g->status, text, g->err.message);
}

static void check_started(const gathered *w, uint32_t first, uint32_t count)
{
    for (uint32_t r = first; r < first + count; r++)
        CHECK(w->of[r].status == RONDA_OK, "process %u: %s", r, w->of[r].err.message);
}

static void set_timeout(gathered *w, uint32_t ms)
{
    for (uint32_t r = 0; r < w->size; r++)
        w->of[r].j.timeout_ns = ms * 1000000ull;
}

/* --- who does not come --- */

TEST(a_missing_rank_is_named_on_all_others)
{
    gathered w = gather_open(4, NULL);
    set_timeout(&w, 1000);
    w.of[2].absent = true;
    gather_run(&w);
    for (uint32_t r = 0; r < 4; r++)
        if (r != 2) {
            check_says(&w, r, RONDA_ETIMEOUT, "after 1 s 3 of 4 ranks had come (from ");
            check_says(&w, r, RONDA_ETIMEOUT, "missing: rank 2");
            CHECK(w.of[r].seconds < 8, "%.1f s", w.of[r].seconds);
        }
    gather_close(&w);
}

TEST(missing_ranks_of_a_large_world_are_named_to_those_who_hung_up)
{
    gathered w = gather_open(90, NULL);
    set_timeout(&w, test_sanitized() ? 8000 : 2000);
    w.of[17].absent = w.of[80].absent = true;
    gather_run(&w);
    for (uint32_t r = 0; r < 90; r++)
        if (r != 17 && r != 80) {
            check_says(&w, r, RONDA_ETIMEOUT, "88 of 90 ranks had come (from ");
            check_says(&w, r, RONDA_ETIMEOUT, "missing: rank 17, 80");
        }
    gather_close(&w);
}

TEST(rank_0_does_not_come)
{
    char text[300];
    gathered w = gather_open(3, NULL);
    set_timeout(&w, 700);
    w.of[0].absent = true;
    gather_run(&w);
    snprintf(text, sizeof text, "found no rank 0 at %s within 0.7 s: %s: Connection refused",
             w.address, w.address);
    check_says(&w, 1, RONDA_ETIMEOUT, text);
    check_says(&w, 2, RONDA_ETIMEOUT, text);
    gather_close(&w);
    snprintf(text, sizeof text, "file:/tmp/ronda-test-nobody-%d", (int)getpid());
    w = gather_open(2, text);
    set_timeout(&w, 500);
    w.of[0].absent = true;
    gather_run(&w);
    check_says(&w, 1, RONDA_ETIMEOUT, text);
    check_says(&w, 1, RONDA_ETIMEOUT, "No such file");
    gather_close(&w);
}

/* --- who comes wrongly --- */

TEST(two_of_the_same_rank)
{
    gathered w = gather_open(4, NULL); /* ranks 0, 1, 1, and 2 a little later */
    for (uint32_t r = 0; r < 4; r++)
        w.of[r].j.size = 3;
    w.of[2].j.rank = 1;
    w.of[2].late_ms = 300;
    w.of[3].j.rank = 2;
    w.of[3].late_ms = 700;
    gather_run(&w);
    check_says(&w, 2, RONDA_EINVAL, "there is a rank 1 already: pid ");
    check_started(&w, 0, 2);
    check_started(&w, 3, 1);
    gather_close(&w);
}

TEST(another_size_another_rank_0_and_a_rank_beyond)
{
    gathered w = gather_open(5, NULL); /* two of a world of 2, and three who are wrong */
    for (uint32_t r = 0; r < 5; r++)
        w.of[r].j.size = 2;
    w.of[1].late_ms = 600;
    w.of[2].j.rank = 1;
    w.of[2].j.size = 3;
    w.of[3].j.rank = 7;
    w.of[3].j.size = 2;
    w.of[4].j.rank = 0;
    w.of[4].late_ms = 200;
    gather_run(&w);
    check_says(&w, 2, RONDA_EINVAL, "rank 1 was told of 3 ranks, but rank 0 of 2");
    check_says(&w, 3, RONDA_EINVAL, "there is no rank 7 in a world of 2");
    check_says(&w, 4, RONDA_ESYSTEM, "cannot listen at 127.0.0.1:");
    check_says(&w, 4, RONDA_ESYSTEM, "Address already in use");
    check_started(&w, 0, 2);
    gather_close(&w);
}

TEST(other_keys_and_none)
{
    gathered w =
        gather_open(5, NULL); /* 0 and 1 of two, and who has another key, none, or the only one */
    for (uint32_t r = 0; r < 4; r++)
        w.of[r].j.size = 2;
    for (uint32_t r = 2; r < 4; r++)
        w.of[r].j.rank = 1;
    w.of[1].late_ms = 500;
    w.of[2].j.key = "another";
    w.of[3].j.key = NULL;
    w.of[4].absent = true;
    gather_run(&w);
    check_says(&w, 2, RONDA_EINVAL, "rank 1: its RONDA_KEY is not rank 0's");
    check_says(&w, 3, RONDA_EINVAL, "rank 0 has a RONDA_KEY, rank 1 has none");
    check_started(&w, 0, 2);
    gather_close(&w);
    w = gather_open(2, NULL);
    set_timeout(&w, 600);
    w.of[0].j.key = NULL;
    gather_run(&w);
    check_says(&w, 1, RONDA_EINVAL, "rank 0 has no RONDA_KEY, rank 1 has one");
    check_says(&w, 0, RONDA_ETIMEOUT, "missing: rank 1");
    gather_close(&w);
    w = gather_open(2, NULL);
    set_timeout(&w, 600);
    w.of[1].j.key = "another";
    gather_run(&w);
    check_says(&w, 0, RONDA_ETIMEOUT, "; 1 came with another RONDA_KEY");
    gather_close(&w);
}

TEST(ranks_that_disagree_about_checksums)
{
    gathered w = gather_open(4, NULL);
    w.of[2].j.checksum = RD_CHECKSUM_ON;
    gather_run(&w);
    for (uint32_t r = 0; r < w.size; r++)
        CHECK(w.of[r].status == RONDA_EINVAL && w.of[r].err.peer == 2 &&
                  strstr(w.of[r].err.message, ") has RONDA_CHECKSUM=auto, but rank 2 (") &&
                  strstr(w.of[r].err.message, ") has RONDA_CHECKSUM=1: set it alike"),
              "rank %u: %d: %s", r, w.of[r].status, w.of[r].err.message);
    gather_close(&w);
}

TEST(a_key_is_needed_where_others_can_connect)
{
    char address[100];
    snprintf(address, sizeof address, "0.0.0.0:%u", gather_port());
    gathered w = gather_open(2, address);
    set_timeout(&w, 3000);
    w.of[0].j.key = w.of[1].j.key = NULL;
    gather_run(&w);
    for (uint32_t r = 0; r < 2; r++) {
        check_says(&w, r, RONDA_EINVAL, "RONDA_KEY");
        check_says(&w, r, RONDA_EINVAL, "RONDA_INSECURE");
        CHECK(w.of[r].seconds < 2, "%.1f s", w.of[r].seconds);
    }
    for (uint32_t r = 0; r < 2; r++)
        w.of[r].j.insecure = true;
    gather_run(&w);
    check_started(&w, 0, 2);
    gather_close(&w);
}

TEST(addresses_that_rank_0_cannot_have)
{
    gathered w = gather_open(1, "192.0.2.77:4000"); /* for documents: nobody's */
    w.of[0].j.size = 2;
    gather_run(&w);
    check_says(&w, 0, RONDA_ESYSTEM, "192.0.2.77:4000");
    check_says(&w, 0, RONDA_ESYSTEM, "rank 0 must run on that host");
    gather_close(&w);
    w = gather_open(2, "no-such-host.invalid:4000");
    set_timeout(&w, 1000);
    gather_run(&w);
    check_says(&w, 0, RONDA_ESYSTEM, "no-such-host.invalid:4000");
    check_says(&w, 1, RONDA_ETIMEOUT, "no-such-host.invalid:4000");
    gather_close(&w);
    w = gather_open(2, "file:@name");
    gather_run(&w);
    check_says(&w, 0, RONDA_EINVAL, "file:@name");
    check_says(&w, 1, RONDA_EINVAL, "file:@name");
    gather_close(&w);
    w = gather_open(2, NULL);
    set_timeout(&w, 1000);
    w.of[0].j.interfaces = w.of[1].j.interfaces = "none77";
    gather_run(&w);
    check_says(&w, 0, RONDA_EINVAL, "RONDA_IFACE=none77");
    check_says(&w, 1, RONDA_EINVAL, "lo (127.0.0.1)");
    gather_close(&w);
}

TEST(files_that_are_not_rank_0s)
{
    char address[100];
    static const char text[] = "something dear to its owner\n";
    snprintf(address, sizeof address, "file:/tmp/ronda-test-dear-%d", (int)getpid());
    const int fd = open(address + 5, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, text, sizeof text - 1) > 0, "no file");
    gathered w = gather_open(2, address);
    set_timeout(&w, 500);
    gather_run(&w);
    check_says(&w, 0, RONDA_ESYSTEM, "there is something else of that name");
    check_says(&w, 1, RONDA_ETIMEOUT, "it is not what a rank 0 writes");
    char back[100] = "";
    CHECK(pread(fd, back, sizeof back - 1, 0) > 0 && strcmp(back, text) == 0, "it is gone: %s",
          back);
    close(fd);
    unlink(address + 5);
    gather_close(&w);
    w = gather_open(1, "file:/tmp/ronda-no-such-folder/x");
    w.of[0].j.size = 2;
    gather_run(&w);
    check_says(&w, 0, RONDA_ESYSTEM, "No such file or directory");
    gather_close(&w);
}

/* --- who comes, and is gone when it is called back --- */

typedef struct {
    gathered w;
    uint32_t faithless;
} hung_up;

static void register_and_go(const rd_joining *j)
{
    rd_reaching reaching = {.way = RD_WAY_KEY,
                            .key = j->key,
                            .rank = j->rank,
                            .size = j->size,
                            .until_ns = rd_deadline_ns(10000000000)};
    rd_session session = {.fd = -1};
    rd_place place = {
        .name = "nowhere", .pid = 77, .cpus = 1, .quota = 1, .port = gather_port(), .count = 1};
    rd_place root;
    rd_error err = {0};
    rd_frame note = {.kind = RD_FRAME_PLACE, .bytes = RD_PLACE};
    uint8_t bytes[RD_PLACE];
    const char *why = "";
    rd_ip_read("127.0.0.1", &place.at[0]);
    rd_place_pack(&place, bytes);
    CHECK(rd_reach_name(&reaching, &j->address, &why), "%s", why);
    ronda_status status = RONDA_ETIMEOUT;
    for (int i = 0; i < 500 && status == RONDA_ETIMEOUT; i++, sleep_ms(5))
        status = rd_reach_once(&reaching, &session, &root, &err);
    CHECK(!status && rd_session_send(&session, &note, bytes, reaching.until_ns) &&
              rd_session_await(&session, reaching.until_ns, &note) == RD_RECEIVED_FRAME &&
              note.kind == RD_FRAME_NOTED && note.number == 0,
          "rank 0 does not take it: %s", err.message);
    rd_session_close(&session);
}

static void join_or_go(void *context, uint32_t rank)
{
    hung_up *h = context;
    gathered_rank *me = &h->w.of[rank];
    me->status = 1;
    if (rank == h->faithless)
        register_and_go(&me->j);
    else
        me->status = rd_rendezvous(&me->j, &me->parts, &me->err);
}

TEST(a_rank_of_the_tree_is_gone)
{
    static const uint32_t faithless[] = {1, 20, 79};
    for (int i = 0; i < 3; i++) {
        hung_up h = {.w = gather_open(80, NULL), .faithless = faithless[i]};
        char text[100];
        const double start = seconds_now();
        run_ranks(80, join_or_go, &h);
        snprintf(text, sizeof text, "could not reach rank %u (pid 77 on nowhere)", faithless[i]);
        for (uint32_t r = 0; r < 80; r++)
            if (r != faithless[i])
                check_says(&h.w, r, RONDA_EPEER, text);
        CHECK(seconds_now() - start < 15, "it took %.1f s", seconds_now() - start);
        gather_close(&h.w);
    }
}

/* --- unproven connections to rank 0 --- */

typedef struct {
    char address[100];
    void (*talk)(int fd, rng *r);
    uint32_t times;
    pthread_t thread;
    int fds[200];
} unproven;

static int dial(const char *text)
{
    rd_address a;
    rd_error err = {0};
    struct sockaddr_storage name;
    rd_ip ip;
    rd_address_read(text, &a, &err);
    rd_ip_read(a.host, &ip);
    const socklen_t length = rd_ip_sockaddr(&ip, a.port, &name);
    for (int i = 0; i < 1000; i++) {
        const int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const struct timeval patience = {.tv_usec = 20000};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (connect(fd, (struct sockaddr *)&name, length) == 0)
            return fd;
        close(fd);
        sleep_ms(2);
    }
    return -1;
}

static void *be_strange(void *context)
{
    unproven *s = context;
    rng r = rng_start();
    for (uint32_t i = 0; i < s->times; i++) {
        s->fds[i % 200] = dial(s->address);
        if (s->fds[i % 200] >= 0)
            s->talk(s->fds[i % 200], &r);
        if (i >= 100)
            close(s->fds[(i - 100) % 200]);
    }
    return NULL;
}

static void scan(int fd, rng *r)
{
    (void)r;
    shutdown(fd, SHUT_RDWR);
}

static void say_http(int fd, rng *r)
{
    static const char get[] = "GET / HTTP/1.1\r\nHost: rank0\r\n\r\n";
    (void)r;
    send(fd, get, sizeof get - 1, MSG_NOSIGNAL);
}

static void say_nothing(int fd, rng *r)
{
    (void)fd, (void)r;
}

static void say_it_slowly(int fd, rng *r)
{
    send(fd, "RONDA\r\n\x1a\x01", 1 + rng_below(r, 9), MSG_NOSIGNAL);
}

/* A hello that is almost one, and what follows almost a proof. */
static void say_almost(int fd, rng *r)
{
    char bytes[RD_FRAME_HEAD + RD_PLACE] = {0}, answer[RD_FRAME_HEAD + RD_NONCE];
    rd_frame n = {.kind = RD_FRAME_HELLO, .from = 1, .size = 2, .number = 1, .bytes = RD_NONCE};
    rd_frame_pack(&n, (uint8_t *)bytes);
    size_t length = RD_FRAME_HEAD + RD_NONCE;
    const bool early = rng_below(r, 2);
    if (early)
        length = mangle(r, bytes, length, sizeof bytes, false);
    if (send(fd, bytes, length, MSG_NOSIGNAL) < 0 || early ||
        recv(fd, answer, sizeof answer, 0) <= 0)
        return;
    n.kind = rng_below(r, 2) ? RD_FRAME_PROOF : 1 + (uint32_t)rng_below(r, RD_LAST_FRAME);
    n.bytes = n.kind == RD_FRAME_PROOF ? 0 : (uint32_t)rng_below(r, 300);
    memset(n.mac, (int)rng_next(r), sizeof n.mac);
    rd_frame_pack(&n, (uint8_t *)bytes);
    send(fd, bytes, RD_FRAME_HEAD, MSG_NOSIGNAL);
}

static void check_survives(const char *what, void (*talk)(int fd, rng *r), uint32_t times)
{
    gathered w = gather_open(2, NULL);
    unproven s = {.talk = talk, .times = times};
    snprintf(s.address, sizeof s.address, "%s", w.address);
    memset(s.fds, -1, sizeof s.fds);
    w.of[1].late_ms = 300;
    CHECK(pthread_create(&s.thread, NULL, be_strange, &s) == 0, "no thread");
    gather_run(&w);
    CHECK(w.of[0].status == RONDA_OK && w.of[1].status == RONDA_OK, "%s: %s; %s", what,
          w.of[0].err.message, w.of[1].err.message);
    CHECK(w.of[1].seconds < 15, "%s: it took %.1f s", what, w.of[1].seconds);
    gather_close(&w);
    pthread_join(s.thread, NULL);
    for (int i = 0; i < 200; i++)
        if (s.fds[i] >= 0)
            close(s.fds[i]);
}

TEST(unproven_connections_do_not_stop_the_job)
{
    test_deadline(100);
    check_survives("port scanner", scan, 100);
    check_survives("http", say_http, 100);
    check_survives("silent", say_nothing, 60);
    check_survives("slow", say_it_slowly, 60);
    check_survives("almost", say_almost, 100);
}

/* --- somebody else in rank 0's place --- */

typedef struct {
    int listener;
    const void *bytes;
    size_t count;
} impostor;

static void *answer_wrongly(void *context)
{
    const impostor *i = context;
    for (;;) {
        const int fd = accept(i->listener, NULL, NULL);
        if (fd < 0)
            return NULL;
        char hello[RD_FRAME_HEAD + RD_NONCE];
        recv(fd, hello, sizeof hello, 0);
        send(fd, i->bytes, i->count, MSG_NOSIGNAL);
        sleep_ms(20);
        close(fd);
    }
}

static void check_impostor(const void *bytes, size_t count, ronda_status status, const char *text)
{
    gathered w = gather_open(1, NULL);
    w.of[0].j.rank = 1;
    w.of[0].j.size = 2;
    set_timeout(&w, 2000);
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons(w.of[0].j.address.port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    impostor i = {.listener = socket(AF_INET, SOCK_STREAM, 0), .bytes = bytes, .count = count};
    pthread_t thread;
    const int one = 1;
    setsockopt(i.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!CHECK(bind(i.listener, (struct sockaddr *)&name, sizeof name) == 0 &&
                   listen(i.listener, 5) == 0,
               "no impostor") ||
        !CHECK(pthread_create(&thread, NULL, answer_wrongly, &i) == 0, "no thread"))
        return;
    gather_run(&w);
    check_says(&w, 0, status, text);
    shutdown(i.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(i.listener);
    gather_close(&w);
}

TEST(something_else_answers_at_rank_0s_address)
{
    uint8_t note[RD_FRAME_HEAD + RD_NONCE] = {0}, told[RD_FRAME_HEAD + 2];
    static const uint8_t none[RD_NONCE];
    check_impostor("HTTP/1.1 400 Bad Request\r\n\r\n", 28, RONDA_EPEER,
                   "what answers is not rank 0");
    rd_frame_pack(&(rd_frame){.kind = RD_FRAME_CHALLENGE, .bytes = RD_NONCE}, note);
    check_impostor(note, sizeof note, RONDA_EPEER, "what answers does not know the job's key");
    note[8] = 99; /* the version */
    check_impostor(note, sizeof note, RONDA_EUNSUPPORTED, "speaks version 99");
    check_impostor(note, 12, RONDA_EUNSUPPORTED, "speaks version 99");
    rd_frame_seal(&(rd_seal){.sender = none, .receiver = none},
                  &(rd_frame){.kind = RD_FRAME_SOCKET, .bytes = 2}, "@x", told);
    memcpy(told + RD_FRAME_HEAD, "@x", 2);
    check_impostor(told, sizeof told, RONDA_EINVAL, "by shared memory");
    check_impostor("", 0, RONDA_ETIMEOUT, "it closed the connection");
}
