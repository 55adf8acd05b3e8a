/* made.c: what each verb makes of terms. */
#include "proof/made.h"

static const rd_term *from(const rd_making *m)
{
    return m->memory[m->step->from_buffer] + m->step->from_at;
}

static rd_term *to(const rd_making *m)
{
    return m->memory[m->step->to_buffer] + m->step->to_at;
}

rd_term *rd_making_cells(const rd_making *m, uint32_t i)
{
    const rd_range range = m->plan->accesses[m->step->first_access + i].range;
    return m->memory[range.buffer] + range.at;
}

rd_term rd_making_scaled(const rd_making *m, rd_term term)
{
    return m->step->scale && m->plan->shape.size > 1 ? rd_term_scale(m->terms, term) : term;
}

static void copy(const rd_making *m, const rd_term *source)
{
    for (uint64_t e = 0; e < m->step->count; e++)
        to(m)[e] = source[e];
}

/* here: the operand whose side the step names */
static void fold(const rd_making *m, const rd_term *here, const rd_term *there)
{
    const bool left = m->step->side == RD_HERE_LEFT;
    for (uint64_t e = 0; e < m->step->count; e++)
        to(m)[e] = rd_making_scaled(m, left ? rd_term_fold(m->terms, here[e], there[e])
                                            : rd_term_fold(m->terms, there[e], here[e]));
}

void rd_make_recv(const rd_making *m)
{
    copy(m, m->message);
}

void rd_make_fold(const rd_making *m)
{
    fold(m, from(m), m->message);
}

void rd_make_copy(const rd_making *m)
{
    copy(m, from(m));
}

void rd_make_merge(const rd_making *m)
{
    fold(m, to(m), from(m));
}

void rd_make_scale(const rd_making *m)
{
    for (uint64_t e = 0; e < m->step->count && m->plan->shape.size > 1; e++)
        to(m)[e] = rd_term_scale(m->terms, to(m)[e]);
}
