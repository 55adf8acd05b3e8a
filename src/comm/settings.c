/* settings.c: what the caller said, else the environment, else the default. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "comm/environment.h"
#include "transport/transports.h"

static const uint64_t DEFAULT_TIMEOUT_NS = 60000000000u;

/* "60", "0.5"; false: not a positive number of seconds that fits */
static bool seconds(const char *text, uint64_t *ns)
{
    double s = 0, unit = 1;
    bool fraction = false;
    for (const char *c = text; *c;
         c++) { /* by hand: strtod() takes blanks, hex and the locale's comma */
        if (*c == '.' && !fraction)
            fraction = true;
        else if (!isdigit((unsigned char)*c))
            return false;
        else if (fraction)
            s += (*c - '0') * (unit /= 10);
        else
            s = s * 10 + (*c - '0');
    }
    if (!(s > 0) || s > 1e9)
        return false;
    *ns = (uint64_t)(s * 1e9);
    return *ns > 0;
}

/* "allreduce=ring,broadcast=tree" */
static ronda_status read_forced(const char *text, rd_settings *out, rd_error *err)
{
    char copy[1024];
    if (strlen(text) >= sizeof copy)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "RONDA_ALGO is longer than %zu characters",
                       sizeof copy - 1);
    memcpy(copy, text, strlen(text) + 1);
    for (char *rest = copy, *item; (item = strsep(&rest, ","));) {
        if (!*item)
            continue;
        char *name = strchr(item, '=');
        if (name)
            *name++ = 0;
        const ronda_kind kind = rd_kind_named(item);
        if (!kind)
            return rd_fail(err, RONDA_EINVAL, RONDA_ANY,
                           "RONDA_ALGO=%s: there is no collective '%s'", text, item);
        if (!name)
            return rd_fail(err, RONDA_EINVAL, RONDA_ANY,
                           "RONDA_ALGO=%s: write it like allreduce=ring,broadcast=tree", text);
        out->forced[rd_kind_row(kind)] = rd_algorithm_named(kind, name);
        if (!out->forced[rd_kind_row(kind)])
            return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "RONDA_ALGO=%s: %s has no algorithm '%s'",
                           text, item, name);
    }
    return RONDA_OK;
}

ronda_status rd_settings_read(const ronda_config *config, rd_settings *out, rd_error *err)
{
    *out = (rd_settings){.timeout_ns = DEFAULT_TIMEOUT_NS};
    const char *timeout = getenv("RONDA_TIMEOUT"), *algo = getenv("RONDA_ALGO"),
               *log = getenv("RONDA_LOG"), *progress = getenv("RONDA_PROGRESS"),
               *debug = getenv("RONDA_DEBUG");

    out->debug = debug && *debug && strcmp(debug, "0") != 0;
    out->progress_thread = config && config->flags & RONDA_PROGRESS_THREAD;
    if (progress && strcmp(progress, "1") == 0)
        out->progress_thread = true;
    else if (progress && *progress && strcmp(progress, "0") != 0)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "RONDA_PROGRESS=%s is not 0 or 1", progress);
    if (config && config->timeout_ns)
        out->timeout_ns = config->timeout_ns;
    else if (timeout && *timeout && !seconds(timeout, &out->timeout_ns))
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY,
                       "RONDA_TIMEOUT=%s is not a number of seconds above 0 and up to 1000000000",
                       timeout);
    if (config && config->log)
        out->log = (rd_log){RD_LOG_DEBUG, config->log, config->log_context};
    else if ((out->log.level = rd_log_level_named(log)) < 0)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "RONDA_LOG=%s is not none, info or debug",
                       log);
    return algo ? read_forced(algo, out, err) : RONDA_OK;
}

static const char *text_or(const char *said, const char *variable)
{
    const char *text = said ? said : getenv(variable);
    return text && *text ? text : NULL;
}

/* Who this is: as the caller says, else RONDA_RANK and RONDA_SIZE, else what a launcher says. */
static ronda_status read_numbers(const ronda_config *config, rd_joining *out, rd_launch *launch,
                                 bool *has_rank, rd_error *err)
{
    const char *transport = text_or(config ? config->transport : NULL, "RONDA_TRANSPORT");
    bool has_size = false;
    if (config && config->size) {
        out->size = config->size;
        out->rank = config->rank;
        *has_rank = true;
        return RONDA_OK;
    }
    ronda_status status =
        rd_environment_number("RONDA_SIZE", RD_MOST_RANKS + 1, &out->size, &has_size, err);
    if (!status)
        status = rd_environment_number("RONDA_RANK", RD_MOST_RANKS, &out->rank, has_rank, err);
    if (status)
        return status;
    if (config && config->rank) {
        out->rank = config->rank;
        *has_rank = true;
    }
    if (has_size || *has_rank)
        return RONDA_OK;
    const rd_transport *t = rd_transport_named(transport);
    status = rd_environment_read(t && t->pushes, launch, err);
    if (!status && launch->launcher) {
        out->size = launch->size;
        out->rank = launch->rank;
        *has_rank = true;
    }
    return status;
}

static ronda_status read_place(const ronda_config *config, rd_joining *out, rd_launch *launch,
                               rd_error *err)
{
    bool has_rank = false;
    out->size = 1;
    const ronda_status status = read_numbers(config, out, launch, &has_rank, err);
    if (status)
        return status;
    if (out->size == 0)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "RONDA_SIZE=0: a world has at least one rank");
    if (out->size > RD_MOST_RANKS)
        return rd_fail(err, RONDA_ELIMIT, RONDA_ANY,
                       "%u ranks are more than the %d that ronda allows", out->size, RD_MOST_RANKS);
    if (out->size > 1 && !has_rank)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "RONDA_SIZE is %u, but RONDA_RANK is not set",
                       out->size);
    if (out->rank >= out->size)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "there is no rank %u in a world of %u",
                       out->rank, out->size);
    return RONDA_OK;
}

/* By which transport: as said, or by what the address can mean. */
static ronda_status read_transport(const ronda_config *config, rd_joining *out, rd_error *err)
{
    const char *name = text_or(config ? config->transport : NULL, "RONDA_TRANSPORT");
    const char *insecure = getenv("RONDA_INSECURE");
    const bool here = out->address.kind == RD_ADDRESS_FILE || rd_address_is_loopback(&out->address);
    const rd_transport *t = rd_transport_named(name);
    out->sockets_alone = t && t->pushes && !t->copies;
    out->hosts = t ? t->pushes : !here;
    if (!out->hosts && !here)
        return rd_fail(
            err, RONDA_EUNSUPPORTED, RONDA_ANY,
            "RONDA_TRANSPORT=shm joins ranks of one host: RONDA_ADDR must be file:PATH or "
            "127.0.0.1:PORT, not %s:%u",
            out->address.host, out->address.port);
    if (!out->hosts && out->size > RD_MOST_PROCESSES)
        return rd_fail(err, RONDA_ELIMIT, RONDA_ANY,
                       "%u ranks are more than the %d that can share the memory of one host; with "
                       "RONDA_TRANSPORT=tcp ronda allows %d",
                       out->size, RD_MOST_PROCESSES, RD_MOST_RANKS);
    out->insecure = config && config->flags & RONDA_INSECURE;
    if (insecure && strcmp(insecure, "1") == 0)
        out->insecure = true;
    else if (insecure && *insecure && strcmp(insecure, "0") != 0)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "RONDA_INSECURE=%s is not 0 or 1", insecure);
    out->interfaces = text_or(NULL, "RONDA_IFACE");
    const char *checksum = text_or(NULL, "RONDA_CHECKSUM");
    while (checksum && strcmp(checksum, rd_checksum_name(out->checksum)) != 0)
        if (++out->checksum > RD_LAST_CHECKSUM)
            return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "RONDA_CHECKSUM=%s is not 0, 1 or auto",
                           checksum);
    return RONDA_OK;
}

ronda_status rd_world_read(const ronda_config *config, const rd_settings *settings, rd_joining *out,
                           rd_error *err)
{
    *out = (rd_joining){0};
    rd_launch launch = {0};
    ronda_status status = read_place(config, out, &launch, err);
    if (status)
        return status;
    out->key = text_or(config ? config->key : NULL, "RONDA_KEY");
    out->timeout_ns =
        config && config->start_timeout_ns ? config->start_timeout_ns : settings->timeout_ns;
    const char *address = text_or(config ? config->addr : NULL, "RONDA_ADDR");
    if (out->size == 1)
        return RONDA_OK;
    if (!address && launch.address[0])
        address = launch.address;
    if (!address && launch.launcher)
        return rd_fail(
            err, RONDA_EINVAL, RONDA_ANY,
            "rank %u of %u: %s does not say where rank 0 is: set %s of rank 0's host, the "
            "same for all ranks",
            out->rank, out->size, launch.launcher, launch.need);
    if (!address)
        return rd_fail(
            err, RONDA_EINVAL, RONDA_ANY,
            "rank %u of %u: RONDA_ADDR is not set (file:PATH or HOST:PORT of rank 0, the same for all ranks)",
            out->rank, out->size);
    status = rd_address_read(address, &out->address, err);
    return status ? status : read_transport(config, out, err);
}
