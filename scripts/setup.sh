# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Read by demo.sh and test.sh, which start in the repository's root: installs
# what the build needs if it is missing, configures, builds, launches.

# shellcheck source=scripts/launcher.sh
. scripts/launcher.sh

say() {
    printf '== %s\n' "$*"
}

stop() {
    printf '== %s\n' "$*" >&2
    exit 1
}

# Shows what a command prints only if it fails: apt's hundreds of lines hide
# what a reader looks for.
quiet() { # COMMAND...
    local log code=0
    log=$(mktemp) || return 1
    "$@" >"$log" 2>&1 || code=$?
    [ $code -eq 0 ] || cat "$log"
    rm -f "$log"
    return $code
}

# A command that prints a version "N.M": at least this one?
version_least() { # WANTED COMMAND...
    local wanted=$1 found
    shift
    found=$("$@" 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)
    [ -n "$found" ] &&
        [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ]
}

has_header() { # HEADER
    echo "#include <$1>" | cc -E - >/dev/null 2>&1
}

# What is missing, as Debian and Ubuntu name it. Asks for the thing and not for
# the package: it may have come another way.
missing_packages() {
    local packages=()
    command -v cc >/dev/null && command -v c++ >/dev/null &&
        command -v make >/dev/null && has_header stdlib.h ||
        packages+=(build-essential)
    version_least 3.22 cmake --version || packages+=(cmake)
    command -v ninja >/dev/null || packages+=(ninja-build)
    command -v perl >/dev/null || packages+=(perl)
    command -v mpirun >/dev/null || packages+=(openmpi-bin)
    command -v mpicc >/dev/null || packages+=(libopenmpi-dev)
    command -v pkg-config >/dev/null || packages+=(pkg-config)
    pkg-config --exists hwloc 2>/dev/null || packages+=(libhwloc-dev)
    has_header zlib.h || packages+=(zlib1g-dev)
    has_header png.h || packages+=(libpng-dev)
    [ ${#packages[@]} -eq 0 ] || printf '%s\n' "${packages[@]}"
}

setup_packages() {
    local packages root=()
    mapfile -t packages < <(missing_packages)
    if [ ${#packages[@]} -eq 0 ]; then
        say "everything that the build needs is here"
        return
    fi
    command -v apt-get >/dev/null ||
        stop "please install what these Debian packages hold: ${packages[*]}"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            stop "as root, please run: apt-get install ${packages[*]}"
        root=(sudo)
    fi
    say "installing ${packages[*]} (this may take some minutes)"
    quiet "${root[@]}" apt-get -q update ||
        say "no fresh package lists, trying anyway"
    quiet "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        --no-install-recommends install "${packages[@]}" ||
        stop "apt-get could not install ${packages[*]}"
}

# Doxygen is small where clang's libraries are already; elsewhere it brings 40 MB
# of them, which is for whoever asks for it.
doxygen_wanted() { # asked for: 1
    ! command -v doxygen >/dev/null &&
        { [ -n "${1:-}" ] ||
            PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -q 'libclang-cpp\.so'; }
}

# What only tests need: the Python examples, hosts made of namespaces, the
# reference. What cannot be installed is no reason to stop: these tests are
# skipped.
setup_test_packages() { # DOCS: 1 with what the reference needs in any case,
    # MPICH: 1 with a second MPI
    local packages=(python3-mpi4py python3-numpy) python root=()
    for python in python3 /usr/bin/python3; do
        ! "$python" -c 'import mpi4py, numpy' 2>/dev/null || packages=()
    done
    PATH=$PATH:/usr/sbin:/sbin command -v ip >/dev/null || packages+=(iproute2)
    # Without its screens it brings four small packages.
    command -v gnuplot >/dev/null || packages+=(gnuplot-nox)
    ! doxygen_wanted "${1:-}" || packages+=(doxygen)
    # Beside Open MPI, which stays what mpicc and mpirun are.
    [ -z "${2:-}" ] || command -v mpicc.mpich >/dev/null ||
        packages+=(mpich libmpich-dev)
    [ ${#packages[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || return 0
        root=(sudo -n)
    fi
    say "installing ${packages[*]}"
    quiet "${root[@]}" apt-get -q -o Acquire::Retries=0 update ||
        say "no fresh package lists, trying anyway"
    quiet "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        --no-install-recommends install "${packages[@]}" ||
        say "not installed: tests that need ${packages[*]} are skipped"
}

# A tree copied or moved together with its build directory.
forget_foreign_cache() { # DIRECTORY
    local cache=$1/CMakeCache.txt
    if [ -e "$cache" ] && ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache"; then
        say "$1 was configured for another place: starting afresh"
        rm -rf "$cache" "$1/CMakeFiles"
    fi
}

setup_configure() { # PRESET DIRECTORY [OPTION...]
    local preset=$1 directory=$2 generator=()
    shift 2
    forget_foreign_cache "$directory"
    [ -e "$directory/CMakeCache.txt" ] || generator=(-G Ninja)
    cmake --preset "$preset" -B "$directory" "${generator[@]}" "$@"
}

setup_build() { # DIRECTORY [TARGET...]
    local directory=$1
    shift
    cmake --build "$directory" --parallel "$(nproc)" ${1:+--target "$@"}
}

# A GPU with its driver, not just the toolkit.
gpu_here() {
    local devices
    if command -v nvidia-smi >/dev/null; then
        devices=$(nvidia-smi -L 2>/dev/null) && [ -n "$devices" ]
    else
        [ -e /dev/nvidia0 ] && PATH=$PATH:/sbin ldconfig -p | grep -q 'libcuda\.so\.1'
    fi
}

launch() { # RANKS PROGRAM ARGUMENT...
    local ranks=$1 launcher
    shift
    find_launcher
    say "${launcher[*]} -n $ranks $*"
    "${launcher[@]}" -n "$ranks" "$@"
}
