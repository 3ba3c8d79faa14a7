#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh STEP SOURCE BUILD SCRATCH CMAKE [LAUNCHER...]: one step of the test of
# the installed package.
#   files     installs, compares what is there with files.txt, moves it
#   cmake     builds the consumer with find_package(Wharf), shared and static
#   pkgconfig builds it with pkg-config, shared and static
#   example   builds the examples alone, from a copy outside the repository
#   deb, chroot   the Debian packages, see deb.sh
#   spack     the recipe for Spack fits the CMake files
# LIBDIR, BINDIR, MANDIR, VERSION, SOVERSION, FORTRAN, PAGES, CC, CXX and FC come
# from the environment.
set -eu
LC_ALL=C
export LC_ALL

step=$1 source=$2 build=$3 scratch=$4 cmake=$5
shift 5
prefix=$scratch/moved

die() {
    echo "$*" >&2
    exit 1
}

# What files.txt tells of this build, in a library directory.
installed_files() { # LIBDIR
    fortran=$([ "$FORTRAN" = 1 ] && echo 's|@FORTRAN@||' || echo '/@FORTRAN@/d')
    pages=$([ "$PAGES" = 1 ] && echo 's|@PAGES@||' || echo '/@PAGES@/d')
    sed -e '/^#/d' -e "$fortran" -e "$pages" -e "s|@LIBDIR@|$1|" \
        -e "s|@BINDIR@|$BINDIR|" -e "s|@MANDIR@|$MANDIR|" \
        -e "s|@VERSION@|$VERSION|" -e "s|@SOVERSION@|$SOVERSION|" \
        -e "s|@CONFIG@|$CONFIG|" "$source/tests/install/files.txt" | sort
}

# A test of the build's library would prove nothing.
uses_installed() {
    ldd "$1" | grep -q "$prefix/.*libwharf\.so" ||
        die "$1 does not use the installed library: $(ldd "$1")"
}

step_files() {
    rm -rf "$scratch"
    "$cmake" --install "$build" --prefix "$scratch/first" >"$scratch.log"
    mv "$scratch/first" "$prefix"
    # Not the pages of the calls and the reference, which are there once they
    # were made: the tests in docs/ look at them.
    (cd "$prefix" && find . \( -type f -o -type l \) | sed 's|^\./||' |
        grep -v -e /man3/ -e '^share/doc/' | sort) >"$scratch/found"
    installed_files "$LIBDIR" >"$scratch/expected"
    diff -u "$scratch/expected" "$scratch/found" ||
        die "the installed files are not those of tests/install/files.txt"

    # Nothing in it may point back to where it was built or first installed.
    if grep -rIl -e "$build" -e "$source" -e "$scratch/first" "$prefix"; then
        die "these installed files hold paths of the build"
    fi
    for binary in "$prefix/$LIBDIR/libwharf.so" "$prefix/$BINDIR"/*; do
        [ ! -e "$binary" ] || ! readelf -d "$binary" |
            grep -E 'R(UN)?PATH' | grep -F "$build" ||
            die "$binary has the build directory in its run path"
    done
}

step_cmake() {
    rm -rf "$scratch/cmake"
    "$cmake" -S "$source/tests/install/consumer" -B "$scratch/cmake" \
        -DMPI_EXECUTABLE_SUFFIX="$MPISUFFIX" \
        -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_CXX_COMPILER="${CXX:-NOTFOUND}" \
        -DCMAKE_Fortran_COMPILER="${FC:-NOTFOUND}" \
        -DCMAKE_C_FLAGS="$CFLAGS"
    "$cmake" --build "$scratch/cmake"
    uses_installed "$scratch/cmake/consumer_shared"
    "$@" "$scratch/cmake/consumer_shared"
    "$@" "$scratch/cmake/consumer_static"
    for language in cpp fortran; do
        consumer=$scratch/cmake/consumer_$language
        if [ -e "$consumer" ]; then
            uses_installed "$consumer"
            "$@" "$consumer"
        else
            echo "consumer_$language: left out, no compiler"
        fi
    done
}

step_pkgconfig() {
    for tool in pkg-config "$MPICC"; do
        command -v "$tool" >/dev/null || {
            echo "skipped: $tool is needed"
            exit 77
        }
    done
    PKG_CONFIG_PATH=$prefix/$LIBDIR/pkgconfig
    export PKG_CONFIG_PATH
    [ "$(pkg-config --modversion wharf)" = "$VERSION" ] ||
        die "pkg-config says version $(pkg-config --modversion wharf)"
    mkdir -p "$scratch/pc"
    consumer=$source/tests/install/consumer/consumer.c
    # shellcheck disable=SC2046,SC2086 # flags are words
    "$MPICC" $CFLAGS $(pkg-config --cflags wharf) "$consumer" \
        -o "$scratch/pc/shared" $(pkg-config --libs wharf) \
        -Wl,-rpath,"$(pkg-config --variable=libdir wharf)"
    uses_installed "$scratch/pc/shared"
    "$@" "$scratch/pc/shared"
    # shellcheck disable=SC2046,SC2086
    "$MPICC" $CFLAGS $(pkg-config --cflags wharf) "$consumer" \
        -o "$scratch/pc/static" \
        $(pkg-config --static --libs wharf | sed 's/-lwharf/-l:libwharf.a/')
    ! ldd "$scratch/pc/static" | grep libwharf ||
        die "the static consumer needs libwharf.so"
    "$@" "$scratch/pc/static"
}

step_example() {
    rm -rf "$scratch/examples" "$scratch/examples-build"
    cp -R "$source/mpi_examples" "$scratch/examples"
    # Other languages are the consumer's part.
    "$cmake" -S "$scratch/examples" -B "$scratch/examples-build" \
        -DMPI_EXECUTABLE_SUFFIX="$MPISUFFIX" \
        -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_CXX_COMPILER=NOTFOUND -DCMAKE_Fortran_COMPILER=NOTFOUND \
        -DCMAKE_C_FLAGS="$CFLAGS"
    "$cmake" --build "$scratch/examples-build" --target 01_hello
    uses_installed "$scratch/examples-build/01_hello"
    "$@" "$scratch/examples-build/01_hello"
}

step_spack() {
    command -v python3 >/dev/null || {
        echo "skipped: python3 is needed"
        exit 77
    }
    python3 "$source/tests/install/spack.py" "$source"
}

. "$source/tests/install/deb.sh"
# In one line: a shell reads its script while it goes, and some steps take minutes.
"step_$step" "$@"; exit 0
