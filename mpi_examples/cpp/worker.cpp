/* SPDX-License-Identifier: MIT */
/*
 * Risky work in C++: every rank hands numbers to a worker, a process of its
 * own that divides and at times dies of it. The rank goes on: it sends the task
 * again, and the next worker does it. What lies in the buffer stays.
 *
 * Run: mpirun -n 2 worker_cpp
 */
#include <wharf/wharf.hpp> /* and mpi.h */

#include <csignal>
#include <cstdio>
#include <string>

struct task {
    int number;
    int tries; /* the first try of each fifth number is fatal */
};

/* The worker: this program again, without MPI. */
static int work()
{
    wharf::worker_end rank;
    wharf::span<double> results = rank.buffer(0).mine<double>();
    task now;

    while (rank.receive(now) == wharf::mail::passed) {
        if (now.number % 5 == 4 && now.tries == 0)
            std::raise(SIGSEGV);
        results[static_cast<std::size_t>(now.number)] = 1.0 / (now.number + 1);
        rank.send(now);
    }
    return 0;
}

static void command(const char *program)
{
    wharf::node node(MPI_COMM_WORLD);
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    options.space = WHARF_SPACE_HOST;
    wharf::buffer results(node, 20 * sizeof(double), options);
    wharf::worker worker(node, {program, "worker"}, {results});

    for (int number = 0; number < 20; number++)
        for (task now = {number, 0};; now.tries++)
            if (worker.send(now) == wharf::mail::passed &&
                worker.receive(now) == wharf::mail::passed)
                break;

    double sum = 0;
    for (double x : results.mine<double>())
        sum += x;
    wharf_worker_report report = worker.stop();
    std::printf("rank %d: sum %.6f, %d workers, %d died\n", node.rank(), sum,
                report.starts, report.deaths);
}

int main(int argc, char **argv)
{
    try {
        if (argc > 1 && std::string(argv[1]) == "worker")
            return work();
        MPI_Init(&argc, &argv);
        command(argv[0]);
    } catch (const wharf::error &error) {
        int mpi = 0;

        std::fprintf(stderr, "%s\n", error.what());
        MPI_Initialized(&mpi); /* not in a worker */
        if (mpi)
            MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    MPI_Finalize();
    return 0;
}
