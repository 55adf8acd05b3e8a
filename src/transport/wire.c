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
