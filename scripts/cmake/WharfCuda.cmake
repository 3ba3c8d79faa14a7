# SPDX-License-Identifier: MIT
# The CUDA backend needs nvcc for its kernels and cuda.h for types; it links no
# CUDA library, since the driver is loaded at run time. Sets WHARF_WITH_CUDA.
set(WHARF_WITH_CUDA OFF)
if(WHARF_CUDA)
  find_package(CUDAToolkit 12.0 QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(WHARF_WITH_CUDA ON)
  elseif(NOT WHARF_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "WHARF_CUDA=${WHARF_CUDA}, but no CUDA toolkit >= 12.0 "
                        "with nvcc is found; put nvcc on PATH or set "
                        "CUDAToolkit_ROOT")
  endif()
endif()

# Ranges for profilers want one header of the toolkit, and no nvcc.
set(WHARF_WITH_NVTX OFF)
foreach(_wharf_directory IN LISTS CUDAToolkit_INCLUDE_DIRS)
  if(EXISTS ${_wharf_directory}/nvtx3/nvToolsExt.h)
    set(WHARF_WITH_NVTX ON)
  endif()
endforeach()

# Architectures that get machine code, as far as this nvcc knows them; newer
# ones run from the PTX of the last.
set(WHARF_CUDA_ARCHITECTURES "70;75;80;86;89;90;100" CACHE STRING
    "Compute capabilities of the embedded kernels")

# wharf_embed_kernels(SOURCE SYMBOL OUTPUT): compiles a .cu file to a fat binary
# and makes a C file that defines it as `const unsigned char SYMBOL[]`.
function(wharf_embed_kernels source symbol output)
  execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-arch
                  OUTPUT_VARIABLE known)
  set(flags)
  set(newest)
  foreach(arch IN LISTS WHARF_CUDA_ARCHITECTURES)
    if(known MATCHES "compute_${arch}\n")
      list(APPEND flags -gencode=arch=compute_${arch},code=sm_${arch})
      set(newest ${arch})
    endif()
  endforeach()
  if(NOT newest)
    message(FATAL_ERROR "nvcc knows none of WHARF_CUDA_ARCHITECTURES="
                        "${WHARF_CUDA_ARCHITECTURES}")
  endif()
  list(APPEND flags -gencode=arch=compute_${newest},code=compute_${newest})

  get_filename_component(stem ${output} NAME_WE)
  set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/${stem}.fatbin)
  add_custom_command(
    OUTPUT ${fatbin}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -fatbin -O3
            -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/runtime
            -MD -MF ${fatbin}.d ${flags} -o ${fatbin} ${source}
    DEPENDS ${source}
    DEPFILE ${fatbin}.d
    COMMENT "Compiling ${stem} for the GPU")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${fatbin} -DOUTPUT=${output}
            -DSYMBOL=${symbol} -P ${PROJECT_SOURCE_DIR}/scripts/cmake/embed.cmake
    DEPENDS ${fatbin} ${PROJECT_SOURCE_DIR}/scripts/cmake/embed.cmake
    COMMENT "Embedding ${stem}")
endfunction()
