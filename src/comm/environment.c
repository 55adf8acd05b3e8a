#include "comm/environment.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- variables --- */

static const char *text_of(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

ronda_status rd_environment_number(const char *name, uint32_t limit, uint32_t *out, bool *found,
                                   rd_error *err)
{
    const char *text = text_of(name);
    char *end;
    if (!text)
        return RONDA_OK;
    errno = 0;
    const unsigned long n = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || n >= limit)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "%s=%s is not a number below %u", name, text,
                       limit);
    *out = (uint32_t)n;
    *found = true;
    return RONDA_OK;
}

/* Two variables that must both be there, and be numbers. */
static ronda_status read_two(rd_launch *l, const char *rank, const char *size, rd_error *err)
{
    bool has_rank = false, has_size = false;
    ronda_status status = rd_environment_number(size, RD_MOST_RANKS + 1, &l->size, &has_size, err);
    if (!status)
        status = rd_environment_number(rank, RD_MOST_RANKS, &l->rank, &has_rank, err);
    if (!status && l->size == 0)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "%s=0: a world has at least one rank", size);
    return status;
}

/* Does the variable say this number? */
static bool says(const char *name, uint32_t number)
{
    const char *text = text_of(name);
    return text && strtoul(text, NULL, 10) == number;
}

/* --- where to meet --- */

static uint64_t mix(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return (hash ^ 0xff) * 0x100000001b3u;
}

enum { FIRST_HASH = 7 };

/* A name within this host: of this user, this launcher and this job. */
static void meet_here(rd_launch *l, bool sockets, uint64_t job)
{
    snprintf(l->address, sizeof l->address, "file:%sronda-%u-%s-%016" PRIx64,
             sockets ? "/tmp/" : "@", geteuid(), l->launcher, job);
}

static void meet_at(rd_launch *l, const char *host, uint16_t port)
{
    const bool six = strchr(host, ':') != NULL;
    snprintf(l->address, sizeof l->address, "%s%.256s%s:%u", six ? "[" : "", host, six ? "]" : "",
             port);
}

uint16_t rd_port_beside(uint16_t master)
{
    return (uint16_t)(master > 2024 ? master - 1000 : master + 1000);
}

bool rd_first_host(const char *list, char *host, size_t capacity)
{
    size_t at = 0;
    for (const char *c = list; *c && *c != ','; c++) {
        size_t n = 1;
        if (*c == '[') { /* a list of numbers: the first of them, up to its end */
            const char *end = strchr(c, ']');
            n = strcspn(c + 1, "-,]");
            if (!end || at + n >= capacity)
                return false;
            memcpy(host + at, c + 1, n);
            c = end;
        } else if (at + 1 < capacity) {
            host[at] = *c;
        } else {
            return false;
        }
        at += n;
    }
    host[at] = 0;
    return at > 0;
}

/* --- each launcher --- */

static ronda_status read_torchrun(bool sockets, rd_launch *l, rd_error *err)
{
    const char *master = text_of("MASTER_ADDR");
    uint32_t port = 0;
    bool has_port = false;
    l->launcher = "torchrun";
    l->need = "MASTER_ADDR and MASTER_PORT, or RONDA_ADDR to HOST:PORT";
    ronda_status status = read_two(l, "RANK", "WORLD_SIZE", err);
    if (!status)
        status = rd_environment_number("MASTER_PORT", 65536, &port, &has_port, err);
    if (status)
        return status;
    uint64_t job = mix(mix(FIRST_HASH, master), text_of("MASTER_PORT"));
    job = mix(mix(job, text_of("TORCHELASTIC_RUN_ID")), text_of("TORCHELASTIC_RESTART_COUNT"));
    if (!sockets && has_port && says("LOCAL_WORLD_SIZE", l->size))
        meet_here(l, sockets, job);
    else if (master && port)
        meet_at(l, master, rd_port_beside((uint16_t)port));
    return RONDA_OK;
}

static ronda_status read_open_mpi(bool sockets, rd_launch *l, rd_error *err)
{
    l->launcher = "mpirun";
    const ronda_status status = read_two(l, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", err);
    const char *job = text_of("PMIX_NAMESPACE");
    if (!job)
        job = text_of("OMPI_MCA_ess_base_jobid");
    if (!status && job && says("OMPI_COMM_WORLD_LOCAL_SIZE", l->size))
        meet_here(l, sockets, mix(mix(FIRST_HASH, job), text_of("OMPI_MCA_orte_hnp_uri")));
    return status;
}

/* MPICH's variables name no job; but each rank has a socket whose other end is its mpiexec's. */
static bool find_proxy(char text[32])
{
    struct ucred who;
    socklen_t length = sizeof who;
    const char *fd = text_of("PMI_FD");
    if (!fd || !isdigit((unsigned char)*fd) || strlen(fd) > 6 ||
        getsockopt((int)strtol(fd, NULL, 10), SOL_SOCKET, SO_PEERCRED, &who, &length) ||
        who.pid <= 0)
        return false;
    snprintf(text, 32, "%d", (int)who.pid);
    return true;
}

static ronda_status read_mpich(bool sockets, rd_launch *l, rd_error *err)
{
    char proxy[32];
    l->launcher = "mpiexec";
    const ronda_status status = read_two(l, "PMI_RANK", "PMI_SIZE", err);
    const char *job = find_proxy(proxy) ? proxy : text_of("PMI_PORT");
    if (!status && job && says("MPI_LOCALNRANKS", l->size))
        meet_here(l, sockets, mix(FIRST_HASH, job));
    return status;
}

static ronda_status read_slurm(bool sockets, rd_launch *l, rd_error *err)
{
    char host[256];
    l->launcher = "srun";
    const ronda_status status = read_two(l, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", err);
    const char *id = text_of("SLURM_JOB_ID"), *list = text_of("SLURM_STEP_NODELIST");
    if (!list)
        list = text_of("SLURM_JOB_NODELIST");
    if (status || !id)
        return status;
    const uint64_t job = mix(mix(FIRST_HASH, id), text_of("SLURM_STEP_ID"));
    if (says("SLURM_STEP_NUM_NODES", 1))
        meet_here(l, sockets, job);
    else if (list && rd_first_host(list, host, sizeof host))
        meet_at(l, host, (uint16_t)(20000 + job % 10000)); /* below those that systems hand out */
    return RONDA_OK;
}

/* A batch script has SLURM_PROCID too, but is no rank of anything: only steps of srun count their tasks. */
static bool is_step(void)
{
    return text_of("SLURM_PROCID") && text_of("SLURM_STEP_ID") && text_of("SLURM_STEP_NUM_TASKS");
}

/* mpirun's own variables come before those of the srun that may have started mpirun's helpers. */
ronda_status rd_environment_read(bool sockets, rd_launch *out, rd_error *err)
{
    rd_launch l = {.size = 1, .need = "RONDA_ADDR to HOST:PORT"};
    ronda_status status = RONDA_OK;
    if (text_of("RANK") && text_of("WORLD_SIZE"))
        status = read_torchrun(sockets, &l, err);
    else if (text_of("OMPI_COMM_WORLD_RANK") && text_of("OMPI_COMM_WORLD_SIZE"))
        status = read_open_mpi(sockets, &l, err);
    else if (text_of("PMI_RANK") && text_of("PMI_SIZE") && text_of("MPI_LOCALNRANKS"))
        status = read_mpich(sockets, &l, err);
    else if (is_step())
        status = read_slurm(sockets, &l, err);
    else if (text_of("PMI_RANK") && text_of("PMI_SIZE"))
        status = read_mpich(sockets, &l, err);
    if (!status)
        *out = l;
    return status;
}
