/* SPDX-License-Identifier: MIT */
/*
 * What a new process on a GPU costs without Wharf: started by posix_spawn, it
 * creates the primary context, writes a word of device memory, and answers on a
 * pipe. The floor of the time from a worker's fault to the next worker.
 *
 * Run: context_alone [--rounds N]
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>

extern char **environ;

static int answer(int to)
{
    int word = 0;
    int *memory = nullptr;

    if (cudaMalloc(&memory, sizeof *memory) != cudaSuccess ||
        cudaMemset(memory, 1, sizeof *memory) != cudaSuccess ||
        cudaMemcpy(&word, memory, sizeof word, cudaMemcpyDefault) !=
            cudaSuccess)
        return 1;
    return write(to, &word, sizeof word) == sizeof word ? 0 : 1;
}

static double start_one(const char *program)
{
    int ends[2], word = 0, status = 0;
    pid_t child = -1;

    if (pipe(ends) != 0)
        return -1;
    std::string to = std::to_string(ends[1]);
    const char *arguments[] = {program, "--answer", to.c_str(), nullptr};
    auto begin = std::chrono::steady_clock::now();
    if (posix_spawn(&child, program, nullptr, nullptr,
                    const_cast<char **>(arguments), environ) != 0)
        return -1;
    close(ends[1]);
    bool good =
        read(ends[0], &word, sizeof word) == sizeof word && word == 0x01010101;
    auto end = std::chrono::steady_clock::now();
    close(ends[0]);
    waitpid(child, &status, 0);
    good = good && status == 0;
    return good ? std::chrono::duration<double, std::milli>(end - begin).count()
                : -1;
}

int main(int argc, char **argv)
{
    int rounds = 7;

    if (argc == 3 && strcmp(argv[1], "--answer") == 0)
        return answer(atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "--rounds") == 0)
        rounds = std::max(1, atoi(argv[2]));
    std::vector<double> times;
    for (int round = 0; round < rounds; round++) {
        double ms = start_one("/proc/self/exe");

        if (ms < 0) {
            fprintf(stderr, "context_alone: a process did not answer\n");
            return 1;
        }
        times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    printf("# context_alone  processes %d, one after the other\n#\n", rounds);
    printf("# op context-alone\n#%11s %11s %11s %11s %9s %6s\n", "bytes", "min",
           "med", "p99", "rate", "bad");
    printf("#%11s %11s %11s %11s %9s %6s\n", "(B)", "(us)", "(us)", "(us)",
           "(GB/s)", "(B)");
    printf(" %11d %11.2f %11.2f %11.2f %9s %6d\n", 0, times.front() * 1e3,
           times[times.size() / 2] * 1e3, times.back() * 1e3, "-", 0);
    printf("# PASS\n");
    return 0;
}
