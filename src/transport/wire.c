#include "transport/wire.h"

#include <string.h>

#include "base/crc32c.h"

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

/* A kind in one byte: 1 for the first, 0 for none. */
static uint8_t kind_byte(ronda_kind kind)
{
    return kind ? (uint8_t)(kind - RONDA_ALLREDUCE + 1) : 0;
}

static ronda_kind kind_of(uint8_t byte)
{
    return byte ? byte - 1 + RONDA_ALLREDUCE : 0;
}

enum { AT_HEAD_CRC = RD_HEAD - 4 };

void rd_head_pack(const rd_head *h, uint8_t bytes[RD_HEAD])
{
    bytes[0] = h->kind;
    bytes[1] = h->channel;
    bytes[2] = (uint8_t)h->call.type;
    bytes[3] = kind_byte(h->call.kind);
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
    put(bytes + 72, h->body_crc);
    put(bytes + AT_HEAD_CRC, h->head_crc);
}

void rd_head_seal(uint8_t bytes[RD_HEAD])
{
    put(bytes + AT_HEAD_CRC, rd_crc32c(0, bytes, AT_HEAD_CRC));
}

bool rd_head_is_whole(const uint8_t bytes[RD_HEAD])
{
    return get(bytes + AT_HEAD_CRC) == rd_crc32c(0, bytes, AT_HEAD_CRC);
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
                            .kind = kind_of(bytes[3]),
                            .type = bytes[2],
                            .op = (ronda_op)get(bytes + 48),
                            .root = get(bytes + 52),
                            .algorithm = get(bytes + 56)},
                   .taken = get(bytes + 60),
                   .freed = get64(bytes + 64),
                   .body_crc = get(bytes + 72),
                   .head_crc = get(bytes + AT_HEAD_CRC)};
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
    bytes[12] = (uint8_t)((uint32_t)n->inside | (uint32_t)n->posted << 1 | (uint32_t)n->full << 2 |
                          (uint32_t)n->message.direction << 4);
    bytes[13] = kind_byte(n->call.kind);
    bytes[14] = (uint8_t)n->call.type;
    bytes[15] = (uint8_t)n->message.type;
    put64(bytes + 16, n->call.sequence);
    put64(bytes + 24, n->call.mark);
    put64(bytes + 32, n->call.count);
    put(bytes + 40, (uint32_t)n->call.op);
    put(bytes + 44, n->call.root);
    put(bytes + 48, n->call.algorithm);
    put(bytes + 52, n->message.tag);
    put64(bytes + 56, n->message.count);
}

void rd_news_unpack(const uint8_t bytes[RD_NEWS_ITEM], rd_news *n)
{
    *n = (rd_news){.rank = get(bytes),
                   .awaits = get(bytes + 4),
                   .age_ms = get(bytes + 8),
                   .inside = bytes[12] & 1,
                   .posted = bytes[12] & 2,
                   .full = bytes[12] & 4,
                   .call = {.sequence = get64(bytes + 16),
                            .mark = get64(bytes + 24),
                            .count = get64(bytes + 32),
                            .kind = kind_of(bytes[13]),
                            .type = bytes[14],
                            .op = (ronda_op)get(bytes + 40),
                            .root = get(bytes + 44),
                            .algorithm = get(bytes + 48)}};
    if (bytes[12] >> 4 <= RD_RECEIVING)
        n->message = (rd_pending){.direction = (rd_direction)(bytes[12] >> 4),
                                  .type = bytes[15],
                                  .peer = n->awaits,
                                  .tag = get(bytes + 52),
                                  .count = get64(bytes + 56)};
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

/* --- the table of ranks --- */

enum {
    AT_PLACE_PID = 8,
    AT_PLACE_CPUS = 12,
    AT_PLACE_PORT = 16,
    AT_PLACE_COUNT = 18,
    AT_PLACE_CHECKSUM = 19,
    AT_PLACE_QUOTA = 20,
    AT_PLACE_CORES = 24,
    AT_PLACE_NONCE = 32,
    AT_PLACE_NAME = AT_PLACE_NONCE + RD_NONCE,
    AT_PLACE_IPS = AT_PLACE_NAME + RD_HOST_NAME,
    IP_BYTES = 24
};
_Static_assert(AT_PLACE_IPS + RD_ADDRESSES * IP_BYTES == RD_PLACE, "a place is its fields");

void rd_place_pack(const rd_place *p, uint8_t bytes[RD_PLACE])
{
    memset(bytes, 0, RD_PLACE);
    put64(bytes, p->host);
    put(bytes + AT_PLACE_PID, (uint32_t)p->pid);
    put(bytes + AT_PLACE_CPUS, p->cpus);
    put(bytes + AT_PLACE_QUOTA, p->quota);
    put64(bytes + AT_PLACE_CORES, p->cores);
    memcpy(bytes + AT_PLACE_NONCE, p->nonce, RD_NONCE);
    bytes[AT_PLACE_PORT] = (uint8_t)p->port;
    bytes[AT_PLACE_PORT + 1] = (uint8_t)(p->port >> 8);
    bytes[AT_PLACE_COUNT] = p->count;
    bytes[AT_PLACE_CHECKSUM] = p->checksum;
    memcpy(bytes + AT_PLACE_NAME, p->name, strnlen(p->name, RD_HOST_NAME - 1));
    for (uint32_t i = 0; i < p->count && i < RD_ADDRESSES; i++) {
        uint8_t *to = bytes + AT_PLACE_IPS + i * IP_BYTES;
        to[0] = p->at[i].family;
        put(to + 4, p->at[i].scope);
        memcpy(to + 8, p->at[i].bytes, p->at[i].family == 4 ? 4 : 16);
    }
}

static bool ip_unpack(const uint8_t *bytes, rd_ip *ip)
{
    *ip = (rd_ip){.family = bytes[0], .scope = get(bytes + 4)};
    if (ip->family != 4 && ip->family != 6)
        return false;
    memcpy(ip->bytes, bytes + 8, ip->family == 4 ? 4 : 16);
    return ip->family == 6 || ip->scope == 0;
}

static bool is_name(const char name[RD_HOST_NAME])
{
    const size_t length = strnlen(name, RD_HOST_NAME);
    for (size_t i = 0; i < length; i++)
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    return length > 0 && length < RD_HOST_NAME;
}

bool rd_place_unpack(const uint8_t bytes[RD_PLACE], rd_place *p)
{
    uint8_t again[RD_PLACE];
    rd_place made = {.host = get64(bytes),
                     .pid = (int32_t)get(bytes + AT_PLACE_PID),
                     .cpus = get(bytes + AT_PLACE_CPUS),
                     .quota = get(bytes + AT_PLACE_QUOTA),
                     .cores = get64(bytes + AT_PLACE_CORES),
                     .port = (uint16_t)(bytes[AT_PLACE_PORT] | bytes[AT_PLACE_PORT + 1] << 8),
                     .count = bytes[AT_PLACE_COUNT],
                     .checksum = bytes[AT_PLACE_CHECKSUM]};
    memcpy(made.nonce, bytes + AT_PLACE_NONCE, RD_NONCE);
    memcpy(made.name, bytes + AT_PLACE_NAME, RD_HOST_NAME);
    if (!is_name(made.name) || made.pid <= 0 || !made.cpus || !made.quota || !made.port ||
        !made.count || made.count > RD_ADDRESSES || made.checksum > RD_LAST_CHECKSUM)
        return false;
    for (uint32_t i = 0; i < made.count; i++)
        if (!ip_unpack(bytes + AT_PLACE_IPS + i * IP_BYTES, &made.at[i]))
            return false;
    rd_place_pack(&made, again);
    if (memcmp(bytes, again, RD_PLACE) != 0) /* something stands where nothing belongs */
        return false;
    *p = made;
    return true;
}
