/* fuzz_hosts.c: lists of hosts, as a file or, after a first comma, as an argument.
 *
 * What is taken is within the limits, and is the same list when it is written and read again; what is refused
 * is refused in one line. */
#include <string.h>

#include "../cli/hosts.h"
#include "fuzz.h"

/* The list as another would write it; to be freed. */
static char *write_list(const hosts_list *l, size_t *length)
{
    const size_t capacity = (size_t)l->count * (HOSTS_NAME + 16) + 1;
    char *text = malloc(capacity);
    *length = 0;
    for (uint32_t i = 0; text && i < l->count; i++) {
        char address[HOSTS_NAME + 2];
        const char *user = strchr(l->at[i].name, '@');
        hosts_address(l->at[i].name, address, sizeof address);
        *length += (size_t)snprintf(text + *length, capacity - *length, "%.*s%s:%u\n",
                                    user ? (int)(user + 1 - l->at[i].name) : 0, l->at[i].name,
                                    address, l->at[i].slots);
    }
    return text;
}

static bool same(const hosts_list *a, const hosts_list *b)
{
    bool equal = a->count == b->count && a->slots == b->slots;
    for (uint32_t i = 0; i < a->count && equal; i++)
        equal = a->at[i].slots == b->at[i].slots && strcmp(a->at[i].name, b->at[i].name) == 0;
    return equal;
}

static void check_taken(hosts_list *l)
{
    char why[HOSTS_WHY] = "";
    hosts_list again;
    uint64_t slots = 0;
    size_t length;
    fuzz_require(l->count >= 1 && l->count <= HOSTS_MOST, "there are hosts");
    for (uint32_t i = 0; i < l->count; i++) {
        const char *name = l->at[i].name;
        fuzz_require(memchr(name, 0, HOSTS_NAME) && *name && *name != '-' &&
                         fuzz_is_one_line(name) && !strpbrk(name, " #,"),
                     "a host has a name");
        fuzz_require(l->at[i].slots >= 1 && l->at[i].slots <= HOSTS_MOST_SLOTS, "a host has slots");
        slots += l->at[i].slots;
    }
    fuzz_require(slots == l->slots, "the slots are those of all");
    char *text = write_list(l, &length);
    if (text) {
        fuzz_require(hosts_read(text, length, false, "again", &again, why), "it is taken again");
        fuzz_require(same(l, &again), "it stays the same");
        hosts_free(&again);
    }
    free(text);
    const uint32_t half = l->slots / 2 + 1;
    hosts_cut(l, half);
    for (uint32_t i = 0; i < l->count; i++)
        slots -= l->at[i].slots;
    fuzz_require(l->slots == half && slots + half >= half, "it can be cut");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    char why[HOSTS_WHY] = "";
    hosts_list l = {0};
    const bool commas = length && bytes[0] == ',';
    const size_t from = commas ? 1 : 0;
    char *text = malloc(length - from + !length); /* of its size: who reads on is caught */
    if (!text)
        return 0;
    if (length)
        memcpy(text, bytes + from, length - from);
    if (hosts_read(text, length - from, commas, "some", &l, why)) {
        check_taken(&l);
        hosts_free(&l);
    } else {
        for (const char *c = why; *c; c++)
            fuzz_require((unsigned char)*c >= ' ' && *c != 127, "a refusal can be shown");
        fuzz_require(*why && strncmp(why, "some:", 5) == 0, "it is refused in one line");
    }
    free(text);
    return 0;
}
