# SPDX-License-Identifier: MIT
# The CUDA backend over the fake driver, and one program over the real one too.
# Without CUDA they are plain programs that have nothing to test.
if(WHARF_WITH_CUDA)
  if(TARGET fake_cuda)
    foreach(name t_device_cuda t_device_threads t_driver_states)
      wharf_unit_test(NAME ${name} LABELS fake
                      ENV WHARF_CUDA_DRIVER=$<TARGET_FILE:fake_cuda>
                          WHARF_FAKE_DEVICES=2)
    endforeach()
  endif()
  wharf_unit_test(NAME t_device_cuda LABELS gpu)
endif()
