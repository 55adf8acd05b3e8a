/* proof.h: showing that one knows the job's key without saying it. */
#ifndef RD_PROOF_OF_KEY_H
#define RD_PROOF_OF_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RD_NONCE = 16, RD_MAC = 32 };

bool rd_random(void *to, size_t bytes); /* from the system; false: it has none */
bool rd_mac_possible(void);             /* is there a libcrypto? */
/* Why it is not, as the system says it */
void rd_mac_lacks(char *text, size_t capacity);
/* HMAC-SHA-256 by libcrypto, found at run time; false: there is none. */
bool rd_mac(const char *key, const void *text, size_t bytes, uint8_t out[RD_MAC]);
/* In a time that tells nothing */
bool rd_mac_equal(const uint8_t a[RD_MAC], const uint8_t b[RD_MAC]);

#endif
