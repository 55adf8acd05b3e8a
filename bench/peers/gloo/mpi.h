/* mpi.h: as much of MPI as mpi_bench.c wants, by Gloo over its sockets (mpi.cc). */
#ifndef GLOO_MPI_H
#define GLOO_MPI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int MPI_Comm, MPI_Datatype, MPI_Op, MPI_Win, MPI_Info;
typedef intptr_t MPI_Aint;

enum { MPI_COMM_WORLD, MPI_INFO_NULL, MPI_FLOAT, MPI_DOUBLE, MPI_SUM, MPI_MAX };
#define MPI_IN_PLACE ((void *)-1)

int MPI_Init(int *argc, char ***argv); /* GLOO_RANKS processes */
int MPI_Finalize(void);
int MPI_Abort(MPI_Comm comm, int code);
int MPI_Comm_rank(MPI_Comm comm, int *out);
int MPI_Comm_size(MPI_Comm comm, int *out);
int MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *page,
                            MPI_Win *out);
int MPI_Win_shared_query(MPI_Win win, int rank, MPI_Aint *bytes, int *unit, void *page);

int MPI_Barrier(MPI_Comm comm);
int MPI_Bcast(void *x, int count, MPI_Datatype type, int root, MPI_Comm comm);
int MPI_Allreduce(const void *x, void *y, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Reduce(const void *x, void *y, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm);
int MPI_Allgather(const void *x, int count, MPI_Datatype type, void *y, int each,
                  MPI_Datatype other, MPI_Comm comm);
int MPI_Alltoall(const void *x, int count, MPI_Datatype type, void *y, int each, MPI_Datatype other,
                 MPI_Comm comm);
int MPI_Gather(const void *x, int count, MPI_Datatype type, void *y, int each, MPI_Datatype other,
               int root, MPI_Comm comm);
int MPI_Scatter(const void *x, int count, MPI_Datatype type, void *y, int each, MPI_Datatype other,
                int root, MPI_Comm comm);
/* Gloo has none of its own: these end the program. */
int MPI_Reduce_scatter_block(const void *x, void *y, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm);
int MPI_Scan(const void *x, void *y, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif
