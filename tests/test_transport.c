/* test_transport.c: the conformance suite on every transport there is. */
#include "conformance.h"
#include "links.h"
#include "scramble.h"

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

/* The tests' own transport must keep the promises too, or it would prove nothing. */
static bool open_scrambled(uint32_t size, rd_link *links[])
{
    static _Atomic uint64_t seed;
    return scramble_open(size, scramble_draw(++seed), links);
}

static const conformance_subject scrambled = {
    .open = open_scrambled, .refuses = true, .forgets = true};
CONFORMANCE_TESTS(scrambled)
