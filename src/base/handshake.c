#include "base/handshake.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/mem.h"

static const uint8_t MAGIC[8] = {'R', 'O', 'N', 'D', 'A', 0x0d, 0x0a, 0x1a};

enum {
    AT_VERSION = 8,
    AT_KIND = 12,
    AT_FEATURES = 16,
    AT_FROM = 20,
    AT_TO = 24,
    AT_SIZE = 28,
    AT_NUMBER = 32,
    AT_BYTES = 36,
    AT_JOB = 40,
    AT_COUNTER = 48,
    AT_MAC = 56
};
_Static_assert(AT_MAC + RD_MAC == RD_FRAME_HEAD, "a head is its fields");

/* --- heads --- */

void rd_frame_pack(const rd_frame *n, uint8_t head[RD_FRAME_HEAD])
{
    memcpy(head, MAGIC, sizeof MAGIC);
    rd_put32(head + AT_VERSION, RD_WIRE_VERSION);
    rd_put32(head + AT_KIND, n->kind);
    rd_put32(head + AT_FEATURES, n->features);
    rd_put32(head + AT_FROM, n->from);
    rd_put32(head + AT_TO, n->to);
    rd_put32(head + AT_SIZE, n->size);
    rd_put32(head + AT_NUMBER, (uint32_t)n->number);
    rd_put32(head + AT_BYTES, n->bytes);
    rd_put64(head + AT_JOB, n->job);
    rd_put64(head + AT_COUNTER, n->counter);
    memcpy(head + AT_MAC, n->mac, sizeof n->mac);
}

static bool body_fits(const rd_frame *n)
{
    switch (n->kind) {
    case RD_FRAME_HELLO:
    case RD_FRAME_CHALLENGE:
        return n->bytes == RD_NONCE;
    case RD_FRAME_TABLE:
        return true;
    case RD_FRAME_WELCOME:
    case RD_FRAME_PLACE:
    case RD_FRAME_REJECT:
    case RD_FRAME_SOCKET:
        return n->bytes <= RD_FRAME_BODY;
    default:
        return n->bytes == 0;
    }
}

rd_frame_verdict rd_frame_begins(const uint8_t *head, size_t have, rd_frame *n)
{
    if (memcmp(head, MAGIC, have < sizeof MAGIC ? have : sizeof MAGIC) != 0)
        return RD_FRAME_FOREIGN;
    if (have < AT_KIND)
        return RD_FRAME_OK;
    *n = (rd_frame){.version = rd_get32(head + AT_VERSION)};
    return n->version == RD_WIRE_VERSION ? RD_FRAME_OK : RD_FRAME_VERSION;
}

rd_frame_verdict rd_frame_unpack(const uint8_t head[RD_FRAME_HEAD], rd_frame *n)
{
    const rd_frame_verdict verdict = rd_frame_begins(head, RD_FRAME_HEAD, n);
    if (verdict)
        return verdict;
    n->features = rd_get32(head + AT_FEATURES);
    if (n->features & ~(uint32_t)RD_FEATURES)
        return RD_FRAME_VERSION;
    n->kind = rd_get32(head + AT_KIND);
    n->from = rd_get32(head + AT_FROM);
    n->to = rd_get32(head + AT_TO);
    n->size = rd_get32(head + AT_SIZE);
    n->number = (int32_t)rd_get32(head + AT_NUMBER);
    n->bytes = rd_get32(head + AT_BYTES);
    n->job = rd_get64(head + AT_JOB);
    n->counter = rd_get64(head + AT_COUNTER);
    memcpy(n->mac, head + AT_MAC, sizeof n->mac);
    return n->kind >= RD_FRAME_HELLO && n->kind <= RD_LAST_FRAME && body_fits(n) ? RD_FRAME_OK
                                                                                 : RD_FRAME_FOREIGN;
}

void rd_frame_text(const uint8_t *body, uint32_t bytes, char text[RD_FRAME_BODY + 1])
{
    const uint32_t length = bytes < RD_FRAME_BODY ? bytes : RD_FRAME_BODY;
    for (uint32_t i = 0; i < length; i++)
        text[i] = body[i] < ' ' || body[i] > '~' ? '?' : (char)body[i];
    text[length] = 0;
}

/* --- macs --- */

/* No mac: who knows the text and a hash of it can make another. */
static void hash_of(const char *key, const uint8_t *text, size_t bytes, uint8_t out[RD_MAC])
{
    uint64_t hash = RD_HASH_START;
    if (key)
        hash = rd_hash(hash, key, strlen(key) + 1);
    memset(out, 0, RD_MAC);
    rd_put64(out, rd_hash(hash, text, bytes));
}

static bool mac_of(const rd_seal *s, const uint8_t head[RD_FRAME_HEAD], const void *body,
                   uint8_t out[RD_MAC])
{
    enum { BEFORE = 2 * RD_NONCE + RD_FRAME_HEAD };
    const uint32_t bytes = rd_get32(head + AT_BYTES);
    const size_t all = BEFORE + (size_t)bytes;
    uint8_t small[BEFORE + RD_FRAME_BODY];
    uint8_t *text = all > sizeof small ? rd_alloc(all) : small;
    bool made = true;
    if (!text)
        return false;
    memcpy(text, s->sender, RD_NONCE);
    memcpy(text + RD_NONCE, s->receiver, RD_NONCE);
    memcpy(text + 2 * RD_NONCE, head, AT_MAC);
    memset(text + 2 * RD_NONCE + AT_MAC, 0, RD_MAC);
    if (bytes)
        memcpy(text + BEFORE, body, bytes);
    if (s->key && rd_mac_possible())
        made = rd_mac(s->key, text, all, out);
    else
        hash_of(s->key, text, all, out);
    if (text != small)
        rd_free(text);
    return made;
}

bool rd_frame_seal(const rd_seal *s, rd_frame *n, const void *body, uint8_t head[RD_FRAME_HEAD])
{
    rd_frame_pack(n, head);
    if (!mac_of(s, head, body, n->mac))
        return false;
    memcpy(head + AT_MAC, n->mac, RD_MAC);
    return true;
}

bool rd_frame_is_sealed(const rd_seal *s, const uint8_t head[RD_FRAME_HEAD], const void *body)
{
    uint8_t expected[RD_MAC];
    return mac_of(s, head, body, expected) && rd_mac_equal(expected, head + AT_MAC);
}
