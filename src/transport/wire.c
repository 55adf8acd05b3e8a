#include "transport/wire.h"

#include <string.h>

static const uint8_t MAGIC[8] = {'R', 'O', 'N', 'D', 'A', 0x0d, 0x0a, 0x1a};

enum {
    AT_VERSION = 8,
    AT_KIND = 12,
    AT_RANK = 16,
    AT_SIZE = 20,
    AT_NUMBER = 24,
    AT_NONCE = 32,
    AT_MAC = 64,
    AT_TEXT = 96
};
_Static_assert(AT_TEXT + RD_FRAME_TEXT == RD_FRAME, "a frame is its fields");

static void put(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

void rd_frame_pack(const rd_frame *f, uint8_t bytes[RD_FRAME])
{
    memset(bytes, 0, RD_FRAME);
    memcpy(bytes, MAGIC, sizeof MAGIC);
    put(bytes + AT_VERSION, RD_WIRE_VERSION);
    put(bytes + AT_KIND, f->kind);
    put(bytes + AT_RANK, f->rank);
    put(bytes + AT_SIZE, f->size);
    put(bytes + AT_NUMBER, (uint32_t)f->number);
    memcpy(bytes + AT_NONCE, f->nonce, sizeof f->nonce);
    memcpy(bytes + AT_MAC, f->mac, sizeof f->mac);
    memcpy(bytes + AT_TEXT, f->text, strnlen(f->text, RD_FRAME_TEXT - 1));
}

rd_frame_verdict rd_frame_unpack(const uint8_t bytes[RD_FRAME], rd_frame *f)
{
    if (memcmp(bytes, MAGIC, sizeof MAGIC) != 0)
        return RD_FRAME_FOREIGN;
    *f = (rd_frame){.version = get(bytes + AT_VERSION)};
    if (f->version != RD_WIRE_VERSION)
        return RD_FRAME_VERSION;
    f->kind = get(bytes + AT_KIND);
    f->rank = get(bytes + AT_RANK);
    f->size = get(bytes + AT_SIZE);
    f->number = (int32_t)get(bytes + AT_NUMBER);
    memcpy(f->nonce, bytes + AT_NONCE, sizeof f->nonce);
    memcpy(f->mac, bytes + AT_MAC, sizeof f->mac);
    memcpy(f->text, bytes + AT_TEXT, RD_FRAME_TEXT);
    f->text[RD_FRAME_TEXT - 1] = 0;
    for (char *c = f->text; *c; c++) /* it is shown to people */
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    return f->kind >= RD_HELLO && f->kind <= RD_LAST_KIND ? RD_FRAME_OK : RD_FRAME_FOREIGN;
}

/* --- between ranks that are connected --- */

static void put64(uint8_t *to, uint64_t value)
{
    put(to, (uint32_t)value);
    put(to + 4, (uint32_t)(value >> 32));
}

static uint64_t get64(const uint8_t *from)
{
    return get(from) | (uint64_t)get(from + 4) << 32;
}

void rd_greeting_pack(const rd_greeting *g, uint8_t bytes[RD_GREETING])
{
    memset(bytes, 0, RD_GREETING);
    memcpy(bytes, MAGIC, sizeof MAGIC);
    put(bytes + 8, RD_WIRE_VERSION);
    put(bytes + 12, g->features);
    put64(bytes + 16, g->job);
    put(bytes + 24, g->rank);
    put(bytes + 28, g->to);
    put(bytes + 32, g->size);
    memcpy(bytes + 40, g->mac, sizeof g->mac);
}

rd_frame_verdict rd_greeting_unpack(const uint8_t bytes[RD_GREETING], rd_greeting *g)
{
    if (memcmp(bytes, MAGIC, sizeof MAGIC) != 0)
        return RD_FRAME_FOREIGN;
    *g = (rd_greeting){.version = get(bytes + 8),
                       .features = get(bytes + 12),
                       .job = get64(bytes + 16),
                       .rank = get(bytes + 24),
                       .to = get(bytes + 28),
                       .size = get(bytes + 32)};
    memcpy(g->mac, bytes + 40, sizeof g->mac);
    return g->version == RD_WIRE_VERSION ? RD_FRAME_OK : RD_FRAME_VERSION;
}

void rd_head_pack(const rd_head *h, uint8_t bytes[RD_HEAD])
{
    bytes[0] = h->kind;
    bytes[1] = h->channel;
    bytes[2] = (uint8_t)h->call.type;
    bytes[3] = (uint8_t)h->call.kind;
    put(bytes + 4, h->bytes);
    put64(bytes + 8, h->world);
    put64(bytes + 16, h->call.mark);
    put64(bytes + 24, h->total);
    put64(bytes + 32, h->call.sequence);
    put64(bytes + 40, h->call.count);
    put(bytes + 48, (uint32_t)h->call.op);
    put(bytes + 52, h->call.root);
    put(bytes + 56, h->call.algorithm);
    put(bytes + 60, h->taken);
    put64(bytes + 64, h->freed);
}

bool rd_head_unpack(const uint8_t bytes[RD_HEAD], rd_head *h)
{
    *h = (rd_head){.kind = bytes[0],
                   .channel = bytes[1],
                   .bytes = get(bytes + 4),
                   .world = get64(bytes + 8),
                   .total = get64(bytes + 24),
                   .call = {.sequence = get64(bytes + 32),
                            .mark = get64(bytes + 16),
                            .count = get64(bytes + 40),
                            .kind = bytes[3],
                            .type = bytes[2],
                            .op = (ronda_op)get(bytes + 48),
                            .root = get(bytes + 52),
                            .algorithm = get(bytes + 56)},
                   .taken = get(bytes + 60),
                   .freed = get64(bytes + 64)};
    switch (h->kind) {
    case RD_MESSAGE:
        return h->bytes <= RD_MOST_PARCEL && h->bytes <= h->total && h->total <= INT64_MAX &&
               (h->bytes || !h->total);
    case RD_NEWS:
        return h->bytes <= RD_MOST_PARCEL && h->bytes % RD_NEWS_ITEM == 0;
    case RD_ALARM:
        return h->bytes == RD_CAUSE;
    default:
        return h->kind >= RD_MESSAGE && h->kind <= RD_LAST_PARCEL && h->bytes == 0;
    }
}

void rd_news_pack(const rd_news *n, uint8_t bytes[RD_NEWS_ITEM])
{
    memset(bytes, 0, RD_NEWS_ITEM);
    put(bytes, n->rank);
    put(bytes + 4, n->awaits);
    put(bytes + 8, n->age_ms);
    bytes[12] = (uint8_t)(n->inside | n->posted << 1 | n->closed << 2);
    bytes[13] = (uint8_t)n->call.kind;
    bytes[14] = (uint8_t)n->call.type;
    put64(bytes + 16, n->call.sequence);
    put64(bytes + 24, n->call.mark);
    put64(bytes + 32, n->call.count);
    put(bytes + 40, (uint32_t)n->call.op);
    put(bytes + 44, n->call.root);
    put(bytes + 48, n->call.algorithm);
}

void rd_news_unpack(const uint8_t bytes[RD_NEWS_ITEM], rd_news *n)
{
    *n = (rd_news){.rank = get(bytes),
                   .awaits = get(bytes + 4),
                   .age_ms = get(bytes + 8),
                   .inside = bytes[12] & 1,
                   .posted = bytes[12] & 2,
                   .closed = bytes[12] & 4,
                   .call = {.sequence = get64(bytes + 16),
                            .mark = get64(bytes + 24),
                            .count = get64(bytes + 32),
                            .kind = bytes[13],
                            .type = bytes[14],
                            .op = (ronda_op)get(bytes + 40),
                            .root = get(bytes + 44),
                            .algorithm = get(bytes + 48)}};
}

void rd_cause_pack(const rd_error *e, uint8_t bytes[RD_CAUSE])
{
    memset(bytes, 0, RD_CAUSE);
    put(bytes, (uint32_t)e->status);
    put(bytes + 4, e->rank);
    put(bytes + 8, e->peer);
    put64(bytes + 16, e->sequence);
    memcpy(bytes + 24, e->message, strnlen(e->message, sizeof e->message - 1));
}

void rd_cause_unpack(const uint8_t bytes[RD_CAUSE], rd_error *e)
{
    *e = (rd_error){.status = (ronda_status)get(bytes),
                    .rank = get(bytes + 4),
                    .peer = get(bytes + 8),
                    .sequence = get64(bytes + 16)};
    memcpy(e->message, bytes + 24, sizeof e->message);
    e->message[sizeof e->message - 1] = 0;
    for (char *c = e->message; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    if (e->status > RONDA_ETIMEOUT || e->status < RONDA_EINTERNAL || !e->message[0])
        rd_fail(e, RONDA_EPEER, RONDA_ANY, "a rank said that the world has failed, but not why");
}
