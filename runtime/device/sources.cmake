# SPDX-License-Identifier: MIT
# Backends: the only CUDA calls of the library.
list(APPEND WHARF_SOURCES
     device/block.c device/copy_shape.c device/foreign.c device/host.c
     device/host_copy.c device/host_limit.c device/host_memory.c
     device/host_sum.c device/numa.c)

if(WHARF_WITH_CUDA)
  list(APPEND WHARF_SOURCES
       device/cuda.c device/cuda_copy.c device/cuda_copy_engine.c
       device/cuda_copy_set.c device/cuda_enumerate.c device/cuda_event.c
       device/cuda_fabric.c device/cuda_foreign.c device/cuda_foreign_open.c
       device/cuda_host.c device/cuda_ipc.c device/cuda_kernels.c
       device/cuda_report.c device/cuda_sum.c device/cuda_sync.c
       device/cuda_vmm.c device/driver.c device/driver_error.c
       device/nvml.c)
  foreach(source device/kernels.cu device/copy_kernels.cu device/sum_kernels.cu)
    get_filename_component(kernels ${source} NAME_WE)
    wharf_embed_kernels(${CMAKE_CURRENT_SOURCE_DIR}/${source} wi_${kernels}_image
                        ${CMAKE_CURRENT_BINARY_DIR}/wharf_${kernels}.c)
    list(APPEND WHARF_SOURCES ${CMAKE_CURRENT_BINARY_DIR}/wharf_${kernels}.c)
  endforeach()
else()
  # The same table, where every call says that it is not built in.
  list(APPEND WHARF_SOURCES device/cuda_none.c)
endif()

# Ranges for profilers: a header of the toolkit, which needs no CUDA itself.
if(WHARF_WITH_NVTX)
  list(APPEND WHARF_SOURCES device/nvtx.c)
else()
  list(APPEND WHARF_SOURCES device/nvtx_none.c)
endif()
