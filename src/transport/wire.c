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

_Static_assert(RD_KINDS < UINT8_MAX && RONDA_U64 <= UINT8_MAX, "a kind and a type are bytes");

/* A kind in one byte: 1 for the first, 0 for none. */
static uint8_t kind_byte(ronda_kind kind)
{
    return kind ? (uint8_t)(kind - RONDA_ALLREDUCE + 1) : 0;
}

static ronda_kind kind_of(uint8_t byte)
{
    return byte ? byte - 1 + RONDA_ALLREDUCE : 0;
}

enum {
    AT_HEAD_KIND = 0,
    AT_HEAD_CHANNEL = 1,
    AT_HEAD_TYPE = 2,
    AT_HEAD_CALL = 3,
    AT_HEAD_BYTES = 4,
    AT_HEAD_WORLD = 8,
    AT_HEAD_MARK = 16,
    AT_HEAD_TOTAL = 24,
    AT_HEAD_SEQUENCE = 32,
    AT_HEAD_COUNT = 40,
    AT_HEAD_OP = 48,
    AT_HEAD_ROOT = 52,
    AT_HEAD_ALGORITHM = 56,
    AT_HEAD_TAKEN = 60,
    AT_HEAD_FREED = 64,
    AT_HEAD_BODY_CRC = 72,
    AT_HEAD_CRC = 76
};
_Static_assert(AT_HEAD_CRC + 4 == RD_HEAD, "a head is its fields");

void rd_head_pack(const rd_head *h, uint8_t bytes[RD_HEAD])
{
    bytes[AT_HEAD_KIND] = h->kind;
    bytes[AT_HEAD_CHANNEL] = h->channel;
    bytes[AT_HEAD_TYPE] = (uint8_t)h->call.type;
    bytes[AT_HEAD_CALL] = kind_byte(h->call.kind);
    put(bytes + AT_HEAD_BYTES, h->bytes);
    put64(bytes + AT_HEAD_WORLD, h->world);
    put64(bytes + AT_HEAD_MARK, h->call.mark);
    put64(bytes + AT_HEAD_TOTAL, h->total);
    put64(bytes + AT_HEAD_SEQUENCE, h->call.sequence);
    put64(bytes + AT_HEAD_COUNT, h->call.count);
    put(bytes + AT_HEAD_OP, (uint32_t)h->call.op);
    put(bytes + AT_HEAD_ROOT, h->call.root);
    put(bytes + AT_HEAD_ALGORITHM, h->call.algorithm);
    put(bytes + AT_HEAD_TAKEN, h->taken);
    put64(bytes + AT_HEAD_FREED, h->freed);
    put(bytes + AT_HEAD_BODY_CRC, h->body_crc);
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
    *h = (rd_head){.kind = bytes[AT_HEAD_KIND],
                   .channel = bytes[AT_HEAD_CHANNEL],
                   .bytes = get(bytes + AT_HEAD_BYTES),
                   .world = get64(bytes + AT_HEAD_WORLD),
                   .total = get64(bytes + AT_HEAD_TOTAL),
                   .call = {.sequence = get64(bytes + AT_HEAD_SEQUENCE),
                            .mark = get64(bytes + AT_HEAD_MARK),
                            .count = get64(bytes + AT_HEAD_COUNT),
                            .kind = kind_of(bytes[AT_HEAD_CALL]),
                            .type = bytes[AT_HEAD_TYPE],
                            .op = (ronda_op)get(bytes + AT_HEAD_OP),
                            .root = get(bytes + AT_HEAD_ROOT),
                            .algorithm = get(bytes + AT_HEAD_ALGORITHM)},
                   .taken = get(bytes + AT_HEAD_TAKEN),
                   .freed = get64(bytes + AT_HEAD_FREED),
                   .body_crc = get(bytes + AT_HEAD_BODY_CRC),
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

enum {
    AT_NEWS_RANK = 0,
    AT_NEWS_AWAITS = 4,
    AT_NEWS_AGE = 8,
    AT_NEWS_FLAGS = 12,
    AT_NEWS_KIND = 13,
    AT_NEWS_TYPE = 14,
    AT_NEWS_MESSAGE_TYPE = 15,
    AT_NEWS_SEQUENCE = 16,
    AT_NEWS_MARK = 24,
    AT_NEWS_COUNT = 32,
    AT_NEWS_OP = 40,
    AT_NEWS_ROOT = 44,
    AT_NEWS_ALGORITHM = 48,
    AT_NEWS_TAG = 52,
    AT_NEWS_MESSAGE_COUNT = 56
};
_Static_assert(AT_NEWS_MESSAGE_COUNT + 8 == RD_NEWS_ITEM, "an item is its fields");
/* Of the flags; the direction of the message is behind them. */
enum { NEWS_INSIDE = 1, NEWS_POSTED = 2, NEWS_FULL = 4, NEWS_DIRECTION = 4 };
_Static_assert(NEWS_FULL < 1 << NEWS_DIRECTION && RD_RECEIVING << NEWS_DIRECTION <= UINT8_MAX,
               "flags and a direction are a byte");

void rd_news_pack(const rd_news *n, uint8_t bytes[RD_NEWS_ITEM])
{
    memset(bytes, 0, RD_NEWS_ITEM);
    put(bytes + AT_NEWS_RANK, n->rank);
    put(bytes + AT_NEWS_AWAITS, n->awaits);
    put(bytes + AT_NEWS_AGE, n->age_ms);
    bytes[AT_NEWS_FLAGS] =
        (uint8_t)((n->inside ? NEWS_INSIDE : 0) | (n->posted ? NEWS_POSTED : 0) |
                  (n->full ? NEWS_FULL : 0) | (int)n->message.direction << NEWS_DIRECTION);
    bytes[AT_NEWS_KIND] = kind_byte(n->call.kind);
    bytes[AT_NEWS_TYPE] = (uint8_t)n->call.type;
    bytes[AT_NEWS_MESSAGE_TYPE] = (uint8_t)n->message.type;
    put64(bytes + AT_NEWS_SEQUENCE, n->call.sequence);
    put64(bytes + AT_NEWS_MARK, n->call.mark);
    put64(bytes + AT_NEWS_COUNT, n->call.count);
    put(bytes + AT_NEWS_OP, (uint32_t)n->call.op);
    put(bytes + AT_NEWS_ROOT, n->call.root);
    put(bytes + AT_NEWS_ALGORITHM, n->call.algorithm);
    put(bytes + AT_NEWS_TAG, n->message.tag);
    put64(bytes + AT_NEWS_MESSAGE_COUNT, n->message.count);
}

void rd_news_unpack(const uint8_t bytes[RD_NEWS_ITEM], rd_news *n)
{
    const uint8_t flags = bytes[AT_NEWS_FLAGS];
    *n = (rd_news){.rank = get(bytes + AT_NEWS_RANK),
                   .awaits = get(bytes + AT_NEWS_AWAITS),
                   .age_ms = get(bytes + AT_NEWS_AGE),
                   .inside = flags & NEWS_INSIDE,
                   .posted = flags & NEWS_POSTED,
                   .full = flags & NEWS_FULL,
                   .call = {.sequence = get64(bytes + AT_NEWS_SEQUENCE),
                            .mark = get64(bytes + AT_NEWS_MARK),
                            .count = get64(bytes + AT_NEWS_COUNT),
                            .kind = kind_of(bytes[AT_NEWS_KIND]),
                            .type = bytes[AT_NEWS_TYPE],
                            .op = (ronda_op)get(bytes + AT_NEWS_OP),
                            .root = get(bytes + AT_NEWS_ROOT),
                            .algorithm = get(bytes + AT_NEWS_ALGORITHM)}};
    if (flags >> NEWS_DIRECTION <= RD_RECEIVING)
        n->message = (rd_pending){.direction = (rd_direction)(flags >> NEWS_DIRECTION),
                                  .type = bytes[AT_NEWS_MESSAGE_TYPE],
                                  .peer = n->awaits,
                                  .tag = get(bytes + AT_NEWS_TAG),
                                  .count = get64(bytes + AT_NEWS_MESSAGE_COUNT)};
}

enum {
    AT_CAUSE_STATUS = 0,
    AT_CAUSE_RANK = 4,
    AT_CAUSE_PEER = 8,
    AT_CAUSE_SEQUENCE = 16,
    AT_CAUSE_MESSAGE = 24
};
_Static_assert(AT_CAUSE_MESSAGE + sizeof(((rd_error *)0)->message) == RD_CAUSE,
               "a cause is its fields");

void rd_cause_pack(const rd_error *e, uint8_t bytes[RD_CAUSE])
{
    memset(bytes, 0, RD_CAUSE);
    put(bytes + AT_CAUSE_STATUS, (uint32_t)e->status);
    put(bytes + AT_CAUSE_RANK, e->rank);
    put(bytes + AT_CAUSE_PEER, e->peer);
    put64(bytes + AT_CAUSE_SEQUENCE, e->sequence);
    memcpy(bytes + AT_CAUSE_MESSAGE, e->message, strnlen(e->message, sizeof e->message - 1));
}

void rd_cause_unpack(const uint8_t bytes[RD_CAUSE], rd_error *e)
{
    *e = (rd_error){.status = (ronda_status)get(bytes + AT_CAUSE_STATUS),
                    .rank = get(bytes + AT_CAUSE_RANK),
                    .peer = get(bytes + AT_CAUSE_PEER),
                    .sequence = get64(bytes + AT_CAUSE_SEQUENCE)};
    memcpy(e->message, bytes + AT_CAUSE_MESSAGE, sizeof e->message);
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
