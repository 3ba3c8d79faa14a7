#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh STEP SOURCE SCRATCH VERSION BUILD: one step of the test of the
# documentation.
#   reference  Doxygen is content with every public header, every call has a
#              page with all that it must say, and the pages are sound
#   refused    a header that lacks something is found out, with its place
#   installed  the target docs makes them, and they are installed
#   tools      the tools' pages tell what the tools tell
# CMAKE, MANDIR and DATADIR come from the environment.
set -eu
LC_ALL=C
export LC_ALL

step=$1 source=$2 scratch=$3 version=$4 build=$5
pages=$source/scripts/docs/pages.sh

die() {
    echo "$*" >&2
    exit 1
}

# groff names what a page does that it does not know.
sound() { # PAGE...
    command -v groff >/dev/null || return 0
    complaints=$(cat "$@" | groff -man -ww -z 2>&1) || true
    [ -z "$complaints" ] || die "groff does not like the pages: $complaints"
}

step_reference() {
    sh "$pages" "$source" "$scratch" "$version" || exit $?
    [ -s "$scratch/html/index.html" ] || die "no start page"
    page=$scratch/man3/wharf_buffer_attach.3
    for section in NAME SYNOPSIS DESCRIPTION PARAMETERS 'RETURN VALUE' 'SEE ALSO'; do
        grep -qx ".SH $section" "$page" || die "$page has no $section"
    done
    grep -q 'Collective on node' "$page" || die "$page lost its description"
    grep -q 'size' "$page" || die "$page lost a parameter"
    for page in wharf wharf-exchange.h wharf_buffer_options wharf_status \
        wharf_device_wait; do
        [ -s "$scratch/man3/$page.3" ] || die "no page $page"
    done
    # What a list macro makes is told, too.
    grep -q 'WHARF_EPEER = 40' "$scratch/man3/wharf_status.3" ||
        die "wharf_status(3) does not tell its values"
    for page in "$scratch"/man3/wharf_*.3; do
        grep -q '^\.SH DESCRIPTION$' "$page" || die "$page describes nothing"
    done
    if grep -rIl "$source" "$scratch/html" "$scratch/man3"; then
        die "these hold paths of the build"
    fi
    sound "$scratch"/man3/*.3
}

refuses() { # WHAT TEXT
    code=0
    sh "$pages" "$scratch/tree" "$scratch/out" "$version" >"$scratch/said" 2>&1 ||
        code=$?
    [ $code -ne 77 ] || {
        cat "$scratch/said"
        exit 77
    }
    [ $code -eq 1 ] || die "$1 was not found out"
    grep -q "$2" "$scratch/said" || die "$1: said only: $(cat "$scratch/said")"
}

step_refused() {
    rm -rf "$scratch"
    mkdir -p "$scratch/tree/include/wharf" "$scratch/tree/scripts"
    cp -R "$source/scripts/docs" "$source/scripts/check.sh" "$scratch/tree/scripts"
    header=$scratch/tree/include/wharf/wharf.h
    cat >"$scratch/good" <<'EOF'
/* SPDX-License-Identifier: MIT */
/* A header. */
#ifndef WHARF_WHARF_H
#define WHARF_WHARF_H

/**
 * Does a thing.
 *
 * Local.
 *
 * @param a one
 * @param b two
 * @return 0
 */
WHARF_API int wharf_a_thing(int a, int b);

#endif
EOF
    grep -v '@param b' "$scratch/good" >"$header"
    refuses "a parameter that is not described" "wharf.h:.*not documented"
    sed 's/@param b two/@param c two/' "$scratch/good" >"$header"
    refuses "a parameter that does not exist" "wharf.h:.*'c' of command"
    sed 's/ \* Local\./ * Local. @unheard/' "$scratch/good" >"$header"
    refuses "a command that does not exist" "wharf.h:.*unheard"
    sed '/^\/\*\*$/,/^ \*\/$/d' "$scratch/good" >"$header"
    refuses "a call without a comment" "no page: wharf_a_thing"
    cp "$scratch/good" "$header"
    sh "$pages" "$scratch/tree" "$scratch/out" "$version" ||
        die "a good header was refused"
}

step_installed() {
    command -v doxygen >/dev/null || {
        echo "skipped: doxygen is needed"
        exit 77
    }
    rm -rf "$scratch"
    "$CMAKE" --build "$build" --target docs >"$scratch.log" 2>&1 || {
        ! grep -q 'install them and configure again' "$scratch.log" || {
            echo "skipped: configured when doxygen was missing"
            exit 77
        }
        die "no target docs: $(cat "$scratch.log")"
    }
    for part in development documentation; do
        "$CMAKE" --install "$build" --prefix "$scratch" \
            --component "wharf_$part" >/dev/null
    done
    for file in "$MANDIR/man3/wharf_buffer_attach.3" "$MANDIR/man3/wharf.3" \
        "$DATADIR/doc/wharf/html/index.html" include/wharf/wharf.h; do
        [ -s "$scratch/$file" ] || die "$file is not installed"
    done
    [ ! -e "$scratch/bin" ] || die "development holds tools"
    ! command -v man >/dev/null || [ "$(MANPATH=$scratch/$MANDIR man -w wharf_put)" = \
        "$scratch/$MANDIR/man3/wharf_put.3" ] || die "man does not find wharf_put"
}

step_tools() {
    for tool in wharf-info wharf-bench; do
        page=$build/docs-tools/$tool.1
        [ -s "$page" ] || die "no page of $tool"
        # Words of the page as they are read, without the marks for roff.
        sed -e 's/\\//g' "$page" >"$scratch.$tool"
        "$build/bin/$tool" --help >"$scratch.help"
        for option in $(sed -n 's/^  \(--[a-z-]*\).*/\1/p' "$scratch.help"); do
            grep -q "^\.B $option" "$scratch.$tool" ||
                die "$page says nothing of $option"
        done
        [ "$(grep -c '^\.TP' "$scratch.$tool")" -gt 4 ] || die "$page is empty"
        sound "$page"
    done
    for setting in $("$build/bin/wharf-info" --environment | sed -n 's/^\(WHARF_[A-Z_]*\)=.*/\1/p'); do
        grep -q "$setting" "$scratch.wharf-info" ||
            die "wharf-info(1) says nothing of $setting"
    done
}

"step_$step"
