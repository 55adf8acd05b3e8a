/* conformance.h: every promise of transport.h, checked on any transport.
 *
 *     static const conformance_subject local = {.open = open_local};
 *     CONFORMANCE_TESTS(local)
 *
 * makes a test of each case.  conformance.c has those about messages, conformance_world.c those
 * about waiting, the board, failing and closing. */
#ifndef RD_CONFORMANCE_H
#define RD_CONFORMANCE_H

#include "harness.h"
#include "transport/transport.h"

typedef struct {
    bool (*open)(uint32_t size, rd_link *links[]);
    bool refuses; /* at random: what is promised comes true after some tries */
    bool forgets; /* where messages may be stored back */
    bool slow;    /* to open and close */
} conformance_subject;

#define CONFORMANCE_CASES(X, subject)                                                              \
    X(order, subject)                                                                              \
    X(inline_sizes, subject)                                                                       \
    X(loans_come_home, subject)                                                                    \
    X(parts_are_released, subject)                                                                 \
    X(returned_messages, subject)                                                                  \
    X(full_queues, subject)                                                                        \
    X(reservations_are_apart, subject)                                                             \
    X(channels_are_apart, subject)                                                                 \
    X(counts_of_messages, subject)                                                                 \
    X(waits_end, subject)                                                                          \
    X(sleepers_are_woken, subject)                                                                 \
    X(records, subject)                                                                            \
    X(presence, subject)                                                                           \
    X(first_cause, subject)                                                                        \
    X(quiet_after_an_alarm, subject)                                                               \
    X(closing, subject)                                                                            \
    X(worlds_of_one, subject)

#define CONFORMANCE_PROTOTYPE(name, subject) void conformance_##name(const conformance_subject *s);
CONFORMANCE_CASES(CONFORMANCE_PROTOTYPE, none)

#define CONFORMANCE_TEST(name, subject)                                                            \
    TEST(subject##_##name)                                                                         \
    {                                                                                              \
        conformance_##name(&subject);                                                              \
    }
#define CONFORMANCE_TESTS(subject) CONFORMANCE_CASES(CONFORMANCE_TEST, subject)

/* Shared by the two files: a world under test, and messages whose bytes depend on all there is. */
enum { CONFORMANCE_RANKS = 8 };
typedef struct {
    const conformance_subject *subject;
    rd_link *links[CONFORMANCE_RANKS];
    _Atomic uint32_t turn; /* for ranks that take turns */
    _Atomic uint32_t count;
} conformance_world;

bool conformance_open(const conformance_subject *s, conformance_world *w, uint32_t size);
void conformance_close(conformance_world *w, uint32_t size);
void conformance_shut(conformance_world *w, uint32_t rank); /* closes one */
void conformance_turn(conformance_world *w, uint32_t turn); /* waits until it is this turn */
void conformance_pause(rd_link *link, rd_port *port);
/* Lets come what may: for one's own link, or for all if one thread has them all. */
void conformance_pump(rd_link *link);
void conformance_run(conformance_world *w, uint32_t size, void (*body)(void *, uint32_t),
                     void *context); /* a thread for each */

/* Whether it comes true within the tries that a transport of this kind may need. */
bool conformance_can_send(const conformance_subject *s, rd_port *port, rd_link *link);
bool conformance_peek(const conformance_subject *s, rd_port *port, rd_link *link, rd_view *view);
bool conformance_done(const conformance_subject *s, rd_port *port, rd_link *link, uint32_t message);

/* Sends up to RD_INLINE bytes, and takes a whole message; both wait as long as it takes. */
void conformance_send_inline(rd_link *link, rd_port *port, const void *data, uint32_t bytes,
                             uint64_t mark);
uint64_t conformance_take(rd_link *link, rd_port *port, char *to, uint64_t capacity,
                          uint64_t *mark);

#endif
