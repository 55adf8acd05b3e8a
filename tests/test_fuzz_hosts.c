/* test_fuzz_hosts.c: what ranks of several hosts read from each other, fed with what is almost right.
 *
 * Notes, places, the file in which rank 0 says where it is, and whole conversations.  As in test_fuzz.c, what
 * is taken must be sound, and is taken again when it is written anew. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/meeting.h"
#include "comm/session.h"
#include "harness.h"
#include "mangle.h"
#include "transport/wire.h"

static uint32_t rounds(uint32_t plain)
{
    return test_sanitized() ? plain / 4 : plain;
}

/* --- notes --- */

static const uint32_t SIZE = 7; /* of the world */

static uint32_t body_of(rng *r, uint32_t kind)
{
    switch (kind) {
    case RD_NOTE_HELLO:
    case RD_NOTE_CHALLENGE:
        return 32;
    case RD_NOTE_WELCOME:
    case RD_NOTE_PLACE:
        return RD_PLACE;
    case RD_NOTE_TABLE:
        return SIZE * RD_PLACE;
    case RD_NOTE_REJECT:
        return (uint32_t)rng_below(r, RD_NOTE_BODY + 1);
    default:
        return 0;
    }
}

static rd_note draw_note(rng *r)
{
    rd_note n = {.version = RD_WIRE_VERSION,
                 .kind = RD_NOTE_HELLO + (uint32_t)rng_below(r, RD_LAST_NOTE - RD_NOTE_HELLO + 1),
                 .features = (uint32_t)rng_next(r) & RD_FEATURES,
                 .rank = (uint32_t)rng_next(r),
                 .peer = (uint32_t)rng_next(r),
                 .size = (uint32_t)rng_next(r),
                 .number = (int32_t)rng_next(r),
                 .job = rng_next(r)};
    n.bytes = body_of(r, n.kind);
    for (int i = 0; i < 32; i++)
        n.mac[i] = (uint8_t)rng_next(r);
    return n;
}

static bool same_note(const rd_note *a, const rd_note *b)
{
    return a->version == b->version && a->kind == b->kind && a->features == b->features &&
           a->rank == b->rank && a->peer == b->peer && a->size == b->size &&
           a->number == b->number && a->bytes == b->bytes && a->job == b->job &&
           memcmp(a->mac, b->mac, 32) == 0;
}

TEST(notes_come_out_as_they_went_in)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(200000) && !test_failed(); i++) {
        const rd_note n = draw_note(&r);
        rd_note back;
        uint8_t bytes[RD_NOTE_HEAD];
        rd_note_pack(&n, bytes);
        CHECK(rd_note_unpack(bytes, SIZE, &back) == RD_NOTE_OK && same_note(&n, &back), "note %u",
              i);
        CHECK(n.kind != RD_NOTE_TABLE || rd_note_unpack(bytes, SIZE + 1, &back) == RD_NOTE_FOREIGN,
              "a table of another world");
    }
}

TEST(mangled_notes)
{
    rng r = rng_start();
    uint32_t seen[4] = {0};
    char *bytes = malloc(RD_NOTE_HEAD);
    for (uint32_t i = 0; i < rounds(800000) && bytes && !test_failed(); i++) {
        const rd_note n = draw_note(&r);
        rd_note got = {0}, again;
        rd_note_pack(&n, (uint8_t *)bytes);
        if (rng_below(&r, 20) == 0)
            bytes[12] = (char)rng_below(&r, 80); /* kinds of others */
        const size_t length = mangle(&r, bytes, RD_NOTE_HEAD, RD_NOTE_HEAD, false);
        memset(bytes + length, 0, RD_NOTE_HEAD - length);
        const rd_note_verdict verdict = rd_note_unpack((uint8_t *)bytes, SIZE, &got);
        if (!CHECK(verdict <= RD_NOTE_FRAME, "verdict %d", (int)verdict))
            break;
        seen[verdict]++;
        CHECK(verdict != RD_NOTE_VERSION || got.version != RD_WIRE_VERSION || got.features,
              "its own version");
        if (verdict != RD_NOTE_OK)
            continue;
        CHECK(got.bytes <= RD_NOTE_BODY ||
                  (got.kind == RD_NOTE_TABLE && got.bytes == SIZE * RD_PLACE),
              "kind %u has %u bytes", got.kind, got.bytes);
        rd_note_pack(&got, (uint8_t *)bytes);
        CHECK(rd_note_unpack((uint8_t *)bytes, SIZE, &again) == RD_NOTE_OK &&
                  same_note(&got, &again),
              "what was taken is not taken again");
    }
    CHECK(seen[0] && seen[1] && seen[2] && seen[3], "verdicts: %u, %u, %u, %u", seen[0], seen[1],
          seen[2], seen[3]);
    free(bytes);
}

TEST(texts_can_be_shown)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(50000) && !test_failed(); i++) {
        uint8_t body[RD_NOTE_BODY];
        char text[RD_NOTE_BODY + 1];
        const uint32_t length = (uint32_t)rng_below(&r, RD_NOTE_BODY + 1);
        for (uint32_t k = 0; k < length; k++)
            body[k] = (uint8_t)rng_next(&r);
        rd_note_text(body, length, text);
        CHECK(strlen(text) == length, "%zu of %u", strlen(text), length);
        for (const char *c = text; *c; c++)
            CHECK(*c >= ' ' && *c <= '~', "0x%x", (unsigned)*c);
    }
}

/* --- places --- */

static rd_place draw_place(rng *r)
{
    rd_place p = {.host = rng_next(r),
                  .pid = 1 + (int32_t)rng_below(r, INT32_MAX),
                  .cpus = 1 + (uint32_t)rng_below(r, UINT32_MAX),
                  .quota = 1 + (uint32_t)rng_below(r, UINT32_MAX),
                  .cores = rng_next(r),
                  .port = (uint16_t)(1 + rng_below(r, 65535)),
                  .count = (uint8_t)(1 + rng_below(r, RD_ADDRESSES))};
    const size_t length = 1 + rng_below(r, RD_HOST_NAME - 1);
    for (size_t i = 0; i < length; i++)
        p.name[i] = (char)('!' + rng_below(r, 94));
    for (uint32_t i = 0; i < p.count; i++) {
        p.at[i].family = rng_below(r, 2) ? 4 : 6;
        for (int k = 0; k < (p.at[i].family == 4 ? 4 : 16); k++)
            p.at[i].bytes[k] = (uint8_t)rng_next(r);
        p.at[i].scope = p.at[i].family == 6 ? (uint32_t)rng_next(r) : 0;
    }
    return p;
}

static bool same_place(const rd_place *a, const rd_place *b)
{
    bool same = a->host == b->host && a->pid == b->pid && a->cpus == b->cpus &&
                a->port == b->port && a->count == b->count && strcmp(a->name, b->name) == 0;
    for (uint32_t i = 0; i < a->count && same; i++)
        same = a->at[i].family == b->at[i].family && a->at[i].scope == b->at[i].scope &&
               memcmp(a->at[i].bytes, b->at[i].bytes, 16) == 0;
    return same;
}

TEST(places_come_out_as_they_went_in)
{
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(100000) && !test_failed(); i++) {
        const rd_place p = draw_place(&r);
        rd_place back;
        uint8_t bytes[RD_PLACE];
        rd_place_pack(&p, bytes);
        CHECK(rd_place_unpack(bytes, &back) && same_place(&p, &back), "place %u", i);
    }
}

TEST(mangled_places_have_one_way_to_be_written)
{
    rng r = rng_start();
    uint32_t taken = 0, refused = 0;
    char *bytes = malloc(RD_PLACE);
    for (uint32_t i = 0; i < rounds(600000) && bytes && !test_failed(); i++) {
        const rd_place p = draw_place(&r);
        rd_place got = {.count = 99};
        uint8_t again[RD_PLACE];
        rd_place_pack(&p, (uint8_t *)bytes);
        const size_t length = mangle(&r, bytes, RD_PLACE, RD_PLACE, false);
        memset(bytes + length, 0, RD_PLACE - length);
        if (!rd_place_unpack((uint8_t *)bytes, &got)) {
            CHECK(got.count == 99, "what was refused was written");
            refused++;
            continue;
        }
        taken++;
        CHECK(got.count >= 1 && got.count <= RD_ADDRESSES && got.port && got.pid > 0 && got.cpus &&
                  *got.name && memchr(got.name, 0, RD_HOST_NAME),
              "%u addresses, port %u, pid %d", got.count, got.port, got.pid);
        for (const char *c = got.name; *c; c++)
            CHECK(*c > ' ' && *c <= '~', "the name cannot be shown");
        for (uint32_t k = 0; k < got.count; k++)
            CHECK(got.at[k].family == 4 || got.at[k].family == 6, "family %u", got.at[k].family);
        rd_place_pack(&got, again);
        CHECK(memcmp(again, bytes, RD_PLACE) == 0, "it was written in another way");
    }
    CHECK(taken > 1000 && refused > 1000, "%u taken, %u refused", taken, refused);
    free(bytes);
}

/* --- the file --- */

TEST(mangled_meetings)
{
    static const char *const texts[] = {
        "ronda 1\njob 0123456789abcdef\nhost fedcba9876543210\nport 40123\nat 10.0.0.1\nat fd00::2\nend\n",
        "ronda 1\njob 00000000000000ff\nhost 0000000000000000\nport 1\nat fe80::1%2\nend\n", NULL};
    rng r = rng_start();
    uint32_t taken = 0;
    for (uint32_t i = 0; i < rounds(300000) && !test_failed(); i++) {
        char *text = mangled_text(&r, texts);
        rd_meeting m = {0};
        if (rd_meeting_parse(text, &m)) {
            taken++;
            CHECK(m.job && m.port && m.count >= 1 && m.count <= RD_ADDRESSES, "%s", text);
            for (uint32_t k = 0; k < m.count; k++) {
                char ip[RD_IP_TEXT];
                rd_ip_text(&m.at[k], ip);
                CHECK(*ip, "%s", text);
            }
        }
        free(text);
    }
    CHECK(taken > 1000, "only %u were taken", taken);
}

TEST(a_meeting_comes_out_of_its_file)
{
    rng r = rng_start();
    char path[64];
    rd_error err = {0};
    snprintf(path, sizeof path, "/tmp/ronda-test-meeting-%d", (int)getpid());
    for (int i = 0; i < 200 && !test_failed(); i++) {
        const rd_place p = draw_place(&r);
        rd_meeting m = {.job = p.host | 1, .host = p.host, .port = p.port, .count = p.count}, back;
        const char *why = "";
        rd_written w = {0};
        memcpy(m.at, p.at, sizeof m.at);
        CHECK(!rd_meeting_write(path, &m, &w, &err), "%s", err.message);
        CHECK(!rd_meeting_read(path, &back, &why, &err) && back.job == m.job &&
                  back.host == m.host && back.port == m.port && back.count == m.count,
              "%s", why);
        for (uint32_t k = 0; k < m.count; k++) /* mapped ones become what they map */
            CHECK(back.at[k].family == m.at[k].family, "address %u", k);
        if (i % 2) /* the next one writes over it */
            rd_meeting_remove(&w);
        else if (i == 198)
            unlink(path);
    }
    CHECK(access(path, F_OK) != 0, "the file was left");
}

/* --- conversations --- */

/* One end says notes with macs, and what arrives at the other was changed on the way: it is found out. */
TEST(notes_that_were_changed_on_the_way)
{
    rng r = rng_start();
    uint32_t good = 0, bad = 0;
    for (uint32_t i = 0; i < rounds(8000) && !test_failed(); i++) {
        int a[2], b[2];
        if (!CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, a) == 0 &&
                       socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, b) == 0,
                   "no sockets"))
            return;
        rd_session says = rd_session_open(a[0], true, "key", SIZE);
        rd_session hears = rd_session_open(b[1], false, "key", SIZE);
        uint8_t table[7 * RD_PLACE];
        hears.table = table;
        says.said = hears.heard = 1; /* the nonces are known */
        rd_note n = draw_note(&r), got;
        char bytes[RD_NOTE_HEAD + 7 * RD_PLACE], body[7 * RD_PLACE];
        for (uint32_t k = 0; k < n.bytes; k++)
            body[k] = (char)rng_next(&r);
        if (n.kind == RD_NOTE_REJECT)
            n.kind = RD_NOTE_GO, n.bytes = 0;
        CHECK(rd_session_say(&says, &n, body, rd_now_ns() + 1000000000), "it cannot be said");
        const ssize_t length = recv(a[1], bytes, sizeof bytes, 0);
        char sent[sizeof bytes];
        memcpy(sent, bytes, sizeof sent);
        const size_t changed = rng_below(&r, 4)
                                   ? mangle(&r, bytes, (size_t)length, sizeof bytes, false)
                                   : (size_t)length;
        CHECK(send(b[0], bytes, changed, 0) >= 0, "it cannot be sent on");
        shutdown(b[0], SHUT_WR);
        const rd_heard heard = rd_session_hear(&hears, &got);
        const bool same = changed >= (size_t)length && memcmp(bytes, sent, (size_t)length) == 0;
        if (heard == RD_HEARD_NOTE && got.kind != RD_NOTE_REJECT)
            CHECK(same && got.kind == n.kind && got.bytes == n.bytes, "a changed note was taken");
        else if (heard != RD_HEARD_NOTE)
            CHECK(!same, "a good note was not taken: %d", (int)heard);
        good += heard == RD_HEARD_NOTE;
        bad += heard == RD_HEARD_FORGED;
        rd_session_close(&says);
        rd_session_close(&hears);
        close(a[1]);
        close(b[0]);
    }
    CHECK(good > 100 && bad > 100, "%u taken, %u forged", good, bad);
}
