/* test_programs.c: random programs of everything: collectives that block and that do not, planned ones,
 * splits of splits, messages by name or by RONDA_ANY, communicators closed in the middle.
 *
 * A program is a list of acts that all ranks know.  Each rank goes through it in order, and takes part in
 * the acts of the communicators that it is in.  Whether an act blocks is each rank's own choice, as far as
 * that cannot deadlock: a rank waits only for what others have begun, or will, before they come to where
 * it stands.
 *
 *     act          0      1        2          3                 4               5
 *     all ranks    call   split    message    call of the part  message posted  close
 *                                  2 -> 0                       at rank 0
 *
 * RONDA_TEST_SECONDS=n goes on for so long; what fails prints the seed of its program. */
#include <stdlib.h>

#include "calls.h"
#include "forest.h"
#include "processes.h"
#include "traffic.h"
#include "under_way.h"

enum { ACTS = 70, LONGEST = 30000, SHORT = 4096 /* words that are sent unasked */ };

typedef enum { CALL, MESSAGE, SPLIT, CLOSE } act_kind;

typedef struct {
    act_kind kind;
    uint32_t node;
    uint32_t asked_at; /* MESSAGE: the act after which its receive is posted, earlier or later */
} act;

/* How the receives of a node are posted: bit 0 from any rank, bit 1 with any tag. */
enum { ANY_RANK = 1, ANY_TAG = 2 };

typedef struct {
    forest f;
    uint32_t count, any[FOREST_NODES];
    act acts[ACTS];
    bool tended; /* with a progress thread */
} script;

/* --- drawing --- */

static uint32_t some_open(rng *r, const bool open[])
{
    uint32_t n;
    do
        n = (uint32_t)rng_below(r, FOREST_NODES);
    while (!open[n]);
    return n;
}

/* Each receive is posted while its communicator is there. */
static void draw_receives(rng *r, script *s, const uint32_t born[], const uint32_t closed[])
{
    for (uint32_t x = 0; x < s->count; x++) {
        act *a = &s->acts[x];
        const uint32_t far = (uint32_t)rng_below(r, 3) * 6;
        const uint32_t first = x - born[a->node] > far ? x - far : born[a->node];
        const uint32_t last = closed[a->node] - 1 - x > far ? x + far : closed[a->node] - 1;
        a->asked_at = first + (uint32_t)rng_below(r, last - first + 1);
    }
}

static void draw_script(rng *r, script *s, uint32_t most)
{
    bool open[FOREST_NODES] = {true};
    uint32_t born[FOREST_NODES] = {0}, closed[FOREST_NODES], made = 1, alive = 1;
    forest_draw(r, &s->f, 1 + (uint32_t)rng_below(r, most));
    s->count = 10 + (uint32_t)rng_below(r, ACTS - 10);
    for (uint32_t n = 0; n < FOREST_NODES; n++) {
        s->any[n] = (uint32_t)rng_below(r, 4);
        closed[n] = s->count;
    }
    for (uint32_t x = 0; x < s->count; x++) {
        const uint64_t dice = rng_below(r, 16);
        act *a = &s->acts[x];
        *a = (act){.kind = dice < 7 ? CALL : MESSAGE, .node = some_open(r, open)};
        if (dice >= 13 && made < FOREST_NODES) {
            a->kind = SPLIT;
            s->f.nodes[made].parent = a->node;
            a->node = made;
            born[made] = x;
            open[made++] = true;
            alive++;
        } else if (dice == 12 && alive > 1) {
            a->kind = CLOSE;
            closed[a->node] = x;
            open[a->node] = false;
            alive--;
        }
    }
    draw_receives(r, s, born, closed);
}

/* --- one rank --- */

typedef struct {
    ronda_request *request; /* NULL: it has been waited for */
    uint32_t *data, node;
    ronda_message info;
    bool receives;
} letter;

typedef struct {
    const script *s;
    uint32_t rank; /* in the world */
    rng own;
    ronda_comm *comms[FOREST_NODES];
    place places[FOREST_NODES];
    traffic traffic[FOREST_NODES]; /* of this rank's part */
    uint32_t act_of[FOREST_NODES][TRAFFIC_MOST];
    planned_call calls[ACTS];
    under_way open[ACTS];
    letter letters[2 * ACTS]; /* in the order in which they were posted */
    uint32_t call_count, letter_count;
} player;

/* What all ranks of a part draw alike for an act. */
static rng rng_of(const player *p, uint32_t x, uint32_t n)
{
    rng r = {p->s->f.seed + x * 1000003 + (uint64_t)p->places[n].part * 77};
    return (rng){rng_next(&r)};
}

static void prepare(player *p)
{
    p->own = (rng){p->s->f.seed ^ (p->rank + 1) * 99991};
    for (uint32_t n = 0; n < FOREST_NODES; n++) {
        p->places[n] = forest_place(&p->s->f, n, p->rank);
        p->traffic[n].seed = p->s->f.seed + n + (uint64_t)p->places[n].part * 77;
    }
    for (uint32_t x = 0; x < p->s->count; x++) {
        const uint32_t n = p->s->acts[x].node;
        if (p->s->acts[x].kind != MESSAGE || p->places[n].part < 0)
            continue;
        traffic *t = &p->traffic[n];
        rng r = rng_of(p, x, n);
        p->act_of[n][t->count] = x;
        t->messages[t->count++] = message_draw(&r, p->places[n].size, LONGEST);
    }
}

static bool play_call(player *p, uint32_t x, uint32_t n)
{
    rng r = rng_of(p, x, n);
    const uint32_t rank = p->places[n].rank;
    const model_call c =
        model_draw(&r, model_kind(&r), p->places[n].size, rng_below(&r, 6) ? 800 : 30000);
    planned_call q = call_plan(&r, &c, true);
    if (rng_below(&p->own, 3) == 0) {
        const bool ok = under_way_run(&p->own, p->comms[n], &q, rank);
        calls_free(&q, 1);
        return ok;
    }
    p->calls[p->call_count] = q;
    return under_way_start(&p->own, p->comms[n], &q, rank, &p->open[p->call_count++]);
}

/* --- messages --- */

/* Whether a receive posted for one message may get the other. */
static bool is_alike(const player *p, uint32_t n, const message *a, const message *b)
{
    const uint32_t any = p->s->any[n];
    return a->to == b->to && (any & ANY_RANK || a->from == b->from) &&
           (any & ANY_TAG || a->tag == b->tag);
}

/* Messages like number i that have been sent when all ranks are past act x, and receives that have been
 * posted for such: i's own is the last of those at its act that count. */
static void count_alike(const player *p, uint32_t n, uint32_t i, uint32_t x, uint32_t *sent,
                        uint32_t *asked)
{
    const traffic *t = &p->traffic[n];
    *sent = *asked = 0;
    for (uint32_t k = 0; k < t->count; k++) {
        const uint32_t asked_at = p->s->acts[p->act_of[n][k]].asked_at;
        if (!is_alike(p, n, &t->messages[i], &t->messages[k]))
            continue;
        *sent += p->act_of[n][k] <= x;
        *asked += asked_at < x || (asked_at == x && k <= i);
    }
}

static bool send_one(player *p, uint32_t n, uint32_t i)
{
    const traffic *t = &p->traffic[n];
    const message *m = &t->messages[i];
    uint32_t sent, asked;
    letter *l = &p->letters[p->letter_count++];
    *l = (letter){.node = n, .data = malloc(m->count * 4 + 1)};
    traffic_fill(t, i, l->data);
    count_alike(p, n, i, p->act_of[n][i], &sent, &asked);
    /* with RONDA_ANY another message may take what was asked for this one */
    const bool safe = m->count <= SHORT || (!p->s->any[n] && asked >= sent && m->from != m->to);
    const ronda_status status =
        safe && rng_below(&p->own, 2)
            ? ronda_send(p->comms[n], l->data, m->count, RONDA_U32, m->to, m->tag)
            : ronda_isend(p->comms[n], l->data, m->count, RONDA_U32, m->to, m->tag, &l->request);
    return CHECK(status == RONDA_OK, "message %u of node %u: %s", i, n,
                 ronda_last_error(p->comms[n]));
}

static bool receive_one(player *p, uint32_t n, uint32_t i, uint32_t x)
{
    const message *m = &p->traffic[n].messages[i];
    const uint32_t from = p->s->any[n] & ANY_RANK ? RONDA_ANY : m->from,
                   tag = p->s->any[n] & ANY_TAG ? RONDA_ANY : m->tag;
    const size_t room = LONGEST > 6000 ? LONGEST : 6000;
    uint32_t sent, asked;
    letter *l = &p->letters[p->letter_count++];
    *l = (letter){.node = n, .receives = true, .data = malloc(room * 4)};
    count_alike(p, n, i, x, &sent, &asked);
    const ronda_status status =
        sent >= asked && rng_below(&p->own, 2)
            ? ronda_recv(p->comms[n], l->data, room, RONDA_U32, from, tag, &l->info)
            : ronda_irecv(p->comms[n], l->data, room, RONDA_U32, from, tag, &l->info, &l->request);
    return CHECK(status == RONDA_OK, "receive %u of node %u: %s", i, n,
                 ronda_last_error(p->comms[n]));
}

/* What this rank sends in act x, or the receives that it posts after it. */
static bool play_messages(player *p, uint32_t x, bool receives)
{
    bool good = true;
    for (uint32_t n = 0; n < FOREST_NODES; n++)
        for (uint32_t i = 0; p->comms[n] && i < p->traffic[n].count && good; i++) {
            const message *m = &p->traffic[n].messages[i];
            const uint32_t sent_at = p->act_of[n][i], asked_at = p->s->acts[sent_at].asked_at;
            if (receives && asked_at == x && m->to == p->places[n].rank)
                good = receive_one(p, n, i, x);
            else if (!receives && sent_at == x && m->from == p->places[n].rank)
                good = send_one(p, n, i);
        }
    return good;
}

static bool wait_letter(player *p, letter *l)
{
    ronda_request *request = l->request;
    l->request = NULL;
    return CHECK(ronda_wait(request) == RONDA_OK, "node %u: %s", l->node,
                 ronda_last_error(p->comms[l->node]));
}

/* --- waiting and closing --- */

static bool finish_call(player *p, uint32_t k)
{
    if (!under_way_finish(&p->own, &p->open[k]))
        return false;
    calls_free(&p->calls[k], 1);
    p->open[k] = p->open[--p->call_count];
    p->calls[k] = p->calls[p->call_count];
    return true;
}

/* Collectives can be waited for: all ranks come to them.  Messages are waited for when they are done, since
 * the other rank may come to its part after what it has before, with us. */
static bool finish_some(player *p)
{
    while (p->call_count && rng_below(&p->own, 3) == 0)
        if (!finish_call(p, (uint32_t)rng_below(&p->own, p->call_count)))
            return false;
    for (uint32_t k = 0; k < p->letter_count; k++) {
        letter *l = &p->letters[k];
        bool done = false;
        if (!l->request || rng_below(&p->own, 8))
            continue;
        if (!CHECK(ronda_test(l->request, &done) == RONDA_OK, "%s",
                   ronda_last_error(p->comms[l->node])) ||
            (done && !wait_letter(p, l)))
            return false;
    }
    return true;
}

/* The receives of a node, in the order in which they were posted, got what was sent. */
static bool check_letters(player *p, uint32_t n)
{
    bool received[TRAFFIC_MOST] = {false};
    uint32_t left = 0;
    for (uint32_t k = 0; k < p->letter_count; k++) {
        letter *l = &p->letters[k];
        if (l->node != n || !l->data)
            continue;
        if (l->receives &&
            !traffic_check(&p->traffic[n], p->places[n].rank, &l->info, l->data, received))
            return false;
        free(l->data);
        l->data = NULL;
    }
    for (uint32_t i = 0; i < p->traffic[n].count; i++)
        left += !received[i] && p->traffic[n].messages[i].to == p->places[n].rank;
    return CHECK(left == 0, "node %u: %u messages were not received", n, left);
}

static bool close_node(player *p, uint32_t n)
{
    for (uint32_t k = p->call_count; k-- > 0;)
        if (p->open[k].comm == p->comms[n] && !finish_call(p, k))
            return false;
    for (uint32_t k = 0; k < p->letter_count; k++)
        if (p->letters[k].node == n && p->letters[k].request && !wait_letter(p, &p->letters[k]))
            return false;
    ronda_comm *comm = p->comms[n];
    if (!check_letters(p, n))
        return false;
    p->comms[n] = NULL;
    return CHECK(ronda_close(comm) == RONDA_OK, "closing node %u: %s", n, ronda_last_error(NULL));
}

static bool play_act(player *p, uint32_t x)
{
    const act *a = &p->s->acts[x];
    if (a->kind == SPLIT)
        return forest_split(&p->s->f, a->node, p->rank, p->comms);
    if (!p->comms[a->node])
        return true;
    return a->kind == CALL    ? play_call(p, x, a->node)
           : a->kind == CLOSE ? close_node(p, a->node)
                              : true;
}

static bool play_script(player *p)
{
    for (uint32_t x = 0; x < p->s->count; x++)
        if (!play_act(p, x) || !play_messages(p, x, false) || !play_messages(p, x, true) ||
            !finish_some(p))
            return false;
    for (uint32_t left = FOREST_NODES; left > 0;) { /* in any order */
        const uint32_t n = (uint32_t)rng_below(&p->own, FOREST_NODES);
        if (p->comms[n] && !close_node(p, n))
            return false;
        left = 0;
        for (uint32_t k = 0; k < FOREST_NODES; k++)
            left += p->comms[k] != NULL;
    }
    return true;
}

static void play(const script *s, ronda_comm *world, uint32_t rank)
{
    player *p = calloc(1, sizeof *p);
    p->s = s;
    p->rank = rank;
    p->comms[0] = world;
    ronda_set_timeout(world, 40000000000);
    prepare(p);
    if (!play_script(p))
        for (uint32_t n = 0; n < FOREST_NODES; n++)
            if (p->comms[n])
                ronda_abort(p->comms[n], "something was wrong");
    free(p);
}

/* --- worlds --- */

static void play_thread(void *context, uint32_t rank)
{
    const script *s = context;
    play(s, s->f.worlds[rank], rank);
}

static int play_process(job *j, uint32_t rank)
{
    ronda_comm *comm = job_join(j, rank);
    if (comm)
        play(j->context, comm, rank);
    return comm == NULL;
}

static void play_world(script *s, bool processes)
{
    if (s->tended)
        setenv("RONDA_PROGRESS", "1", 1);
    if (processes)
        job_run(s->f.size, play_process, s, 100);
    else if (world_open(s->f.size, NULL, s->f.worlds))
        run_ranks(s->f.size, play_thread, s);
    unsetenv("RONDA_PROGRESS");
    CHECK(!test_failed(), "%u %s, %u acts%s", s->f.size, processes ? "processes" : "threads",
          s->count, s->tended ? ", with progress threads" : "");
}

/* Worlds are small, but for every eighth. */
static void play_many(bool processes, bool tended, uint32_t rounds, uint32_t small, uint32_t large)
{
    static script s;
    const double end = seconds_now() + test_seconds();
    rng r = rng_start();
    test_deadline(200 + test_seconds());
    for (uint32_t i = 0; (i < rounds || seconds_now() < end) && !test_failed(); i++) {
        if (i)
            r = rng_again();
        s = (script){.tended = tended};
        draw_script(&r, &s, rng_below(&r, 8) ? small : large);
        play_world(&s, processes);
    }
}

TEST(programs_of_threads)
{
    play_many(false, false, test_sanitized() ? 30 : 120, 6, 17);
}

TEST(programs_of_threads_with_a_thread_each)
{
    play_many(false, true, test_sanitized() ? 15 : 60, 5, 17);
}

TEST(programs_of_processes)
{
    play_many(true, false, test_sanitized() ? 10 : 40, 5, 17);
}

TEST(programs_of_processes_with_a_thread_each)
{
    play_many(true, true, test_sanitized() ? 6 : 25, 4, 13);
}
