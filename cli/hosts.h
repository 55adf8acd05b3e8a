/* hosts.h: machines to start ranks on, as a file or an argument lists them.
 *
 *   node1            one slot              # anything after this sign is a comment
 *   node2 4          four
 *   node2:4          the same
 *   node2 slots=4    the same
 *   me@node3:2       as another user
 *   [fe80::1]:2      an address of IPv6, in brackets
 *
 * A host named twice has the slots of both.  Ranks fill the hosts in the order of their first names. */
#ifndef CLI_HOSTS_H
#define CLI_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOSTS_MOST = 1024, HOSTS_MOST_SLOTS = 1024, HOSTS_NAME = 256, HOSTS_WHY = 400 };

typedef struct {
    char name[HOSTS_NAME]; /* as an agent takes it: "me@node3", "fe80::1" */
    uint32_t slots;
} hosts_host;

typedef struct {
    uint32_t count, slots; /* slots: of all of them */
    hosts_host *at;
} hosts_list;

/* Reads a list out of memory, an entry a line or, if `commas`, between commas.  false: why has
 * "SOURCE:LINE: what is wrong", and there is nothing to free. */
bool hosts_read(const char *text, size_t length, bool commas, const char *source, hosts_list *out,
                char why[HOSTS_WHY]);

/* The same of a file. */
bool hosts_load(const char *path, hosts_list *out, char why[HOSTS_WHY]);
void hosts_free(hosts_list *l);

/* Leaves the first so many slots; they must be there. */
void hosts_cut(hosts_list *l, uint32_t slots);

/* The host as it stands before ":PORT": without the user, an address of IPv6 in brackets. */
void hosts_address(const char *name, char *text, size_t capacity);

#endif
