/* SPDX-License-Identifier: MIT */
/* The Jacobi solver over NVSHMEM: a kernel puts both edges with a signal each
 * and waits for the neighbours' signals, in graphs. */
#include <nvshmem.h>
#include <nvshmemx.h>

#include "jacobi.h"

namespace
{

/* One block a side. A signal counts the steps of the neighbour; `steps` those
 * of this block, since a graph cannot hold a number that grows. */
__global__ void exchange_kernel(float *first, float *last, float *before,
                                float *behind, size_t bytes, uint64_t *signals,
                                uint64_t *steps, int up, int down)
{
    int side = blockIdx.x;

    /* My first row is the ghost row behind the last one of the rank above,
     * whose signal for that is the second one. */
    if (side == 0)
        nvshmemx_putmem_signal_nbi_block(behind, first, bytes, &signals[1], 1,
                                         NVSHMEM_SIGNAL_ADD, up);
    else
        nvshmemx_putmem_signal_nbi_block(before, last, bytes, &signals[0], 1,
                                         NVSHMEM_SIGNAL_ADD, down);
    if (threadIdx.x == 0) {
        steps[side]++;
        nvshmem_signal_wait_until(&signals[side], NVSHMEM_CMP_GE, steps[side]);
    }
}

class symmetric : public jacobi::way
{
  public:
    void *make(size_t bytes) override
    {
        void *memory = nvshmem_malloc(bytes);

        if (memory == nullptr) {
            fprintf(stderr, "nvshmem_malloc failed\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        return memory;
    }

    void drop(void *memory) override
    {
        nvshmem_free(memory);
    }

    void open(jacobi::block &b) override
    {
        signals_ = static_cast<uint64_t *>(nvshmem_calloc(2, 8));
        CUDA_CHECK(cudaMalloc(&steps_, 16));
        CUDA_CHECK(cudaMemset(steps_, 0, 16));
        /* The ghost row behind the last one of the rank above: ranks may have
         * a row more or less. */
        MPI_Sendrecv(&b.rows, 1, MPI_INT, b.down, 0, &rows_above_, 1, MPI_INT,
                     b.up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }

    void close() override
    {
        nvshmem_free(signals_);
        CUDA_CHECK(cudaFree(steps_));
    }

    void begin(jacobi::block &b, int to) override
    {
        exchange_kernel<<<2, 1024, 0, b.beside>>>(
            b.row(to, 0), b.row(to, b.rows - 1), b.row(to, -1),
            b.row(to, rows_above_), b.row_bytes(), signals_, steps_, b.up,
            b.down);
        CUDA_CHECK(cudaGetLastError());
    }

  private:
    uint64_t *signals_ = nullptr, *steps_ = nullptr;
    int rows_above_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
    jacobi::options o = jacobi::parse(argc, argv);
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    MPI_Comm world = MPI_COMM_WORLD;
    symmetric way;

    jacobi::start(&argc, &argv);
    attributes.mpi_comm = &world;
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attributes) != 0) {
        fprintf(stderr, "nvshmemx_init_attr failed\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    jacobi::run_all("NVSHMEM", way, o);
    nvshmem_finalize();
    MPI_Finalize();
    return 0;
}
