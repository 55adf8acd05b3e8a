/* liar.c: see liar.h.
 *
 * A forged line stands where the true one would, with the right number, and is there first.  It says
 * the truth but for one thing. */
#include "liar.h"

#include <string.h>

#include "calls.h"

uint64_t hurtful(rng *r, uint64_t now, uint64_t limit)
{
    switch (rng_below(r, 10)) {
    case 0:
        return 0;
    case 1:
        return now + 1;
    case 2:
        return now - 1;
    case 3:
        return now ^ (uint64_t)1 << rng_below(r, 64);
    case 4:
        return limit - rng_below(r, 70);
    case 5:
        return UINT64_MAX - rng_below(r, 70);
    case 6:
        return rng_below(r, limit);
    case 7:
        return rng_below(r, 70);
    case 8:
        return (uint64_t)1 << rng_below(r, 64);
    default:
        return rng_next(r);
    }
}

enum { QUEUES = RD_CHANNELS + RD_MESSAGE_CHANNELS };

static struct {
    rd_data data;
    rd_member *member;
    uint32_t lines[LIAR_RANKS][QUEUES];
    rng random;
    uint32_t lie, countdown;
} liar;

/* Spoils where a line says that its bytes are, and how many. */
static void spoil_ref(rd_line *l, uint64_t bytes, uint64_t total)
{
    rng *r = &liar.random;
    const uint64_t limit = liar.member->limit;
    switch (liar.lie) {
    case 0:
        l->ref.at = limit - rng_below(r, bytes + 1);
        break;
    case 1:
        l->ref.at = UINT64_MAX - rng_below(r, 2 * bytes + 1);
        break;
    case 2:
        l->ref.len = 0;
        break;
    case 3:
        l->ref.len = 1;
        break;
    case 4:
        l->ref.len = bytes - 1;
        break;
    case 5: /* though a part of it has come already */
        l->ref.len = total;
        break;
    case 6:
        l->ref.len = 0 - l->ref.at;
        break;
    case 7:
        l->ref.total = hurtful(r, total, limit);
        break;
    default:
        l->ref.len = l->ref.total = bytes - 1;
    }
}

enum { REF_LIES = 9 };

/* Spoils a line that says the truth. */
static void spoil(rd_line *l, uint64_t bytes, uint64_t total)
{
    rng *r = &liar.random;
    const uint64_t limit = liar.member->limit;
    if (liar.lie < REF_LIES) {
        spoil_ref(l, bytes, total);
        return;
    }
    switch (liar.lie - REF_LIES) {
    case 0:
        l->kind = (uint8_t)rng_below(r, 8);
        break;
    case 1:
        l->kind = LINE_INLINE;
        l->len = (uint8_t)(49 + rng_below(r, 200));
        break;
    case 2:
        l->kind = LINE_RETURNED;
        l->ref.len = total;
        break;
    case 3:
        l->kind = LINE_LENT;
        l->ref.len = total;
        l->ref.back = hurtful(r, 0, limit);
        break;
    case 4: /* where the queues are */
        l->kind = LINE_LENT;
        l->ref.len = total;
        l->ref.back = (uintptr_t)liar.member->queues - liar.member->origin;
        break;
    case 5:
        l->mark = hurtful(r, l->mark, limit);
        break;
    case 6:
        l->ack = (uint16_t)rng_next(r);
        break;
    case 7: /* what letters say: their kind, and number or tag */
        l->mark = l->mark << 8 >> 8 | rng_below(r, 6) << 56;
        break;
    case 8:
        l->mark = l->mark >> 32 << 32 | (uint32_t)hurtful(r, l->mark, 5);
        break;
    default:
        ((uint64_t *)l)[1 + rng_below(r, 7)] = hurtful(r, ((uint64_t *)l)[1], limit);
    }
}

rd_line *line_of(rd_member *m, uint32_t from, uint32_t to, uint32_t channel, uint32_t number)
{
    rd_queue *q = &m->queues[((size_t)channel * m->link.size + from) * m->link.size + to];
    return &q->lines[number % RD_QUEUE];
}

static rd_line *own_line(uint32_t peer, uint32_t channel, uint32_t number)
{
    return line_of(liar.member, liar.member->link.rank, peer, channel, number);
}

static void publish(uint32_t peer, uint32_t channel, const rd_line *line)
{
    const uint32_t number = liar.lines[peer][channel]++;
    rd_line *to = own_line(peer, channel, number);
    memcpy((char *)to + 4, (const char *)line + 4, 60);
    atomic_store(&to->seq, number + 1);
    if (channel >= RD_CHANNELS) /* or nobody looks */
        atomic_fetch_add(&liar.member->boards[peer].message_lines, 1);
}

/* A long message may begin with a piece that is as it should be. */
static void forge(uint32_t peer, uint32_t channel, uint64_t bytes, uint64_t total, uint64_t mark)
{
    rd_line line = {.mark = mark, .kind = LINE_INLINE, .len = (uint8_t)bytes};
    if (total > RD_INLINE || liar.lie < REF_LIES) {
        line.kind = LINE_STAGED;
        line.ref.at = liar.member->arena->at;
        line.ref.len = bytes;
        line.ref.total = total;
        line.ref.back_ordinal = (uint32_t)rng_below(&liar.random, 4);
    }
    if (bytes > 2 * RD_INLINE && rng_below(&liar.random, 2)) {
        line.ref.len = bytes / 2 & ~(uint64_t)7;
        publish(peer, channel, &line);
        bytes -= line.ref.len;
        line.ref.len = bytes;
    }
    spoil(&line, bytes, total);
    publish(peer, channel, &line);
}

static void lie_or_commit(uint32_t peer, uint32_t channel, rd_port *port, uint64_t bytes,
                          uint64_t total, uint64_t mark)
{
    const bool now = liar.countdown-- == 0;
    if (now && rng_below(&liar.random, 4)) {
        forge(peer, channel, bytes, total, mark);
        return; /* and that is all that is ever said of it */
    }
    rd_share_commit(port, bytes, total, mark);
    if (now)
        spoil(own_line(peer, channel, liar.lines[peer][channel]), bytes, total);
    liar.lines[peer][channel]++;
}

static void liar_commit(rd_port *port, uint64_t bytes, uint64_t total, uint64_t mark)
{
    for (uint32_t peer = 0; peer < liar.member->link.size; peer++)
        for (uint32_t c = 0; c < QUEUES; c++)
            if (rd_share_port(&liar.member->link, peer, c) == port) {
                lie_or_commit(peer, c, port, bytes, total, mark);
                return;
            }
}

void become_liar(rd_link *link, uint64_t seed, uint32_t lie, uint32_t after)
{
    memset(&liar, 0, sizeof liar);
    liar.member = (rd_member *)link;
    liar.random = (rng){seed};
    liar.lie = lie;
    liar.countdown = after;
    liar.data = *liar.member->data;
    liar.data.commit = liar_commit;
    liar.member->data = &liar.data;
}
