/* proof.c: the core needs libc alone, so libcrypto is looked for when a key is to be proved. */
#include "base/proof.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

typedef unsigned char *hmac_fn(const void *digest, const void *key, int key_bytes,
                               const unsigned char *text, size_t bytes, unsigned char *out,
                               unsigned int *out_bytes);
typedef const void *digest_fn(void);

static struct {
    hmac_fn *hmac;
    digest_fn *sha256;
} crypto;

static const char *const names[] = {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"};

static void find_crypto(void)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!library)
            continue;
        void *hmac = dlsym(library, "HMAC"), *sha256 = dlsym(library, "EVP_sha256");
        if (hmac && sha256) {
            memcpy(&crypto.hmac, &hmac, sizeof hmac);
            memcpy(&crypto.sha256, &sha256, sizeof sha256);
            return;
        }
        dlclose(library);
    }
}

/* What is not found is looked for again: a process may have had no descriptor left for a moment. */
bool rd_mac_possible(void)
{
    static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
    static atomic_bool found;
    if (atomic_load(&found))
        return true;
    pthread_mutex_lock(&looking);
    if (!atomic_load(&found)) {
        find_crypto();
        atomic_store(&found, crypto.hmac != NULL);
    }
    pthread_mutex_unlock(&looking);
    return atomic_load(&found);
}

void rd_mac_lacks(char *text, size_t capacity)
{
    void *library = dlopen(names[0], RTLD_NOW | RTLD_LOCAL);
    const char *why = library ? NULL : dlerror();
    snprintf(text, capacity, "%s", why ? why : names[0]);
    if (library)
        dlclose(library);
}

bool rd_mac(const char *key, const void *text, size_t bytes, uint8_t out[RD_MAC])
{
    unsigned int made = 0;
    if (!rd_mac_possible() || strlen(key) > INT_MAX)
        return false;
    return crypto.hmac(crypto.sha256(), key, (int)strlen(key), text, bytes, out, &made) &&
           made == RD_MAC;
}

bool rd_mac_equal(const uint8_t a[RD_MAC], const uint8_t b[RD_MAC])
{
    uint8_t difference = 0;
    for (int i = 0; i < RD_MAC; i++)
        difference = (uint8_t)(difference | (a[i] ^ b[i]));
    return difference == 0;
}

bool rd_random(void *to, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        const ssize_t n = getrandom((char *)to + got, bytes - got, 0);
        if (n < 0 && errno != EINTR)
            return false;
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}
