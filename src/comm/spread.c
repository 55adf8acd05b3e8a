/* spread.c: from rank 0 to everybody: the table of places, and the word to start.
 *
 *     rank 0            r                 its branches
 *        | --- table --> | --- table ------> |
 *        |               | <-- ready ------- |   when all below are
 *        | <-- ready --- |                   |
 *        | --- go -----> | --- go ---------> |
 *
 * In worlds of up to RD_HELD_RANKS every rank is a branch of rank 0, over the line on which it joined.  In
 * larger ones rank r has RD_BRANCHES of them, 8r+1 to 8r+8, and calls each at its own listener. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/reach.h"
#include "comm/rendezvous.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

uint32_t rd_spread_parent(uint32_t rank)
{
    return (rank - 1) / RD_BRANCHES;
}

void rd_spread_name(const rd_gathering *g, uint32_t rank, char *text, size_t capacity)
{
    const rd_place *p = &g->places[rank];
    if (p->pid)
        snprintf(text, capacity, "rank %u (pid %" PRId32 " on %s)", rank, p->pid, p->name);
    else
        snprintf(text, capacity, "rank %u", rank);
}

ronda_status rd_spread_call(rd_gathering *g, rd_branch branches[RD_BRANCHES], uint32_t *count)
{
    const uint32_t first = g->j->rank * RD_BRANCHES + 1;
    *count = 0;
    for (uint32_t r = first; r < first + RD_BRANCHES && r < g->j->size; r++) {
        rd_reaching reaching = {.way = g->way,
                                .key = g->key,
                                .rank = g->j->rank,
                                .peer = r,
                                .size = g->j->size,
                                .job = g->job,
                                .until_ns = g->until_ns};
        rd_place place;
        rd_branch *b = &branches[*count];
        *b = (rd_branch){.rank = r};
        rd_reach_place(&reaching, &g->places[r]);
        char who[128];
        rd_spread_name(g, r, who, sizeof who);
        const ronda_status status = rd_reach(&reaching, who, &b->session, &place, g->err);
        if (status)
            return status;
        ++*count;
    }
    return RONDA_OK;
}

typedef struct {
    rd_gathering *g;
    rd_session *up; /* NULL: this is rank 0 */
    rd_branch *branches;
    uint32_t count, ready;
    bool go;
    struct pollfd *polled;
} spread;

static ronda_status lost(const spread *s, uint32_t rank, rd_received received)
{
    char who[128];
    rd_spread_name(s->g, rank, who, sizeof who);
    return rd_fail(s->g->err, RONDA_EPEER, rank, "%s %s while the ranks were gathering", who,
                   received == RD_RECEIVED_END ? "left" : "said what makes no sense");
}

static ronda_status hear_branch(spread *s, rd_branch *b)
{
    rd_frame frame;
    const rd_received received = rd_session_receive(&b->session, &frame);
    if (received == RD_RECEIVED_PART)
        return RONDA_OK;
    if (received == RD_RECEIVED_FRAME && frame.kind == RD_FRAME_REJECT)
        return rd_session_rejected(&b->session, &frame, s->g->err);
    if (received != RD_RECEIVED_FRAME || frame.kind != RD_FRAME_READY || b->ready)
        return lost(s, b->rank, received);
    b->ready = true;
    s->ready++;
    return RONDA_OK;
}

static ronda_status hear_up(spread *s)
{
    rd_frame frame;
    const rd_received received = rd_session_receive(s->up, &frame);
    if (received == RD_RECEIVED_PART)
        return RONDA_OK;
    if (received == RD_RECEIVED_FRAME && frame.kind == RD_FRAME_REJECT)
        return rd_session_rejected(s->up, &frame, s->g->err);
    const uint32_t above = s->g->j->size <= RD_HELD_RANKS ? 0 : rd_spread_parent(s->g->j->rank);
    if (received != RD_RECEIVED_FRAME || frame.kind != RD_FRAME_GO || s->ready < s->count)
        return lost(s, above, received);
    s->go = true;
    return RONDA_OK;
}

static ronda_status too_late(const spread *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (!s->branches[i].ready) {
            char who[128];
            rd_spread_name(s->g, s->branches[i].rank, who, sizeof who);
            return rd_fail(s->g->err, RONDA_ETIMEOUT, s->branches[i].rank,
                           "%s did not become ready within %.3g s", who,
                           (double)s->g->j->timeout_ns / 1e9);
        }
    return rd_fail(s->g->err, RONDA_ETIMEOUT, 0, "rank %u: rank 0 did not start within %.3g s",
                   s->g->j->rank, (double)s->g->j->timeout_ns / 1e9);
}

/* Until all branches are ready; or, for_go, until the word comes from above. */
static ronda_status await(spread *s, bool for_go)
{
    const uint64_t until_ns = rd_gathering_later(s->g, s->up ? 2 : 1);
    while (for_go ? !s->go : s->ready < s->count) {
        const uint64_t now = rd_now_ns();
        if (now >= until_ns)
            return too_late(s);
        s->polled[0] = (struct pollfd){.fd = s->up ? s->up->fd : -1, .events = POLLIN};
        for (uint32_t i = 0; i < s->count; i++)
            s->polled[1 + i] = (struct pollfd){.fd = s->branches[i].session.fd, .events = POLLIN};
        const uint64_t ms = (until_ns - now) / 1000000 + 1;
        const int ready = poll(s->polled, s->count + 1, ms > INT_MAX ? INT_MAX : (int)ms);
        if (ready < 0 && errno != EINTR)
            return rd_fail(s->g->err, RONDA_ESYSTEM, RONDA_ANY,
                           "rank %u cannot wait for other ranks: %s", s->g->j->rank,
                           strerror(errno));
        ronda_status status = ready > 0 && s->polled[0].revents ? hear_up(s) : RONDA_OK;
        for (uint32_t i = 0; i < s->count && !status && ready > 0; i++)
            if (s->polled[1 + i].revents)
                status = hear_branch(s, &s->branches[i]);
        if (status)
            return status;
    }
    return RONDA_OK;
}

static ronda_status tell_branches(spread *s, const rd_frame *frame, const void *body)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (!rd_session_send(&s->branches[i].session, frame, body, s->g->until_ns))
            return lost(s, s->branches[i].rank, RD_RECEIVED_END);
    return RONDA_OK;
}

static ronda_status hand_on(spread *s)
{
    const rd_gathering *g = s->g;
    const rd_frame table = {
        .kind = RD_FRAME_TABLE, .from = g->j->rank, .job = g->job, .bytes = g->j->size * RD_PLACE};
    uint8_t *bytes = s->count ? rd_alloc(table.bytes) : NULL;
    if (s->count && !bytes)
        return rd_fail(g->err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for %u ranks",
                       g->j->rank, g->j->size);
    for (uint32_t r = 0; r < g->j->size && bytes; r++)
        rd_place_pack(&g->places[r], bytes + (size_t)r * RD_PLACE);
    ronda_status status = tell_branches(s, &table, bytes);
    rd_free(bytes);
    if (!status)
        status = await(s, false);
    const rd_frame ready = {.kind = RD_FRAME_READY, .from = g->j->rank, .job = g->job};
    if (!status && s->up && !rd_session_send(s->up, &ready, NULL, g->until_ns))
        s->go = false; /* the reason is received next */
    if (!status && s->up)
        status = await(s, true);
    const rd_frame go = {.kind = RD_FRAME_GO, .from = g->j->rank, .job = g->job};
    return status ? status : tell_branches(s, &go, NULL);
}

ronda_status rd_spread(rd_gathering *g, rd_session *up, rd_branch *branches, uint32_t count)
{
    spread s = {.g = g, .up = up, .branches = branches, .count = count};
    s.polled = rd_alloc((count + 1) * sizeof *s.polled);
    const ronda_status status =
        s.polled ? hand_on(&s)
                 : rd_fail(g->err, RONDA_ENOMEM, RONDA_ANY, "rank %u: no memory for %u ranks",
                           g->j->rank, g->j->size);
    for (uint32_t i = 0; i < count; i++) {
        if (status)
            rd_session_reject(&branches[i].session, status, g->err->peer, g->err->message);
        rd_session_close(&branches[i].session);
    }
    if (status && up)
        rd_session_reject(up, status, g->err->peer, g->err->message);
    rd_free(s.polled);
    return status;
}
