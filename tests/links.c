/* links.c: see links.h. */
#include "links.h"

#include "base/mem.h"
#include "comm/comm.h"
#include "transport/mixed.h"
#include "transport/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MOST = 64 };

bool links_local(uint32_t size, rd_link *links[])
{
    rd_error err = {0};
    return rd_local_open(size, links, &err) == RONDA_OK;
}

bool links_shm(uint32_t size, rd_link *links[])
{
    rd_error err = {0};
    int bells[MOST], own[MOST];
    int32_t pids[MOST];
    ronda_status status = RONDA_OK;
    const int memory = size <= MOST ? rd_shm_create(size, &err) : -1;

    if (memory < 0)
        return false;
    for (uint32_t r = 0; r < size; r++) {
        bells[r] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        pids[r] = getpid();
    }
    status = rd_shm_prepare(memory, pids, size, &err);
    for (uint32_t rank = 0; rank < size && !status; rank++) {
        for (uint32_t r = 0; r < size; r++)
            own[r] = dup(bells[r]);
        const rd_shm_parts parts = {
            .rank = rank, .size = size, .memfd = memory, .doorbells = own, .pids = pids};
        status = rd_shm_open(&parts, &links[rank], &err);
    }
    for (uint32_t r = 0; r < size; r++)
        close(bells[r]);
    close(memory);
    if (status)
        fprintf(stderr, "%s\n", err.message);
    return !status;
}

static int listen_here(rd_place *place)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, MOST) ||
        getsockname(fd, (struct sockaddr *)&name, &length))
        return -1;
    *place = (rd_place){.host = 1, .name = "here", .pid = getpid(), .cpus = 2, .quota = 2};
    place->port = ntohs(name.sin_port);
    place->count = 1;
    place->at[0] = (rd_ip){.family = 4, .bytes = {127, 0, 0, 1}};
    return fd;
}

static bool open_tcp(uint32_t size, rd_link *links[], uint32_t local, rd_checksum checksum)
{
    static const char key[] = "a key";
    rd_error err = {0};
    rd_place places[MOST];
    int listeners[MOST];
    ronda_status status = size <= MOST ? RONDA_OK : RONDA_EINVAL;
    for (uint32_t r = 0; r < size && !status; r++)
        if ((listeners[r] = listen_here(&places[r])) < 0)
            status = RONDA_ESYSTEM;
        else
            places[r].checksum = (uint8_t)checksum;
    for (uint32_t r = 0; r < size && !status; r++) {
        rd_tcp_parts parts = {.rank = r,
                              .size = size,
                              .places = rd_alloc(sizeof places),
                              .listener = listeners[r],
                              .key = rd_alloc(sizeof key),
                              .job = 77,
                              .timeout_ns = 10000000000u};
        memcpy(parts.places, places, sizeof places);
        parts.host_of = local ? rd_alloc(size * sizeof *parts.host_of) : NULL;
        for (uint32_t i = 0; i < size && local; i++)
            parts.host_of[i] = i / local;
        memcpy(parts.key, key, sizeof key);
        status = rd_tcp_open(&parts, &links[r], &err);
    }
    if (status)
        fprintf(stderr, "%s\n", err.message);
    return !status;
}

bool links_tcp(uint32_t size, rd_link *links[])
{
    return open_tcp(size, links, 0, RD_CHECKSUM_OFF);
}

bool links_tcp_checked(uint32_t size, rd_link *links[])
{
    return open_tcp(size, links, 0, RD_CHECKSUM_ON);
}

bool links_mixed(uint32_t size, rd_link *links[])
{
    enum { LOCAL = 2 };
    rd_link *tcp[MOST], *shm[MOST];
    rd_error err = {0};
    bool good = open_tcp(size, tcp, LOCAL, RD_CHECKSUM_ON);
    for (uint32_t r = 0; r < size && good; r += LOCAL)
        if (size - r >= LOCAL)
            good = links_shm(LOCAL, shm + r);
    for (uint32_t r = 0; r < size && good; r++) {
        const bool alone = size - r / LOCAL * LOCAL < LOCAL;
        links[r] = tcp[r];
        if (!alone)
            good = !rd_mixed_open(tcp[r], shm[r], &links[r], &err);
    }
    return good;
}

static void hear(void *context, int level, const char *line)
{
    (void)level;
    if (strstr(line, "bytes of plan"))
        snprintf(context, LINKS_LINE, "%s", line);
}

bool links_comms(uint32_t size, rd_link *links[], char said[][LINKS_LINE], ronda_comm *comms[])
{
    rd_error err = {0};
    for (uint32_t r = 0; r < size; r++) {
        rd_settings settings;
        const ronda_config config = {
            .struct_size = sizeof config, .log = hear, .log_context = said[r]};
        if (rd_settings_read(&config, &settings, &err) ||
            rd_comm_open(links[r], &settings, NULL, &comms[r], &err)) {
            fprintf(stderr, "%s\n", err.message);
            return false;
        }
    }
    return true;
}
