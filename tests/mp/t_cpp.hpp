/* SPDX-License-Identifier: MIT */
/* What the tests of the C++ header share: checks, and a main with cases. The
 * helpers of the C tests are not C++. */
#ifndef T_CPP_HPP
#define T_CPP_HPP

#include <wharf/wharf.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

inline int me, ranks;

[[noreturn]] inline void fail(int line, const char *what, const char *detail)
{
    std::fprintf(stderr, "line %d: rank %d: %s%s%s\n", line, me, what,
                 *detail ? ": " : "", detail);
    _exit(1);
}

#define CHECK(condition)                                                       \
    ((condition) ? (void)0 : fail(__LINE__, "not true: " #condition, ""))

/* The error that `body` throws. */
template <typename Body> wharf::error thrown(int line, Body body)
{
    try {
        body();
    } catch (const wharf::error &error) {
        return error;
    }
    fail(line, "nothing was thrown", "");
}

#define THROWS(expected, body)                                                 \
    do {                                                                       \
        wharf::error error_ = thrown(__LINE__, [&] { body; });                 \
        if (error_.status() != (expected))                                     \
            fail(__LINE__, #expected " expected", error_.what());              \
    } while (0)

inline wharf_stats stats()
{
    wharf_stats now = WHARF_STATS_INIT;

    wharf::check(wharf_stats_get(&now));
    return now;
}

inline void nothing_is_left(int line)
{
    wharf_stats now = stats();
    int64_t held = now.live_nodes + now.live_buffers + now.live_events +
                   now.live_notifies + now.live_barriers + now.live_rings +
                   now.live_exchanges + now.live_workers + now.live_joined +
                   now.live_published + now.live_descriptors +
                   now.live_host_map_bytes + now.live_blocks_owned +
                   now.live_blocks_imported;

    if (held != 0)
        fail(line, "something is still held", "");
}

inline wharf_buffer_options in_host_memory()
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    options.space = WHARF_SPACE_HOST;
    return options;
}

inline void barrier_of_all()
{
    MPI_Barrier(MPI_COMM_WORLD);
}

struct t_case {
    const char *name;
    void (*run)();
    int least; /* ranks */
};

/* Runs the cases, or the one that is named. */
inline int run_cases(int argc, char **argv, const t_case *cases,
                     std::size_t count)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (std::size_t i = 0; i < count; i++) {
        const t_case &one = cases[i];

        if (one.least > ranks || (argc > 1 && std::strcmp(argv[1], one.name)))
            continue;
        if (me == 0)
            std::printf("%s\n", one.name);
        alarm(60);
        try {
            one.run();
        } catch (const std::exception &error) {
            fail(__LINE__, one.name, error.what());
        }
        nothing_is_left(__LINE__);
        barrier_of_all();
    }
    MPI_Finalize();
    return 0;
}

#endif
