/* test_handshake.c: frames that were made, changed, repeated, sent back or moved by one who does not know the key.
 *
 * The construction by itself (base/handshake.h), and sessions that hear such frames (comm/session.h). */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/handshake.h"
#include "comm/session.h"
#include "harness.h"
#include "mangle.h"

enum { SIZE = 7, TABLE = 700 };

static uint32_t rounds(uint32_t plain)
{
    return test_sanitized() ? plain / 4 : plain;
}

static void draw_bytes(rng *r, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (uint8_t)rng_next(r);
}

static uint32_t body_of(rng *r, uint32_t kind)
{
    switch (kind) {
    case RD_FRAME_HELLO:
    case RD_FRAME_CHALLENGE:
        return RD_NONCE;
    case RD_FRAME_TABLE:
        return TABLE;
    case RD_FRAME_WELCOME:
    case RD_FRAME_PLACE:
    case RD_FRAME_REJECT:
    case RD_FRAME_SOCKET:
        return (uint32_t)rng_below(r, RD_FRAME_BODY + 1);
    default:
        return 0;
    }
}

static rd_frame draw_note(rng *r)
{
    rd_frame n = {.version = RD_WIRE_VERSION,
                  .kind = RD_FRAME_HELLO + (uint32_t)rng_below(r, RD_LAST_FRAME),
                  .features = (uint32_t)rng_next(r) & RD_FEATURES,
                  .from = (uint32_t)rng_next(r),
                  .to = (uint32_t)rng_next(r),
                  .size = (uint32_t)rng_next(r),
                  .number = (int32_t)rng_next(r),
                  .job = rng_next(r),
                  .counter = rng_next(r)};
    n.bytes = body_of(r, n.kind);
    draw_bytes(r, n.mac, sizeof n.mac);
    return n;
}

static bool same_note(const rd_frame *a, const rd_frame *b)
{
    return a->version == b->version && a->kind == b->kind && a->features == b->features &&
           a->from == b->from && a->to == b->to && a->size == b->size && a->number == b->number &&
           a->bytes == b->bytes && a->job == b->job && a->counter == b->counter &&
           memcmp(a->mac, b->mac, sizeof a->mac) == 0;
}

/* --- heads --- */

TEST(frames_come_out_as_they_went_in)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(200000) && !test_failed(); i++) {
        const rd_frame n = draw_note(&r);
        rd_frame back;
        uint8_t head[RD_FRAME_HEAD];
        rd_frame_pack(&n, head);
        CHECK(rd_frame_unpack(head, &back) == RD_FRAME_OK && same_note(&n, &back), "frame %u", i);
    }
}

TEST(mangled_frames)
{
    rng r = rng_start();
    uint32_t seen[3] = {0};
    char *head = malloc(RD_FRAME_HEAD);
    for (uint32_t i = 0; i < rounds(800000) && head && !test_failed(); i++) {
        const rd_frame n = draw_note(&r);
        rd_frame got = {0}, again;
        rd_frame_pack(&n, (uint8_t *)head);
        const size_t length = mangle(&r, head, RD_FRAME_HEAD, RD_FRAME_HEAD, false);
        memset(head + length, 0, RD_FRAME_HEAD - length);
        const rd_frame_verdict verdict = rd_frame_unpack((uint8_t *)head, &got);
        if (!CHECK(verdict <= RD_FRAME_VERSION, "verdict %d", (int)verdict))
            break;
        seen[verdict]++;
        CHECK(verdict != RD_FRAME_VERSION || got.version != RD_WIRE_VERSION || got.features,
              "its own version");
        if (verdict != RD_FRAME_OK)
            continue;
        CHECK(got.bytes <= RD_FRAME_BODY || got.kind == RD_FRAME_TABLE, "kind %u has %u bytes",
              got.kind, got.bytes);
        rd_frame_pack(&got, (uint8_t *)head);
        CHECK(rd_frame_unpack((uint8_t *)head, &again) == RD_FRAME_OK && same_note(&got, &again),
              "what was taken is not taken again");
    }
    CHECK(seen[0] && seen[1] && seen[2], "verdicts: %u, %u, %u", seen[0], seen[1], seen[2]);
    free(head);
}

TEST(texts_can_be_shown)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(50000) && !test_failed(); i++) {
        uint8_t body[RD_FRAME_BODY];
        char text[RD_FRAME_BODY + 1];
        const uint32_t length = (uint32_t)rng_below(&r, RD_FRAME_BODY + 1);
        draw_bytes(&r, body, length);
        rd_frame_text(body, length, text);
        CHECK(strlen(text) == length, "%zu of %u", strlen(text), length);
        for (const char *c = text; *c; c++)
            CHECK(*c >= ' ' && *c <= '~', "0x%x", (unsigned)*c);
    }
}

/* --- seals --- */

typedef struct {
    uint8_t nonces[2][RD_NONCE];
    uint8_t head[RD_FRAME_HEAD], body[TABLE];
    rd_frame note;
    rd_seal seal;
} sealed;

static void draw_sealed(rng *r, const char *key, sealed *s)
{
    draw_bytes(r, s->nonces[0], sizeof s->nonces);
    draw_bytes(r, s->body, sizeof s->body);
    s->note = draw_note(r);
    s->seal = (rd_seal){.key = key, .sender = s->nonces[0], .receiver = s->nonces[1]};
    CHECK(rd_frame_seal(&s->seal, &s->note, s->body, s->head), "it cannot be sealed");
    CHECK(rd_frame_is_sealed(&s->seal, s->head, s->body), "what was sealed is not");
}

/* Of each kind, with a key and without one, where a hash finds what was changed by mistake. */
TEST(a_frame_of_which_one_bit_was_changed_is_refused)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(400) && !test_failed(); i++) {
        sealed s;
        rd_frame got;
        draw_sealed(&r, i % 2 ? "a key" : NULL, &s);
        for (uint32_t bit = 0; bit < 8 * (RD_FRAME_HEAD + s.note.bytes); bit++) {
            uint8_t *at =
                bit / 8 < RD_FRAME_HEAD ? s.head + bit / 8 : s.body + bit / 8 - RD_FRAME_HEAD;
            *at ^= (uint8_t)(1 << bit % 8);
            CHECK(rd_frame_unpack(s.head, &got) != RD_FRAME_OK || got.bytes > sizeof s.body ||
                      !rd_frame_is_sealed(&s.seal, s.head, s.body),
                  "kind %u, bit %u", s.note.kind, bit);
            *at ^= (uint8_t)(1 << bit % 8);
        }
        CHECK(rd_frame_is_sealed(&s.seal, s.head, s.body), "it is not the same again");
    }
}

TEST(a_frame_of_another_direction_job_or_key_is_refused)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(20000) && !test_failed(); i++) {
        sealed s;
        uint8_t other[RD_NONCE];
        draw_sealed(&r, "a key", &s);
        draw_bytes(&r, other, sizeof other);
        const uint8_t *a = s.nonces[0], *b = s.nonces[1];
        const rd_seal wrong[] = {{.key = "a key", .sender = b, .receiver = a},
                                 {.key = "a key", .sender = a, .receiver = other},
                                 {.key = "a key", .sender = other, .receiver = b},
                                 {.key = "a kez", .sender = a, .receiver = b},
                                 {.key = NULL, .sender = a, .receiver = b}};
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
            CHECK(!rd_frame_is_sealed(&wrong[k], s.head, s.body), "kind %u, seal %zu", s.note.kind,
                  k);
    }
}

/* --- sessions --- */

typedef struct {
    rd_session says, hears;
    int from, to; /* what was said is read from one, and what is heard written to the other */
    uint8_t table[TABLE];
} line;

static bool open_line(line *l, bool caller, const char *key)
{
    int a[2], b[2];
    if (!CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, a) == 0 &&
                   socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, b) == 0,
               "no sockets"))
        return false;
    l->says = rd_session_open(a[0], caller, key, SIZE);
    l->hears = rd_session_open(b[1], !caller, key, SIZE);
    l->hears.table = l->table;
    l->hears.table_bytes = sizeof l->table;
    l->from = a[1];
    l->to = b[0];
    l->says.sent = l->hears.received = 1; /* the nonces are known, and proved */
    l->says.proven = l->hears.proven = true;
    memset(l->says.nonces[0], 1, RD_NONCE);
    memset(l->says.nonces[1], 2, RD_NONCE);
    memcpy(l->hears.nonces, l->says.nonces, sizeof l->says.nonces);
    return true;
}

static void close_line(line *l)
{
    rd_session_close(&l->says);
    rd_session_close(&l->hears);
    close(l->from);
    close(l->to);
}

/* What the one end said: its bytes. */
static size_t said(line *l, const rd_frame *n, const void *body, char *bytes, size_t capacity)
{
    CHECK(rd_session_send(&l->says, n, body, rd_now_ns() + 1000000000), "it cannot be said");
    const ssize_t length = recv(l->from, bytes, capacity, 0);
    return length > 0 ? (size_t)length : 0;
}

static rd_received heard_of(line *l, const char *bytes, size_t length, rd_frame *got)
{
    CHECK(send(l->to, bytes, length, 0) == (ssize_t)length, "it cannot be sent on");
    return rd_session_receive(&l->hears, got);
}

/* What arrives was changed on the way: it is found out. */
TEST(what_was_changed_on_the_way_is_not_heard)
{
    rng r = rng_start();
    uint32_t good = 0, bad = 0;
    for (uint32_t i = 0; i < rounds(8000) && !test_failed(); i++) {
        line l;
        if (!open_line(&l, rng_below(&r, 2), rng_below(&r, 2) ? "a key" : NULL))
            return;
        rd_frame n = draw_note(&r), got;
        char bytes[RD_FRAME_HEAD + TABLE], sent[sizeof bytes];
        uint8_t body[TABLE];
        draw_bytes(&r, body, sizeof body);
        const size_t length = said(&l, &n, body, bytes, sizeof bytes);
        memcpy(sent, bytes, length);
        const size_t changed =
            rng_below(&r, 4) ? mangle(&r, bytes, length, sizeof bytes, false) : length;
        const rd_received heard = heard_of(&l, bytes, changed, &got);
        const bool same = changed >= length && memcmp(bytes, sent, length) == 0;
        CHECK((heard == RD_RECEIVED_FRAME) == same, "heard %d, the same: %d", (int)heard,
              (int)same);
        CHECK(heard != RD_RECEIVED_FRAME || (got.kind == n.kind && got.bytes == n.bytes),
              "another");
        good += heard == RD_RECEIVED_FRAME;
        bad += heard == RD_RECEIVED_FORGED;
        close_line(&l);
    }
    CHECK(good > 100 && bad > 100, "%u taken, %u forged", good, bad);
}

/* Two frames of one conversation: repeated, left out, in another order, or sent back to who said them. */
TEST(frames_are_heard_once_and_in_their_order)
{
    static const int orders[][3] = {{0, 1, -1}, {0, 0, -1}, {1, -1, -1}, {0, 1, 1}, {0, 1, 0}};
    static const uint32_t good[] = {2, 1, 0, 2, 2};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
            const rd_frame ready = {.kind = RD_FRAME_READY}, go = {.kind = RD_FRAME_GO};
            char bytes[2][RD_FRAME_HEAD];
            rd_frame got;
            line l;
            if (!open_line(&l, true, k ? "a key" : NULL))
                return;
            said(&l, &ready, NULL, bytes[0], RD_FRAME_HEAD);
            said(&l, &go, NULL, bytes[1], RD_FRAME_HEAD);
            for (uint32_t at = 0; at < 3 && orders[i][at] >= 0; at++) {
                const rd_received heard = heard_of(&l, bytes[orders[i][at]], RD_FRAME_HEAD, &got);
                CHECK(heard == (at < good[i] ? RD_RECEIVED_FRAME : RD_RECEIVED_FORGED),
                      "order %zu: frame %u: %d", i, at, (int)heard);
            }
            close_line(&l);
        }
}

TEST(what_a_rank_has_said_is_not_heard_by_itself)
{
    const rd_frame go = {.kind = RD_FRAME_GO};
    char bytes[RD_FRAME_HEAD];
    rd_frame got;
    line l;
    if (!open_line(&l, true, "a key"))
        return;
    l.says.received = 1;
    said(&l, &go, NULL, bytes, sizeof bytes);
    CHECK(send(l.from, bytes, sizeof bytes, 0) == sizeof bytes, "it cannot be sent back");
    CHECK(rd_session_receive(&l.says, &got) == RD_RECEIVED_FORGED, "it was heard");
    close_line(&l);
}

/* A caller who has recorded another's hello gets a challenge, and has no proof that fits its nonce. */
TEST(a_recorded_conversation_cannot_be_repeated)
{
    const rd_frame hello = {.kind = RD_FRAME_HELLO, .number = RD_WAY_KEY, .bytes = RD_NONCE};
    const rd_frame proof = {.kind = RD_FRAME_PROOF, .from = 1};
    const rd_frame challenge = {.kind = RD_FRAME_CHALLENGE, .bytes = RD_NONCE};
    char bytes[2][RD_FRAME_HEAD + RD_NONCE];
    for (int again = 0; again < 2; again++) {
        rd_frame got;
        line l;
        if (!open_line(&l, true, "a key"))
            return;
        l.says.sent = l.hears.received = 0;
        l.says.proven = l.hears.proven = false;
        memset(l.hears.nonces, 0, sizeof l.hears.nonces);
        memset(l.says.nonces[1], 0, RD_NONCE);
        if (!again)
            said(&l, &hello, l.says.nonces[0], bytes[0], sizeof bytes[0]);
        CHECK(heard_of(&l, bytes[0], sizeof bytes[0], &got) == RD_RECEIVED_FRAME && !l.hears.proven,
              "no hello");
        memset(l.hears.nonces[1], 3 + again, RD_NONCE); /* drawn for this conversation */
        CHECK(rd_session_send(&l.hears, &challenge, l.hears.nonces[1], rd_now_ns() + 1000000000),
              "no challenge");
        memcpy(l.says.nonces[1], l.hears.nonces[1], RD_NONCE);
        l.says.proven = true;
        if (!again)
            said(&l, &proof, NULL, bytes[1], RD_FRAME_HEAD);
        const rd_received heard = heard_of(&l, bytes[1], RD_FRAME_HEAD, &got);
        CHECK(heard == (again ? RD_RECEIVED_FORGED : RD_RECEIVED_FRAME) && l.hears.proven == !again,
              "round %d: %d", again, (int)heard);
        close_line(&l);
    }
}
