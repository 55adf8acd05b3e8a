/* summary.c: the numbers of a whole world, read off its plans. */
#include "plan/summary.h"

#include <inttypes.h>

#include "base/names.h"
#include "plan/print.h"

static void count_rank(const rd_plan *p, rd_totals *most)
{
    uint64_t messages = 0;
    for (uint32_t i = 0; i < p->step_count; i++) {
        messages += p->steps[i].verb == RD_SEND;
        if (p->steps[i].round >= most->rounds)
            most->rounds = p->steps[i].round + 1;
    }
    if (p->step_count > most->steps)
        most->steps = p->step_count;
    if (messages > most->messages)
        most->messages = messages;
    if (p->sent > most->elements)
        most->elements = p->sent;
}

bool rd_totals_of(const rd_algorithm *a, const rd_shape *shape, uint64_t segment_bytes,
                  rd_totals *out)
{
    rd_totals most = {0};
    rd_shape s = *shape;
    s.kind = a->kind;
    s.in_place = false;
    s.root = rd_kind_rooted(s.kind) ? s.root : 0;
    if (s.kind == RONDA_BARRIER)
        s.count = s.width = 1;
    for (s.rank = 0; s.rank < s.size; s.rank++) {
        rd_plan *p = rd_plan_build(a, &s, segment_bytes);
        if (!p)
            return false;
        count_rank(p, &most);
        rd_plan_free(p);
    }
    *out = most;
    return true;
}

size_t rd_summary_line(const rd_algorithm *a, const rd_shape *shape, uint64_t segment_bytes,
                       char *text, size_t capacity)
{
    rd_text w = {.text = text, .capacity = capacity};
    rd_totals t;
    if (!a) {
        rd_say(&w, "%-15s  %-13s  %6s  %7s  %8s  %12s\n", "collective", "algorithm", "rounds",
               "steps", "messages", "elements");
        return w.length;
    }
    if (!rd_totals_of(a, shape, segment_bytes, &t))
        return 0;
    rd_say(&w, "%-15s  %-13s  %6" PRIu32 "  %7" PRIu64 "  %8" PRIu64 "  %12" PRIu64 "\n",
           rd_kind_name(a->kind), a->name, t.rounds, t.steps, t.messages, t.elements);
    return w.length;
}
