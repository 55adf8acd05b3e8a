/* bench_overlap.c: what a program gains that computes while collectives are under way.
 *
 *     bench_overlap [--quick] [--bytes BYTES] [--late US] [--every US]
 *
 * Two ranks, threads on a core each, two iallreduces of 4 MiB of f32, and a loop that computes about as
 * long as they take and calls ronda_test every 20 us; with RONDA_PROGRESS=1 it calls nothing, and threads of
 * ronda's move the calls, on cores of their own if there are any.  Four ways, taken in turn:
 *
 *     communicate   start, wait                     compute   the loop alone
 *     in turn       start, wait, compute            overlap   start, compute and test, wait
 *
 * once with both ranks on time, where the slowest rank's time counts, and once with rank 1 starting its
 * calls late, where rank 0's counts: it is the one that would wait.  Results are checked, untimed. */
#include "../cli/bench.h"
#include "ranks.h"

enum { CALLS = 2, RANKS = 2, WAYS = 4, CASES = 2, MODES = WAYS * CASES };
enum { NEVER_US = 1000000000 };
enum { COMMUNICATE, COMPUTE, IN_TURN, OVERLAP };

static size_t elements = 1 << 20; /* of a call */
static double late_us = 3000, every_us = 20;
static bench_point point = {
    .kind = RONDA_ALLREDUCE, .type = RONDA_F32, .op = RONDA_SUM, .in_place = true};
static double turns_per_us;        /* of the loop */
static double compute_us[CASES];   /* how long it is to compute */
static volatile float kept[RANKS]; /* so that no compiler leaves the loop out */

static struct {
    bench_data *data; /* of all calls in one */
    uint64_t turn;
    double last_us;
    bool only; /* communicate on time, and nothing else */
    double us[MODES][SAMPLES];
    int count[MODES];
} parts[RANKS];

/* --- work --- */

/* In registers: it needs the core and no memory, so that nothing but the core is shared. */
static void compute(uint32_t rank, double us)
{
    float a = 1 + kept[rank] * 1e-9f, b = 0.5f, c = 0.25f, d = 0.125f;
    for (uint64_t n = (uint64_t)(us * turns_per_us); n; n--) {
        a = a * 0.999f + 0.001f;
        b = b * 0.998f + 0.002f;
        c = c * 0.997f + 0.003f;
        d = d * 0.996f + 0.004f;
    }
    kept[rank] = a + b + c + d;
}

/* By the quickest of several: others may want the core as well. */
static void calibrate(void)
{
    enum { TRIES = 20 };
    double least_us = 1e9;
    turns_per_us = 100;
    for (int k = 0; k < TRIES; k++) {
        const uint64_t from = rd_now_ns();
        compute(0, 2000);
        const double us = (double)(rd_now_ns() - from) / 1e3;
        least_us = us < least_us ? us : least_us;
    }
    turns_per_us *= 2000 / least_us;
}

/* Since the moment at which all were to begin. */
static double since_start(const worker *w)
{
    return (double)(int64_t)(rd_now_ns() - atomic_load(&w->b->start_ns)) / 1e3;
}

static void be_late(const worker *w)
{
    while (since_start(w) < late_us)
        rd_relax();
}

/* A slice, then a test of the first request that is not done: that moves all of them. */
static ronda_status compute_and_test(worker *w, double us, ronda_request *requests[])
{
    ronda_status status = RONDA_OK;
    bool done = false;
    int at = 0;
    for (; us > 0 && !status; us -= every_us) {
        compute(w->rank, us < every_us ? us : every_us);
        if (at < CALLS)
            status = ronda_test(requests[at], &done);
        at += done;
        done = false;
    }
    return status;
}

static int mode_of(const worker *w)
{
    return parts[w->rank].only ? COMMUNICATE : (int)(parts[w->rank].turn % MODES);
}

static ronda_status act(worker *w)
{
    ronda_request *requests[CALLS] = {NULL};
    const int way = mode_of(w) % WAYS, late = mode_of(w) / WAYS;
    ronda_status status = RONDA_OK;
    if (way != COMPUTE && late && w->rank == 1)
        be_late(w);
    for (int i = 0; i < CALLS && way != COMPUTE && !status; i++) {
        float *x = w->x + (size_t)i * elements;
        status = ronda_iallreduce(w->comm, x, x, elements, RONDA_F32, RONDA_SUM, &requests[i]);
    }
    if (!status && way == OVERLAP)
        status = compute_and_test(w, compute_us[late], requests);
    const ronda_status waited = ronda_wait_all(requests, CALLS);
    if (way == COMPUTE || way == IN_TURN)
        compute(w->rank, compute_us[late]);
    return status ? status : waited;
}

/* --- samples --- */

static void prepare(worker *w)
{
    bench_fill(parts[w->rank].data, &point, ++parts[w->rank].turn, w->x, w->x);
}

static ronda_status call(worker *w)
{
    const ronda_status status = act(w);
    parts[w->rank].last_us = since_start(w);
    return status;
}

static void check_and_note(worker *w, int sample)
{
    const int mode = mode_of(w);
    char why[200];
    if (mode % WAYS != COMPUTE &&
        !bench_right(parts[w->rank].data, &point, parts[w->rank].turn, w->x, why, sizeof why))
        die(why);
    if (sample >= 0)
        parts[w->rank].us[mode][parts[w->rank].count[mode]++] = parts[w->rank].last_us;
}

static void run(bool only, double seconds)
{
    bench b = {.ranks = RANKS,
               .count = CALLS * elements,
               .seconds = seconds,
               .prepare = prepare,
               .call = call,
               .after = check_and_note};
    point.count = CALLS * elements;
    for (uint32_t r = 0; r < RANKS; r++) {
        memset(&parts[r], 0, sizeof parts[r]);
        parts[r].only = only;
        if (!(parts[r].data = bench_data_open(&point, r, RANKS)))
            die("no memory");
    }
    run_bench(&b);
    for (uint32_t r = 0; r < RANKS; r++)
        bench_data_close(parts[r].data);
}

/* Of the slowest rank, or of rank 0, for which the other one is late.  The least goes to *least. */
static double time_of(int mode, double *least)
{
    static double v[SAMPLES];
    const int n = parts[0].count[mode];
    for (int k = 0; k < n; k++) {
        const double first = parts[0].us[mode][k], second = parts[1].us[mode][k];
        v[k] = mode >= WAYS || first > second ? first : second;
    }
    const double middle = median(v, n);
    *least = v[0];
    return middle;
}

/* --- what comes out --- */

/* Medians, and below them the least of each: what machines that others use as well can do. */
static void show(int late)
{
    double us[WAYS], least[WAYS];
    char name[40] = "both on time";
    if (late)
        snprintf(name, sizeof name, "rank 1 %g us late", late_us);
    for (int way = 0; way < WAYS; way++)
        us[way] = time_of(late * WAYS + way, &least[way]);
    for (int row = 0; row < 2; row++) {
        const double *v = row ? least : us, hidden = v[IN_TURN] - v[OVERLAP];
        printf("%-20s %-7s %12.0f %12.0f %12.0f %12.0f %12.0f %11.0f%%\n", row ? "" : name,
               row ? "least" : "median", v[COMMUNICATE], v[COMPUTE], v[IN_TURN], v[OVERLAP], hidden,
               100 * hidden / v[COMMUNICATE]);
    }
}

static bool is_tended(void)
{
    const char *progress = getenv("RONDA_PROGRESS");
    return progress && strcmp(progress, "1") == 0;
}

static void explain(void)
{
    printf(
        "\n"
        "hidden: what overlapping saves against one after the other, and its share of communication.\n");
    if (is_tended()) {
        printf(
            "A thread beside each rank copies and folds: hidden is what it does on a core that would\n"
            "be idle.  Waking it takes its time, and so does memory that both use.\n");
        return;
    }
    printf(
        "There are as many ranks as cores, and ronda starts no thread: the core that computes also\n"
        "copies and folds, inside ronda_test and ronda_wait.  That work is not hidden, only moved, and\n"
        "with both ranks on time there is little else.  What can be hidden is waiting: of a rank that\n"
        "comes late the lateness, as long as there is something to compute meanwhile.\n");
}

static bool read_option(int argc, char **argv, int *i, double *seconds)
{
    const char *name = argv[*i];
    if (strcmp(name, "--quick") == 0) {
        *seconds = 0.5;
        return true;
    }
    if (*i + 1 >= argc)
        return false;
    const double x = strtod(argv[++*i], NULL);
    if (!(x > 0 && x <= 1e9))
        return false;
    if (strcmp(name, "--bytes") == 0)
        elements = x < 4 ? 1 : (size_t)x / 4;
    else if (strcmp(name, "--late") == 0)
        late_us = x;
    else if (strcmp(name, "--every") == 0)
        every_us = x;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    double seconds = 4;
    if (is_tended())
        every_us = NEVER_US;
    for (int i = 1; i < argc; i++)
        if (!read_option(argc, argv, &i, &seconds)) {
            fprintf(stderr, "bench_overlap: takes --quick, --bytes BYTES, --late US, --every US\n");
            return 2;
        }
    if (rd_usable_cpus() < RANKS) {
        printf("overlap: needs two cores, there is one\n");
        return 0;
    }
    calibrate();
    run(true, seconds / 8);
    time_of(COMMUNICATE, &compute_us[0]);
    compute_us[1] = compute_us[0] + late_us;
    run(false, seconds);
    printf("overlap: 2 ranks as threads on 2 of %u cores, %d iallreduces of %zu bytes each, ",
           rd_usable_cpus(), CALLS, 4 * elements);
    if (every_us < NEVER_US)
        printf("ronda_test every %g us", every_us);
    else
        printf("no ronda_test");
    printf("; microseconds, %d samples\n\n", parts[0].count[0]);
    printf("%-28s %12s %12s %12s %12s %12s %12s\n", "", "communicate", "compute", "in turn",
           "overlapped", "hidden", "share");
    show(0);
    show(1);
    explain();
    return 0;
}
