# SPDX-License-Identifier: MIT
# The sweep over host memory, over the fake driver, and over it with legacy
# handles or none. One error code a call; by hand codes=3 tries all.
# A made-up topology: reading the machine's, which is done for every node, takes
# longer than all else, and hwloc's own calls are not made to fail.
set(quiet WHARF_LOG=none "HWLOC_SYNTHETIC=node:1 core:2 pu:1"
          HWLOC_THISSYSTEM=1)
wharf_mp_test(NAME t_sweep SOURCES t_sweep.c sweep_node.c sweep_scenarios.c
              sweep_signals.c sweep_memory.c sweep_ring.c sweep_copy.c
              sweep_exchange.c NP 3
              LABELS mp fake fault TESTING TIMEOUT 600
              ENV ${quiet})
set(some T_SWEEP=attach,attach_zero_read_only,attach_many,detach,close)
wharf_mp_test(NAME t_sweep NP 3 LABELS fake fault TESTING TIMEOUT 600
              SUFFIX ipc ENV ${quiet} WHARF_FAKE_CAPS=no_vmm ${some})
wharf_mp_test(NAME t_sweep NP 2 LABELS fake fault TESTING TIMEOUT 600
              SUFFIX no_handles
              ENV ${quiet} "WHARF_FAKE_CAPS=no_vmm,no_ipc" ${some})
# Fabric handles. Trying them is swept by fake.device_cuda; the whole open with
# them, 470 points, by hand.
wharf_mp_test(NAME t_sweep NP 2 LABELS fake fault TESTING TIMEOUT 600
              SUFFIX fabric
              ENV ${quiet} WHARF_HANDLE=fabric WHARF_FAKE_CAPS=fabric
                  T_SWEEP=attach,detach)
# Memory that the ranks had before.
wharf_mp_test(NAME t_sweep NP 2 LABELS mp fake fault TESTING TIMEOUT 600
              SUFFIX memory
              ENV ${quiet}
                  T_SWEEP=attach_memory,attach_memory_mirrors,detach_memory,sync_memory)
# Rings. Over the fake driver their creation, and attach_driver_host, have some
# 800 points: by hand, T_SWEEP=ring_create,ring_create_shared,... t_sweep.
wharf_mp_test(NAME t_sweep NP 2 LABELS mp fault TESTING TIMEOUT 600 SUFFIX ring
              ENV ${quiet} T_SWEEP=ring_create_shared,ring_destroy)
wharf_mp_test(NAME t_sweep NP 2 LABELS fake fault TESTING TIMEOUT 600
              SUFFIX ring
              ENV ${quiet}
                  T_SWEEP=ring_produce,ring_consume,ring_leave,ring_destroy)
# Copies: on the host nothing can fail.
wharf_mp_test(NAME t_sweep NP 2 LABELS fake fault TESTING TIMEOUT 600
              SUFFIX copy
              ENV ${quiet} T_SWEEP=put_pageable,put_faces,put_notify)
# Exchanges; over the fake driver by hand, as rings.
wharf_mp_test(NAME t_sweep NP 2 LABELS mp fault TESTING TIMEOUT 600
              SUFFIX exchange
              ENV ${quiet} T_SWEEP=exchange_create,exchange_destroy)
