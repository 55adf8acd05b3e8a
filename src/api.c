/* api.c: the public functions.  They check what the caller gave and hand it on; whatever is wrong is
 * said here, before anything has been sent. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"
#include "base/tell.h"
#include "comm/comm.h"
#include "comm/rendezvous.h"
#include "transport/transports.h"

/* --- joining and leaving --- */

static ronda_status open_all(uint32_t size, const rd_settings *settings, ronda_comm *comms[],
                             rd_error *err)
{
    if (size > RD_LOCAL_RANKS)
        return rd_fail(err, RONDA_ELIMIT, RONDA_ANY,
                       "%u ranks as threads are more than the %d that ronda allows", size,
                       RD_LOCAL_RANKS);
    rd_link **links = rd_alloc((size_t)size * sizeof *links);
    ronda_comm **made = rd_alloc((size_t)size * sizeof *made);
    ronda_status status =
        links && made ? rd_local_open(size, links, err)
                      : rd_fail(err, RONDA_ENOMEM, RONDA_ANY, "no memory for %u ranks", size);
    uint32_t open = 0;
    if (!status)
        while (open < size &&
               !(status = rd_comm_open(links[open], settings, NULL, &made[open], err)))
            open++;
    if (!status)
        memcpy(comms, made, size * sizeof *made);
    for (uint32_t r = 0; r < size && status && links && made; r++) {
        if (r < open)
            rd_comm_close(made[r]);
        else
            rd_local.close(links[r]);
    }
    rd_free(links);
    rd_free(made);
    return status;
}

ronda_status ronda_init_local(uint32_t size, ronda_comm *comms[])
{
    rd_error *err = rd_thread_error();
    rd_settings settings;
    if (size == 0 || !comms)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "ronda_init_local: %s",
                       size ? "comms is NULL" : "size is 0");
    const ronda_status status = rd_settings_read(NULL, &settings, err);
    return status ? status : open_all(size, &settings, comms, err);
}

static ronda_status check_config(const ronda_config *config, rd_error *err)
{
    const char *transport =
        config && config->transport ? config->transport : getenv("RONDA_TRANSPORT");
    if (config && config->struct_size != sizeof *config)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY,
                       "ronda_init: struct_size is %zu; set it to sizeof(ronda_config), %zu",
                       config->struct_size, sizeof *config);
    if (config && config->flags & ~(uint32_t)(RONDA_PROGRESS_THREAD | RONDA_INSECURE))
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "ronda_init: flags 0x%x are unknown",
                       config->flags);
    if (transport && *transport && !rd_transport_named(transport) && strcmp(transport, "auto") != 0)
        return rd_fail(
            err, RONDA_EUNSUPPORTED, RONDA_ANY,
            "there is no transport '%s' between processes; this version has 'shm', 'tcp' "
            "and 'hosts', which is both, and 'auto' picks one",
            transport);
    if (config && config->tuning)
        return rd_fail(err, RONDA_EUNSUPPORTED, RONDA_ANY,
                       "tuning files are not read by this version");
    return RONDA_OK;
}

/* Whoever started us wants to know who failed and who only heard of it. */
static void tell_of_start(const rd_joining *j, const rd_error *err)
{
    const bool theirs =
        err->status == RONDA_EPEER || err->status == RONDA_ESYSTEM || err->status == RONDA_ENOMEM;
    if (theirs && err->peer < j->size && err->peer != j->rank)
        rd_tell(j->rank, j->size, err->peer);
}

/* The process exits, and has not closed its world. */
static void tell_of_exit(void *context)
{
    const ronda_comm *c = context;
    rd_tell(c->rank, c->size, RD_TOLD_UNCLOSED);
}

static ronda_status open_process(const rd_joining *joining, const rd_settings *settings,
                                 ronda_comm **out, rd_error *err)
{
    rd_link *link;
    ronda_status status =
        joining->hosts ? rd_open_hosts(joining, &link, err) : rd_bootstrap(joining, &link, err);
    if (status) {
        tell_of_start(joining, err);
        return status;
    }
    status = rd_comm_open(link, settings, NULL, out, err);
    if (status)
        link->transport->close(link);
    if (status)
        return status;
    rd_exit_add(&(*out)->exits, tell_of_exit, *out);
    rd_tell(joining->rank, joining->size, RD_TOLD_NOBODY);
    return RONDA_OK;
}

ronda_status ronda_init(const ronda_config *config, ronda_comm **out)
{
    rd_error *err = rd_thread_error();
    rd_settings settings;
    rd_joining joining;
    if (!out)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "ronda_init: out is NULL");
    ronda_status status = check_config(config, err);
    if (!status)
        status = rd_settings_read(config, &settings, err);
    rd_tell_prepare();
    if (!status)
        status = rd_world_read(config, &settings, &joining, err);
    if (status)
        return status;
    return joining.size == 1 ? open_all(1, &settings, out, err)
                             : open_process(&joining, &settings, out, err);
}

/* Requests that are under way would lose their buffers: the caller has to wait for them, or to give up
 * the world first. */
ronda_status ronda_close(ronda_comm *comm)
{
    if (!comm)
        return RONDA_OK;
    if (rd_comm_inherited(comm)) {
        rd_comm_close_inherited(comm);
        return RONDA_OK;
    }
    if (comm->open_requests && !comm->failed && !rd_engine_must_leave(comm->engine, comm->sequence))
        return rd_comm_fail(comm, RONDA_EINVAL, "ronda_close: %u request%s not been waited for",
                            comm->open_requests, comm->open_requests == 1 ? " has" : "s have");
    rd_comm_lock(comm);
    const ronda_status status = rd_comm_keeps_memory(comm);
    rd_comm_unlock(comm);
    return status ? status : rd_comm_close(comm);
}

ronda_status ronda_split(ronda_comm *comm, int color, int key, ronda_comm **out)
{
    if (!comm)
        return rd_no_comm("ronda_split");
    if (rd_comm_inherited(comm))
        return rd_comm_refuse(comm, "ronda_split");
    if (!out)
        return rd_comm_fail(comm, RONDA_EINVAL, "ronda_split: out is NULL");
    return rd_comm_split(comm, color, key, out);
}

ronda_status ronda_abort(ronda_comm *comm, const char *reason)
{
    if (!comm)
        return rd_no_comm("ronda_abort");
    if (rd_comm_inherited(comm))
        return rd_comm_refuse(comm, "ronda_abort");
    rd_error cause = {.rank = comm->rank};
    if (reason && *reason)
        rd_fail(&cause, RONDA_EABORTED, comm->rank, "rank %u aborted: %s", comm->rank, reason);
    else
        rd_fail(&cause, RONDA_EABORTED, comm->rank, "rank %u aborted, without giving a reason",
                comm->rank);
    comm->link->transport->abort(comm->link, &cause);
    return RONDA_OK;
}

ronda_status ronda_dump(ronda_comm *comm, int fd)
{
    rd_error err = {0};
    if (!comm)
        return rd_no_comm("ronda_dump");
    if (rd_comm_inherited(comm))
        return rd_comm_refuse(comm, "ronda_dump");
    err.rank = comm->rank;
    rd_comm_lock(comm);
    const ronda_status status = rd_engine_dump(comm->engine, fd, &err);
    rd_comm_unlock(comm);
    if (status)
        comm->error = err;
    return status;
}

ronda_status ronda_set_timeout(ronda_comm *comm, uint64_t timeout_ns)
{
    if (!comm)
        return rd_no_comm("ronda_set_timeout");
    if (rd_comm_inherited(comm))
        return rd_comm_refuse(comm, "ronda_set_timeout");
    if (timeout_ns == 0)
        return rd_comm_fail(comm, RONDA_EINVAL, "a timeout of 0 would fail every call");
    comm->timeout_ns = comm->link->timeout_ns = timeout_ns;
    return RONDA_OK;
}

/* --- memory --- */

ronda_status ronda_alloc(ronda_comm *comm, size_t bytes, void **out)
{
    if (!comm)
        return rd_no_comm("ronda_alloc");
    if (rd_comm_inherited(comm))
        return rd_comm_refuse(comm, "ronda_alloc");
    rd_comm_lock(comm);
    void *memory = out && bytes <= PTRDIFF_MAX ? rd_comm_alloc(comm, bytes) : NULL;
    rd_comm_unlock(comm);
    if (memory) {
        *out = memory;
        return RONDA_OK;
    }
    if (!out)
        return rd_comm_fail(comm, RONDA_EINVAL, "ronda_alloc: out is NULL");
    return rd_comm_fail(comm, RONDA_ENOMEM, "no %zu bytes of memory that ranks share", bytes);
}

ronda_status ronda_free(ronda_comm *comm, void *ptr)
{
    if (!comm)
        return rd_no_comm("ronda_free");
    if (rd_comm_inherited(comm))
        return rd_comm_refuse(comm, "ronda_free");
    rd_comm_lock(comm);
    const ronda_status status = ptr ? rd_comm_free(comm, ptr) : RONDA_OK;
    rd_comm_unlock(comm);
    return status;
}

/* --- small facts --- */

uint32_t ronda_rank(const ronda_comm *comm)
{
    return comm ? comm->rank : 0;
}

uint32_t ronda_size(const ronda_comm *comm)
{
    return comm ? comm->size : 0;
}

uint32_t ronda_version(void)
{
    return RONDA_VERSION;
}

static size_t block_start(size_t count, uint32_t size, uint32_t rank)
{
    return count / size * rank + count % size * rank / size;
}

void ronda_block(size_t count, uint32_t size, uint32_t rank, size_t *offset, size_t *length)
{
    const size_t at = rank < size ? block_start(count, size, rank) : count;
    if (offset)
        *offset = at;
    if (length)
        *length = rank < size ? block_start(count, size, rank + 1) - at : 0;
}

const char *ronda_strerror(ronda_status status)
{
    static const char *const texts[] = {"success",
                                        "an argument is invalid",
                                        "no memory",
                                        "timed out",
                                        "a peer is gone",
                                        "ranks made different calls",
                                        "a limit is exceeded",
                                        "not supported",
                                        "the system refused",
                                        "aborted",
                                        "internal error"};
    const int64_t at = -(int64_t)status;
    return at >= 0 && at < (int64_t)(sizeof texts / sizeof *texts) ? texts[at] : "unknown status";
}

const char *ronda_last_error(const ronda_comm *comm)
{
    return comm ? comm->error.message : rd_thread_error()->message;
}

void ronda_get_error(const ronda_comm *comm, ronda_error *out)
{
    if (!out)
        return;
    const rd_error *err = comm ? &comm->error : rd_thread_error();
    ronda_error whole = {.struct_size = out->struct_size,
                         .status = err->status,
                         .rank = err->rank,
                         .peer = err->peer,
                         .sequence = err->sequence};
    memcpy(whole.message, err->message, sizeof whole.message);
    memcpy(out, &whole, out->struct_size < sizeof whole ? out->struct_size : sizeof whole);
}
