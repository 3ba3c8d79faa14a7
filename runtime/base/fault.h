/* SPDX-License-Identifier: MIT */
/*
 * Faults on demand, for tests: "fail the n-th call of a kind".
 *
 * Every place that can fail asks wi_fault first. With nothing armed that is
 * one load and one branch. Armed by wi_fault_arm (tests link the library with
 * all symbols visible); never by the environment, so no user can meet it.
 */
#ifndef WI_BASE_FAULT_H
#define WI_BASE_FAULT_H

#include <stdbool.h>

typedef enum wi_fault_kind {
    WI_FAULT_MEM = 0,    /* heap allocations: code ignored */
    WI_FAULT_SYS = 1,    /* system calls: code is an errno */
    WI_FAULT_DRIVER = 2, /* CUDA driver calls: code is a CUresult */
    WI_FAULT_AGREE = 3,  /* this rank's part of an agreement: code ignored */
    WI_FAULT_KINDS = 4
} wi_fault_kind;

/* Arms one kind: its nth next call (1 = the very next) fails once with code.
 * Counting starts at 0. One kind is armed at a time, process-wide. */
void wi_fault_arm(wi_fault_kind kind, long nth, int code);

/* Disarms. Returns whether the fault fired since wi_fault_arm; `where`, if not
 * NULL, gets the name of the call that failed, else NULL. */
bool wi_fault_disarm(const char **where);

/* Calls of the armed kind seen since wi_fault_arm. */
long wi_fault_count(void);

/* Internal: is anything armed? */
extern int wi_fault_armed;
bool wi_fault_slow(wi_fault_kind kind, const char *where, int *code);

/* True if this call must fail; *code is then the code to fail with. `where`
 * is a string constant. Calls that only give something back never ask. */
static inline bool wi_fault(wi_fault_kind kind, const char *where, int *code)
{
    if (__builtin_expect(__atomic_load_n(&wi_fault_armed, __ATOMIC_RELAXED), 0))
        return wi_fault_slow(kind, where, code);
    return false;
}

#endif
