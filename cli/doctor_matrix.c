/* doctor_matrix.c: all pairs at a glance: ranks, or hosts where ranks are many. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

enum { MOST_COLUMNS = 16, WIDE = 8 };

static uint32_t place_of(const doctor_report *r, uint32_t rank, bool hosts)
{
    return hosts ? r->facts[rank].host_index : rank;
}

/* Of all pairs of two ranks, or of two hosts, the worst. */
static void print_cell(const doctor_report *r, uint32_t row, uint32_t column, bool hosts, bool rate)
{
    double worst = 0;
    bool cut = false, measured = false;
    for (uint32_t i = 0; i < r->pair_count; i++) {
        const doctor_pair *p = &r->pairs[i];
        const uint32_t a = place_of(r, p->a, hosts), b = place_of(r, p->b, hosts);
        if (!((a == row && b == column) || (a == column && b == row)))
            continue;
        cut |= p->cut & (a == row ? 1 : 2) || (p->cut && hosts);
        if (!p->measured)
            continue;
        const double value = rate ? p->rate / 1e6 : p->us;
        worst = !measured || (rate ? value < worst : value > worst) ? value : worst;
        measured = true;
    }
    if (cut)
        printf(" %*s", WIDE - 1, "cut");
    else if (!measured)
        printf(" %*s", WIDE - 1, row == column && !hosts ? "" : ".");
    else
        printf(worst < 100 ? " %*.1f" : " %*.0f", WIDE - 1, worst);
}

static const char *host_named(const doctor_report *r, uint32_t host)
{
    for (uint32_t i = 0; i < r->size; i++)
        if (r->facts[i].host_index == host)
            return r->facts[i].host_name;
    return "?";
}

static void print_one(const doctor_report *r, uint32_t count, bool hosts, bool rate)
{
    printf("\n  %s, %s\n  %*s", rate ? "bandwidth, MB/s" : "latency, us",
           hosts ? "the worst between hosts" : "from rank (row) to rank", WIDE, "");
    for (uint32_t column = 0; column < count; column++)
        printf(" %*" PRIu32, WIDE - 1, column);
    for (uint32_t row = 0; row < count; row++) {
        printf("\n  %*" PRIu32, WIDE, row);
        for (uint32_t column = 0; column < count; column++)
            print_cell(r, row, column, hosts, rate);
        printf("   %s", hosts ? host_named(r, row) : r->facts[row].host_name);
    }
    printf("\n");
}

void doctor_print_matrix(const doctor_report *r)
{
    uint32_t hosts = 0;
    for (uint32_t i = 0; i < r->size; i++)
        hosts = r->facts[i].host_index >= hosts ? r->facts[i].host_index + 1 : hosts;
    const bool by_host = r->size > MOST_COLUMNS;
    const uint32_t count = by_host ? hosts : r->size;
    if (count < 2 || count > MOST_COLUMNS)
        return;
    print_one(r, count, by_host, false);
    print_one(r, count, by_host, true);
}
