/* hosts.c: the map of hosts, turned into what generators ask for. */
#include "plan/hosts.h"

#include "base/mem.h"

/* Mixes a word into a mark. */
static uint64_t mix(uint64_t mark, uint64_t word)
{
    mark = (mark ^ word) * 0x9e3779b97f4a7c15u;
    return mark ^ mark >> 29;
}

/* Numbers hosts as they are met; first[h] is a rank of host h meanwhile. */
static void number_hosts(rd_hosts *hosts, const uint32_t host_of[])
{
    for (uint32_t r = 0; r < hosts->size; r++) {
        uint32_t h = r && host_of[r] == host_of[r - 1] ? hosts->of[r - 1] : 0;
        while (h < hosts->count && host_of[hosts->first[h]] != host_of[r])
            h++;
        if (h == hosts->count)
            hosts->first[hosts->count++] = r;
        hosts->of[r] = h;
        hosts->mark = mix(hosts->mark, h);
    }
}

/* Then counts, and puts each host's ranks behind those of the host before. */
static void list_ranks(rd_hosts *hosts)
{
    for (uint32_t h = 0; h <= hosts->count; h++)
        hosts->first[h] = 0;
    for (uint32_t r = 0; r < hosts->size; r++)
        hosts->number[r] = hosts->first[hosts->of[r] + 1]++;
    hosts->smallest = UINT32_MAX;
    for (uint32_t h = 0; h < hosts->count; h++) {
        const uint32_t ranks = hosts->first[h + 1];
        hosts->smallest = ranks < hosts->smallest ? ranks : hosts->smallest;
        hosts->largest = ranks > hosts->largest ? ranks : hosts->largest;
        hosts->first[h + 1] += hosts->first[h];
    }
    hosts->in_order = true;
    for (uint32_t r = 0; r < hosts->size; r++) {
        const uint32_t at = hosts->first[hosts->of[r]] + hosts->number[r];
        hosts->ranks[at] = r;
        hosts->in_order &= at == r;
    }
}

rd_hosts *rd_hosts_make(const uint32_t host_of[], uint32_t size)
{
    const size_t n = size;
    rd_hosts *hosts = rd_alloc(sizeof *hosts + (4 * n + 1) * sizeof(uint32_t));
    if (!hosts)
        return NULL;
    hosts->size = size;
    hosts->of = (uint32_t *)(hosts + 1);
    hosts->number = hosts->of + n;
    hosts->ranks = hosts->number + n;
    hosts->first = hosts->ranks + n;
    number_hosts(hosts, host_of);
    list_ranks(hosts);
    return hosts;
}

rd_hosts *rd_hosts_even(uint32_t hosts, uint32_t each)
{
    uint32_t *host_of = rd_alloc((size_t)hosts * each * sizeof *host_of);
    for (uint32_t r = 0; host_of && r < hosts * each; r++)
        host_of[r] = r / each;
    rd_hosts *made = host_of ? rd_hosts_make(host_of, hosts * each) : NULL;
    rd_free(host_of);
    return made;
}

void rd_hosts_free(rd_hosts *hosts)
{
    rd_free(hosts);
}

bool rd_hosts_equal(const rd_hosts *a, const rd_hosts *b)
{
    if (!a || !b || a == b)
        return a == b;
    bool equal = a->size == b->size && a->count == b->count;
    for (uint32_t r = 0; equal && r < a->size; r++)
        equal = a->of[r] == b->of[r];
    return equal;
}

rd_stand rd_stand_of(rd_shape s, uint32_t rank)
{
    const rd_hosts *hosts = s.hosts;
    if (!hosts)
        return (rd_stand){1, 0, s.size, rank, s.size, s.size};
    const uint32_t host = hosts->of[rank];
    return (rd_stand){hosts->count,    host,          rd_ranks_on(s, host), hosts->number[rank],
                      hosts->smallest, hosts->largest};
}

const uint32_t *rd_host_peers(rd_shape s, uint32_t host)
{
    return s.hosts ? s.hosts->ranks + s.hosts->first[host] : NULL;
}
