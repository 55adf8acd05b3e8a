/* environment.h: what those who start ranks tell them, where RONDA_RANK and RONDA_SIZE are not set.
 *
 *   torchrun           RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_WORLD_SIZE
 *   mpirun, Open MPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_SIZE
 *   mpiexec, MPICH     PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS
 *   srun               SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NUM_NODES, SLURM_STEP_NODELIST
 *
 * If all ranks are on one host, they meet at a name that nobody else has.  On several hosts torchrun's
 * meet at MASTER_ADDR, at a port that follows from MASTER_PORT, which torchrun itself uses; srun's at the
 * first host, at a port that follows from the job's number; mpirun does not say where rank 0 is. */
#ifndef RD_ENVIRONMENT_H
#define RD_ENVIRONMENT_H

#include "base/error.h"

typedef struct {
    const char *launcher; /* NULL: none that we know */
    uint32_t rank, size;
    char address[300]; /* as RONDA_ADDR; "": not known */
    const char *need;  /* what would tell it */
} rd_launch;

/* sockets: also ranks of one host are to meet by sockets. */
ronda_status rd_environment_read(bool sockets, rd_launch *out, rd_error *err);

/* A variable that is a number below `limit`; *out stays as it is if the variable is not set, or empty. */
ronda_status rd_environment_number(const char *name, uint32_t limit, uint32_t *out, bool *found,
                                   rd_error *err);

/* Where ranks of torchrun meet, since its own store listens at MASTER_PORT. */
uint16_t rd_port_beside(uint16_t master);
/* The first of "node[003-010,12],other"; false: it does not fit. */
bool rd_first_host(const char *list, char *host, size_t capacity);

/* Ranks of a world over sockets, or over several hosts; and ranks that share memory. */
enum { RD_MOST_RANKS = 16384, RD_MOST_PROCESSES = 1024 };

#endif
