/* interfaces.h: the addresses at which this rank can be reached, and which host it is on. */
#ifndef RD_INTERFACES_H
#define RD_INTERFACES_H

#include "base/error.h"
#include "transport/ip.h"

enum { RD_INTERFACES = 128, RD_INTERFACE_NAME = 16 };

/* One address of one interface that is up. */
typedef struct {
    char name[RD_INTERFACE_NAME];
    rd_ip ip;
} rd_interface;

/* How many there are, RD_INTERFACES at most.  With 0, errno is 0 or says why they cannot be listed. */
uint32_t rd_interfaces_list(rd_interface out[RD_INTERFACES]);

typedef struct {
    const char *filter;  /* RONDA_IFACE: "eth0,ib0", "^docker0,lo"; NULL: all */
    const rd_ip *route;  /* the address that leads to rank 0, or NULL */
    bool loopback_alone; /* others can be reached by anybody */
} rd_wish;

/* In the order in which they are offered. */
typedef enum {
    RD_INTERFACE_ROUTE,      /* leads to rank 0 */
    RD_INTERFACE_ORDINARY,   /* as others */
    RD_INTERFACE_BRIDGE,     /* between containers: every host has the same address there */
    RD_INTERFACE_LINK_LOCAL, /* only neighbours reach it */
    RD_INTERFACE_LOOPBACK    /* only this host does */
} rd_interface_class;
rd_interface_class rd_interface_class_of(const rd_interface *i, const rd_ip *route);

/* Those to offer, best first, into place->at and place->count: the one that leads to rank 0, those of
 * ordinary interfaces, those of bridges between containers, those that only neighbours reach, and the
 * loopback, which serves ranks of one host. */
ronda_status rd_interfaces_choose(const rd_interface all[], uint32_t count, const rd_wish *wish,
                                  rd_place *place, rd_error *err);

/* The address from which this host would send to another; false: it has no way to. */
bool rd_interfaces_route(const rd_ip *to, rd_ip *from);

/* A number that ranks have in common if they can share memory: the same boot of the same machine, the same
 * network namespace and the same user. */
uint64_t rd_host_number(void);
/* What people call this host. */
void rd_host_name(char name[RD_HOST_NAME]);

#endif
