/* fuzz_wire.c: everything that wire.c reads (fuzz_handshake.c has the frames of the handshake).
 *
 * The first byte says which; the others, cut or filled up with zeros, are what came.  What is taken is
 * sound, and is the same when it is packed and read again. */
#include <string.h>

#include "fuzz.h"
#include "transport/wire.h"

static void fill(uint8_t *to, size_t want, const uint8_t *bytes, size_t length)
{
    memset(to, 0, want);
    if (length)
        memcpy(to, bytes, length < want ? length : want);
}

static void read_place(const uint8_t *bytes, size_t length)
{
    uint8_t in[RD_PLACE], packed[RD_PLACE];
    rd_place p;
    fill(in, sizeof in, bytes, length);
    if (!rd_place_unpack(in, &p))
        return;
    fuzz_require(p.count >= 1 && p.count <= RD_ADDRESSES && p.port && p.pid > 0 && p.cpus,
                 "a place can be reached");
    fuzz_require(*p.name && memchr(p.name, 0, sizeof p.name) && fuzz_is_one_line(p.name),
                 "a place's name can be shown");
    rd_place_pack(&p, packed);
    fuzz_require(memcmp(in, packed, sizeof in) == 0, "a place has one way to be written");
}

static void read_head(const uint8_t *bytes, size_t length)
{
    uint8_t in[RD_HEAD], packed[RD_HEAD];
    rd_head h;
    fill(in, sizeof in, bytes, length);
    if (!rd_head_unpack(in, &h))
        return;
    fuzz_require(h.kind >= RD_MESSAGE && h.kind <= RD_LAST_PARCEL, "a head is of a kind");
    fuzz_require(h.bytes <= RD_MOST_PARCEL, "a parcel has bounds");
    fuzz_require(h.kind != RD_MESSAGE || h.bytes <= h.total, "a parcel is within its message");
    fuzz_require(h.kind != RD_MESSAGE || h.bytes || !h.total, "a message goes on");
    rd_head_pack(&h, packed);
    fuzz_require(memcmp(in, packed, sizeof in) == 0, "a head has one way to be written");
}

static void read_news(const uint8_t *bytes, size_t length)
{
    uint8_t in[RD_NEWS_ITEM], packed[RD_NEWS_ITEM], again[RD_NEWS_ITEM];
    char text[100];
    rd_news n, m;
    fill(in, sizeof in, bytes, length);
    rd_news_unpack(in, &n);
    rd_news_pack(&n, packed);
    rd_news_unpack(packed, &m);
    rd_news_pack(&m, again);
    fuzz_require(memcmp(packed, again, sizeof packed) == 0, "news stay the same");
    rd_record_text(&n.call, text, sizeof text);
    fuzz_require(*text && fuzz_is_one_line(text), "a call can be shown");
}

static void read_cause(const uint8_t *bytes, size_t length)
{
    static uint8_t in[RD_CAUSE], packed[RD_CAUSE], again[RD_CAUSE];
    rd_error e, f;
    fill(in, sizeof in, bytes, length);
    rd_cause_unpack(in, &e);
    fuzz_require(e.status < 0 && e.status >= RONDA_EINTERNAL, "a cause is an error");
    fuzz_require(*e.message && memchr(e.message, 0, sizeof e.message) &&
                     fuzz_is_one_line(e.message),
                 "a cause can be shown");
    rd_cause_pack(&e, packed);
    rd_cause_unpack(packed, &f);
    rd_cause_pack(&f, again);
    fuzz_require(memcmp(packed, again, sizeof packed) == 0, "a cause stays the same");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static void (*const readers[])(const uint8_t *, size_t) = {read_place, read_head, read_news,
                                                               read_cause};
    if (length)
        readers[bytes[0] % (sizeof readers / sizeof *readers)](bytes + 1, length - 1);
    return 0;
}
