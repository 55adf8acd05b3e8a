/* test_posted.c: no byte lands in the caller's memory once a call has returned, however it ended.
 *
 * Rank 0 is ronda's, in a broadcast from rank 1, which is the test: it sends a part of the message, lets the call
 * end without the rest, and sends the rest. */
#include "duet.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "plan/algorithms.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 400000, PARCEL = 200000, PART = 150000, CHANNEL = 1, SEQUENCE = 1, MARK = 4711 };

typedef struct {
    duet duet;
    rd_engine *engine;
    rd_plan *plan;
    rd_operation *operation;
    char *memory;
    uint8_t *data;
} scene;

static bool open_scene(scene *s)
{
    rd_shape shape = {.kind = RONDA_BROADCAST,
                      .size = DUET_SIZE,
                      .root = 1,
                      .width = 1,
                      .in_place = true,
                      .count = BYTES};
    *s = (scene){0};
    if (!duet_open_and_greet(&s->duet) || rd_engine_open(s->duet.link, NULL, &s->engine))
        return CHECK(false, "no link or engine");
    s->plan = rd_plan_build(rd_algorithm_named(RONDA_BROADCAST, "direct"), &shape, BYTES);
    s->memory = malloc(BYTES);
    s->data = malloc(BYTES);
    for (uint32_t i = 0; i < BYTES; i++)
        s->data[i] = (uint8_t)(i * 3 + i / 254 + 1);
    memset(s->memory, 0, BYTES);
    const rd_job job = {.plan = s->plan,
                        .in = s->memory,
                        .out = s->memory,
                        .record = {.sequence = SEQUENCE,
                                   .count = BYTES,
                                   .mark = MARK,
                                   .kind = RONDA_BROADCAST,
                                   .type = RONDA_U8,
                                   .root = 1}};
    return CHECK(s->plan && !rd_engine_start(s->engine, &job, &s->operation), "no call");
}

/* Of the message's parcel number n: its head. */
static void tell_head(scene *s)
{
    rd_head h = duet_message(CHANNEL, PARCEL, BYTES);
    h.call = (rd_record){.sequence = SEQUENCE,
                         .mark = MARK,
                         .count = BYTES,
                         .kind = RONDA_BROADCAST,
                         .type = RONDA_U8,
                         .root = 1};
    duet_tell(&s->duet, &h, NULL, false);
}

static void tell_part(scene *s)
{
    const uint64_t until = rd_now_ns() + 10000000000u;
    tell_head(s);
    duet_write(&s->duet, s->data, PART, false);
    while (memcmp(s->memory, s->data, PART) && rd_now_ns() < until)
        rd_engine_test(s->engine, s->operation);
    CHECK(memcmp(s->memory, s->data, PART) == 0, "the first bytes are not there");
}

/* The rest of the parcel, and the other one. */
static void tell_rest(scene *s)
{
    duet_write(&s->duet, s->data + PART, PARCEL - PART, false);
    tell_head(s);
    duet_write(&s->duet, s->data + PARCEL, BYTES - PARCEL, false);
}

static void expect_untouched(scene *s)
{
    for (int i = 0; i < 200; i++)
        s->duet.link->transport->pump(s->duet.link);
    CHECK(all_bytes_are(0x5a, s->memory, BYTES), "bytes came after the call had returned");
}

static void close_scene(scene *s, bool engine, bool heard)
{
    rd_error err = {0};
    if (engine)
        rd_engine_close(s->engine, 1000000, &err);
    duet_close(&s->duet, heard);
    rd_plan_free(s->plan);
    free(s->memory);
    free(s->data);
}

TEST(a_message_is_read_into_place)
{
    scene s;
    rd_error err = {0};
    if (!open_scene(&s))
        return;
    tell_part(&s);
    tell_rest(&s);
    const ronda_status status = rd_engine_wait(s.engine, s.operation, 10000000000u, &err);
    CHECK(!status, "%s", err.message);
    CHECK(memcmp(s.memory, s.data, BYTES) == 0, "other bytes");
    close_scene(&s, true, false);
}

TEST(nothing_comes_after_a_timeout)
{
    scene s;
    rd_error err = {0};
    if (!open_scene(&s))
        return;
    tell_part(&s);
    const ronda_status status = rd_engine_wait(s.engine, s.operation, 100000000, &err);
    CHECK(status == RONDA_ETIMEOUT, "%d: %s", status, err.message);
    memset(s.memory, 0x5a, BYTES);
    tell_rest(&s);
    expect_untouched(&s);
    rd_control_cause(s.duet.link, &err);
    CHECK(err.status == RONDA_ETIMEOUT, "%s", err.message);
    close_scene(&s, true, true);
}

TEST(nothing_comes_after_an_abort)
{
    scene s;
    rd_error err = {0};
    if (!open_scene(&s))
        return;
    tell_part(&s);
    const rd_error cause = {.status = RONDA_EABORTED, .peer = RONDA_ANY, .message = "no more"};
    s.duet.link->transport->abort(s.duet.link, &cause);
    const ronda_status status = rd_engine_wait(s.engine, s.operation, 10000000000u, &err);
    CHECK(status == RONDA_EABORTED, "%d: %s", status, err.message);
    memset(s.memory, 0x5a, BYTES);
    tell_rest(&s);
    expect_untouched(&s);
    close_scene(&s, true, true);
}

TEST(nothing_comes_after_a_death)
{
    scene s;
    rd_error err = {0};
    if (!open_scene(&s))
        return;
    tell_part(&s);
    duet_write(&s.duet, s.data + PART, 1000, false);
    duet_hang_up(&s.duet);
    const ronda_status status = rd_engine_wait(s.engine, s.operation, 10000000000u, &err);
    CHECK(status == RONDA_EPEER, "%d: %s", status, err.message);
    memset(s.memory, 0x5a, BYTES);
    expect_untouched(&s);
    close_scene(&s, true, true);
}

/* A call that nobody has waited for ends with its communicator. */
TEST(nothing_comes_after_closing)
{
    scene s;
    rd_error err = {0};
    if (!open_scene(&s))
        return;
    tell_part(&s);
    rd_engine_close(s.engine, 1000000, &err);
    memset(s.memory, 0x5a, BYTES);
    tell_rest(&s);
    expect_untouched(&s);
    close_scene(&s, false, true);
}
