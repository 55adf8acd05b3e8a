/* seeds.c: what the fuzzers begin with, from `make fuzz-corpus`: one good file, or almost good one, of each kind.
 *
 *     seeds DIRECTORY          writes DIRECTORY/handshake/..., DIRECTORY/wire/..., DIRECTORY/stream/...
 *
 * Lists of hosts and address files are texts, and stand in the corpus as they are. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/wire.h"

static const char *directory;

static uint8_t made[64 << 10];
static size_t length;

static void add(const void *bytes, size_t count)
{
    memcpy(made + length, bytes, count);
    length += count;
}

static void keep(const char *fuzzer, const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s/%s", directory, fuzzer, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(made, 1, length, file) != length || fclose(file)) {
        perror(path);
        exit(1);
    }
    length = 0;
}

/* --- wire and handshake: the first byte says what it is --- */

static void begin(uint8_t reader)
{
    length = 0;
    add(&reader, 1);
}

/* Each kind of frame, as a head and a body, and as what a session hears. */
static void handshake(void)
{
    static const uint8_t a[RD_NONCE] = {1}, none[RD_NONCE];
    char name[40];
    uint8_t head[RD_FRAME_HEAD], body[RD_FRAME_BODY] = "because.";
    for (uint32_t kind = RD_FRAME_HELLO; kind <= RD_LAST_FRAME; kind++) {
        const bool nonce = kind <= RD_FRAME_CHALLENGE, told = kind == RD_FRAME_SOCKET;
        rd_frame n = {.kind = kind, .from = 2, .size = 3, .number = 1, .job = 77, .counter = 0};
        n.bytes = nonce ? RD_NONCE : told || kind == RD_FRAME_REJECT ? 8 : 0;
        rd_frame_seal(
            &(rd_seal){.key = nonce ? "key" : NULL, .sender = nonce ? a : none, .receiver = none},
            &n, body, head);
        for (uint8_t reader = 0; reader < 3; reader++) {
            begin(reader);
            if (reader == 1)
                add("\0", 1);
            add(head, sizeof head);
            add(body, n.bytes);
            snprintf(name, sizeof name, "%s-%u",
                     reader == 0   ? "frame"
                     : reader == 1 ? "heard"
                                   : "sealed",
                     kind);
            keep("handshake", name);
        }
    }
    begin(2); /* a whole conversation */
    for (uint32_t kind = RD_FRAME_HELLO; kind <= RD_FRAME_GO; kind++) {
        const rd_frame n = {.kind = kind, .bytes = kind <= RD_FRAME_CHALLENGE ? RD_NONCE : 0};
        rd_frame_pack(&n, head);
        add(head, sizeof head);
        add(a, n.bytes);
    }
    keep("handshake", "conversation");
}

static void places(void)
{
    uint8_t place[RD_PLACE];
    rd_place p = {.host = 5,
                  .name = "node1",
                  .pid = 77,
                  .cpus = 4,
                  .quota = 4,
                  .cores = 15,
                  .port = 4000,
                  .count = 2};
    p.at[0] = (rd_ip){.family = 4, .bytes = {10, 0, 0, 1}};
    p.at[1] = (rd_ip){.family = 6, .bytes = {0xfe, 0x80, 1}, .scope = 2};
    begin(0);
    rd_place_pack(&p, place);
    add(place, sizeof place);
    keep("wire", "place");
}

static rd_head message(uint32_t bytes, uint64_t total)
{
    return (rd_head){.kind = RD_MESSAGE,
                     .bytes = bytes,
                     .total = total,
                     .call = {.sequence = 1,
                              .count = total / 4,
                              .mark = 9,
                              .kind = RONDA_ALLREDUCE,
                              .type = RONDA_F32,
                              .op = RONDA_SUM}};
}

static void connected(void)
{
    uint8_t head[RD_HEAD], news[RD_NEWS_ITEM], cause[RD_CAUSE];
    rd_head h = message(64, 100);
    begin(1);
    rd_head_pack(&h, head);
    add(head, sizeof head);
    keep("wire", "head");
    rd_news n = {.rank = 2, .awaits = 1, .age_ms = 30, .inside = true, .call = message(4, 4).call};
    begin(2);
    rd_news_pack(&n, news);
    add(news, sizeof news);
    keep("wire", "news");
    rd_error e = {.rank = 1, .sequence = 3};
    rd_fail(&e, RONDA_EPEER, 2, "rank 2 died in allreduce #3");
    begin(3);
    rd_cause_pack(&e, cause);
    add(cause, sizeof cause);
    keep("wire", "cause");
}

/* --- stream: what happens, by letters (fuzz_stream.c) --- */

static void say_as(char how, uint8_t line, const rd_head *h, const void *bytes, size_t count)
{
    uint8_t packed[RD_HEAD];
    const size_t all = RD_HEAD + count;
    const uint8_t start[] = {(uint8_t)how, line, (uint8_t)all, (uint8_t)(all >> 8)};
    rd_head_pack(h, packed);
    add(start, sizeof start);
    add(packed, sizeof packed);
    if (count)
        add(bytes, count);
}

static void say(uint8_t line, const rd_head *h, const void *bytes, size_t count)
{
    say_as('w', line, h, bytes, count);
}

static void do_it(const char *letters, size_t count)
{
    add(letters, count);
}

static void tell(const char *name, const rd_head *h, const void *bytes, size_t count)
{
    say(0, h, bytes, count);
    do_it("t\xffn", 3);
    keep("stream", name);
}

static void messages(void)
{
    static const uint8_t data[3000] = {1, 2, 3};
    rd_head h = message(40, 40);
    tell("message-short", &h, data, h.bytes);
    h = message(3000, 3000);
    tell("message-long", &h, data, h.bytes);
    h = message(0, 0);
    tell("message-empty", &h, data, 0);
    h = message(100, 40000);
    tell("message-begun", &h, data, h.bytes);
    h.total = INT64_MAX;
    tell("message-huge", &h, data, h.bytes);
    h.channel = 7;
    tell("message-channel", &h, data, h.bytes);
    h = message(1000, 2500);
    for (int i = 0; i < 3; i++) {
        h.bytes = i < 2 ? 1000 : 500;
        say(0, &h, data, h.bytes);
        do_it("t\x10", 2);
    }
    do_it("t\xff", 2);
    keep("stream", "message-pieces");
    for (int i = 0; i < 18; i++) {
        h = message(8, 8);
        say(1, &h, data, 8);
    }
    keep("stream", "message-too-many");
    h = message(8, 8);
    say(0, &h, data, 8);
    do_it("c", 1);
    say(2, &h, data, 8);
    do_it("t\xff", 2);
    keep("stream", "two-lines");
    for (int i = 0; i < 6; i++) {
        h = message(255 << 10, 255 << 10);
        say(0, &h, data, 0);
        do_it("z\0\xff", 3);
    }
    do_it("t\xff", 2);
    keep("stream", "window-passed");
}

static void credits(void)
{
    rd_head h = {.kind = RD_CREDIT, .taken = 1, .freed = 30};
    do_it("s\0\0\x1e", 4);
    tell("credit", &h, NULL, 0);
    h.freed = 31;
    do_it("s\0\0\x1e", 4);
    tell("credit-lie", &h, NULL, 0);
    do_it("js\0\0\xff", 5);
    h = (rd_head){.kind = RD_CREDIT, .world = (uint64_t)1 << 40 | 1, .taken = 0, .freed = 1000};
    say(0, &h, NULL, 0);
    do_it("kan", 3);
    keep("stream", "part");
    do_it("s\0\1\xffs\0\1\xff"
          "d\0s\0\1\xff"
          "aqd\0h\0",
          18);
    keep("stream", "sent-and-aborted");
}

static void words(void)
{
    uint8_t news[RD_NEWS_ITEM], cause[RD_CAUSE];
    rd_news n = {.rank = 2, .awaits = 1, .age_ms = 30, .inside = true, .call = message(4, 4).call};
    rd_head h = {.kind = RD_NEWS, .bytes = RD_NEWS_ITEM};
    rd_news_pack(&n, news);
    tell("news", &h, news, sizeof news);
    n.rank = n.awaits = 99;
    rd_news_pack(&n, news);
    tell("news-strange", &h, news, sizeof news);
    rd_error e = {.rank = 1, .sequence = 3};
    rd_fail(&e, RONDA_EPEER, 2, "rank 2 died in allreduce #3");
    rd_cause_pack(&e, cause);
    h = (rd_head){.kind = RD_ALARM, .bytes = RD_CAUSE};
    tell("alarm", &h, cause, sizeof cause);
    memset(cause, 0x1b, sizeof cause);
    tell("alarm-odd", &h, cause, sizeof cause);
    h = (rd_head){.kind = RD_BYE};
    say(0, &h, NULL, 0);
    h.kind = RD_HANGUP;
    say(0, &h, NULL, 0);
    do_it("h\0s\0\1\1", 6);
    keep("stream", "bye");
    say(0, &h, NULL, 0);
    do_it("h\0s\0\1\1n", 7);
    keep("stream", "hangup-without-bye");
    h = message(3000, 3000);
    say(0, &h, "abc", 3);
    do_it("h\0t\xff", 4);
    keep("stream", "cut-in-the-middle");
}

/* Ranks whose frames have checksums. */
static void checksums(void)
{
    static const uint8_t data[3000] = {3, 1, 2};
    rd_head h = message(3000, 5000);
    do_it("C", 1);
    say_as('W', 0, &h, data, h.bytes);
    do_it("t\x20", 2);
    h.bytes = 2000;
    say_as('W', 0, &h, data, h.bytes);
    do_it("t\xff", 2);
    keep("stream", "checked");
    do_it("C", 1);
    say_as('W', 1, &(rd_head){.kind = RD_BYE}, NULL, 0);
    h = message(8, 8);
    h.body_crc = 5;
    say_as('W', 0, &h, data, 8);
    say(0, &h, data, 8);
    do_it("t\xffs\0\1\1q", 7);
    keep("stream", "checked-head-wrong");
    do_it("C", 1);
    h = message(3000, 3000);
    say_as('W', 0, &h, data, 1000); /* its checksum is that of the first 1000 */
    do_it("z\0\x02t\xffn", 6);
    keep("stream", "checked-body-wrong");
}

int main(int count, char **arguments)
{
    if (count != 2) {
        fprintf(stderr, "usage: seeds DIRECTORY\n");
        return 2;
    }
    directory = arguments[1];
    handshake();
    places();
    connected();
    messages();
    credits();
    words();
    checksums();
    return 0;
}
