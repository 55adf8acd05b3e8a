/* matches.c: both ends of each message.  The i-th send from a to b is the i-th receive of b from a, so
 * lanes are joined in pairs, and their messages must be as many and as long. */
#include "proof/checking.h"

#include "base/mem.h"

typedef struct {
    uint64_t *keys; /* 1 + (owner, peer, direction); 0: free */
    uint32_t *lanes;
    uint64_t size; /* a power of two */
} lane_table;

static uint64_t lane_key(const rd_checking *c, uint32_t owner, uint32_t peer, bool sends)
{
    return 1 + 2 * ((uint64_t)owner * c->n + peer) + sends;
}

static uint64_t lane_place(const lane_table *t, uint64_t key)
{
    uint64_t i = (key * 0x9E3779B97F4A7C15u >> 20) & (t->size - 1);
    while (t->keys[i] && t->keys[i] != key)
        i = (i + 1) & (t->size - 1);
    return i;
}

static bool enter_lanes(rd_checking *c, lane_table *t)
{
    for (uint32_t r = 0; r < c->n; r++)
        for (uint32_t l = 0; l < c->plans[r]->lane_count; l++) {
            const rd_plan_lane *lane = &c->plans[r]->lanes[l];
            const uint64_t key =
                lane_key(c, r, lane->peer == RD_NONE ? r : lane->peer, lane->sends);
            const uint64_t place = lane_place(t, key);
            if (t->keys[place])
                return rd_refuse(
                    c, "rank %u has two lanes for one peer and direction (lane %u is the second)",
                    r, l);
            t->keys[place] = key;
            t->lanes[place] = c->lane_base[r] + l;
            c->lane_rank[c->lane_base[r] + l] = r;
        }
    return true;
}

static bool match_lane(rd_checking *c, const lane_table *t, uint32_t rank, uint32_t l)
{
    const rd_plan *p = c->plans[rank];
    const rd_plan_lane *lane = &p->lanes[l];
    c->match[c->lane_base[rank] + l] = RD_NONE;
    if (lane->peer == RD_NONE)
        return true;
    const rd_plan *q = c->plans[lane->peer];
    const uint64_t place = lane_place(t, lane_key(c, lane->peer, rank, !lane->sends));
    const rd_plan_lane none = {0};
    const rd_plan_lane *other =
        t->keys[place] ? &q->lanes[t->lanes[place] - c->lane_base[lane->peer]] : &none;
    const uint32_t messages = lane->end - lane->first, there = other->end - other->first;
    if (messages != there)
        return rd_refuse(c, "rank %u has %u %s rank %u, which has %u for it", rank, messages,
                         lane->sends ? "messages for" : "receives from", lane->peer, there);
    if (!t->keys[place])
        return true; /* both empty */
    c->match[c->lane_base[rank] + l] = t->lanes[place];
    for (uint32_t i = 0; i < messages && lane->sends; i++)
        if (p->steps[lane->first + i].count != q->steps[other->first + i].count)
            return rd_refuse(
                c,
                "message #%u from rank %u to rank %u is sent with %llu elements and received with %llu",
                i, rank, lane->peer, (unsigned long long)p->steps[lane->first + i].count,
                (unsigned long long)q->steps[other->first + i].count);
    c->proof->messages += lane->sends ? messages : 0;
    return true;
}

bool rd_check_matches(rd_checking *c)
{
    lane_table t = {.size = 16};
    while (t.size < 2ull * c->lane_base[c->n])
        t.size *= 2;
    t.keys = rd_alloc(t.size * sizeof *t.keys);
    t.lanes = rd_alloc(t.size * sizeof *t.lanes);
    bool ok = t.keys && t.lanes ? enter_lanes(c, &t) : rd_refuse_memory(c);
    for (uint32_t r = 0; r < c->n && ok; r++)
        for (uint32_t l = 0; l < c->plans[r]->lane_count && ok; l++)
            ok = match_lane(c, &t, r, l);
    rd_free(t.keys);
    rd_free(t.lanes);
    return ok;
}
