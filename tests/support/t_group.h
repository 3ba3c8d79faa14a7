/* SPDX-License-Identifier: MIT */
/*
 * What tests with several ranks share: a main with cases, checks on what a
 * collective answered on all ranks, and counts of what the process holds.
 *
 * A check that fails says where and why and ends the whole job, so that no
 * other rank waits for this one. Each case has a time limit for the same
 * reason; it guards against hangs and decides nothing else.
 */
#ifndef T_GROUP_H
#define T_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wharf/wharf.h>

#include "t_device.h"
#include "t_test.h"

/* Rank and size in MPI_COMM_WORLD, set by t_main. */
extern int t_me;
extern int t_ranks;

/* What stands behind the device space in this run: WHARF_BACKEND of the
 * environment ("cuda", else host), and whether the driver is the fake one. */
typedef enum t_mode {
    T_HOST = 1, /* host backend */
    T_FAKE = 2, /* CUDA backend, fake driver */
    T_GPU = 4   /* CUDA backend, real driver */
} t_mode;
#define T_CUDA (T_FAKE | T_GPU)
#define T_ANY (T_HOST | T_FAKE | T_GPU)
t_mode t_mode_get(void);

typedef struct t_case {
    const char *name;
    void (*run)(void);
    unsigned modes; /* T_... or-ed: where the case means something */
} t_case;

/*
 * Starts MPI with a thread level, runs the cases that fit the mode (or those
 * named on the command line), checks after each that Wharf holds as much as
 * before it, finishes MPI and gives the exit status: 77 when nothing could
 * run. `cases` ends with a NULL name.
 */
int t_main(int argc, char **argv, int thread_level, const t_case *cases);

/* Before MPI_Init: skips where the mode's GPUs are missing. t_main does it. */
void t_mode_check(void);

/* The value of an argument "name=value"; `preset` when it is not there.
 * A main of one's own hands over the arguments first. */
void t_arguments(int argc, char **argv);
long t_argument(const char *name, long preset);

/* ---- Checks ------------------------------------------------------------ */

/*
 * A collective that must fail: the same status on every rank of `comm`, and
 * the same record, which names a call and a cause that holds `part` (NULL:
 * any); `rank` is the rank that it must blame, -1 for any.
 */
#define T_FAILS(comm, expected, rank, part, call)                              \
    t_check_failure(__FILE__, __LINE__, #call, (comm), (expected), (call),     \
                    (rank), (part))
void t_check_failure(const char *file, int line, const char *what,
                     MPI_Comm comm, wharf_status expected, wharf_status got,
                     int rank, const char *part);

/* A local call that must fail with a sentence that holds `part`. */
#define T_REFUSES(expected, part, call)                                        \
    t_check_refusal(__FILE__, __LINE__, #call, (expected), (call), (part))
void t_check_refusal(const char *file, int line, const char *what,
                     wharf_status expected, wharf_status got, const char *part);

/* All ranks of MPI_COMM_WORLD must bring the same value. */
#define T_SAME(value)                                                          \
    t_check_same(__FILE__, __LINE__, #value, (uint64_t)(value))
void t_check_same(const char *file, int line, const char *what, uint64_t value);

void t_barrier(void);

/* ---- Objects ----------------------------------------------------------- */

/* A node over MPI_COMM_WORLD with default options, and its end. */
wharf_node *t_open(void);
void t_close(wharf_node *node);

/* A device-space buffer with flags, and the end of any buffer. */
wharf_buffer *t_attach(wharf_node *node, size_t size, unsigned flags);
void t_detach(wharf_buffer *buffer);

/* Segment and its size, checked to be as documented (alignment, NULL when
 * empty). */
void *t_segment(const wharf_buffer *buffer, int rank, size_t *size);
wharf_buffer_info t_info(const wharf_buffer *buffer, int rank);

/* `node`, or NULL if the segment really lies in host memory: what the calls of
 * t_device.h want. */
const wharf_node *t_place(const wharf_node *node, const wharf_buffer *buffer,
                          int rank);

/*
 * Every rank of the node fills its own segment with a pattern of its own, then
 * every rank reads every segment. Collective on the node's ranks.
 */
void t_share(const wharf_node *node, const wharf_buffer *buffer, uint64_t seed);
void t_fill_mine(const wharf_node *node, const wharf_buffer *buffer,
                 uint64_t seed);
void t_check_segment(const wharf_node *node, const wharf_buffer *buffer,
                     int rank, uint64_t seed);

/* ---- What the process holds -------------------------------------------- */

wharf_stats t_stats(void);

/* All live_ counters but communicators (one lives as long as the user's
 * communicator does) are as in `before`, or 0 if it is NULL. */
void t_live_check(const wharf_stats *before);

typedef struct t_holdings {
    int descriptors;
    int mappings; /* lines of /proc/self/maps that are nameless shared memory */
} t_holdings;
t_holdings t_holdings_get(void);

/* ---- Beside MPI --------------------------------------------------------- */

/* For tests in which ranks die, so that MPI's collectives are out of reach. */
long long t_now_ms(void); /* monotonic */
void t_pause_us(long us);
/* Collective: zeroed memory that all ranks share, to the end of the process. */
void *t_board(size_t bytes);

/* Holds until a process has really stopped: its signal may be slower than this
 * caller, and one that comes to a running process wakes nobody. */
void t_wait_stopped(int pid, int most_ms);

#endif
