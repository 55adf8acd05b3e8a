/* share_member.c: one rank's end of a world in one mapping: where things are in it, opening and closing. */
#include "transport/share.h"

#include "base/mem.h"

#include <assert.h>

size_t rd_board_bytes(uint32_t size, uint32_t channels)
{
    return sizeof(rd_share_head) +
           size * (sizeof(rd_board) + rd_records(channels) * sizeof(rd_announced));
}

size_t rd_share_bytes(uint32_t size, uint32_t channels)
{
    return rd_board_bytes(size, channels) +
           (size_t)size * size * rd_queues(channels) * sizeof(rd_queue);
}

static bool open_member(rd_member *m, const rd_transport *transport, void *mapping, uint32_t rank,
                        uint32_t size, uint32_t channels)
{
    assert(rank < size && (uintptr_t)mapping % _Alignof(rd_share_head) == 0);
    m->head = mapping;
    m->boards = (rd_board *)(m->head + 1);
    m->calls = (rd_announced *)(m->boards + size);
    m->queues = (rd_queue *)(m->calls + (size_t)size * rd_records(channels));
    m->link = (rd_link){.transport = transport,
                        .rank = rank,
                        .size = size,
                        .channels = channels,
                        .heap = m->whole,
                        .generation = rd_generation_enter(),
                        .failure = &m->head->failure,
                        .alarm = &m->head->failure.alarm,
                        .fences = m->whole->link.fences,
                        .running = &m->boards[rank].running};
    m->link.choices = m->head->choices;
    m->ports_bytes = rd_share_ports_bytes(size, channels);
    m->ports = rd_map(m->ports_bytes);
    m->link.boards = rd_alloc(size * sizeof *m->link.boards);
    for (uint32_t r = 0; r < size && m->link.boards; r++)
        m->link.boards[r] = (rd_known){.board = &m->boards[r],
                                       .calls = &m->calls[(size_t)r * rd_records(channels)],
                                       .records = rd_records(channels)};
    if (m->ports && m->link.boards)
        return true;
    rd_unmap(m->ports, m->ports_bytes);
    rd_free(m->link.boards);
    m->ports = NULL;
    return false;
}

bool rd_member_open(rd_member *m, const rd_transport *transport, void *mapping, uint32_t rank,
                    uint32_t size)
{
    m->whole = m;
    m->arena = &m->ring_of_all;
    m->users = 1;
    if (!open_member(m, transport, mapping, rank, size, RD_CHANNELS))
        return false;
    m->link.goodbyes = &m->head->goodbyes;
    m->link.cpus = m->head->cpus ? m->head->cpus : 1;
    m->crowded = size > m->link.cpus;
    return true;
}

bool rd_member_join(rd_member *m, rd_member *of, void *mapping, uint32_t rank, uint32_t size,
                    const uint32_t members[])
{
    rd_member *whole = of->whole;
    assert(whole->whole == whole && whole->users);
    m->whole = whole;
    m->data = whole->data;
    m->ranks = rd_alloc(size * sizeof *m->ranks);
    for (uint32_t r = 0; r < size && m->ranks; r++)
        m->ranks[r] = rd_rank_in_whole(of, members[r]);
    m->origin = whole->origin;
    m->limit = whole->limit;
    m->membarrier = whole->membarrier;
    m->arena = whole->arena;
    m->piece = whole->piece;
    m->share = whole->share;
    if (!m->ranks ||
        !open_member(m, whole->link.transport, mapping, rank, size, RD_PART_CHANNELS)) {
        rd_free(m->ranks);
        return false;
    }
    m->link.whole = &whole->link;
    m->link.goodbyes = &whole->head->goodbyes;
    m->link.cpus = rd_cpus_of_part(&whole->link, size);
    m->crowded = whole->crowded;
    whole->users++;
    return true;
}

void rd_member_close(rd_member *m)
{
    atomic_store(&m->boards[m->link.rank].closed, 1);
    atomic_fetch_add(&m->whole->head->goodbyes, 1);
    rd_wake_all(m);
}

void rd_member_free(rd_member *m)
{
    rd_unmap(m->ports, m->ports_bytes);
    rd_free(m->link.boards);
    rd_free(m->ranks);
}
