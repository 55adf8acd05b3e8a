/* trouble.c: finding out what went wrong, and saying it in one sentence.
 *
 * Everything here runs only when a call has already waited for long or failed.  It reads the board,
 * where each rank has announced its last calls; marks hash a call together with all before it, so two
 * ranks agree on their whole history as long as their marks agree. */
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/operation.h"

enum { HISTORY = 128, TEXT = 128, SILENCE_NS = 700000000, MOST_RANKS = 1024 };

static void blame(rd_link *link, const rd_record *mine, rd_error *err)
{
    err->rank = link->rank;
    err->sequence = mine->sequence;
}

/* The first call in which this rank and the peer differ, as far back as both can still tell. */
static bool first_difference(rd_link *link, const rd_record *mine, uint32_t peer, rd_record *ours,
                             rd_record *theirs)
{
    const uint64_t back = mine->sequence > HISTORY ? mine->sequence - HISTORY + 1 : 1;
    for (uint64_t q = back; q <= mine->sequence; q++)
        if (rd_control_record(link, link->rank, q, ours) &&
            rd_control_record(link, peer, q, theirs) && ours->mark != theirs->mark)
            return true;
    return false;
}

/* Marks differ, and nothing else: then they have differed before. */
static bool are_alike(const rd_record *a, const rd_record *b)
{
    return a->kind == b->kind && a->count == b->count && a->type == b->type && a->op == b->op &&
           a->root == b->root && a->algorithm == b->algorithm;
}

static const char *differing(const rd_record *a, const rd_record *b)
{
    const uint32_t algorithms = a->algorithm ^ b->algorithm;
    return a->kind != b->kind || rd_record_purpose(a) != rd_record_purpose(b) ? "collective"
           : a->count != b->count                                             ? "count"
           : a->type != b->type                                               ? "type"
           : a->op != b->op                                                   ? "op"
           : a->root != b->root                                               ? "root"
           : algorithms & RD_RECORD_URGENT ? "whether their priority is above 0"
           : algorithms                    ? "algorithm"
                                           : "counts";
}

static const char *algorithm_of(const rd_record *r)
{
    uint32_t row = r->algorithm & 0xffff;
    const rd_algorithm *a = rd_algorithms;
    for (; a->name && row; a++)
        row--;
    return a->name ? a->name : "?";
}

ronda_status rd_trouble_mismatch(rd_link *link, const rd_record *mine, uint32_t peer, rd_error *err)
{
    rd_record ours, theirs;
    char us[TEXT], them[TEXT];

    blame(link, mine, err);
    if (first_difference(link, mine, peer, &ours, &theirs)) {
        err->sequence = ours.sequence;
        rd_record_text(&ours, us, sizeof us);
        rd_record_text(&theirs, them, sizeof them);
        if (are_alike(&ours, &theirs) && !rd_kind(ours.kind)->counted)
            return rd_fail(err, RONDA_EMISMATCH, peer,
                           "ranks %u and %u both called %s, but made different calls before it",
                           link->rank, peer, us);
        char algorithms[80] = "";
        if (strcmp(differing(&ours, &theirs), "algorithm") == 0)
            snprintf(algorithms, sizeof algorithms, ": %.30s and %.30s", algorithm_of(&ours),
                     algorithm_of(&theirs));
        return rd_fail(
            err, RONDA_EMISMATCH, peer,
            "ranks made different calls: rank %u called %s, but rank %u called %s (they differ in %s%s)",
            link->rank, us, peer, them, differing(&ours, &theirs), algorithms);
    }
    rd_record_text(mine, us, sizeof us);
    const rd_presence p = rd_control_presence(link, peer);
    if (mine->kind == RONDA_ALLTOALLV)
        return rd_fail(err, RONDA_EMISMATCH, peer,
                       "in %s rank %u does not send rank %u as many elements as rank %u expects",
                       us, peer, link->rank, link->rank);
    return rd_fail(
        err, RONDA_EMISMATCH, peer,
        "rank %u, in %s, got a message of another call from rank %u, which has made %" PRIu64
        " calls",
        link->rank, us, peer, p.sequence);
}

ronda_status rd_trouble_look(rd_link *link, const rd_record *mine, uint32_t peer, rd_error *err)
{
    rd_record theirs;
    if (rd_control_record(link, peer, mine->sequence, &theirs) && theirs.mark != mine->mark)
        return rd_trouble_mismatch(link, mine, peer, err);
    return RONDA_OK;
}

ronda_status rd_trouble_invalid(rd_link *link, const rd_record *mine, uint32_t peer, rd_error *err)
{
    char us[TEXT];
    blame(link, mine, err);
    rd_record_text(mine, us, sizeof us);
    return rd_fail(
        err, RONDA_EPEER, peer,
        "rank %u, in %s, got from rank %u what cannot be a message: its memory has been overwritten",
        link->rank, us, peer);
}

ronda_status rd_trouble_closed(rd_link *link, const rd_record *mine, uint32_t peer, rd_error *err)
{
    const rd_presence p = rd_control_presence(link, peer);
    rd_record theirs;
    char us[TEXT], last[TEXT] = "none";

    blame(link, mine, err);
    rd_record_text(mine, us, sizeof us);
    if (rd_control_record(link, peer, p.sequence, &theirs))
        rd_record_text(&theirs, last, sizeof last);
    return rd_fail(err, RONDA_EPEER, peer,
                   "rank %u needs rank %u for %s, but rank %u has closed (its last call: %s)",
                   link->rank, peer, us, peer, last);
}

ronda_status rd_trouble_missed(rd_link *link, const rd_record *theirs, uint32_t peer, rd_error *err)
{
    char them[TEXT];
    blame(link, theirs, err);
    rd_record_text(theirs, them, sizeof them);
    return rd_fail(err, RONDA_EMISMATCH, peer,
                   "ranks made different calls: rank %u called %s, but rank %u closed without it",
                   peer, them, link->rank);
}

/* --- the deadline --- */

static bool has_called(rd_link *link, const rd_record *mine, uint32_t rank)
{
    return rd_control_presence(link, rank).sequence >= mine->sequence;
}

static bool is_silent(const rd_presence *p, uint64_t now)
{
    return p->heard_ns + SILENCE_NS < now;
}

/* Of those who are known by remote, who has not been heard of for longest; RONDA_ANY: nobody for long. */
static uint32_t longest_silent(rd_link *link, uint64_t now)
{
    uint32_t found = RONDA_ANY;
    uint64_t heard_ns = UINT64_MAX;
    for (uint32_t r = 0; r < link->size; r++) {
        const rd_presence p = rd_control_presence(link, r);
        if (r == link->rank || !p.remote || p.closed || !is_silent(&p, now) ||
            p.heard_ns >= heard_ns)
            continue;
        found = r;
        heard_ns = p.heard_ns;
    }
    return found;
}

/* Follows "waits for" from rank to rank to one that is not inside the call or one before it, or that has
 * not been heard of for long: whoever waits says so several times a second.  If that leads in a circle, any rank
 * that has not made the call, or that is silent. */
static uint32_t missing_rank(rd_link *link, const rd_record *mine, uint32_t from)
{
    const uint64_t now = rd_now_ns();
    uint32_t at = from;
    for (uint32_t hops = 0; at < link->size && hops <= link->size; hops++) {
        const rd_presence p = rd_control_presence(link, at);
        if (!p.inside || p.sequence > mine->sequence || is_silent(&p, now))
            return at;
        if (p.awaits >= link->size)
            break;
        at = p.awaits;
    }
    for (uint32_t r = 0; r < link->size; r++)
        if (!has_called(link, mine, r))
            return r;
    const uint32_t silent = longest_silent(link, now);
    return silent != RONDA_ANY ? silent : at < link->size ? at : from;
}

/* Where a rank stands, seen from a call. */
enum {
    CLOSED,
    ABSENT,
    FINISHED,
    POSTED,
    WAITING,
    INSIDE,
    UNHEARD,
    HEARD,
    SENDING,
    RECEIVING,
    UNASKED
};
typedef struct {
    uint32_t state, awaits, tag; /* awaits: if WAITING; both of a message: RONDA_ANY, any */
} standing;

static standing stands(rd_link *link, const rd_record *mine, uint32_t rank)
{
    const rd_presence p = rd_control_presence(link, rank);
    if (p.closed)
        return (standing){CLOSED, 0, 0};
    if (p.message.direction)
        return (standing){p.message.direction == RD_SENDING ? SENDING : RECEIVING, p.awaits,
                          p.message.tag};
    if (p.sequence < mine->sequence)
        return (standing){p.remote ? UNHEARD : ABSENT, 0, 0};
    if (p.remote && !p.inside && p.sequence == mine->sequence)
        return (standing){HEARD, 0, 0};
    if (p.posted)
        return (standing){POSTED, 0, 0};
    if (!p.inside || p.sequence > mine->sequence)
        return (standing){FINISHED, 0, 0};
    return p.awaits < link->size ? (standing){WAITING, p.awaits, 0} : (standing){INSIDE, 0, 0};
}

static bool alike(standing a, standing b)
{
    return a.state == b.state && a.awaits == b.awaits && a.tag == b.tag;
}

uint32_t rd_ranks_text(const bool is[], uint32_t size, char *text, size_t capacity)
{
    uint32_t count = 0;
    size_t length = 0;
    *text = 0;
    for (uint32_t from = 0, end; from < size; from = end + 1) {
        for (end = from; end < size && is[end];)
            end++;
        if (end == from)
            continue;
        count += end - from;
        if (length < capacity)
            length += (size_t)snprintf(text + length, capacity - length,
                                       end - from > 1 ? "%s%u-%u" : "%s%u", length ? ", " : "",
                                       from, end - 1);
    }
    return count;
}

/* " are in recv with tag 3 from rank 5" */
static void say_message(standing like, bool many, char *text, size_t capacity)
{
    char tag[24] = "any tag", peer[24] = "any rank";
    if (like.tag != RONDA_ANY)
        snprintf(tag, sizeof tag, "tag %u", like.tag);
    if (like.awaits != RONDA_ANY)
        snprintf(peer, sizeof peer, "rank %u", like.awaits);
    snprintf(text, capacity, " %s in %s with %s %s %s", many ? "are" : "is",
             like.state == SENDING ? "send" : "recv", tag, like.state == SENDING ? "to" : "from",
             peer);
}

/* "; ranks 1-4, 7 wait for rank 5": all who stand alike.  How many they are. */
static uint32_t say_alike(const standing at[], uint32_t size, standing like, char *text,
                          size_t capacity)
{
    static const char *const one[] = {" has closed",
                                      " has not called it either",
                                      " has finished it",
                                      " has posted it and is elsewhere",
                                      " waits for rank %u",
                                      " is in it",
                                      " was not heard of in it",
                                      " was last heard of in it"};
    static const char *const many[] = {" have closed",
                                       " have not called it either",
                                       " have finished it",
                                       " have posted it and are elsewhere",
                                       " wait for rank %u",
                                       " are in it",
                                       " were not heard of in it",
                                       " were last heard of in it"};
    char ranks[160];
    bool is[MOST_RANKS];
    for (uint32_t r = 0; r < size; r++)
        is[r] = alike(at[r], like);
    const uint32_t count = rd_ranks_text(is, size, ranks, sizeof ranks);
    const size_t length =
        (size_t)snprintf(text, capacity, "; rank%s %s", count > 1 ? "s" : "", ranks);
    if (like.state == SENDING || like.state == RECEIVING)
        say_message(like, count > 1, text + length, capacity - length);
    else
        snprintf(text + length, capacity - length, (count > 1 ? many : one)[like.state],
                 like.awaits);
    return count;
}

/* Appends what all others are waiting for, as far as it fits. */
static void say_others(rd_link *link, const rd_record *mine, uint32_t missing, char *text,
                       size_t capacity)
{
    standing at[MOST_RANKS];
    const uint32_t size = link->size < MOST_RANKS ? link->size : MOST_RANKS;
    size_t length = 0;
    uint32_t unsaid = link->size - size;
    for (uint32_t r = 0; r < size; r++)
        at[r] = r == link->rank || r == missing ? (standing){UNASKED, 0, 0} : stands(link, mine, r);
    for (uint32_t r = 0; r < size; r++) {
        char one[240];
        uint32_t first = 0;
        while (!alike(at[first], at[r]))
            first++;
        if (at[r].state == UNASKED || first < r)
            continue;
        const uint32_t count = say_alike(at, size, at[r], one, sizeof one);
        if (length + strlen(one) + 24 < capacity)
            length += (size_t)snprintf(text + length, capacity - length, "%s", one);
        else
            unsaid += count;
    }
    if (unsaid)
        snprintf(text + length, capacity - length, "; and %u more", unsaid);
}

/* What a rank has called last, and whether it is over. */
static void say_last(rd_link *link, uint32_t rank, const rd_presence *p, char *text,
                     size_t capacity)
{
    rd_record theirs;
    char call[TEXT];
    if (p->message.direction) {
        rd_pending_text(&p->message, call, sizeof call);
        snprintf(text, capacity, "it is in %s", call);
    } else if (rd_control_record(link, rank, p->sequence, &theirs)) {
        rd_record_text(&theirs, call, sizeof call);
        if (p->remote && !p->inside && !p->posted)
            snprintf(text, capacity, "the last that was heard of it: %s", call);
        else
            snprintf(text, capacity, "its last call, %s, is %s", call,
                     p->inside || p->posted ? "under way" : "done");
    } else {
        snprintf(text, capacity, "%s",
                 p->posted   ? "it has messages under way"
                 : p->remote ? "nothing was heard of it"
                             : "it has made no call yet");
    }
}

/* A rank that is in a send to one whose unexpected queue is full will stay there. */
static void say_full(rd_link *link, const rd_pending *message, char *text, size_t capacity)
{
    *text = 0;
    if (message->direction != RD_SENDING || message->peer >= link->size ||
        !rd_control_presence(link, message->peer).full)
        return;
    snprintf(text, capacity,
             "; the unexpected queue of rank %u is full: it has to receive what it was sent",
             message->peer);
}

ronda_status rd_trouble_timeout(rd_link *link, const rd_record *mine, uint32_t peer,
                                uint64_t timeout_ns, rd_error *err)
{
    const uint32_t missing = missing_rank(link, mine, peer);
    char us[TEXT], last[TEXT + 32], full[TEXT], others[240] = "";

    blame(link, mine, err);
    rd_record_text(mine, us, sizeof us);
    say_others(link, mine, missing, others, sizeof others);
    if (missing >= link->size)
        return rd_fail(err, RONDA_ETIMEOUT, RONDA_ANY, "rank %u: %s timed out after %.3g s%s",
                       link->rank, us, (double)timeout_ns / 1e9, others);
    const rd_presence p = rd_control_presence(link, missing);
    const bool entered = p.sequence >= mine->sequence;
    say_last(link, missing, &p, last, sizeof last);
    say_full(link, &p.message, full, sizeof full);
    return rd_fail(err, RONDA_ETIMEOUT, missing,
                   "rank %u: %s timed out after %.3g s waiting for rank %u, which %s (%s)%s%s",
                   link->rank, us, (double)timeout_ns / 1e9, missing,
                   !entered && p.remote && !p.message.direction ? "was not heard of in it"
                   : !entered                                   ? "has not called it"
                   : p.message.direction ? "has called it and waits for something else"
                   : p.posted            ? "has posted it and does not wait for it"
                   : p.inside && !is_silent(&p, rd_now_ns()) ? "is in it"
                   : p.inside || !p.remote                   ? "is in it and silent"
                                                             : "was last heard of in it",
                   last, full, others);
}

/* --- messages --- */

/* "; rank 2 is in barrier #3" */
static void say_where(rd_link *link, uint32_t rank, char *text, size_t capacity)
{
    const rd_presence p = rd_control_presence(link, rank);
    rd_record record;
    char call[TEXT];
    const bool known = rd_control_record(link, rank, p.sequence, &record);
    if (known)
        rd_record_text(&record, call, sizeof call);
    if (p.message.direction)
        rd_pending_text(&p.message, call, sizeof call);
    if (p.closed)
        snprintf(text, capacity, "; rank %u has closed", rank);
    else if (p.message.direction || (known && p.inside))
        snprintf(text, capacity, "; rank %u is in %s", rank, call);
    else if (known && p.posted)
        snprintf(text, capacity, "; rank %u has calls under way up to %s, and waits for none", rank,
                 call);
    else if (p.posted)
        snprintf(text, capacity, "; rank %u has messages under way, and waits for none", rank);
    else if (known)
        snprintf(text, capacity, "; rank %u is in no call%s, the last was %s", rank,
                 p.remote ? " that was heard of" : "", call);
    else
        snprintf(text, capacity, "; rank %u %s", rank,
                 p.remote ? "was not heard of" : "has made no call yet");
}

/* Of a receive from any rank: where all others are, as far as it fits. */
static void say_everybody(rd_link *link, char *text, size_t capacity)
{
    size_t length = 0;
    uint32_t unsaid = 0;
    *text = 0;
    for (uint32_t r = 0; r < link->size; r++) {
        char one[TEXT + 64];
        if (r == link->rank)
            continue;
        say_where(link, r, one, sizeof one);
        if (!unsaid && length + strlen(one) + 24 < capacity)
            length += (size_t)snprintf(text + length, capacity - length, "%s", one);
        else
            unsaid++;
    }
    if (unsaid)
        snprintf(text + length, capacity - length, "; and %u more", unsaid);
}

ronda_status rd_trouble_message(rd_link *link, const rd_pending *mine, uint64_t timeout_ns,
                                rd_error *err)
{
    char us[TEXT], where[280], full[TEXT];
    const bool sends = mine->direction == RD_SENDING;
    const rd_presence own = rd_control_presence(link, link->rank);
    err->rank = link->rank;
    err->sequence = 0;
    rd_pending_text(mine, us, sizeof us);
    say_full(link, mine, full, sizeof full);
    if (mine->peer == link->rank)
        snprintf(where, sizeof where, "; it is addressed to this rank itself");
    else if (mine->peer < link->size)
        say_where(link, mine->peer, where, sizeof where);
    else
        say_everybody(link, where, sizeof where);
    const rd_pending theirs = mine->peer < link->size && mine->peer != link->rank
                                  ? rd_control_presence(link, mine->peer).message
                                  : (rd_pending){0};
    const bool both = theirs.direction == mine->direction && theirs.peer == link->rank;
    return rd_fail(err, RONDA_ETIMEOUT, mine->peer, "rank %u: %s timed out after %.3g s%s%s%s%s",
                   link->rank, us, (double)timeout_ns / 1e9, where,
                   !both   ? ""
                   : sends ? ": both send, and neither receives"
                           : ": both receive, and neither sends",
                   full,
                   !sends && own.full ? "; this rank's unexpected queue is full, and what it "
                                        "waits for may be behind it"
                                      : "");
}
