/* host_map.c: see host_map.h. */
#include "host_map.h"

#include <inttypes.h>
#include <stdio.h>

/* One more host, of so many ranks. */
static bool add_host(cli_host_map *map, uint64_t host, uint64_t ranks)
{
    if (ranks == 0 || ranks > CLI_MOST_MAPPED - map->size)
        return false;
    for (; ranks; ranks--)
        map->host_of[map->size++] = (uint32_t)host;
    return true;
}

static bool read_even(const char *text, uint64_t hosts, cli_host_map *map)
{
    uint64_t each;
    bool fits = cli_digits(text, &each, &text) && !*text && hosts > 0;
    for (uint64_t h = 0; h < hosts && fits; h++)
        fits = add_host(map, h, each);
    return fits;
}

bool cli_read_hosts(const cli_args *a, cli_host_map *out)
{
    cli_host_map map = {0};
    const char *text = a->value;
    uint64_t number;
    bool fits = cli_digits(text, &number, &text);
    if (fits && *text == 'x') {
        fits = read_even(text + 1, number, &map);
        text = "";
    }
    for (uint64_t h = 0; fits && !(h == 0 && map.size); h++) {
        fits = add_host(&map, h, number) && (!*text || *text == ',');
        if (!fits || !*text)
            break;
        fits = cli_digits(text + 1, &number, &text);
    }
    if (fits)
        *out = map;
    return fits || cli_wrong(a->command,
                             "%s: '%s' is not hosts and ranks such as 2x4 or 4,3,1, of 1..%d ranks "
                             "in all",
                             a->name, a->value, CLI_MOST_MAPPED) == CLI_OK;
}

const char *cli_hosts_text(const rd_hosts *hosts, char text[CLI_HOSTS_TEXT])
{
    if (hosts->smallest == hosts->largest)
        snprintf(text, CLI_HOSTS_TEXT, "%" PRIu32 " host%s of %" PRIu32, hosts->count,
                 hosts->count == 1 ? "" : "s", hosts->smallest);
    else
        snprintf(text, CLI_HOSTS_TEXT, "%" PRIu32 " hosts of %" PRIu32 "..%" PRIu32, hosts->count,
                 hosts->smallest, hosts->largest);
    return text;
}
