# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Read by check.sh: the checks that read code for faults. `shell` and
# `duplicates` take a few seconds, `cppcheck` about 10, and `tidy` 1.5 s of a
# core for each file, three to five minutes in all, so that these two run by
# name or by `all`.

# Looks for a program under these names and prints the one that is here.
find_tool() { # CHECK NAME...
    local check=$1 name
    shift
    for name; do
        if command -v "$name" >/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "skipped: $check: $1 is not here (Debian: apt-get install $1)" >&2
    return 77
}

# .clang-tidy says which checks and why not others. What it can know of flags
# is in the compile commands of a configured build.
check_tidy() {
    local tool build=${WHARF_BUILD:-build} files log
    tool=$(find_tool tidy clang-tidy-14 clang-tidy) || return 77
    if [ ! -e "$build/compile_commands.json" ]; then
        echo "skipped: tidy: $build is not configured: cmake --preset default" \
            "(or set WHARF_BUILD)"
        return 77
    fi
    mapfile -t files < <(sources c runtime | while read -r file; do
        ! grep -qF "/$file\"" "$build/compile_commands.json" || echo "$file"
    done)
    # gcc's flags: warnings that clang does not know, errors that are none.
    log=$(printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" "$tool" \
        --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option \
        --extra-arg=-Wno-error 2>&1) || true
    # A finding, or a file that could not be read.
    grep -E '(warning|error): ' <<<"$log" | sed "s,^$PWD/,," | sort -u |
        complain "$tool finds faults: mend them, or say at the line why not:" \
            "/* NOLINT(name): reason */"
}

# `style` stays off: where variables are declared is a matter of taste.
check_cppcheck() {
    local tool
    tool=$(find_tool cppcheck cppcheck) || return 77
    "$tool" --quiet --std=c11 --inline-suppr --error-exitcode=0 \
        --enable=warning,performance,portability -j "$(nproc)" -D_GNU_SOURCE= \
        -I include -I runtime --template='{file}:{line}: {id}: {message}' \
        runtime 2>&1 |
        complain "cppcheck finds faults: mend them, or say in the line before" \
            "why not: /* cppcheck-suppress id ; reason */"
}

check_duplicates() {
    local files
    mapfile -t files < <(sources 'c|h' runtime/base runtime/comm runtime/topo \
        runtime/device runtime/core)
    perl scripts/duplicates.pl "${files[@]}" 2>&1 |
        complain "the same logic twice: make it one function, or say why not" \
            "in a comment that begins with Alike: in one of the two"
}

check_shell() {
    local tool files
    tool=$(find_tool shell shellcheck) || return 77
    mapfile -t files < <(sources sh scripts tests mpi_examples)
    # SC1091: files that are read by others are given themselves.
    # SC2154: and have variables of those others.
    "$tool" -x -S warning -f gcc -e SC1091,SC2154 "${files[@]}" .ci/run |
        complain "$tool finds faults: mend them, or say in the line before" \
            "why not: # shellcheck disable=SC... and a reason"
}
