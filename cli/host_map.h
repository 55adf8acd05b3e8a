/* host_map.h: worlds over several hosts, as --hosts says them. */
#ifndef CLI_HOST_MAP_H
#define CLI_HOST_MAP_H

#include "args.h"
#include "plan/hosts.h"

enum { CLI_MOST_MAPPED = 1024 };

typedef struct {
    uint32_t size; /* ranks; 0: no map was given */
    uint32_t host_of[CLI_MOST_MAPPED];
} cli_host_map;

/* "2x4": two hosts of four ranks; "4,3,1": hosts of so many; false: the user was told. */
bool cli_read_hosts(const cli_args *a, cli_host_map *out);

/* "2 hosts of 4", "3 hosts" */
enum { CLI_HOSTS_TEXT = 48 };
const char *cli_hosts_text(const rd_hosts *hosts, char text[CLI_HOSTS_TEXT]);

#endif
