/* test_descriptors.c: a program may have closed its standard streams, and what it prints must not reach a peer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "processes.h"

enum { RANKS = 3, STREAMS = 3 };

typedef struct {
    const char *transport; /* NULL: by the address */
    bool tcp_address;
    unsigned closed; /* bit i: descriptor i is */
} scene;

/* Which of the closed ones are in use; bits. */
static unsigned taken(const scene *s)
{
    unsigned bits = 0;
    for (int fd = 0; fd < STREAMS; fd++)
        if (s->closed >> fd & 1 && fcntl(fd, F_GETFD) >= 0)
            bits |= 1u << fd;
    return bits;
}

/* Prints as it goes along: to a socket of ours that would be the peer's, or end the process. */
static unsigned sum_and_print(const scene *s, ronda_comm *c, uint32_t rank)
{
    unsigned bits = 0;
    for (uint32_t i = 0; i < 20; i++) {
        float x[100], y[100];
        for (uint32_t k = 0; k < 100; k++)
            x[k] = (float)(rank * 1000 + k + i);
        for (int fd = 1; fd < STREAMS; fd++)
            if (s->closed >> fd & 1 && write(fd, "said\n", 5) >= 0)
                bits |= 1u << fd;
        const ronda_status status = ronda_allreduce(c, x, y, 100, RONDA_F32, RONDA_SUM);
        for (uint32_t k = 0; k < 100; k++)
            if (status || y[k] != (float)(3000 + RANKS * (k + i)))
                return 64;
        bits |= taken(s);
    }
    return bits;
}

static int be_a_rank(job *j, uint32_t rank)
{
    const scene *s = j->context;
    int kept[STREAMS];
    if (s->transport)
        setenv("RONDA_TRANSPORT", s->transport, 1);
    for (int fd = 0; fd < STREAMS; fd++) {
        kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        if (s->closed >> fd & 1)
            close(fd);
    }
    ronda_comm *c = job_join(j, rank);
    unsigned bits = taken(s);
    bits |= c ? sum_and_print(s, c, rank) : 128;
    const ronda_status closed = ronda_close(c);
    bits |= taken(s);
    for (int fd = 0; fd < STREAMS; fd++)
        if (s->closed >> fd & 1)
            dup2(kept[fd], fd);
    CHECK(bits == 0 && closed == RONDA_OK,
          "rank %u over %s with descriptors %#x closed: 0x%x in use or wrong, close %d", rank,
          s->transport ? s->transport : "any", s->closed, bits, closed);
    return 0;
}

static void play(scene s)
{
    job j = job_open(RANKS, be_a_rank, &s);
    if (s.tcp_address && !j.hosts)
        snprintf(j.address, sizeof j.address, "127.0.0.1:%u", test_port());
    job_start(&j);
    job_wait(&j, 20);
    for (uint32_t r = 0; r < RANKS; r++)
        CHECK(j.status[r] == 0, "rank %u ended with 0x%x", r, (unsigned)j.status[r]);
    job_close(&j);
}

TEST(standard_streams_that_are_closed_are_not_ours)
{
    for (unsigned closed = 1; closed < 1 << STREAMS && !test_failed(); closed++) {
        play((scene){.transport = "shm", .closed = closed});
        play((scene){.transport = "tcp", .closed = closed});
        play((scene){.transport = "tcp", .tcp_address = true, .closed = closed});
        play((scene){.tcp_address = true, .closed = closed});
    }
}

/* What fd.h makes: descriptors from 3 on, and what was not needed is closed again. */
static int make_all(job *j, uint32_t rank)
{
    const int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
    char control[CMSG_SPACE(2 * sizeof(int))] __attribute__((aligned(8))), byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control};
    int made[8], count = 0;
    (void)j;
    (void)rank;
    for (int fd = 0; fd < STREAMS; fd++)
        close(fd);
    const uint32_t before = open_files();
    bool good = rd_fd_pipe(made, O_NONBLOCK) == 0 && rd_fd_pair(made + 2, SOCK_STREAM) == 0;
    made[4] = rd_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    made[5] = rd_fd_again(made[4]);
    m.msg_controllen = sizeof control;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    c->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(c), made + 4, 2 * sizeof(int));
    good &= sendmsg(made[2], &m, MSG_NOSIGNAL) == 1;
    m.msg_controllen = sizeof control;
    good &= rd_fd_receive(made[3], &m, 0) == 1 && (c = CMSG_FIRSTHDR(&m)) != NULL;
    if (good)
        memcpy(made + 6, CMSG_DATA(c), 2 * sizeof(int));
    for (count = 0; good && count < 8; count++)
        good = made[count] >= STREAMS && (fcntl(made[count], F_GETFD) & FD_CLOEXEC);
    good &= open_files() == before + 8;
    errno = 0;
    good &= rd_fd(-1) == -1 && errno == 0;
    dup2(kept, STDERR_FILENO);
    CHECK(good, "descriptor %d of those made is %d", count, count ? made[count - 1] : 0);
    return 0;
}

TEST(what_is_made_has_a_number_from_3_on)
{
    job_run(1, make_all, NULL, 10);
}
