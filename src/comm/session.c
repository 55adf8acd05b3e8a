#include "comm/session.h"

#include "base/clock.h"
#include "base/fd.h"
#include "comm/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

rd_session rd_session_open(int fd, bool caller, const char *key, uint32_t size)
{
    int family = 0;
    socklen_t length = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length);
    return (rd_session){.fd = fd,
                        .caller = caller,
                        .local = family == AF_UNIX,
                        .key = key,
                        .size = size,
                        .passed = -1};
}

void rd_session_close(rd_session *s)
{
    if (s->fd < 0)
        return;
    close(s->fd);
    if (s->passed >= 0)
        close(s->passed);
    s->fd = s->passed = -1;
}

int rd_session_take_fd(rd_session *s)
{
    const int passed = s->passed;
    s->passed = -1;
    s->cut = false;
    return passed;
}

/* What is told to who has proved nothing has a hash alone: it costs no mac, and perhaps no nonce has come. */
static rd_seal seal_of(const rd_session *s, uint32_t kind, bool by_caller)
{
    static const uint8_t none[RD_NONCE];
    if (kind == RD_FRAME_SOCKET || (kind == RD_FRAME_REJECT && !s->proven))
        return (rd_seal){.sender = none, .receiver = none};
    return (rd_seal){
        .key = s->key, .sender = s->nonces[!by_caller], .receiver = s->nonces[by_caller]};
}

/* The last frame under the key, over a unix socket. */
static void end_handshake(rd_session *s, uint32_t kind)
{
    if (s->local && kind == RD_FRAME_WELCOME)
        s->key = NULL;
}

/* --- saying --- */

static ssize_t send_some(int fd, const uint8_t *bytes, size_t count, int passed)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, count};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(c), &passed, sizeof passed);
    }
    return sendmsg(fd, &m, MSG_NOSIGNAL);
}

static bool send_all(int fd, const uint8_t *bytes, size_t count, int passed, uint64_t until_ns)
{
    for (size_t at = 0; at < count;) {
        const ssize_t n = send_some(fd, bytes + at, count - at, at ? -1 : passed);
        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN)
            return false;
        else if (!rd_await_socket(fd, POLLOUT, until_ns))
            return false;
    }
    return true;
}

static bool say(rd_session *s, const rd_frame *frame, const void *body, int passed,
                uint64_t until_ns)
{
    uint8_t small[RD_FRAME_HEAD + RD_FRAME_BODY];
    const rd_seal seal = seal_of(s, frame->kind, s->caller);
    rd_frame whole = *frame;
    whole.size = s->proven ? s->size : 0;
    whole.counter = s->sent++;
    if (!rd_frame_seal(&seal, &whole, body, small))
        return false;
    end_handshake(s, frame->kind);
    if (frame->bytes > RD_FRAME_BODY)
        return send_all(s->fd, small, RD_FRAME_HEAD, -1, until_ns) &&
               send_all(s->fd, body, frame->bytes, -1, until_ns);
    if (frame->bytes)
        memcpy(small + RD_FRAME_HEAD, body, frame->bytes);
    return send_all(s->fd, small, RD_FRAME_HEAD + (size_t)frame->bytes, passed, until_ns);
}

bool rd_session_send(rd_session *s, const rd_frame *frame, const void *body, uint64_t until_ns)
{
    return say(s, frame, body, -1, until_ns);
}

bool rd_session_send_fd(rd_session *s, const rd_frame *frame, int passed, uint64_t until_ns)
{
    return say(s, frame, NULL, passed, until_ns);
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
    const rd_frame no = {.kind = RD_FRAME_REJECT,
                         .number = status,
                         .to = peer,
                         .bytes = (uint32_t)(length < RD_FRAME_BODY ? length : RD_FRAME_BODY)};
    if (s->fd < 0)
        return;
    rd_session_send(s, &no, text, rd_now_ns() + 100000000);
    close_politely(s);
}

void rd_session_refuse(rd_session *s, rd_refusal why)
{
    rd_session_reject(s, (ronda_status)why, 0, "");
}

/* --- hearing --- */

static bool is_good(rd_session *s, const rd_frame *frame, const uint8_t *body)
{
    const rd_seal seal = seal_of(s, frame->kind, !s->caller);
    if (!s->received && frame->kind == (s->caller ? RD_FRAME_CHALLENGE : RD_FRAME_HELLO))
        memcpy(s->nonces[s->caller], body, RD_NONCE);
    return frame->counter == s->received && rd_frame_is_sealed(&seal, s->head, body);
}

static rd_received verdict_of(rd_frame_verdict verdict)
{
    return verdict == RD_FRAME_OK        ? RD_RECEIVED_PART
           : verdict == RD_FRAME_VERSION ? RD_RECEIVED_VERSION
                                         : RD_RECEIVED_FOREIGN;
}

static rd_received judge_head(const rd_session *s, rd_frame *frame)
{
    const rd_received verdict = verdict_of(rd_frame_unpack(s->head, frame));
    const bool table = !verdict && frame->kind == RD_FRAME_TABLE;
    return table && (!s->table || frame->bytes != s->table_bytes) ? RD_RECEIVED_FOREIGN : verdict;
}

static void keep_passed(rd_session *s, struct msghdr *m)
{
    s->cut |= (m->msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            if (s->passed >= 0)
                close(s->passed);
            memcpy(&s->passed, CMSG_DATA(c) + at, sizeof s->passed);
        }
    }
}

static ssize_t receive(rd_session *s, uint8_t *to, size_t count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    struct iovec part = {to, count};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    if (!s->local)
        return recv(s->fd, to, count, 0);
    const ssize_t n = rd_fd_receive(s->fd, &m, 0);
    if (n >= 0)
        keep_passed(s, &m);
    return n;
}

rd_received rd_session_receive(rd_session *s, rd_frame *frame)
{
    for (;;) {
        size_t whole = RD_FRAME_HEAD;
        uint8_t *to, *body = s->body;
        if (s->have < RD_FRAME_HEAD) {
            to = s->head + s->have;
        } else {
            const rd_received verdict = judge_head(s, frame);
            if (verdict)
                return verdict;
            body = frame->kind == RD_FRAME_TABLE ? s->table : s->body;
            whole += frame->bytes;
            to = body + (s->have - RD_FRAME_HEAD);
        }
        if (s->have >= RD_FRAME_HEAD && s->have == whole) {
            if (!is_good(s, frame, body))
                return RD_RECEIVED_FORGED;
            s->have = 0;
            s->proven |= frame->kind != RD_FRAME_REJECT && frame->kind != RD_FRAME_HELLO &&
                         frame->kind != RD_FRAME_SOCKET;
            s->received++;
            end_handshake(s, frame->kind);
            return RD_RECEIVED_FRAME;
        }
        const ssize_t n = receive(s, to, whole - s->have);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return RD_RECEIVED_PART;
        if (n <= 0)
            return RD_RECEIVED_END;
        s->have += (size_t)n;
        if (s->have < RD_FRAME_HEAD) { /* do not wait for more of what is not ours */
            const rd_received verdict = verdict_of(rd_frame_begins(s->head, s->have, frame));
            if (verdict)
                return verdict;
        }
    }
}

rd_received rd_session_await(rd_session *s, uint64_t until_ns, rd_frame *frame)
{
    for (;;) {
        const rd_received received = rd_session_receive(s, frame);
        if (received || !rd_await_socket(s->fd, POLLIN, until_ns))
            return received;
    }
}

rd_received rd_session_greet(rd_session *s, rd_way way, const rd_frame *proof, int passed,
                             uint64_t until_ns, rd_frame *frame)
{
    const rd_frame hello = {.kind = RD_FRAME_HELLO, .number = (int32_t)way, .bytes = RD_NONCE};
    uint8_t mac[RD_MAC];
    if (!rd_random(s->nonces[0], RD_NONCE) ||
        (s->key && rd_mac_possible() && !rd_mac(s->key, "", 0, mac)))
        return RD_RECEIVED_UNABLE;
    rd_session_send(s, &hello, s->nonces[0], until_ns); /* if not: the reason is received next */
    const rd_received received = rd_session_await(s, until_ns, frame);
    if (received != RD_RECEIVED_FRAME || frame->kind != RD_FRAME_CHALLENGE)
        return received;
    rd_session_send_fd(s, proof, passed, until_ns);
    return rd_session_await(s, until_ns, frame);
}

/* --- what a rejection says --- */

ronda_status rd_session_rejected(const rd_session *s, const rd_frame *frame, rd_error *err)
{
    char text[RD_FRAME_BODY + 1];
    rd_frame_text(s->body, frame->bytes, text);
    const bool known = frame->number < 0 && frame->number >= RONDA_EINTERNAL;
    return rd_fail(err, known ? frame->number : RONDA_EPEER,
                   frame->to < s->size ? frame->to : RONDA_ANY, "%s", text);
}

ronda_status rd_refusal_text(int32_t why, uint32_t called, const char *caller,
                             char text[RD_REFUSAL_TEXT])
{
    static const struct {
        ronda_status status;
        const char *says; /* %1$u: who was called, %2$s: who called */
    } refusals[] = {
        [RD_REFUSES_VERSION] = {RONDA_EUNSUPPORTED, "%2$s: rank %1$u speaks another version"},
        [RD_REFUSES_KEY] = {RONDA_EINVAL, "%2$s: its RONDA_KEY is not rank %1$u's"},
        [RD_REFUSES_NO_KEY] = {RONDA_EINVAL, "rank %1$u has a RONDA_KEY, %2$s has none: give all "
                                             "ranks the same"},
        [RD_REFUSES_ANY_KEY] = {RONDA_EINVAL, "rank %1$u has no RONDA_KEY, %2$s has one: give all "
                                              "ranks the same"},
        [RD_REFUSES_CAUTION] = {RONDA_EINVAL, "rank %1$u lets in whoever comes, %2$s only its own "
                                              "user: set RONDA_KEY or RONDA_INSECURE=1 on all "
                                              "ranks"},
        [RD_REFUSES_FAILURE] = {RONDA_EUNSUPPORTED, "%2$s: rank %1$u has no random numbers"},
        [RD_REFUSES_HASH] = {RONDA_EINVAL, "%2$s has no libcrypto to prove its RONDA_KEY with, but "
                                           "rank %1$u has, and asks for a proof"},
        [RD_REFUSES_MAC] = {RONDA_EINVAL, "rank %1$u has no libcrypto to prove its RONDA_KEY with, "
                                          "but %2$s has, and asks for a proof"},
        [RD_REFUSES_USER] = {RONDA_EPEER, "%2$s: rank %1$u belongs to another user"}};
    if (why < RD_REFUSES_VERSION || why > RD_REFUSES_USER)
        return RONDA_OK;
    snprintf(text, RD_REFUSAL_TEXT, refusals[why].says, called, caller);
    return refusals[why].status;
}
