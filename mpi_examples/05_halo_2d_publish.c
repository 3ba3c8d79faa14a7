/* SPDX-License-Identifier: MIT */
/* --publish: lets programs outside the job look at the field while it is
 * computed, such as python/viewer.py. Nothing in the solver waits for them. */
#include <stdio.h>
#include <wharf/join.h>

#include "05_halo_2d.h"

void halo_publish(const struct halo_solver *solver, const char *name,
                  struct failure *why)
{
    wharf_publish_options options = WHARF_PUBLISH_OPTIONS_INIT;
    char note[128];

    if (wharf_node_size(solver->node) != solver->ranks) {
        snprintf(why->text, sizeof why->text,
                 "--publish is for the ranks of one node");
        return;
    }
    if (solver->rank != 0)
        return;
    /* With these a viewer finds each rank's rows in its segment. */
    snprintf(note, sizeof note,
             "{\"rows\": %d, \"columns\": %d, \"pitch\": %zu}",
             solver->settings.problem.rows, solver->settings.problem.columns,
             solver->pitch);
    options.note = note;
    halo_failed(wharf_buffer_publish(solver->buffer, name, &options), why);
}
