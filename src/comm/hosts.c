/* hosts.c: a world over several hosts: its ranks find each other, then those of each host get their common
 * memory, and all have sockets between them. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/environment.h"
#include "comm/rendezvous.h"
#include "transport/mixed.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* NULL: no memory. */
static uint32_t *number_hosts(const rd_tcp_parts *parts, uint32_t *hosts)
{
    uint32_t *host_of = rd_alloc(parts->size * sizeof *host_of);
    if (host_of && rd_places_number(parts->places, parts->size, host_of, hosts))
        return host_of;
    rd_free(host_of);
    return NULL;
}

/* The ranks of this host meet where nobody else can come in: at a name of the job's that only this host has. */
static ronda_status open_memory(const rd_tcp_parts *parts, const uint32_t host_of[],
                                uint64_t until_ns, rd_link **out, rd_error *err)
{
    const uint64_t now = rd_now_ns();
    rd_joining here = {.key = parts->key,
                       .address = {.kind = RD_ADDRESS_FILE},
                       .timeout_ns = until_ns > now ? until_ns - now : 1};
    uint32_t *names = rd_alloc(parts->size * sizeof *names);
    *out = NULL;
    if (!names)
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for %u ranks", parts->rank,
                       parts->size);
    here.names = names;
    snprintf(here.address.path, sizeof here.address.path, "@ronda-%016" PRIx64 "-%016" PRIx64,
             parts->job, parts->places[parts->rank].host);
    for (uint32_t r = 0; r < parts->size; r++) {
        if (host_of[r] != host_of[parts->rank])
            continue;
        here.rank += r < parts->rank;
        names[here.size++] = r;
    }
    ronda_status status = RONDA_OK;
    if (here.size > RD_MOST_PROCESSES)
        status = rd_fail(
            err, RONDA_ELIMIT, RONDA_ANY,
            "%u are more than the %d that can share memory; RONDA_TRANSPORT=tcp allows %d in all",
            here.size, RD_MOST_PROCESSES, RD_MOST_RANKS);
    else if (here.size > 1)
        status = rd_bootstrap(&here, out, err);
    if (status) {
        const rd_error why = *err;
        rd_fail(err, status, why.peer < here.size ? names[why.peer] : RONDA_ANY,
                "rank %u: the ranks of host %s: %.400s", parts->rank,
                parts->places[parts->rank].name, why.message);
    }
    rd_free(names);
    return status;
}

static void free_parts(rd_tcp_parts *parts)
{
    close(parts->listener);
    rd_free(parts->places);
    rd_free(parts->key);
    rd_free(parts->host_of);
}

/* The others have all places, and may have begun: their first call fails with this cause. */
static void tell_others(const rd_tcp_parts *parts, const rd_error *why)
{
    rd_error err = {0};
    rd_link *tcp;
    if (rd_tcp_open(parts, &tcp, &err))
        return;
    tcp->transport->abort(tcp, why);
    tcp->transport->close(tcp);
}

ronda_status rd_open_hosts(const rd_joining *j, rd_link **out, rd_error *err)
{
    const uint64_t until = rd_deadline_ns(j->timeout_ns);
    rd_tcp_parts parts;
    rd_link *tcp, *shm = NULL;
    uint32_t hosts = 0;
    ronda_status status = rd_rendezvous(j, &parts, err);
    if (status)
        return status;
    if (!j->sockets_alone && !(parts.host_of = number_hosts(&parts, &hosts)))
        status = rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for %u ranks", j->rank,
                         j->size);
    if (!status && parts.host_of)
        status = open_memory(&parts, parts.host_of, until, &shm, err);
    if (status && hosts > 1) {
        tell_others(&parts, err);
        return status;
    }
    if (status || hosts == 1) { /* nobody is elsewhere */
        free_parts(&parts);
        *out = status ? *out : shm;
        return status;
    }
    status = rd_tcp_open(&parts, &tcp, err);
    if (!status && !shm)
        *out = tcp;
    else if (!status)
        status = rd_mixed_open(tcp, shm, out, err);
    else if (shm)
        shm->transport->close(shm);
    return status;
}
