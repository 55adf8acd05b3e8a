/* test_fuzz_hosts.c: what ranks of several hosts read from each other, fed with what is almost right.
 *
 * Places, and the file in which rank 0 says where it is.  As in test_fuzz.c, what is taken must be sound, and is
 * taken again when it is written anew. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/address_file.h"
#include "harness.h"
#include "mangle.h"
#include "transport/wire.h"

static uint32_t rounds(uint32_t plain)
{
    return test_sanitized() ? plain / 4 : plain;
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
    for (int i = 0; i < RD_NONCE; i++)
        p.nonce[i] = (uint8_t)rng_next(r);
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
                a->port == b->port && a->count == b->count && strcmp(a->name, b->name) == 0 &&
                memcmp(a->nonce, b->nonce, RD_NONCE) == 0;
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

TEST(mangled_address_files)
{
    static const char *const texts[] = {
        "ronda 1\njob 0123456789abcdef\nhost fedcba9876543210\nport 40123\nat 10.0.0.1\nat fd00::2\nend\n",
        "ronda 1\njob 00000000000000ff\nhost 0000000000000000\nport 1\nat fe80::1%2\nend\n", NULL};
    rng r = rng_start();
    uint32_t taken = 0;
    for (uint32_t i = 0; i < rounds(300000) && !test_failed(); i++) {
        char *text = mangled_text(&r, texts);
        rd_address_file m = {0};
        if (rd_address_file_parse(text, &m)) {
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
        rd_address_file m = {.job = p.host | 1, .host = p.host, .port = p.port, .count = p.count},
                        back;
        const char *why = "";
        rd_written w = {0};
        memcpy(m.at, p.at, sizeof m.at);
        CHECK(!rd_address_file_write(path, &m, &w, &err), "%s", err.message);
        CHECK(!rd_address_file_read(path, &back, &why, &err) && back.job == m.job &&
                  back.host == m.host && back.port == m.port && back.count == m.count,
              "%s", why);
        for (uint32_t k = 0; k < m.count; k++) /* mapped ones become what they map */
            CHECK(back.at[k].family == m.at[k].family, "address %u", k);
        if (i % 2) /* the next one writes over it */
            rd_address_file_remove(&w);
        else if (i == 198)
            unlink(path);
    }
    CHECK(access(path, F_OK) != 0, "the file was left");
}
