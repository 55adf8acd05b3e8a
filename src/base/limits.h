/* limits.h: numbers that plans and transports must agree on without seeing each other. */
#ifndef RD_LIMITS_H
#define RD_LIMITS_H

/* Bytes that every transport carries in a message itself: shorter ones are never lent. */
enum { RD_INLINE_BYTES = 48 };

#endif
