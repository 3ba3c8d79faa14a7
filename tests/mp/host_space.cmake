# SPDX-License-Identifier: MIT
# Host memory: by either kind, and by what decides between them.
wharf_group_test(NAME t_host_space NP 2 LABELS mp gpu)
wharf_group_test(NAME t_host_space NP 3 LABELS fake
                 ENV T_EXPECT_LARGE=host-vmm)
wharf_group_test(NAME t_host_space NP 3 LABELS fake SUFFIX no_host_vmm
                 ENV T_EXPECT_LARGE=memfd WHARF_FAKE_CAPS=no_host_vmm)
wharf_group_test(NAME t_host_space NP 2 LABELS fake SUFFIX denied
                 ENV T_EXPECT_LARGE=memfd WHARF_FAKE_CAPS=host_vmm_denied)
wharf_group_test(NAME t_host_space NP 2 LABELS fake SUFFIX memlock
                 ENV WHARF_FAKE_CAPS=no_host_vmm,memlock WHARF_LOG=none)
foreach(kind memfd vmm)
  set(expected host-vmm)
  if(kind STREQUAL "memfd")
    set(expected memfd)
  endif()
  wharf_group_test(NAME t_host_space NP 2 LABELS fake gpu SUFFIX ${kind}
                   ARGS kinds zeroed same_address
                   ENV WHARF_HOST_MEMORY=${kind} T_EXPECT_LARGE=${expected})
endforeach()
