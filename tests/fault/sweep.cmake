# SPDX-License-Identifier: MIT
# The sweep over host memory, over the fake driver, and over it with legacy
# handles or none. One error code a call; by hand codes=3 tries all.
wharf_mp_test(NAME t_sweep SOURCES t_sweep.c sweep_scenarios.c
              sweep_signals.c NP 3
              LABELS mp fake fault TESTING TIMEOUT 600
              ENV WHARF_LOG=none)
set(some T_SWEEP=attach,attach_zero_read_only,attach_many,detach,close)
wharf_mp_test(NAME t_sweep NP 3 LABELS fake fault TESTING TIMEOUT 600
              SUFFIX ipc ENV WHARF_LOG=none WHARF_FAKE_CAPS=no_vmm ${some})
wharf_mp_test(NAME t_sweep NP 2 LABELS fake fault TESTING TIMEOUT 600
              SUFFIX no_handles
              ENV WHARF_LOG=none "WHARF_FAKE_CAPS=no_vmm,no_ipc" ${some})
