/* SPDX-License-Identifier: MIT */
/* The offline planner, a part of wharf-info that needs neither MPI nor a GPU.
 */
#ifndef WHARF_INFO_PLAN_H
#define WHARF_INFO_PLAN_H

#include <stdbool.h>

/* Do these arguments ask for the offline planner? */
bool info_plan_wanted(int argc, char **argv);

/*
 * Plans as the arguments say and prints the plan to stdout. argv[0] is the
 * program's name. Exit code: 0 done, 1 no plan for these inputs, 2 arguments
 * that make no sense.
 */
int info_plan(int argc, char **argv);

#endif
