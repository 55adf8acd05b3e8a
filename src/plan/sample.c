/* sample.c: which ranks stand for all when a plan is priced.  Ranks of one host are far from each other; of several
 * hosts all ranks of some are taken, so that it is known what goes over a host's wire. */
#include "plan/sample.h"

#include "plan/hosts.h"

enum { SAMPLES = 16, LEAST_HOSTS = RD_SAMPLE_MOST / RD_SAMPLE_OF_HOST, SOME_OF_HOST = 4 };

static void take(rd_sample *of, uint32_t rank, double weight)
{
    of->ranks[of->count] = rank;
    of->weight[of->count++] = weight;
    of->all += weight;
}

static void take_of_host(rd_sample *of, const rd_shape *s, uint32_t host)
{
    const uint32_t ranks = rd_ranks_on(*s, host);
    const uint32_t some = ranks < RD_SAMPLE_OF_HOST ? ranks : RD_SAMPLE_OF_HOST;
    for (uint32_t k = 0; k < some; k++)
        take(of, rd_rank_on(*s, host, (uint32_t)((uint64_t)k * ranks / some)),
             (double)ranks / some);
}

/* Few of them: the first and the last, which often do more than others, and two for those; the first comes
 * after the others. */
static void take_few_of_host(rd_sample *of, const rd_shape *s, uint32_t host)
{
    const uint32_t ranks = rd_ranks_on(*s, host);
    const uint32_t some = ranks < SOME_OF_HOST ? ranks : SOME_OF_HOST;
    const double others = (double)(ranks - 2) / (SOME_OF_HOST - 2);
    for (uint32_t i = 1; i <= some; i++) {
        const uint32_t k = i % some;
        const bool end = ranks <= SOME_OF_HOST || k == 0 || k == some - 1;
        take(of, rd_rank_on(*s, host, k ? (uint32_t)((uint64_t)k * (ranks - 1) / (some - 1)) : 0),
             end ? 1 : others);
    }
}

/* The order is such that the first few are far from each other, too. */
static void take_far_apart(rd_sample *of, const rd_shape *s)
{
    const uint32_t n = s->size, count = n < SAMPLES ? n : SAMPLES;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t turned = (i & 1) << 3 | (i & 2) << 1 | (i & 4) >> 1 | (i & 8) >> 3;
        const uint32_t at = count == SAMPLES ? turned : i;
        take(of, (uint32_t)((s->root + (uint64_t)at * n / count) % n), 1);
    }
}

/* Number i of some hosts, of which number 0 is the root's. */
static uint32_t host_of_some(const rd_shape *s, uint32_t i, uint32_t some)
{
    const uint32_t all = s->hosts->count;
    return (uint32_t)((s->hosts->of[s->root] + (uint64_t)i * all / some) % all);
}

void rd_sample_many(const rd_shape *s, rd_sample *of)
{
    if (!rd_has_hosts(s)) {
        take_far_apart(of, s);
        return;
    }
    const uint32_t all = s->hosts->count, most = SAMPLES / s->hosts->largest;
    const uint32_t room = most < LEAST_HOSTS ? LEAST_HOSTS : most;
    const uint32_t hosts = s->size <= SAMPLES || all < room ? all : room;
    for (uint32_t i = 0; i < hosts; i++)
        take_of_host(of, s, host_of_some(s, i, hosts));
}

void rd_sample_few(const rd_shape *s, rd_sample *of)
{
    take_few_of_host(of, s, host_of_some(s, 1, 2));
    take_few_of_host(of, s, host_of_some(s, 0, 2));
}
