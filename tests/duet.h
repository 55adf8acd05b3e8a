/* duet.h: rank 0 of three is ronda's, over a real socket; rank 1 is the test, and rank 2 may be. */
#ifndef RD_DUET_H
#define RD_DUET_H

#include "harness.h"
#include "transport/tcp.h"
#include "transport/wire.h"

enum { DUET_SIZE = 3, DUET_JOB = 77, DUET_CHANNELS = RD_CHANNELS + RD_MESSAGE_CHANNELS };

typedef struct {
    rd_link *link;
    rd_place places[DUET_SIZE];
    int listeners[DUET_SIZE]; /* rank 0's is the link's */
    int peer;                 /* rank 1's end of its connection; -1: closed */
    uint32_t taken[DUET_CHANNELS];
    uint64_t released[DUET_CHANNELS]; /* of the message after those */
    bool true_so_far;                 /* what comes is what was drawn */
} duet;

bool duet_open(duet *s); /* nobody listens where rank 2 should be */
int duet_dial(const duet *s);
void duet_greet(int fd, uint32_t rank);
void duet_answer(int fd, uint32_t rank); /* the first greeting of rank 0 */
bool duet_open_and_greet(duet *s);       /* as rank 1, who may lie from now on */
bool duet_alarmed(const duet *s);

/* What is written: the bytes of a message depend on where they are. */
uint8_t duet_element(uint32_t channel, uint32_t message, uint64_t at);
rd_head duet_message(uint32_t channel, uint64_t bytes, uint64_t total);
void duet_tell(duet *s, const rd_head *h, const void *bytes, bool takes);
void duet_write(duet *s, const uint8_t *bytes, size_t length, bool takes);

/* Rank 0 takes what comes until it has raised the alarm, or for so long. */
void duet_go_on(duet *s, uint64_t ns);
/* Until it has so many messages of a channel, however busy the machine is. */
void duet_await(duet *s, uint32_t channel, uint32_t messages);

void duet_hang_up(duet *s);
/* What rank 0 says of it can be shown, and is about rank 1, unless somebody else said it. */
void duet_close(duet *s, bool heard);

#endif
