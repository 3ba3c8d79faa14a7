/* SPDX-License-Identifier: MIT */
/*
 * What each member of a barrier does, as pure arithmetic: which word of which
 * member it signals or waits for, in which order.
 *
 * Flat: every member signals every other and waits for every other. Two-level:
 * the members of one group (a GPU) signal their leader, leaders meet flat, each
 * leader releases its group. Facts (two H200): 16 members flat take 140 us by
 * memory operations, 43 us in two levels.
 *
 * The words of a member, `wi_barrier_words` of them:
 *   0 .. n-1      arrival: word i is signalled by member i
 *   n             release
 *   n+1 .. 2n     arrival in the second round, only with marks
 *
 * With numbers (epochs) or counts one round is enough, and one release word, in
 * the leader's memory, serves the whole group.
 *
 * With marks a wait puts its word back to 0, so that the same steps can be
 * replayed; the next signal must not come before that. Between a member and its
 * leader it cannot: each signals only after the other has answered. Members
 * that meet flat need a second round: who is through it knows that everybody
 * has put back the words of the first, and in the next use the first round says
 * so of the second's. A release word is put back by its only reader, so it lies
 * in that member's own memory.
 */
#ifndef WI_CORE_BARRIER_PLAN_H
#define WI_CORE_BARRIER_PLAN_H

#include <stdbool.h>

typedef struct wi_barrier_step {
    bool waits; /* else signals */
    int member; /* whose word */
    int word;
} wi_barrier_step;

typedef struct wi_barrier_shape {
    int members;
    const int *group; /* of each member; members of one group may be released by
                         one of them */
    bool two_level;
    bool marks;
} wi_barrier_shape;

/* Words that each member's memory needs. */
int wi_barrier_words(const wi_barrier_shape *shape);

/* Writes the steps of a member, in order; returns how many. `steps` NULL:
 * counts only. */
int wi_barrier_plan(const wi_barrier_shape *shape, int member,
                    wi_barrier_step *steps);

/* Is flat too slow for memory operations? */
bool wi_barrier_wants_levels(int members, const int *group);

/* Most members that share a group. */
int wi_barrier_crowd(int members, const int *group);

#endif
