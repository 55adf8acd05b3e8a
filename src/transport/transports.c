/* transports.c: the rows in a list. */
#include "transport/transports.h"

#include <stddef.h>
#include <string.h>

#define RD_TRANSPORT_ROW(name) &rd_##name,
const rd_transport *const rd_transports[] = {RD_TRANSPORTS(RD_TRANSPORT_ROW) NULL};
#undef RD_TRANSPORT_ROW

const rd_transport *rd_transport_named(const char *setting)
{
    for (const rd_transport *const *t = rd_transports; setting && *t; t++)
        if ((*t)->setting && strcmp((*t)->setting, setting) == 0)
            return *t;
    return NULL;
}
