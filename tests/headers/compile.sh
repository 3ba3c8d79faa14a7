#!/bin/sh
# SPDX-License-Identifier: MIT
#
# compile.sh HEADER c11|c++17|cuda COMPILER FLAG...: the header compiles alone,
# and twice over, without a warning.
set -eu
header=$1 language=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
source=$scratch/source
printf '#include <%s>\n#include <%s>\nextern int unused;\n' \
    "$header" "$header" >"$source"
case $language in
cuda)
    "$@" -x cu -std=c++17 -arch=sm_80 -Werror all-warnings -Xcompiler -Wall \
        -c -o "$scratch/object" "$source"
    ;;
c11)
    "$@" -x c -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$source"
    ;;
*)
    "$@" -x c++ -std="$language" -Wall -Wextra -Wpedantic -Werror \
        -fsyntax-only "$source"
    ;;
esac
