/* SPDX-License-Identifier: MIT */
/* The Jacobi solver over plain MPI, for an MPI that cannot be given device
 * memory: edges through page-locked host memory, by persistent requests. */
#include "jacobi.h"

namespace
{

/* Everything twice, one for each array: rows of one step are still on their way
 * to the device when those of the next one are asked for. */
class staged : public jacobi::way
{
  public:
    void open(jacobi::block &b) override
    {
        int bytes = static_cast<int>(b.row_bytes());

        for (turn &t : turns_) {
            for (int i = 0; i < 2; i++) {
                CUDA_CHECK(cudaMallocHost(&t.out[i], b.row_bytes()));
                CUDA_CHECK(cudaMallocHost(&t.in[i], b.row_bytes()));
            }
            /* 0: my first row goes up, and one like it comes from below. */
            MPI_Recv_init(t.in[0], bytes, MPI_BYTE, b.down, 0, MPI_COMM_WORLD,
                          &t.requests[0]);
            MPI_Recv_init(t.in[1], bytes, MPI_BYTE, b.up, 1, MPI_COMM_WORLD,
                          &t.requests[1]);
            MPI_Send_init(t.out[0], bytes, MPI_BYTE, b.up, 0, MPI_COMM_WORLD,
                          &t.requests[2]);
            MPI_Send_init(t.out[1], bytes, MPI_BYTE, b.down, 1, MPI_COMM_WORLD,
                          &t.requests[3]);
        }
    }

    void close() override
    {
        for (turn &t : turns_) {
            for (MPI_Request &request : t.requests)
                MPI_Request_free(&request);
            for (int i = 0; i < 2; i++) {
                cudaFreeHost(t.in[i]);
                cudaFreeHost(t.out[i]);
            }
        }
    }

    bool capturable() override
    {
        return false;
    }

    void begin(jacobi::block &b, int to) override
    {
        turn &t = turns_[to];

        CUDA_CHECK(cudaMemcpyAsync(t.out[0], b.row(to, 0), b.row_bytes(),
                                   cudaMemcpyDeviceToHost, b.beside));
        CUDA_CHECK(cudaMemcpyAsync(t.out[1], b.row(to, b.rows - 1),
                                   b.row_bytes(), cudaMemcpyDeviceToHost,
                                   b.beside));
        MPI_Startall(2, t.requests);
    }

    void end(jacobi::block &b, int to) override
    {
        turn &t = turns_[to];

        CUDA_CHECK(cudaStreamSynchronize(b.beside));
        MPI_Startall(2, t.requests + 2);
        MPI_Waitall(4, t.requests, MPI_STATUSES_IGNORE);
        CUDA_CHECK(cudaMemcpyAsync(b.row(to, b.rows), t.in[0], b.row_bytes(),
                                   cudaMemcpyHostToDevice, b.beside));
        CUDA_CHECK(cudaMemcpyAsync(b.row(to, -1), t.in[1], b.row_bytes(),
                                   cudaMemcpyHostToDevice, b.beside));
    }

  private:
    struct turn {
        char *out[2], *in[2];
        MPI_Request requests[4];
    };

    turn turns_[2];
};

} // namespace

int main(int argc, char **argv)
{
    jacobi::options o = jacobi::parse(argc, argv);
    staged way;

    jacobi::start(&argc, &argv);
    jacobi::run_all("staged MPI", way, o);
    MPI_Finalize();
    return 0;
}
