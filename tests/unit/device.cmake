# SPDX-License-Identifier: MIT
# The CUDA backend over the fake driver, and one program over the real one too.
# Without CUDA they are plain programs that have nothing to test.
if(WHARF_WITH_CUDA)
  if(TARGET fake_cuda)
    wharf_unit_test(NAME t_device_cuda LABELS fake
                    ENV WHARF_CUDA_DRIVER=$<TARGET_FILE:fake_cuda>
                        WHARF_FAKE_DEVICES=2 WHARF_FAKE_CAPS=fabric)
    foreach(name t_device_threads t_driver_states t_foreign_cards)
      wharf_unit_test(NAME ${name} LABELS fake
                      ENV WHARF_CUDA_DRIVER=$<TARGET_FILE:fake_cuda>
                          WHARF_FAKE_DEVICES=2)
    endforeach()
  endif()
  wharf_unit_test(NAME t_device_cuda LABELS gpu)
  foreach(name t_device_sync t_device_copy)
    if(TARGET fake_cuda)
      wharf_unit_test(NAME ${name} LABELS fake
                      SOURCES ${name}.c t_pair.c
                      ENV WHARF_CUDA_DRIVER=$<TARGET_FILE:fake_cuda>
                          WHARF_FAKE_DEVICES=2)
    endif()
    wharf_unit_test(NAME ${name} LABELS gpu SOURCES ${name}.c t_pair.c)
  endforeach()

  # One architecture, that of the oldest GPUs that every nvcc still knows; its
  # PTX runs on all later ones.
  set(WHARF_CUDA_ARCHITECTURES 75)
  wharf_embed_kernels(${CMAKE_CURRENT_SOURCE_DIR}/t_device_words.cu
                      t_words_image ${CMAKE_CURRENT_BINARY_DIR}/t_words.c)
  wharf_unit_test(
    NAME t_device_words LABELS gpu
    SOURCES t_device_words.c t_pair.c ${CMAKE_CURRENT_BINARY_DIR}/t_words.c)
  foreach(name t_device_copy t_device_sync t_device_words)
    target_include_directories(${name} SYSTEM
                               PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  endforeach()
endif()
