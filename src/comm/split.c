/* split.c: a part of a communicator's ranks as a communicator of its own.
 *
 *     1  all ranks tell each other color and key (all-gather): everybody knows every part
 *     2  ranks of each part say what they offer to it: its memory, its number (all-gather)
 *     3  members join; all ranks agree on whether everybody could (allreduce), or nobody has
 *
 * These are calls of the communicator that is split: they are numbered, checked and fail like others. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm.h"

#include <string.h>

/* Calls of these purposes meet none of the program's own. */
enum { TELLS_COLOR = 1, TELLS_OFFER, AGREES };

typedef struct {
    int32_t color, key;
} ticket;

/* This rank's part: its ranks in the order of keys, then of ranks. */
typedef struct {
    uint32_t *members;
    uint32_t size, rank;
    rd_offer *offers; /* of its members */
} part;

static bool before(const ticket tickets[], uint32_t a, uint32_t b)
{
    return tickets[a].key != tickets[b].key ? tickets[a].key < tickets[b].key : a < b;
}

static void find_part(const ronda_comm *c, const ticket tickets[], part *p)
{
    const int32_t mine = tickets[c->rank].color;
    for (uint32_t r = 0; r < c->size && mine >= 0; r++) {
        if (tickets[r].color != mine)
            continue;
        uint32_t at = p->size++;
        for (; at && before(tickets, r, p->members[at - 1]); at--)
            p->members[at] = p->members[at - 1];
        p->members[at] = r;
    }
    for (uint32_t i = 0; i < p->size; i++)
        if (p->members[i] == c->rank)
            p->rank = i;
}

/* One timeout for all calls of a split. */
static uint64_t time_left(uint64_t until_ns)
{
    const uint64_t now = rd_now_ns();
    return until_ns > now ? until_ns - now : 1;
}

static ronda_status gather(ronda_comm *c, uint8_t purpose, size_t words, const void *mine,
                           void *all, uint64_t until_ns)
{
    rd_call call = {.kind = RONDA_ALLGATHER,
                    .type = RONDA_U64,
                    .count = words,
                    .purpose = purpose,
                    .timeout_ns = time_left(until_ns)};
    return rd_submit(c, &call, mine, all, NULL);
}

/* The others have made a call of the split that this rank cannot make: that ends the communicator. */
static ronda_status half_way(ronda_comm *c, ronda_status status)
{
    if (status != RONDA_ENOMEM)
        return status;
    rd_error cause = {.rank = c->rank};
    rd_fail(&cause, RONDA_ESYSTEM, c->rank, "rank %u had no memory in the middle of a split",
            c->rank);
    c->link->transport->abort(c->link, &cause);
    c->error = cause;
    return cause.status;
}

/* The worst that any rank met, so that all know; `ours` then becomes the communicator's error if this is
 * where it was. */
static ronda_status agree(ronda_comm *c, ronda_status status, const rd_error *ours,
                          uint64_t until_ns)
{
    int32_t worst = status;
    rd_call call = {.kind = RONDA_ALLREDUCE,
                    .type = RONDA_I32,
                    .op = RONDA_MIN,
                    .count = 1,
                    .purpose = AGREES,
                    .timeout_ns = time_left(until_ns)};
    const ronda_status failed = rd_submit(c, &call, &worst, &worst, NULL);
    if (failed || !worst)
        return half_way(c, failed);
    c->error = *ours;
    if (status)
        return status;
    return rd_comm_fail(c, worst, "another rank could not split: %s", ronda_strerror(worst));
}

static bool is_offer(const rd_offer *offer)
{
    return offer->memory || offer->number;
}

/* Opens this rank's end, if it is in a part at all. */
static ronda_status open_part(ronda_comm *c, const part *p, ronda_comm **out, rd_error *err)
{
    const rd_transport *t = c->link->transport;
    rd_settings settings = {.timeout_ns = c->timeout_ns, .log = c->log, .debug = c->listens};
    rd_link *link;
    memcpy(settings.forced, c->forced, sizeof settings.forced);
    if (!is_offer(p->offers)) {
        if (is_offer(&p->offers[p->rank]))
            t->withdraw(c->link, &p->offers[p->rank], p->members, p->size);
        return rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "rank %u: its part has no memory", c->rank);
    }
    ronda_status status = t->join(c->link, p->offers, p->members, p->size, p->rank, &link, err);
    if (status)
        return status;
    status = rd_comm_open(link, &settings, c, out, err);
    if (status)
        link->transport->close(link);
    return status;
}

static ronda_status split(ronda_comm *c, ticket mine, rd_offer *room, part *p, ronda_comm **out)
{
    const rd_transport *t = c->link->transport;
    rd_error err = {.rank = c->rank};
    ronda_comm *made = NULL;
    rd_offer offer = {0};
    const uint64_t until = rd_deadline_ns(c->timeout_ns);
    ronda_status status = gather(c, TELLS_COLOR, 1, &mine, room, until);
    if (status)
        return status;
    find_part(c, (const ticket *)room, p);
    ronda_status local = RONDA_OK;
    if (p->size)
        local = t->split(c->link, p->members, p->size, p->rank, &offer, &err);
    if (local)
        offer = (rd_offer){0};
    status = half_way(c, gather(c, TELLS_OFFER, 2, &offer, room, until));
    if (status && is_offer(&offer))
        t->withdraw(c->link, &offer, p->members, p->size); /* nobody will come */
    for (uint32_t i = 0; i < p->size; i++)
        p->offers[i] = room[p->members[i]];
    if (!status && p->size && !local)
        local = open_part(c, p, &made, &err);
    if (!status)
        status = agree(c, local, &err, until);
    if (status && made)
        rd_comm_close(made);
    else if (!status)
        *out = made;
    return status;
}

ronda_status rd_comm_split(ronda_comm *c, int color, int key, ronda_comm **out)
{
    rd_offer *room = rd_alloc(c->size * sizeof *room);
    part p = {.members = rd_alloc(c->size * sizeof *p.members),
              .offers = rd_alloc(c->size * sizeof *p.offers)};
    ronda_status status;
    rd_comm_lock(c);
    if (room && p.members && p.offers && c->link->transport->split)
        status = split(c, (ticket){color < 0 ? -1 : color, key}, room, &p, out);
    else
        status = rd_comm_fail(c, RONDA_ENOMEM, "no memory to split %u ranks", c->size);
    rd_comm_unlock(c);
    rd_free(room);
    rd_free(p.members);
    rd_free(p.offers);
    return status;
}
