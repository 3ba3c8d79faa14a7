# SPDX-License-Identifier: MIT
# Notifies and stream barriers, by every mechanism that a machine can have.
foreach(name t_notify_basic t_notify_streams t_barrier)
  wharf_group_test(NAME ${name} NP 2 4 LABELS mp fake gpu)
endforeach()
wharf_group_test(NAME t_barrier NP 8 LABELS mp)

# All ranks on one GPU, some on each, one on each.
foreach(shape 2:1 4:1 8:1 8:2 8:4 8:8)
  string(REPLACE ":" ";" shape ${shape})
  list(GET shape 0 np)
  list(GET shape 1 devices)
  foreach(name t_notify_streams t_barrier)
    wharf_group_test(NAME ${name} NP ${np} DEVICES ${devices} LABELS fake
                     SUFFIX dev${devices} ARGS rounds=60 replays=200)
  endforeach()
endforeach()

# What the machine can do decides: two ranks on one GPU, and two GPUs.
function(wharf_signal_test suffix same other environment)
  foreach(name t_notify_basic t_notify_streams t_barrier)
    wharf_group_test(NAME ${name} NP 4 LABELS fake SUFFIX ${suffix}
                     ARGS rounds=60 replays=200
                     ENV T_EXPECT_SAME=${same} T_EXPECT_OTHER=${other}
                         ${environment} ${ARGN})
  endforeach()
endfunction()
wharf_signal_test(plain mem-ops kernel "")
wharf_signal_test(mps kernel kernel WHARF_FAKE_CAPS=mps)
wharf_signal_test(no_memops kernel kernel WHARF_FAKE_CAPS=no_memops
                  WHARF_LOG=error)
wharf_signal_test(no_peers mem-ops mem-ops WHARF_FAKE_PEERS=none
                  WHARF_LOG=error)
wharf_signal_test(on_host_no_memops kernel kernel WHARF_FAKE_PEERS=none
                  WHARF_FAKE_CAPS=no_memops WHARF_LOG=error)
wharf_signal_test(ipc mem-ops kernel WHARF_FAKE_CAPS=no_vmm)

# By order of the environment.
foreach(mechanism kernel mem-ops hybrid)
  foreach(name t_notify_streams t_barrier)
    wharf_group_test(NAME ${name} NP 4 LABELS mp fake gpu SUFFIX ${mechanism}
                     ARGS rounds=60 replays=200
                     ENV WHARF_MECHANISM=${mechanism} WHARF_LOG=error
                         T_EXPECT_SAME=${mechanism} T_EXPECT_OTHER=${mechanism})
  endforeach()
endforeach()

wharf_group_test(NAME t_notify_threads NP 2 4 LABELS mp fake gpu)
wharf_group_test(NAME t_notify_threads NP 4 DEVICES 1 LABELS fake SUFFIX dev1)

# Events where all ranks, some, or none share a GPU.
foreach(devices 1 2 4)
  wharf_group_test(NAME t_event_order NP 4 DEVICES ${devices} LABELS fake
                   SUFFIX dev${devices})
endforeach()
wharf_group_test(NAME t_event_order NP 4 LABELS gpu)
wharf_group_test(NAME t_event_basic NP 3 DEVICES 1 LABELS fake SUFFIX dev1)
wharf_group_test(NAME t_event_threads NP 4 DEVICES 1 LABELS fake SUFFIX dev1)

# The wrap of numbers; it sees the internals.
foreach(np 2 3)
  wharf_mp_test(NAME t_signal_wrap NP ${np} LABELS mp fake gpu TESTING)
endforeach()
wharf_mp_test(NAME t_signal_wrap NP 8 LABELS fake TESTING SUFFIX dev2)
foreach(mechanism kernel mem-ops)
  wharf_mp_test(NAME t_signal_wrap NP 4 LABELS fake gpu TESTING
                SUFFIX ${mechanism}
                ENV WHARF_MECHANISM=${mechanism} WHARF_LOG=error)
endforeach()
wharf_mp_test(NAME t_signal_wrap NP 4 LABELS fake TESTING SUFFIX kernel_on_host
              ENV WHARF_FAKE_PEERS=none WHARF_FAKE_CAPS=no_memops
                  WHARF_LOG=error)

# Memory order. A million rounds on GPUs: by hand, or nightly.
wharf_group_test(NAME t_litmus NP 2 4 LABELS mp fake)
wharf_group_test(NAME t_litmus NP 2 4 LABELS gpu ARGS rounds=5000 TIMEOUT 600)
