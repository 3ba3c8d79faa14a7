# SPDX-License-Identifier: MIT
# Tests of 07_frame_filter and 08_large_ring. The programs compare every result
# with what it must be, and end with 1 if one is wrong.

# frame_test(NAME NP [SUFFIX text] LABELS ... ARGS ...), as wharf_example_test.
function(frame_test name np)
  cmake_parse_arguments(T "" "SUFFIX" "LABELS;ARGS" ${ARGN})
  wharf_mp_test(NAME t_${name} NP ${np} SUFFIX ${T_SUFFIX} LABELS ${T_LABELS}
                example ENV ${no_leaks} ARGS ${T_ARGS})
  set(test gpu.${name}.np${np})
  if(T_SUFFIX)
    string(APPEND test .${T_SUFFIX})
  endif()
  if(TEST ${test} AND NOT WHARF_FAIL_ON_SKIP)
    set_tests_properties(${test} PROPERTIES SKIP_REGULAR_EXPRESSION "WHARF_ENODEV")
  endif()
endfunction()

# frame_sentence(NAME SUFFIX NP CODE SENTENCE ARGS...): on the host backend, the
# exit code and what is said. NP 0 starts the program without a launcher, which
# is quicker where it fails.
function(frame_sentence name suffix np code sentence)
  if(NOT MPIEXEC_EXECUTABLE)
    return()
  endif()
  set(test mp.${name}.${suffix})
  set(launch)
  if(np GREATER 0)
    set(launch ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${np}
               ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS})
  endif()
  add_test(
    NAME ${test}
    COMMAND ${CMAKE_COMMAND} -DCODE=${code} -DSENTENCE=${sentence}
            -P ${PROJECT_SOURCE_DIR}/tests/support/expect.cmake -- ${launch}
            $<TARGET_FILE:${name}> ${ARGN})
  set_tests_properties(
    ${test} PROPERTIES LABELS "mp;example" TIMEOUT ${WHARF_TEST_TIMEOUT}
                       ENVIRONMENT "WHARF_BACKEND=host;${WHARF_TEST_ENVIRONMENT};${no_leaks}"
                       RESOURCE_LOCK "${WHARF_TEST_LOCK}")
endfunction()

# ---- 07_frame_filter --------------------------------------------------------
# Rows that are no whole tiles, widths around the ends of tiles, fewer rows than
# the filter is high, one pixel.
frame_test(07_frame_filter 1 LABELS mp gpu ARGS --generate 333x65 --frames 9)
frame_test(07_frame_filter 3 LABELS mp gpu ARGS --generate 683x40 --frames 12)
frame_test(07_frame_filter 2 SUFFIX radius3 LABELS mp gpu
           ARGS --generate 700x30 --frames 9 --radius 3 --ring-in host --slots 3)
frame_test(07_frame_filter 2 SUFFIX low LABELS mp gpu
           ARGS --generate 1366x2 --frames 4 --radius 3 --slots 1)
frame_test(07_frame_filter 1 SUFFIX pixel LABELS mp gpu
           ARGS --generate 1x1 --frames 2)
# The ring and the memory of a GPU backend, used by CPUs.
frame_test(07_frame_filter 3 SUFFIX cpu LABELS fake gpu
           ARGS --cpu --generate 160x90 --frames 9)
# Few blocks for many tiles, many for few; the size that is measured; the kernel
# for frames on the device, used for others.
frame_test(07_frame_filter 1 SUFFIX one_block LABELS gpu
           ARGS --generate 1366x20 --frames 9 --blocks 1 --tile 128)
frame_test(07_frame_filter 1 SUFFIX many_blocks LABELS gpu
           ARGS --generate 640x30 --frames 9 --blocks 2000 --tile 640 --radius 3)
frame_test(07_frame_filter 4 SUFFIX 1080p LABELS gpu ARGS --frames 100)
frame_test(07_frame_filter 2 SUFFIX direct LABELS gpu ARGS --frames 20 --direct)

set(frames ${CMAKE_CURRENT_BINARY_DIR}/frames)
file(MAKE_DIRECTORY ${frames})
file(WRITE ${frames}/six.ppm "P6\n# two rows\n3 2\n255\nabcdefghijklmnopqr")
file(WRITE ${frames}/other.ppm "P6 3 2 255 rqponmlkjihgfedcba")
file(WRITE ${frames}/grey.pgm "P5\n3 2 255\nabcdef")
file(WRITE ${frames}/large.ppm "P6\n4 1\n255\nabcdefghijkl")
file(WRITE ${frames}/cut.ppm "P6\n3 2\n255\nabcdefghijkl")
file(WRITE ${frames}/deep.ppm "P6\n3 2\n65535\nabcdefghijklmnopqrabcdefghijklmnopqr")
file(WRITE ${frames}/broken.ppm "P6\nthree two\n255\n")
file(WRITE ${frames}/huge.ppm "P6\n99999 99999\n255\n")
file(WRITE ${frames}/text "This is no image.")
file(WRITE ${frames}/empty "")
file(WRITE ${frames}/video "abcdefghijklmnopqrrqponmlkjihgfedcba")
file(WRITE ${frames}/video_cut "abcdefghijklmnopqrrqponmlk")

# Checksums of results, found by an independent program as well. Frames of a
# video and images with the same bytes give the same.
set(two "copy +without .* ba3c1ad0 0 of")
frame_sentence(07_frame_filter ppm 2 0 "${two}" ${frames}/six.ppm
               ${frames}/other.ppm)
frame_sentence(07_frame_filter raw 2 0 "${two}" --raw 3x2 ${frames}/video)
frame_sentence(07_frame_filter grey 1 0 "3ea695a6 0 of" ${frames}/grey.pgm)

# What people get wrong.
foreach(
  error
  "missing;nowhere.png;nowhere.png: No such file"
  "folder;.;is a directory"
  "text;text;text: is neither a PNG nor a PPM image"
  "empty;empty;empty: is empty"
  "broken;broken.ppm;broken.ppm: the header of this PPM image is broken"
  "deep;deep.ppm;deep.ppm: a PPM image with more or less than 256 steps"
  "huge;huge.ppm;a frame of 99999 x 99999 pixels"
  "cut;cut.ppm;cut.ppm: the image is cut short: it ends in row 2 of 2")
  list(GET error 0 name)
  list(GET error 1 file)
  list(GET error 2 sentence)
  frame_sentence(07_frame_filter ${name} 0 1 "${sentence}" ${frames}/${file})
endforeach()
frame_sentence(07_frame_filter device 0 1 "/dev/null: is not a regular file"
               /dev/null)
frame_sentence(07_frame_filter two_sizes 0 1
               "large.ppm: is 4x1, .*six.ppm is 3x2" ${frames}/six.ppm
               ${frames}/large.ppm)
frame_sentence(07_frame_filter raw_cut 0 1
               "26 bytes are 1 frames and 8 bytes.*is the file cut short"
               --raw 3x2 ${frames}/video_cut)
frame_sentence(07_frame_filter not_writable 0 1 "dev/null/x: Not a directory"
               --generate 8x8 --out /dev/null/x)
frame_sentence(07_frame_filter raw_alone 0 2 "--raw needs files" --raw 3x2)
frame_sentence(07_frame_filter size 0 1 "'8x' is no size of a frame" --generate 8x)
frame_sentence(07_frame_filter way 0 2 "unusable option '--ways fast'" --ways fast)
frame_sentence(07_frame_filter number 0 2 "unusable option '--radius 4'" --radius 4)

# What was written is read again: the frames of the generator, as PNG where
# libpng is. One of them is cut short on the way.
set(image .ppm)
if(PNG_FOUND)
  set(image .png)
endif()
frame_sentence(07_frame_filter write 2 0 "07c59ff1 0 of.*comparison.svg"
               --generate 100x60 --frames 2 --out ${frames}/out)
frame_sentence(07_frame_filter read 2 0 "copy +without .* 07c59ff1 0 of"
               ${frames}/out/frame-0000${image} ${frames}/out/frame-0001${image})
frame_sentence(07_frame_filter read_results 1 0 "copy +without .* 90d14bea 0 of"
               ${frames}/out/frame-0000-filtered${image})
frame_sentence(07_frame_filter read_cut 2 1 "cut short" ${frames}/out/cut${image})
add_test(NAME mp.07_frame_filter.cutting
         COMMAND sh -c "head -c 5000 '${frames}/out/frame-0000${image}' >'${frames}/out/cut${image}'")
if(TEST mp.07_frame_filter.write)
  set_tests_properties(mp.07_frame_filter.write PROPERTIES FIXTURES_SETUP frame_images)
  set_tests_properties(
    mp.07_frame_filter.cutting
    PROPERTIES FIXTURES_REQUIRED frame_images FIXTURES_SETUP frame_cut LABELS "mp;example")
  set_tests_properties(
    mp.07_frame_filter.read mp.07_frame_filter.read_results
    PROPERTIES FIXTURES_REQUIRED frame_images)
  set_tests_properties(mp.07_frame_filter.read_cut PROPERTIES FIXTURES_REQUIRED
                                                              frame_cut)
endif()

# ---- 08_large_ring ----------------------------------------------------------
frame_test(08_large_ring 2 LABELS mp gpu ARGS --size 320x200 --frames 40)
frame_test(08_large_ring 4 LABELS mp gpu ARGS --size 333x7 --frames 60 --slots 3)
frame_test(08_large_ring 3 SUFFIX all LABELS mp gpu
           ARGS --size 320x200 --frames 30 --all)
frame_test(08_large_ring 3 SUFFIX cpu LABELS fake gpu
           ARGS --cpu --size 320x200 --frames 30)
# Frames of 99.5 MB through 64 MB; one pair of words at a time.
frame_test(08_large_ring 3 SUFFIX cap LABELS gpu
           ARGS --size 8k --frames 20 --cap 64m)
frame_test(08_large_ring 2 SUFFIX small_chunks LABELS gpu
           ARGS --size 40x3 --frames 5 --chunk 16 --cap 4k)
frame_sentence(08_large_ring alone 0 2 "start two or more")
frame_sentence(08_large_ring size 0 2 "unusable option '--size 8kk'" --size 8kk)
frame_sentence(08_large_ring too_large 2 1 "WHARF_ENOMEM" --size 65536x65536
               --slots 1000)
