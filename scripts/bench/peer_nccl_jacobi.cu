/* SPDX-License-Identifier: MIT */
/* The Jacobi solver over NCCL: the four sends and receives of a step in one
 * group, in graphs. */
#include "jacobi.h"

#include <nccl.h>

#define NCCL_CHECK(call)                                                       \
    do {                                                                       \
        ncclResult_t code = (call);                                            \
        if (code != ncclSuccess) {                                             \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,      \
                    ncclGetErrorString(code));                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                      \
        }                                                                      \
    } while (0)

namespace
{

class group : public jacobi::way
{
  public:
    void start()
    {
        ncclUniqueId id;
        int rank, ranks;

        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        if (rank == 0)
            NCCL_CHECK(ncclGetUniqueId(&id));
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        NCCL_CHECK(ncclCommInitRank(&comm_, ranks, id, rank));
    }

    void stop()
    {
        NCCL_CHECK(ncclCommDestroy(comm_));
    }

    /* With two ranks both neighbours are the same one: then the order of the
     * receives is that of the other one's sends. */
    void begin(jacobi::block &b, int to) override
    {
        NCCL_CHECK(ncclGroupStart());
        NCCL_CHECK(
            ncclSend(b.row(to, 0), b.pitch, ncclFloat, b.up, comm_, b.beside));
        NCCL_CHECK(ncclSend(b.row(to, b.rows - 1), b.pitch, ncclFloat, b.down,
                            comm_, b.beside));
        NCCL_CHECK(ncclRecv(b.row(to, b.rows), b.pitch, ncclFloat, b.down,
                            comm_, b.beside));
        NCCL_CHECK(
            ncclRecv(b.row(to, -1), b.pitch, ncclFloat, b.up, comm_, b.beside));
        NCCL_CHECK(ncclGroupEnd());
    }

  private:
    ncclComm_t comm_ = nullptr;
};

} // namespace

int main(int argc, char **argv)
{
    jacobi::options o = jacobi::parse(argc, argv);
    group way;

    jacobi::start(&argc, &argv);
    way.start();
    jacobi::run_all("NCCL", way, o);
    way.stop();
    MPI_Finalize();
    return 0;
}
