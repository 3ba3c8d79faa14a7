/* SPDX-License-Identifier: MIT */
/* The offline planner, a part of wharf-info that needs neither MPI nor a GPU.
 */
#ifndef WI_TOOLS_PLAN_OFFLINE_H
#define WI_TOOLS_PLAN_OFFLINE_H

#include <stdbool.h>

/* Do these arguments ask for the offline planner? */
bool wi_tool_plan_wanted(int argc, char **argv);

/*
 * Plans as the arguments say and prints the plan to stdout. argv[0] is the
 * program's name. Exit code: 0 done, 1 no plan for these inputs, 2 arguments
 * that make no sense.
 */
int wi_tool_plan(int argc, char **argv);

#endif
