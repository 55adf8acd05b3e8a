/* test_transport.c: the conformance suite on every transport there is. */
#include "conformance.h"
#include "links.h"
#include "scramble.h"
#include "transport/transports.h"

#include <string.h>

static const conformance_subject local = {.open = links_local};
CONFORMANCE_TESTS(local)

static const conformance_subject shm = {.open = links_shm};
CONFORMANCE_TESTS(shm)

static const conformance_subject tcp = {
    .open = links_tcp, .refuses = true, .forgets = true, .slow = true};
CONFORMANCE_TESTS(tcp)

static const conformance_subject checked = {
    .open = links_tcp_checked, .refuses = true, .forgets = true, .slow = true};
CONFORMANCE_TESTS(checked)

static const conformance_subject mixed = {
    .open = links_mixed, .refuses = true, .forgets = true, .slow = true};
CONFORMANCE_TESTS(mixed)

/* A row without a suite would be one whose promises nobody checks. */
TEST(every_row_of_the_table_has_its_suite)
{
    static const conformance_subject *const subjects[] = {&local, &shm, &tcp, &mixed};
    uint32_t rows = 0;
    for (; rd_transports[rows]; rows++) {
        const rd_transport *row = rd_transports[rows];
        rd_link *links[CONFORMANCE_RANKS] = {0};
        if (!CHECK(rows < sizeof subjects / sizeof *subjects, "'%s' has no suite", row->name) ||
            !CHECK(subjects[rows]->open(3, links), "cannot open '%s'", row->name))
            return;
        CHECK(links[0]->transport == row, "the suite of '%s' is that of '%s'", row->name,
              links[0]->transport->name);
        CHECK(row->costs && row->costs->latency_ns > 0 && row->costs->segment_bytes,
              "'%s' has no costs", row->name);
        CHECK(!row->setting || rd_transport_named(row->setting) == row, "'%s' is not found by '%s'",
              row->name, row->setting);
        for (uint32_t r = 0; r < 3; r++)
            links[r]->transport->close(links[r]);
    }
    CHECK(rows == sizeof subjects / sizeof *subjects, "%u rows", rows);
}

/* The tests' own transport must keep the promises too, or it would prove nothing. */
static bool open_scrambled(uint32_t size, rd_link *links[])
{
    static _Atomic uint64_t seed;
    return scramble_open(size, scramble_draw(++seed), links);
}

static const conformance_subject scrambled = {
    .open = open_scrambled, .refuses = true, .forgets = true};
CONFORMANCE_TESTS(scrambled)
