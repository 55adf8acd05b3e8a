/* mpi.cc: see mpi.h.  MPI_Init() forks the other ranks; they find each other by a folder that goes away. */
#include "mpi.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

namespace {
std::shared_ptr<gloo::rendezvous::Context> context;
std::string folder;
void *page;

using fold = void (*)(void *, const void *, const void *, size_t);

fold fold_of(MPI_Datatype type, MPI_Op op)
{
    if (op == MPI_SUM)
        return type == MPI_FLOAT ? fold(&gloo::sum<float>) : fold(&gloo::sum<double>);
    return type == MPI_FLOAT ? fold(&gloo::max<float>) : fold(&gloo::max<double>);
}

/* The same for both types: what a call is made with. */
template <typename Use> int typed(MPI_Datatype type, Use use)
{
    type == MPI_FLOAT ? use((float *)nullptr) : use((double *)nullptr);
    return 0;
}

template <typename T> T *cast(T *, const void *x)
{
    return (T *)const_cast<void *>(x);
}
} // namespace

int MPI_Init(int *, char ***)
{
    const char *given = getenv("GLOO_RANKS");
    const int ranks = given ? atoi(given) : 2;
    char name[] = "/tmp/gloo-bench-XXXXXX";
    int rank = 0;
    folder = mkdtemp(name);
    page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int r = 1; r < ranks && rank == 0; r++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            rank = r;
        }
    context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    gloo::rendezvous::FileStore store(folder);
    gloo::transport::tcp::attr at;
    at.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(at);
    context->connectFullMesh(store, device);
    return 0;
}

int MPI_Finalize(void)
{
    int bad = 0, status;
    MPI_Barrier(MPI_COMM_WORLD);
    if (context->rank)
        _exit(0);
    while (wait(&status) > 0)
        bad |= status;
    std::filesystem::remove_all(folder);
    return bad;
}

int MPI_Abort(MPI_Comm, int code)
{
    std::filesystem::remove_all(folder);
    exit(code);
}

int MPI_Comm_rank(MPI_Comm, int *out)
{
    *out = context->rank;
    return 0;
}

int MPI_Comm_size(MPI_Comm, int *out)
{
    *out = context->size;
    return 0;
}

int MPI_Win_allocate_shared(MPI_Aint, int, MPI_Info, MPI_Comm, void *out, MPI_Win *)
{
    *(void **)out = page;
    return 0;
}

int MPI_Win_shared_query(MPI_Win, int, MPI_Aint *, int *, void *out)
{
    *(void **)out = page;
    return 0;
}

int MPI_Barrier(MPI_Comm)
{
    gloo::BarrierOptions o(context);
    gloo::barrier(o);
    return 0;
}

int MPI_Bcast(void *x, int count, MPI_Datatype type, int root, MPI_Comm)
{
    return typed(type, [=](auto *as) {
        gloo::BroadcastOptions o(context);
        o.setOutput(cast(as, x), (size_t)count);
        o.setRoot(root);
        gloo::broadcast(o);
    });
}

int MPI_Allreduce(const void *x, void *y, int count, MPI_Datatype type, MPI_Op op, MPI_Comm)
{
    return typed(type, [=](auto *as) {
        gloo::AllreduceOptions o(context);
        if (x != MPI_IN_PLACE)
            o.setInput(cast(as, x), (size_t)count);
        o.setOutput(cast(as, y), (size_t)count);
        o.setReduceFunction(fold_of(type, op));
        gloo::allreduce(o);
    });
}

int MPI_Reduce(const void *x, void *y, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm)
{
    return typed(type, [=](auto *as) {
        gloo::ReduceOptions o(context);
        o.setOutput(cast(as, y ? y : x), (size_t)count); /* in place, or no root: it sums where it lies */
        o.setReduceFunction(fold_of(type, op));
        o.setRoot(root);
        gloo::reduce(o);
    });
}

int MPI_Allgather(const void *x, int count, MPI_Datatype type, void *y, int each, MPI_Datatype,
                  MPI_Comm)
{
    return typed(type, [=](auto *as) {
        gloo::AllgatherOptions o(context);
        o.setInput(cast(as, x), (size_t)count);
        o.setOutput(cast(as, y), (size_t)each * (size_t)context->size);
        gloo::allgather(o);
    });
}

int MPI_Alltoall(const void *x, int count, MPI_Datatype type, void *y, int each, MPI_Datatype,
                 MPI_Comm)
{
    return typed(type, [=](auto *as) {
        gloo::AlltoallOptions o(context);
        o.setInput(cast(as, x), (size_t)count * (size_t)context->size);
        o.setOutput(cast(as, y), (size_t)each * (size_t)context->size);
        gloo::alltoall(o);
    });
}

int MPI_Gather(const void *x, int count, MPI_Datatype type, void *y, int each, MPI_Datatype,
               int root, MPI_Comm)
{
    return typed(type, [=](auto *as) {
        gloo::GatherOptions o(context);
        o.setInput(cast(as, x), (size_t)count);
        if (context->rank == root)
            o.setOutput(cast(as, y), (size_t)each * (size_t)context->size);
        o.setRoot(root);
        gloo::gather(o);
    });
}

int MPI_Scatter(const void *x, int count, MPI_Datatype type, void *y, int each, MPI_Datatype,
                int root, MPI_Comm)
{
    return typed(type, [=](auto *as) {
        gloo::ScatterOptions o(context);
        std::vector<decltype(as)> blocks;
        for (int r = 0; r < context->size; r++)
            blocks.push_back(cast(as, x) + (size_t)r * (size_t)count);
        if (context->rank == root)
            o.setInputs(blocks, (size_t)count);
        o.setOutput(cast(as, y), (size_t)each);
        o.setRoot(root);
        gloo::scatter(o);
    });
}

static int none(const char *what)
{
    fprintf(stderr, "Gloo has no %s\n", what);
    return MPI_Abort(MPI_COMM_WORLD, 2);
}

int MPI_Reduce_scatter_block(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm)
{
    return none("reduce_scatter");
}

int MPI_Scan(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm)
{
    return none("scan");
}
