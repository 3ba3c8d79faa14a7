/* SPDX-License-Identifier: MIT */
/* What wharf-info and wharf-bench have in common: the machine in words, texts
 * gathered from all ranks, JSON strings. */
#ifndef TOOL_TEXT_H
#define TOOL_TEXT_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>

#include "wharf/wharf.h"

/* What the calling process knows of the machine it runs on. */
struct tool_machine {
    char host[65];
    char cpus[256];  /* its affinity, such as "0-3,8" */
    char driver[48]; /* version of the NVIDIA kernel driver, "" without one */
    char kernel[96]; /* of the operating system */
};

void tool_machine_fill(struct tool_machine *machine);

/* The name of the MPI library, one line. */
void tool_mpi_name(char *text, size_t capacity);

/* The version of Wharf as "1.2.3"; returns the text. */
const char *tool_version(char text[16]);

/* The hwloc that Wharf was built with, "" for none. */
extern const char tool_hwloc[];

/* A JSON string, quotes included. */
void tool_json_string(FILE *file, const char *text);

/* Zeroed memory for count things, at least one; ends the job if there is none.
 * To be freed. */
void *tool_alloc(size_t count, size_t size) __attribute__((returns_nonnull));

/* Collective. Texts of all ranks of a communicator, one after the other, each
 * ended by a zero byte, to be freed; NULL but on rank 0. `count` gets their
 * number. */
char *tool_gather(MPI_Comm comm, const char *mine, int *count);

/* Prints texts as tool_gather gives them, `between` between two. */
void tool_print_all(const char *texts, int count, const char *between);

/* Prints this thread's last Wharf failure where the library, told to by
 * WHARF_LOG=none, has not done so itself; returns 1, the exit code. */
int tool_report(const char *program);

/* The same where all ranks hold one record: only the rank that it names does,
 * so that one sentence comes out. */
int tool_report_once(const char *program, int rank);

/* 0, or 1 with a sentence on stderr when stdout could not take everything. */
int tool_flush(const char *program);

/* Does what this process writes to stderr end on a terminal? Under mpirun its
 * stderr is a pipe to mpirun: then it is mpirun's that counts. */
bool tool_terminal(void);

#endif
