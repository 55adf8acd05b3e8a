#include "comm/session.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proof.h"
#include "comm/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BEFORE = 80 }; /* of the text under a mac: direction 8, nonces 64, number 8 */

rd_session rd_session_open(int fd, bool caller, const char *key, uint32_t size)
{
    return (rd_session){.fd = fd, .caller = caller, .key = key, .size = size};
}

void rd_session_close(rd_session *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

static bool mac_of(const rd_session *s, bool by_caller, uint64_t number,
                   const uint8_t head[RD_NOTE_HEAD], const void *body, uint32_t bytes,
                   uint8_t out[32])
{
    memset(out, 0, 32);
    if (!s->key)
        return true;
    const size_t all = BEFORE + RD_NOTE_HEAD + (size_t)bytes;
    uint8_t small[BEFORE + RD_NOTE_HEAD + RD_NOTE_BODY] = {0};
    uint8_t *text = all > sizeof small ? rd_alloc(all) : small;
    if (!text)
        return false;
    memcpy(text, by_caller ? "caller" : "called", 6);
    memcpy(text + 8, s->nonces, 64);
    for (int i = 0; i < 8; i++)
        text[72 + i] = (uint8_t)(number >> 8 * i);
    memcpy(text + BEFORE, head, RD_NOTE_HEAD);
    memset(text + BEFORE + RD_NOTE_HEAD - 32, 0, 32); /* where the mac itself stands */
    if (bytes)
        memcpy(text + BEFORE + RD_NOTE_HEAD, body, bytes);
    const bool made = rd_mac(s->key, text, all, out);
    if (text != small)
        rd_free(text);
    return made;
}

/* --- saying --- */

static bool send_all(int fd, const uint8_t *bytes, size_t count, uint64_t until_ns)
{
    for (size_t at = 0; at < count;) {
        const ssize_t n = send(fd, bytes + at, count - at, MSG_NOSIGNAL);
        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        else if (!rd_await_socket(fd, POLLOUT, until_ns))
            return false;
    }
    return true;
}

bool rd_session_say(rd_session *s, const rd_note *note, const void *body, uint64_t until_ns)
{
    uint8_t small[RD_NOTE_HEAD + RD_NOTE_BODY];
    rd_note whole = *note;
    whole.size = s->proven ? s->size : 0;
    rd_note_pack(&whole, small);
    if (!mac_of(s, s->caller, s->said++, small, body, note->bytes, whole.mac))
        return false;
    rd_note_pack(&whole, small);
    if (note->bytes > RD_NOTE_BODY)
        return send_all(s->fd, small, RD_NOTE_HEAD, until_ns) &&
               send_all(s->fd, body, note->bytes, until_ns);
    if (note->bytes)
        memcpy(small + RD_NOTE_HEAD, body, note->bytes);
    return send_all(s->fd, small, RD_NOTE_HEAD + (size_t)note->bytes, until_ns);
}

/* What was said last would be lost if the socket were closed with something unread.  But the other side may send
 * without end: only so much of it is read. */
static void close_politely(rd_session *s)
{
    enum { MOST_UNPROVEN = 8 << 10, MOST = 1 << 20 };
    uint8_t rest[4096];
    ssize_t n = 1;
    shutdown(s->fd, SHUT_WR);
    for (size_t all = 0; n > 0 && all < (size_t)(s->proven ? MOST : MOST_UNPROVEN);) {
        n = recv(s->fd, rest, sizeof rest, MSG_DONTWAIT);
        all += n > 0 ? (size_t)n : 0;
    }
    rd_session_close(s);
}

void rd_session_reject(rd_session *s, ronda_status status, uint32_t peer, const char *text)
{
    const size_t length = strlen(text);
    const rd_note no = {.kind = RD_NOTE_REJECT,
                        .number = status,
                        .peer = peer,
                        .bytes = (uint32_t)(length < RD_NOTE_BODY ? length : RD_NOTE_BODY)};
    if (s->fd < 0)
        return;
    rd_session_say(s, &no, text, rd_now_ns() + 100000000);
    close_politely(s);
}

void rd_session_refuse(rd_session *s, rd_refusal why)
{
    const rd_note no = {.kind = RD_NOTE_REJECT, .number = (int32_t)why};
    if (s->fd < 0)
        return;
    rd_session_say(s, &no, NULL, rd_now_ns() + 100000000);
    close_politely(s);
}

/* --- hearing --- */

static bool is_good(rd_session *s, const rd_note *note, const uint8_t *body)
{
    uint8_t expected[32];
    /* Who does not know our key cannot say so in a way that we could check. */
    if (note->kind == RD_NOTE_REJECT && !s->proven)
        return true;
    if (!s->heard && note->kind == (s->caller ? RD_NOTE_CHALLENGE : RD_NOTE_HELLO))
        memcpy(s->nonces[s->caller], body, 32);
    return mac_of(s, !s->caller, s->heard, s->head, body, note->bytes, expected) &&
           rd_mac_equal(expected, note->mac);
}

static rd_heard judge_head(const rd_session *s, rd_note *note)
{
    switch (rd_note_unpack(s->head, s->size, note)) {
    case RD_NOTE_VERSION:
        return RD_HEARD_VERSION;
    case RD_NOTE_FRAME:
        return RD_HEARD_FRAME;
    case RD_NOTE_FOREIGN:
        return RD_HEARD_FOREIGN;
    default:
        return note->kind == RD_NOTE_TABLE && !s->table ? RD_HEARD_FOREIGN : RD_HEARD_PART;
    }
}

rd_heard rd_session_hear(rd_session *s, rd_note *note)
{
    for (;;) {
        size_t whole = RD_NOTE_HEAD;
        uint8_t *to = s->head + s->have;
        uint8_t *body = s->body;
        if (s->have >= RD_NOTE_HEAD) {
            const rd_heard verdict = judge_head(s, note);
            if (verdict)
                return verdict;
            body = note->kind == RD_NOTE_TABLE ? s->table : s->body;
            whole += note->bytes;
            to = body + (s->have - RD_NOTE_HEAD);
        }
        if (s->have >= RD_NOTE_HEAD && s->have == whole) {
            if (!is_good(s, note, body))
                return RD_HEARD_FORGED;
            s->have = 0;
            s->proven |= note->kind != RD_NOTE_REJECT && note->kind != RD_NOTE_HELLO;
            s->heard++;
            return RD_HEARD_NOTE;
        }
        const ssize_t n = recv(s->fd, to, whole - s->have, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return RD_HEARD_PART;
        if (n <= 0)
            return RD_HEARD_END;
        s->have += (size_t)n;
        if (s->have < RD_NOTE_HEAD && !rd_note_begins(s->head, s->have))
            return RD_HEARD_FOREIGN; /* do not wait for more of what is not ours */
    }
}

rd_heard rd_session_await(rd_session *s, uint64_t until_ns, rd_note *note)
{
    for (;;) {
        const rd_heard heard = rd_session_hear(s, note);
        if (heard || !rd_await_socket(s->fd, POLLIN, until_ns))
            return heard;
    }
}

ronda_status rd_session_rejected(const rd_session *s, const rd_note *note, rd_error *err)
{
    char text[RD_NOTE_BODY + 1];
    rd_note_text(s->body, note->bytes, text);
    const bool known = note->number < 0 && note->number >= RONDA_EINTERNAL;
    return rd_fail(err, known ? note->number : RONDA_EPEER,
                   note->peer < s->size ? note->peer : RONDA_ANY, "%s", text);
}
