/* events.h: waiting for descriptors. */
#ifndef RD_EVENTS_H
#define RD_EVENTS_H

#include <stdint.h>
#include <sys/epoll.h>

/* Up to `most` of them, within so many ns; how many: 0 or less means none. */
int rd_wait_events(int epoll, struct epoll_event *events, int most, uint64_t ns);

#endif
