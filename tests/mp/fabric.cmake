# SPDX-License-Identifier: MIT
# Memory by fabric handles: where they work, and each way in which they do not.
set(fabric WHARF_HANDLE=fabric WHARF_FAKE_CAPS=fabric)

wharf_degraded_test(fabric 4 "${fabric}")
wharf_group_test(NAME t_buffer_degraded NP 2 LABELS fake SUFFIX fabric_unsaid
                 ARGS fabric ENV WHARF_HANDLE=fabric WHARF_FAKE_CAPS=fabric_unsaid)
wharf_degraded_test(fabric_instead 3 "WHARF_FAKE_CAPS=no_fd_handle,fabric")
foreach(caps fabric_denied fabric_no_export fabric_no_import)
  wharf_degraded_test(${caps} 2 "WHARF_HANDLE=fabric;WHARF_FAKE_CAPS=${caps}")
endforeach()
wharf_degraded_test(fabric_on_some 3 "${fabric}")
wharf_degraded_test(fabric_pieces 3 "${fabric};WHARF_CHUNK_BYTES=2m")

# The general tests, and processes that are no ranks.
foreach(name t_buffer_attach t_buffer_pool t_event_order)
  wharf_group_test(NAME ${name} NP 4 LABELS fake SUFFIX fabric ENV ${fabric})
endforeach()
