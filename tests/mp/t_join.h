/* SPDX-License-Identifier: MIT */
/* t_join: what the ranks and the programs that they start have in common. */
#ifndef T_JOIN_H
#define T_JOIN_H

#include <sys/types.h>

/* Bytes of each rank's segment, different and not whole pages; rank 1's is
 * empty. */
#define SEGMENT(rank) ((size_t)((rank) == 1 ? 0 : 5000 + 123 * (rank)))
#define SEED 77

/* The other program: `t_join joiner ROLE ARG...`, without MPI. Says one letter
 * when it has come so far, and takes letters as orders. */
int joiner_main(int argc, char **argv);

typedef struct program {
    pid_t pid;
    int orders, words;
} program;

/* Starts one; up to two arguments, NULL: none. */
program joiner_begin(const char *role, const char *name, const char *one,
                     const char *two);
/* A letter from it, within 20 s; a letter to it, which it repeats. */
void joiner_expect(const program *p, char letter);
void joiner_order(const program *p, char letter);
/* No more orders; it must end well. */
void joiner_finish(program *p);
/* One that needs no orders. */
void joiner_run(const char *role, const char *name, const char *one,
                const char *two);

#endif
