/* hosts.c: a world over several hosts: its ranks find each other, and then have sockets between them. */
#include "comm/rendezvous.h"

ronda_status rd_open_hosts(const rd_joining *joining, rd_link **out, rd_error *err)
{
    rd_tcp_parts parts;
    const ronda_status status = rd_rendezvous(joining, &parts, err);
    return status ? status : rd_tcp_open(&parts, out, err);
}
