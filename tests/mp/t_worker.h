/* SPDX-License-Identifier: MIT */
/*
 * What the tests of workers share: the worker's program, which is the test
 * program itself started with the argument "worker", and the orders that it
 * takes.
 */
#ifndef T_WORKER_H
#define T_WORKER_H

#include "t_group.h"

/* Silence after which a worker is killed: longer than an answer takes here. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { T_SILENCE_MS = 3000 };
#else
enum { T_SILENCE_MS = 500 };
#endif

/* The thread sanitizer has other uses for the addresses that are tried. */
#ifdef __SANITIZE_THREAD__
#define T_SAME_ADDRESS 0
#else
#define T_SAME_ADDRESS WHARF_BUFFER_SAME_ADDRESS
#endif

typedef enum t_order {
    T_ECHO = 1,    /* the task comes back */
    T_CHECK_ALL,   /* every segment of buffer `value` holds its pattern */
    T_FILL_MINE,   /* the rank's segment of buffer `value` gets a pattern */
    T_BASE,        /* address of buffer `value`, number of buffers */
    T_DIE_SIGNAL,  /* raises signal `value` */
    T_DIE_SEGV,    /* a real bad access */
    T_DIE_EXIT,    /* exit code `value` */
    T_DIE_FAULT,   /* ruins its context, then calls Wharf */
    T_DIE_TOLD,    /* ruins its context and says so itself */
    T_HANG,        /* nothing more */
    T_SLOW,        /* `value` ms, with signs of life */
    T_FLOOD,       /* `value` messages, then the number that went */
    T_FORK,        /* a child that sleeps; its pid */
    T_DESCRIPTORS, /* how many were open before the join, and the highest */
    T_VARIABLES,   /* launcher's variables that are there */
    T_LINES,       /* `value` lines on stdout and stderr each */
    T_REFUSALS,    /* what a guest may not do */
    T_IGNORE_STOP  /* stays when it is told to stop */
} t_order;

typedef struct t_task {
    int order;
    int value;
    uint64_t seed;
    uint64_t numbers[4];
} t_task;

/* In main, first thing: does not return in a worker. */
void t_worker_main(int argc, char **argv);

/* A worker that runs this program. NULL options: defaults. */
wharf_worker *t_worker_start(wharf_node *node,
                             const wharf_worker_options *options);
wharf_worker_options t_worker_options(wharf_buffer *const *buffers, int count);
void t_worker_stop(wharf_worker *worker);

/* Sends an order; and waits for the answer, which must come. */
void t_tell(wharf_worker *worker, t_order order, int value, uint64_t seed);
t_task t_ask(wharf_worker *worker, t_order order, int value, uint64_t seed);

wharf_worker_report t_report(wharf_worker *worker);

/* Until a process is gone, at most 10 s; fails when it stays. */
void t_wait_gone(int pid);

#endif
