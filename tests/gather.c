#include "gather.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "calls.h"

static const char KEY[] = "a key of the tests";

static bool can_listen(const rd_ip *ip, uint16_t port)
{
    struct sockaddr_storage name;
    const socklen_t length = rd_ip_sockaddr(ip, port, &name);
    const int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool can =
        fd >= 0 && bind(fd, (struct sockaddr *)&name, length) == 0 && listen(fd, 1) == 0;
    if (fd >= 0)
        close(fd);
    return can;
}

/* What is free now is free when rank 0 listens. */
uint16_t gather_port(void)
{
    const rd_ip anywhere = {.family = 4};
    uint16_t port = test_port();
    for (int i = 0; i < 1000 && !can_listen(&anywhere, port); i++)
        port = test_port();
    return port;
}

bool gather_can_listen(const rd_ip *ip)
{
    return can_listen(ip, 0);
}

void gather_joining(rd_joining *j, uint32_t rank, uint32_t size, const char *address)
{
    rd_error err = {0};
    *j = (rd_joining){
        .rank = rank, .size = size, .key = KEY, .timeout_ns = 20000000000, .hosts = true};
    CHECK(rd_address_read(address, &j->address, &err) == RONDA_OK, "%s", err.message);
}

gathered gather_open(uint32_t size, const char *address)
{
    gathered w = {.size = size, .of = calloc(size, sizeof *w.of)};
    if (!w.of)
        abort();
    if (address)
        snprintf(w.address, sizeof w.address, "%s", address);
    else
        snprintf(w.address, sizeof w.address, "127.0.0.1:%u", gather_port());
    for (uint32_t r = 0; r < size; r++)
        gather_joining(&w.of[r].j, r, size, w.address);
    return w;
}

static void join(void *context, uint32_t at)
{
    gathered *w = context;
    gathered_rank *me = &w->of[at];
    me->status = 1;
    if (me->absent)
        return;
    sleep_ms(me->late_ms);
    const double start = seconds_now();
    me->status = rd_rendezvous(&me->j, &me->parts, &me->err);
    me->seconds = seconds_now() - start;
}

void gather_run(gathered *w)
{
    run_ranks(w->size, join, w);
}

uint64_t gather_hash(const rd_tcp_parts *parts)
{
    uint64_t hash = parts->job;
    for (uint32_t r = 0; r < parts->size; r++) {
        uint8_t bytes[RD_PLACE];
        rd_place_pack(&parts->places[r], bytes);
        for (uint32_t i = 0; i < RD_PLACE; i++)
            hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash | 1;
}

/* Somebody who connects to the place arrives at the listener. */
static bool can_be_reached(const rd_tcp_parts *parts)
{
    struct sockaddr_storage name;
    const rd_place *p = &parts->places[parts->rank];
    const socklen_t length = rd_ip_sockaddr(&p->at[0], p->port, &name);
    const int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool connected = fd >= 0 && connect(fd, (struct sockaddr *)&name, length) == 0;
    struct pollfd knock = {.fd = parts->listener, .events = POLLIN};
    const bool heard =
        connected && send(fd, "R", 1, MSG_NOSIGNAL) == 1 && poll(&knock, 1, 1000) == 1;
    if (fd >= 0)
        close(fd);
    return heard;
}

void gather_check_parts(gathered *w)
{
    const uint64_t hash = gather_hash(&w->of[0].parts);
    for (uint32_t r = 0; r < w->size; r++) {
        const rd_tcp_parts *p = &w->of[r].parts;
        CHECK(p->rank == r && p->size == w->size && p->job && gather_hash(p) == hash,
              "rank %u of %u knows another world", r, w->size);
        const char *key = w->of[r].j.key ? w->of[r].j.key : w->of[0].parts.key;
        CHECK(!p->key == w->of[r].j.insecure && (!p->key || strcmp(p->key, key) == 0), "the key");
        CHECK(can_be_reached(p), "rank %u cannot be reached", r);
    }
}

void gather_free(rd_tcp_parts *parts)
{
    close(parts->listener);
    rd_free(parts->places);
    rd_free(parts->key);
}

void gather_close(gathered *w)
{
    for (uint32_t r = 0; r < w->size; r++)
        if (w->of[r].status == RONDA_OK)
            gather_free(&w->of[r].parts);
    free(w->of);
}
