# SPDX-License-Identifier: MIT
# Flags of Wharf's own code, as the interface target wharf_flags. Programs that
# use Wharf get none of them.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# With a sanitizer gcc warns of what its own checks bring in, so that warnings
# are no errors there.
set(error)
if(WHARF_WERROR AND NOT WHARF_SANITIZE)
  set(error -Werror)
endif()

# maybe-uninitialized is off: it takes "status = get(&x); if (status != WHARF_OK)
# return status;" for a path to an unset x, since it cannot know that wi_fail
# never returns WHARF_OK, and where it says so changes with every compiler.
add_library(wharf_flags INTERFACE)
target_compile_options(
  wharf_flags
  INTERFACE $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wshadow;-Wstrict-prototypes;-Wmissing-prototypes;$<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>;${error}>)
# Defined to nothing, so that a file may say the same by itself.
target_compile_definitions(
  wharf_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>)

if(WHARF_SANITIZE)
  if(NOT WHARF_SANITIZE MATCHES "^(address|undefined|address,undefined|thread)$")
    message(FATAL_ERROR "WHARF_SANITIZE=${WHARF_SANITIZE}: use address, "
                        "undefined, address,undefined or thread")
  endif()
  target_compile_options(
    wharf_flags
    INTERFACE $<$<COMPILE_LANGUAGE:C>:-fsanitize=${WHARF_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all;-O1;-g>)
  target_link_options(wharf_flags INTERFACE -fsanitize=${WHARF_SANITIZE})
endif()

# For scripts/coverage.sh. Threads count too, so that counters are atomic.
option(WHARF_COVERAGE "Count which lines the tests reach (gcc)" OFF)
mark_as_advanced(WHARF_COVERAGE)
if(WHARF_COVERAGE)
  target_compile_options(
    wharf_flags
    INTERFACE $<$<COMPILE_LANGUAGE:C>:--coverage;-fprofile-update=atomic;-O0;-g>)
  target_link_options(wharf_flags INTERFACE --coverage)
endif()

# libFuzzer steers by what the library's own code was seen to do.
if(WHARF_FUZZ)
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
  check_c_source_compiles(
    "int LLVMFuzzerTestOneInput(const char *data, unsigned long size);
     int LLVMFuzzerTestOneInput(const char *data, unsigned long size)
     { return !data || !size; }" WHARF_HAVE_LIBFUZZER)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT WHARF_HAVE_LIBFUZZER)
    message(FATAL_ERROR "WHARF_FUZZ needs clang with libFuzzer: pass "
                        "-DCMAKE_C_COMPILER=clang, and install its runtime "
                        "libraries (Debian: libclang-rt-dev)")
  endif()
  target_compile_options(
    wharf_flags
    INTERFACE $<$<COMPILE_LANGUAGE:C>:-fsanitize=fuzzer-no-link>)
  target_link_options(wharf_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
