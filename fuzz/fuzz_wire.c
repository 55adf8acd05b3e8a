/* fuzz_wire.c: everything that wire.c reads.
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

static void read_frame(const uint8_t *bytes, size_t length)
{
    uint8_t in[RD_FRAME], packed[RD_FRAME], again[RD_FRAME];
    rd_frame f, g;
    fill(in, sizeof in, bytes, length);
    const rd_frame_verdict verdict = rd_frame_unpack(in, &f);
    if (verdict == RD_FRAME_VERSION)
        fuzz_require(f.version != RD_WIRE_VERSION,
                     "a frame of another version has another version");
    if (verdict != RD_FRAME_OK)
        return;
    fuzz_require(f.kind >= RD_HELLO && f.kind <= RD_LAST_KIND, "a frame is of a kind");
    fuzz_require(memchr(f.text, 0, sizeof f.text) && fuzz_is_one_line(f.text),
                 "a frame's text can be shown");
    rd_frame_pack(&f, packed);
    fuzz_require(rd_frame_unpack(packed, &g) == RD_FRAME_OK, "a frame is taken again");
    rd_frame_pack(&g, again);
    fuzz_require(memcmp(packed, again, sizeof packed) == 0, "a frame stays the same");
}

static void read_note(const uint8_t *bytes, size_t length)
{
    enum { SIZE = 3 };
    uint8_t in[RD_NOTE_HEAD], packed[RD_NOTE_HEAD];
    rd_note n, m;
    fill(in, sizeof in, bytes, length);
    const rd_note_verdict verdict = rd_note_unpack(in, SIZE, &n);
    fuzz_require(verdict == RD_NOTE_FOREIGN || rd_note_begins(in, sizeof in),
                 "what is no note does not begin as one");
    if (verdict != RD_NOTE_OK)
        return;
    fuzz_require(n.bytes <= RD_NOTE_BODY || (n.kind == RD_NOTE_TABLE && n.bytes == SIZE * RD_PLACE),
                 "a note's body has bounds");
    rd_note_pack(&n, packed);
    fuzz_require(rd_note_unpack(packed, SIZE, &m) == RD_NOTE_OK, "a note is taken again");
    fuzz_require(memcmp(in, packed, sizeof in) == 0, "a note has one way to be written");
    char text[RD_NOTE_BODY + 1];
    const size_t body = length > sizeof in ? length - sizeof in : 0;
    rd_note_text(bytes + (body ? sizeof in : 0), (uint32_t)body, text);
    fuzz_require(strlen(text) <= RD_NOTE_BODY && fuzz_is_one_line(text),
                 "a note's text can be shown");
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

static void read_greeting(const uint8_t *bytes, size_t length)
{
    uint8_t in[RD_GREETING], packed[RD_GREETING];
    rd_greeting g, h;
    fill(in, sizeof in, bytes, length);
    if (rd_greeting_unpack(in, &g) != RD_FRAME_OK)
        return;
    rd_greeting_pack(&g, packed);
    fuzz_require(rd_greeting_unpack(packed, &h) == RD_FRAME_OK && h.job == g.job &&
                     h.rank == g.rank && h.to == g.to && h.size == g.size &&
                     h.features == g.features && memcmp(h.mac, g.mac, sizeof h.mac) == 0,
                 "a greeting stays the same");
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
    static void (*const readers[])(const uint8_t *, size_t) = {
        read_frame, read_note, read_place, read_greeting, read_head, read_news, read_cause};
    if (length)
        readers[bytes[0] % (sizeof readers / sizeof *readers)](bytes + 1, length - 1);
    return 0;
}
