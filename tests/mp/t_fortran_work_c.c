/* SPDX-License-Identifier: MIT */
/* The C half of t_fortran_work.f90: sizes and presets as C has them, in the
 * order in which the Fortran half asks. */
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include <wharf/wharf.h>

size_t t_work_layout(int index);
void t_kill_me(void);
int t_pid(void);

size_t t_work_layout(int index)
{
    const wharf_worker_options preset = WHARF_WORKER_OPTIONS_INIT;
    const size_t layout[] = {
        sizeof(wharf_ring_options),      sizeof(wharf_ring_slot),
        sizeof(wharf_ring_info),         sizeof(wharf_worker_options),
        sizeof(wharf_worker_death),      sizeof(wharf_worker_report),
        sizeof(wharf_joined_options),    (size_t)preset.stop_ms,
        (size_t)preset.restarts,         (size_t)preset.backoff_ms,
        (size_t)preset.backoff_most_ms,  sizeof(wharf_exchange_box),
        sizeof(wharf_exchange_transfer), sizeof(wharf_exchange_options),
        sizeof(wharf_exchange_block),    sizeof(wharf_exchange_info),
        sizeof(wharf_exchange_plan),
    };

    return layout[index];
}

void t_kill_me(void)
{
    raise(SIGKILL);
}

int t_pid(void)
{
    return (int)getpid();
}
