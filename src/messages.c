/* messages.c: the public sends and receives. */
#include <inttypes.h>
#include <stdio.h>

#include "comm/comm.h"

static ronda_status wrong(ronda_comm *c, const rd_posting *what, const char *why)
{
    return rd_comm_fail(c, RONDA_EINVAL, "%s: %s", what->sends ? "send" : "recv", why);
}

static ronda_status post(ronda_comm *c, const rd_posting *what, ronda_message *info,
                         ronda_request **out)
{
    char text[120];
    const size_t width = ronda_type_size(what->type);
    if (!c)
        return rd_no_comm(what->sends ? "send" : "recv");
    if (rd_comm_inherited(c))
        return rd_comm_refuse(c, what->sends ? "send" : "recv");
    if (rd_comm_over(c))
        return c->cause.status;
    if (!out)
        return wrong(c, what, "out is NULL");
    if (width == 0) {
        rd_not_text(what->type, "a type", text, sizeof text);
        return wrong(c, what, text);
    }
    if (what->count > (uint64_t)PTRDIFF_MAX / width)
        return wrong(c, what, "so many elements are more bytes than memory can have");
    if (what->count && !what->data)
        return wrong(c, what, "the buffer is NULL");
    if (what->sends && what->tag == RONDA_ANY)
        return wrong(c, what, "RONDA_ANY is not a tag to send with");
    if (what->sends && what->peer == RONDA_ANY)
        return wrong(c, what, "RONDA_ANY is not a rank to send to");
    if (what->peer >= c->size && (what->sends || what->peer != RONDA_ANY)) {
        snprintf(text, sizeof text, "there is no rank %" PRIu32 " in a world of %" PRIu32,
                 what->peer, c->size);
        return wrong(c, what, text);
    }
    return rd_comm_post(c, what, info, out);
}

ronda_status ronda_isend(ronda_comm *comm, const void *buf, size_t count, ronda_type type,
                         uint32_t peer, uint32_t tag, ronda_request **out)
{
    const rd_posting what = {true, peer, tag, type, (void *)buf, count};
    return post(comm, &what, NULL, out);
}

ronda_status ronda_irecv(ronda_comm *comm, void *buf, size_t capacity, ronda_type type,
                         uint32_t peer, uint32_t tag, ronda_message *info, ronda_request **out)
{
    const rd_posting what = {false, peer, tag, type, buf, capacity};
    return post(comm, &what, info, out);
}

ronda_status ronda_send(ronda_comm *comm, const void *buf, size_t count, ronda_type type,
                        uint32_t peer, uint32_t tag)
{
    ronda_request *request;
    const ronda_status status = ronda_isend(comm, buf, count, type, peer, tag, &request);
    return status ? status : rd_comm_wait(request);
}

ronda_status ronda_recv(ronda_comm *comm, void *buf, size_t capacity, ronda_type type,
                        uint32_t peer, uint32_t tag, ronda_message *info)
{
    ronda_request *request;
    const ronda_status status = ronda_irecv(comm, buf, capacity, type, peer, tag, info, &request);
    return status ? status : rd_comm_wait(request);
}
