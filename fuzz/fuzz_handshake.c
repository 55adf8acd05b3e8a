/* fuzz_handshake.c: the frames of the handshake, and a session that hears them.
 *
 * The first byte says what is done with the others: they are a head and a body as they came; or all that a session
 * hears from one who does not know the key; or the same without a key, where frames are sealed for the fuzzer, as
 * anybody could. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/session.h"
#include "fuzz.h"

enum { SIZE = 3, TABLE = 3 * 40, MOST = 4096 };

static void read_frame(const uint8_t *bytes, size_t length)
{
    static const uint8_t a[RD_NONCE] = {1}, b[RD_NONCE] = {2};
    const rd_seal seal = {.key = "key", .sender = a, .receiver = b};
    const rd_seal back = {.key = "key", .sender = b, .receiver = a};
    uint8_t head[RD_FRAME_HEAD] = {0}, packed[RD_FRAME_HEAD], body[MOST] = {0};
    char text[RD_FRAME_BODY + 1];
    rd_frame n, m;
    memcpy(head, bytes, length < sizeof head ? length : sizeof head);
    const size_t rest = length > sizeof head ? length - sizeof head : 0;
    if (rest)
        memcpy(body, bytes + sizeof head, rest < sizeof body ? rest : sizeof body);
    const rd_frame_verdict verdict = rd_frame_unpack(head, &n);
    for (size_t have = 1; have <= sizeof head && verdict == RD_FRAME_OK; have++)
        fuzz_require(rd_frame_begins(head, have, &m) == RD_FRAME_OK, "a frame begins as one");
    if (verdict != RD_FRAME_OK || n.bytes > sizeof body)
        return;
    fuzz_require(n.kind == RD_FRAME_TABLE || n.bytes <= RD_FRAME_BODY, "a body has bounds");
    rd_frame_pack(&n, packed);
    fuzz_require(memcmp(head, packed, sizeof head) == 0, "a head has one way to be written");
    fuzz_require(!rd_frame_is_sealed(&seal, head, body), "nobody makes a mac without the key");
    rd_frame_text(body, n.bytes, text);
    fuzz_require(strlen(text) <= RD_FRAME_BODY && fuzz_is_one_line(text), "a text can be shown");
    fuzz_require(rd_frame_seal(&seal, &n, body, packed) &&
                     rd_frame_is_sealed(&seal, packed, body) &&
                     !rd_frame_is_sealed(&back, packed, body),
                 "who speaks is known");
    const size_t bit = (head[56] | (size_t)head[57] << 8) % (8 * (sizeof packed + n.bytes));
    if (bit / 8 < sizeof packed)
        packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
    else
        body[bit / 8 - sizeof packed] ^= (uint8_t)(1 << bit % 8);
    fuzz_require(rd_frame_unpack(packed, &m) != RD_FRAME_OK || m.bytes != n.bytes ||
                     !rd_frame_is_sealed(&seal, packed, body),
                 "a changed frame is not taken");
}

static int speak(int ends[2])
{
    fuzz_require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0,
                 "there are sockets");
    return ends[0];
}

/* As it comes from one who does not know the key: no frame is taken but a rejection, or where a socket is. */
static void hear_unproven(const uint8_t *bytes, size_t length)
{
    static uint8_t table[TABLE];
    int ends[2];
    rd_frame n;
    rd_session s = rd_session_open(speak(ends), length && bytes[0] & 1, "key", SIZE);
    s.table = table;
    s.table_bytes = sizeof table;
    if (length > 1)
        fuzz_require(send(ends[1], bytes + 1, length - 1, MSG_NOSIGNAL) > 0, "it can be sent");
    shutdown(ends[1], SHUT_WR);
    for (rd_received heard; (heard = rd_session_receive(&s, &n)) != RD_RECEIVED_END;) {
        fuzz_require(heard != RD_RECEIVED_PART, "what has ended is no part");
        if (heard != RD_RECEIVED_FRAME)
            break;
        fuzz_require(n.kind == RD_FRAME_REJECT || n.kind == RD_FRAME_SOCKET, "nothing is proved");
    }
    fuzz_require(!s.proven, "nobody proves what it does not know");
    rd_session_close(&s);
    close(ends[1]);
}

/* Frame after frame, each with the right mac: whatever they say, the session stays sound. */
static void hear_sealed(const uint8_t *bytes, size_t length)
{
    static uint8_t table[TABLE];
    int ends[2];
    rd_session says = rd_session_open(speak(ends), true, NULL, SIZE);
    rd_session hears = rd_session_open(ends[1], false, NULL, SIZE);
    hears.table = table;
    hears.table_bytes = sizeof table;
    while (length >= RD_FRAME_HEAD) {
        uint8_t body[RD_FRAME_BODY] = {0};
        rd_frame n, got;
        const rd_frame_verdict verdict = rd_frame_unpack(bytes, &n);
        bytes += RD_FRAME_HEAD, length -= RD_FRAME_HEAD;
        if (verdict != RD_FRAME_OK || n.bytes > sizeof body)
            break;
        memcpy(body, bytes, n.bytes < length ? n.bytes : length);
        bytes += n.bytes < length ? n.bytes : length;
        length -= n.bytes < length ? n.bytes : length;
        const bool proven = says.proven = hears.proven;
        if (n.kind == RD_FRAME_HELLO)
            memcpy(says.nonces[0], body, RD_NONCE);
        fuzz_require(rd_session_send(&says, &n, body, UINT64_MAX), "it can be said");
        const rd_received heard = rd_session_receive(&hears, &got);
        fuzz_require(heard == RD_RECEIVED_FRAME || heard == RD_RECEIVED_FOREIGN ||
                         (n.kind == RD_FRAME_HELLO && heard == RD_RECEIVED_FORGED),
                     "what is sealed is heard");
        if (heard != RD_RECEIVED_FRAME)
            break;
        fuzz_require(got.kind == n.kind && got.bytes == n.bytes && got.from == n.from &&
                         (got.size == SIZE) == proven,
                     "as it was said");
    }
    rd_session_close(&says);
    rd_session_close(&hears);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static void (*const readers[])(const uint8_t *, size_t) = {read_frame, hear_unproven,
                                                               hear_sealed};
    if (length && length < MOST)
        readers[bytes[0] % (sizeof readers / sizeof *readers)](bytes + 1, length - 1);
    return 0;
}
