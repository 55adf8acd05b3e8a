/* test_door.c: the conversation of the gathering, with partners who do not keep to it.
 *
 * Rank 0 hears strangers who say almost the right thing, and a guest who turns strange after it was let
 * in.  A guest hears somebody in rank 0's place whose frames are mangled, who hands over the wrong
 * descriptors, or memory that is too small.  Each ends in a world that works or in a sentence. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "calls.h"
#include "comm/bootstrap.h"
#include "mangle.h"
#include "processes.h"

static const char KEY[] = "a key of the tests";
enum { READY = 10 }; /* in job.shared: how far things are */

static bool await_number(job *j, uint32_t which, uint64_t least)
{
    const double end = seconds_now() + 30;
    while (j->shared->number[which] < least && seconds_now() < end)
        sleep_ms(1);
    return CHECK(j->shared->number[which] >= least, "the others are not that far");
}

static ronda_status join(job *j, uint32_t rank, uint32_t size, const char *key, uint32_t ms,
                         ronda_comm **comm)
{
    const ronda_config config = {.struct_size = sizeof config,
                                 .rank = rank,
                                 .size = size,
                                 .addr = j->address,
                                 .key = key,
                                 .timeout_ns = 100000000,
                                 .start_timeout_ns = ms * 1000000ull};
    return ronda_init(&config, comm);
}

static uint64_t soon(void)
{
    return rd_now_ns() + 1000000000;
}

static int knock(const job *j)
{
    rd_address door;
    rd_error err = {0};
    int fd = -1;
    rd_address_read(j->address, &door, &err);
    for (int i = 0; i < 1000 && (fd = rd_socket_connect(&door)) < 0; i++)
        sleep_ms(2);
    return fd;
}

/* Says it, or something like it. */
static bool say(rng *r, int fd, const rd_frame *frame, int passed, bool mangled)
{
    char bytes[RD_FRAME];
    if (!mangled)
        return rd_socket_send(fd, frame, passed, soon());
    rd_frame_pack(frame, (uint8_t *)bytes);
    const size_t length = mangle(r, bytes, RD_FRAME, RD_FRAME, false);
    rd_frame other;
    if (rng_below(r, 2) && rd_frame_unpack((uint8_t *)bytes, &other) == RD_FRAME_OK)
        return rd_socket_send(fd, &other, passed, soon()); /* so that a descriptor comes along */
    return send(fd, bytes, length, MSG_NOSIGNAL) >= 0;
}

/* --- strangers at rank 0's door --- */

static void talk_rubbish(rng *r, const job *j)
{
    const int fd = knock(j), bell = eventfd(0, EFD_NONBLOCK);
    const uint64_t lie = rng_below(r, 4);
    rd_frame frame = {.kind = RD_HELLO, .rank = 1, .size = 2, .number = 1};
    rd_incoming in = {.passed = -1};
    if (lie == 0)
        frame.rank = (uint32_t)rng_below(r, 4);
    if (say(r, fd, &frame, rng_below(r, 8) ? bell : -1, lie == 1) && lie != 1 &&
        rd_socket_await(fd, &in, rd_now_ns() + 50000000)) {
        frame.kind = lie == 2 ? 1 + (uint32_t)rng_below(r, RD_LAST_KIND) : RD_PROOF;
        memset(frame.answer, (int)rng_next(r), sizeof frame.answer);
        say(r, fd, &frame, rng_below(r, 8) ? -1 : bell, lie == 3);
    }
    if (in.passed >= 0)
        close(in.passed);
    close(bell);
    close(fd);
}

static int strangers(job *j, uint32_t rank)
{
    rng r = rng_start();
    ronda_comm *comm = NULL;
    if (rank == 2) {
        for (uint32_t i = 0; i < (test_sanitized() ? 500u : 5000u); i++)
            talk_rubbish(&r, j);
        j->shared->number[READY] = 1;
        return 0;
    }
    if (rank == 1 && !await_number(j, READY, 1))
        return 1;
    const ronda_status status = join(j, rank, 2, KEY, 40000, &comm);
    CHECK(status == RONDA_OK, "rank %u: %s", rank, ronda_last_error(NULL));
    if (!status) {
        ronda_set_timeout(comm, 10000000000);
        CHECK(ronda_barrier(comm) == RONDA_OK, "%s", ronda_last_error(comm));
        ronda_close(comm);
    }
    return 0;
}

TEST(strangers_say_almost_the_right_thing)
{
    job_run(3, strangers, NULL, 50);
}

/* More of them than rank 0 hears at a time, who say nothing, or only half a hello, and stay. */
static int silent_crowd(job *j, uint32_t rank)
{
    enum { CROWD = 200 };
    const bool *half = j->context;
    int fds[CROWD];
    if (rank < 2)
        return strangers(j, rank);
    for (uint32_t i = 0; i < CROWD; i++) {
        fds[i] = knock(j);
        if (half)
            send(fds[i], "RONDA", 5, MSG_NOSIGNAL);
    }
    j->shared->number[READY] = 1;
    sleep_ms(300);
    for (uint32_t i = 0; i < CROWD; i++)
        close(fds[i]);
    return 0;
}

TEST(strangers_who_say_nothing_make_room)
{
    static const bool half = true;
    job_run(3, silent_crowd, NULL, 50);
    job_run(3, silent_crowd, &half, 50);
}

/* Rank 1 of another world, without the key: it hears a nonce and that its key is wrong, and no number of the job's. */
static int told_nothing(job *j, uint32_t rank)
{
    ronda_comm *comm = NULL;
    if (rank == 0) {
        CHECK(join(j, 0, 5, KEY, 1000, &comm) == RONDA_ETIMEOUT, "joined nobody");
        return 0;
    }
    const int fd = knock(j), bell = eventfd(0, EFD_NONBLOCK);
    rd_frame frame = {.kind = RD_HELLO, .rank = 1, .size = 3, .number = RD_PROVES};
    for (uint32_t i = 0; i < 2; i++) {
        static const uint32_t kinds[] = {RD_CHALLENGE, RD_REJECT};
        rd_frame heard = {0};
        rd_incoming in = {.passed = -1};
        CHECK(rd_socket_send(fd, &frame, bell, soon()) && rd_socket_await(fd, &in, soon()) &&
                  rd_frame_unpack(in.bytes, &heard) == RD_FRAME_OK,
              "no answer");
        CHECK(heard.kind == kinds[i] && !heard.rank && !heard.size &&
                  (!heard.text[0] || strcmp(heard.text, "its RONDA_KEY is not rank 0's") == 0),
              "kind %u, rank %u, size %u: %s", heard.kind, heard.rank, heard.size, heard.text);
        frame.kind = RD_PROOF;
    }
    close(bell);
    close(fd);
    return 0;
}

TEST(before_the_proof_nothing_is_told)
{
    job_run(2, told_nothing, NULL, 50);
}

/* Rank 1 was told of another world: rank 0 says that, not only who is missing. */
static int told_otherwise(job *j, uint32_t rank)
{
    ronda_comm *comm = NULL;
    const ronda_status status = join(j, rank, rank ? 3 : 2, KEY, 500, &comm);
    CHECK(status == (rank ? RONDA_EINVAL : RONDA_ETIMEOUT), "rank %u: status %d", rank, status);
    CHECK(strstr(ronda_last_error(NULL), "this rank was told of 3 ranks, but rank 0 of 2"),
          "rank %u: %s", rank, ronda_last_error(NULL));
    return 0;
}

TEST(rank_0_says_whom_it_sent_away)
{
    job_run(2, told_otherwise, NULL, 50);
}

/* --- a guest who was let in, and then says what makes no sense --- */

static bool be_welcomed(int fd, uint32_t rank, uint32_t size, int bell)
{
    rd_frame hello = {.kind = RD_HELLO, .number = RD_PROVES}, f,
             proof = {.kind = RD_PROOF, .rank = rank, .size = size};
    rd_incoming in = {.passed = -1};
    if (!rd_socket_send(fd, &hello, -1, soon()) || !rd_socket_await(fd, &in, soon()))
        return false;
    rd_frame_unpack(in.bytes, &f);
    rd_join_answer(KEY, "guest", f.nonce, hello.nonce, rank, size, proof.answer);
    in.have = 0;
    return rd_socket_send(fd, &proof, bell, soon()) && rd_socket_await(fd, &in, soon()) &&
           rd_frame_unpack(in.bytes, &f) == RD_FRAME_OK && f.kind == RD_WELCOME;
}

/* Process 1 joins, writes invalid data, and stands at the door as a stranger: nobody may hand it the memory. */
static int out_of_turn(job *j, uint32_t rank)
{
    ronda_comm *comm = NULL;
    if (rank == 1) {
        const int fd = knock(j), bell = eventfd(0, EFD_NONBLOCK);
        CHECK(be_welcomed(fd, 1, 3, bell), "not welcome");
        rd_socket_send(fd, &(rd_frame){.kind = RD_GO}, -1, soon());
        sleep_ms(50);
        rd_address door;
        rd_error err = {0};
        rd_address_read(j->address, &door, &err);
        const int stranger = rd_socket_connect(&door);
        j->shared->number[READY] = 1;
        rd_incoming in = {.passed = -1};
        if (stranger >= 0)
            rd_socket_await(stranger, &in, soon());
        CHECK(in.passed < 0, "a stranger was handed a descriptor");
        return 0;
    }
    if (rank == 2 && !await_number(j, READY, 1))
        return 1;
    const ronda_status status = join(j, rank, 3, KEY, rank ? 1000 : 3000, &comm);
    const char *text = status ? ronda_last_error(NULL) : "joined";
    if (rank == 0)
        CHECK(status == RONDA_EPEER && strstr(text, "rank 1 (pid"), "%d: %s", status, text);
    else
        CHECK(status < 0, "joined a world without rank 1");
    return 0;
}

TEST(a_guest_speaks_out_of_turn)
{
    job_run(3, out_of_turn, NULL, 50);
}

/* --- somebody in rank 0's place --- */

enum { FRAMES = 6 }; /* challenge, welcome, two peers, start, go */

static int wrong_descriptor(rng *r)
{
    rd_error err = {0};
    int fd;
    switch (rng_below(r, 5)) {
    case 0:
        return -1;
    case 1:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 2: /* too small for two ranks */
        return rd_shm_create(1, &err);
    case 3: /* of the right size, but it may shrink */
        fd = memfd_create("ronda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return ftruncate(fd, (off_t)rd_shm_bytes(2)) ? -1 : fd;
    default: /* empty */
        return memfd_create("ronda", MFD_CLOEXEC);
    }
}

/* Plays rank 0 for one guest; frame number `spoilt` is not what it should be. */
static void play_rank_0(rng *r, job *j, int fd, uint32_t spoilt)
{
    static const uint32_t kinds[FRAMES] = {RD_CHALLENGE, RD_WELCOME, RD_PEER,
                                           RD_PEER,      RD_START,   RD_GO};
    rd_incoming in = {.passed = -1};
    rd_error err = {0};
    const int memory = rd_shm_create(2, &err), bell = eventfd(0, EFD_NONBLOCK);
    for (uint32_t i = 0; i < FRAMES; i++) {
        const bool hears = i < 2 || i == FRAMES - 1; /* hello, proof and ready come before */
        in.have = 0;
        if (hears && !rd_socket_await(fd, &in, soon()))
            break;
        rd_frame f = {
            .kind = kinds[i], .rank = i == 3, .number = (int32_t)j->shared->number[i == 3]};
        int passed = i == 2 || i == 3 ? bell : i == 4 ? memory : -1;
        const bool other = i == spoilt && passed >= 0 && rng_below(r, 2);
        if (other)
            passed = wrong_descriptor(r);
        const bool number = i == spoilt && !other && rng_below(r, 4) == 0;
        if (number)
            f.number = (int32_t)rng_next(r);
        if (!say(r, fd, &f, passed, i == spoilt && !other && !number))
            break;
        if (other && passed >= 0)
            close(passed);
    }
    if (in.passed >= 0)
        close(in.passed);
    close(memory);
    close(bell);
}

static int hear_a_false_rank_0(job *j, uint32_t rank)
{
    const uint32_t rounds = test_sanitized() ? 40 : 80;
    rng r = rng_start();
    rd_address door;
    rd_error err = {0};
    rd_address_read(j->address, &door, &err);
    const int listener = rank ? -1 : rd_socket_listen(&door, &err);
    j->shared->number[rank] = (uint64_t)getpid();
    for (uint32_t i = 0; i < rounds && rank == 0 && await_number(j, 1, 1); i++) {
        int fd = -1;
        for (int k = 0; k < 5000 && (fd = rd_socket_accept(listener)) < 0; k++)
            sleep_ms(1);
        const uint32_t spoilt = (uint32_t)rng_below(&r, FRAMES + 3); /* the memory rather often */
        play_rank_0(&r, j, fd, spoilt <= FRAMES ? spoilt : 4);
        close(fd);
    }
    for (uint32_t i = 0; i < rounds && rank == 1; i++) {
        ronda_comm *comm = NULL;
        const double start = seconds_now();
        const ronda_status status = join(j, 1, 2, NULL, test_sanitized() ? 300 : 120, &comm);
        const char *text = status ? ronda_last_error(NULL) : "joined";
        CHECK(status <= 0 && status >= RONDA_EINTERNAL && *text && !strchr(text, '\n'),
              "round %u: %d: %s", i, status, text);
        CHECK(seconds_now() - start < 10, "round %u took %.1f s", i, seconds_now() - start);
        if (!status) {
            CHECK(ronda_barrier(comm) < 0, "a barrier with nobody");
            ronda_close(comm);
        }
    }
    if (rank == 0)
        unlink(door.path);
    return 0;
}

TEST(somebody_in_rank_0s_place)
{
    job_run(2, hear_a_false_rank_0, NULL, 50);
}
